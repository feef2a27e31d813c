package approver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"decisionjournal/journal"
)

// Ref names a question. Question is its id, or at least MinPrefix characters
// of its beginning if no other question begins so; letter case does not
// matter. Ids are unique within a session only: an empty Session means every
// session is searched.
type Ref struct {
	Session  string
	Question string
}

// MinPrefix is how many characters of a question's id name it at least.
const MinPrefix = 8

// ParseRef reads QUESTION or SESSION/QUESTION.
func ParseRef(text string) Ref {
	if session, question, ok := strings.Cut(text, "/"); ok {
		return Ref{session, question}
	}
	return Ref{Question: text}
}

// Find reads the journal for a question, open or not, and returns its
// session's state and its id. Errors: ErrNoQuestion, *AmbiguousError, and
// those of reading the journal.
func Find(ctx context.Context, log journal.Log, ref Ref) (*journal.State, string, error) {
	prefix := strings.ToUpper(ref.Question)
	if len(prefix) < MinPrefix {
		return nil, "", fmt.Errorf("%q: %w: give its id, or at least %d characters of it", ref.Question, ErrNoQuestion, MinPrefix)
	}
	chains, err := chainsOf(ctx, log, ref.Session)
	if err != nil {
		return nil, "", err
	}
	holes, err := log.Holes(ctx)
	if err != nil {
		return nil, "", err
	}
	var found []match
	for _, chain := range chains {
		st := journal.NewState(chain)
		if err := journal.Refresh(ctx, log, st); err != nil {
			return nil, "", err
		}
		st.MarkHoles(holes)
		found = append(found, matches(st, prefix)...)
	}
	return only(ref, found)
}

func chainsOf(ctx context.Context, log journal.Log, session string) ([]journal.Chain, error) {
	if session != "" {
		chain := journal.SessionChain(session)
		if !chain.Valid() {
			return nil, fmt.Errorf("%w: %w", ErrNoQuestion, journal.CheckName("session", session))
		}
		return []journal.Chain{chain}, nil
	}
	chains, err := log.Chains(ctx)
	return slices.DeleteFunc(chains, journal.Chain.IsPolicy), err
}

type match struct {
	st *journal.State
	id string
}

func matches(st *journal.State, prefix string) []match {
	if st.Question(prefix) != nil {
		return []match{{st, prefix}}
	}
	var list []match
	for _, q := range st.Questions() {
		if strings.HasPrefix(q.Mark.ID, prefix) {
			list = append(list, match{st, q.Mark.ID})
		}
	}
	return list
}

// only is the one match there is.
func only(ref Ref, found []match) (*journal.State, string, error) {
	switch len(found) {
	case 0:
		in := cmp.Or(ref.Session, "any session")
		return nil, "", fmt.Errorf("%q in %s: %w: `approver list` shows those that are open", ref.Question, in, ErrNoQuestion)
	case 1:
		return found[0].st, found[0].id, nil
	}
	e := &AmbiguousError{Question: ref.Question}
	for _, m := range found {
		e.Matches = append(e.Matches, Ref{m.st.Chain().Session(), m.id})
	}
	return nil, "", e
}
