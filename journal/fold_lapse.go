package journal

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

func (j *judge) lapse(id string, b *Lapse) error {
	targets := 0
	for _, t := range []string{b.Question, b.Decision, b.Grant} {
		if t != "" {
			targets++
		}
	}
	switch {
	case targets != 1:
		return errors.New("a lapse names one question, decision or grant")
	case b.Question != "":
		return j.lapseQuestion(id, b)
	case b.Decision != "":
		return j.lapseDecision(b)
	}
	return j.lapseGrant(id, b)
}

func (j *judge) lapseQuestion(id string, b *Lapse) error {
	q := j.findQuest(b.Question)
	if q == nil || q.Over {
		return fmt.Errorf("there is no open question %s", b.Question)
	}
	c := j.findCall(q.Call)
	switch b.Reason {
	case LapseDeadline:
		d := j.decisionAhead(q.Call, q.Attempt)
		denies := d != nil && d.Outcome == Deny && slices.ContainsFunc(d.By, func(c Cause) bool { return reflect.DeepEqual(c, Cause{Kind: ByLapse, ID: id}) })
		if !q.Expired(j.now()) || !denies {
			return errors.New("its deadline has not passed, or no decision of the same commit denies by it")
		}
		j.editQuest(b.Question).Lapse = id
		return nil
	case LapsePolicy:
		if q.Policy == j.adoption(c.Agent, c.Layer) {
			return errors.New("the question was asked under the adopted policy")
		}
		j.editQuest(b.Question).Lapse = id
		c = j.editCall(q.Call)
		j.endAttempt(c.Last())
		j.due(c)
		return nil
	}
	return fmt.Errorf("a question does not lapse by %s", b.Reason)
}

func (j *judge) lapseDecision(b *Lapse) error {
	d := j.findDec(b.Decision)
	if d == nil {
		return fmt.Errorf("there is no decision %s", b.Decision)
	}
	c := j.findCall(d.Call)
	if a := c.Last(); c.Withdrawn || a.Decision != b.Decision || a.Progress != Allowed {
		return errors.New("the decision is not an unspent allow")
	}
	if !j.overtaken(c, d, b.Reason) {
		return fmt.Errorf("the reason %s does not hold", b.Reason)
	}
	c = j.editCall(d.Call)
	j.endAttempt(c.Last())
	j.due(c)
	return nil
}

// overtaken reports whether an unspent allow may lapse for a reason.
func (j *judge) overtaken(c *CallState, d *DecisionState, why LapseReason) bool {
	some := func(ok func(*GrantState) bool) bool {
		return slices.ContainsFunc(d.cited(ByGrant), func(id string) bool { return ok(j.findGrant(id)) })
	}
	switch why {
	case LapsePolicy:
		return d.Policy != j.adoption(c.Agent, c.Layer)
	case LapseRevoked:
		return some(func(g *GrantState) bool { return g.Ended != "" })
	case LapseExpired:
		return !d.Expires.IsZero() && !j.now().Before(d.Expires.Time) ||
			some(func(g *GrantState) bool { return g.expired(j.now()) })
	case LapseOvertaken:
		return some((*GrantState).usedUp)
	}
	return false
}

func (j *judge) lapseGrant(id string, b *Lapse) error {
	g := j.findGrant(b.Grant)
	if g == nil || g.Ended != "" {
		return fmt.Errorf("there is no grant %s that has not ended", b.Grant)
	}
	holds := b.Reason == LapseExpired && g.expired(j.now()) ||
		b.Reason == LapseBook && g.Origin != nil && g.Origin.Session != ""
	if !holds {
		return fmt.Errorf("the reason %s does not hold", b.Reason)
	}
	g = j.editGrant(b.Grant)
	g.Ended, g.EndMark = string(b.Reason), j.mark(id)
	return nil
}
