package replay

import (
	"context"

	"decisionjournal/journal"
)

// What a line's Event is when it is no event's type.
const (
	LineVoid     = "void"      // a message without effect
	LineBroken   = "broken"    // before it a commit is missing
	LineTooNew   = "too-new"   // a newer program's commit
	LineNoEffect = "no-effect" // past a break or a newer program's commit
)

// Line is one line of a timeline: one event, or one message that is none.
type Line struct {
	Session string       `json:"session"`
	N       uint64       `json:"n"`             // 0 for what is no commit
	Seq     uint64       `json:"seq,omitempty"` // 0 for what is about the session as a whole
	Time    journal.Time `json:"time,omitzero"` // the commit's, else the server's
	Who     string       `json:"who"`           // role.actor, as the subject says
	Event   string       `json:"event"`         // its type, or one of the words above
	ID      string       `json:"id,omitempty"`
	Agent   string       `json:"agent,omitempty"`
	Call    string       `json:"call,omitempty"`
	Text    string       `json:"text"` // what happened; parts of it come from agents and tools
}

// Timeline tells a session's history line by line, in chain order, with what
// is void or breaks it in its place. Errors: ErrNoSession, those of the Log.
func (j *Journal) Timeline(ctx context.Context, session string) ([]Line, error) {
	var lines []Line
	st, err := j.walkSession(ctx, session, func(s *step) bool {
		lines = append(lines, linesOf(session, s)...)
		return true
	})
	if err != nil {
		return nil, err
	}
	holes, err := j.log.Holes(ctx)
	if err != nil {
		return nil, err
	}
	before, _ := st.Condition()
	st.MarkHoles(holes)
	if cond, why := st.Condition(); cond != before {
		lines = append(lines, Line{Session: session, Seq: why.Seq, Event: LineBroken, Text: why.Why})
	}
	return lines, nil
}

func linesOf(session string, s *step) []Line {
	line := Line{Session: session, Seq: s.msg.Seq, Time: journal.At(s.msg.Time), Who: writer(s)}
	if s.verdict != journal.Valid {
		line.Event, line.Text = map[journal.Verdict]string{
			journal.VoidMsg: LineVoid, journal.Breaks: LineBroken, journal.Newer: LineTooNew, journal.NoEffect: LineNoEffect,
		}[s.verdict], s.why
		return []Line{line}
	}
	line.N, line.Time = s.commit.N, s.commit.Time
	lines := make([]Line, len(s.commit.Events))
	for i, e := range s.commit.Events {
		l := line
		l.Event, l.ID, l.Call = string(e.Kind), e.ID, callOf(s.after, e)
		if c := s.after.Call(l.Call); c != nil {
			l.Agent = c.Agent
		}
		l.Text = describe(s.after, e, &l)
		lines[i] = l
	}
	return lines
}

// writer is who stored a message, by its subject.
func writer(s *step) string {
	sub, err := journal.ParseSubject(s.msg.Subject)
	if err != nil {
		return s.msg.Subject
	}
	return journal.Principal{Role: sub.Role, Actor: sub.Actor}.String()
}

// callOf is the call that an event is about, or "".
func callOf(st *journal.State, e journal.Event) string {
	ofQuestion := func(id string) string {
		if q := st.Question(id); q != nil {
			return q.Call
		}
		return ""
	}
	switch b := e.Body.(type) {
	case *journal.Call:
		return e.ID
	case *journal.Attach:
		return b.Call
	case *journal.Detach:
		return b.Call
	case *journal.Question:
		return b.Call
	case *journal.Answer:
		return ofQuestion(b.Question)
	case *journal.Decision:
		return b.Call
	case *journal.Grant:
		return ofQuestion(b.Question)
	case *journal.Revoke:
		return callOfGrant(st, b.Grant)
	case *journal.Start:
		return b.Call
	case *journal.Result:
		return b.Call
	case *journal.Lapse:
		return callOfLapse(st, b)
	}
	return ""
}

func callOfGrant(st *journal.State, id string) string {
	if g := st.Grant(id); g != nil {
		if q := st.Question(g.Question); q != nil {
			return q.Call
		}
	}
	return ""
}

func callOfLapse(st *journal.State, b *journal.Lapse) string {
	if q := st.Question(b.Question); q != nil {
		return q.Call
	}
	if d := st.Decision(b.Decision); d != nil {
		return d.Call
	}
	return callOfGrant(st, b.Grant)
}
