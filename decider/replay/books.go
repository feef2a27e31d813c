package replay

import (
	"context"
	"fmt"
	"slices"

	"decisionjournal/journal"
)

// reel is a chain read once and folded as far as asked for.
type reel struct {
	msgs []journal.Message
	st   *journal.State
}

func (j *Journal) reel(ctx context.Context, session string) (*reel, error) {
	r := &reel{st: journal.NewState(journal.SessionChain(session))}
	for m, err := range j.log.Load(ctx, r.st.Chain(), 0) {
		if err != nil {
			return nil, fmt.Errorf("the book %s: %w", session, err)
		}
		r.msgs = append(r.msgs, m)
	}
	return r, nil
}

// advance folds on while more says so.
func (r *reel) advance(more func(*journal.Message) bool) {
	for len(r.msgs) > 0 && more(&r.msgs[0]) {
		r.st.Apply(r.msgs[0])
		r.msgs = r.msgs[1:]
	}
}

// booksAt folds the books that a session's grants came from, up to the point.
func (j *Journal) booksAt(ctx context.Context, st *journal.State, at At) (map[string]*journal.State, error) {
	books := map[string]*journal.State{}
	for _, g := range st.Grants() {
		if g.Origin == nil || g.Origin.Session == "" || books[g.Origin.Session] != nil {
			continue
		}
		reel, err := j.reel(ctx, g.Origin.Session)
		if err != nil {
			return nil, err
		}
		switch {
		case at.N > 0:
			reel.advance(func(m *journal.Message) bool { return m.Seq < st.Head() })
		case !at.Time.IsZero():
			reel.advance(func(m *journal.Message) bool { return !m.Time.After(at.Time) })
		default:
			reel.advance(func(*journal.Message) bool { return true })
		}
		books[g.Origin.Session] = reel.st
	}
	return books, nil
}

// goneInBook reports whether a grant's book no longer has it in force.
func goneInBook(books map[string]*journal.State, g *journal.GrantState, now journal.Time) bool {
	if g.Origin == nil || g.Origin.Session == "" || books[g.Origin.Session] == nil {
		return false
	}
	from := books[g.Origin.Session].Grant(g.Origin.Grant)
	return from == nil || !from.InForce(now)
}

// bookReels are one book folded to two points: right before the commit at
// hand, and to the head that the commit's writer had folded.
type bookReels struct{ late, early *reel }

// booksFor are the books of the session's grants, and those named, as the
// commit's writer can have seen them: at the latest, and at the earliest. It
// read them at some time between the two. Without books there is one view.
func (a *audit) booksFor(s *step, also ...string) []map[string]*journal.State {
	names := also
	for _, g := range a.before.Grants() {
		if g.Origin != nil && g.Origin.Session != "" && !slices.Contains(names, g.Origin.Session) {
			names = append(names, g.Origin.Session)
		}
	}
	if len(names) == 0 {
		return []map[string]*journal.State{nil}
	}
	late, early := map[string]*journal.State{}, map[string]*journal.State{}
	for _, name := range names {
		b := a.book(name)
		if b == nil {
			continue
		}
		b.late.advance(func(m *journal.Message) bool { return m.Seq < s.msg.Seq })
		b.early.advance(func(m *journal.Message) bool { return m.Seq < a.before.LastSeq() })
		late[name], early[name] = b.late.st, b.early.st
	}
	return []map[string]*journal.State{late, early}
}

// book is a book of grants, read once; nil if the journal could not be read.
func (a *audit) book(name string) *bookReels {
	if b := a.books[name]; b != nil {
		return b
	}
	r, err := a.readBook(name)
	if err != nil {
		a.err = err
		return nil
	}
	b := &bookReels{r, &reel{r.msgs, journal.NewState(r.st.Chain())}}
	a.books[name] = b
	return b
}
