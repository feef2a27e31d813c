package invariants

import (
	"encoding/json"
	"testing"

	"decisionjournal/journal"
)

// byRule is what allows a call by itself.
func byRule() journal.Cause { return journal.Cause{Kind: journal.ByRule, Rule: rule("allow")} }

func byAnswer(id string) journal.Cause { return journal.Cause{Kind: journal.ByAnswer, ID: id} }
func byGrant(id string) journal.Cause  { return journal.Cause{Kind: journal.ByGrant, ID: id} }

// tell is a session with everything in it that the rules speak of, none of
// them broken.
func tell(t *testing.T) *tale {
	tl := newTeller(t)
	tl.add(&journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession}, &journal.Adopt{Digest: policyID})
	plain := tl.call("plain", "free", `{"n":1}`)
	tl.start(plain, 1, "r1", tl.allow(plain, 1, byRule()))
	tl.effect(plain)
	tl.result(plain, 1, "r1", journal.StatusOK)
	grant := tl.granted()
	tl.interrupted(grant)
	tl.denied()
	tl.notRun()
	tl.revoked(grant)
	tl.add(&journal.Closed{Agent: "main", Run: "r2"})
	return tl.end()
}

// granted: an answer allows a call and leaves a grant.
func (tl *teller) granted() (grant string) {
	first := tl.call("first", "write", `{"n":2}`)
	q := tl.ask(first, 1, journal.AskNoMatch)
	a := tl.answer(q, journal.AlwaysAllow)
	w := tl.writers[journal.RoleDecider]
	g := w.Event(&journal.Grant{Question: q, Rules: []json.RawMessage{rule("allow")}})
	d := w.Event(tl.decision(first, 1, journal.Allow, byAnswer(a), byGrant(g.ID)))
	if err := w.Append(tl.Context(), tl.st, w.Now(tl.st), g, d); err != nil {
		tl.Fatal(err)
	}
	tl.start(first, 1, "r1", d.ID)
	tl.effect(first)
	tl.result(first, 1, "r1", journal.StatusOK)
	return g.ID
}

// interrupted: run r1 dies with two calls started and two questions open, r2
// goes on. One call is run again because a person says so, the other unasked.
func (tl *teller) interrupted(grant string) {
	again := tl.call("again", "write", `{"n":3}`)
	tl.start(again, 1, "r1", tl.allow(again, 1, byGrant(grant)))
	redo := tl.call("redo", "redo", `{"n":4}`)
	tl.start(redo, 1, "r1", tl.allow(redo, 1, byRule()))
	open := tl.call("", "other", `{"n":5}`)
	q := tl.ask(open, 1, journal.AskNoMatch)
	tl.effect(again)
	tl.effect(redo)
	tl.add(&journal.Opened{Agent: "main", Run: "r2", Kind: journal.KindSession, Takeover: true})
	for _, call := range []string{again, redo, open} {
		tl.add(&journal.Attach{Call: call, Run: "r2"})
	}
	tl.start(redo, 2, "r2", tl.allow(redo, 2, byRule()))
	tl.effect(redo)
	tl.result(redo, 2, "r2", journal.StatusOK)
	a := tl.answer(tl.ask(again, 2, journal.AskInterrupted), journal.AllowOnce)
	tl.start(again, 2, "r2", tl.allow(again, 2, byAnswer(a)))
	tl.effect(again)
	tl.result(again, 2, "r2", journal.StatusOK)
	tl.result(again, 1, "r1", journal.StatusOK) // late
	tl.start(open, 1, "r2", tl.allow(open, 1, byAnswer(tl.answer(q, journal.AllowOnce))))
	tl.effect(open)
	tl.result(open, 1, "r2", journal.StatusError)
}

func (tl *teller) callOf2(key, tool, arguments string) string {
	c := &journal.Call{Agent: "main", Run: "r2", Kind: journal.CallTool, Tool: tool, Arguments: json.RawMessage(arguments),
		Key: key, Digest: journal.Digest([]byte(tool + arguments))}
	id := tl.add(c)[0]
	tl.calls[id] = c
	return id
}

// denied: a denied call is asked about again when its agent says so.
func (tl *teller) denied() {
	call := tl.callOf2("denied", "other", `{"n":6}`)
	a := tl.answer(tl.ask(call, 1, journal.AskNoMatch), journal.DenyOnce)
	tl.add(tl.decision(call, 1, journal.Deny, byAnswer(a)))
	tl.add(&journal.Detach{Call: call, Run: "r2", Reason: "again"}, &journal.Attach{Call: call, Run: "r2", Retry: true})
	a = tl.answer(tl.ask(call, 2, journal.AskNoMatch), journal.DenyOnce)
	tl.add(tl.decision(call, 2, journal.Deny, byAnswer(a)))
}

// notRun: a start that came to nothing gives its allow back.
func (tl *teller) notRun() {
	call := tl.callOf2("", "free", `{"n":7}`)
	d := tl.allow(call, 1, byRule())
	tl.start(call, 1, "r2", d)
	tl.result(call, 1, "r2", journal.StatusNotRun)
	tl.start(call, 1, "r2", d)
	tl.effect(call)
	tl.result(call, 1, "r2", journal.StatusOK)
}

// revoked: an unspent allow lapses with its grant, and the call is asked about.
func (tl *teller) revoked(grant string) {
	call := tl.callOf2("revoked", "write", `{"n":8}`)
	d := tl.allow(call, 1, byGrant(grant))
	tl.as(journal.RoleApprover, &journal.Revoke{Grant: grant, Reason: "enough"})
	tl.add(&journal.Lapse{Decision: d, Reason: journal.LapseRevoked})
	tl.ask(call, 2, journal.AskNoMatch)
	tl.add(&journal.Detach{Call: call, Run: "r2", Reason: "not needed", Withdraw: true})
}
