// Package journaltest holds what tests of a journal's users need: a Log in
// memory with doors for attackers, a Log that fails on plan, and the one suite
// that every Log passes.
package journaltest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"decisionjournal/journal"
)

// MaxPayload is what a Memory takes unless told otherwise: the embedded host's
// 8 MiB less the room kept for headers.
const MaxPayload = 8<<20 - 512

// Memory is a [journal.Log] and [journal.Presence] in memory that behaves like
// the real one: one run of stream sequences over all chains, compare-and-swap by
// chain filter, and the same headers. It also has doors that no Log has, for
// tests of what a hostile publisher or a bad disk can do. The zero value is an
// empty journal. All methods may run concurrently.
type Memory struct {
	mu       sync.Mutex
	slots    []slot // index i holds sequence i+1
	now      func() time.Time
	max      int
	changed  chan struct{} // closed when a message is stored; nil while nobody waits
	presence []*answerer
}

type slot struct {
	journal.Message
	gone bool
}

// NewMemory returns an empty journal.
func NewMemory() *Memory { return &Memory{} }

// SetClock makes now the server's clock. Nil is the real one.
func (m *Memory) SetClock(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}

// SetMaxPayload sets the size limit in bytes. Zero is [MaxPayload].
func (m *Memory) SetMaxPayload(bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.max = bytes
}

// Inject stores msg as a publisher does that keeps to no rule: any subject,
// headers and bytes, no expectation. Its Seq is assigned and returned; a zero
// Time is now. What the broker would not store under a journal's subjects can
// be stored here too.
func (m *Memory) Inject(msg journal.Message) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.store(copyMessage(msg))
}

// Drop makes the message at seq unreadable, as a bad disk does: reads skip it in
// silence and Holes lists it. It reports whether there was one.
func (m *Memory) Drop(seq uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq == 0 || seq > uint64(len(m.slots)) || m.slots[seq-1].gone {
		return false
	}
	m.slots[seq-1].gone = true
	return true
}

// Tamper replaces what is stored at seq by what change makes of it, keeping the
// sequence, as someone does who can write the disk. It reports whether there was
// a message.
func (m *Memory) Tamper(seq uint64, change func(*journal.Message)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq == 0 || seq > uint64(len(m.slots)) || m.slots[seq-1].gone {
		return false
	}
	msg := copyMessage(m.slots[seq-1].Message)
	change(&msg)
	msg.Seq = seq
	m.slots[seq-1].Message = msg
	return true
}

// Messages are all readable messages, in order.
func (m *Memory) Messages() []journal.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []journal.Message
	for _, s := range m.slots {
		if !s.gone {
			all = append(all, copyMessage(s.Message))
		}
	}
	return all
}

