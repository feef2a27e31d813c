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

func TestTakeoverIsRefusedWhileTheOlderRunAnswers(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	ticket := g.submit(call("write", `{"path":"a"}`))
	_, err := w.tryOpen(w.process())
	if !errors.Is(err, agent.ErrRunLives) || !strings.Contains(err.Error(), g.Run()) || !strings.Contains(err.Error(), "--takeover") {
		t.Fatalf("%v", err)
	}
	w.answer(g.question(ticket), journal.AllowOnce) // the older run is not disturbed
	w.want(w.wait(ticket), agent.Executed, "ran")
	other := w.open(as("other"))
	w.want(other.run(call("free", `{}`)), agent.Executed, "ran")
}

func TestTakeoverOfARunThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	g.mute()
	next := w.open()
	if n := strings.Join(next.Notices(), "\n"); !strings.Contains(n, g.Run()) || !strings.Contains(n, "does not answer") {
		t.Errorf("notices %q", n)
	}
	w.want(next.run(call("free", `{}`)), agent.Executed, "ran")
}

// TestOlderRunExecutesNothing: from the takeover on the older guard starts
// nothing, whatever it waited for or is given, and says so.
func TestOlderRunExecutesNothing(t *testing.T) {
	w := newWorld(t)
	old := w.open()
	asked := old.submit(call("write", `{"path":"a"}`))
	q := old.question(asked)
	next := w.open(forced)
	w.want(w.wait(asked), agent.Failed, "takeover")
	w.want(old.run(call("free", `{"n":1}`)), agent.Failed, "takeover")
	w.want(old.run(keyed("b/1", "free", `{"n":2}`)), agent.Failed, "takeover")
	w.answer(q, journal.AllowOnce)
	if w.witness.total != 0 {
		t.Errorf("%d effects", w.witness.total)
	}
	w.want(next.run(call("write", `{"path":"a"}`)), agent.Executed, "ran")
	old.close()
	if r := w.state().Run(next.Run()); !r.Live {
		t.Error("the older guard closed the newer run")
	}
}

// TestTakeoverAtEveryStep: the older run is taken over right before each of
// its commits. Whatever it was about, it executes at most what it started.
func TestTakeoverAtEveryStep(t *testing.T) {
	for step := 0; ; step++ {
		w := newWorld(t)
		g := w.open()
		n, struck := 0, false
		var next *guard
		var mu sync.Mutex
		g.on(func(journal.Subject, []byte) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n-1 == step {
				struck, next = true, w.open(forced)
			}
			return nil
		}, nil)
		r, free := call("write", `{"path":"a"}`), keyed("b/1", "free", `{}`)
		first, second := g.submit(r), g.submit(free)
		if q := g.Question(first); q != "" {
			w.answer(q, journal.AllowOnce)
		}
		outcomes := []agent.Outcome{w.wait(first), w.wait(second)}
		g.close()
		if !struck {
			if step < 5 {
				t.Errorf("only %d steps", step)
			}
			return
		}
		starts := len(events[*journal.Start](w))
		if w.witness.total > starts {
			t.Errorf("step %d: %d effects of %d starts", step, w.witness.total, starts)
		}
		for i, o := range outcomes {
			ran := w.witness.count([]agent.Request{r, free}[i].Call)
			if (o.Kind == agent.Executed) != (ran == 1) || ran > 1 {
				t.Errorf("step %d: call %d ran %d times and came out as %+v", step, i, ran, o)
			}
			if o.Kind == agent.Failed && !strings.Contains(text(o), "takeover") {
				t.Errorf("step %d: %s", step, text(o))
			}
		}
		next.close()
	}
}

// TestLoserWaitsForTheWinner: a call that another run of its session executes
// is waited for.
func TestLoserWaitsForTheWinner(t *testing.T) {
	w := newWorld(t)
	s := newStopper()
	w.witness.stopAfter(s)
	g := w.open()
	r := keyed("b/1", "free", `{}`)
	first := g.submit(r)
	<-s.reached
	second := g.submit(r)
	third := g.Submit(context.Background(), []agent.Request{r, keyed("b/2", "free", `{"n":2}`)})
	w.want(w.wait(third[1]), agent.Executed, "ran")
	if isDone(first) || isDone(second) || isDone(third[0]) {
		t.Error("a call has an outcome that has none")
	}
	close(s.goOn)
	w.want(w.wait(first), agent.Executed, "effect 1")
	w.want(w.wait(second), agent.Recorded, "effect 1")
	w.want(w.wait(third[0]), agent.Recorded, "effect 1")
	w.ran(r, 1)
}

