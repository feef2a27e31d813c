package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"decisionjournal/approver"
	"decisionjournal/decider"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
)

// interrupt runs a call until its effect, kills the process there and returns
// the next run. The provider is let go at the end of the test.
func (w *world) interrupt(r agent.Request, change ...func(*agent.Config)) *guard {
	w.Helper()
	s := newStopper()
	w.witness.stopAfter(s)
	g := w.open(change...)
	g.submit(r)
	<-s.reached
	w.Cleanup(func() { close(s.goOn) })
	return g.restart(change...)
}

func TestOutcomeUnknown(t *testing.T) {
	fail := under(parse(t, `
rules: [{tool: "*", decision: allow}]
settings: {interrupted: fail}
`))
	retry := under(parse(t, `
rules: [{tool: "*", decision: allow}]
settings: {interrupted: retry}
`))
	for _, test := range []struct {
		name   string
		tool   string
		key    string
		change func(*agent.Config)
		answer string // "" if nobody is asked
		kind   agent.Kind
		part   string
		effect int
	}{
		{"ask, run it again", "free", "b/1", following, journal.AllowOnce, agent.Executed, "effect 2", 2},
		{"ask, do not", "free", "b/1", following, journal.DenyOnce, agent.Denied, "ann", 1},
		{"ask, unkeyed", "free", "", following, journal.AllowOnce, agent.Executed, "effect 2", 2},
		{"idempotent", "redo", "b/1", following, "", agent.Executed, "effect 2", 2},
		{"retry", "free", "b/1", retry, "", agent.Executed, "effect 2", 2},
		{"retry, unkeyed", "free", "", retry, "", agent.Executed, "effect 2", 2},
		{"fail", "free", "b/1", fail, "", agent.Denied, "may have taken effect", 1},
		{"fail, unkeyed", "free", "", fail, "", agent.Denied, "may have taken effect", 1},
		{"headless", "free", "b/1", headless, "", agent.Denied, "may have taken effect", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.activate(rules)
			r := keyed(test.key, test.tool, `{}`)
			g := w.interrupt(r, test.change)
			ticket := g.submit(r)
			if test.answer != "" {
				q := w.state().Question(g.question(ticket))
				if q.Reason != journal.AskInterrupted || q.Grantable {
					t.Errorf("question %+v", q.Question)
				}
				w.answer(q.Mark.ID, test.answer)
			}
			w.want(w.wait(ticket), test.kind, test.part)
			w.ran(r, test.effect)
		})
	}
}

// TestOutcomeUnknownOfAnAskedCall: the allow that was spent is not spent twice.
func TestOutcomeUnknownOfAnAskedCall(t *testing.T) {
	w := newWorld(t)
	s := newStopper()
	w.witness.stopBefore(s)
	defer close(s.goOn)
	g := w.open()
	r := call("write", `{"path":"a"}`)
	q := g.question(g.submit(r))
	w.answer(q, journal.AllowOnce)
	<-s.reached
	g = g.restart()
	ticket := g.submit(r)
	again := g.question(ticket)
	if again == q {
		t.Fatal("the old question")
	}
	w.answer(again, journal.AllowOnce)
	w.want(w.wait(ticket), agent.Executed, "ran")
}

// TestLateResultAnswersTheInterruption: the first run's result makes the
// question whether to run it again superfluous.
func TestLateResultAnswersTheInterruption(t *testing.T) {
	w := newWorld(t)
	s := newStopper()
	w.witness.stopAfter(s)
	old := w.open()
	r := keyed("b/1", "free", `{}`)
	first := old.submit(r)
	<-s.reached
	old.mute()
	g := w.open()
	second := g.submit(r)
	q := g.question(second)
	close(s.goOn)
	w.want(w.wait(first), agent.Executed, "effect 1")
	w.want(w.wait(second), agent.Recorded, "effect 1")
	_, err := approver.Answer(context.Background(), w.writer(w.log(journal.RoleApprover), journal.RoleApprover, "ann"),
		approver.Ref{Session: session, Question: q}, approver.Request{Action: journal.AllowOnce})
	var settled *approver.SettledError
	if !errors.As(err, &settled) {
		t.Errorf("the question takes an answer: %v", err)
	}
	w.ran(r, 1)
}

// TestNotRunGivesBack: what provably did not happen can be called again and
// needs no second approval.
func TestNotRunGivesBack(t *testing.T) {
	for _, key := range []string{"", "b/1"} {
		t.Run("key "+key, func(t *testing.T) {
			w := newWorld(t)
			r := keyed(key, "write", `{"path":"a"}`)
			g := w.open()
			w.witness.returns(agent.Result{Content: agent.Text("the tool is gone"), NotRun: true})
			ticket := g.submit(r)
			w.answerWith(g.question(ticket), approver.Request{Action: journal.AlwaysAllow, Uses: 1})
			o := w.wait(ticket)
			if o.Kind != agent.Executed || !o.Result.NotRun || text(o) != "the tool is gone" {
				t.Errorf("%+v", o)
			}
			if used := w.state().Grants()[0].Used; used != 0 {
				t.Errorf("the grant is used %d times", used)
			}
			w.witness.returns(agent.Result{})
			again := g.run(r)
			w.want(again, agent.Executed, "ran")
			if again.Call != o.Call {
				t.Error("another call")
			}
			if n := len(events[*journal.Question](w)); n != 1 {
				t.Errorf("%d questions", n)
			}
		})
	}
}

