package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"decisionjournal/journal"
)

// Audit folds chains message by message and derives again what deciders wrote:
// every decision, question, grant, lapse and adoption, at the state before its
// commit and with its commit's time. Without sessions it audits all; the
// policy chain always comes first, since the others stand on it.
//
// A fault is whatever speaks against the record: a commit or sequence that is
// missing, a message that does not fit its chain, an event that does not
// follow. What a writer tried and the fold refused for its content alone is
// listed as an anomaly, if its role is not one that decides; so is whatever an
// agent's key can store, which is anything under its own subjects, and a loss
// that a repair accounts for.
//
// Audit returns an error only if the journal cannot be read or a session is
// not there (ErrNoSession).
func (j *Journal) Audit(ctx context.Context, sessions ...string) (Report, error) {
	last, err := j.log.Last(ctx) // what is appended from here on is not looked at
	if err != nil {
		return Report{}, err
	}
	fresh, err := Load(ctx, j.log)
	if err != nil {
		return Report{}, err
	}
	chains, err := j.auditChains(ctx, sessions)
	if err != nil {
		return Report{}, err
	}
	holes, err := j.log.Holes(ctx)
	if err != nil {
		return Report{}, err
	}
	// The store may have lost its end, right after the last message.
	holes = slices.DeleteFunc(slices.Clone(holes), func(h uint64) bool { return h > last+1 })
	r := Report{Clean: true, Sessions: []SessionReport{}, Faults: []Fault{}, Anomalies: []Fault{}}
	whole := &wholeness{accounted: map[uint64]bool{}}
	for _, chain := range chains {
		a := newAudit(ctx, fresh, chain, whole)
		if err := a.run(ctx, last, holes); err != nil {
			return Report{}, err
		}
		r.Sessions = append(r.Sessions, a.report)
		r.Clean = r.Clean && a.report.FaultCount == 0
	}
	r.lost(holes, whole.accounted)
	if len(sessions) == 0 {
		err = j.astray(ctx, &r, last, append(whole.seen, holes...))
	}
	return r, err
}

// lost lists the sequences that cannot be read and that nobody accounts for.
func (r *Report) lost(holes []uint64, accounted map[uint64]bool) {
	for _, h := range holes {
		if !accounted[h] {
			r.fault(Fault{Seq: h, Event: EventJournal, Field: "seq",
				Text: "the journal's message with this sequence is lost, and no repair accounts for it"})
		}
	}
}

// astray lists the messages of no chain: those whose subject is no journal's.
// An agent's key can store one; any other is missing where it belongs.
func (j *Journal) astray(ctx context.Context, r *Report, last uint64, known []uint64) error {
	for _, seq := range missingFrom(known, last) {
		m, _, err := j.log.At(ctx, seq)
		if err != nil {
			return err
		}
		f := Fault{Seq: seq, Event: EventJournal, Field: "subject", Got: m.Subject,
			Text: "the message with this sequence stands in no session and not on the policy chain"}
		if ofAgent(m.Subject) {
			r.anomaly(f)
		} else {
			r.fault(f)
		}
	}
	return nil
}

// missingFrom are the sequences from 1 to last that are not known, in order.
func missingFrom(known []uint64, last uint64) []uint64 {
	known = slices.Sorted(slices.Values(known))
	var missing []uint64
	for seq := uint64(1); seq <= last; seq++ {
		for len(known) > 0 && known[0] < seq {
			known = known[1:]
		}
		if len(known) == 0 || known[0] != seq {
			missing = append(missing, seq)
		}
	}
	return missing
}

// ofAgent reports whether only an agent's key can have stored a message under
// this subject, which need not be a journal's.
func ofAgent(subject string) bool {
	parts := strings.Split(subject, ".")
	return len(parts) == 5 && parts[3] == string(journal.RoleAgent)
}

func (j *Journal) auditChains(ctx context.Context, sessions []string) ([]journal.Chain, error) {
	all, err := j.log.Chains(ctx)
	if err != nil || len(sessions) == 0 {
		return all, err
	}
	var chains []journal.Chain
	for _, c := range all {
		if c.IsPolicy() {
			chains = append(chains, c)
		}
	}
	for _, s := range sessions {
		c := journal.SessionChain(s)
		switch {
		case !slices.Contains(all, c):
			return nil, fmt.Errorf("%w: %q; replay sessions lists those there are", ErrNoSession, s)
		case !slices.Contains(chains, c):
			chains = append(chains, c)
		}
	}
	return chains, nil
}

// audit is one chain being audited.
type audit struct {
	j      *Journal
	chain  journal.Chain
	report SessionReport

	readBook func(name string) (*reel, error)
	before   *journal.State // the fold without the message at hand
	books    map[string]*bookReels
	derived  map[string]bool // decisions by id: they follow
	whole    *wholeness

	last   link      // the message before the one at hand
	adrift tail      // messages that only follow what had no effect
	broken *brokenAt // the break the session is in, or nil
	err    error     // the journal could not be read
}

// wholeness is what the audits of all chains know together.
type wholeness struct {
	accounted map[uint64]bool // sequences that repairs say are missing
	seen      []uint64        // sequences of messages read
}

