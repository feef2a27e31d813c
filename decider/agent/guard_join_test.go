package agent_test

import (
	"context"
	"testing"

	"decisionjournal/approver"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
)

func TestUnkeyedCallTwiceInOneRunRunsTwice(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	first, second := g.run(call("free", `{}`)), g.run(call("free", `{}`))
	w.want(first, agent.Executed, "effect 1")
	w.want(second, agent.Executed, "effect 2")
	if first.Call == second.Call {
		t.Error("one call")
	}
}

func TestUnkeyedCallsSideBySideStaySeparate(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	r := call("write", `{"path":"a"}`)
	tickets := append(g.Submit(context.Background(), []agent.Request{r, r}), g.submit(r))
	var questions []string
	for _, ticket := range tickets {
		questions = append(questions, g.question(ticket))
	}
	w.answer(questions[1], journal.AllowOnce)
	w.want(w.wait(tickets[1]), agent.Executed, "effect 1")
	if isDone(tickets[0]) || isDone(tickets[2]) {
		t.Error("one allow-once released another call")
	}
	w.ran(r, 1)
	g = g.restart()
	again := g.Submit(context.Background(), []agent.Request{r, r, r})
	if g.question(again[0]) != questions[0] || g.question(again[1]) != questions[2] {
		t.Error("the two that stood open are not joined, oldest first")
	}
	third := g.question(again[2])
	for _, old := range questions {
		if third == old {
			t.Error("one call is joined twice")
		}
	}
}

func TestFinishedUnkeyedCallRunsAgainAfterRestart(t *testing.T) {
	w := newWorld(t)
	r := call("free", `{}`)
	g := w.open()
	w.want(g.run(r), agent.Executed, "effect 1")
	g.close()
	g = w.open()
	w.want(g.run(r), agent.Executed, "effect 2")
	g = g.restart() // that run is taken over from: its result was received all the same
	w.want(g.run(r), agent.Executed, "effect 3")
}

// TestUnkeyedDenial: one that a waiter received makes the next call a new
// one; one that nobody can have read is joined.
func TestUnkeyedDenial(t *testing.T) {
	for _, test := range []struct {
		name   string
		before func(*world, *guard, string) *guard // from the question to the next run
		joins  bool
	}{
		{"received, in the same run", func(w *world, g *guard, q string) *guard {
			w.answer(q, journal.DenyOnce)
			return g
		}, false},
		{"received, and the run closed", func(w *world, g *guard, q string) *guard {
			w.answer(q, journal.DenyOnce)
			w.settled(g, 1)
			g.close()
			return w.open()
		}, false},
		{"the run was taken over", func(w *world, g *guard, q string) *guard {
			w.answer(q, journal.DenyOnce)
			w.settled(g, 1)
			return g.restart()
		}, true},
		{"while nobody waited", func(w *world, g *guard, q string) *guard {
			g.close()
			w.answer(q, journal.DenyOnce)
			return w.open()
		}, true},
		{"while the waiter was dead", func(w *world, g *guard, q string) *guard {
			g.kill()
			w.answer(q, journal.DenyOnce)
			return w.open()
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			g := w.open()
			ticket := g.submit(call("write", `{"path":"a"}`))
			old := g.question(ticket)
			g = test.before(w, g, old)
			ticket = g.submit(call("write", `{"path":"a"}`))
			if test.joins {
				w.want(w.wait(ticket), agent.Denied, "ann")
			} else if g.question(ticket) == old {
				t.Error("a denial that was received is joined")
			}
			second := g.submit(call("write", `{"path":"a"}`))
			if g.question(second) == old {
				t.Error("a denial is joined twice")
			}
		})
	}
}

// settled waits until the guard has written n decisions.
func (w *world) settled(g *guard, n int) {
	w.Helper()
	for range 1000 {
		g.Question(&agent.Ticket{}) // a turn of the guard's loop
		if len(events[*journal.Decision](w)) >= n {
			return
		}
	}
	w.Fatal("not decided")
}

// TestLateResultIsJoinedOnce: a result that came after its run had ended was
// received by nobody.
func TestLateResultIsJoinedOnce(t *testing.T) {
	w := newWorld(t)
	s := newStopper()
	w.witness.stopAfter(s)
	g := w.open()
	old := g.submit(call("free", `{}`))
	<-s.reached
	g.mute()
	next := w.open()
	close(s.goOn)
	w.want(w.wait(old), agent.Executed, "effect 1") // late
	w.want(next.run(call("free", `{}`)), agent.Recorded, "effect 1")
	w.want(next.run(call("free", `{}`)), agent.Executed, "effect 2")
	w.want(next.restart().run(call("free", `{}`)), agent.Executed, "effect 3")
}

