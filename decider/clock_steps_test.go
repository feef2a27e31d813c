package decider_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"decisionjournal/decider"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// Steps of a clock: the machine's, and so also that of the journal's server,
// unless said otherwise.

const year = 365 * 24 * time.Hour

// TestStepBackUnexpiresNothing: what has expired by the chain stays so, wherever
// the clock goes.
func TestStepBackUnexpiresNothing(t *testing.T) {
	for name, back := range map[string]time.Duration{"an hour": time.Hour, "a year": year} {
		for settled, settle := range map[string]func(*bench){
			"after it was noticed": func(b *bench) { b.settle() },
			"unnoticed":            func(b *bench) { b.call("r1", "y", `{}`) }, // all that is in the chain is the time
		} {
			t.Run(name+" "+settled, func(t *testing.T) {
				b := newBench(t, scratchPolicy)
				c := b.call("r1", "x", `{}`)
				b.settle()
				b.answer("alice", c, journal.AlwaysAllow, b.expires(time.Hour))
				b.want(c, "allowed answer,grant")
				b.now = b.now.Add(time.Hour)
				settle(b)
				b.now = b.now.Add(-back)
				if err := b.releasable(c); err == nil {
					t.Fatal("released under an expired grant")
				}
				b.want(c, "asked")
				d := b.call("r1", "x", `{"n":1}`)
				b.want(d, "asked")
				b.wantLapses(journal.LapseExpired, journal.LapseExpired)
				b.answer("alice", d, journal.AllowOnce)
				b.want(d, "allowed answer")
				if err := b.releasable(d); err != nil {
					t.Fatalf("the session does not go on: %v", err)
				}
			})
		}
	}
}

// TestStepBackMissesNoDeadline: with the clock set back nobody is too late who
// was not, nothing is denied early, and the deadline is met once it is there.
func TestStepBackMissesNoDeadline(t *testing.T) {
	b := newBench(t, "rules: []\nsettings: {deadline: 30m}")
	c, d := b.call("r1", "x", `{"n":1}`), b.call("r1", "x", `{"n":2}`)
	b.settle()
	due := b.question(c).Deadline.Time
	b.now = b.now.Add(-time.Hour)
	b.want(c, "asked")
	b.answer("alice", c, journal.AllowOnce)
	b.want(c, "allowed answer")
	b.now = due.Add(-1)
	b.want(d, "asked")
	b.now = due
	if err := b.tryAnswer("alice", d, journal.AllowOnce); !errors.Is(err, journal.ErrInvalid) {
		t.Fatalf("answered at the deadline: %v", err)
	}
	b.want(d, "denied lapse")
	b.now = due.Add(-time.Hour) // and back again
	if err := b.tryAnswer("alice", d, journal.AllowOnce); !errors.Is(err, journal.ErrInvalid) {
		t.Fatalf("answered after it was denied: %v", err)
	}
	b.want(d, "denied lapse")
}

// TestAYearAhead: a clock that was in the next year for a moment denies what was
// due by then, and afterwards the session goes on, from there.
func TestAYearAhead(t *testing.T) {
	b := newBench(t, "rules: []\nsettings: {deadline: 30m}")
	c := b.call("r1", "x", `{"n":1}`)
	b.settle()
	b.now = b.now.Add(year)
	b.want(c, "denied lapse")
	b.now = b.now.Add(-year)
	d := b.call("r1", "x", `{"n":2}`)
	b.want(d, "asked")
	if at, want := b.question(d).Deadline.Time, b.now.Add(year+30*time.Minute); !at.Equal(want) {
		t.Fatalf("due at %s, want %s", at, want)
	}
	b.answer("alice", d, journal.AlwaysAllow)
	b.want(d, "allowed answer,grant")
	b.start("r1", d)
	b.result("r1", d, journal.StatusOK)
	if voids := voidsOf(b); voids != 0 {
		t.Fatalf("%d void", voids)
	}
}

func voidsOf(b *bench) int {
	_, n := b.session().Anomalies()
	return n
}

// TestAnApproverWhoseClockIsBehind cannot answer after the deadline, however far
// back that clock is: one who looks at the journal's clock is told so, and what
// one stores who does not is void.
func TestAnApproverWhoseClockIsBehind(t *testing.T) {
	for _, lag := range []time.Duration{2 * time.Minute, time.Hour, year} {
		for _, looks := range []bool{true, false} {
			t.Run(fmt.Sprint(lag, " looks ", looks), func(t *testing.T) {
				b := newBench(t, "rules: []\nsettings: {deadline: 30m}")
				c := b.call("r1", "x", `{}`)
				b.settle()
				server := b.now.Add(31 * time.Minute)
				b.log.SetClock(func() time.Time { return server })
				b.now = server.Add(-lag)
				var log journal.Log = b.log
				if looks {
					log = clockedLog{b.log, func() time.Time { return server }}
				}
				w, st := b.writerTo(log, journal.RoleApprover, "alice"), b.session()
				q := b.question(c)
				answer := &journal.Answer{Question: q.Mark.ID, Action: journal.AllowOnce, Shown: q.Shown, By: "alice"}
				err := w.Append(context.Background(), st, w.Now(st), w.Event(answer))
				if looks && (!errors.Is(err, journal.ErrInvalid) || !strings.Contains(err.Error(), "behind the journal's")) {
					t.Fatalf("got %v, want to be told", err)
				}
				b.now = server
				b.want(c, "denied lapse")
				if voids := voidsOf(b); (voids == 0) != looks {
					t.Fatalf("%d void", voids)
				}
			})
		}
	}
}

