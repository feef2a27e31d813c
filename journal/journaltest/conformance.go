package journaltest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"testing"
	"time"

	"decisionjournal/journal"
)

// patience bounds what should be immediate. It is never waited out by a Log
// that conforms.
const patience = 20 * time.Second

// Conformance runs the suite that every Log passes. Each part opens an empty
// journal of its own. The log must let one principal write sessions and the
// policy chain: the decider "decider", or whom its method
// Principal() (journal.Role, string) names.
func Conformance(t *testing.T, open func(t *testing.T) journal.Log) {
	parts := []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"append returns growing sequences", appendSequences},
		{"stale expectation conflicts and stores nothing", staleConflicts},
		{"racing writers", racingWriters},
		{"chains are independent", independentChains},
		{"a session called policy is not the policy chain", policySession},
		{"stored exactly", storedExactly},
		{"load after", loadAfter},
		{"long load", longLoad},
		{"load of nothing", loadNothing},
		{"load with a cancelled context", loadCancelled},
		{"load of all", loadAll},
		{"publish with a cancelled context", publishCancelled},
		{"follow from the start and from the middle", followFrom},
		{"follow live", followLive},
		{"follow all chains", followAll},
		{"follow ends with its context", followCancelled},
		{"list and last", listAndLast},
		{"no holes", noHoles},
		{"largest and too large", tooLarge},
		{"invalid subject", invalidSubject},
		{"presence", presence},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) { part.run(t, newBench(t, open(t))) })
	}
}

// bench is one journal under test and who writes there.
type bench struct {
	journal.Log
	t     *testing.T
	role  journal.Role
	actor string
}

func newBench(t *testing.T, log journal.Log) *bench {
	b := &bench{Log: log, t: t, role: journal.RoleDecider, actor: "decider"}
	if p, ok := log.(interface{ Principal() (journal.Role, string) }); ok {
		b.role, b.actor = p.Principal()
	}
	return b
}

func (b *bench) subject(chain journal.Chain) journal.Subject {
	return journal.Subject{Chain: chain, Role: b.role, Actor: b.actor}
}

func (b *bench) try(chain journal.Chain, after uint64, data string) (uint64, error) {
	return b.Publish(b.t.Context(), b.subject(chain), after, []byte(data))
}

func (b *bench) append(chain journal.Chain, after uint64, data string) uint64 {
	b.t.Helper()
	seq, err := b.try(chain, after, data)
	if err != nil {
		b.t.Fatalf("append to %s after %d: %v", chain, after, err)
	}
	return seq
}

// fill appends n messages "0" to "n-1" and returns their sequences.
func (b *bench) fill(chain journal.Chain, n int) []uint64 {
	b.t.Helper()
	seqs := make([]uint64, n)
	last := uint64(0)
	for i := range n {
		last = b.append(chain, last, strconv.Itoa(i))
		seqs[i] = last
	}
	return seqs
}

func (b *bench) load(chain journal.Chain, after uint64) []journal.Message {
	b.t.Helper()
	all, err := Collect(b.Load(b.t.Context(), chain, after))
	if err != nil {
		b.t.Fatalf("load %s after %d: %v", chain, after, err)
	}
	return all
}

// want fails unless msgs are the given bodies, in order, with growing sequences.
func (b *bench) want(msgs []journal.Message, bodies ...string) {
	b.t.Helper()
	if len(msgs) != len(bodies) {
		b.t.Fatalf("got %d messages, want %d", len(msgs), len(bodies))
	}
	last := uint64(0)
	for i, msg := range msgs {
		if string(msg.Data) != bodies[i] {
			b.t.Fatalf("message %d is %q, want %q", i, msg.Data, bodies[i])
		}
		if msg.Seq <= last {
			b.t.Fatalf("message %d has sequence %d after %d", i, msg.Seq, last)
		}
		last = msg.Seq
	}
}

// follow takes n messages from a Follow and stops it.
func (b *bench) follow(chain journal.Chain, after uint64, n int) []journal.Message {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	var got []journal.Message
	for msg, err := range b.Follow(ctx, chain, after) {
		if err != nil {
			b.t.Fatalf("follow: %v", err)
		}
		if got = append(got, msg); len(got) == n {
			return got
		}
	}
	b.t.Fatalf("follow ended with %d of %d messages", len(got), n)
	return nil
}

