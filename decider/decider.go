// Package decider turns calls into decisions. [Decide] is the pure heart;
// [Decider] feeds it from a journal and appends what it decides, for one
// session at a time; [Worker] does so for every session of a journal.
package decider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// Decider decides sessions inline: a batch runner, a hook, a gateway or a
// worker holds one. Its methods may run concurrently on different States.
type Decider struct {
	Writer *journal.Writer // a decider's
	Logger *slog.Logger    // nil: none

	mu    sync.Mutex
	turn  chan struct{}         // held by whoever uses chain and good
	chain *journal.State        // of policies; nil until it is first read
	reads atomic.Uint64         // of the policy chain that began
	good  bool                  // the last of them succeeded
	known atomic.Pointer[known] // what chain holds; nil until it is first read
}

// known is what a decider knows of the policy chain at one moment. It never changes.
type known struct {
	policies *Policies
	unfit    error // why nothing may be decided, or nil
}

// Sync takes over what the policy chain holds now. It fails while that chain is
// broken or too new: what is lost or unknown may have been a stricter policy,
// so nothing is decided. Callers that wait at the same time share one read,
// which began after each of them asked.
func (d *Decider) Sync(ctx context.Context) error {
	asked := d.reads.Load()
	free, err := d.hold(ctx)
	if err != nil {
		return err
	}
	defer free()
	if d.good && d.reads.Load() != asked {
		return d.known.Load().unfit
	}
	return d.read(ctx)
}

// hold waits for the turn to use the policy chain's state. The caller calls free.
func (d *Decider) hold(ctx context.Context) (free func(), err error) {
	d.mu.Lock()
	if d.turn == nil {
		d.turn = make(chan struct{}, 1)
	}
	turn := d.turn
	d.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: read the policy chain: %w", journal.ErrUnavailable, ctx.Err())
	}
}

// read folds the policy chain up to its head. The caller holds the turn.
func (d *Decider) read(ctx context.Context) error {
	d.reads.Add(1)
	err := d.refresh(ctx)
	if d.good = err == nil; !d.good {
		return err
	}
	return d.known.Load().unfit
}

func (d *Decider) refresh(ctx context.Context) error {
	if d.chain == nil {
		st, err := journal.LoadState(ctx, d.Writer.Log(), journal.PolicyChain())
		if err != nil {
			return err
		}
		d.chain = st
		d.learn()
		return nil
	}
	before := d.chain.LastSeq()
	err := journal.Refresh(ctx, d.Writer.Log(), d.chain)
	if d.chain.LastSeq() != before { // what was read before an error counts too
		d.learn()
	}
	return err
}

// learn takes over what the policy chain's state holds. The caller holds the turn.
func (d *Decider) learn() {
	policies := &Policies{}
	if k := d.known.Load(); k != nil {
		policies = k.policies.clone()
	}
	policies.Update(d.chain)
	d.known.Store(&known{policies, wholePolicies(d.chain)})
}

// fold takes over a message of the policy chain that was followed.
func (d *Decider) fold(ctx context.Context, m journal.Message) error {
	free, err := d.hold(ctx)
	if err != nil {
		return err
	}
	defer free()
	if d.chain == nil {
		return nil // it is read as a whole
	}
	if v, _ := d.chain.Apply(m); v != journal.NoEffect {
		d.learn()
	}
	return nil
}

// ErrPolicies: the policy chain is broken or too new, and nothing is decided.
var ErrPolicies = errors.New("the policy chain")

func wholePolicies(st *journal.State) error {
	switch cond, why := st.Condition(); cond {
	case journal.Broken:
		return fmt.Errorf("%w is broken at message %d: %s; nothing is decided until decider repair --policies", ErrPolicies, why.Seq, why.Why)
	case journal.TooNew:
		return fmt.Errorf("%w was written by a newer program (message %d: %s); use that version", ErrPolicies, why.Seq, why.Why)
	}
	return nil
}

// Policies are the policies known since the last Sync.
func (d *Decider) Policies() *Policies {
	if k := d.known.Load(); k != nil {
		return k.policies.clone()
	}
	return &Policies{}
}

// PolicyChain is the state of the policy chain since the last Sync. It must
// only be read, and by one goroutine while none syncs.
func (d *Decider) PolicyChain() *journal.State { return d.chain }

// Input is what Decide needs to decide st now, by the policies known since the
// last Sync, which the caller must not change. It reads the heads of the books
// that grants of st came from.
func (d *Decider) Input(ctx context.Context, st *journal.State) (Input, error) {
	books, err := d.booksOf(ctx, st)
	in := Input{State: st, Policies: &Policies{}, Books: books, Now: d.Writer.Now(st), NewID: d.Writer.NewID}
	if k := d.known.Load(); k != nil {
		in.Policies = k.policies
	}
	return in, err
}

func (d *Decider) booksOf(ctx context.Context, st *journal.State) (map[string]*journal.State, error) {
	var books map[string]*journal.State
	for _, g := range st.LimitedGrants() {
		if g.Ended != "" || g.Origin == nil || g.Origin.Session == "" || books[g.Origin.Session] != nil {
			continue
		}
		book, err := d.book(ctx, g.Origin.Session)
		if err != nil {
			return nil, err
		}
		if books == nil {
			books = map[string]*journal.State{}
		}
		books[g.Origin.Session] = book
	}
	return books, nil
}

// book is a book's state at its present head.
func (d *Decider) book(ctx context.Context, name string) (*journal.State, error) {
	st, err := journal.LoadState(ctx, d.Writer.Log(), journal.SessionChain(name))
	if err != nil {
		return nil, fmt.Errorf("the book %s: %w", name, err)
	}
	return st, nil
}

// maxConflicts is how often Settle decides again before it gives a session up
// for now.
const maxConflicts = 100

