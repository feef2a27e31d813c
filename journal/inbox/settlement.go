package inbox

import (
	"cmp"
	"context"
	"fmt"

	"decisionjournal/journal"
)

// How is what made a question close.
type How string

// How questions close.
const (
	Answered  How = "answered"
	Decided   How = "decided"   // by a rule, a grant or an answer to an identical call
	Lapsed    How = "lapsed"    // its deadline passed, or it is asked anew under another policy
	Withdrawn How = "withdrawn" // by the agent, or with the call that provoked it
	Overtaken How = "overtaken" // a late result of an earlier attempt finished the call
	Ended     How = "ended"     // with its session
	Repaired  How = "repaired"  // ended by a repair; it is asked anew
	Blocked   How = "blocked"   // its session is broken or too new for this program
)

// Settlement says how a question closed, by whom and when. The zero
// Settlement stands for a question that is open.
type Settlement struct {
	How    How          `json:"how"`
	By     string       `json:"by"`              // person, or the actor that wrote it
	Action string       `json:"action,omitzero"` // of the answer, else "allow" or "deny" if it was decided
	At     journal.Time `json:"at"`
	Note   string       `json:"note,omitzero"`
	Why    string       `json:"why"` // in plain words
}

// Open reports whether a question takes answers, its deadline apart.
func Open(st *journal.State, q *journal.QuestionState) bool {
	cond, _ := st.Condition()
	return cond == journal.Whole && st.Ended() == nil && !q.Over && !q.Settled()
}

// Settled says how a question closed, by folding its chain up to the message
// that closed it, or that is missing. It is the zero Settlement if the question
// is open, or is not in the chain.
func Settled(ctx context.Context, log journal.Log, chain journal.Chain, question string) (Settlement, error) {
	st := journal.NewState(chain)
	for m, err := range log.Load(ctx, chain, 0) {
		if err != nil {
			return Settlement{}, err
		}
		st.Apply(m)
		if q := st.Question(question); q != nil && !Open(st, q) {
			return settlement(st, q, m), nil
		}
	}
	holes, err := log.Holes(ctx)
	if err != nil {
		return Settlement{}, err
	}
	st.MarkHoles(holes)
	if q := st.Question(question); q != nil && !Open(st, q) {
		return settlement(st, q, lostMessage(st)), nil
	}
	return Settlement{}, nil
}

// lostMessage stands for the message that a session lacks at its end. When it
// was stored nobody knows any more.
func lostMessage(st *journal.State) journal.Message {
	_, why := st.Condition()
	return journal.Message{Seq: why.Seq, Time: st.Time().Time}
}

// settlement says how q closed. The state is as the message that closed it
// left it.
func settlement(st *journal.State, q *journal.QuestionState, m journal.Message) Settlement {
	s := Settlement{At: st.Time(), By: writer(m)}
	c := st.Call(q.Call)
	decision := st.Decision(c.Attempts[q.Attempt-1].Decision)
	cond, why := st.Condition()
	switch {
	case cond != journal.Whole:
		s.How, s.At, s.Why = Blocked, journal.At(m.Time), fmt.Sprintf("the session is %s at message %d: %s", cond, why.Seq, why.Why)
	case q.Settled():
		s.answered(q.Answers[len(q.Answers)-1])
	case q.Lapse != "" && decision != nil:
		s.How, s.Action, s.Why = Lapsed, string(decision.Outcome), fmt.Sprintf("nobody answered before its deadline, %s", q.Deadline)
	case q.Lapse != "":
		s.How, s.Why = Lapsed, "the policy changed, and it is asked anew if it still has to be"
	case decision != nil:
		s.decided(st, q, decision)
	case c.Withdrawn:
		s.How, s.Why = Withdrawn, "the agent withdrew the call"
		if c.For != "" {
			s.Why = "the call that it belongs to ended"
		}
	case st.Ended() != nil:
		s.How, s.Why = Ended, "the session ended"
	case c.Result() != nil:
		s.How, s.Why = Overtaken, "an earlier attempt reported its result after all"
	default:
		s.How, s.Why = Repaired, "the session was repaired, and it is asked anew"
	}
	return s
}

func writer(m journal.Message) string {
	sub, err := journal.ParseSubject(m.Subject)
	if err != nil {
		return ""
	}
	return sub.Actor
}

func (s *Settlement) answered(v journal.Vote) {
	s.How, s.By, s.Action, s.At, s.Note = Answered, v.By, v.Action, v.Mark.Time, v.Note
	s.Why = fmt.Sprintf("%s answered %s", v.By, v.Action)
}

// decided names the person behind a decision where there is one.
func (s *Settlement) decided(st *journal.State, q *journal.QuestionState, d *journal.DecisionState) {
	s.How, s.Action, s.Why = Decided, string(d.Outcome), fmt.Sprintf("it was decided otherwise: %s", d.By[0].Kind)
	for _, cause := range d.By {
		switch cause.Kind {
		case journal.ByGrant:
			s.By = cmp.Or(granter(st, cause.ID), s.By)
			s.Why = fmt.Sprintf("the grant %s settled it", cause.ID)
			return
		case journal.ByRule:
			s.Why = "a rule of the policy settled it"
		case journal.ByAnswer, journal.ByUnusable:
			if v := voteOf(q, cause.ID); v != nil {
				s.answered(*v)
				return
			}
		}
	}
}

// granter is the person whose answer left a grant, "" if none did.
func granter(st *journal.State, grant string) string {
	g := st.Grant(grant)
	if g == nil || st.Question(g.Question) == nil {
		return ""
	}
	by := ""
	for _, v := range st.Question(g.Question).Answers {
		by = v.By
	}
	return by
}

func voteOf(q *journal.QuestionState, answer string) *journal.Vote {
	for i := range q.Answers {
		if q.Answers[i].Mark.ID == answer {
			return &q.Answers[i]
		}
	}
	return nil
}
