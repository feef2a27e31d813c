// Package inbox is the projection of a journal's open questions: what people
// are asked, over all sessions.
//
// An Inbox is a view. It is folded from the journal alone, can be thrown away
// at any time, and is never believed about a question that somebody is about
// to sign: whoever answers reads the session from the journal again.
//
// Use [Load] for one look, and [New] with [Inbox.Run] to stay up to date.
//
// It keeps what is open, and folds of the sessions that were used last. Any
// other session is folded anew when something happens in it.
package inbox

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
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

// stateBudget is about how many bytes the folds that an inbox keeps may take in
// all.
const stateBudget = 16 << 20

// Inbox holds the open questions of a journal. Make one with New or Load. All
// methods may run concurrently, but Run only once.
type Inbox struct {
	log   journal.Log
	ready chan struct{}

	// Of the journal when it was first read: where it ended, and its holes.
	last  uint64
	holes []uint64
	seen  uint64 // the last message that was folded

	mu       sync.Mutex
	sessions map[journal.Chain]*session // changed by Load and Run alone
	recent   *journal.Recent
	order    []*entry // in the order they were asked
	groups   map[string]int
	changed  chan struct{} // closed at the next change
	watchers map[*watcher]struct{}
}

// session is one chain and its open questions.
type session struct {
	chain    journal.Chain
	st       *journal.State // nil: not kept
	open     map[string]*entry
	withheld *Withheld // nil: it takes answers, or has asked nothing
}

// entry is an open question. The two states are replaced, never changed, when
// something happens to the question or its call.
type entry struct {
	session string
	q       *journal.QuestionState
	c       *journal.CallState
	askers  []string
	group   string
}

func newEntry(st *journal.State, question string) *entry {
	e := &entry{session: st.Chain().Session()}
	e.set(st, question)
	e.group = group(e.session, e.c)
	return e
}

// set takes over how the question is in st.
func (e *entry) set(st *journal.State, question string) {
	e.q = st.Question(question)
	e.c = st.Call(e.q.Call)
	if askers := Askers(st, e.q); !slices.Equal(askers, e.askers) {
		e.askers = askers
	}
}

func compareEntries(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.q.Mark.Seq, b.q.Mark.Seq), cmp.Compare(a.q.Mark.I, b.q.Mark.I))
}

// New makes an empty inbox over a log. Run fills it.
func New(log journal.Log) *Inbox {
	return &Inbox{
		log: log, ready: make(chan struct{}), sessions: map[journal.Chain]*session{}, groups: map[string]int{},
		recent: &journal.Recent{Budget: stateBudget}, changed: make(chan struct{}), watchers: map[*watcher]struct{}{},
	}
}

// Load reads every session up to at least what was stored when it began, from
// the leader, and returns the inbox as it stands then. It stays as it is.
// Errors wrap journal.ErrUnavailable.
func Load(ctx context.Context, log journal.Log) (*Inbox, error) {
	b := New(log)
	if err := b.catchUp(ctx); err != nil {
		return nil, err
	}
	close(b.ready)
	return b, nil
}

// budget is how long Run tries to read a journal that is unavailable, which
// covers the takeover of a host that died.
const budget = 30 * time.Second

// Run reads the journal and follows it until ctx ends; then it returns nil. Any
// other end is an error, after which the inbox stands still.
func (b *Inbox) Run(ctx context.Context) error {
	if err := patiently(ctx, func() error { return b.catchUp(ctx) }); err != nil {
		return endOf(ctx, err)
	}
	close(b.ready)
	for m, err := range b.log.Follow(ctx, journal.Chain{}, b.last) {
		if err == nil {
			err = patiently(ctx, func() error { return b.apply(ctx, m) })
		}
		if err != nil {
			return endOf(ctx, err)
		}
	}
	return nil
}

// patiently tries again what finds the journal unavailable.
func patiently(ctx context.Context, do func() error) error {
	return backoff.Retry(func() error {
		err := do()
		if err != nil && !errors.Is(err, journal.ErrUnavailable) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(budget)), ctx))
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

