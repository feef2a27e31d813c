package journal

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
)

// End is a sequence that no journal reaches.
const End = math.MaxUint64

// The stretches in which Sessions reads a journal: a short one first, so that
// what happened last is there at once, then longer ones, as long as what one
// holds of it at a time may be.
const (
	firstStretch  = 1 << 10 // messages
	longerStretch = 8       // times the one before,
	stretchBytes  = 32 << 20
)

// Sessions yields the state of every session that has a message up to the
// sequence last, as it was there, each once: those that changed last come first.
// Holes are the journal's unreadable sequences. The states are the caller's.
//
// It reads the journal once, backwards in stretches, and holds the sessions of
// one stretch at a time, however many there are. A session that began before the
// stretch in which it last changed is read apart, which costs more.
//
// It ends after an error, which wraps ErrUnavailable.
func Sessions(ctx context.Context, log Log, last uint64, holes []uint64) iter.Seq2[*State, error] {
	return sessions(ctx, log, last, holes, firstStretch)
}

func sessions(ctx context.Context, log Log, last uint64, holes []uint64, length uint64) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		s := &sweep{log: log, last: last, holes: holes, done: map[Chain]struct{}{}}
		length := length
		for end := last; end > 0; {
			begin := end - min(length, end)
			read, err := s.stretch(ctx, begin, end)
			if err == nil {
				err = s.yield(ctx, yield)
			}
			if err != nil {
				yield(nil, err)
			}
			if err != nil || s.stopped {
				return
			}
			end = begin
			length = next(length, read)
		}
	}
}

// next is how long the stretch after one of a length is, if that had so many bytes.
func next(length uint64, bytes int) uint64 {
	if bytes == 0 {
		return length * longerStretch
	}
	return max(min(length*longerStretch, length*stretchBytes/uint64(bytes)), 1)
}

// sweep is one pass over the sessions of a journal.
type sweep struct {
	log     Log
	last    uint64
	holes   []uint64
	done    map[Chain]struct{} // sessions with messages in a later stretch
	here    map[Chain]*swept   // sessions that last changed in this stretch
	stopped bool               // the caller broke off
}

// swept is a session in a stretch.
type swept struct {
	chain Chain
	last  uint64
	state *State // nil: the session began before the stretch
}

// stretch folds the messages above begin up to end, but for sessions that are
// done. It returns how many bytes they had.
func (s *sweep) stretch(ctx context.Context, begin, end uint64) (bytes int, err error) {
	s.here = map[Chain]*swept{}
	for m, err := range s.log.LoadAll(ctx, begin) {
		if err != nil {
			return bytes, err
		}
		if m.Seq > end {
			break
		}
		bytes += len(m.Data)
		if chain, ok := SessionOf(m.Subject); ok {
			s.fold(chain, m)
		}
	}
	return bytes, nil
}

func (s *sweep) fold(chain Chain, m Message) {
	if _, done := s.done[chain]; done {
		return
	}
	h := s.here[chain]
	if h == nil {
		h = &swept{chain: chain}
		if Begins(chain, m) {
			h.state = NewState(chain)
		}
		s.here[chain] = h
	}
	h.last = m.Seq
	if h.state != nil {
		h.state.Apply(m)
	}
}

// Begins reports whether a message is surely the first of a chain: the server
// took it only because there was none.
func Begins(chain Chain, m Message) bool {
	expected, why := expectation(chain, m.Headers)
	return why == "" && expected == 0
}

// yield hands over what the stretch holds, the newest first.
func (s *sweep) yield(ctx context.Context, yield func(*State, error) bool) error {
	list := slices.SortedFunc(maps.Values(s.here), func(a, b *swept) int { return cmp.Compare(b.last, a.last) })
	for _, h := range list {
		st := h.state
		h.state = nil // once it is yielded it may go
		if st != nil {
			st.MarkHoles(s.holes)
		} else {
			var err error
			if st, err = StateAsOf(ctx, s.log, h.chain, s.last, s.last, s.holes); err != nil {
				return err
			}
		}
		s.done[h.chain] = struct{}{}
		if s.stopped = !yield(st, nil); s.stopped {
			return nil
		}
	}
	return nil
}

// SessionOf is the session that a message with this subject stands in, whatever
// follows the session's name: what is void stands in the chain too.
func SessionOf(subject string) (Chain, bool) {
	rest, ok := strings.CutPrefix(subject, sessionPrefix)
	name, _, more := strings.Cut(rest, ".")
	chain := SessionChain(name)
	if !ok || !more || !chain.Valid() {
		return Chain{}, false
	}
	return chain, true
}

// StateAsOf folds the messages of a chain up to the sequence end. Holes are the
// unreadable sequences of the journal when it ended at known, and the state is
// held against them as it was then: whatever was appended to a session that had
// lost a commit, it is broken. Errors wrap ErrUnavailable.
func StateAsOf(ctx context.Context, log Log, chain Chain, end, known uint64, holes []uint64) (*State, error) {
	st := NewState(chain)
	marked := false
	for m, err := range log.Load(ctx, chain, 0) {
		if err != nil {
			return nil, err
		}
		if m.Seq > end {
			break
		}
		if !marked && m.Seq > known {
			st.MarkHoles(holes)
			marked = true
		}
		st.Apply(m)
	}
	if !marked {
		st.MarkHoles(holes)
	}
	return st, nil
}