func session(name string) journal.Chain { return journal.SessionChain(name) }

func appendSequences(_ *testing.T, b *bench) {
	b.fill(session("s1"), 3)
	b.want(b.load(session("s1"), 0), "0", "1", "2")
}

func staleConflicts(t *testing.T, b *bench) {
	seqs := b.fill(session("s1"), 2)
	for _, after := range []uint64{0, seqs[0], seqs[1] + 1, seqs[1] + 1000} {
		if _, err := b.try(session("s1"), after, "stale"); !errors.Is(err, journal.ErrConflict) {
			t.Errorf("after %d: got %v, want ErrConflict", after, err)
		}
	}
	if _, err := b.try(session("s2"), 1, "no such head"); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("expecting a message in an empty chain: got %v, want ErrConflict", err)
	}
	b.want(b.load(session("s1"), 0), "0", "1")
	b.want(b.load(session("s2"), 0))
}

func racingWriters(t *testing.T, b *bench) {
	const writers, each = 20, 5
	chain := session("race")
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		winner = map[uint64]string{} // by expectation
		stored = map[uint64]string{} // by sequence
	)
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("%d/%d", w, i)
				after, seq, err := b.insist(chain, name)
				mu.Lock()
				if err != nil {
					t.Errorf("writer %s: %v", name, err)
				} else if first := winner[after]; first != "" {
					t.Errorf("%s and %s both won after %d", first, name, after)
				}
				winner[after], stored[seq] = name, name
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	all := b.load(chain, 0)
	if len(all) != writers*each || len(stored) != writers*each {
		t.Fatalf("%d stored, %d reported, want %d", len(all), len(stored), writers*each)
	}
	for _, msg := range all {
		if stored[msg.Seq] != string(msg.Data) {
			t.Errorf("sequence %d holds %q, reported for %q", msg.Seq, msg.Data, stored[msg.Seq])
		}
	}
}

// insist appends data at the head of chain, however often the head moves.
func (b *bench) insist(chain journal.Chain, data string) (after, seq uint64, err error) {
	for {
		all, err := Collect(b.Load(b.t.Context(), chain, after))
		if err != nil {
			return 0, 0, err
		}
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		seq, err = b.try(chain, after, data)
		if !errors.Is(err, journal.ErrConflict) {
			return after, seq, err
		}
	}
}

func independentChains(_ *testing.T, b *bench) {
	a1 := b.append(session("a"), 0, "a1")
	b1 := b.append(session("b"), 0, "b1")
	ab := b.append(session("ab"), 0, "ab1")
	b.append(session("a"), a1, "a2")
	b.append(session("b"), b1, "b2")
	b.append(session("ab"), ab, "ab2")
	b.want(b.load(session("a"), 0), "a1", "a2")
	b.want(b.load(session("b"), 0), "b1", "b2")
	b.want(b.load(session("ab"), 0), "ab1", "ab2")
}

func policySession(t *testing.T, b *bench) {
	b.append(session("policy"), 0, "a session")
	if _, err := b.try(journal.PolicyChain(), 0, "the policy chain"); err != nil {
		t.Fatalf("the policy chain is not empty: %v", err)
	}
	b.want(b.load(session("policy"), 0), "a session")
	b.want(b.load(journal.PolicyChain(), 0), "the policy chain")
}

func storedExactly(t *testing.T, b *bench) {
	before := time.Now().Add(-time.Minute)
	first := b.append(session("s1"), 0, "one")
	body := "\x00\xff any bytes \r\n\r\n"
	seq := b.append(session("s1"), first, body)
	b.append(journal.PolicyChain(), 0, "p")
	msg := b.load(session("s1"), first)[0]
	if msg.Seq != seq || string(msg.Data) != body || msg.Subject != b.subject(session("s1")).String() {
		t.Errorf("read %d %s %q", msg.Seq, msg.Subject, msg.Data)
	}
	if msg.Time.Before(before) || msg.Time.After(time.Now().Add(time.Minute)) {
		t.Errorf("the server's time is %v", msg.Time)
	}
	b.wantHeaders(msg, first)
	b.wantHeaders(b.load(journal.PolicyChain(), 0)[0], 0)
	for i, msg := range b.follow(session("s1"), 0, 2) {
		b.wantHeaders(msg, []uint64{0, first}[i])
	}
}

