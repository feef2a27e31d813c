package decider_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

const twoOf = `
rules:
  - {tool: rm, decision: ask, severity: danger}
approval:
  - {severity: danger, who: [{of: [ann, bob]}], need: [{of: [ann, bob], count: 2}]}
`

// forgeQuestion has a decider write another question than the policy asks.
func (b *bench) forgeQuestion(call string, edit func(*journal.Question)) {
	b.t.Helper()
	if err := b.dec.Sync(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	in, err := b.dec.Input(context.Background(), b.session())
	if err != nil {
		b.t.Fatal(err)
	}
	events, err := decider.DecideCall(in, in.State.Call(call))
	if err != nil || len(events) != 1 {
		b.t.Fatalf("%v, %v", events, err)
	}
	q := *events[0].Body.(*journal.Question)
	edit(&q)
	if q.Shown, err = q.ShownDigest(); err != nil {
		b.t.Fatal(err)
	}
	b.must(journal.RoleDecider, "decider", &q)
}

// An answer to a forged question is an answer to something else: its allow is
// not released, and the grant it leaves settles nothing.
func TestForgedQuestions(t *testing.T) {
	anyone := func(q *journal.Question) {
		q.Need, q.Who = []journal.Stage{{Of: []string{}, Count: 1}}, []journal.Entitlement{}
	}
	for name, edit := range map[string]func(*journal.Question){
		"need and who": anyone,
		"view": func(q *journal.Question) {
			anyone(q)
			v, err := q.ReadView()
			if err != nil {
				t.Fatal(err)
			}
			v.Tool, v.Arguments, v.Rule = "fs_read", json.RawMessage(`{"path":"README"}`), nil
			if q.View, err = journal.NewView(v); err != nil {
				t.Fatal(err)
			}
		},
		"deadline": func(q *journal.Question) {
			anyone(q)
			q.Deadline = journal.At(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, twoOf)
			c := b.call("r1", "rm", `{"path":"/srv/a"}`)
			b.forgeQuestion(c, edit)
			b.answer("mallory", c, journal.AllowOnce)
			b.want(c, "allowed answer")
			b.wantRefused(c)
		})
	}
}

func TestForgedSuggestion(t *testing.T) {
	b := newBench(t, twoOf)
	c := b.call("r1", "mail", `{}`)
	b.forgeQuestion(c, func(q *journal.Question) {
		q.Suggestion = []json.RawMessage{json.RawMessage(`{"decision":"allow","tool":"*"}`)}
	})
	b.answer("ann", c, journal.AlwaysAllow)
	b.settle()
	b.wantRefused(c)
	b.want(b.call("r1", "wipe", `{}`), "asked")
}

// TestStartable: with its decision is started what a rule or the answer to a
// genuine question allows, and nothing else.
func TestStartable(t *testing.T) {
	for name, tt := range map[string]struct {
		tool string
		do   func(b *bench, call string)
		want bool
	}{
		"a rule":                         {"read", func(*bench, string) {}, true},
		"a denial":                       {"never", func(*bench, string) {}, false},
		"an answer":                      {"mail", func(b *bench, c string) { b.settle(); b.answer("ann", c, journal.AllowOnce) }, true},
		"a refusal":                      {"mail", func(b *bench, c string) { b.settle(); b.answer("ann", c, journal.DenyOnce) }, false},
		"an answer that grants":          {"mail", func(b *bench, c string) { b.settle(); b.answer("ann", c, journal.AlwaysAllow) }, false},
		"an answer to a forged question": {"mail", func(b *bench, c string) { b.forgeQuestion(c, showAnother); b.answer("ann", c, journal.AllowOnce) }, false},
		"nothing but a question":         {"mail", func(*bench, string) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "rules: [{tool: read, decision: allow}, {tool: never, decision: deny}, {tool: mail, decision: ask, remember: true}]")
			tt.do(b, b.call("r1", tt.tool, `{}`))
			if err := b.dec.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			in, err := b.dec.Input(t.Context(), b.session())
			if err != nil {
				t.Fatal(err)
			}
			events, err := decider.Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			got := false
			for _, e := range events {
				if dec, ok := e.Body.(*journal.Decision); ok {
					got = got || decider.Startable(in, dec)
				}
			}
			if got != tt.want {
				t.Errorf("startable is %t", got)
			}
		})
	}
}

// showAnother shows people another call than the one they answer about.
func showAnother(q *journal.Question) {
	v, err := q.ReadView()
	if err == nil {
		v.Tool = "read"
		q.View, err = journal.NewView(v)
	}
	if err != nil {
		panic(err)
	}
}

// Questions that stand as they were asked count, across a change of policy
// that leaves them standing too.
func TestGenuineQuestions(t *testing.T) {
	b := newBench(t, twoOf)
	c := b.call("r1", "rm", `{"path":"/srv/a"}`)
	b.settle()
	b.answer("ann", c, journal.AllowOnce)
	b.settle()
	b.adopt(twoOf + "# the same\n")
	b.settle()
	b.answer("bob", c, journal.AllowOnce)
	b.want(c, "allowed answer,answer")
	if err := b.releasable(c); err != nil {
		t.Fatal(err)
	}
}
