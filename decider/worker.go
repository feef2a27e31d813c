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

// Worker decides for every session of a journal. It follows the journal, decides
// what is open, several sessions at a time, and wakes at the next deadline. A
// session that cannot be decided is set aside, reported and tried again when it
// changes or after Retry; the others go on.
//
// What was left open before is found beside that, in one pass over the journal:
// what comes in is decided from the beginning. The worker keeps the folds of
// those sessions that were used last, and folds the others anew when something
// happens in them, so that it needs memory for what goes on and not for all that
// ever was.
//
// The policy chain is followed with everything else, in the order of the
// journal: whatever a message leaves to decide is decided by every policy that
// was activated before it. Only what a clock brings up reads the chain first.
type Worker struct {
	Decider *Decider
	// Retry is when a session set aside is tried again; 0: 15 s.
	Retry time.Duration
	// Memory is about how many bytes the folds it keeps may have been folded from;
	// 0: DefaultMemory.
	Memory int
	// Serving is called once what comes in is decided as it comes; nil: not.
	Serving func()
	// Ready is called once everything stored before Run has been decided; nil: not.
	Ready func()
	// Problem is told of every session set aside, and with a nil error when it
	// goes on; nil: the Decider's logger is.
	Problem func(session string, err error)

	last     uint64   // where the journal ended when Run began
	holes    []uint64 // in it then
	sessions map[journal.Chain]*served
	recent   journal.Recent
	wake     wakeups
	ready    []*served // to be decided, oldest first
	running  int       // sessions being decided
	done     chan settled
	backlog  backlog
	clock    clock
}

const (
	defaultRetry = 15 * time.Second

	// clockEvery is how often the clock is looked at: a timer counts what has
	// passed, not where the clock stands since it was set or the machine slept.
	clockEvery = time.Minute

	// atOnce is how many sessions are decided at a time. Most of that time goes
	// into waiting for an append, of which the journal stores one after another.
	atOnce = 32
)

// settled is how deciding a session came out.
type settled struct {
	session *served
	state   *journal.State // nil if it could not be read
	err     error
}

// Run works until ctx ends or following the journal fails for good.
//
// Nothing is decided before the whole journal is known to be readable: what is
// missing anywhere behind the policy chain's head may have been a stricter
// policy, and behind a session's head its revocation. A host knows that of its
// journal before anyone joins.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer w.idle()
	defer cancel()
	w.backlog = w.sweep(ctx)
	feed := w.follow(ctx)
	if w.Serving != nil {
		w.Serving()
	}
	return w.live(ctx, feed)
}

