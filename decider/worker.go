package decider

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"decisionjournal/journal"
)

// Worker decides for every session of a journal. It follows the journal, keeps
// the fold of each session that is open, decides what is open, and wakes at
// the next deadline. A session that cannot be decided is set aside, reported
// and tried again when it changes or after Retry; the others go on.
type Worker struct {
	Decider *Decider
	// Retry is when a session set aside is tried again; 0: 15 s.
	Retry time.Duration
	// Ready is called once everything stored before Run has been decided; nil: not.
	Ready func()
	// Problem is told of every session set aside, and with a nil error when it
	// goes on; nil: the Decider's logger is.
	Problem func(session string, err error)

	sessions map[journal.Chain]*journal.State
	aside    map[journal.Chain]string
	wake     wakeups
	dirty    map[journal.Chain]struct{}
}

const defaultRetry = 15 * time.Second

// Run works until ctx ends or following the journal fails for good.
func (w *Worker) Run(ctx context.Context) error {
	w.sessions, w.aside, w.dirty = map[journal.Chain]*journal.State{}, map[journal.Chain]string{}, map[journal.Chain]struct{}{}
	log := w.Decider.Writer.Log()
	holes, err := log.Holes(ctx)
	if err != nil {
		return err
	}
	last, err := log.Last(ctx)
	if err != nil {
		return err
	}
	for last > 0 && slices.Contains(holes, last) {
		last-- // what cannot be read never arrives
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feed := w.follow(ctx, log)
	if err := w.catchUp(ctx, feed, last); err != nil {
		return err
	}
	for _, st := range w.sessions {
		st.MarkHoles(holes)
	}
	w.decideDirty(ctx)
	if w.Ready != nil {
		w.Ready()
	}
	return w.live(ctx, feed)
}

// fed is a message, or the error that ended the following.
type fed struct {
	msg journal.Message
	err error
}

func (w *Worker) follow(ctx context.Context, log journal.Log) <-chan fed {
	feed := make(chan fed, 256)
	go func() {
		defer close(feed)
		for m, err := range log.Follow(ctx, journal.Chain{}, 0) {
			select {
			case feed <- fed{m, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return feed
}

// catchUp folds what was stored before, without deciding on half of it.
func (w *Worker) catchUp(ctx context.Context, feed <-chan fed, last uint64) error {
	for at := uint64(0); at < last; {
		select {
		case f, ok := <-feed:
			if err := ended(ctx, f, ok); err != nil {
				return err
			}
			w.fold(f.msg)
			at = f.msg.Seq
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func ended(ctx context.Context, f fed, ok bool) error {
	switch {
	case ok:
		return f.err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return errors.New("following the journal ended")
}

// fold applies a message and marks what it may have left to decide.
func (w *Worker) fold(m journal.Message) {
	sub, err := journal.ParseSubject(m.Subject)
	if err != nil {
		return
	}
	if sub.Chain.IsPolicy() {
		for chain, st := range w.sessions {
			if session, agents := st.Follows(); session != "" || len(agents) > 0 || w.aside[chain] != "" {
				w.dirty[chain] = struct{}{}
			}
		}
		return
	}
	st := w.sessions[sub.Chain]
	if st == nil {
		st = journal.NewState(sub.Chain)
		w.sessions[sub.Chain] = st
	}
	if v, _ := st.Apply(m); v != journal.NoEffect {
		w.dirty[sub.Chain] = struct{}{}
	}
	if st.Kind() == journal.KindBook {
		w.dirtyImporters(sub.Chain.Session())
	}
}

// dirtyImporters marks the sessions that hold grants of a book.
func (w *Worker) dirtyImporters(book string) {
	for chain, st := range w.sessions {
		for _, g := range st.Grants() {
			if g.Ended == "" && g.Origin != nil && g.Origin.Session == book {
				w.dirty[chain] = struct{}{}
				break
			}
		}
	}
}

func (w *Worker) live(ctx context.Context, feed <-chan fed) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(w.untilNext())
		select {
		case f, ok := <-feed:
			if err := ended(ctx, f, ok); err != nil {
				return err
			}
			w.fold(f.msg)
			if err := w.drain(ctx, feed); err != nil {
				return err
			}
		case <-timer.C:
			w.dueNow()
		case <-ctx.Done():
			return ctx.Err()
		}
		w.decideDirty(ctx)
	}
}

// drain folds what has arrived already, so that a burst is decided together.
func (w *Worker) drain(ctx context.Context, feed <-chan fed) error {
	for range cap(feed) {
		select {
		case f, ok := <-feed:
			if err := ended(ctx, f, ok); err != nil {
				return err
			}
			w.fold(f.msg)
		default:
			return nil
		}
	}
	return nil
}

func (w *Worker) decideDirty(ctx context.Context) {
	for chain := range w.dirty {
		if ctx.Err() != nil {
			return
		}
		delete(w.dirty, chain)
		w.decide(ctx, chain)
	}
}

func (w *Worker) decide(ctx context.Context, chain journal.Chain) {
	st := w.sessions[chain]
	if cond, _ := st.Condition(); cond == journal.Whole && st.Ended() != nil {
		return
	}
	err := w.Decider.Settle(ctx, st)
	if ctx.Err() != nil {
		return
	}
	w.report(chain, err)
	w.wake.set(chain, w.wakeAt(st, err))
}

// wakeAt is when a session is looked at again. After an error, what is overdue
// may be what failed, and waits for Retry too.
func (w *Worker) wakeAt(st *journal.State, err error) time.Time {
	now, at := w.Decider.Writer.Clock(), NextDeadline(st)
	if err == nil {
		return at
	}
	if !at.After(now) {
		at = time.Time{}
	}
	return earlier(at, now.Add(cmp.Or(w.Retry, defaultRetry)))
}

// report says once that a session was set aside, and once that it goes on.
func (w *Worker) report(chain journal.Chain, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if w.aside[chain] == text {
		return
	}
	if w.aside[chain] = text; text == "" {
		delete(w.aside, chain)
	}
	if w.Problem != nil {
		w.Problem(chain.Session(), err)
		return
	}
	w.Decider.log().Warn("session set aside", slog.String("session", chain.Session()), slog.Any("error", err))
}

// NextDeadline is when something open in a session ends by itself; zero: never.
func NextDeadline(st *journal.State) time.Time {
	var next time.Time
	for _, c := range st.OpenCalls() {
		if q := st.Question(c.Last().Question); q != nil && !q.Over {
			next = earlier(next, q.Deadline.Time)
		}
		if dec := st.Decision(c.Last().Decision); dec != nil && c.Last().Progress == journal.Allowed {
			next = earlier(next, dec.Expires.Time)
		}
	}
	for _, g := range st.Grants() {
		if g.Ended == "" {
			next = earlier(next, g.Expires.Time)
		}
	}
	return next
}

// earlier is the earlier of two times, of which a zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// untilNext is how long the worker may sleep.
func (w *Worker) untilNext() time.Duration {
	if len(w.dirty) > 0 {
		return 0
	}
	at, _, ok := w.wake.first()
	if !ok {
		return time.Hour
	}
	return max(at.Sub(w.Decider.Writer.Clock()), 0)
}

func (w *Worker) dueNow() {
	now := w.Decider.Writer.Clock()
	for at, chain, ok := w.wake.first(); ok && !at.After(now); at, chain, ok = w.wake.first() {
		w.wake.set(chain, time.Time{})
		w.dirty[chain] = struct{}{}
	}
}

// wakeups is a queue of chains by the time they are due. The zero value is empty.
type wakeups struct {
	at    map[journal.Chain]time.Time
	queue dueQueue
}

// set makes a chain due at a time, or never if that is zero.
func (w *wakeups) set(chain journal.Chain, at time.Time) {
	if at.IsZero() {
		delete(w.at, chain)
		return
	}
	if w.at == nil {
		w.at = map[journal.Chain]time.Time{}
	}
	if w.at[chain] != at {
		w.at[chain] = at
		heap.Push(&w.queue, due{chain, at})
	}
}

// first is the chain due first. Entries that were set anew are passed over.
func (w *wakeups) first() (time.Time, journal.Chain, bool) {
	for len(w.queue) > 0 {
		d := w.queue[0]
		if at, ok := w.at[d.chain]; ok && at.Equal(d.at) {
			return d.at, d.chain, true
		}
		heap.Pop(&w.queue)
	}
	return time.Time{}, journal.Chain{}, false
}

type due struct {
	chain journal.Chain
	at    time.Time
}

type dueQueue []due

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q dueQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *dueQueue) Push(x any)        { *q = append(*q, x.(due)) }
func (q *dueQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