// wantHeaders fails unless msg has exactly the headers of an append after after.
func (b *bench) wantHeaders(msg journal.Message, after uint64) {
	b.t.Helper()
	sub, err := journal.ParseSubject(msg.Subject)
	if err != nil {
		b.t.Fatal(err)
	}
	want := map[string]string{
		journal.HeaderExpected:       strconv.FormatUint(after, 10),
		journal.HeaderExpectedFilter: sub.Chain.Filter(),
	}
	if len(msg.Headers) != len(want) {
		b.t.Fatalf("headers %v, want %v", msg.Headers, want)
	}
	for name, value := range want {
		if got := msg.Headers[name]; len(got) != 1 || got[0] != value {
			b.t.Errorf("header %s is %q, want %q", name, got, value)
		}
	}
}

func loadAfter(_ *testing.T, b *bench) {
	seqs := b.fill(session("s1"), 4)
	b.append(session("s2"), 0, "other")
	b.want(b.load(session("s1"), seqs[0]), "1", "2", "3")
	b.want(b.load(session("s1"), seqs[2]), "3")
	b.want(b.load(session("s1"), seqs[3]))
	b.want(b.load(session("s1"), seqs[3]+100))
}

// longLoad is long enough that a Log which reads in pieces has several.
func longLoad(t *testing.T, b *bench) {
	const n = 150
	seqs := b.fill(session("s1"), n)
	all := b.load(session("s1"), 0)
	if len(all) != n {
		t.Fatalf("loaded %d, want %d", len(all), n)
	}
	for i, msg := range all {
		if msg.Seq != seqs[i] || string(msg.Data) != strconv.Itoa(i) {
			t.Fatalf("message %d is %d %q, want %d", i, msg.Seq, msg.Data, seqs[i])
		}
	}
	for range b.Load(t.Context(), session("s1"), 0) {
		break // leaving early must not block or panic
	}
	b.want(b.load(session("s1"), seqs[n-2]), strconv.Itoa(n-1))
}

func loadNothing(t *testing.T, b *bench) {
	b.want(b.load(session("none"), 0))
	if _, err := Collect(b.Load(t.Context(), journal.Chain{}, 0)); err == nil {
		t.Error("loading no chain gave no error")
	}
}

func loadCancelled(t *testing.T, b *bench) {
	b.fill(session("s1"), 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Collect(b.Load(ctx, session("s1"), 0))
	if !errors.Is(err, journal.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want ErrUnavailable and context.Canceled: a Load that stops short must say so", err)
	}
}

func publishCancelled(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Publish(ctx, b.subject(session("s1")), 0, []byte("late"))
	if !errors.Is(err, journal.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want ErrUnavailable and context.Canceled", err)
	}
	b.want(b.load(session("s1"), 0))
}

func followFrom(_ *testing.T, b *bench) {
	seqs := b.fill(session("s1"), 30)
	all := b.follow(session("s1"), 0, 30)
	for i, msg := range all {
		if msg.Seq != seqs[i] {
			b.t.Fatalf("message %d has sequence %d, want %d", i, msg.Seq, seqs[i])
		}
	}
	b.want(b.follow(session("s1"), seqs[27], 2), "28", "29")
}

func followLive(t *testing.T, b *bench) {
	b.fill(session("s1"), 1)
	next, stop := iter.Pull2(b.Follow(t.Context(), session("s1"), 0))
	defer stop()
	var last uint64
	for i := range 20 {
		msg, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("follow ended: %v", err)
		}
		if string(msg.Data) != strconv.Itoa(i) {
			t.Fatalf("message %d is %q", i, msg.Data)
		}
		b.append(session("other"), last, "x")
		b.append(session("s1"), msg.Seq, strconv.Itoa(i+1))
		last = msg.Seq + 1
	}
}

func followAll(t *testing.T, b *bench) {
	b.append(session("s1"), 0, "one")
	b.append(journal.PolicyChain(), 0, "policy")
	second := b.append(session("s2"), 0, "two")
	b.want(b.follow(journal.Chain{}, 0, 3), "one", "policy", "two")
	next, stop := iter.Pull2(b.Follow(t.Context(), journal.Chain{}, second))
	defer stop()
	b.append(session("s3"), 0, "three")
	if msg, err, ok := next(); !ok || err != nil || string(msg.Data) != "three" {
		t.Errorf("got %q, %v, %v", msg.Data, err, ok)
	}
}

