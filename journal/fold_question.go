package journal

import (
	"errors"
	"fmt"
	"slices"
)

func (j *judge) question(id string, b *Question) error {
	c := j.findCall(b.Call)
	if err := j.undecided(c, b.Call, b.Attempt); err != nil {
		return err
	}
	if err := errors.Join(j.judged(c, b.Policy, b.Digest), checkNeed(b.Need), checkWho(b), checkText("note", b.Note)); err != nil {
		return err
	}
	switch shown, err := b.ShownDigest(); {
	case err != nil:
		return err
	case shown != b.Shown:
		return errors.New("shown is not the digest of what is shown")
	case c.Last().Question != "":
		return fmt.Errorf("attempt %d has its question %s", b.Attempt, c.Last().Question)
	case (b.Reason == AskElicitation) != (c.Kind == CallElicitation):
		return errors.New("the reason does not fit the kind of call")
	}
	j.editCall(b.Call).Last().Question = id
	put(&j.quest, id, &QuestionState{Question: *b, Mark: j.mark(id)})
	return nil
}

func (j *judge) undecided(c *CallState, id string, attempt int) error {
	switch {
	case c == nil:
		return fmt.Errorf("there is no call %s", id)
	case !c.Undecided() || c.Last().No != attempt:
		return fmt.Errorf("attempt %d of the call is not undecided", attempt)
	}
	return nil
}

// judged checks what a question or decision says it judged, and by what.
func (j *judge) judged(c *CallState, policy, digest string) error {
	switch adopted := j.adoption(c.Agent, c.Layer); {
	case adopted == "":
		return errors.New("no policy is adopted")
	case policy != adopted:
		return fmt.Errorf("its policy is %s, the adopted one %s", policy, adopted)
	case digest != c.Digest:
		return errors.New("the digest is not the call's")
	}
	return nil
}

func checkNeed(need []Stage) error {
	if len(need) == 0 {
		return errors.New("need names no stage")
	}
	for _, s := range need {
		if s.Count < 1 || len(s.Of) > 0 && s.Count > len(s.Of) {
			return fmt.Errorf("a stage needs %d of %d", s.Count, len(s.Of))
		}
		if err := checkPeople(s.Of); err != nil {
			return err
		}
	}
	return nil
}

func checkPeople(names []string) error {
	for i, n := range names {
		if err := CheckName("principal", n); err != nil {
			return err
		}
		if slices.Contains(names[:i], n) {
			return fmt.Errorf("principal %s stands twice", n)
		}
	}
	return nil
}

func checkWho(b *Question) error {
	for _, w := range b.Who {
		if err := checkPeople(w.Of); err != nil {
			return err
		}
	}
	for _, f := range b.Frontends {
		if err := errors.Join(CheckName("frontend", f.Name), checkPeople(f.For)); err != nil {
			return err
		}
	}
	return nil
}

// Entitled reports whether a person may answer the question at time now.
func (q *Question) Entitled(person string, now Time) bool {
	if len(q.Who) == 0 {
		return true
	}
	return slices.ContainsFunc(q.Who, func(w Entitlement) bool {
		return !now.Before(w.From.Time) && (len(w.Of) == 0 || slices.Contains(w.Of, person))
	})
}

// SpeaksFor reports whether a frontend may answer for a person.
func (q *Question) SpeaksFor(frontend, person string) bool {
	return slices.ContainsFunc(q.Frontends, func(f Frontend) bool {
		return f.Name == frontend && slices.Contains(f.For, person)
	})
}

// Allows reports whether an action is on the side of allowing. Whatever is not
// refuses.
func (q *Question) Allows(action string) bool {
	if q.Reason == AskElicitation {
		return action == Accept
	}
	return action == AllowOnce || action == AlwaysAllow
}

