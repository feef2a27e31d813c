package decider

import (
	"context"
	"errors"
	"time"

	"decisionjournal/journal"
)

// DefaultMemory of a [Worker]: some ten thousand small sessions.
const DefaultMemory = 64 << 20

// served is a session as the worker has it. While it is busy its state belongs
// to the one who decides it.
type served struct {
	chain  journal.Chain
	state  *journal.State // nil: not kept
	busy   bool
	queued bool              // in ready, or to be once it is not busy
	due    bool              // a clock brought it up
	owed   bool              // stored before Run and not decided yet
	late   []journal.Message // that arrived while it was busy
	aside  string            // why it is set aside, or ""

	// What was true of it when it was last decided.
	open    bool     // something in it waits for a decision, an answer or its start
	follows bool     // a policy name
	unfit   bool     // broken or too new
	books   []string // that it holds grants of
}

// over reports whether nothing can be decided in a session any more.
func (s *served) over() bool { return s.state != nil && s.state.Ended() != nil && !unfit(s.state) }

// stuck reports whether a session is set aside for a reason that lies outside it.
func (s *served) stuck() bool { return s.aside != "" && !s.unfit }

func unfit(st *journal.State) bool {
	cond, _ := st.Condition()
	return cond != journal.Whole
}

// session is the session that a message came for.
func (w *Worker) session(chain journal.Chain, m journal.Message) *served {
	s := w.sessions[chain]
	if s == nil {
		s = &served{chain: chain}
		if journal.Begins(chain, m) {
			s.state = journal.NewState(chain)
		}
		w.sessions[chain] = s
	}
	return s
}

// read folds a session whose state is not kept.
func (w *Worker) read(ctx context.Context, chain journal.Chain) (*journal.State, error) {
	return journal.StateAsOf(ctx, w.Decider.Writer.Log(), chain, journal.End, w.last, w.holes)
}

// note keeps of a session what is asked of it while its state is not there.
func (w *Worker) note(s *served) {
	w.paid(s)
	if s.state == nil {
		return
	}
	s.open, s.follows, s.unfit, s.books = unsettled(s.state), follows(s.state), unfit(s.state), booksOf(s.state)
	w.recent.Use(s.state)
}

// unsettled reports whether a decider owes a session something, now or once a
// policy or the clock brings it up.
func unsettled(st *journal.State) bool {
	return len(st.OpenCalls()) > 0 || follows(st) && len(st.Adoptions()) == 0
}

func follows(st *journal.State) bool {
	session, agents := st.Follows()
	return session != "" || len(agents) > 0
}

// booksOf are the books that a session holds grants of.
func booksOf(st *journal.State) (books []string) {
	for _, g := range st.LimitedGrants() {
		if g.Ended == "" && g.Origin != nil && g.Origin.Session != "" {
			books = append(books, g.Origin.Session)
		}
	}
	return books
}

// shed lets go the states that were used longest ago.
func (w *Worker) shed() {
	w.recent.Shed(func(chain journal.Chain) bool {
		s := w.sessions[chain]
		if s.busy || s.queued {
			return false
		}
		s.state = nil
		w.forget(s)
		return true
	})
}

// forget drops a session of which nothing is kept and nothing awaited. While the
// backlog comes in, that a session has been here is worth keeping.
func (w *Worker) forget(s *served) {
	kept := s.state != nil || s.busy || s.queued || !w.backlog.over
	awaited := s.open || s.aside != "" || len(s.books) > 0 || w.wake.has(s.chain)
	if !kept && !awaited {
		delete(w.sessions, s.chain)
	}
}

// drop lets go a session that is over.
func (w *Worker) drop(s *served) {
	w.paid(s)
	w.wake.set(s.chain, time.Time{})
	w.recent.Drop(s.chain)
	*s = served{chain: s.chain}
	w.forget(s)
}

// backlog is what was left open before Run.
type backlog struct {
	found <-chan swept // closed once all was found
	over  bool         // all was found
	owed  int          // sessions that were found and are not decided yet
	told  bool         // that all was decided
}

// swept is a session that was found, or why no more are.
type swept struct {
	state *journal.State
	err   error
}

// sweep looks for sessions that were left open, the newest first. A journal that
// cannot be read meanwhile is tried again.
func (w *Worker) sweep(ctx context.Context) backlog {
	found := make(chan swept)
	go func() {
		defer close(found)
		for try := 0; ; try++ {
			err := w.sweepOnce(ctx, found)
			if err == nil || ctx.Err() != nil {
				return
			}
			if !errors.Is(err, journal.ErrUnavailable) || w.Decider.Writer.Pause(ctx, try) != nil {
				hand(ctx, found, swept{err: err})
				return
			}
		}
	}()
	return backlog{found: found}
}

func (w *Worker) sweepOnce(ctx context.Context, found chan<- swept) error {
	for st, err := range journal.Sessions(ctx, w.Decider.Writer.Log(), w.last, w.holes) {
		if err != nil {
			return err
		}
		if st.Ended() == nil && (unsettled(st) || unfit(st) || !NextDeadline(st).IsZero() || len(booksOf(st)) > 0) {
			hand(ctx, found, swept{state: st})
		}
	}
	return nil
}

func hand(ctx context.Context, to chan<- swept, s swept) {
	select {
	case to <- s:
	case <-ctx.Done():
	}
}

// more is where the backlog comes from, while there is room for some of it.
func (w *Worker) more() <-chan swept {
	if w.backlog.over || len(w.ready) > 0 {
		return nil
	}
	return w.backlog.found
}

// found queues a session of the backlog. One that is known already changed since
// Run began, and is decided as it is now.
func (w *Worker) found(f swept, ok bool) error {
	switch {
	case !ok:
		w.backlog.over = true
		for _, s := range w.sessions {
			w.forget(s)
		}
		return nil
	case f.err != nil:
		return f.err
	}
	chain := f.state.Chain()
	s := w.sessions[chain]
	if s == nil {
		s = &served{chain: chain, state: f.state}
		w.sessions[chain] = s
		w.queue(s)
	}
	if !s.owed && (s.busy || s.queued) {
		s.owed = true
		w.backlog.owed++
	}
	return nil
}

// paid notes that a session of the backlog was decided, or could not be.
func (w *Worker) paid(s *served) {
	if s.owed {
		s.owed = false
		w.backlog.owed--
	}
}

// tellReady tells once that the backlog was decided.
func (w *Worker) tellReady() {
	if w.backlog.told || !w.backlog.over || w.backlog.owed > 0 {
		return
	}
	w.backlog.told = true
	if w.Ready != nil {
		w.Ready()
	}
}
