package decider_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"decisionjournal/decider"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// live makes a bench whose clock is the bubble's.
func live(t *testing.T, policyText string) *bench {
	b := newEmpty(t)
	b.live = true
	b.dec = &decider.Decider{Writer: b.writer(journal.RoleDecider, "decider")}
	b.open("S", policyText)
	return b
}

// open begins a session under a policy, and makes it the bench's.
func (b *bench) open(session, policyText string) {
	b.t.Helper()
	b.chain = journal.SessionChain(session)
	b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession})
	if policyText != "" {
		b.adopt(policyText)
	}
}

// told collects what a worker reports.
type told struct {
	mu   sync.Mutex
	said []string
}

func (s *told) problem(session string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprint(session, ": ", err))
}

func (s *told) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said, "\n")
}

// works runs a worker of its own decider until the returned stop.
func (b *bench) works(actor string, log journal.Log) (said *told, stop func()) {
	b.t.Helper()
	said = &told{}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	w := &decider.Worker{
		Decider: &decider.Decider{Writer: b.writerTo(log, journal.RoleDecider, actor)},
		Ready:   func() { close(ready) }, Problem: said.problem, Memory: b.memory,
	}
	go func() { done <- w.Run(ctx) }()
	select {
	case <-ready:
	case err := <-done:
		b.t.Fatalf("the worker ended: %v", err)
	case <-time.After(time.Minute):
		b.t.Fatal("the worker is not ready")
	}
	return said, func() {
		b.t.Helper()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			b.t.Fatalf("the worker ended: %v", err)
		}
	}
}

// pass lets time pass in a bubble, and all that it brings happen. A worker that
// met a conflict waits a little before it goes on.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// decided counts the decisions of every attempt in the journal.
func (b *bench) decided() map[string]int {
	b.t.Helper()
	n := map[string]int{}
	for _, m := range b.log.Messages() {
		c, err := journal.Decode(m.Data)
		if err != nil {
			continue // what a fault stored
		}
		for _, e := range c.Events {
			if d, ok := e.Body.(*journal.Decision); ok {
				n[fmt.Sprint(d.Call, d.Attempt)]++
			}
		}
	}
	return n
}

func TestWorkerDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, "rules: [{tool: ok, decision: allow}]\nsettings: {deadline: 30m, decision-ttl: 10m}")
		_, stop := b.works("decider", b.log)
		defer stop()
		c := b.call("r1", "x", `{}`)
		synctest.Wait()
		due := b.question(c).Deadline
		pass(10 * time.Minute)
		later := b.call("r1", "x", `{"n":1}`)
		pass(20*time.Minute - 1)
		if got := b.outcome(c); got != "asked" {
			t.Fatalf("before its deadline: %s", got)
		}
		pass(1)
		if got := b.outcome(c); got != "denied lapse" {
			t.Fatalf("at its deadline: %s", got)
		}
		if at := b.decision(c).Mark.Time; !at.Equal(due.Time) {
			t.Fatalf("denied at %s, due %s", at, due)
		}
		if got := b.outcome(later); got != "asked" {
			t.Fatalf("the later one: %s", got)
		}
		pass(10 * time.Minute)
		if got := b.outcome(later); got != "denied lapse" {
			t.Fatalf("the later one: %s", got)
		}
		ok := b.call("r1", "ok", `{}`)
		pass(25 * time.Minute) // two allows expired unspent
		if n := b.session().Call(ok).Last().No; n != 3 {
			t.Fatalf("attempt %d", n)
		}
	})
}

func TestTwoWorkersRaceOnAThousandCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, scratchPolicy)
		_, stop1 := b.works("one", b.log)
		_, stop2 := b.works("two", b.log)
		inline := &decider.Decider{Writer: b.writer(journal.RoleDecider, "three")}
		st := b.session()
		for i := range 40 {
			var bodies []journal.Event
			for k := range 25 {
				body := b.body("r1", []string{"fs_read", "fs_delete"}[k%2], fmt.Sprintf(`{"path":"%d/%d"}`, i, k))
				bodies = append(bodies, inline.Writer.Event(body))
			}
			for {
				err := inline.Writer.Append(t.Context(), st, inline.Writer.Now(st), bodies...)
				if err == nil {
					break
				}
				if !errors.Is(err, journal.ErrConflict) {
					t.Fatal(err)
				}
				if err := journal.Refresh(t.Context(), b.log, st); err != nil {
					t.Fatal(err)
				}
			}
			if i%4 == 0 { // and an inline decider races with both
				if err := inline.Settle(t.Context(), st); err != nil {
					t.Fatal(err)
				}
			}
		}
		pass(time.Minute)
		stop1()
		stop2()
		n := b.decided()
		for what, times := range n {
			if times != 1 {
				t.Fatalf("%s decided %d times", what, times)
			}
		}
		if len(n) != 1000 {
			t.Fatalf("%d decided", len(n))
		}
		if _, voids := b.session().Anomalies(); voids != 0 {
			t.Fatalf("%d void messages", voids)
		}
	})
}

func TestWorkerSetsASessionAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, scratchPolicy)
		b.open("lost", "")
		missing := "rules: [{tool: x, decision: allow}]"
		b.must(journal.RoleDecider, "ops", &journal.Adopt{Digest: journal.Digest([]byte(missing))})
		stuck := b.call("r1", "x", `{}`)
		said, stop := b.works("decider", b.log)
		defer stop()
		if got := said.all(); !strings.HasPrefix(got, "lost: ") || !strings.Contains(got, "not in the journal") {
			t.Fatalf("reported %q", got)
		}
		b.chain = journal.SessionChain("S")
		c := b.call("r1", "fs_read", `{"path":"a"}`)
		pass(time.Second)
		if got := b.outcome(c); got != "allowed rule" {
			t.Fatalf("the other session: %s", got)
		}
		pass(time.Hour)
		if got := said.all(); strings.Contains(got, "\n") {
			t.Fatalf("reported again and again: %q", got)
		}
		b.publish(missing) // the session itself does not change
		pass(time.Second)
		b.chain = journal.SessionChain("lost")
		if got := b.outcome(stuck); got != "allowed rule" {
			t.Fatalf("mended: %s", got)
		}
		if got := said.all(); !strings.HasSuffix(got, "\nlost: <nil>") {
			t.Fatalf("reported %q", got)
		}
	})
}

// A session set aside with something overdue is tried now and then, not all the time.
func TestWorkerDoesNotSpinOnWhatItCannotSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, "rules: []\nsettings: {deadline: 1m}")
		c := b.call("r1", "x", `{}`)
		b.settle()
		b.must(journal.RoleDecider, "ops", &journal.Adopt{Digest: journal.Digest([]byte("lost"))})
		log := &journaltest.Faulty{Log: b.log}
		_, stop := b.works("decider", log)
		defer stop()
		pass(2 * time.Minute)
		before := log.Steps()
		pass(10 * time.Minute)
		if n := log.Steps() - before; n < 10 || n > 400 {
			t.Fatalf("%d steps in ten minutes", n)
		}
		b.adopt("rules: []\nsettings: {deadline: 1m}")
		pass(time.Second)
		if got := b.outcome(c); got != "denied lapse" {
			t.Fatal(got)
		}
	})
}

// An unreachable journal sets sessions aside, and they go on when it is back.
func TestWorkerTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, scratchPolicy)
		var mu sync.Mutex
		down := false
		log := &journaltest.Faulty{Log: b.log, Plan: func(_ int, op string) journaltest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if down && op != journaltest.OpFollow {
				return journaltest.Fault{Kind: journaltest.Disconnect}
			}
			return journaltest.Fault{}
		}}
		said, stop := b.works("decider", log)
		defer stop()
		set := func(d bool) { mu.Lock(); down = d; mu.Unlock() }
		set(true)
		c := b.call("r1", "fs_read", `{"path":"a"}`)
		pass(5 * time.Minute)
		if got := b.outcome(c); got != "open" || !strings.Contains(said.all(), "unavailable") {
			t.Fatalf("%s, reported %q", got, said.all())
		}
		set(false)
		pass(time.Minute)
		if got := b.outcome(c); got != "allowed rule" || !strings.HasSuffix(said.all(), "S: <nil>") {
			t.Fatalf("%s, reported %q", got, said.all())
		}
	})
}

func TestWorkerCatchesUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, scratchPolicy)
		var calls []string
		for i := range 50 {
			calls = append(calls, b.call("r1", []string{"fs_read", "x"}[i%2], fmt.Sprintf(`{"path":"%d"}`, i)))
		}
		_, stop := b.works("decider", b.log)
		for i, c := range calls { // ready: all is decided
			if got, want := b.outcome(c), []string{"allowed rule", "asked"}[i%2]; got != want {
				t.Fatalf("call %d: %s", i, got)
			}
		}
		stop()
		last, _ := b.log.Last(t.Context())
		_, stop = b.works("another", b.log)
		pass(time.Hour)
		stop()
		if now, _ := b.log.Last(t.Context()); now != last {
			t.Fatalf("%d messages more", now-last)
		}
	})
}

