package journal

import (
	"errors"
	"fmt"
	"slices"
)

func (j *judge) decision(id string, b *Decision) error {
	c := j.findCall(b.Call)
	if err := j.undecided(c, b.Call, b.Attempt); err != nil {
		return err
	}
	if err := errors.Join(j.judged(c, b.Policy, b.Digest), checkText("message", b.Message)); err != nil {
		return err
	}
	if len(b.By) == 0 {
		return errors.New("it names nothing that made it")
	}
	for _, cause := range b.By {
		if err := j.cause(c, b, cause); err != nil {
			return fmt.Errorf("by %s %s: %w", cause.Kind, cause.ID, err)
		}
	}
	a := c.Last()
	if err := j.overAnswers(c, a, b); err != nil {
		return err
	}
	c = j.editCall(b.Call)
	a = c.Last()
	a.Decision, a.Progress = id, Denied
	switch {
	case b.Outcome == Allow && c.Kind == CallElicitation:
		a.Progress, c.Received = Finished, c.Waiter != ""
	case b.Outcome == Allow:
		a.Progress = Allowed
	default:
		c.Received = c.Waiter != ""
	}
	if a.Question != "" {
		j.editQuest(a.Question).Over = true
	}
	put(&j.decs, id, &DecisionState{Decision: *b, Mark: j.mark(id)})
	j.newDec = append(j.newDec, id)
	return nil
}

// overAnswers holds a decision against the answers in the chain: they are
// settled before anything else, and an elicitation is accepted by one alone.
func (j *judge) overAnswers(c *CallState, a *Attempt, b *Decision) error {
	if b.Outcome != Allow {
		return nil
	}
	cited := slices.ContainsFunc(b.By, func(c Cause) bool { return c.Kind == ByAnswer })
	if c.Kind == CallElicitation && !cited {
		return errors.New("an elicitation is accepted by an answer")
	}
	if a.Question == "" {
		return nil
	}
	q := j.findQuest(a.Question)
	if _, refused := q.Tally(q.Answers); refused {
		return errors.New("the question was refused")
	}
	return nil
}

// cause checks one thing a decision cites: it exists, and it holds.
func (j *judge) cause(c *CallState, b *Decision, cause Cause) error {
	if b.Outcome == Allow && cause.Kind != ByRule && cause.Kind != ByGrant && cause.Kind != ByAnswer {
		return errors.New("it cannot allow")
	}
	hasID, hasRule := cause.ID != "", cause.Rule != nil
	wantID := cause.Kind == ByGrant || cause.Kind == ByAnswer || cause.Kind == ByLapse || cause.Kind == ByUnusable
	if hasID != wantID || hasRule != (cause.Kind == ByRule) {
		return errors.New("it names a rule, or an event, as its kind asks")
	}
	a := c.Last()
	switch cause.Kind {
	case ByGrant:
		return j.causeGrant(c, b, cause.ID)
	case ByAnswer:
		return j.causeAnswer(c, a, b, cause.ID)
	case ByUnusable:
		if q := j.answered(cause.ID); q == "" || q != a.Question {
			return errors.New("no such answer to the attempt's question")
		}
	case ByLapse:
		if a.Question == "" || j.findQuest(a.Question).Lapse != cause.ID {
			return errors.New("no such lapse of the attempt's question")
		}
	case ByHeadless:
		if a.Question != "" {
			return errors.New("the attempt has a question")
		}
	}
	return nil
}

func (j *judge) causeGrant(c *CallState, b *Decision, id string) error {
	g := j.findGrant(id)
	switch {
	case g == nil:
		return errors.New("no such grant")
	case !g.InForce(j.now()):
		return errors.New("it is not in force")
	case g.Layer != c.Layer:
		return fmt.Errorf("it holds in layer %q", g.Layer)
	case g.Outcome() != b.Outcome:
		return fmt.Errorf("it is a grant to %s", g.Outcome())
	}
	return nil
}

func (j *judge) answered(id string) string { q, _ := look(j.answers, j.s.answers, id); return q }

func (j *judge) causeAnswer(c *CallState, a *Attempt, b *Decision, id string) error {
	qid := j.answered(id)
	if qid == "" {
		return errors.New("no such answer")
	}
	q := j.findQuest(qid)
	at := slices.IndexFunc(q.Answers, func(v Vote) bool { return v.Mark.ID == id })
	allows := q.Allows(q.Answers[at].Action)
	switch {
	case allows != (b.Outcome == Allow):
		return fmt.Errorf("it says %s", q.Answers[at].Action)
	case allows && qid != a.Question:
		return errors.New("it answers another question")
	case allows:
		if filled, _ := q.Tally(q.Answers); !filled {
			return errors.New("the question needs more answers")
		}
	case qid != a.Question && !identical(c, j.findCall(q.Call)):
		return errors.New("it answers a question about another call")
	}
	return nil
}

// identical reports whether two calls without key are of one identity.
func identical(a, b *CallState) bool {
	return a.Key == "" && b.Key == "" && a.Agent == b.Agent && a.Layer == b.Layer && a.Tool == b.Tool && a.Digest == b.Digest
}
