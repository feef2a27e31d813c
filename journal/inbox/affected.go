package inbox

import (
	"maps"
	"slices"

	"decisionjournal/journal"
)

// all are the session's open questions.
func (s *session) all() []string { return slices.Collect(maps.Keys(s.open)) }

// affected are the open questions that a commit may have changed, and perhaps
// more: all of them unless its events name the calls they are about. Nil is a
// commit that cannot be read.
func (s *session) affected(commit *journal.Commit) []string {
	if cond, _ := s.st.Condition(); commit == nil || cond != journal.Whole {
		return s.all()
	}
	var questions []string
	for _, e := range commit.Events {
		named, only := s.named(e.Body)
		if !only {
			return s.all()
		}
		questions = append(questions, named...)
	}
	return questions
}

// named are the questions that an event can change; false means any.
func (s *session) named(body journal.Body) ([]string, bool) {
	switch b := body.(type) {
	case *journal.Call, *journal.Question, *journal.Start, *journal.Adopt, *journal.Grant, *journal.Revoke, nil:
		return nil, true
	case *journal.Opened:
		return nil, !b.Takeover
	case *journal.Answer:
		return []string{b.Question}, true
	case *journal.Lapse:
		return []string{b.Question}, true
	case *journal.Decision:
		return s.ofCall(b.Call), true
	case *journal.Attach:
		return s.ofCall(b.Call), true
	case *journal.Detach:
		return s.ofCall(b.Call), true
	}
	return nil, false // a result ends elicitations too; the others end runs
}

// ofCall are the questions asked about a call.
func (s *session) ofCall(id string) []string {
	var questions []string
	if c := s.st.Call(id); c != nil {
		for _, a := range c.Attempts {
			if a.Question != "" {
				questions = append(questions, a.Question)
			}
		}
	}
	return questions
}
