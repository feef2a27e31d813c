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
// the fold of each session that is open, decides what is open, several sessions
// at a time, and wakes at the next deadline. A session that cannot be decided
// is set aside, reported and tried again when it changes or after Retry; the
// others go on.
//
// The policy chain is followed with everything else, in the order of the
// journal: whatever a message leaves to decide is decided by every policy that
// was activated before it. Only what a clock brings up reads the chain first.
type Worker struct {
	Decider *Decider
	// Retry is when a session set aside is tried again; 0: 15 s.
	Retry time.Duration
	// Ready is called once everything stored before Run has been decided; nil: not.
	Ready func()
	// Problem is told of every session set aside, and with a nil error when it
	// goes on; nil: the Decider's logger is.
	Problem func(session string, err error)

	sessions map[journal.Chain]*served
	wake     wakeups
	ready    []*served // to be decided, oldest first
	running  int       // sessions being decided
	done     chan settled
}

const (
	defaultRetry = 15 * time.Second

	// atOnce is how many sessions are decided at a time. Most of that time goes
	// into waiting for an append, of which the journal stores one after another.
	atOnce = 32
)

// served is a session as the worker has it. While it is busy its state belongs
// to the one who decides it.
type served struct {
	chain  journal.Chain
	state  *journal.State
	busy   bool
	queued bool              // in ready, or to be once it is not busy
	due    bool              // a clock brought it up
	late   []journal.Message // that arrived while it was busy
	aside  string            // why it is set aside, or ""
}

// settled is how deciding a session came out.
type settled struct {
	session *served
	err     error
}

// Run works until ctx ends or following the journal fails for good.
func (w *Worker) Run(ctx context.Context) error {
	w.sessions, w.ready, w.running = map[journal.Chain]*served{}, nil, 0
	w.done = make(chan settled, atOnce)
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
	if err := w.Decider.Sync(ctx); err != nil && !errors.Is(err, ErrPolicies) {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer w.idle()
	defer cancel()
	feed := w.follow(ctx, log)
	if err := w.catchUp(ctx, feed, last); err != nil {
		return err
	}
	for _, s := range w.sessions {
		s.state.MarkHoles(holes)
	}
	if err := w.decideAll(ctx); err != nil {
		return err
	}
	if w.Ready != nil {
		w.Ready()
	}
	return w.live(ctx, feed)
}

// idle waits for the sessions being decided.
func (w *Worker) idle() {
	for ; w.running > 0; w.running-- {
		<-w.done
	}
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
			if err := w.take(ctx, f, ok); err != nil {
				return err
			}
			at = f.msg.Seq
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// take folds what came from the feed.
func (w *Worker) take(ctx context.Context, f fed, ok bool) error {
	switch {
	case ok && f.err != nil:
		return f.err
	case ok:
		return w.fold(ctx, f.msg)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return errors.New("following the journal ended")
}

// fold applies a message, or keeps it for later, and queues what it may have
// left to decide.
func (w *Worker) fold(ctx context.Context, m journal.Message) error {
	sub, err := journal.ParseSubject(m.Subject)
	if err != nil {
		return nil
	}
	if sub.Chain.IsPolicy() {
		return w.foldPolicy(ctx, m)
	}
	s := w.sessions[sub.Chain]
	if s == nil {
		s = &served{chain: sub.Chain, state: journal.NewState(sub.Chain)}
		w.sessions[sub.Chain] = s
	}
	if s.busy {
		s.late = append(s.late, m)
		return nil
	}
	w.apply(s, m)
	return nil
}

func (w *Worker) apply(s *served, m journal.Message) {
	if v, _ := s.state.Apply(m); v != journal.NoEffect {
		w.queue(s)
	}
	if s.state.Kind() == journal.KindBook {
		w.queueImporters(s.chain.Session())
	}
}

// foldPolicy takes over a message of the policy chain, and queues the sessions
// that it may concern.
func (w *Worker) foldPolicy(ctx context.Context, m journal.Message) error {
	if err := w.Decider.fold(ctx, m); err != nil {
		return err
	}
	for _, s := range w.sessions {
		if s.busy || s.aside != "" || follows(s.state) {
			w.queue(s)
		}
	}
	return nil
}

func follows(st *journal.State) bool {
	session, agents := st.Follows()
	return session != "" || len(agents) > 0
}

// queueImporters queues the sessions that hold grants of a book.
func (w *Worker) queueImporters(book string) {
	for _, s := range w.sessions {
		if s.busy || imports(s.state, book) {
			w.queue(s)
		}
	}
}

func imports(st *journal.State, book string) bool {
	return slices.ContainsFunc(st.Grants(), func(g *journal.GrantState) bool {
		return g.Ended == "" && g.Origin != nil && g.Origin.Session == book
	})
}

// queue has a session decided as soon as it is not busy.
func (w *Worker) queue(s *served) {
	if s.queued {
		return
	}
	s.queued = true
	if !s.busy {
		w.ready = append(w.ready, s)
	}
}

func (w *Worker) live(ctx context.Context, feed <-chan fed) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.decideReady(ctx)
		timer.Reset(w.untilNext())
		select {
		case f, ok := <-feed:
			if err := w.take(ctx, f, ok); err != nil {
				return err
			}
			if err := w.drain(ctx, feed); err != nil {
				return err
			}
		case o := <-w.done:
			w.finish(ctx, o)
		case <-timer.C:
			w.dueNow()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain folds what has arrived already, so that a burst is decided together.
func (w *Worker) drain(ctx context.Context, feed <-chan fed) error {
	for range cap(feed) {
		select {
		case f, ok := <-feed:
			if err := w.take(ctx, f, ok); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// decideAll decides all that is queued, and waits for it.
func (w *Worker) decideAll(ctx context.Context) error {
	for w.decideReady(ctx); w.running > 0; w.decideReady(ctx) {
		select {
		case o := <-w.done:
			w.finish(ctx, o)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// decideReady begins to decide queued sessions, as many as may be at a time.
func (w *Worker) decideReady(ctx context.Context) {
	for len(w.ready) > 0 && w.running < atOnce && ctx.Err() == nil {
		s := w.ready[0]
		w.ready = w.ready[1:]
		due := s.due
		s.queued, s.due = false, false
		if cond, _ := s.state.Condition(); cond == journal.Whole && s.state.Ended() != nil {
			continue
		}
		s.busy = true
		w.running++
		go func() { w.done <- settled{s, w.settle(ctx, s.state, due)} }()
	}
}

// settle decides a session by the policies followed so far, or, if a clock
// brought it up, by those there are now.
func (w *Worker) settle(ctx context.Context, st *journal.State, due bool) error {
	if due {
		return w.Decider.Settle(ctx, st)
	}
	return w.Decider.settle(ctx, st)
}

// finish takes a session back and folds what came for it meanwhile.
func (w *Worker) finish(ctx context.Context, o settled) {
	s := o.session
	s.busy = false
	w.running--
	if ctx.Err() != nil {
		return
	}
	w.report(s, o.err)
	w.wake.set(s.chain, w.wakeAt(s.state, o.err))
	if s.queued {
		w.ready = append(w.ready, s)
	}
	for _, m := range s.late {
		w.apply(s, m)
	}
	s.late = nil
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
func (w *Worker) report(s *served, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if s.aside == text {
		return
	}
	s.aside = text
	if w.Problem != nil {
		w.Problem(s.chain.Session(), err)
		return
	}
	w.Decider.log().Warn("session set aside", slog.String("session", s.chain.Session()), slog.Any("error", err))
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
		s := w.sessions[chain]
		s.due = true
		w.queue(s)
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