// TestStartRace: a start that another process of the run appended first.
func TestStartRace(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	r := call("write", `{"path":"a"}`)
	ticket := g.submit(r)
	q := w.state().Question(g.question(ticket))
	start := func(st *journal.State) *journal.Start {
		c := st.Call(q.Call)
		return &journal.Start{Call: q.Call, Attempt: 1, Run: g.Run(), Decision: c.Last().Decision, Digest: c.Digest}
	}
	var once sync.Once
	g.on(func(_ journal.Subject, data []byte) error {
		if wrote(data, journal.TypeStart) {
			once.Do(func() {
				w.settle()
				w.must(journal.RoleDecider, "decider", start(w.state()))
			})
		}
		return nil
	}, nil)
	w.answer(q.Mark.ID, journal.AllowOnce)
	for len(events[*journal.Start](w)) == 0 {
		g.Question(ticket)
	}
	if isDone(ticket) {
		w.want(ticket.Outcome(), agent.Pending, "")
	}
	content := agent.Text("done by the other")
	w.must(journal.RoleDecider, "decider", &journal.Result{Call: q.Call, Attempt: 1, Run: g.Run(), Status: journal.StatusOK,
		Content: content, Size: uint64(len(content)), Digest: journal.Digest(content)})
	w.want(w.wait(ticket), agent.Recorded, "done by the other")
	w.ran(r, 0)
}

func TestClose(t *testing.T) {
	w := newWorld(t)
	s := newStopper()
	w.witness.stopAfter(s)
	g := w.open()
	ticket := g.submit(keyed("b/1", "free", `{}`))
	<-s.reached
	closed := make(chan error)
	go func() { closed <- g.Close(context.Background()) }()
	for !strings.Contains(text(g.run(call("free", `{"n":2}`))), "closed") {
	}
	select {
	case err := <-closed:
		t.Fatalf("closed with a call under way: %v", err)
	default:
	}
	close(s.goOn)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	w.want(w.wait(ticket), agent.Executed, "effect 1")
	w.want(w.open().run(keyed("b/1", "free", `{}`)), agent.Recorded, "effect 1")
}

// TestCloseStartsNothing: an answer that comes while a guard closes is for
// the next run.
func TestCloseStartsNothing(t *testing.T) {
	w := newWorld(t)
	s := newStopper()
	w.witness.stopAfter(s)
	g := w.open()
	g.submit(call("free", `{}`))
	<-s.reached
	r := call("write", `{"path":"a"}`)
	asked := g.submit(r)
	q := g.question(asked)
	closed := make(chan error)
	go func() { closed <- g.Close(context.Background()) }()
	for g.run(call("free", `{"n":2}`)).Kind != agent.Failed {
	}
	w.answer(q, journal.AllowOnce)
	close(s.goOn)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	w.want(w.wait(asked), agent.Pending, "")
	w.ran(r, 0)
	w.want(w.open().run(r), agent.Executed, "ran")
}

// TestCloseGivesUp: a provider that does not return is left behind, its call's
// outcome is unknown until it does, and the result is not lost.
func TestCloseGivesUp(t *testing.T) {
	w := newWorld(t)
	spool := t.TempDir()
	spooling := func(cfg *agent.Config) { cfg.Spool = spool }
	s := newStopper()
	w.witness.stopAfter(s)
	g := w.open(spooling)
	r := keyed("b/1", "free", `{}`)
	ticket := g.submit(r)
	<-s.reached
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := g.Close(ctx); err != nil {
		t.Fatal(err)
	}
	w.want(w.wait(ticket), agent.Pending, "outcome is unknown")
	if w.state().Run(g.Run()).Live {
		t.Error("the run is not closed")
	}
	close(s.goOn)
	waitForFiles(t, spool, 1)
	g = w.open(spooling)
	w.want(g.run(r), agent.Recorded, "effect 1")
	waitForFiles(t, spool, 0)
}

func TestContext(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, ticket := range g.Submit(ctx, []agent.Request{call("free", `{}`), keyed("b/1", "free", `{}`)}) {
		w.want(w.wait(ticket), agent.Failed, "not made")
		if ticket.Outcome().Err == nil {
			t.Error("nobody is to blame")
		}
	}
	w.want(g.run(keyed("b/1", "free", `{}`)), agent.Executed, "effect 1")

	s := newStopper()
	w.witness.stopAfter(s)
	ctx, cancel = context.WithCancel(context.Background())
	ticket := g.Submit(ctx, []agent.Request{call("free", `{"n":2}`)})[0]
	<-s.reached
	cancel() // under way: what it did is recorded all the same
	close(s.goOn)
	w.want(w.wait(ticket), agent.Executed, "effect 2")
	if n := len(events[*journal.Result](w)); n != 2 {
		t.Errorf("%d results", n)
	}
}

// TestAnswerWhileAnotherCallStarts: an answer that the guard folds while it
// appends for another call is acted on at once, though nothing new arrives.
func TestAnswerWhileAnotherCallStarts(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	calls := []agent.Request{call("write", `{"path":"a"}`), call("write", `{"path":"b"}`)}
	tickets := g.Submit(context.Background(), calls)
	questions := []string{g.question(tickets[0]), g.question(tickets[1])}
	s := newStopper() // the call that starts first does not return meanwhile
	w.witness.before = func(c agent.Call) agent.Result {
		if identity(c) == identity(calls[1].Call) {
			s.stop()
		}
		return agent.Result{}
	}
	var once sync.Once
	g.on(func(_ journal.Subject, data []byte) error {
		if wrote(data, journal.TypeStart) {
			once.Do(func() { w.answer(questions[0], journal.AllowOnce) })
		}
		return nil
	}, nil)
	w.answer(questions[1], journal.AllowOnce)
	<-s.reached
	w.want(w.wait(tickets[0]), agent.Executed, "ran")
	close(s.goOn)
	w.want(w.wait(tickets[1]), agent.Executed, "ran")
}
