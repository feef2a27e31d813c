package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"decisionjournal/decider/agent"
	"decisionjournal/journal"
)

// TestOneBatchOnePolicy: another policy that becomes active while a batch is
// judged counts for the next.
func TestOneBatchOnePolicy(t *testing.T) {
	w := newWorld(t)
	w.activate(rules)
	g := w.open(following)
	g.run(call("free", `{}`))
	var once sync.Once
	g.on(func(journal.Subject, []byte) error {
		once.Do(func() { w.activate(strict) })
		return nil
	}, nil)
	tickets := g.Submit(context.Background(), []agent.Request{call("free", `{"n":1}`), call("never", `{"n":2}`), call("free", `{"n":3}`)})
	w.want(w.wait(tickets[0]), agent.Executed, "ran")
	w.want(w.wait(tickets[1]), agent.Denied, "it breaks things")
	w.want(w.wait(tickets[2]), agent.Executed, "ran")
	w.want(g.run(call("free", `{"n":4}`)), agent.Denied, "closed for today")
}

// TestOvertakenBeforeTheStart: whatever takes the ground from under an allow
// before it is started stops the start.
func TestOvertakenBeforeTheStart(t *testing.T) {
	for _, test := range []struct {
		name     string
		overtake func(*world)
		check    func(*world, *guard, *agent.Ticket)
	}{
		{"revoked", func(w *world) {
			w.must(journal.RoleApprover, "ann", &journal.Revoke{Grant: w.state().Grants()[0].Mark.ID, Reason: "no more"})
		}, func(w *world, g *guard, ticket *agent.Ticket) {
			w.answer(g.questionSoon(ticket), journal.DenyOnce)
			w.want(w.wait(ticket), agent.Denied, "ann")
		}},
		{"a stricter policy", func(w *world) { w.activate(strict) }, func(w *world, g *guard, ticket *agent.Ticket) {
			w.want(w.wait(ticket), agent.Denied, "closed for today")
		}},
		{"the session ended", func(w *world) {
			w.must(journal.RoleDecider, "decider", &journal.Ended{Reason: "enough"})
		}, func(w *world, g *guard, ticket *agent.Ticket) {
			w.want(w.wait(ticket), agent.Failed, "ended")
			_, err := w.tryOpen(w.process(), following)
			if !errors.Is(err, agent.ErrEnded) {
				w.Errorf("opened again: %v", err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.activate(rules)
			g := w.open(following)
			first := g.submit(call("write", `{"path":"d/a"}`))
			w.answer(g.question(first), journal.AlwaysAllow)
			w.wait(first)
			var once sync.Once
			g.on(nil, func(_ journal.Subject, data []byte) error {
				if wrote(data, journal.TypeDecision) {
					once.Do(func() { test.overtake(w) })
				}
				return nil
			})
			ticket := g.submit(call("write", `{"path":"d/b"}`))
			test.check(w, g, ticket)
			w.ran(ticket.Request, 0)
		})
	}
}

// questionSoon waits until the ticket is asked.
func (g *guard) questionSoon(t *agent.Ticket) string {
	g.w.Helper()
	for range 10_000 {
		if q := g.Question(t); q != "" {
			return q
		}
	}
	g.w.Fatal("not asked")
	return ""
}

func TestGrantUsedUpByAnother(t *testing.T) {
	w := newWorld(t)
	a, b := w.open(), w.open(as("other"))
	first := a.submit(call("write", `{"path":"d/a"}`))
	w.answerWith(a.question(first), always(2))
	w.wait(first)
	tickets := []*agent.Ticket{a.submit(call("write", `{"path":"d/b"}`)), b.submit(call("write", `{"path":"d/c"}`))}
	ran := 0
	for i, g := range []*guard{a, b} {
		for !isDone(tickets[i]) && g.Question(tickets[i]) == "" {
		}
		if isDone(tickets[i]) {
			w.want(tickets[i].Outcome(), agent.Executed, "ran")
			ran++
		}
	}
	if ran != 1 || w.witness.total != 2 {
		t.Errorf("%d of two ran, %d effects; the grant had one use left", ran, w.witness.total)
	}
	g := w.state().Grants()[0]
	if g.Used != 2 {
		t.Errorf("used %d times", g.Used)
	}
}

func TestPolicyOfASession(t *testing.T) {
	w := newWorld(t)
	g := w.open(following) // a new session begins with the built-in policy
	w.want(g.run(call("fs_read", `{"path":"a"}`)), agent.Executed, "ran")
	g = g.restart()
	if n := strings.Join(g.Notices(), "\n"); !strings.Contains(n, "adopted instead of") || !strings.Contains(n, "taken over") {
		t.Errorf("notices %q", n)
	}
	w.want(g.run(call("free", `{}`)), agent.Executed, "ran")
	g = g.restart(following) // the adopted one stays
	w.want(g.run(call("free", `{}`)), agent.Executed, "ran")
	w.activate(strict) // until a later activation
	w.want(g.run(call("free", `{}`)), agent.Denied, "closed for today")
}

func TestUnfitSessions(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	g.run(call("free", `{}`))
	g.close()
	w.must(journal.RoleDecider, "decider", &journal.Ended{Reason: "enough"})
	if _, err := w.tryOpen(w.process()); !errors.Is(err, agent.ErrEnded) {
		t.Errorf("%v", err)
	}
	w.session = "book"
	w.must(journal.RoleDecider, "decider", &journal.Opened{Agent: "a", Run: "r", Kind: journal.KindBook}, &journal.Closed{Agent: "a", Run: "r"})
	if _, err := w.tryOpen(w.process()); err == nil || !strings.Contains(err.Error(), "book") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"", "a b", strings.Repeat("x", 65)} {
		w.session = name
		if _, err := w.tryOpen(w.process()); err == nil {
			t.Errorf("session %q opened", name)
		}
	}
	w.session = session
}

// TestBrokenSession: where a commit is missing nothing starts.
func TestBrokenSession(t *testing.T) {
	w := newForgery(t)
	g := w.open()
	ticket := g.submit(call("write", `{"path":"a"}`))
	g.question(ticket)
	w.mem.Inject(journal.Message{Subject: "journal.s.s1.decider.decider", Headers: journal.ExpectHeaders(journal.SessionChain(session), 77), Data: []byte("{}")})
	w.want(w.wait(ticket), agent.Failed, "broken")
	w.want(g.run(call("free", `{}`)), agent.Failed, "broken")
	if w.witness.total != 0 {
		t.Errorf("%d effects", w.witness.total)
	}
	if _, err := w.tryOpen(w.process()); err == nil || !strings.Contains(err.Error(), "decider repair s1") {
		t.Errorf("%v", err)
	}
}