func TestAnswerWhileNobodyWaits(t *testing.T) {
	w := newWorld(t)
	r := call("write", `{"path":"a"}`)
	g := w.open()
	q := g.question(g.submit(r))
	g.close()
	w.answer(q, journal.AllowOnce)
	g = w.open(as("other")) // decides, but is not who asked
	w.want(g.run(call("free", `{}`)), agent.Executed, "ran")
	w.ran(r, 0)
	g.close()
	g = w.open()
	w.want(g.run(r), agent.Executed, "ran")
	if q2 := g.question(g.submit(r)); q2 == q {
		t.Error("one allow-once released two")
	}
	w.ran(r, 1)
}

// TestPending: what is open when a guard closes stays open, and says so.
func TestPending(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	ticket := g.submit(call("write", `{"path":"a"}`))
	q := g.question(ticket)
	if view, ok := g.View(q); !ok || view.Tool != "write" || view.Agent != "main" || view.Session != session {
		t.Errorf("view %+v", view)
	}
	g.close()
	o := w.wait(ticket)
	w.want(o, agent.Pending, "runs once it is approved")
	if o.Question != q {
		t.Errorf("question %q, want %q", o.Question, q)
	}
	after := g.submit(call("free", `{}`))
	w.want(w.wait(after), agent.Failed, "closed")
	g.close()
}

func TestHeadless(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	asked := g.submit(call("write", `{"path":"a"}`))
	q := g.question(asked)
	g = g.restart(headless)
	w.want(g.run(call("write", `{"path":"b"}`)), agent.Denied, "nobody to ask")
	o := g.run(call("write", `{"path":"a"}`)) // an open question stays
	w.want(o, agent.Pending, "approval")
	if o.Question != q {
		t.Errorf("question %q, want %q", o.Question, q)
	}
	w.want(g.run(call("free", `{}`)), agent.Executed, "ran")
	g.close()
	w.answer(q, journal.AllowOnce)
	w.want(w.open(headless).run(call("write", `{"path":"a"}`)), agent.Executed, "ran")
}

func TestDenialsNote(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	ticket := g.submit(call("write", `{"path":"a"}`))
	w.answerWith(g.question(ticket), approver.Request{Action: journal.DenyOnce, Note: "use the staging cluster"})
	w.want(w.wait(ticket), agent.Denied, `ann), who wrote: "use the staging cluster"`)
	ticket = g.submit(call("write", `{"path":"b"}`))
	w.must(journal.RoleApprover, "ann", &journal.Answer{Question: g.question(ticket), Action: "perhaps", By: "ann",
		Shown: w.state().Question(g.question(ticket)).Shown})
	w.want(w.wait(ticket), agent.Denied, `"perhaps"`)
}

// TestAlways: one answer settles what else it covers, of other agents too, and
// what comes later.
func TestAlways(t *testing.T) {
	w := newWorld(t)
	a, b := w.open(), w.open(as("other"))
	first := a.submit(call("write", `{"path":"d/a"}`))
	second := b.submit(call("write", `{"path":"d/b"}`))
	b.question(second)
	w.answer(a.question(first), journal.AlwaysAllow)
	w.want(w.wait(first), agent.Executed, "ran")
	w.want(w.wait(second), agent.Executed, "ran")
	w.want(b.run(call("write", `{"path":"d/c"}`)), agent.Executed, "ran")
	if asked := b.submit(call("write", `{"path":"e/c"}`)); b.question(asked) == "" {
		t.Error("the grant reaches too far")
	}
	always := a.submit(call("every", `{"path":"d/a"}`))
	a.question(always)
	if n := len(events[*journal.Grant](w)); n != 1 {
		t.Errorf("%d grants", n)
	}
}

func TestDecidedOnly(t *testing.T) {
	w := newWorld(t)
	g := w.open(func(cfg *agent.Config) { cfg.Provider = nil })
	o := g.run(keyed("b/1", "free", `{}`))
	w.want(o, agent.Allowed, "Nothing was run")
	w.want(g.run(keyed("b/2", "never", `{}`)), agent.Denied, "it breaks things")
	if n := len(events[*journal.Start](w)); n != 0 {
		t.Errorf("%d starts", n)
	}
	w.want(g.restart().run(keyed("b/1", "free", `{}`)), agent.Executed, "ran")
}
