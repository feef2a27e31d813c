package decider

import (
	"fmt"

	"decisionjournal/journal"
)

// Releasable reports whether the call's unspent allow may be started now: it
// is nil only if nothing overtook the allow and this program derives the same
// from the chain by itself, under the policy the decision names. A forged
// decision or grant is harmless because of it.
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
		if in.revokedInBook(in.State.Grant(id)) {
			return fmt.Errorf("the grant %s was revoked in its book", id)
		}
	}
	return in.derives(c, in.State.Decision(a.Decision))
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
	for _, e := range events {
		if got, ok := e.Body.(*journal.Decision); ok && got.Outcome == journal.Allow {
			return nil
		}
	}
	if dec.Engine != Engine {
		return fmt.Errorf("call %s was allowed by engine %s, and this program's engine %s does not derive that: run the same version on both sides", c.Mark.ID, dec.Engine, Engine)
	}
	return fmt.Errorf("call %s was allowed by decision %s of %s, which does not follow from its rules, grants and answers; it is not started", c.Mark.ID, dec.Mark.ID, dec.Mark.By)
}
