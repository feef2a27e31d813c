package decider_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

// forged is an allow of the newest attempt that no Decide made.
func (b *bench) forged(call string, by ...journal.Cause) *journal.Decision {
	b.t.Helper()
	c := b.session().Call(call)
	return &journal.Decision{
		Call: call, Attempt: c.Last().No, Outcome: journal.Allow, By: by, Policy: b.pol.Digest(),
		Engine: decider.Engine, Digest: c.Digest, Facts: json.RawMessage(`{}`), Message: "allowed",
	}
}

func byRule(raw string) journal.Cause {
	return journal.Cause{Kind: journal.ByRule, Rule: json.RawMessage(raw)}
}
func byID(kind journal.CauseKind, id string) journal.Cause {
	return journal.Cause{Kind: kind, ID: id}
}

// wantRefused holds that the fold takes the forgery and that it is not started.
func (b *bench) wantRefused(call string) {
	b.t.Helper()
	if got := b.outcome(call); !strings.HasPrefix(got, "allowed ") {
		b.t.Fatalf("the forgery is not in the chain: %s", got)
	}
	if err := b.releasable(call); err == nil || !strings.Contains(err.Error(), "does not follow") {
		b.t.Fatalf("released: %v", err)
	}
}

func TestForgedRule(t *testing.T) {
	b := newBench(t, scratchPolicy)
	for _, tool := range []string{"fs_delete", "mail", "x"} {
		c := b.call("r1", tool, `{"path":"a"}`)
		b.must(journal.RoleDecider, "decider", b.forged(c, byRule(`{"decision":"allow","tool":"*"}`)))
		b.wantRefused(c)
	}
}

// Overruling an open question, or its deadline, is forging too.
func TestForgedOverAnOpenQuestion(t *testing.T) {
	b := newBench(t, approvals+"settings: {deadline: 1h}")
	c, d := b.call("r1", "two", `{}`), b.call("r1", "x", `{}`)
	b.settle()
	b.answer("ann", c, journal.AllowOnce)
	b.must(journal.RoleDecider, "decider", b.forged(c, byRule(`{"decision":"allow","tool":"*"}`)))
	b.wantRefused(c)
	b.now = b.now.Add(time.Hour)
	b.must(journal.RoleDecider, "decider", b.forged(d, byRule(`{"decision":"allow","tool":"*"}`)))
	b.wantRefused(d)
}

// An honest outcome for made-up reasons would not spend what it should.
func TestForgedReasons(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c, d := b.call("r1", "x", `{}`), b.call("r1", "y", `{}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysAllow, uses(1))
	b.answer("alice", d, journal.AlwaysAllow)
	b.want(c, "allowed answer,grant")
	b.want(d, "allowed answer,grant")
	unlimited := b.grants()[1].Mark.ID
	e := b.call("r1", "x", `{"n":1}`)
	b.must(journal.RoleDecider, "decider", b.forged(e, byID(journal.ByGrant, unlimited)))
	b.wantRefused(e)
	f := b.call("r1", "x", `{"n":2}`)
	b.must(journal.RoleDecider, "decider", b.forged(f, byRule(`{"decision":"allow","tool":"x"}`)))
	b.wantRefused(f)
}

// An allow-once that somebody made a grant of: the fold refuses it.
func TestForgedGrantOfAnAllowOnce(t *testing.T) {
	b := newBench(t, approvals)
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("ann", c, journal.AllowOnce)
	q := b.question(c)
	w := b.writer(journal.RoleDecider, "decider")
	grant := w.Event(&journal.Grant{Question: q.Mark.ID, Rules: []json.RawMessage{json.RawMessage(`{"decision":"allow","tool":"*"}`)}})
	dec := w.Event(b.forged(c, byID(journal.ByAnswer, q.Answers[0].Mark.ID), byID(journal.ByGrant, grant.ID)))
	if err := w.Append(t.Context(), b.session(), w.Now(b.session()), grant, dec); err == nil {
		t.Fatal("the fold takes a grant of an allow-once")
	}
}

// Grants that the answers do not leave, though each equals the answers its
// decision cites, settle nothing.
func TestForgedGrants(t *testing.T) {
	for _, tc := range []struct {
		name, tool string
		votes      []said
	}{
		{"only one of the counted votes is always", "two", []said{{"ann", journal.AlwaysAllow}, {"bob", journal.AllowOnce}}},
		{"the answer is unusable", "noted", []said{{"ann", journal.AlwaysAllow}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, approvals)
			c := b.call("r1", tc.tool, `{}`)
			b.settle()
			for _, v := range tc.votes {
				b.answer(v.who, c, v.action)
			}
			q := b.question(c)
			rules, err := q.GrantRules(&q.Answers[0].Answer)
			if err != nil {
				t.Fatal(err)
			}
			w, st := b.writer(journal.RoleDecider, "decider"), b.session()
			grant := w.Event(&journal.Grant{Question: q.Mark.ID, Rules: rules})
			dec := w.Event(b.forged(c, byID(journal.ByAnswer, q.Answers[0].Mark.ID), byID(journal.ByGrant, grant.ID)))
			if err := w.Append(t.Context(), st, w.Now(st), grant, dec); err != nil {
				return // the fold refuses it: as good
			}
			b.wantRefused(c)
			d := b.call("r1", tc.tool, `{"n":1}`)
			b.want(d, "asked")
			e := b.call("r1", tc.tool, `{"n":2}`)
			b.must(journal.RoleDecider, "decider", b.forged(e, byID(journal.ByGrant, grant.ID)))
			b.wantRefused(e)
		})
	}
}

func TestForgedImport(t *testing.T) {
	b := newBench(t, importing)
	g := b.importGrant("stranger", journal.Origin{Import: "a file"}, `{"decision":"allow","tool":"x"}`)
	c := b.call("r1", "x", `{}`)
	b.must(journal.RoleDecider, "decider", b.forged(c, byID(journal.ByGrant, g)))
	b.wantRefused(c)
}

// A grant written after a decision does not make it honest.
func TestForgedBeforeItsGrant(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{"n":1}`)
	b.must(journal.RoleDecider, "decider", b.forged(c, byRule(`{"decision":"allow","tool":"x"}`)))
	d := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("alice", d, journal.AlwaysAllow)
	b.want(d, "allowed answer,grant")
	b.wantRefused(c)
}