// catchUp fills the inbox from the leader, since a consumer alone cannot tell
// that it has seen the end.
func (b *Inbox) catchUp(ctx context.Context) (err error) {
	if b.last, err = b.log.Last(ctx); err != nil {
		return err
	}
	if b.holes, err = b.log.Holes(ctx); err != nil {
		return err
	}
	fresh := New(b.log)
	fresh.recent.Budget = b.recent.Budget
	for st, err := range journal.Sessions(ctx, b.log, b.last, b.holes) {
		if err != nil {
			return err
		}
		fresh.begin(st)
	}
	slices.SortFunc(fresh.order, compareEntries)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = b.last
	b.sessions, b.recent, b.order, b.groups = fresh.sessions, fresh.recent, fresh.order, fresh.groups
	var changes []Change
	for _, e := range b.order {
		if len(b.watchers) > 0 {
			changes = append(changes, Change{Kind: Opened, Seq: e.q.Mark.Seq, Item: b.item(e)})
		}
	}
	b.tell(changes)
	return nil
}

// begin takes a session into an inbox that is being filled: its open questions
// stand in order once order is sorted.
func (b *Inbox) begin(st *journal.State) {
	s := &session{chain: st.Chain(), st: st, open: map[string]*entry{}}
	for _, c := range st.OpenCalls() {
		if q := st.Question(c.Last().Question); q != nil && Open(st, q) {
			b.count(s, newEntry(st, q.Mark.ID))
		}
	}
	b.keep(s)
}

func (b *Inbox) count(s *session, e *entry) {
	s.open[e.q.Mark.ID] = e
	b.order = append(b.order, e)
	b.groups[e.group]++
}

// keep keeps a session's state, in place of those used longest ago. Of a session
// in which nothing is open, nothing else is kept.
func (b *Inbox) keep(s *session) {
	if s.withheld = withheld(s.st); s.st.Ended() != nil {
		b.recent.Drop(s.chain)
		delete(b.sessions, s.chain)
		return
	}
	b.sessions[s.chain] = s
	b.recent.Use(s.st)
	b.recent.Shed(func(chain journal.Chain) bool {
		old := b.sessions[chain]
		if old.st = nil; len(old.open) == 0 && old.withheld == nil {
			delete(b.sessions, chain)
		}
		return true
	})
}

// apply folds one message and tells what it changed. Errors wrap
// journal.ErrUnavailable: the message was not folded.
func (b *Inbox) apply(ctx context.Context, m journal.Message) error {
	chain, ok := journal.SessionOf(m.Subject)
	if !ok || m.Seq <= b.seen {
		return nil
	}
	st, err := b.before(ctx, chain, m)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[chain]
	if s == nil {
		s = &session{chain: chain, open: map[string]*entry{}}
	}
	if s.st == nil {
		s.st = st
		for id, e := range s.open {
			e.set(st, id)
		}
	}
	if s.st.Ended() == nil {
		b.fold(s, m)
	}
	b.keep(s)
	b.seen = m.Seq
	return nil
}

// before is the state of a chain before m: as it is kept, or folded anew.
func (b *Inbox) before(ctx context.Context, chain journal.Chain, m journal.Message) (*journal.State, error) {
	switch s := b.sessions[chain]; {
	case s != nil && s.st != nil:
		return s.st, nil
	case s == nil && journal.Begins(chain, m):
		return journal.NewState(chain), nil
	}
	return journal.StateAsOf(ctx, b.log, chain, m.Seq-1, b.last, b.holes)
}

func (b *Inbox) fold(s *session, m journal.Message) {
	if v, _ := s.st.Apply(m); v == journal.NoEffect || v == journal.VoidMsg {
		return
	}
	commit, err := journal.Decode(m.Data)
	if err != nil { // it broke the chain
		commit = nil
	}
	b.tell(b.closed(s, m, s.affected(commit)))
	b.tell(b.opened(s, m, commit))
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
		voted := len(q.Answers) > len(e.q.Answers)
		e.set(s.st, id)
		switch {
		case !Open(s.st, q):
			how := settlement(s.st, q, m)
			b.remove(s, e)
			changes = append(changes, Change{Kind: Closed, Seq: m.Seq, Item: b.item(e), Settled: &how})
		case voted:
			changes = append(changes, Change{Kind: Voted, Seq: m.Seq, Item: b.item(e)})
		}
	}
	slices.SortFunc(changes, func(x, y Change) int { return compareItems(x.Item, y.Item) })
	return changes
}

