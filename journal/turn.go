package journal

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// turn is whose turn it is to append to one chain, among the users of a Writer,
// and what they appended.
type turn struct {
	held chan struct{} // holds one token while somebody has it
	last uint64        // the chain's last message known to whoever had it

	mu       sync.Mutex
	appended []appended // in order; the oldest go
	bytes    int        // of their messages
}

// appended is a commit that this process appended, as its writer folded it.
type appended struct {
	after uint64
	msg   Message
	body  body
}

// Of what was appended so much is kept for those who take turns. Who lags behind
// it reads from the journal.
const (
	appendedRoom  = 256
	appendedBytes = 1 << 20
)

// Turn waits until nobody else who uses this Writer appends to the state's
// chain, folds what they appended meanwhile, and keeps the others waiting until
// done is called, once. It spares those who share a process and a session
// conflicts with each other and reading what they wrote themselves, and that is
// all: the journal takes an append without it, and refuses one with it, as ever.
// Errors wrap ErrUnavailable.
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
		t.catchUp(st)
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

// passOn keeps a commit that was appended for those who take turns on its chain,
// if anyone does.
func (w *Writer) passOn(chain Chain, a appended) {
	w.mu.Lock()
	t := w.turns[chain]
	w.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.appended, t.bytes = append(t.appended, a), t.bytes+len(a.msg.Data)
	for len(t.appended) > appendedRoom || t.bytes > appendedBytes {
		t.bytes -= len(t.appended[0].msg.Data)
		t.appended[0] = appended{}
		t.appended = t.appended[1:]
	}
}

// catchUp folds what was passed on into a state, as far as each follows on what
// the state has.
func (t *turn) catchUp(st *State) {
	t.mu.Lock()
	list := slices.Clone(t.appended)
	t.mu.Unlock()
	from, _ := slices.BinarySearchFunc(list, st.LastSeq(), func(a appended, last uint64) int {
		if a.msg.Seq > last {
			return 1
		}
		return -1
	})
	for _, a := range list[from:] {
		if a.after != st.LastSeq() {
			return
		}
		st.apply(a.msg, a.body)
	}
}