// TestNotRunWhileAnotherWaits: a call that did not happen is made for whoever
// else waits for it.
func TestNotRunWhileAnotherWaits(t *testing.T) {
	w := newWorld(t)
	s := newStopper()
	calls := 0
	g := w.open(func(cfg *agent.Config) {
		cfg.Provider = provider(func([]agent.Call) []agent.Result {
			if calls++; calls > 1 {
				return []agent.Result{{Content: agent.Text("ran")}}
			}
			s.stop()
			return []agent.Result{{Content: agent.Text("the tool is gone"), NotRun: true}}
		})
	})
	r := keyed("b/1", "free", `{}`)
	first := g.submit(r)
	<-s.reached
	second := g.submit(r)
	close(s.goOn)
	if o := w.wait(first); !o.Result.NotRun {
		t.Errorf("%+v", o)
	}
	w.want(w.wait(second), agent.Executed, "ran")
}

func TestProviders(t *testing.T) {
	for _, test := range []struct {
		name    string
		p       provider
		unknown bool
		part    string
	}{
		{"short", func([]agent.Call) []agent.Result { return nil }, true, "0 results for 1 calls"},
		{"long", func(c []agent.Call) []agent.Result { return make([]agent.Result, 2) }, true, "2 results for 1 calls"},
		{"panicking", func([]agent.Call) []agent.Result { panic("boom") }, true, "boom"},
		{"without a result", func([]agent.Call) []agent.Result { return make([]agent.Result, 1) }, true, "no result"},
		{"with an error", func([]agent.Call) []agent.Result {
			return []agent.Result{{Content: agent.Text("disk full"), IsError: true}}
		}, false, "disk full"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			g := w.open(func(cfg *agent.Config) { cfg.Provider = test.p })
			r := keyed("b/1", "free", `{}`)
			o := g.run(r)
			w.want(o, agent.Executed, test.part)
			if !o.Result.IsError || o.Result.Unknown != test.unknown {
				t.Errorf("%+v", o)
			}
			g = g.restart()
			if !test.unknown {
				w.want(g.run(r), agent.Recorded, test.part)
				return
			}
			ticket := g.submit(r)
			if q := w.state().Question(g.question(ticket)); q.Reason != journal.AskInterrupted {
				t.Errorf("asked for %s", q.Reason)
			}
		})
	}
}

// provider is a provider by its Execute.
type provider func([]agent.Call) []agent.Result

func (provider) Tools(context.Context) ([]agent.Tool, error)                { return nil, nil }
func (p provider) Execute(_ context.Context, c []agent.Call) []agent.Result { return p(c) }

func TestBatchGoesToTheProviderInOrder(t *testing.T) {
	w := newWorld(t)
	var batches [][]string
	p := provider(func(calls []agent.Call) []agent.Result {
		var ids []string
		out := make([]agent.Result, len(calls))
		for i, c := range calls {
			ids = append(ids, c.ID)
			out[i].Content = agent.Text("did " + c.ID)
		}
		batches = append(batches, ids)
		return out
	})
	g := w.open(func(cfg *agent.Config) { cfg.Provider = p })
	var batch []agent.Request
	var want []string
	for i := range 70 {
		tool := "free"
		if i%7 == 3 {
			tool = "never"
		}
		r := keyed(fmt.Sprint(i), tool, fmt.Sprintf(`{"n":%d}`, i))
		batch = append(batch, r)
		if tool == "free" {
			want = append(want, r.ID)
		}
	}
	tickets := g.Submit(context.Background(), batch)
	for i, ticket := range tickets {
		o := w.wait(ticket)
		if i%7 == 3 {
			w.want(o, agent.Denied, "it breaks things")
		} else {
			w.want(o, agent.Executed, fmt.Sprintf("did %d", i))
		}
	}
	g.close()
	if len(batches) != 1 || !slices.Equal(batches[0], want) {
		t.Errorf("executed %v, want %v at once", batches, want)
	}
}

// TestForgedAllow: a decision that a decider's key wrote and that does not
// follow is not started.
func TestForgedAllow(t *testing.T) {
	for _, test := range []struct {
		name string
		by   []journal.Cause
	}{
		{"by rule", []journal.Cause{{Kind: journal.ByRule, Rule: []byte(`{"decision":"allow","tool":"write"}`)}}},
		{"by a rule of the policy", []journal.Cause{{Kind: journal.ByRule, Rule: []byte(`{"decision":"allow","tool":"free"}`)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newForgery(t)
			g := w.open()
			ticket := g.submit(call("write", `{"path":"a"}`))
			q := w.state().Question(g.question(ticket))
			w.must(journal.RoleDecider, "decider", &journal.Decision{Call: q.Call, Attempt: 1, Outcome: journal.Allow, By: test.by,
				Policy: q.Policy, Engine: decider.Engine, Digest: q.Digest, Facts: q.Facts, Message: "allowed"})
			o := w.wait(ticket)
			w.want(o, agent.Failed, "does not follow")
			w.ran(ticket.Request, 0)
			if n := len(events[*journal.Start](w)); n != 0 {
				t.Errorf("%d starts", n)
			}
			w.want(g.restart().run(ticket.Request), agent.Failed, "does not follow")
		})
	}
}

// newForgery is a world whose journal will not pass an audit.
func newForgery(t *testing.T) *world {
	w := newWorld(t)
	w.forged = true
	return w
}
