package approver_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"decisionjournal/approver"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/inbox/inboxtest"
)

// screen collects what a prompt writes.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// item is the item of a question asked as s says.
func (b *bench) item(s inboxtest.Spec) inbox.Item {
	b.Helper()
	id := b.ask("s", s)
	st, err := b.State(b.Context(), "s")
	b.must(err)
	item, _ := inbox.NewItem(st, id)
	return item
}

// typed asks about item while a person types text after it is shown.
func typed(t *testing.T, item inbox.Item, text string, end bool) (req approver.Request, shown string, err error) {
	in, keys := io.Pipe()
	out := &screen{}
	p := approver.NewPrompt(in, out)
	ctx, cancel := context.WithCancel(t.Context())
	type reply struct {
		req approver.Request
		err error
	}
	replied := make(chan reply, 1)
	go func() {
		req, err := p.Ask(ctx, item)
		replied <- reply{req, err}
	}()
	synctest.Wait()
	if _, err := io.WriteString(keys, text); err != nil {
		t.Fatal(err)
	}
	if end {
		keys.Close()
	}
	synctest.Wait()
	cancel()
	r := <-replied
	keys.Close()
	return r.req, out.text(), r.err
}

func TestPromptReadsWords(t *testing.T) {
	alternatives := func(q *journal.Question) {
		q.Alternatives = append(q.Alternatives, q.Suggestion, q.Suggestion)
	}
	grantable := suggesting()
	grantable.Question = alternatives
	elicitation := inboxtest.Spec{Kind: journal.CallElicitation}
	unanswered := context.Canceled
	for _, test := range []struct {
		name string
		spec inboxtest.Spec
		text string
		want approver.Request
		err  error
	}{
		{"allow", inboxtest.Spec{}, "allow\n", approver.Request{Action: journal.AllowOnce}, nil},
		{"a", inboxtest.Spec{}, "a\n", approver.Request{Action: journal.AllowOnce}, nil},
		{"allow with blanks", inboxtest.Spec{}, "  Allow \r\n", approver.Request{Action: journal.AllowOnce}, nil},
		{"a sentence that begins with a", inboxtest.Spec{}, "a moment please\n", approver.Request{}, unanswered},
		{"a letter without Enter", inboxtest.Spec{}, "a", approver.Request{}, unanswered},
		{"a letter without Enter, and the end", inboxtest.Spec{}, "a", approver.Request{}, approver.ErrQuit},
		{"Enter alone", inboxtest.Spec{}, "\n\n\n", approver.Request{}, unanswered},
		{"y", inboxtest.Spec{}, "y\nyes\n", approver.Request{}, unanswered},
		{"part of a word", inboxtest.Spec{}, "allo\nalw\n", approver.Request{}, unanswered},
		{"deny with a note", inboxtest.Spec{}, "d use  scratch\n", approver.Request{Action: journal.DenyOnce, Note: "use  scratch"}, nil},
		{"deny, then a note", inboxtest.Spec{}, "deny\nuse scratch\n", approver.Request{Action: journal.DenyOnce, Note: "use scratch"}, nil},
		{"deny without a note", inboxtest.Spec{}, "deny\n\n", approver.Request{Action: journal.DenyOnce}, nil},
		{"always", grantable, "always\n", approver.Request{Action: journal.AlwaysAllow}, nil},
		{"never", grantable, "never\nno\n", approver.Request{Action: journal.AlwaysDeny, Note: "no"}, nil},
		{"an alternative that is not there", grantable, "always 3\nalways 0\nalways x\n", approver.Request{}, unanswered},
		{"allow where a note is required", inboxtest.Spec{Note: "say why"}, "a\nbecause\n", approver.Request{Action: journal.AllowOnce, Note: "because"}, nil},
		{"taken back", inboxtest.Spec{Note: "say why"}, "a\n\nd no\n", approver.Request{Action: journal.DenyOnce, Note: "no"}, nil},
		{"skip", inboxtest.Spec{}, "k\n", approver.Request{}, approver.ErrSkip},
		{"quit", inboxtest.Spec{}, "quit\n", approver.Request{}, approver.ErrQuit},
		{"show, then allow", inboxtest.Spec{}, "s\nallow\n", approver.Request{Action: journal.AllowOnce}, nil},
		{"the end", inboxtest.Spec{}, "", approver.Request{}, approver.ErrQuit},
		{"accept", elicitation, `accept {"a":1}` + "\n", approver.Request{Action: journal.Accept, Content: []byte(`{"a":1}`)}, nil},
		{"accept without content", elicitation, "accept\n", approver.Request{}, unanswered},
		{"decline", elicitation, "d no\n", approver.Request{Action: journal.Decline, Note: "no"}, nil},
		{"cancel", elicitation, "cancel\n", approver.Request{Action: journal.Cancel}, nil},
		{"allow of an elicitation", elicitation, "allow\na\n", approver.Request{}, unanswered},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				item := newBench(t).item(test.spec)
				req, out, err := typed(t, item, test.text, errors.Is(test.err, approver.ErrQuit))
				if !errors.Is(err, test.err) {
					t.Fatalf("error %v, want %v; screen:\n%s", err, test.err, out)
				}
				if err == nil && (req.Action != test.want.Action || req.Note != test.want.Note || req.RulesGiven || string(req.Content) != string(test.want.Content)) {
					t.Errorf("got %+v, want %+v", req, test.want)
				}
				if err != nil && req.Action != "" {
					t.Errorf("no answer, and yet %+v", req)
				}
			})
		})
	}
}

