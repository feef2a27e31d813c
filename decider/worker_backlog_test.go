package decider_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

// everyMemory runs a test with workers that keep all folds, and with workers
// that keep none but the last.
func everyMemory(t *testing.T, test func(t *testing.T, memory int)) {
	for _, memory := range []int{0, 1} {
		t.Run(fmt.Sprint("memory ", memory), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, memory) })
		})
	}
}

// at makes a session the bench's.
func (b *bench) at(session string) { b.chain = journal.SessionChain(session) }

// several begins sessions that follow the default policy, each with a call of x.
func (b *bench) several(from, to int) (calls []string) {
	b.t.Helper()
	for i := from; i < to; i++ {
		b.at(fmt.Sprint("many", i))
		b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession, Follows: "default"})
		calls = append(calls, b.call("r1", "x", `{}`))
	}
	return calls
}

func (b *bench) wantAll(calls []string, want string) {
	b.t.Helper()
	for i, c := range calls {
		b.at(fmt.Sprint("many", i))
		if got := b.outcome(c); got != want {
			b.t.Fatalf("session %d: %s, want %s", i, got, want)
		}
	}
}

// A worker goes on with sessions whose folds it has let go, whatever brings
// them up: a call, an answer, a deadline, a policy.
func TestWorkerTakesUpWhatItLetGo(t *testing.T) {
	everyMemory(t, func(t *testing.T, memory int) {
		b := live(t, scratchPolicy)
		b.memory = memory
		b.activate("default", "rules: []\nsettings: {deadline: 1h}")
		calls := b.several(0, 5) // before it runs
		_, stop := b.works("decider", b.log)
		defer stop()
		calls = append(calls, b.several(5, 9)...)
		pass(time.Second)
		b.wantAll(calls, "asked")
		for _, i := range []int{1, 7} {
			b.at(fmt.Sprint("many", i))
			b.answer("alice", calls[i], journal.AllowOnce)
			pass(time.Second)
			if got := b.outcome(calls[i]); got != "allowed answer" {
				t.Fatalf("answered: %s", got)
			}
			b.start("r1", calls[i])
			b.result("r1", calls[i], journal.StatusOK)
			calls[i] = b.call("r1", "x", `{}`)
		}
		pass(time.Second)
		b.wantAll(calls, "asked")
		b.activate("default", "rules: [{tool: y, decision: deny}]\nsettings: {deadline: 1h}")
		pass(time.Second)
		b.wantAll(calls, "asked")
		pass(2 * time.Hour)
		b.wantAll(calls, "denied lapse")
		for i := range calls {
			b.at(fmt.Sprint("many", i))
			calls[i] = b.call("r1", "x", `{"n":1}`)
		}
		pass(time.Second)
		b.activate("default", "rules: [{tool: x, decision: deny}]")
		pass(time.Second)
		b.wantAll(calls, "denied rule")
		for at, n := range b.decided() {
			if n != 1 {
				t.Errorf("%s was decided %d times", at, n)
			}
		}
	})
}

