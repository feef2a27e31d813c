package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"decisionjournal/journal"
)

// providerFunc is a provider without tools that runs calls by a function.
type providerFunc func(context.Context, []Call) []Result

func (providerFunc) Tools(context.Context) ([]Tool, error)                { return nil, nil }
func (f providerFunc) Execute(ctx context.Context, calls []Call) []Result { return f(ctx, calls) }

func returning(results ...Result) providerFunc {
	return func(context.Context, []Call) []Result { return results }
}

func TestExecute(t *testing.T) {
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the agent left"))
	ok := Result{Content: json.RawMessage(`"fine"`)}
	lost := "; the call may have had its effect: look before calling again"
	for name, c := range map[string]struct {
		ctx   context.Context
		p     Provider
		calls int
		want  []Result
	}{
		"good":     {p: returning(ok, ok), calls: 2, want: []Result{ok, ok}},
		"no calls": {p: returning(ok), calls: 0, want: []Result{}},
		"no provider": {calls: 1, want: []Result{
			{Content: Text("not run: there is no provider for this tool"), IsError: true, NotRun: true}}},
		"done before": {ctx: cancelled, p: returning(ok), calls: 1, want: []Result{
			{Content: Text("not run: the agent left"), IsError: true, NotRun: true}}},
		"too few": {p: returning(ok), calls: 2, want: repeat(2,
			Result{Content: Text("the provider returned 1 results for 2 calls" + lost), IsError: true, Unknown: true})},
		"too many": {p: returning(ok, ok), calls: 1, want: repeat(1,
			Result{Content: Text("the provider returned 2 results for 1 calls" + lost), IsError: true, Unknown: true})},
		"nil": {p: returning(), calls: 1, want: repeat(1,
			Result{Content: Text("the provider returned 0 results for 1 calls" + lost), IsError: true, Unknown: true})},
		"panic": {p: providerFunc(func(context.Context, []Call) []Result { panic("boom") }), calls: 2, want: repeat(2,
			Result{Content: Text("the provider panicked: boom" + lost), IsError: true, Unknown: true})},
		"goexit": {p: providerFunc(func(context.Context, []Call) []Result { runtime.Goexit(); return nil }), calls: 1, want: repeat(1,
			Result{Content: Text("the provider gave up without returning" + lost), IsError: true, Unknown: true})},
		"zero result": {p: returning(Result{}, ok), calls: 2, want: []Result{
			{Content: Text("the provider returned no result" + lost), IsError: true, Unknown: true}, ok}},
		"not run without a reason": {p: returning(Result{NotRun: true}), calls: 1, want: []Result{
			{Content: Text("not run; the provider gave no reason"), IsError: true, NotRun: true}}},
		"not run and unknown": {p: returning(Result{Content: ok.Content, NotRun: true, Unknown: true}), calls: 1, want: []Result{
			{Content: ok.Content, IsError: true, Unknown: true}}},
		"no JSON": {p: returning(Result{Content: json.RawMessage(`{`)}), calls: 1, want: []Result{
			{Content: Text("the result of the tool cannot be read: JSON at byte 1: want a key in quotes"), IsError: true}}},
		"no content": {p: returning(Result{Content: json.RawMessage(`17`), NotRun: true}), calls: 1, want: []Result{
			{Content: Text("the result of the tool cannot be read: want a string or an array of content blocks"), IsError: true, NotRun: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			got := Execute(ctx, c.p, make([]Call, c.calls))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExecutePassesCallsOn(t *testing.T) {
	calls := []Call{{ID: "a", Tool: "x", Arguments: json.RawMessage(`{ "k" : 1.0 }`)}, {ID: "b", Tool: "y"}}
	var seen []Call
	p := providerFunc(func(_ context.Context, calls []Call) []Result {
		seen = calls
		return []Result{{Content: Text("1")}, {Content: Text("2"), IsError: true}}
	})
	got := Execute(context.Background(), p, calls)
	if diff := cmp.Diff(calls, seen); diff != "" {
		t.Error(diff)
	}
	if string(got[0].Content) != `"1"` || got[0].IsError || string(got[1].Content) != `"2"` || !got[1].IsError {
		t.Errorf("got %s", fmt.Sprint(got))
	}
}

func TestContentFault(t *testing.T) {
	for content, good := range map[string]bool{
		`"text"`:                          true,
		`[]`:                              true,
		`[{"type":"text","text":"a"}]`:    true,
		` [ {"type":"image","data":""} ]`: true,
		``:                                false,
		`null`:                            false,
		`{}`:                              false,
		`[1]`:                             false,
		`[null]`:                          false,
		`[{}]`:                            false,
		`[{"type":""}]`:                   false,
		`[{"type":7777}]`:                 false,
		`"a" "b"`:                         false,
		`[{"type":"a","type":"b"}]`:       false,
		"\"\xff\"":                        false,
	} {
		if why := contentFault(json.RawMessage(content)); (why == "") != good {
			t.Errorf("%s: fault %q, want good %v", content, why, good)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", "<&>\u2028\u2029", "\x00\x1f\x7f\"\\\n", "\xff\xfe", "\U0001F600"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := Text(s)
		if !journal.IsCanonical(text) || contentFault(text) != "" {
			t.Fatalf("%q: not canonical content: %s", s, text)
		}
		var back string
		if err := json.Unmarshal(text, &back); err != nil || back != strings.ToValidUTF8(s, "\uFFFD") {
			t.Fatalf("%q came back as %q, %v", s, back, err)
		}
		if n := fitting([]byte(back), len(text)-2); n != len(back) {
			t.Fatalf("%q: %d of %d bytes are said to fit exactly", s, n, len(back))
		}
		if n := fitting([]byte(back), len(text)-3); back != "" && n >= len(back) || !utf8.ValidString(back[:n]) {
			t.Fatalf("%q: %d bytes are said to fit one byte less", s, n)
		}
	})
}
