package agent_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
)

// What comes between a guard's reading and its appending.

// TestCallThatIsThereByNow: a call turns out, as its commit conflicts, to be
// there under its key already. What that commit would have started is not
// executed: the call there is decided, started and executed once.
func TestCallThatIsThereByNow(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	r := keyed("b/1", "free", `{}`)
	digest, err := decider.CallDigest(w.policy, r.Tool, r.Arguments)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	g.on(func(_ journal.Subject, data []byte) error {
		once.Do(func() {
			w.must(journal.RoleDecider, "decider", &journal.Call{Agent: "main", Run: g.Run(), Kind: journal.CallTool,
				Tool: r.Tool, Arguments: json.RawMessage(r.Arguments), Digest: digest, Key: r.Key})
		})
		return nil
	}, nil)
	w.want(g.run(r), agent.Executed, "effect 1")
	w.ran(r, 1)
	if n := len(events[*journal.Start](w)); n != 1 {
		t.Errorf("%d starts", n)
	}
}

// TestPolicyActivatedBeforeTheCommit: a policy is activated once a guard has
// read the policy chain and before its commit is stored. The commit was decided
// by the policies there were, and stands; the next call is decided by the new
// one, although nothing told the guard of it but the chain.
func TestPolicyActivatedBeforeTheCommit(t *testing.T) {
	w := newWorld(t)
	w.activate(rules)
	g := w.open(following)
	var once sync.Once
	g.on(func(journal.Subject, []byte) error {
		once.Do(func() { w.activate(strict) })
		return nil
	}, nil)
	w.want(g.run(keyed("b/1", "free", `{}`)), agent.Executed, "effect 1")
	w.want(g.run(keyed("b/2", "free", `{}`)), agent.Denied, "closed for today")
	w.ran(call("free", `{}`), 1)
}

// TestPolicyActivatedBeforeTheStart: the same between a decision and its start,
// where these are two commits, as those under a grant are: the decision is stored
// under the old policy, and the guard reads the new one before it starts anything.
func TestPolicyActivatedBeforeTheStart(t *testing.T) {
	w := newWorld(t)
	w.activate(rules)
	g := w.open(following)
	ticket := g.submit(keyed("b/1", "write", `{}`))
	q := g.question(ticket)
	var once sync.Once
	g.on(nil, func(_ journal.Subject, data []byte) error {
		if wrote(data, journal.TypeDecision) {
			once.Do(func() { w.activate(strict) })
		}
		return nil
	})
	w.answerWith(q, always(0))
	w.want(w.wait(ticket), agent.Denied, "closed for today")
	w.ran(call("write", `{}`), 0)
}

// TestAnswerStartsAtOnce: what a person allows once is decided and started by
// one commit, and each of two calls by its own answer.
func TestAnswerStartsAtOnce(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	both := []*agent.Ticket{g.submit(keyed("b/1", "write", `{"n":1}`)), g.submit(keyed("b/2", "write", `{"n":2}`))}
	var together int
	g.on(func(_ journal.Subject, data []byte) error {
		if wrote(data, journal.TypeDecision) && wrote(data, journal.TypeStart) {
			together++
		}
		return nil
	}, nil)
	for _, ticket := range both {
		w.answer(g.question(ticket), journal.AllowOnce)
		w.want(w.wait(ticket), agent.Executed, "ran")
		w.ran(ticket.Request, 1)
	}
	if together != 2 {
		t.Errorf("%d commits both decide and start", together)
	}
}

// TestIdleGuardFollowsNothing: a guard none of whose calls waits for others
// follows nothing, follows while one does, and learns of what it missed.
func TestIdleGuardFollowsNothing(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	w.want(g.run(keyed("b/0", "free", `{}`)), agent.Executed, "effect 1")
	if n, _ := g.followed(); n != 0 {
		t.Errorf("followed %d times", n)
	}
	for i := range 2 {
		ticket := g.submit(call("every", `{}`))
		w.answer(g.question(ticket), journal.AllowOnce)
		w.want(w.wait(ticket), agent.Executed, "ran")
		n, now := g.followed()
		for deadline := time.Now().Add(patience); now && time.Now().Before(deadline); n, now = g.followed() {
			w.want(g.run(call("free", `{}`)), agent.Executed, "ran") // is fed back to the guard, which does not wait for it
		}
		if n != i+1 || now {
			t.Fatalf("followed %d times, and still: %t", n, now)
		}
	}
	w.must(journal.RoleAdmin, "root", &journal.Ended{Reason: "enough"})
	w.want(g.run(call("free", `{}`)), agent.Failed, "ended")
	_ = g.Close(context.Background())
}
