package decider_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// The properties of histories are fuzzed too: the fuzzer's bytes choose what they
// draw.

// FuzzHistory decides and replays any history.
func FuzzHistory(f *testing.F) { fuzz(f, history) }

// FuzzMissing loses messages of any history.
func FuzzMissing(f *testing.F) { fuzz(f, missingPermitsNothing) }

// FuzzExtra puts messages between those of any history.
func FuzzExtra(f *testing.F) { fuzz(f, extraPermitsNothing) }

func fuzz(f *testing.F, property func(*rapid.T)) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 0))
		b := make([]byte, 8<<10)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(rapid.MakeFuzz(property))
}

// answerText is an answer as a writer may spell it, for the fuzzer.
type answerText struct {
	action, rule, rules, content, note string
	uses                               int
}

func (a answerText) body() *journal.Answer {
	raw := func(s string) json.RawMessage {
		if s == "" {
			return nil
		}
		return json.RawMessage(s)
	}
	return &journal.Answer{Action: a.action, Rule: raw(a.rule), Rules: raw(a.rules), Content: raw(a.content), Note: a.note, Uses: a.uses}
}

// FuzzAnswer answers a question in any words. Whatever they are, the call is
// decided or waits on, it is allowed by an allow alone, and what is remembered
// are rules that decide so.
func FuzzAnswer(f *testing.F) {
	for _, a := range []answerText{
		{action: journal.AllowOnce}, {action: journal.AlwaysAllow, rule: `{"tool":"other"}`}, {action: journal.AlwaysDeny, rules: `[{"tool":"*","host":"x"}]`},
		{action: journal.AlwaysAllow, rule: `{"tool":"other","decision":"deny"}`, uses: 2}, {action: journal.Accept, content: `{"a":1}`},
		{action: journal.AlwaysAllow, rules: `[]`}, {action: journal.DenyOnce, note: "no"}, {action: "", rule: "null"},
	} {
		f.Add(a.action, a.rule, a.rules, a.content, a.note, a.uses)
	}
	f.Fuzz(func(t *testing.T, action, rule, rules, content, note string, uses int) {
		b := newBench(t, "rules: []")
		call := b.call("r1", "other", `{"path":"a"}`)
		b.settle()
		q := b.question(call)
		body := answerText{action, rule, rules, content, note, uses}.body()
		body.Question, body.Shown, body.By = q.Mark.ID, q.Shown, "alice"
		if _, err := b.try(journal.RoleApprover, "alice", body); err != nil {
			return // the journal does not take it
		}
		st := b.settle()
		a := st.Call(call).Last()
		allows := action == journal.AllowOnce || action == journal.AlwaysAllow
		switch {
		case a.Progress != journal.Allowed && a.Progress != journal.Denied:
			t.Fatalf("answered by %+v, and %s", body, a.Progress)
		case a.Progress == journal.Allowed && !allows:
			t.Fatalf("allowed by %+v", body)
		}
		for _, g := range st.Grants() {
			rememberedBy(t, action, g)
		}
	})
}

func rememberedBy(t *testing.T, action string, g *journal.GrantState) {
	t.Helper()
	for _, raw := range g.Rules {
		r, err := policy.ParseRule(raw)
		if err != nil || (r.Decision == policy.Allow) != (action == journal.AlwaysAllow) || r.Decision == policy.Ask {
			t.Fatalf("%q leaves %s: %v", action, raw, err)
		}
		if !json.Valid(raw) {
			t.Fatalf("%s", raw)
		}
	}
}
