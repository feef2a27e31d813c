package approver

import (
	"errors"
	"fmt"
	"strings"

	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
)

// Errors of answering. Match with errors.Is, and SettledError, NotOfferedError
// and AmbiguousError with errors.As. After each of them nothing was written.
var (
	// ErrNoQuestion: no session has such a question.
	ErrNoQuestion = errors.New("no such question")
	// ErrNotEntitled: this person may not answer this question, or not yet.
	ErrNotEntitled = errors.New("not entitled")
	// ErrUnfit: the session is broken, or a newer program wrote in it, so that
	// nothing can be answered there.
	ErrUnfit = errors.New("the session takes no answers")
)

// SettledError says that a question was settled before the answer came.
type SettledError struct {
	Question string
	inbox.Settlement
}

// Error says by whom, when and how the question was settled.
func (e *SettledError) Error() string {
	by := ""
	if e.By != "" && e.How != inbox.Lapsed {
		by = " by " + e.By
	}
	action := ""
	if e.Action != "" {
		action = " (" + Visible(e.Action) + ")"
	}
	return fmt.Sprintf("question %s was already %s%s at %s%s: %s; nothing is left to answer",
		e.Question, e.How, by, e.At, action, Visible(e.Why))
}

// NotOfferedError says that a question does not offer what was answered.
type NotOfferedError struct {
	Question string
	Action   string
	Why      string // in plain words, ending in what to do
}

// Error says what is not offered and why.
func (e *NotOfferedError) Error() string {
	return fmt.Sprintf("question %s does not take this answer (%s): %s", e.Question, Visible(e.Action), e.Why)
}

// AmbiguousError says that a question was named by what several share.
type AmbiguousError struct {
	Question string
	Matches  []Ref
}

// Error names the questions that fit.
func (e *AmbiguousError) Error() string {
	var list []string
	for _, m := range e.Matches {
		list = append(list, m.Session+"/"+m.Question)
	}
	return fmt.Sprintf("%s fits several questions: name one of %s", Visible(e.Question), strings.Join(list, ", "))
}

func notEntitled(question, why string) error {
	return fmt.Errorf("question %s: %w: %s", question, ErrNotEntitled, why)
}

func unfit(st *journal.State) error {
	cond, at := st.Condition()
	if cond == journal.Broken {
		return fmt.Errorf("%w: %s is broken at message %d (%s): an admin has to run `decider repair %s`",
			ErrUnfit, st.Chain(), at.Seq, Visible(at.Why), st.Chain())
	}
	return fmt.Errorf("%w: a newer program wrote message %d of %s: use that version to answer", ErrUnfit, at.Seq, st.Chain())
}