func (w *Worker) begin(ctx context.Context) (err error) {
	w.sessions, w.ready, w.running = map[journal.Chain]*served{}, nil, 0
	w.recent, w.wake = journal.Recent{Budget: cmp.Or(w.Memory, DefaultMemory)}, wakeups{}
	w.done = make(chan settled, atOnce)
	log := w.Decider.Writer.Log()
	if w.last, err = log.Last(ctx); err != nil {
		return err
	}
	if w.holes, err = log.Holes(ctx); err != nil {
		return err
	}
	if err := w.Decider.Sync(ctx); err != nil && !errors.Is(err, ErrPolicies) {
		return err
	}
	return nil
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

func (w *Worker) follow(ctx context.Context) <-chan fed {
	feed := make(chan fed, 256)
	go func() {
		defer close(feed)
		for m, err := range w.Decider.Writer.Log().Follow(ctx, journal.Chain{}, w.last) {
			select {
			case feed <- fed{m, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return feed
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
	s := w.session(sub.Chain, m)
	if s.busy {
		s.late = append(s.late, m)
		return nil
	}
	w.apply(s, m)
	return nil
}

// apply folds a message into a session that is not busy. One whose state is not
// kept is read anew when it is decided.
func (w *Worker) apply(s *served, m journal.Message) {
	if s.state == nil {
		w.queue(s)
		return
	}
	if v, _ := s.state.Apply(m); v != journal.NoEffect {
		w.queue(s)
	}
	if s.state.Kind() == journal.KindBook {
		w.queueImporters(s.chain.Session())
	}
}

// foldPolicy takes over a message of the policy chain, and queues the sessions
// in which something is open that it may concern. The others adopt a policy
// before their next decision.
func (w *Worker) foldPolicy(ctx context.Context, m journal.Message) error {
	if err := w.Decider.fold(ctx, m); err != nil {
		return err
	}
	for _, s := range w.sessions {
		if s.busy || s.open && s.follows || s.stuck() {
			w.queue(s)
		}
	}
	return nil
}

// queueImporters queues the sessions that hold grants of a book.
func (w *Worker) queueImporters(book string) {
	for _, s := range w.sessions {
		if s.busy || slices.Contains(s.books, book) {
			w.queue(s)
		}
	}
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
	timer := time.NewTimer(clockEvery)
	defer timer.Stop()
	w.clock.stepped(w.Decider.Writer.Clock())
	for {
		w.decideReady(ctx)
		w.tellReady()
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
		case f, ok := <-w.more():
			if err := w.found(f, ok); err != nil {
				return err
			}
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

// decideReady begins to decide queued sessions, as many as may be at a time.
func (w *Worker) decideReady(ctx context.Context) {
	for len(w.ready) > 0 && w.running < atOnce && ctx.Err() == nil {
		s := w.ready[0]
		w.ready = w.ready[1:]
		due := s.due
		s.queued, s.due = false, false
		if s.over() {
			w.drop(s)
			continue
		}
		s.busy = true
		w.running++
		go func() {
			st, err := w.settle(ctx, s, due)
			w.done <- settled{s, st, err}
		}()
	}
}

// settle decides a session by the policies followed so far. If a clock brought
// it up, or it was read further than what was followed, it is decided by those
// there are now.
func (w *Worker) settle(ctx context.Context, s *served, due bool) (*journal.State, error) {
	if s.state != nil && !due {
		return s.state, w.Decider.settle(ctx, s.state)
	}
	st := s.state
	if st == nil {
		var err error
		if st, err = w.read(ctx, s.chain); err != nil {
			return nil, err
		}
	}
	return st, w.Decider.Settle(ctx, st)
}

// finish takes a session back and folds what came for it meanwhile.
func (w *Worker) finish(ctx context.Context, o settled) {
	s := o.session
	s.busy = false
	w.running--
	if ctx.Err() != nil {
		return
	}
	isRead := s.state == nil && o.state != nil
	s.state = o.state
	w.report(s, o.err)
	w.wake.set(s.chain, w.wakeAt(s.state, o.err))
	w.note(s)
	if s.queued {
		w.ready = append(w.ready, s)
	}
	for _, m := range s.late {
		w.apply(s, m)
	}
	s.late = nil
	if isRead && s.state.Kind() == journal.KindBook { // what happened in it is not known
		w.queueImporters(s.chain.Session())
	}
	w.shed()
}

// wakeAt is when a session is looked at again. After an error, what is overdue
// may be what failed, and waits for Retry too. What is wrong with a session that
// is unfit only a message can mend.
func (w *Worker) wakeAt(st *journal.State, err error) time.Time {
	var at time.Time
	if st != nil {
		at = NextDeadline(st)
	}
	switch now := w.Decider.Writer.Clock(); {
	case err == nil:
		return at
	case st != nil && unfit(st):
		return time.Time{}
	case !at.After(now):
		return now.Add(cmp.Or(w.Retry, defaultRetry))
	default:
		return earlier(at, now.Add(cmp.Or(w.Retry, defaultRetry)))
	}
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
	for _, g := range st.LimitedGrants() {
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
		return clockEvery
	}
	return min(max(at.Sub(w.Decider.Writer.Clock()), 0), clockEvery)
}

func (w *Worker) dueNow() {
	now := w.Decider.Writer.Clock()
	if w.clock.stepped(now) {
		w.tryAside()
	}
	for at, chain, ok := w.wake.first(); ok && !at.After(now); at, chain, ok = w.wake.first() {
		w.wake.set(chain, time.Time{})
		if s := w.sessions[chain]; s != nil {
			s.due = true
			w.queue(s)
		}
	}
}

// tryAside has every session decided that is set aside: a wrong clock may have
// been why.
func (w *Worker) tryAside() {
	for _, s := range w.sessions {
		if s.stuck() {
			s.due = true
			w.queue(s)
		}
	}
}

// clock notices that the worker's clock was set. The zero value has seen none.
type clock struct{ seen, wall time.Time }

// smallStep of the clock in either direction is what clocks do.
const smallStep = 10 * time.Second

func (c *clock) stepped(wall time.Time) bool {
	passed, wall := time.Since(c.seen), wall.Round(0)
	step := wall.Sub(c.wall) - passed
	first := c.seen.IsZero()
	c.seen, c.wall = time.Now(), wall
	return !first && step.Abs() > smallStep
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

// has reports whether a chain will be due.
func (w *wakeups) has(chain journal.Chain) bool { _, ok := w.at[chain]; return ok }

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