func TestPromptTakesAnAlternative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := suggesting()
		spec.Question = func(q *journal.Question) { q.Alternatives = append(q.Alternatives, q.Suggestion) }
		b := newBench(t)
		item := b.item(spec)
		req, _, err := typed(t, item, "never 1\n\n", false)
		b.must(err)
		if req.Action != journal.AlwaysDeny || len(req.Rules) != 1 || string(req.Rules[0]) != `{"tool":"fs_write","under":"notes"}` {
			t.Fatalf("got %+v", req)
		}
		_, err = approver.Answer(t.Context(), b.approver("alice"), approver.Ref{Question: item.ID}, req)
		b.must(err)
	})
}

// TestPromptDropsWhatWasTypedBefore: a line, and half a line, that stand in
// the input before a question is shown do not answer it.
func TestPromptDropsWhatWasTypedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first, second := b.ask("s", inboxtest.Spec{}), ""
		in, keys := io.Pipe()
		defer keys.Close()
		out := &screen{}
		stop := b.serve(approver.NewPrompt(in, out).Frontend())
		// The second allow is typed while the first question is on the screen,
		// and half of a third.
		if _, err := io.WriteString(keys, "allow\nallow\nal"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		second = b.ask("s", inboxtest.Spec{})
		synctest.Wait()
		if n := len(b.votes("s", first)); n != 1 {
			t.Fatalf("the first question has %d answers", n)
		}
		if n := len(b.votes("s", second)); n != 0 {
			t.Fatalf("a line typed before the second question answered it")
		}
		if _, err := io.WriteString(keys, "low\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := len(b.votes("s", second)); n != 0 {
			t.Fatalf("half a line typed before the second question helped to answer it")
		}
		if _, err := io.WriteString(keys, "d no\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		if votes := b.votes("s", second); len(votes) != 1 || votes[0].Action != journal.DenyOnce || votes[0].Via != "terminal" {
			t.Errorf("the second question has %+v", votes)
		}
		if text := out.text(); !strings.Contains(text, "No open questions; waiting.") || !strings.Contains(text, "Answered deny-once.") {
			t.Errorf("the screen shows\n%s", text)
		}
	})
}

func TestPromptIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.ask("s", inboxtest.Spec{})
		in, keys := io.Pipe()
		defer keys.Close()
		out := &screen{}
		stop := b.serve(approver.NewPrompt(in, out).Frontend())
		b.answer(id, "bob", journal.DenyOnce)
		synctest.Wait()
		stop()
		if text := out.text(); !strings.Contains(text, "already answered by bob") {
			t.Errorf("the screen shows\n%s", text)
		}
	})
}
