package decider

import (
	"bytes"
	"fmt"
	"slices"

	"decisionjournal/journal"
)

// Releasable reports whether the call's unspent allow may be started now: it
// is nil only if nothing overtook the allow, no newer policy that the session
// is about to follow denies the call, and this program derives the same from
// the chain by itself, under the policy the decision names. A forged decision
// or grant is harmless because of it.
func Releasable(in Input, c *journal.CallState) error {
	if cond, why := in.State.Condition(); cond != journal.Whole {
		return fmt.Errorf("session %s is %s at message %d: %s", in.State.Chain(), cond, why.Seq, why.Why)
	}
	a := c.Last()
	if c.Withdrawn || a.Progress != journal.Allowed {
		return fmt.Errorf("attempt %d of call %s holds no unspent allow", a.No, c.Mark.ID)
	}
	lapse, err := DecideCall(in, c)
	switch {
	case err != nil:
		return err
	case len(lapse) > 0:
		return fmt.Errorf("the allow of call %s was overtaken (%s)", c.Mark.ID, lapse[0].Body.(*journal.Lapse).Reason)
	}
	for _, id := range in.State.Decision(a.Decision).Grants() {
		switch g := in.State.Grant(id); {
		case in.revokedInBook(g):
			return fmt.Errorf("the grant %s was revoked in its book", id)
		case in.unsureBook(g):
			return fmt.Errorf("the grant %s comes from the book %s, which cannot be trusted now: repair it, or revoke the grant", id, g.Origin.Session)
		}
	}
	if err := in.pending(c); err != nil {
		return err
	}
	return in.derives(c, in.State.Decision(a.Decision))
}

// Startable reports whether a decision that Decide made of in may be started by
// the commit that holds it. It was derived here, by the newest policies, and
// nothing can come between: that leaves what Releasable asks of the question
// that was answered. One that spends a grant is started by itself, since the
// next in the commit may find the grant used up.
func Startable(in Input, dec *journal.Decision) bool {
	c := in.State.Call(dec.Call)
	if dec.Outcome != journal.Allow || c == nil || c.Kind != journal.CallTool {
		return false
	}
	for _, cause := range dec.By {
		switch cause.Kind {
		case journal.ByRule:
		case journal.ByAnswer:
			if q := in.State.Question(c.Last().Question); q == nil || !in.genuine(q) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// pending says what a policy has against the call that is active already and
// that the session follows as soon as someone decides in it.
func (in Input) pending(c *journal.CallState) error {
	follows := map[journal.Scope]string{}
	for scope, a := range in.State.Adoptions() {
		follows[scope] = a.Digest
	}
	newer := in.adopt()
	for _, e := range newer {
		a := e.Body.(*journal.Adopt)
		follows[journal.Scope{Agent: a.Agent, Layer: a.Layer}] = a.Digest
	}
	digest := ""
	for _, scope := range journal.Scopes(c.Agent, c.Layer) {
		if digest = follows[scope]; digest != "" {
			break
		}
	}
	if len(newer) == 0 || digest == in.State.Adopted(c.Agent, c.Layer).Digest {
		return nil
	}
	pol, err := in.Policies.Get(digest)
	if err != nil {
		return err
	}
	d := &deciding{Input: in, call: c, attempt: c.Last(), policy: pol, digest: digest}
	if d.policyDenies() {
		return fmt.Errorf("the allow of call %s was overtaken (%s %s)", c.Mark.ID, journal.LapsePolicy, digest)
	}
	return nil
}

// derives judges the attempt again as it stood when it was decided.
func (in Input) derives(c *journal.CallState, dec *journal.DecisionState) error {
	pol, err := in.Policies.Get(dec.Policy)
	if err != nil {
		return err
	}
	in.Now = dec.Mark.Time
	attempt := *c.Last()
	attempt.Progress = journal.Open
	d := &deciding{Input: in, call: c, attempt: &attempt, policy: pol, digest: dec.Policy, made: dec}
	events, err := d.open()
	if err != nil {
		return err
	}
	q := d.question()
	for _, e := range events {
		got, ok := e.Body.(*journal.Decision)
		if ok && in.same(events, got, dec) && (!citesAnswer(got) || q != nil && in.genuine(q)) {
			return nil
		}
	}
	if dec.Engine != Engine {
		return fmt.Errorf("call %s was allowed by engine %s, and this program's engine %s does not derive that: run the same version on both sides", c.Mark.ID, dec.Engine, Engine)
	}
	return fmt.Errorf("call %s was allowed by decision %s of %s, which does not follow from its rules, grants and answers; it is not started", c.Mark.ID, dec.Mark.ID, dec.Mark.By)
}

func citesAnswer(d *journal.Decision) bool {
	return slices.ContainsFunc(d.By, func(c journal.Cause) bool { return c.Kind == journal.ByAnswer })
}

// same reports whether a derived decision is the one that was made: an allow
// by the same rules, grants and answers, for as long. The grant that came with
// it has another id when derived.
func (in Input) same(derived []journal.Event, got *journal.Decision, dec *journal.DecisionState) bool {
	return got.Outcome == journal.Allow && dec.Outcome == journal.Allow && got.Expires == dec.Expires &&
		slices.EqualFunc(got.By, dec.By, func(a, b journal.Cause) bool {
			if a.Kind == journal.ByGrant && a.ID == derived[0].ID {
				g := in.State.Grant(b.ID)
				return b.Kind == journal.ByGrant && g.Mark.N == dec.Mark.N && sameGrant(derived[0].Body.(*journal.Grant), &g.Grant)
			}
			return a.Kind == b.Kind && a.ID == b.ID && bytes.Equal(a.Rule, b.Rule)
		})
}
