// Package inbox is the projection of a journal's open questions: what people
// are asked, over all sessions.
//
// An Inbox is a view. It is folded from the journal alone, can be thrown away
// at any time, and is never believed about a question that somebody is about
// to sign: whoever answers reads the session from the journal again.
//
// Use [Load] for one look, and [New] with [Inbox.Run] to stay up to date.
package inbox

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"decisionjournal/journal"
)

// Kind is what happened to a question.
type Kind string

// What happens to questions.
const (
	Opened Kind = "opened"
	Voted  Kind = "voted"  // answered, and it needs more answers
	Closed Kind = "closed" // it takes no more answers; the Settlement says how
)

// Change is one thing that happened to a question.
type Change struct {
	Kind    Kind        `json:"change"`
	Seq     uint64      `json:"seq"`              // stream sequence of the message that did it
	Item    Item        `json:"question"`         // as it is now, or last was
	Settled *Settlement `json:"settled,omitzero"` // of Closed
}

// Inbox holds the open questions of a journal. Make one with New or Load. All
// methods may run concurrently, but Run only once.
type Inbox struct {
	log   journal.Log
	ready chan struct{}

	mu       sync.Mutex
	sessions map[journal.Chain]*session
	groups   map[string]int
	changed  chan struct{} // closed at the next change
	watchers map[*watcher]struct{}
}

// session is one chain and its open questions. An ended session has no state:
// nothing can be asked in it any more.
type session struct {
	st   *journal.State
	open map[string]*entry
}

// entry is an open question. The two states are replaced, never changed, when
// something happens to the question or its call.
type entry struct {
	q    *journal.QuestionState
	c    *journal.CallState
	item Item
}

// New makes an empty inbox over a log. Run fills it.
func New(log journal.Log) *Inbox {
	return &Inbox{
		log: log, ready: make(chan struct{}), sessions: map[journal.Chain]*session{}, groups: map[string]int{},
		changed: make(chan struct{}), watchers: map[*watcher]struct{}{},
	}
}

// Load reads every session up to at least what was stored when it began, from
// the leader, and returns the inbox as it stands then. It stays as it is.
// Errors wrap journal.ErrUnavailable.
func Load(ctx context.Context, log journal.Log) (*Inbox, error) {
	b := New(log)
	if _, err := b.catchUp(ctx); err != nil {
		return nil, err
	}
	close(b.ready)
	return b, nil
}

// startBudget is how long Run tries to read a journal that is unavailable,
// which covers the takeover of a host that died.
const startBudget = 30 * time.Second

// Run reads the journal and follows it until ctx ends; then it returns nil. Any
// other end is an error, after which the inbox stands still.
func (b *Inbox) Run(ctx context.Context) error {
	var after uint64
	err := backoff.Retry(func() error {
		var err error
		if after, err = b.catchUp(ctx); err != nil && !errors.Is(err, journal.ErrUnavailable) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(startBudget)), ctx))
	if err != nil {
		return endOf(ctx, err)
	}
	close(b.ready)
	for m, err := range b.log.Follow(ctx, journal.Chain{}, after) {
		if err != nil {
			return endOf(ctx, err)
		}
		b.apply(m)
	}
	return nil
}

func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Ready is closed once the inbox holds everything that was stored when Run
// began.
func (b *Inbox) Ready() <-chan struct{} { return b.ready }

// catchUp reads each chain from the leader, since a consumer alone cannot tell
// that it has seen the end, and returns from where to follow.
func (b *Inbox) catchUp(ctx context.Context) (uint64, error) {
	last, err := b.log.Last(ctx)
	if err != nil {
		return 0, err
	}
	holes, err := b.log.Holes(ctx)
	if err != nil {
		return 0, err
	}
	chains, err := b.log.Chains(ctx)
	if err != nil {
		return 0, err
	}
	for _, chain := range chains {
		if chain.IsPolicy() {
			continue
		}
		for m, err := range b.log.Load(ctx, chain, b.seen(chain)) {
			if err != nil {
				return 0, err
			}
			b.apply(m)
		}
	}
	b.markHoles(holes)
	return last, nil
}

// seen is the last message of a chain that was folded.
func (b *Inbox) seen(chain journal.Chain) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sessions[chain]; s != nil && s.st != nil {
		return s.st.LastSeq()
	}
	return 0
}

// apply folds one message and tells what it changed.
func (b *Inbox) apply(m journal.Message) {
	chain, ok := chainOf(m.Subject)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[chain]
	if s == nil {
		s = &session{st: journal.NewState(chain), open: map[string]*entry{}}
		b.sessions[chain] = s
	}
	if s.st == nil {
		return
	}
	if v, _ := s.st.Apply(m); v == journal.NoEffect || v == journal.VoidMsg {
		return
	}
	commit, err := journal.Decode(m.Data)
	if err != nil { // it broke the chain
		commit = nil
	}
	b.tell(b.closed(s, m, s.affected(commit)))
	b.tell(b.opened(s, m, commit))
	if s.st.Ended() != nil {
		s.st, s.open = nil, nil
	}
}