func followCancelled(t *testing.T, b *bench) {
	b.fill(session("s1"), 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range b.Follow(ctx, session("s1"), 0) {
		if err != nil {
			t.Errorf("a Follow whose context ended is no failure: %v", err)
		}
		n++
		cancel()
	}
	if n != 1 {
		t.Errorf("yielded %d messages, want 1", n)
	}
}

func listAndLast(t *testing.T, b *bench) {
	chains, err := b.Chains(t.Context())
	if err != nil || len(chains) != 0 {
		t.Fatalf("chains of an empty journal: %v, %v", chains, err)
	}
	if last, err := b.Last(t.Context()); err != nil || last != 0 {
		t.Fatalf("last of an empty journal: %d, %v", last, err)
	}
	var want uint64
	for _, name := range []string{"zeta", "alpha", "policy"} {
		want = b.append(session(name), 0, name)
	}
	if last, err := b.Last(t.Context()); err != nil || last != want {
		t.Errorf("last is %d, %v, want %d", last, err, want)
	}
	if m, found, err := b.At(t.Context(), want-1); err != nil || !found || m.Seq != want-1 || string(m.Data) != "alpha" {
		t.Errorf("message %d is %+v, %t, %v", want-1, m, found, err)
	}
	for _, seq := range []uint64{0, want + 1} {
		if m, found, err := b.At(t.Context(), seq); err != nil || found {
			t.Errorf("message %d is %+v, %v", seq, m, err)
		}
	}
	b.append(journal.PolicyChain(), 0, "p")
	chains, err = b.Chains(t.Context())
	wantChains := []journal.Chain{journal.PolicyChain(), session("alpha"), session("policy"), session("zeta")}
	if err != nil || fmt.Sprintf("%+v", chains) != fmt.Sprintf("%+v", wantChains) {
		t.Errorf("chains are %+v, %v, want %+v", chains, err, wantChains)
	}
}

func noHoles(t *testing.T, b *bench) {
	for _, name := range []string{"s1", "s2"} {
		holes, err := b.Holes(t.Context())
		if err != nil || len(holes) != 0 {
			t.Errorf("holes: %v, %v", holes, err)
		}
		b.fill(session(name), 20)
	}
	holes, err := b.Holes(t.Context())
	if err != nil || len(holes) != 0 {
		t.Errorf("holes: %v, %v", holes, err)
	}
}

func tooLarge(t *testing.T, b *bench) {
	limit := b.MaxPayload()
	if limit <= 0 {
		t.Fatalf("MaxPayload is %d", limit)
	}
	long := session("a-session-with-the-longest-name-there-can-be-0123456789012345678")
	seq, err := b.Publish(t.Context(), b.subject(long), 0, make([]byte, limit))
	if err != nil {
		t.Fatalf("the largest message: %v", err)
	}
	if _, err := b.Publish(t.Context(), b.subject(long), seq, make([]byte, limit+1)); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("one byte more: got %v, want ErrTooLarge", err)
	}
	if all := b.load(long, 0); len(all) != 1 || len(all[0].Data) != limit {
		t.Errorf("loaded %d messages", len(all))
	}
}

func invalidSubject(t *testing.T, b *bench) {
	for _, sub := range []journal.Subject{
		{},
		{Role: b.role, Actor: b.actor},
		{Chain: session("s1"), Role: "king", Actor: b.actor},
		{Chain: session("s1"), Role: b.role},
		{Chain: session("s1"), Role: b.role, Actor: "a.b"},
		{Chain: session("s1"), Role: b.role, Actor: "*"},
		{Chain: session("s1"), Role: b.role, Actor: "a b"},
	} {
		if _, err := b.Publish(t.Context(), sub, 0, []byte("x")); err == nil {
			t.Errorf("published under %+v", sub)
		}
	}
	if last, err := b.Last(t.Context()); err != nil || last != 0 {
		t.Errorf("something was stored: %d, %v", last, err)
	}
}