// brokenAt is the message before which a commit is missing, or that a newer
// program wrote.
type brokenAt struct {
	Fault
	headers map[string][]string
}

// link is what the next message of a chain must refer to.
type link struct {
	seq    uint64
	commit *journal.Commit // nil if it cannot be read
	digest string
	fit    bool // the fold took it
}

// tail counts messages that have no effect because of what came before.
type tail struct {
	count    int
	from, to uint64
	grave    bool // not all of them are an agent's
}

func (t *tail) add(m journal.Message) {
	if t.count == 0 {
		t.from = m.Seq
	}
	t.count++
	t.to = m.Seq
	t.grave = t.grave || !ofAgent(m.Subject)
}

func newAudit(ctx context.Context, j *Journal, chain journal.Chain, whole *wholeness) *audit {
	return &audit{
		j: j, chain: chain, before: journal.NewState(chain), whole: whole,
		readBook: func(name string) (*reel, error) { return j.reel(ctx, name) },
		books:    map[string]*bookReels{}, derived: map[string]bool{},
		report: SessionReport{Session: chain.String(), Anomalies: []Fault{}, Faults: []Fault{}},
	}
}

// run audits the chain's messages up to the sequence last.
func (a *audit) run(ctx context.Context, last uint64, holes []uint64) error {
	st, err := a.j.walk(ctx, a.chain, last, func(s *step) bool {
		a.whole.seen = append(a.whole.seen, s.msg.Seq)
		a.message(s)
		a.before.Apply(s.msg)
		a.last = link{s.msg.Seq, s.commit, journal.Digest(s.msg.Data), s.verdict == journal.Valid}
		return a.err == nil
	})
	if err == nil {
		err = a.err
	}
	if err != nil {
		return err
	}
	a.close(st, holes)
	return nil
}

// close looks at the chain's end: a break nobody repaired, a hole past the head.
func (a *audit) close(st *journal.State, holes []uint64) {
	if a.broken != nil {
		a.report.fault(a.broken.Fault)
	} else if cond, _ := st.Condition(); cond == journal.Whole {
		st.MarkHoles(holes)
		if cond, why := st.Condition(); cond == journal.Broken {
			a.report.fault(Fault{Session: a.report.Session, Seq: why.Seq, Event: EventCommit, Field: "seq", Text: why.Why})
		}
	}
	a.flush()
	cond, _ := st.Condition()
	a.report.Condition, a.report.Commits = cond.String(), st.N()
}

func (a *audit) message(s *step) {
	switch s.verdict {
	case journal.Valid:
		a.valid(s)
	case journal.VoidMsg:
		a.void(s)
	case journal.Breaks:
		a.broken = &brokenAt{a.fault(s, "after", s.why), s.msg.Headers}
	case journal.Newer:
		a.broken = &brokenAt{a.fault(s, "v", "a newer program wrote it, and this one cannot judge it: "+s.why), nil}
	case journal.NoEffect:
		a.adrift.add(s.msg)
	}
}

// flush lists the messages that came to nothing because of an earlier one.
func (a *audit) flush() {
	if t := a.adrift; t.count > 0 {
		list := a.report.fault
		if !t.grave {
			list = a.report.anomaly
		}
		list(Fault{Session: a.report.Session, Seq: t.from, Event: EventCommit, Field: "chain",
			Text: fmt.Sprintf("%d messages up to message %d have no effect because of what is wrong before them", t.count, t.to)})
	}
	a.adrift = tail{}
}

// fault is a fault of the message as a whole.
func (a *audit) fault(s *step, field, text string) Fault {
	f := Fault{Session: a.report.Session, Seq: s.msg.Seq, Event: EventCommit, Field: field, Text: text}
	if s.commit != nil {
		f.N = s.commit.N
	}
	return f
}

// valid audits a commit that the fold took.
func (a *audit) valid(s *step) {
	for _, e := range s.commit.Events {
		if b, ok := e.Body.(*journal.Repair); ok {
			a.repaired(s, b)
		}
	}
	a.flush()
	a.report.Events += len(s.commit.Events)
	a.derive(s)
}

// mended lists a repair of what nothing in the chain itself shows to be missing:
// it was at its end.
func (a *audit) mended(s *step, b *journal.Repair) {
	if len(b.Missing) == 0 {
		return
	}
	f := a.fault(s, "seq", fmt.Sprintf("what cannot be read here, %d in all, may have been of this chain; repaired by %s at n %d: %s",
		len(b.Missing), writer(s), s.commit.N, clip(b.Reason)))
	f.Seq = b.Missing[0]
	a.report.anomaly(f)
}

// repaired turns a break into an anomaly: the loss is on record, with who
// accounts for it.
func (a *audit) repaired(s *step, b *journal.Repair) {
	for _, seq := range b.Missing {
		a.whole.accounted[seq] = true
	}
	if a.broken == nil {
		a.mended(s, b)
		return
	}
	if lost, ok := expectedSeq(a.broken.headers); ok {
		a.whole.accounted[lost] = true
	}
	a.broken.Text += fmt.Sprintf("; repaired by %s at n %d: %s", writer(s), s.commit.N, clip(b.Reason))
	a.report.anomaly(a.broken.Fault)
	a.adrift.grave = false
	a.flush()
	a.broken = nil
}
