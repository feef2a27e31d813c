package journal

import "container/list"

// stateBytes is about what a state takes beside the messages it was folded from.
const stateBytes = 4 << 10

// Recent notes which states were used last, so that the others can be let go: a
// state can be folded anew whenever it is needed, and most of a journal's
// sessions are never touched again. The zero value is ready, and holds states
// of any size. It is for one goroutine at a time, and not to be copied once it is
// used.
type Recent struct {
	// Budget is about how many bytes the states may take in all; 0: any number.
	Budget int

	bytes int
	order list.List // of *used, those used last first
	at    map[Chain]*list.Element
}

type used struct {
	chain Chain
	bytes int
}

// Use notes that a state is used now, and how much it takes.
func (r *Recent) Use(st *State) {
	e := r.at[st.chain]
	if e == nil {
		e = r.order.PushFront(&used{chain: st.chain})
		put(&r.at, st.chain, e)
	}
	u := e.Value.(*used)
	r.bytes += stateBytes + st.Size() - u.bytes
	u.bytes = stateBytes + st.Size()
	r.order.MoveToFront(e)
}

// Drop forgets a chain.
func (r *Recent) Drop(chain Chain) {
	if e := r.at[chain]; e != nil {
		r.bytes -= r.order.Remove(e).(*used).bytes
		delete(r.at, chain)
	}
}

// Shed forgets the chains that were used longest ago, and passes each to let,
// until the rest is within the budget. A chain for which let returns false, as
// it is in use, stays; so does the one used last.
func (r *Recent) Shed(let func(Chain) bool) {
	if r.Budget == 0 {
		return
	}
	for e := r.order.Back(); r.bytes > r.Budget && e != nil && e != r.order.Front(); {
		u, before := e.Value.(*used), e.Prev()
		if let(u.chain) {
			r.Drop(u.chain)
		}
		e = before
	}
}
