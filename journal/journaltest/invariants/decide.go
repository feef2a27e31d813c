package invariants

import (
	"encoding/json"

	"decisionjournal/journal"
)

func (l *ledger) decided(e event) {
	d := &decision{event: e}
	l.c.report.Tally.Decisions++
	if err := json.Unmarshal(e.By, &d.causes); err != nil {
		l.fault(Ground, "decision %s has no causes: %v", e.ID, err)
	}
	l.decisions[e.ID] = d
	c, a := l.of(OneDecision, e)
	if c == nil {
		return
	}
	if a.decision != nil || c.withdrawn || c.finished || a.end != "" {
		l.fault(OneDecision, "decision %s about attempt %d of call %s, which needs none", e.ID, e.Attempt, e.Call)
	}
	l.follows(OneDecision, c, e)
	a.decision = d
	if a.question != nil {
		a.question.over = true
	}
	if d.Outcome != string(journal.Deny) {
		l.ground(d)
	}
	if l.runAgain(d) {
		c.retries++
	}
}

// ground holds that an allow has causes and that each of them allows.
func (l *ledger) ground(d *decision) {
	if len(d.causes) == 0 {
		l.fault(Ground, "decision %s allows call %s by nothing", d.ID, d.Call)
	}
	for _, by := range d.causes {
		if !l.grounds(d, by) {
			l.fault(Ground, "decision %s allows call %s by %s %s, which does not", d.ID, d.Call, by.Kind, by.ID)
		}
	}
}

func (l *ledger) grounds(d *decision, by cause) bool {
	switch journal.CauseKind(by.Kind) {
	case journal.ByRule:
		return allows(by.Rule)
	case journal.ByGrant:
		g := l.grants[by.ID]
		return g != nil && l.inForce(g) && allowsAll(g.Rules)
	case journal.ByAnswer:
		return l.allowingAnswer(d, by.ID) != nil
	}
	return false
}

// allowingAnswer is the answer with an id, if it allows what a decision is about.
func (l *ledger) allowingAnswer(d *decision, id string) *question {
	a := l.answers[id]
	if a == nil {
		return nil
	}
	switch a.Action {
	case journal.AllowOnce, journal.AlwaysAllow, journal.Accept:
		q := l.questions[a.Question]
		if q != nil && q.Call == d.Call && q.Attempt == d.Attempt {
			return q
		}
	}
	return nil
}

// runAgain reports whether a decision is a person's who was asked about an
// unknown outcome.
func (l *ledger) runAgain(d *decision) bool {
	for _, by := range d.causes {
		if q := l.allowingAnswer(d, by.ID); q != nil && q.Reason == string(journal.AskInterrupted) {
			return true
		}
	}
	return false
}

func allows(rule json.RawMessage) bool {
	var r struct{ Decision string }
	return json.Unmarshal(rule, &r) == nil && r.Decision == string(journal.Allow)
}

func allowsAll(rules []json.RawMessage) bool {
	for _, r := range rules {
		if !allows(r) {
			return false
		}
	}
	return len(rules) > 0
}

// inForce reports whether a grant holds at the time of the commit at hand.
func (l *ledger) inForce(g *grant) bool {
	return !g.over && (g.Expires.IsZero() || l.time.Before(g.Expires)) && (g.Uses == 0 || g.used < g.Uses)
}

func (l *ledger) started(e event) {
	l.c.report.Tally.Starts++
	l.acts("start", e.Run)
	c, a := l.of(OneStart, e)
	if c == nil {
		return
	}
	l.follows(OneStart, c, e)
	d := a.decision
	switch {
	case d == nil || d.ID != e.Decision || d.Outcome != string(journal.Allow):
		l.fault(OneStart, "start %s without an allow of attempt %d of call %s", e.ID, e.Attempt, e.Call)
	case a.started > a.notRun:
		l.fault(OneStart, "start %s on decision %s, which was started before", e.ID, d.ID)
	case a.end != "" || c.withdrawn || c.acted():
		l.fault(OneStart, "start %s of call %s, whose attempt %d has ended", e.ID, e.Call, e.Attempt)
	case c.waiter != e.Run || c.Digest != e.Digest:
		l.fault(OneStart, "start %s by run %s, and call %s waits for run %q with digest %s", e.ID, e.Run, e.Call, c.waiter, c.Digest)
	}
	if c.starts > 0 {
		l.c.report.Tally.Repeated++
		if !l.c.idempotent(c.Tool) && (d == nil || !l.runAgain(d)) {
			l.fault(EffectOnce, "start %s runs call %s again, and nobody said so", e.ID, e.Call)
		}
	}
	l.spend(d, e)
	c.starts++
	c.begun = max(c.begun, e.Attempt)
	a.started++
	a.run, a.status = e.Run, ""
}

// acted reports whether any attempt has brought the call to an end.
func (c *call) acted() bool {
	for _, a := range c.attempts {
		if a.status == string(journal.StatusOK) || a.status == string(journal.StatusError) {
			return true
		}
	}
	return false
}

// spend takes a use of every grant that a started decision cites.
func (l *ledger) spend(d *decision, e event) {
	for _, g := range l.cited(d) {
		if !l.inForce(g) {
			l.fault(Ground, "start %s on grant %s, which is not in force", e.ID, g.ID)
		}
		g.used++
	}
}

func (l *ledger) cited(d *decision) (list []*grant) {
	if d == nil {
		return nil
	}
	for _, by := range d.causes {
		if g := l.grants[by.ID]; g != nil && by.Kind == string(journal.ByGrant) {
			list = append(list, g)
		}
	}
	return list
}

func (l *ledger) resulted(e event) {
	l.c.report.Tally.Results++
	l.results = append(l.results, e)
	c, a := l.of(OneResult, e)
	if c == nil {
		return
	}
	if a.started == 0 || a.run != e.Run || a.status != "" {
		l.fault(OneResult, "result %s of attempt %d of call %s, which run %s did not start or has had its result", e.ID, e.Attempt, e.Call, e.Run)
	}
	a.status = e.Status
	switch journal.Status(e.Status) {
	case journal.StatusNotRun:
		a.notRun++
		c.starts--
		for _, g := range l.cited(a.decision) {
			g.used--
		}
	case journal.StatusOK, journal.StatusError:
		c.finished = c.finished || e.Attempt == c.begun // else it is recorded only
	}
}