// SyncBeside is Sync while do runs beside it. It reports whether the policies
// that do found known are still those there are now; if not, whatever do made of
// them must be made anew before it is used.
func (d *Decider) SyncBeside(ctx context.Context, do func()) (same bool, err error) {
	before := d.known.Load()
	synced := make(chan error, 1)
	go func() { synced <- d.Sync(ctx) }()
	do()
	err = <-synced
	return before != nil && before == d.known.Load(), err
}

// Settle decides everything that is open in st and appends it, until nothing
// is left to decide but by a person. On a conflict it folds what came first
// and decides again. The error says what could not be decided or appended;
// what could be, was.
func (d *Decider) Settle(ctx context.Context, st *journal.State) error {
	var p proposal
	same, err := d.SyncBeside(ctx, func() { p = d.propose(ctx, st) })
	switch {
	case err != nil:
		return err
	case same:
		return d.settleFrom(ctx, st, p)
	}
	return d.settle(ctx, st)
}

// settle is Settle by the policies known. That is enough for a caller who knows
// every policy that stands in the journal before what it decides about.
func (d *Decider) settle(ctx context.Context, st *journal.State) error {
	return d.settleFrom(ctx, st, d.propose(ctx, st))
}

// proposal is what is to be appended next to a session.
type proposal struct {
	commit  *journal.Prepared // nil: nothing
	problem error             // what could not be decided; without a commit, why there is none
}

// propose decides by the policies known.
func (d *Decider) propose(ctx context.Context, st *journal.State) proposal {
	if k := d.known.Load(); k != nil && k.unfit != nil {
		return proposal{nil, k.unfit}
	}
	in, err := d.Input(ctx, st)
	if err != nil {
		return proposal{nil, err}
	}
	events, problem := Decide(in)
	if len(events) == 0 {
		return proposal{nil, problem}
	}
	commit, err := d.Writer.Prepare(st, in.Now, events...)
	if err != nil {
		return proposal{nil, err}
	}
	return proposal{commit, problem}
}

// settleFrom appends a proposal, and what is to be decided after it.
func (d *Decider) settleFrom(ctx context.Context, st *journal.State, p proposal) error {
	for try := 0; ; p = d.propose(ctx, st) {
		if p.commit == nil {
			return p.problem
		}
		err := p.commit.Append(ctx)
		switch {
		case errors.Is(err, journal.ErrConflict) && try < maxConflicts:
			if err := d.again(ctx, st, try); err != nil {
				return err
			}
			try++
		case err != nil:
			return err
		default:
			try = 0
		}
	}
}

// again folds what came first, and then the policies it may refer to. At first
// the state was merely behind; after that it pauses, for longer each time.
func (d *Decider) again(ctx context.Context, st *journal.State, try int) error {
	if try > 0 {
		if err := d.Writer.Pause(ctx, try); err != nil {
			return err
		}
	}
	if err := journal.Refresh(ctx, d.Writer.Log(), st); err != nil {
		return err
	}
	return d.Sync(ctx)
}

// Releasable reads the heads of the policy chain and of st's books, and reports
// whether the call's allow may be started now, at the head of st; see the
// function of the same name. That st is at its head the start itself proves. A
// decider first lets lapse what was overtaken.
func (d *Decider) Releasable(ctx context.Context, st *journal.State, call string) error {
	if err := d.Sync(ctx); err != nil {
		return err
	}
	in, err := d.Input(ctx, st)
	if err != nil {
		return err
	}
	c := st.Call(call)
	if c == nil {
		return fmt.Errorf("session %s has no call %s", st.Chain(), call)
	}
	return Releasable(in, c)
}

func (d *Decider) log() *slog.Logger {
	if d.Logger != nil {
		return d.Logger
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}

// Publish sees to it that a policy's bytes are on the policy chain, and known here.
func (d *Decider) Publish(ctx context.Context, pol *policy.Policy) error {
	return d.onPolicyChain(ctx, func(st *journal.State) []journal.Event {
		if st.Policy(pol.Digest()) != nil {
			return nil
		}
		return []journal.Event{d.Writer.Event(journal.NewPolicyBytes(pol.Bytes()))}
	})
}

// Activate makes a policy the current one of a name, for every session that
// follows it. It returns the sequence of the activation.
func (d *Decider) Activate(ctx context.Context, name string, pol *policy.Policy) (uint64, error) {
	if err := d.Publish(ctx, pol); err != nil {
		return 0, err
	}
	err := d.onPolicyChain(ctx, func(st *journal.State) []journal.Event {
		return []journal.Event{d.Writer.Event(&journal.Activate{Name: name, Digest: pol.Digest()})}
	})
	if err != nil {
		return 0, err
	}
	return d.Policies().Active(name).Mark.Seq, nil
}

// onPolicyChain appends to the policy chain what events asks for at its head.
func (d *Decider) onPolicyChain(ctx context.Context, events func(*journal.State) []journal.Event) error {
	for try := 0; ; try++ {
		if err := d.Sync(ctx); err != nil {
			return err
		}
		err := d.appendPolicy(ctx, events)
		if !errors.Is(err, journal.ErrConflict) || try == maxConflicts {
			return err
		}
		if err := d.Writer.Pause(ctx, try); err != nil {
			return err
		}
	}
}

func (d *Decider) appendPolicy(ctx context.Context, events func(*journal.State) []journal.Event) error {
	free, err := d.hold(ctx)
	if err != nil {
		return err
	}
	defer free()
	list := events(d.chain)
	if len(list) == 0 {
		return nil
	}
	if err := d.Writer.Append(ctx, d.chain, d.Writer.Now(d.chain), list...); err != nil {
		return err
	}
	d.learn()
	return nil
}
