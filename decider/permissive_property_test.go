package decider_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"decisionjournal/decider"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// permitted is all that a journal lets happen to the calls of session S: by call
// and attempt, what was started, also if nothing came of it, and what can be
// started now, after a decider has settled what is open. It settles a copy. One journal is more permissive
// than another if it permits an attempt of a call that both hold and that the
// other does not permit.
func permitted(t *rapid.T, log *journaltest.Memory, now time.Time) map[string]bool {
	copied := copyOf(log, now)
	may := map[string]bool{}
	w, err := journal.NewWriter(journal.Config{Log: copied, Role: journal.RoleDecider, Actor: "decider", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	d, ctx := &decider.Decider{Writer: w}, context.Background()
	st, err := journal.LoadState(ctx, copied, journal.SessionChain("S"))
	if err != nil {
		t.Fatal(err)
	}
	attempt := func(call string, no int) string { return fmt.Sprintf("%s attempt %d", call, no) }
	for _, s := range started(t, copied) {
		may[attempt(s.Call, s.Attempt)] = true
	}
	settled := d.Settle(ctx, st)
	for _, c := range st.Calls() {
		for _, a := range c.Attempts {
			if settled == nil && a.Progress == journal.Allowed && d.Releasable(ctx, st, c.Mark.ID) == nil {
				may[attempt(c.Mark.ID, a.No)] = true
			}
		}
	}
	return may
}

// started are the starts of session S that count.
func started(t *rapid.T, log *journaltest.Memory) (list []*journal.Start) {
	st := journal.NewState(journal.SessionChain("S"))
	for m, err := range log.Load(context.Background(), st.Chain(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := st.Apply(m); v != journal.Valid {
			continue
		}
		commit, err := journal.Decode(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range commit.Events {
			if s, ok := e.Body.(*journal.Start); ok {
				list = append(list, s)
			}
		}
	}
	return list
}

func copyOf(log *journaltest.Memory, now time.Time) *journaltest.Memory {
	copied := journaltest.NewMemory()
	copied.SetClock(func() time.Time { return now })
	var at uint64
	for _, m := range log.Messages() {
		for at++; at < m.Seq; at++ { // what is missing there
			copied.Drop(copied.Inject(journal.Message{Subject: m.Subject}))
		}
		copied.Inject(m)
	}
	holes, _ := log.Holes(context.Background())
	for _, h := range holes {
		if h > at {
			copied.Drop(copied.Inject(journal.Message{Subject: "journal.s.S.agent.agent"}))
		}
	}
	return copied
}

// notMore holds that a journal permits no attempt of a call that the other one
// holds and does not permit it of.
func notMore(t *rapid.T, what string, got, want map[string]bool, calls []string) {
	for p := range got {
		if !want[p] && slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(p, c) }) {
			t.Fatalf("%s: %s is permitted; otherwise only %v", what, p, slices.Sorted(maps.Keys(want)))
		}
	}
}

func callsOf(st *journal.State) (ids []string) {
	for _, c := range st.Calls() {
		ids = append(ids, c.Mark.ID)
	}
	return ids
}

// drawHistory draws a session as people, agents and deciders make it.
func drawHistory(t *rapid.T) *world {
	w := newWorld(t)
	w.settled(t)
	steps := []func(*rapid.T){w.call, w.call, w.call, w.answer, w.answer, w.revoke, w.importOne, w.adoptOne, w.activateOne, w.die,
		w.attachOne, w.detachOne, w.startOne, w.startOne, w.resultOne, w.step}
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		rapid.SampledFrom(steps).Draw(t, "step")(t)
		if rapid.IntRange(0, 4).Draw(t, "decider sleeps") > 0 {
			w.settled(t)
		}
	}
	return w
}

// missingPermitsNothing loses messages of a journal: what is left permits nothing
// that the whole one does not.
func missingPermitsNothing(t *rapid.T) {
	w := drawHistory(t)
	whole := permitted(t, w.log, w.now)
	for range rapid.IntRange(1, 3).Draw(t, "losses") {
		w.log.Drop(uint64(rapid.IntRange(1, len(w.log.Messages())).Draw(t, "lost")))
	}
	notMore(t, "with messages missing", permitted(t, w.log, w.now), whole, callsOf(w.st))
}

func TestMissingMessagesPermitNothing(t *testing.T) { rapid.Check(t, missingPermitsNothing) }

// twin is a journal that is written by the same people as another, and by
// somebody else who has an agent's key and more: whose messages stand between
// theirs. The others fold what they find and write the same events after it.
type twin struct {
	log    *journaltest.Memory
	chains map[journal.Chain]*journal.State
	seqs   map[uint64]uint64 // of the original -> here
	before []journal.Message // of the original, so far
}

func newTwin() *twin {
	return &twin{log: journaltest.NewMemory(), seqs: map[uint64]uint64{}, chains: map[journal.Chain]*journal.State{
		journal.PolicyChain(): journal.NewState(journal.PolicyChain()), journal.SessionChain("S"): journal.NewState(journal.SessionChain("S")),
	}}
}

// again writes a message of the original as its writer would write it here. It
// reports whether it counts.
func (w *twin) again(t *rapid.T, m journal.Message) bool {
	sub, err := journal.ParseSubject(m.Subject)
	if err != nil {
		t.Fatal(err)
	}
	st := w.chains[sub.Chain]
	commit, err := journal.Decode(m.Data)
	if err != nil {
		t.Fatal(err)
	}
	commit.N, commit.After, commit.Prev = st.N()+1, st.LastSeq(), st.Prev()
	for _, e := range commit.Events {
		if a, ok := e.Body.(*journal.Adopt); ok && a.Activation != 0 {
			a.Activation = w.seqs[a.Activation]
		}
	}
	data, err := commit.Encode()
	if err != nil {
		t.Fatal(err)
	}
	seq, v := w.store(journal.Message{Time: m.Time, Subject: m.Subject, Headers: journal.ExpectHeaders(sub.Chain, st.LastSeq()), Data: data})
	w.seqs[m.Seq] = seq
	w.before = append(w.before, m)
	return v == journal.Valid
}

func (w *twin) store(m journal.Message) (uint64, journal.Verdict) {
	m.Seq = w.log.Inject(m)
	v := journal.NoEffect
	for chain, st := range w.chains {
		if strings.HasPrefix(m.Subject, strings.TrimSuffix(chain.Filter(), ">")) {
			v, _ = st.Apply(m)
		}
	}
	return m.Seq, v
}

// mallory is somebody with an agent's key.
const mallory = "journal.s.S.agent.mallory"

// junk stores a message of somebody else before the original's next one.
func (w *twin) junk(t *rapid.T, next journal.Message) {
	st := w.chains[journal.SessionChain("S")]
	old := next
	if len(w.before) > 0 {
		old = rapid.SampledFrom(w.before).Draw(t, "old")
	}
	m := journal.Message{Time: next.Time, Subject: mallory, Headers: journal.ExpectHeaders(st.Chain(), st.LastSeq()), Data: next.Data}
	switch rapid.IntRange(0, 10).Draw(t, "junk") {
	case 0:
		m.Data = []byte("{}")
	case 1:
		m.Data = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
	case 2: // what another wrote, as one's own
		m.Data = old.Data
	case 3: // the same again, as it stands
		m.Subject, m.Headers, m.Data = old.Subject, old.Headers, old.Data
	case 4: // the same again, where the chain is now
		m.Subject, m.Data = old.Subject, old.Data
	case 5: // what comes next, before its writer
		m.Subject = next.Subject
	case 6: // of another session, and in another session
		m.Subject = "journal.s.T.decider.decider"
	case 7: // with no expectation, or a false one
		m.Headers = rapid.SampledFrom([]map[string][]string{nil, {}, journal.ExpectHeaders(st.Chain(), 0), journal.ExpectHeaders(journal.SessionChain("T"), st.LastSeq()),
			{journal.HeaderExpected: {"1", "2"}}}).Draw(t, "headers")
	case 8: // a newer program's
		m.Data = []byte(`{"v":2}`)
	case 9: // a decider's events, in an envelope of one's own that is right
		m.Data = w.forged(t, old, m.Subject)
	case 10: // the next events, likewise
		m.Data = w.forged(t, next, m.Subject)
	}
	w.store(m)
}

// forged are the events of a message in an envelope that fits the chain and the
// subject.
func (w *twin) forged(t *rapid.T, m journal.Message, subject string) []byte {
	sub, err := journal.ParseSubject(subject)
	if err != nil {
		t.Fatal(err)
	}
	commit, err := journal.Decode(m.Data)
	if err != nil {
		t.Fatal(err)
	}
	st := w.chains[sub.Chain]
	commit.Session, commit.Role, commit.Actor = sub.Chain.Session(), sub.Role, sub.Actor
	commit.N, commit.After, commit.Prev = st.N()+1, st.LastSeq(), st.Prev()
	commit.Time = journal.At(m.Time)
	if commit.Time.Before(st.Time().Time) {
		commit.Time = st.Time()
	}
	if rapid.Bool().Draw(t, "new ids") {
		for i := range commit.Events {
			commit.Events[i].ID = fmt.Sprintf("7ZZZZZZZZZZZZZZZZZZZZZ%04d", len(w.log.Messages())*10%9999+i)
		}
	}
	data, err := commit.Encode()
	if err != nil {
		return []byte("{}")
	}
	return data
}

// extraPermitsNothing writes a session twice: as it is, and with messages of
// somebody who holds an agent's key between those of the others, who write the
// same. As far as they come, nothing is permitted there that is not permitted
// without.
func extraPermitsNothing(t *rapid.T) {
	w := drawHistory(t)
	messages := w.log.Messages()
	stop := rapid.IntRange(1, len(messages)).Draw(t, "stop")
	plain, other := newTwin(), newTwin()
	for i, m := range messages[:stop] {
		if rapid.IntRange(0, 5).Draw(t, "extra") == 0 {
			other.junk(t, m)
		}
		if !plain.again(t, m) {
			t.Fatalf("message %d does not count in a copy", i+1)
		}
		if !other.again(t, m) {
			break // its writer would look again
		}
	}
	now := messages[stop-1].Time
	for _, n := range []time.Time{now, w.now} {
		notMore(t, "with messages between", permitted(t, other.log, n), permitted(t, plain.log, n), callsOf(plain.chains[journal.SessionChain("S")]))
	}
}

func TestExtraMessagesPermitNothing(t *testing.T) { rapid.Check(t, extraPermitsNothing) }

// TestPermittedSees: what the properties compare is not always nothing.
func TestPermittedSees(t *testing.T) {
	started, free := 0, 0
	for range 50 { // of few histories, as most have both
		rapid.Check(t, func(t *rapid.T) {
			w := drawHistory(t)
			free += len(permitted(t, w.log, w.now))
			for _, c := range w.st.Calls() {
				for _, a := range c.Attempts {
					if a.Start != "" {
						started++
					}
				}
			}
		})
		if started > 0 && free > started {
			return
		}
	}
	t.Errorf("%d attempts were started and %d permitted: the properties say nothing", started, free)
}