func TestWorkerPassesOnBookRevocationsToWhatItLetGo(t *testing.T) {
	everyMemory(t, func(t *testing.T, memory int) {
		b := live(t, importing)
		b.memory = memory
		standing := b.book()
		before := b.importGrant("importer", journal.Origin{Session: "book", Grant: standing}, `{"decision":"allow","tool":"x"}`)
		_, stop := b.works("decider", b.log)
		defer stop()
		b.open("other", importing)
		during := b.importGrant("importer", journal.Origin{Session: "book", Grant: standing}, `{"decision":"allow","tool":"x"}`)
		b.open("third", importing)
		pass(time.Second)
		if _, err := b.tryAt(journal.SessionChain("book"), journal.RoleApprover, "alice", &journal.Revoke{Grant: standing}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		for session, grant := range map[string]string{"S": before, "other": during} {
			b.at(session)
			if got := b.session().Grant(grant).Ended; got != "book" {
				t.Errorf("the imported grant of %s: %q", session, got)
			}
		}
	})
}

// slowly is a Log that reads the whole journal only once it may.
type slowly struct {
	journal.Log
	may chan struct{}
}

func (s slowly) LoadAll(ctx context.Context, after uint64) iter.Seq2[journal.Message, error] {
	return func(yield func(journal.Message, error) bool) {
		select {
		case <-s.may:
			s.Log.LoadAll(ctx, after)(yield)
		case <-ctx.Done():
			yield(journal.Message{}, fmt.Errorf("%w: %w", journal.ErrUnavailable, ctx.Err()))
		}
	}
}

// What comes in does not wait for what was left before, and what was left is
// decided once, whether something happens in its session meanwhile or not.
func TestWorkerDecidesBesideTheBacklog(t *testing.T) {
	everyMemory(t, func(t *testing.T, memory int) {
		b := live(t, scratchPolicy)
		b.activate("default", "rules: [{tool: x, decision: allow}]")
		old := b.several(0, 4)
		log := slowly{b.log, make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		serving, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		w := &decider.Worker{
			Decider: &decider.Decider{Writer: b.writerTo(log, journal.RoleDecider, "decider")}, Memory: memory,
			Serving: func() { close(serving) }, Ready: func() { close(ready) },
		}
		go func() { done <- w.Run(ctx) }()
		<-serving
		b.open("new", scratchPolicy)
		fresh := b.call("r1", "fs_read", `{"path":"a"}`)
		b.at("many2")
		again := b.call("r1", "x", `{"n":2}`)
		pass(time.Second)
		if got := b.outcome(again); got != "allowed rule" {
			t.Fatalf("of an old session: %s", got)
		}
		if got := b.outcome(old[2]); got != "allowed rule" {
			t.Fatalf("what was left in it: %s", got)
		}
		b.at("new")
		if got := b.outcome(fresh); got != "allowed rule" {
			t.Fatalf("of a new session: %s", got)
		}
		select {
		case <-ready:
			t.Fatal("it is ready with a backlog")
		default:
		}
		close(log.may)
		<-ready
		b.wantAll(old, "allowed rule")
		for at, n := range b.decided() {
			if n != 1 {
				t.Errorf("%s was decided %d times", at, n)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}

// Sessions in which nothing is open are not written to when a worker begins or
// a policy is activated: they adopt it when they have something to decide.
func TestWorkerLeavesIdleSessionsAlone(t *testing.T) {
	everyMemory(t, func(t *testing.T, memory int) {
		b := live(t, scratchPolicy)
		b.memory = memory
		b.activate("default", "rules: [{tool: x, decision: allow}]")
		_, stop := b.works("decider", b.log)
		calls := b.several(0, 3)
		pass(time.Second)
		for i, c := range calls {
			b.at(fmt.Sprint("many", i))
			b.start("r1", c)
			b.result("r1", c, journal.StatusOK)
		}
		pass(time.Second)
		stop()
		b.activate("default", "rules: [{tool: x, decision: deny}]")
		last, _ := b.log.Last(t.Context())
		_, stop = b.works("decider", b.log)
		defer stop()
		pass(time.Hour)
		b.activate("default", "rules: [{tool: x, decision: deny}, {tool: y, decision: deny}]")
		pass(time.Hour)
		if now, _ := b.log.Last(t.Context()); now != last+2 { // the policy and its activation
			t.Errorf("%d messages more", now-last)
		}
		for i := range calls {
			b.at(fmt.Sprint("many", i))
			calls[i] = b.call("r1", "x", `{"n":1}`)
		}
		pass(time.Second)
		b.wantAll(calls, "denied rule")
	})
}

// A session whose head lay before what cannot be read stays broken, whatever is
// appended to it later.
func TestWorkerRemembersLosses(t *testing.T) {
	everyMemory(t, func(t *testing.T, memory int) {
		b := live(t, scratchPolicy)
		b.memory = memory
		b.open("lost", scratchPolicy)
		b.call("r1", "fs_read", `{"path":"a"}`)
		last, _ := b.log.Last(t.Context())
		b.publish("rules: []") // the policy chain goes on behind what is lost
		b.log.Drop(last)
		_, stop := b.works("decider", b.log)
		defer stop()
		unaware := journal.NewState(journal.SessionChain("S")) // of the loss
		if err := journal.Refresh(t.Context(), b.log, unaware); err != nil {
			t.Fatal(err)
		}
		w := b.writer(journal.RoleAgent, "agent")
		call := w.Event(b.body("r1", "fs_read", `{"path":"b"}`))
		if err := w.Append(t.Context(), unaware, w.Now(unaware), call); err != nil {
			t.Fatal(err)
		}
		b.open("new", scratchPolicy)
		fresh := b.call("r1", "fs_read", `{"path":"c"}`)
		pass(time.Minute)
		if got := b.outcome(fresh); got != "allowed rule" {
			t.Errorf("of a new session: %s", got)
		}
		if n := b.decided()[call.ID+"1"]; n != 0 {
			t.Errorf("a call of a session that may have lost a commit is decided %d times", n)
		}
	})
}
