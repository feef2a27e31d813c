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

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// Decider decides sessions inline: a batch runner, a hook, a gateway or a
// worker holds one. Its methods may run concurrently on different States.
type Decider struct {
	Writer *journal.Writer // a decider's
	Logger *slog.Logger    // nil: none

	mu       sync.Mutex
	chain    *journal.State // of policies
	policies Policies
}

// Sync takes over what the policy chain holds now. It fails while that chain is
// broken or too new: what is lost or unknown may have been a stricter policy,
// so nothing is decided.
func (d *Decider) Sync(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.chain == nil {
		st, err := journal.LoadState(ctx, d.Writer.Log(), journal.PolicyChain())
		if err != nil {
			return err
		}
		d.chain = st
		d.policies.Update(st)
		return wholePolicies(st)
	}
	n := d.chain.N()
	if err := journal.Refresh(ctx, d.Writer.Log(), d.chain); err != nil {
		return err
	}
	if d.chain.N() != n {
		d.policies.Update(d.chain)
	}
	return wholePolicies(d.chain)
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
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.policies.clone()
}

// PolicyChain is the state of the policy chain since the last Sync. It must
// only be read, and by one goroutine while none syncs.
func (d *Decider) PolicyChain() *journal.State { return d.chain }

// Input is what Decide needs to decide st now. It reads the heads of the books
// that grants of st came from.
func (d *Decider) Input(ctx context.Context, st *journal.State) (Input, error) {
	books, err := d.booksOf(ctx, st)
	return Input{State: st, Policies: d.Policies(), Books: books, Now: d.Writer.Now(st), NewID: d.Writer.NewID}, err
}

func (d *Decider) booksOf(ctx context.Context, st *journal.State) (map[string]*journal.State, error) {
	var books map[string]*journal.State
	for _, g := range st.Grants() {
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

// Settle decides everything that is open in st and appends it, until nothing
// is left to decide but by a person. On a conflict it folds what came first
// and decides again. The error says what could not be decided or appended;
// what could be, was.
func (d *Decider) Settle(ctx context.Context, st *journal.State) error {
	if err := d.Sync(ctx); err != nil {
		return err
	}
	for try := 0; ; {
		in, err := d.Input(ctx, st)
		if err != nil {
			return err
		}
		events, problem := Decide(in)
		if len(events) == 0 {
			return problem
		}
		err = d.Writer.Append(ctx, st, in.Now, events...)
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

// again folds what came first, after a pause that grows, and then the policies
// it may refer to.
func (d *Decider) again(ctx context.Context, st *journal.State, try int) error {
	if err := d.Writer.Pause(ctx, try); err != nil {
		return err
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
	d.mu.Lock()
	defer d.mu.Unlock()
	list := events(d.chain)
	if len(list) == 0 {
		return nil
	}
	if err := d.Writer.Append(ctx, d.chain, d.Writer.Now(d.chain), list...); err != nil {
		return err
	}
	d.policies.Update(d.chain)
	return nil
}
