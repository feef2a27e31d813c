package decider

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// genuine reports whether a question is the one this program asks about its
// attempt under the policy it names: the same people, needs and offers, and a
// view of the same call. An answer to any other question was given to
// something else than what would run, and counts for nothing.
func (in Input) genuine(q *journal.QuestionState) bool {
	if known, ok := in.known[q.Mark.ID]; ok {
		return known
	}
	ok := in.asksAlike(q)
	if in.known != nil {
		in.known[q.Mark.ID] = ok
	}
	return ok
}

func (in Input) asksAlike(q *journal.QuestionState) bool {
	c := in.State.Call(q.Call)
	pol, err := in.Policies.Get(q.Policy)
	if c == nil || err != nil || q.Attempt < 1 || q.Attempt > len(c.Attempts) {
		return false
	}
	in.Now = q.Mark.Time
	attempt := c.Attempts[q.Attempt-1]
	d := &deciding{Input: in, call: c, attempt: &attempt, policy: pol, digest: q.Policy}
	if why, err := d.step0(); err != nil || why != "" {
		return false
	}
	fresh := d.wouldAsk()
	return fresh != nil && sameQuestion(&q.Question, fresh, q.Mark.Time) && sameView(&q.Question, fresh)
}

// wouldAsk is the question that the rules alone ask about the attempt, or nil
// if they ask none. Grants only ever take questions away.
func (d *deciding) wouldAsk() *journal.Question {
	if d.call.Kind == journal.CallElicitation {
		return d.eliciting()
	}
	d.verdict = d.policy.Judge(d.call.Tool, d.facts, nil)
	switch {
	case d.verdict.Static == policy.Deny:
		return nil
	case d.attempt.AfterUnknown && d.policy.Interrupted(d.call.Tool) == policy.InterruptedAsk:
		return d.interrupted()
	case d.verdict.Static == policy.Ask:
		return d.asking()
	}
	return nil
}

func sameQuestion(a, b *journal.Question, asked journal.Time) bool {
	return a.Reason == b.Reason && a.Note == b.Note && a.Deadline == b.Deadline &&
		!changed(a, b, asked, asked) && reflect.DeepEqual(a.Frontends, b.Frontends) &&
		slices.EqualFunc(a.Suggestion, b.Suggestion, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
}

// sameView compares what people were shown, but for the session's history.
func sameView(a, b *journal.Question) bool {
	x, errX := a.ReadView()
	y, errY := b.ReadView()
	x.Recent, y.Recent = nil, nil
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}
