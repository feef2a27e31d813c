package journal

import (
	"context"
	"fmt"
)

// turn is whose turn it is to append to one chain, among the users of a Writer.
type turn struct {
	held chan struct{} // holds one token while somebody has it
	last uint64        // the chain's last message known to whoever had it
}

// Turn waits until nobody else who uses this Writer appends to the state's
// chain, folds what they appended meanwhile, and keeps the others waiting until
// done is called, once. It spares those who share a process and a session
// conflicts with each other, and that is all: the journal takes an append
// without it, and refuses one with it, as ever. Errors wrap ErrUnavailable.
func (w *Writer) Turn(ctx context.Context, st *State) (done func(), err error) {
	t := w.turn(st.Chain())
	select {
	case t.held <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: waiting for others of this process: %w", ErrUnavailable, ctx.Err())
	}
	done = func() {
		t.last = max(t.last, st.LastSeq())
		<-t.held
	}
	if t.last > st.LastSeq() {
		if err := Refresh(ctx, w.cfg.Log, st); err != nil {
			done()
			return nil, err
		}
	}
	return done, nil
}

func (w *Writer) turn(chain Chain) *turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.turns[chain]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		put(&w.turns, chain, t)
	}
	return t
}
