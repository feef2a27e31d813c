package decider_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

func TestAskRuleMeansAskEveryTime(t *testing.T) {
	b := newBench(t, scratchPolicy)
	mail := b.call("r1", "mail", `{}`)
	b.want(mail, "asked")
	if q := b.question(mail); q.Grantable || len(q.Suggestion) > 0 || q.Reason != journal.AskRule {
		t.Fatalf("grantable %v, suggestion %s, reason %s", q.Grantable, q.Suggestion, q.Reason)
	}
	if err := b.tryAnswer("alice", mail, journal.AlwaysAllow); err == nil {
		t.Fatal("an always-answer to a question that is not grantable was taken")
	}
	b.answer("alice", mail, journal.AllowOnce)
	b.want(mail, "allowed answer")
	b.want(b.call("r1", "mail", `{}`), "asked")

	// A grant that would cover it is not consulted.
	other := b.call("r1", "other", `{}`)
	b.want(other, "asked")
	b.answer("alice", other, journal.AlwaysAllow, rule(`{"tool":"*"}`))
	b.want(other, "allowed answer,grant")
	b.want(b.call("r1", "mail", `{}`), "asked")
}

func TestRememberLetsGrantsAnswer(t *testing.T) {
	b := newBench(t, scratchPolicy)
	push := b.call("r1", "push", `{}`)
	b.want(push, "asked")
	b.answer("alice", push, journal.AlwaysAllow)
	b.want(push, "allowed answer,grant")
	b.want(b.call("r1", "push", `{"n":1}`), "allowed grant")
}

func TestGrantsHoldInTheirLayer(t *testing.T) {
	b := newBench(t, scratchPolicy)
	first := b.call("r1", "x", `{}`, layer("outer"))
	b.want(first, "asked")
	b.answer("alice", first, journal.AlwaysAllow)
	b.want(first, "allowed answer,grant")
	b.want(b.call("r1", "x", `{}`, layer("outer")), "allowed grant")
	b.want(b.call("r1", "x", `{}`), "asked")
	b.want(b.call("r1", "x", `{}`, layer("inner")), "asked")
}

func TestDenyGrantBeatsAllowGrant(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	d := b.call("r1", "y", `{}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysAllow, rule(`{"tool":"*"}`))
	b.answer("bob", d, journal.AlwaysDeny) // in the chain before any grant is applied
	b.want(c, "allowed answer,grant")
	b.want(d, "denied answer,grant")
	b.want(b.call("r1", "y", `{"n":1}`), "denied grant")
	b.want(b.call("r1", "z", `{}`), "allowed grant")
}

// An answer in the chain is settled before a grant is applied to its question.
func TestAnswerComesBeforeGrants(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	d := b.call("r1", "x", `{"n":1}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysAllow)
	b.answer("bob", d, journal.DenyOnce)
	b.want(c, "allowed answer,grant")
	b.want(d, "denied answer")
}

// A call that arrives beside a granting answer is not asked about.
func TestNobodyIsAskedWhatWasJustAnswered(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysAllow)
	late := b.call("r1", "x", `{"n":1}`)
	b.want(late, "allowed grant")
	if n := len(b.session().Questions()); n != 1 {
		t.Fatalf("%d questions", n)
	}
}

func TestUses(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysAllow, uses(2))
	b.want(c, "allowed answer,grant")
	d, e := b.call("r1", "x", `{"n":1}`), b.call("r1", "x", `{"n":2}`)
	b.want(d, "allowed grant")
	b.want(e, "allowed grant") // unspent allows take no use
	b.start("r1", c)
	b.start("r1", d)
	if err := b.releasable(e); err == nil || !strings.Contains(err.Error(), "overtaken") {
		t.Fatalf("used up: %v", err)
	}
	b.want(e, "asked")
	b.wantLapses(journal.LapseOvertaken)
	b.result("r1", d, journal.StatusNotRun) // gives a use back
	b.want(e, "allowed grant")
}

func TestGrantExpires(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysAllow, b.expires(time.Hour))
	b.want(c, "allowed answer,grant")
	b.now = b.now.Add(time.Hour)
	if err := b.releasable(c); err == nil {
		t.Fatal("released under an expired grant")
	}
	b.want(c, "asked")
	b.wantLapses(journal.LapseExpired, journal.LapseExpired) // of the grant, of the allow
	if g := b.grants()[0]; g.Ended != "expired" {
		t.Fatal(g.Ended)
	}
}

func TestRevokeBetweenDecisionAndStart(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysAllow)
	b.want(c, "allowed answer,grant")
	b.must(journal.RoleApprover, "alice", &journal.Revoke{Grant: b.grants()[0].Mark.ID})
	if err := b.releasable(c); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Fatalf("revoked: %v", err)
	}
	b.want(c, "asked")
	b.wantLapses(journal.LapseRevoked)
	if n := b.session().Call(c).Last().No; n != 2 {
		t.Fatalf("attempt %d", n)
	}
}

const importing = "rules: []\nimporters: [importer]"