// The journal's last message cannot be read, so it never arrives.
func TestWorkerIsReadyThoughTheLastMessageIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, scratchPolicy)
		b.call("r1", "fs_read", `{"path":"a"}`)
		last, _ := b.log.Last(t.Context())
		b.log.Drop(last)
		said, stop := b.works("decider", b.log)
		stop()
		if got := said.all(); !strings.Contains(got, "broken") {
			t.Fatalf("reported %q", got)
		}
	})
}

func TestWorkerPassesOnActivations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, scratchPolicy)
		b.activate("default", "rules: []")
		for _, s := range []string{"one", "two"} {
			b.chain = journal.SessionChain(s)
			b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession, Follows: "default"})
		}
		_, stop := b.works("decider", b.log)
		defer stop()
		var calls []string
		for _, s := range []string{"one", "two"} {
			b.chain = journal.SessionChain(s)
			calls = append(calls, b.call("r1", "x", `{}`))
		}
		pass(time.Second)
		b.activate("default", "rules: [{tool: x, decision: deny}]")
		pass(time.Second)
		for i, s := range []string{"one", "two"} {
			b.chain = journal.SessionChain(s)
			if got := b.outcome(calls[i]); got != "denied rule" {
				t.Fatalf("session %s: %s", s, got)
			}
		}
	})
}

func TestWorkerPassesOnBookRevocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, importing)
		standing := b.book()
		_, stop := b.works("decider", b.log)
		defer stop()
		g := b.importGrant("importer", journal.Origin{Session: "book", Grant: standing}, `{"decision":"allow","tool":"x"}`)
		pass(time.Second)
		if _, err := b.tryAt(journal.SessionChain("book"), journal.RoleApprover, "alice", &journal.Revoke{Grant: standing}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if got := b.session().Grant(g).Ended; got != "book" {
			t.Fatalf("the imported grant: %q", got)
		}
	})
}

// six has six agents ask about one directory at once.
func six(b *bench) []string {
	b.t.Helper()
	var calls []string
	for i := range 6 {
		agent := fmt.Sprint("agent", i)
		b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: agent, Run: "run" + agent, Kind: journal.KindSession})
		calls = append(calls, b.call("run"+agent, "fs_write", fmt.Sprintf(`{"path":"docs/%d"}`, i), func(c *journal.Call) { c.Agent = agent }))
	}
	return calls
}

// oneAnswer holds that one always-answer settled six questions.
func (b *bench) oneAnswer(calls []string) {
	b.t.Helper()
	for i, c := range calls {
		want := "allowed grant"
		if i == 2 {
			want = "allowed answer,grant"
		}
		if got := b.outcome(c); got != want {
			b.t.Fatalf("call %d: %s", i, got)
		}
		if err := b.releasable(c); err != nil {
			b.t.Fatal(err)
		}
	}
	if n := len(b.session().Questions()); n != 6 {
		b.t.Fatalf("%d questions", n)
	}
	if n := len(b.grants()); n != 1 {
		b.t.Fatalf("%d grants", n)
	}
}

func TestSixAgentsOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, scratchPolicy)
		_, stop := b.works("decider", b.log)
		defer stop()
		calls := six(b)
		pass(time.Second)
		b.answer("alice", calls[2], journal.AlwaysAllow)
		pass(time.Second)
		b.oneAnswer(calls)
	})
}

// The decider dies right after the commit that holds the grant, whether it
// learned that it was stored or not; the next one goes on.
func TestSixAgentsAndADeciderThatDies(t *testing.T) {
	for _, kind := range []journaltest.Kind{journaltest.None, journaltest.LoseAck} {
		b := newBench(t, scratchPolicy)
		calls := six(b)
		b.settle()
		b.answer("alice", calls[2], journal.AlwaysAllow)
		ctx, die := context.WithCancel(t.Context())
		published := false
		log := &journaltest.Faulty{Log: b.log, Plan: func(_ int, op string) journaltest.Fault {
			if published {
				die()
				return journaltest.Fault{Kind: journaltest.Disconnect}
			}
			if published = op == journaltest.OpPublish; published {
				return journaltest.Fault{Kind: kind}
			}
			return journaltest.Fault{}
		}}
		dying := &decider.Decider{Writer: b.writerTo(log, journal.RoleDecider, "dying")}
		if err := dying.Settle(ctx, b.session()); err == nil {
			t.Fatal("it did not die")
		}
		if n := len(b.grants()); n != 1 {
			t.Fatalf("%d grants", n)
		}
		if got := b.outcome(calls[0]); got != "asked" {
			t.Fatalf("it died too late: %s", got)
		}
		b.settle()
		b.oneAnswer(calls)
	}
}