// Publish implements [journal.Log].
func (m *Memory) Publish(ctx context.Context, sub journal.Subject, after uint64, data []byte) (uint64, error) {
	if _, err := journal.ParseSubject(sub.String()); err != nil {
		return 0, fmt.Errorf("publish: %w: %w", journal.ErrRefused, err)
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("publish %s: %w: %w", sub, journal.ErrUnavailable, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if limit := m.maxPayload(); len(data) > limit {
		return 0, fmt.Errorf("publish %s: %w: %d bytes, the journal takes %d", sub, journal.ErrTooLarge, len(data), limit)
	}
	if last := m.last(sub.Chain); last != after {
		return 0, fmt.Errorf("publish %s: %w: expected last sequence %d, is %d", sub, journal.ErrConflict, after, last)
	}
	return m.store(journal.Message{
		Subject: sub.String(),
		Headers: map[string][]string{
			journal.HeaderExpected:       {strconv.FormatUint(after, 10)},
			journal.HeaderExpectedFilter: {sub.Chain.Filter()},
		},
		Data: bytes.Clone(data),
	}), nil
}

// Load implements [journal.Log].
func (m *Memory) Load(ctx context.Context, chain journal.Chain, after uint64) iter.Seq2[journal.Message, error] {
	return func(yield func(journal.Message, error) bool) {
		if !chain.Valid() {
			yield(journal.Message{}, fmt.Errorf("load: %w: no chain named", journal.ErrUnavailable))
			return
		}
		m.load(ctx, chain, after, yield)
	}
}

// LoadAll implements [journal.Log].
func (m *Memory) LoadAll(ctx context.Context, after uint64) iter.Seq2[journal.Message, error] {
	return func(yield func(journal.Message, error) bool) { m.load(ctx, journal.Chain{}, after, yield) }
}

// load yields the messages of a chain, or of all if it is the zero Chain.
func (m *Memory) load(ctx context.Context, chain journal.Chain, after uint64, yield func(journal.Message, error) bool) {
	batch, _ := m.snapshot(chain, after)
	for _, msg := range batch {
		if err := ctx.Err(); err != nil {
			yield(journal.Message{}, fmt.Errorf("load: %w: %w", journal.ErrUnavailable, err))
			return
		}
		if !yield(msg, nil) {
			return
		}
	}
	if err := ctx.Err(); err != nil {
		yield(journal.Message{}, fmt.Errorf("load: %w: %w", journal.ErrUnavailable, err))
	}
}

// Follow implements [journal.Log].
func (m *Memory) Follow(ctx context.Context, chain journal.Chain, after uint64) iter.Seq2[journal.Message, error] {
	return func(yield func(journal.Message, error) bool) {
		for {
			batch, more := m.snapshot(chain, after)
			for _, msg := range batch {
				if ctx.Err() != nil || !yield(msg, nil) {
					return
				}
				after = msg.Seq
			}
			select {
			case <-ctx.Done():
				return
			case <-more:
			}
		}
	}
}

// At implements [journal.Log].
func (m *Memory) At(ctx context.Context, seq uint64) (journal.Message, bool, error) {
	if err := ctx.Err(); err != nil {
		return journal.Message{}, false, fmt.Errorf("read message %d: %w: %w", seq, journal.ErrUnavailable, err)
	}
	for _, msg := range m.Messages() {
		if msg.Seq == seq {
			return msg, true, nil
		}
	}
	return journal.Message{}, false, nil
}

// Chains implements [journal.Log].
func (m *Memory) Chains(ctx context.Context) ([]journal.Chain, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list chains: %w: %w", journal.ErrUnavailable, err)
	}
	seen := map[journal.Chain]bool{}
	for _, msg := range m.Messages() {
		if sub, err := journal.ParseSubject(msg.Subject); err == nil {
			seen[sub.Chain] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), compareChains), nil
}

func compareChains(a, b journal.Chain) int {
	if a.IsPolicy() != b.IsPolicy() {
		if a.IsPolicy() {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Session(), b.Session())
}

// Last implements [journal.Log].
func (m *Memory) Last(ctx context.Context) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("read the last sequence: %w: %w", journal.ErrUnavailable, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(len(m.slots)), nil
}

// Holes implements [journal.Log].
func (m *Memory) Holes(ctx context.Context) ([]uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("look for holes: %w: %w", journal.ErrUnavailable, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var holes []uint64
	for i, s := range m.slots {
		if s.gone {
			holes = append(holes, uint64(i)+1)
		}
	}
	return holes, nil
}

// MaxPayload implements [journal.Log].
func (m *Memory) MaxPayload() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.maxPayload()
}

func (m *Memory) maxPayload() int {
	if m.max == 0 {
		return MaxPayload
	}
	return m.max
}

func (m *Memory) clock() time.Time {
	if m.now == nil {
		return time.Now().UTC()
	}
	return m.now()
}

func (m *Memory) store(msg journal.Message) uint64 {
	msg.Seq = uint64(len(m.slots)) + 1
	if msg.Time.IsZero() {
		msg.Time = m.clock()
	}
	m.slots = append(m.slots, slot{Message: msg})
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
	return msg.Seq
}

// last is the sequence of the chain's last readable message: what a store
// answers after it has dropped what it could not read from its index.
func (m *Memory) last(chain journal.Chain) uint64 {
	for _, s := range slices.Backward(m.slots) {
		if !s.gone && inChain(s.Subject, chain) {
			return s.Seq
		}
	}
	return 0
}

// snapshot returns what is stored now, and a channel that is closed when more is.
func (m *Memory) snapshot(chain journal.Chain, after uint64) ([]journal.Message, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	var batch []journal.Message
	for i := after; i < uint64(len(m.slots)); i++ {
		if s := m.slots[i]; !s.gone && followed(s.Subject, chain) {
			batch = append(batch, copyMessage(s.Message))
		}
	}
	return batch, m.changed
}

func followed(subject string, chain journal.Chain) bool {
	if chain.Valid() {
		return inChain(subject, chain)
	}
	return matches(subject, journal.AllSessions) || inChain(subject, journal.PolicyChain())
}

func inChain(subject string, chain journal.Chain) bool { return matches(subject, chain.Filter()) }

// matches reports whether subject matches a filter that ends in ">".
func matches(subject, filter string) bool {
	prefix := strings.TrimSuffix(filter, ">")
	return strings.HasPrefix(subject, prefix) && len(subject) > len(prefix)
}

func copyMessage(msg journal.Message) journal.Message {
	msg.Data = bytes.Clone(msg.Data)
	if msg.Headers != nil {
		headers := make(map[string][]string, len(msg.Headers))
		for k, v := range msg.Headers {
			headers[k] = slices.Clone(v)
		}
		msg.Headers = headers
	}
	return msg
}