func (b *bench) importGrant(actor string, o journal.Origin, rule string) string {
	b.t.Helper()
	g := &journal.Grant{Rules: []json.RawMessage{json.RawMessage(rule)}, Origin: &o}
	return b.must(journal.RoleDecider, actor, g)[0]
}

func TestImportedGrantsOnlyFromImporters(t *testing.T) {
	b := newBench(t, importing)
	b.importGrant("stranger", journal.Origin{Import: "a file"}, `{"decision":"allow","tool":"x"}`)
	c := b.call("r1", "x", `{}`)
	b.want(c, "asked")
	b.importGrant("importer", journal.Origin{Import: "a file"}, `{"decision":"allow","tool":"x"}`)
	b.want(c, "allowed grant")
	if err := b.releasable(c); err != nil {
		t.Fatal(err)
	}
	// A stranger's denial is as void as a stranger's allow.
	b.importGrant("stranger", journal.Origin{Import: "a file"}, `{"decision":"deny","tool":"x"}`)
	b.want(b.call("r1", "x", `{}`), "allowed grant")
	// The next policy lists nobody.
	b.adopt("rules: []")
	b.want(b.call("r1", "x", `{}`), "asked")
}

// book makes a book with one standing grant, given by an answer.
func (b *bench) book() (grant string) {
	b.t.Helper()
	home := b.chain
	defer func() { b.chain = home }()
	b.chain = journal.SessionChain("book")
	b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "b1", Kind: journal.KindBook})
	b.must(journal.RoleDecider, "decider", &journal.Adopt{Digest: b.pol.Digest()})
	return b.importGrant("importer", journal.Origin{Import: "standing"}, `{"decision":"allow","tool":"x"}`)
}

func TestBookRevocationReachesTheSession(t *testing.T) {
	b := newBench(t, importing)
	standing := b.book()
	b.importGrant("importer", journal.Origin{Session: "book", Grant: standing}, `{"decision":"allow","tool":"x"}`)
	c := b.call("r1", "x", `{}`)
	b.want(c, "allowed grant")
	if err := b.releasable(c); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tryAt(journal.SessionChain("book"), journal.RoleApprover, "alice", &journal.Revoke{Grant: standing}); err != nil {
		t.Fatal(err)
	}
	if err := b.releasable(c); err == nil || !strings.Contains(err.Error(), "revoked in its book") {
		t.Fatalf("released under a grant its book revoked: %v", err)
	}
	b.want(c, "asked")
	b.wantLapses(journal.LapseBook, journal.LapseRevoked)
}

func TestGrantThatItsBookDoesNotHold(t *testing.T) {
	b := newBench(t, importing)
	b.book()
	made := b.writer(journal.RoleDecider, "x").NewID()
	b.importGrant("importer", journal.Origin{Session: "book", Grant: made}, `{"decision":"allow","tool":"x"}`)
	b.want(b.call("r1", "x", `{}`), "asked")
	b.wantLapses(journal.LapseBook)
}

// A broken book may have lost a revocation: its allows count for nothing until
// it is repaired, its denials go on.
func TestBrokenBook(t *testing.T) {
	b := newBench(t, importing)
	standing := b.book()
	b.importGrant("importer", journal.Origin{Session: "book", Grant: standing}, `{"decision":"allow","tool":"x"}`)
	b.importGrant("importer", journal.Origin{Session: "book", Grant: standing}, `{"decision":"deny","tool":"y"}`)
	c := b.call("r1", "x", `{}`)
	b.want(c, "allowed grant")
	if _, err := b.tryAt(journal.SessionChain("book"), journal.RoleApprover, "alice", &journal.Revoke{Grant: standing}); err != nil {
		t.Fatal(err)
	}
	last, err := b.log.Last(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	b.call("r1", "z", `{}`) // so that the lost commit cannot be the session's own
	b.log.Drop(last)
	st := b.session()
	book := b.state(journal.SessionChain("book"))
	if cond, _ := book.Condition(); cond != journal.Broken {
		t.Fatalf("the book is %s", cond)
	}
	in := decider.Input{
		State: st, Policies: b.dec.Policies(), Books: map[string]*journal.State{"book": book},
		Now: journal.At(b.now), NewID: b.dec.Writer.NewID,
	}
	if err := decider.Releasable(in, st.Call(c)); err == nil || !strings.Contains(err.Error(), "cannot be trusted") {
		t.Fatalf("released under a broken book: %v", err)
	}
	call := func(tool string) *journal.CallState {
		c := journal.NewCallState(*b.body("r1", tool, `{}`), b.dec.Writer.NewID(), b.pol.Digest())
		return c
	}
	events, err := decider.DecideCall(in, call("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, asks := events[0].Body.(*journal.Question); !asks {
		t.Fatalf("a broken book's grant decides: %+v", events[0].Body)
	}
	events, err = decider.DecideCall(in, call("y"))
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := events[0].Body.(*journal.Decision); !ok || d.Outcome != journal.Deny {
		t.Fatalf("a broken book's denial is gone: %+v", events[0].Body)
	}
}
