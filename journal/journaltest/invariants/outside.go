package invariants

import (
	"fmt"
	"slices"

	"decisionjournal/journal"
)

// outside holds the journal against what was witnessed.
func (c *checker) outside() {
	for _, s := range c.witness.Stored {
		switch is := c.stored[s.Seq]; {
		case is.digest != s.Digest:
			c.report.add(Violation{Rule: Kept, Seq: s.Seq, Text: "was acknowledged with digest " + s.Digest + ", and is not there"})
		case !is.counts:
			c.report.add(Violation{Rule: Kept, Seq: s.Seq, Text: "was acknowledged, and has no effect"})
		}
	}
	c.results()
	c.effects()
	c.people()
}

func (c *checker) fault(r Rule, session, text string) {
	c.report.add(Violation{Rule: r, Session: session, Text: text})
}

// results holds that what agents were told is recorded.
func (c *checker) results() {
	for _, r := range c.witness.Results {
		l := c.sessions[r.Session]
		if l == nil || !l.recorded(r) {
			c.fault(Kept, r.Session, "agent "+r.Agent+" was told a result of "+r.Key+" with digest "+r.Digest+", which is not there")
		}
	}
}

func (l *ledger) recorded(r Result) bool {
	return slices.ContainsFunc(l.results, func(e event) bool {
		c := l.calls[e.Call]
		return c != nil && c.Agent == r.Agent && c.Key == r.Key && e.Digest == r.Digest
	})
}

// deed is what an effect can be told by: every call that could have had it.
type deed struct{ session, agent, tool, arguments string }

// balance is what calls of one deed say about effects.
type balance struct {
	effects int
	started int // starts that may have had one
	done    int // calls that are recorded as done
	allowed int // effects that people let happen
}

// effects holds that every effect had a start of its own, that none came twice
// unasked, and that what is recorded as done took place.
func (c *checker) effects() {
	if c.witness.Effects == nil {
		return
	}
	deeds := map[deed]*balance{}
	at := func(d deed) *balance {
		if deeds[d] == nil {
			deeds[d] = &balance{}
		}
		return deeds[d]
	}
	for _, e := range c.witness.Effects {
		at(deed{e.Session, e.Agent, e.Tool, string(e.Arguments)}).effects++
	}
	for session, l := range c.sessions {
		for _, call := range l.calls {
			b := at(deed{session, call.Agent, call.Tool, string(call.Arguments)})
			b.started += call.starts
			if call.starts > 0 {
				b.allowed += 1 + call.retries
			}
			if call.done() {
				b.done++
			}
		}
	}
	for d, b := range deeds {
		c.weigh(d, b)
	}
}

// done reports whether a call is recorded as having succeeded.
func (c *call) done() bool {
	for _, a := range c.attempts {
		if a.status == string(journal.StatusOK) {
			return true
		}
	}
	return false
}

func (c *checker) weigh(d deed, b *balance) {
	what := d.tool + " " + d.arguments + " of agent " + d.agent
	if b.effects > b.started {
		c.fault(EffectStarted, d.session, fmt.Sprintf("%d effects of %s, and %d starts", b.effects, what, b.started))
	}
	if b.effects > b.allowed && !c.idempotent(d.tool) {
		c.fault(EffectOnce, d.session, fmt.Sprintf("%d effects of %s, and %d were let happen", b.effects, what, b.allowed))
	}
	if b.effects < b.done {
		c.fault(ResultEffective, d.session, fmt.Sprintf("%d calls of %s recorded as done, and %d effects", b.done, what, b.effects))
	}
}

// people holds what was asked and answered against those who did.
func (c *checker) people() {
	for _, a := range c.witness.Asked {
		if q := c.question(a.Session, a.Question); q == nil || q.Shown != a.Shown {
			c.fault(Said, a.Session, "a person was asked "+a.Question+" as "+a.Shown+", which is not there")
		}
	}
	given := map[Answer]bool{}
	for _, a := range c.witness.Answers {
		given[Answer{Session: a.Session, Question: a.Question, Action: a.Action}] = true
		if a.ID != "" && !c.holds(a) {
			c.fault(Kept, a.Session, "answer "+a.ID+" ("+a.Action+" to "+a.Question+") was acknowledged, and is not there")
		}
	}
	if c.witness.Answers == nil {
		return
	}
	for session, l := range c.sessions {
		for _, a := range l.answers {
			if !given[Answer{Session: session, Question: a.Question, Action: a.Action}] {
				c.fault(Said, session, "nobody gave answer "+a.ID+" ("+a.Action+" to "+a.Question+")")
			}
		}
	}
}

func (c *checker) question(session, id string) *question {
	if l := c.sessions[session]; l != nil {
		return l.questions[id]
	}
	return nil
}

func (c *checker) holds(a Answer) bool {
	l := c.sessions[a.Session]
	if l == nil || l.answers[a.ID] == nil {
		return false
	}
	is := l.answers[a.ID]
	return is.Question == a.Question && is.Action == a.Action
}