// Tally counts votes in chain order: one refusal refuses, and allows fill the
// places of the stages, each one place.
func (q *Question) Tally(votes []Vote) (filled, refused bool) {
	for _, v := range votes {
		if !q.Allows(v.Action) {
			return false, true
		}
	}
	places := len(q.Counted(votes))
	for _, s := range q.Need {
		if s.Count > places {
			return false, false
		}
		places -= s.Count
	}
	return true, false
}

// Counted are the allowing votes that fill a place, in chain order. A vote
// that came early makes room for a later one where its person may fill another
// stage too, so nobody's haste leaves a question that no one can settle.
func (q *Question) Counted(votes []Vote) []Vote {
	placed := make([][]string, len(q.Need)) // people by stage
	var counted []Vote
	for _, v := range votes {
		if q.Allows(v.Action) && q.place(placed, v.By, make([]bool, len(q.Need))) {
			counted = append(counted, v)
		}
	}
	return counted
}

// place finds a place for a person among those placed, moving others to
// further stages where needed. Stages tried before are not tried again.
func (q *Question) place(placed [][]string, person string, tried []bool) bool {
	for i, s := range q.Need {
		if tried[i] || len(s.Of) > 0 && !slices.Contains(s.Of, person) {
			continue
		}
		tried[i] = true
		if len(placed[i]) < s.Count {
			placed[i] = append(placed[i], person)
			return true
		}
		for k, other := range placed[i] {
			if q.place(placed, other, tried) {
				placed[i][k] = person
				return true
			}
		}
	}
	return false
}

// Settled reports whether the votes so far end the question: its need is
// filled or a refusal counted. A settled question takes no more answers.
func (q *QuestionState) Settled() bool {
	filled, refused := q.Tally(q.Answers)
	return filled || refused
}

// Expired reports whether the question's deadline has passed at time now.
func (q *Question) Expired(now Time) bool {
	return !q.Deadline.IsZero() && !now.Before(q.Deadline.Time)
}

func (j *judge) answer(id string, b *Answer) error {
	q := j.findQuest(b.Question)
	switch {
	case q == nil:
		return fmt.Errorf("there is no question %s", b.Question)
	case q.Over || q.Settled():
		return errors.New("the question is settled")
	case q.Expired(j.now()):
		return fmt.Errorf("its deadline was %s", q.Deadline)
	case b.Shown != q.Shown:
		return errors.New("shown is not what the question shows")
	case !q.Grantable && (b.Action == AlwaysAllow || b.Action == AlwaysDeny):
		return errors.New("the question is not grantable")
	case slices.ContainsFunc(q.Answers, func(v Vote) bool { return v.By == b.By }):
		return fmt.Errorf("%s has answered", b.By)
	}
	if err := errors.Join(checkShort("action", b.Action), checkText("note", b.Note), j.mayAnswer(q, b)); err != nil {
		return err
	}
	q = j.editQuest(b.Question)
	q.Answers = append(q.Answers, Vote{Answer: *b, Mark: j.mark(id)})
	put(&j.answers, id, b.Question)
	return nil
}

// mayAnswer checks who answers: a person with their own key, or a frontend
// that the question lists for that person; entitled; and not who asked.
func (j *judge) mayAnswer(q *QuestionState, b *Answer) error {
	actor := j.commit.Actor
	switch {
	case !ValidName(b.By):
		return CheckName("by", b.By)
	case b.By != actor && (b.Via != actor || !q.SpeaksFor(actor, b.By)):
		return fmt.Errorf("%s may not answer for %s", actor, b.By)
	case !q.Entitled(b.By, j.now()):
		return fmt.Errorf("%s is not entitled to answer", b.By)
	}
	c := j.findCall(q.Call)
	for _, own := range []string{c.Mark.By.Actor, j.findRun(c.Run).Mark.By.Actor, j.findRun(c.LastWaiter).Mark.By.Actor} {
		if own == actor || own == b.By {
			return fmt.Errorf("%s asked, and may not answer", own)
		}
	}
	return checkShort("via", b.Via)
}
