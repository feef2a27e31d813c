package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"decisionjournal/journal"
)

func readBatch(text string) []Line { return slices.Collect(ReadBatch(strings.NewReader(text))) }

// shown is a line in short: id, tool, arguments verbatim and canonical, or the
// error.
func shown(l Line) string {
	if l.Err != nil {
		return l.Call.ID + " ! " + l.Err.Error()
	}
	return strings.Join([]string{l.Call.ID, l.Call.Tool, string(l.Call.Arguments), string(l.Canonical)}, " ")
}

func TestReadBatch(t *testing.T) {
	const good = `{"id":"a","function":{"name":"x","arguments":{}}}`
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"empty":             {"", nil},
		"blank lines":       {"\n \t\r\n\n", nil},
		"object arguments":  {`{"id":"a","type":"function","function":{"name":"x","arguments":{ "b" : 1.0, "a":2 }}}`, []string{`a x { "b" : 1.0, "a":2 } {"a":2,"b":1.0}`}},
		"string arguments":  {`{"id":"a","function":{"name":"x","arguments":" { \"b\" : \"\\u00e9\" }\n"}}`, []string{"a x  { \"b\" : \"\\u00e9\" }\n {\"b\":\"é\"}"}},
		"no end of line":    {good + "\r\n" + good, []string{"a x {} {}", "a x {} {}"}},
		"byte order mark":   {"\uFEFF" + good, []string{"a x {} {}"}},
		"unknown members":   {`{"index":0,"id":"a","function":{"name":"x","arguments":{},"strict":true}}`, []string{"a x {} {}"}},
		"array":             {"[" + good + ", " + good + "]", []string{"a x {} {}", "a x {} {}"}},
		"assistant message": {`{"role":"assistant","content":null,"tool_calls":[` + good + `]}`, []string{"a x {} {}"}},
		"goes on after faults": {"{\n" + good + "\nnope\n" + good, []string{
			" ! line 1: the text ends early; write each line as one whole JSON value", "a x {} {}",
			" ! line 3: want a JSON object or array; write each line as one whole JSON value", "a x {} {}"}},
		"a fault in an array": {`[` + good + `,{"id":"b","id":"b"},7,` + good + `]`, []string{
			"a x {} {}", ` ! line 1, call 2: JSON at byte 19: the key "id" stands twice in one object`,
			" ! line 1, call 3: a call must be an object, not the number 7", "a x {} {}"}},
		"empty array":         {"[]", []string{" ! line 1: there is no call in it; leave the line out"}},
		"empty tool_calls":    {`{"tool_calls":[]}`, []string{" ! line 1: there is no call in it; leave the line out"}},
		"tool_calls no array": {`{"tool_calls":null}`, []string{` ! line 1: "tool_calls" must be an array of calls; write each line as one whole JSON value`}},
		"tool_calls twice":    {`{"tool_calls":[],"tool_calls":[]}`, []string{` ! line 1: the key "tool_calls" stands twice in one object; write each line as one whole JSON value`}},
		"bad around tool_calls": {`{"content":{"a":1,"a":2},"tool_calls":[` + good + `]}`, []string{
			` ! line 1: "content": JSON at byte 13: the key "a" stands twice in one object; write each line as one whole JSON value`}},
		"broken array":  {`[` + good + `,{]`, []string{` ! line 1: invalid character ']' looking for beginning of object key string; write each line as one whole JSON value`}},
		"more text":     {good + " " + good, []string{"a ! line 1: more text after the value; write each line as one whole JSON value"}},
		"cut off":       {good[:len(good)-3], []string{"a ! line 1: the text ends early; write each line as one whole JSON value"}},
		"scalar":        {`"a"`, []string{" ! line 1: want a JSON object or array; write each line as one whole JSON value"}},
		"no id":         {`{"function":{"name":"x","arguments":{}}}`, []string{` ! line 1: "id" is missing; give the call one`}},
		"empty id":      {`{"id":"","function":{"name":"x","arguments":{}}}`, []string{` ! line 1: "id" may not be empty`}},
		"number id":     {`{"id":1,"function":{"name":"x","arguments":{}}}`, []string{` ! line 1: "id" must be a string, not the number 1`}},
		"letter case":   {`{"ID":"a","function":{"name":"x","arguments":{}}}`, []string{` ! line 1: "id" is missing; give the call one`}},
		"two ids":       {`{"id":"a","id":"b","function":{}}`, []string{` ! line 1: JSON at byte 33: the key "id" stands twice in one object`}},
		"custom":        {`{"id":"a","type":"custom","custom":{"name":"x","input":""}}`, []string{`a ! line 1: "type" must be "function", not "custom"`}},
		"null type":     {`{"id":"a","type":null,"function":{"name":"x","arguments":{}}}`, []string{`a ! line 1: "type" must be "function", not null`}},
		"no function":   {`{"id":"a"}`, []string{`a ! line 1: "function" is missing; write {"id":...,"function":{"name":...,"arguments":{...}}}`}},
		"function text": {`{"id":"a","function":"x"}`, []string{`a ! line 1: "function" must be an object, not a string`}},
		"no name":       {`{"id":"a","function":{"arguments":{}}}`, []string{`a ! line 1: "name" is missing; give the call one`}},
		"wrong name":    {`{"id":"a","function":{"name":{},"arguments":{}}}`, []string{`a ! line 1: "name" must be a string, not an object`}},
		"no arguments":  {`{"id":"a","function":{"name":"x"}}`, []string{`a ! line 1: "arguments" is missing; write {} for none`}},
		"empty arguments": {`{"id":"a","function":{"name":"x","arguments":" "}}`, []string{
			`a ! line 1: "arguments" is an empty string, which is no JSON; write {} for none`}},
		"null arguments":  {`{"id":"a","function":{"name":"x","arguments":null}}`, []string{`a ! line 1: "arguments" must be a JSON object, not null`}},
		"array arguments": {`{"id":"a","function":{"name":"x","arguments":"[1]"}}`, []string{`a ! line 1: "arguments" must be a JSON object, not an array`}},
		"broken arguments": {`{"id":"a","function":{"name":"x","arguments":"{\"a\":"}}`, []string{
			`a ! line 1: "arguments" must be a JSON object: JSON at byte 5: the text ends early`}},
		"twice in arguments": {`{"id":"a","function":{"name":"x","arguments":"{\"a\":1,\"a\":1}"}}`, []string{
			`a ! line 1: "arguments" must be a JSON object: JSON at byte 13: the key "a" stands twice in one object`}},
		"invalid UTF-8":       {"{\"id\":\"a\",\"function\":{\"name\":\"x\xff\",\"arguments\":{}}}", []string{`a ! line 1: JSON at byte 32: invalid UTF-8 in a string`}},
		"invalid UTF-8 in id": {"{\"id\":\"\xff\",\"function\":{\"name\":\"x\",\"arguments\":{}}}", []string{` ! line 1: JSON at byte 8: invalid UTF-8 in a string`}},
		"lone surrogate":      {`{"id":"a","function":{"name":"x","arguments":{"a":"\ud800"}}}`, []string{`a ! line 1: JSON at byte 57: lone surrogate in a string`}},
		"deep":                {`{"id":"a","function":{"name":"x","arguments":{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}}}`, []string{`a ! line 1: JSON at byte 559: nested deeper than 512 levels`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, l := range readBatch(c.text) {
				got = append(got, shown(l))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadBatchNumbers(t *testing.T) {
	const call = `{"id":"a","function":{"name":"x","arguments":{}}}`
	var got [][2]int
	for _, l := range readBatch("\n" + call + "\n\n[" + call + "," + call + "]\nnope\n" + call) {
		got = append(got, [2]int{l.Number, l.Group})
	}
	want := [][2]int{{2, 1}, {4, 2}, {4, 2}, {5, 3}, {6, 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadBatchStops(t *testing.T) {
	const call = `{"id":"a","function":{"name":"x","arguments":{}}}`
	for range ReadBatch(strings.NewReader("[" + call + "," + call + "]\n" + call)) {
		break // the sequence must take no for an answer
	}
	broken := errors.New("the disk is gone")
	lines := slices.Collect(ReadBatch(io.MultiReader(strings.NewReader(call+"\n"+call[:9]), iotest.ErrReader(broken))))
	if len(lines) != 2 || lines[0].Err != nil || !errors.Is(lines[1].Err, broken) {
		t.Fatalf("got %v", lines)
	}
	if want := "line 2: reading failed: the disk is gone; run the batch again"; lines[1].Err.Error() != want {
		t.Errorf("got %q, want %q", lines[1].Err, want)
	}
}

func TestReadBatchLongLines(t *testing.T) {
	call := func(n int) string {
		const head, tail = `{"id":"a","function":{"name":"x","arguments":{"c":"`, `"}}}`
		return head + strings.Repeat("z", n-len(head)-len(tail)) + tail
	}
	lines := readBatch(call(MaxLine) + "\n" + call(MaxLine+1) + "\n" + call(3*MaxLine) + "\n" + call(100))
	if len(lines) != 4 {
		t.Fatalf("%d lines, want 4", len(lines))
	}
	for i, good := range []bool{true, false, false, true} {
		l := lines[i]
		if (l.Err == nil) != good || l.Call.ID != "a" || l.Number != i+1 {
			t.Errorf("line %d: id %q, %v", l.Number, l.Call.ID, l.Err)
		}
	}
	if want := "line 2: longer than 8388608 bytes; pass large content some other way"; lines[1].Err.Error() != want {
		t.Errorf("got %q, want %q", lines[1].Err, want)
	}
}

func TestRefuseDuplicates(t *testing.T) {
	call := func(id string) string { return `{"id":"` + id + `","function":{"name":"x","arguments":{}}}` }
	text := strings.Join([]string{call("a"), call("b"), call("a"), "nope", "nope", `{"id":"c"}`, "[" + call("c") + "," + call("d") + "," + call("d") + "]"}, "\n")
	var got []string
	for l := range RefuseDuplicates(ReadBatch(strings.NewReader(text))) {
		mark := "ok"
		if l.Err != nil {
			mark, _, _ = strings.Cut(l.Err.Error(), ";")
		}
		got = append(got, l.Call.ID+": "+mark)
	}
	nope := ": line %: want a JSON object or array"
	want := []string{"a: ok", "b: ok", `a: line 3: the id "a" was used on line 1 already`,
		strings.Replace(nope, "%", "4", 1), strings.Replace(nope, "%", "5", 1), `c: line 6: "function" is missing`,
		`c: line 7: the id "c" was used on line 6 already`, "d: ok", `d: line 7: the id "d" was used on line 7 already`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWriteResult(t *testing.T) {
	for want, m := range map[string]ToolMessage{
		`{"role":"tool","tool_call_id":"a","content":"<b> & \u2028 done","is_error":false}`: {ToolCallID: "a", Content: json.RawMessage(`"<b> & \u2028 done"`)},
		`{"role":"tool","tool_call_id":"","content":"no","is_error":true}`:                  {Role: "user", Content: Text("no"), IsError: true},
		`{"role":"tool","tool_call_id":"a","content":"wait","is_error":true,"pending":"q"}`: {ToolCallID: "a", Content: Text("wait"), IsError: true, Pending: "q"},
		`{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"x"}],"is_error":false}`: {
			ToolCallID: "a", Content: json.RawMessage("[\n {\"type\": \"text\",\n \"text\": \"x\"} ]")},
		`{"role":"tool","tool_call_id":"a","content":"the result cannot be read: JSON at byte 0: the text ends early","is_error":true}`: {ToolCallID: "a"},
	} {
		var out bytes.Buffer
		if err := WriteResult(&out, m); err != nil {
			t.Error(err)
		}
		if got := out.String(); got != want+"\n" {
			t.Errorf("got  %swant %s", got, want)
		}
	}
	if err := WriteResult(failing{}, ToolMessage{ToolCallID: "a", Content: Text("")}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a failing writer: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// FuzzReadBatch holds every input to: a line in each nonblank line's place and
// order, at least one; a call or an error, never both; a call that is strict
// JSON and whose id is the one that was written.
func FuzzReadBatch(f *testing.F) {
	seed, err := os.ReadFile("../../testdata/batches/tour.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	for _, s := range []string{"", "\n\n", "{}", "[]", "[1,{}]", `{"id":"a"}`, `{"tool_calls":[{"id":"a"}]}`, `{"id":"a","id":"b"}`,
		`{"a":1,}`, `{"a"`, `{,}`, `{"a":1]`, `[{]`, "\uFEFF{}", "\xef\xbb\xbf\n", `{"id":"a","function":{"name":"x","arguments":"{}"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want := nonblank(text)
		group := 0
		for l := range ReadBatch(bytes.NewReader(text)) {
			if l.Group == group+1 && group < len(want) && l.Number == want[group] {
				group++
			} else if group == 0 || l.Group != group || l.Number != want[group-1] {
				t.Fatalf("line %d, group %d after group %d; want the lines %v", l.Number, l.Group, group, want)
			}
			if why := lineFault(l); why != "" {
				t.Fatalf("%s: %+v", why, l)
			}
		}
		if group != len(want) {
			t.Fatalf("%d groups for the lines %v", group, want)
		}
	})
}

// nonblank numbers the lines that hold anything.
func nonblank(text []byte) (numbers []int) {
	for i, line := range bytes.Split(bytes.TrimPrefix(text, []byte("\uFEFF")), []byte("\n")) {
		if len(bytes.Trim(line, " \t\r")) > 0 {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

func lineFault(l Line) string {
	canonical, err := journal.Canonical(l.Call.Arguments)
	switch {
	case l.Err != nil && (l.Call.Tool != "" || l.Call.Arguments != nil || l.Canonical != nil):
		return "an error with a call"
	case l.Err != nil && strings.ContainsAny(l.Err.Error(), "\n\r"):
		return "an error of several lines"
	case l.Err != nil:
		return ""
	case l.Call.ID == "" || l.Call.Tool == "":
		return "a call without id or name"
	case err != nil || canonical[0] != '{' || !bytes.Equal(canonical, l.Canonical):
		return "arguments that are not strict"
	}
	return ""
}

// FuzzReadBatchRoundTrip writes a call with any id and name, and reads it.
func FuzzReadBatchRoundTrip(f *testing.F) {
	f.Add("call_1", "fs_read", "a/b", true)
	f.Add("é\n", "\u2028", "\x00", false)
	f.Fuzz(func(t *testing.T, id, name, value string, asText bool) {
		id, name = strings.ToValidUTF8(id, ""), strings.ToValidUTF8(name, "")
		if id == "" || name == "" {
			return
		}
		args := marshal(map[string]string{"v": value})
		var arguments any = json.RawMessage(args)
		if asText {
			arguments = string(args)
		}
		line := marshal(map[string]any{"id": id, "function": map[string]any{"name": name, "arguments": arguments}})
		lines := readBatch(string(line))
		if len(lines) != 1 || lines[0].Err != nil {
			t.Fatalf("%s: %v", line, lines)
		}
		want := Call{ID: id, Tool: name, Arguments: args}
		if diff := cmp.Diff(want, lines[0].Call); diff != "" {
			t.Fatal(diff)
		}
	})
}
