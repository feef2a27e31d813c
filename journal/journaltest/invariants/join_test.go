package invariants

import (
	"testing"

	"decisionjournal/journal"
)

// TestMadeAnew: a later run joins what an earlier one left open. A call that is
// made anew instead would be asked about twice, or have its effect twice, and
// each of the two would look sound by itself.
func TestMadeAnew(t *testing.T) {
	asked := func(tl *teller, call string) string { return tl.ask(call, 1, journal.AskNoMatch) }
	allowed := func(tl *teller, call string) string {
		return tl.allow(call, 1, byAnswer(tl.answer(asked(tl, call), journal.AllowOnce)))
	}
	started := func(tl *teller, call string) { tl.start(call, 1, "r1", allowed(tl, call)) }
	for name, c := range map[string]struct {
		left func(tl *teller, call string)
		rule Rule // "": it may be made anew
	}{
		"asked":   {func(tl *teller, call string) { asked(tl, call) }, AskedOnce},
		"allowed": {func(tl *teller, call string) { allowed(tl, call) }, AskedOnce},
		"started": {started, EffectOnce},
		"denied": {func(tl *teller, call string) {
			a := tl.answer(asked(tl, call), journal.DenyOnce)
			tl.add(tl.decision(call, 1, journal.Deny, byAnswer(a)))
		}, ""},
		"finished": {func(tl *teller, call string) {
			started(tl, call)
			tl.effect(call)
			tl.result(call, 1, "r1", journal.StatusOK)
		}, ""},
		"withdrawn": {func(tl *teller, call string) {
			asked(tl, call)
			tl.add(&journal.Detach{Call: call, Run: "r1", Reason: "not needed", Withdraw: true})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tl := newTeller(t)
			tl.add(&journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession}, &journal.Adopt{Digest: policyID})
			c.left(tl, tl.call("", "write", `{"n":1}`))
			tl.add(&journal.Opened{Agent: "main", Run: "r2", Kind: journal.KindSession, Takeover: true})
			tl.callOf2("", "write", `{"n":1}`)
			if c.rule != "" {
				broken(t, tl.log, tl.witness, byFold, c.rule)
				return
			}
			if r, err := Check(t.Context(), tl.log, tl.witness); err != nil || r.Count != 0 {
				t.Errorf("%v %+v", err, r.Violations)
			}
		})
	}
}