// chainOf is the session a subject belongs to, whatever follows its name:
// what is void stands in the chain too.
func chainOf(subject string) (journal.Chain, bool) {
	parts := strings.SplitN(subject, ".", 4)
	if len(parts) < 4 {
		return journal.Chain{}, false
	}
	chain := journal.SessionChain(parts[2])
	prefix, _ := strings.CutSuffix(chain.Filter(), ">")
	return chain, chain.Valid() && strings.HasPrefix(subject, prefix)
}

// closed updates those of the questions that m changed and takes out those
// that it closed.
func (b *Inbox) closed(s *session, m journal.Message, questions []string) []Change {
	cond, _ := s.st.Condition()
	var changes []Change
	for _, id := range questions {
		e := s.open[id]
		if e == nil {
			continue // it was not open, or stands twice
		}
		q, c := s.st.Question(id), s.st.Call(e.q.Call)
		if q == e.q && c == e.c && cond == journal.Whole {
			continue
		}
		item, _ := NewItem(s.st, id)
		voted := len(q.Answers) > len(e.q.Answers)
		e.q, e.c, e.item = q, c, item
		switch {
		case !Open(s.st, q):
			how := settlement(s.st, q, m)
			b.remove(s, id)
			changes = append(changes, Change{Kind: Closed, Seq: m.Seq, Item: b.counted(item), Settled: &how})
		case voted:
			changes = append(changes, Change{Kind: Voted, Seq: m.Seq, Item: b.counted(item)})
		}
	}
	slices.SortFunc(changes, func(x, y Change) int { return compareItems(x.Item, y.Item) })
	return changes
}

// opened adds the questions that m asks.
func (b *Inbox) opened(s *session, m journal.Message, commit *journal.Commit) []Change {
	if commit == nil {
		return nil
	}
	var changes []Change
	for _, e := range commit.Events {
		q := s.st.Question(e.ID)
		if q == nil || !Open(s.st, q) {
			continue
		}
		item, _ := NewItem(s.st, e.ID)
		s.open[e.ID] = &entry{q, s.st.Call(q.Call), item}
		b.groups[item.Group]++
		changes = append(changes, Change{Kind: Opened, Seq: m.Seq, Item: item})
	}
	for i := range changes {
		changes[i].Item = b.counted(changes[i].Item)
	}
	return changes
}

func (b *Inbox) remove(s *session, id string) {
	e := s.open[id]
	if b.groups[e.item.Group]--; b.groups[e.item.Group] == 0 {
		delete(b.groups, e.item.Group)
	}
	delete(s.open, id)
}

// counted is the item with how many of its group are open.
func (b *Inbox) counted(item Item) Item {
	item.Count = b.groups[item.Group]
	return item
}

// markHoles closes the questions of sessions that may have lost a commit.
func (b *Inbox) markHoles(holes []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		if s.st == nil {
			continue
		}
		if s.st.MarkHoles(holes); len(s.open) > 0 {
			_, why := s.st.Condition()
			b.tell(b.closed(s, journal.Message{Seq: why.Seq, Time: s.st.Time().Time}, s.all()))
		}
	}
}

// List is every open question, in the order they were asked. One whose
// deadline has passed stays until a decider says so; see [Item.Expired].
func (b *Inbox) List() []Item {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list()
}

func (b *Inbox) list() []Item {
	list := []Item{}
	for _, s := range b.sessions {
		for _, e := range s.open {
			list = append(list, b.counted(e.item))
		}
	}
	slices.SortFunc(list, compareItems)
	return list
}

func compareItems(a, b Item) int {
	return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.at, b.at))
}

// Get is the open question of a session, if it is one.
func (b *Inbox) Get(session, question string) (Item, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[journal.SessionChain(session)]
	if s == nil || s.open[question] == nil {
		return Item{}, false
	}
	return b.counted(s.open[question].item), true
}

// Changed is closed at the next change. Take it before looking, so that no
// change is missed.
func (b *Inbox) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// watcher is a reader of changes. What it has not read yet is kept for it.
type watcher struct {
	queue []Change
	wake  chan struct{}
}

// tell passes changes on; the caller holds mu.
func (b *Inbox) tell(changes []Change) {
	if len(changes) == 0 {
		return
	}
	close(b.changed)
	b.changed = make(chan struct{})
	for w := range b.watchers {
		w.push(changes)
	}
}

func (w *watcher) push(changes []Change) {
	w.queue = append(w.queue, changes...)
	select {
	case w.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Watch yields an Opened for every question that is open now and then every
// change, in order, until ctx ends or the caller breaks. Changes wait in
// memory for a slow caller.
func (b *Inbox) Watch(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		w := b.subscribe()
		defer b.unsubscribe(w)
		for {
			for _, c := range b.take(w) {
				if ctx.Err() != nil || !yield(c) {
					return
				}
			}
			select {
			case <-w.wake:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (b *Inbox) subscribe() *watcher {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &watcher{wake: make(chan struct{}, 1)}
	for _, item := range b.list() {
		w.queue = append(w.queue, Change{Kind: Opened, Seq: item.seq, Item: item})
	}
	b.watchers[w] = struct{}{}
	return w
}

func (b *Inbox) unsubscribe(w *watcher) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watchers, w)
}

func (b *Inbox) take(w *watcher) []Change {
	b.mu.Lock()
	defer b.mu.Unlock()
	changes := w.queue
	w.queue = nil
	return changes
}