// opened adds the questions that m asks. They stand behind all others.
func (b *Inbox) opened(s *session, m journal.Message, commit *journal.Commit) []Change {
	if commit == nil {
		return nil
	}
	begun := len(b.order)
	for _, event := range commit.Events {
		if q := s.st.Question(event.ID); q != nil && Open(s.st, q) {
			b.count(s, newEntry(s.st, event.ID))
		}
	}
	var changes []Change
	for _, e := range b.order[begun:] {
		changes = append(changes, Change{Kind: Opened, Seq: m.Seq, Item: b.item(e)})
	}
	return changes
}

func (b *Inbox) remove(s *session, e *entry) {
	if b.groups[e.group]--; b.groups[e.group] == 0 {
		delete(b.groups, e.group)
	}
	delete(s.open, e.q.Mark.ID)
	if i, found := slices.BinarySearchFunc(b.order, e, compareEntries); found {
		b.order = slices.Delete(b.order, i, i+1)
	}
}

// item is an entry as people see it, with how many of its group are open.
func (b *Inbox) item(e *entry) Item {
	item := newItem(e.session, e.q, e.c, e.askers)
	item.Group, item.Count = e.group, b.groups[e.group]
	return item
}

// List is every open question, in the order they were asked. One whose
// deadline has passed stays until a decider says so; see [Item.Expired].
func (b *Inbox) List() []Item {
	list := []Item{}
	for item := range b.All() {
		list = append(list, item)
	}
	return list
}

// Len is how many questions are open.
func (b *Inbox) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.order)
}

// Page are up to limit open questions behind one, in the order they were asked;
// nil: the first. The one behind which it begins may have closed meanwhile. It
// takes as long as the page is, however many are open.
func (b *Inbox) Page(behind *Item, limit int) []Item {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := 0
	if behind != nil {
		at := &journal.QuestionState{Mark: journal.Mark{Seq: behind.seq, I: behind.at}}
		i, found := slices.BinarySearchFunc(b.order, &entry{q: at}, compareEntries)
		if from = i; found {
			from++
		}
	}
	list := []Item{}
	for _, e := range b.order[from:min(from+max(limit, 0), len(b.order))] {
		list = append(list, b.item(e))
	}
	return list
}

// All yields every open question, in the order they were asked. The inbox goes
// on meanwhile: what is asked before it ends is yielded too.
func (b *Inbox) All() iter.Seq[Item] {
	const atOnce = 64
	return func(yield func(Item) bool) {
		var behind *Item
		for page := b.Page(nil, atOnce); len(page) > 0; page = b.Page(behind, atOnce) {
			for _, item := range page {
				if !yield(item) {
					return
				}
			}
			behind = &page[len(page)-1]
		}
	}
}

// Withheld is a session that takes no answers, since it is broken or too new
// for this program, and asked questions that nobody has settled.
type Withheld struct {
	Session   string
	Condition journal.Condition
	Why       journal.Anomaly
	Questions int
}

// withheld is what a session withholds, nil if that is nothing.
func withheld(st *journal.State) *Withheld {
	w := Withheld{Session: st.Chain().Session()}
	if w.Condition, w.Why = st.Condition(); w.Condition == journal.Whole {
		return nil
	}
	for _, q := range st.Questions() {
		if !q.Over && !q.Settled() {
			w.Questions++
		}
	}
	if w.Questions == 0 {
		return nil
	}
	return &w
}

// Withheld lists the sessions whose questions List leaves out, by name.
func (b *Inbox) Withheld() []Withheld {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Withheld
	for _, s := range b.sessions {
		if s.withheld != nil {
			list = append(list, *s.withheld)
		}
	}
	slices.SortFunc(list, func(x, y Withheld) int { return cmp.Compare(x.Session, y.Session) })
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
	return b.item(s.open[question]), true
}

// Changed is closed at the next change. Take it before looking, so that no
// change is missed.
func (b *Inbox) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}
