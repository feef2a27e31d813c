package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"decisionjournal/journal"
)

// At is a point in a session's history. The zero At is its head, now.
type At struct {
	// N is a commit: the point right after it, at its time. 0: not given.
	N uint64
	// Time is the point after every commit with that time or an earlier one.
	// Not with N.
	Time time.Time
}

// Voice is one person's part in a grant.
type Voice struct {
	Answer string       `json:"answer"`
	By     string       `json:"by"`
	Via    string       `json:"via,omitempty"`
	Action string       `json:"action"`
	Note   string       `json:"note,omitempty"`
	Time   journal.Time `json:"time"`
}

// GrantReport is one grant at a point of a session's history.
type GrantReport struct {
	Session string `json:"session"`
	Agent   string `json:"agent,omitempty"`
	Call    string `json:"call,omitempty"` // about which the question was
	Tool    string `json:"tool,omitempty"`

	Grant    string            `json:"grant"`
	N        uint64            `json:"n"`
	Time     journal.Time      `json:"time"`
	Writer   string            `json:"writer"`
	Outcome  journal.Outcome   `json:"outcome"`
	Rules    []json.RawMessage `json:"rules"`
	Layer    string            `json:"layer"`
	Question string            `json:"question,omitempty"`
	By       []Voice           `json:"by"`
	Origin   *journal.Origin   `json:"origin,omitempty"` // of a grant nobody was asked for here
	Expires  journal.Time      `json:"expires,omitzero"`
	Uses     int               `json:"uses,omitempty"` // 0: no limit
	Used     int               `json:"used"`

	InForce  bool   `json:"in_force"`
	Standing string `json:"standing"` // "in force", or why not
	// What ended it: nil unless something did.
	End *GrantEnd `json:"end,omitempty"`
}

// GrantEnd is the event that put a grant out of force.
type GrantEnd struct {
	Event  string       `json:"event"`
	N      uint64       `json:"n"`
	Time   journal.Time `json:"time"`
	By     string       `json:"by"`
	Reason string       `json:"reason,omitempty"`
}

// Grants says who granted what in a session, through which question, and
// whether it is in force at a point of its history, in chain order. Never nil.
// Errors: ErrNoSession, ErrNoCommit, those of the Log.
func (j *Journal) Grants(ctx context.Context, session string, at At) ([]GrantReport, error) {
	reasons := map[string]string{}
	note := func(s *step) {
		for _, e := range s.events() {
			switch b := e.Body.(type) {
			case *journal.Revoke:
				reasons[e.ID] = b.Reason
			case *journal.Ended:
				reasons[e.ID] = b.Reason
			case *journal.Repair:
				reasons[e.ID] = b.Reason
			}
		}
	}
	st, now, err := j.foldTo(ctx, session, at, note)
	if err != nil {
		return nil, err
	}
	books, err := j.booksAt(ctx, st, at)
	if err != nil {
		return nil, err
	}
	list := []GrantReport{}
	for _, g := range st.Grants() {
		r := reportGrant(st, g, now, reasons)
		if r.InForce && goneInBook(books, g, now) {
			r.InForce, r.Standing = false, "no longer in force in its book"
		}
		list = append(list, r)
	}
	return list, nil
}

// foldTo folds a session up to a point, and says which time it is there.
func (j *Journal) foldTo(ctx context.Context, session string, at At, note func(*step)) (*journal.State, journal.Time, error) {
	n := at.N
	if n == 0 {
		n = math.MaxUint64
	}
	if !at.Time.IsZero() {
		n = 0
		_, err := j.walkSession(ctx, session, func(s *step) bool {
			if s.verdict == journal.Valid && !s.after.Time().After(at.Time) {
				n = s.after.N()
			}
			return true
		})
		if err != nil {
			return nil, journal.Time{}, err
		}
	}
	if n == 0 { // before the first commit
		return journal.NewState(journal.SessionChain(session)), journal.At(at.Time), nil
	}
	st, err := j.walkSession(ctx, session, func(s *step) bool {
		note(s)
		return s.after.N() < n
	})
	if err != nil {
		return nil, journal.Time{}, err
	}
	return j.timeAt(ctx, st, at)
}

func (j *Journal) timeAt(ctx context.Context, st *journal.State, at At) (*journal.State, journal.Time, error) {
	switch {
	case at.N > st.N():
		return nil, journal.Time{}, fmt.Errorf("%w: session %s has %d, and %d was asked for", ErrNoCommit, st.Chain(), st.N(), at.N)
	case at.N > 0:
		return st, st.Time(), nil
	case !at.Time.IsZero():
		return st, journal.At(at.Time), nil
	}
	holes, err := j.log.Holes(ctx)
	if err != nil {
		return nil, journal.Time{}, err
	}
	st.MarkHoles(holes)
	return st, j.headTime(st), nil
}

func reportGrant(st *journal.State, g *journal.GrantState, now journal.Time, reasons map[string]string) GrantReport {
	r := GrantReport{
		Session: st.Chain().Session(), Grant: g.Mark.ID, N: g.Mark.N, Time: g.Mark.Time, Writer: g.Mark.By.String(),
		Outcome: g.Outcome(), Rules: g.Rules, Layer: g.Layer, Question: g.Question, By: []Voice{}, Origin: g.Origin,
		Expires: g.Expires, Uses: g.Uses, Used: g.Used, Standing: g.Standing(now),
	}
	r.InForce = g.InForce(now)
	if cond, _ := st.Condition(); cond != journal.Whole && r.InForce {
		r.InForce, r.Standing = false, "the session is "+cond.String()
	}
	if g.Ended != "" {
		m := g.EndMark
		r.End = &GrantEnd{Event: m.ID, N: m.N, Time: m.Time, By: m.By.String(), Reason: reasons[m.ID]}
	}
	q := st.Question(g.Question)
	if q == nil {
		return r
	}
	if c := st.Call(q.Call); c != nil {
		r.Agent, r.Call, r.Tool = c.Agent, c.Mark.ID, c.Tool
	}
	for _, v := range q.Answers {
		r.By = append(r.By, Voice{v.Mark.ID, v.By, v.Via, v.Action, v.Note, v.Mark.Time})
	}
	return r
}