// clockedLog is a Log whose server has a clock.
type clockedLog struct {
	*journaltest.Memory
	now func() time.Time
}

func (l clockedLog) Clock(context.Context) (time.Time, error) { return l.now(), nil }

// stepping is a clock in a bubble that can be set.
type stepping struct{ ahead atomic.Int64 }

func (s *stepping) now() time.Time        { return time.Now().Add(time.Duration(s.ahead.Load())) }
func (s *stepping) step(by time.Duration) { s.ahead.Add(int64(by)) }

// worksBy runs a worker with a clock of its own until the returned stop.
func (b *bench) worksBy(clock *stepping, log journal.Log) (said *told, stop func()) {
	b.t.Helper()
	w, err := journal.NewWriter(journal.Config{Log: log, Role: journal.RoleDecider, Actor: "worker", Now: clock.now})
	if err != nil {
		b.t.Fatal(err)
	}
	said = &told{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	worker := &decider.Worker{Decider: &decider.Decider{Writer: w}, Problem: said.problem}
	go func() { done <- worker.Run(ctx) }()
	synctest.Wait()
	return said, func() { cancel(); <-done }
}

// TestWorkerAcrossSteps: a deadline is met within a minute after the clock was
// set past it, or the machine slept past it, and not before it is there.
func TestWorkerAcrossSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, "rules: []\nsettings: {deadline: 72h}")
		clock := &stepping{}
		b.log.SetClock(clock.now)
		_, stop := b.worksBy(clock, b.log)
		defer stop()
		c := b.call("r1", "x", `{}`)
		synctest.Wait()
		clock.step(-24 * time.Hour)
		pass(72 * time.Hour)
		if got := b.outcome(c); got != "asked" {
			t.Fatalf("a day before its deadline: %s", got)
		}
		clock.step(23 * time.Hour)
		pass(2 * time.Minute)
		if got := b.outcome(c); got != "asked" {
			t.Fatalf("an hour before its deadline: %s", got)
		}
		clock.step(time.Hour)
		pass(time.Minute)
		if got := b.outcome(c); got != "denied lapse" {
			t.Fatalf("a minute after the clock was set past its deadline: %s", got)
		}
	})
}

// TestWorkerWithAWrongClock decides nothing, says why, and goes on soon after
// its clock was mended.
func TestWorkerWithAWrongClock(t *testing.T) {
	for name, wrong := range map[string]time.Duration{"a year ahead": year, "an hour ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := live(t, "rules: []")
				clock := &stepping{}
				said, stop := b.worksBy(clock, clockedLog{b.log, time.Now})
				defer stop()
				clock.step(wrong)
				c := b.call("r1", "x", `{}`)
				pass(10 * time.Minute)
				if st := b.session(); st.Call(c).Last().Question != "" || st.Call(c).Last().Decision != "" {
					t.Fatalf("with a wrong clock: %s", b.outcome(c))
				}
				if !strings.Contains(said.all(), "this machine's clock is") {
					t.Fatalf("said %q", said.all())
				}
				clock.step(-wrong)
				pass(2 * time.Minute)
				if got := b.outcome(c); got != "asked" {
					t.Fatalf("after the clock was mended: %s, said %q", got, said.all())
				}
				if voids := voidsOf(b); voids != 0 {
					t.Fatalf("%d void", voids)
				}
			})
		})
	}
}

// TestWorkerWhoseClockIsBehind decides by the chain's time.
func TestWorkerWhoseClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := live(t, "rules: []\nsettings: {deadline: 10m}")
		clock := &stepping{}
		_, stop := b.worksBy(clock, clockedLog{b.log, time.Now})
		defer stop()
		clock.step(-time.Hour)
		c := b.call("r1", "x", `{}`)
		synctest.Wait()
		if got := b.outcome(c); got != "asked" {
			t.Fatalf("with a clock an hour behind: %s", got)
		}
		clock.step(time.Hour)
		pass(11 * time.Minute)
		if got := b.outcome(c); got != "denied lapse" || voidsOf(b) != 0 {
			t.Fatalf("after the clock was mended: %s, %d void", got, voidsOf(b))
		}
	})
}