// A forged allow that would outlive the policy's decision-ttl.
func TestForgedExpiry(t *testing.T) {
	b := newBench(t, "rules: [{tool: x, decision: allow}]\nsettings: {decision-ttl: 1h}")
	c := b.call("r1", "x", `{}`)
	b.must(journal.RoleDecider, "decider", b.forged(c, byRule(`{"decision":"allow","tool":"x"}`)))
	b.wantRefused(c)
}

// An interrupted call allowed as if it were new.
func TestForgedAfterUnknown(t *testing.T) {
	b := newBench(t, interruptPolicy("ask"))
	c := interrupt(b, "fs_write")
	b.must(journal.RoleDecider, "decider", b.forged(c, byRule(`{"decision":"allow","tool":"*"}`)))
	b.wantRefused(c)
}

func TestForgedDigest(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "fs_read", `{"path":"a"}`, func(c *journal.Call) { c.Digest = journal.Digest([]byte(`{}`)) })
	b.must(journal.RoleDecider, "decider", b.forged(c, byRule(`{"decision":"allow","tool":"fs_read"}`)))
	b.wantRefused(c)
}

func TestOtherEngineIsNamed(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	forged := b.forged(c, byRule(`{"decision":"allow","tool":"x"}`))
	forged.Engine = "policy/999"
	b.must(journal.RoleDecider, "decider", forged)
	err := b.releasable(c)
	if err == nil || !strings.Contains(err.Error(), "policy/999") || !strings.Contains(err.Error(), decider.Engine) {
		t.Fatalf("engines not named: %v", err)
	}
	// Another engine that came to the same is no trouble.
	d := b.call("r1", "fs_read", `{"path":"a"}`)
	honest := b.forged(d, byRule(`{"decision":"allow","tool":"fs_read"}`))
	honest.Engine = "policy/999"
	b.must(journal.RoleDecider, "decider", honest)
	if err := b.releasable(d); err != nil {
		t.Fatal(err)
	}
}

func TestNotReleasable(t *testing.T) {
	b := newBench(t, scratchPolicy)
	open, denied, started := b.call("r1", "x", `{}`), b.call("r1", "fs_delete", `{"path":"a"}`), b.call("r1", "fs_read", `{"path":"a"}`)
	b.settle()
	b.start("r1", started)
	for name, call := range map[string]string{"asked": open, "denied": denied, "started": started, "unknown": "nothing"} {
		if b.releasable(call) == nil {
			t.Errorf("a call that is %s was released", name)
		}
	}
}

func TestNothingIsReleasedInABrokenSession(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "fs_read", `{"path":"a"}`)
	b.want(c, "allowed rule")
	b.call("r1", "x", `{}`)
	last, err := b.log.Last(t.Context())
	if err != nil || !b.log.Drop(last) {
		t.Fatal("nothing dropped")
	}
	if err := b.releasable(c); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Fatalf("released in a broken session: %v", err)
	}
	if err := b.dec.Settle(t.Context(), b.session()); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Fatalf("settled a broken session: %v", err)
	}
}

// A grant given back by a not-run result, earlier in the chain than the one a
// decision cites, does not make that decision look forged.
func TestHonestThoughAnEarlierGrantIsBack(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysAllow, uses(1))
	b.want(c, "allowed answer,grant")
	b.start("r1", c)
	d := b.call("r1", "x", `{"n":1}`)
	b.want(d, "asked")
	b.answer("alice", d, journal.AlwaysAllow)
	b.want(d, "allowed answer,grant")
	e := b.call("r1", "x", `{"n":2}`)
	b.want(e, "allowed grant")
	b.result("r1", c, journal.StatusNotRun)
	for _, call := range []string{c, d, e} {
		if err := b.releasable(call); err != nil {
			t.Fatal(err)
		}
	}
}

// Every allow cites rules, grants and answers that a later deny grant does not unsay.
func TestHonestThoughDeniedLater(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c, d := b.call("r1", "x", `{}`), b.call("r1", "x", `{"n":1}`)
	b.settle()
	b.answer("alice", c, journal.AllowOnce)
	b.want(c, "allowed answer")
	b.answer("alice", d, journal.AlwaysDeny)
	b.want(d, "denied answer,grant")
	if err := b.releasable(c); err != nil {
		t.Fatal(err)
	}
}
