package journal

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Verdict says what a message was to the fold.
type Verdict uint8

// What a message can be. The zero Verdict had no effect.
const (
	NoEffect Verdict = iota // seen before, or past a break or a newer program's commit
	VoidMsg                 // listed as an anomaly; the chain goes on past it
	Valid
	Breaks // a commit is missing before it: the session is broken
	Newer  // a newer program wrote it: the session is too new
)

// String names the verdict.
func (v Verdict) String() string {
	return [...]string{"no effect", "void", "valid", "breaks the chain", "too new"}[v]
}

// MaxAhead is how far a commit's time may lie past the server's timestamp of
// its message, unless it is its head's time. Were it measured from the head,
// each commit could carry the session's clock a step further ahead.
const MaxAhead = 60 * time.Second

// MaxBehind is how far a commit's time may lie before the server's timestamp of
// its message. Else whoever holds an allow or a grant that has expired could
// use it by a time from before.
const MaxBehind = 60 * time.Second

// Apply folds one message into the state and says what it was, and why if it
// was not valid. It is total: any message, in any order, yields a state and
// never an error. Messages at or before the last one seen have no effect, so
// delivering twice is harmless.
func (s *State) Apply(m Message) (Verdict, string) {
	if m.Seq <= s.last {
		return NoEffect, "seen before"
	}
	return s.apply(m, read(m))
}

// body is what the bytes of a message say.
type body struct {
	commit *Commit
	bad    *misfit // why they are no commit
	sub    Subject
	subErr error
}

func read(m Message) body {
	var b body
	b.commit, b.bad = decodeCommit(m.Data)
	b.sub, b.subErr = ParseSubject(m.Subject)
	return b
}

// apply is Apply for a message that was read, and not seen before.
func (s *State) apply(m Message, b body) (Verdict, string) {
	j, v, why := s.weigh(m, b)
	s.last, s.size = m.Seq, s.size+len(m.Data)
	switch v {
	case Valid:
		j.merge(m)
	case VoidMsg:
		s.voids++
		if len(s.anomaly) < maxAnomalies {
			s.anomaly = append(s.anomaly, Anomaly{m.Seq, m.Subject, why})
		}
	case Breaks:
		s.cond, s.why = Broken, Anomaly{m.Seq, m.Subject, why}
	case Newer:
		s.cond, s.why = TooNew, Anomaly{m.Seq, m.Subject, why}
	}
	return v, why
}

// weigh judges a message without changing the state: headers, then contiguity,
// then version, then the commit itself, in this order.
func (s *State) weigh(m Message, b body) (*judge, Verdict, string) {
	expected, why := expectation(s.chain, m.Headers)
	if why != "" {
		return nil, s.unlessUnfit(VoidMsg), why
	}
	gap := expected != s.last
	if gap && (b.subErr != nil || !accounts(b.commit, expected)) {
		return nil, s.unlessUnfit(Breaks), s.missingBefore(expected)
	}
	switch {
	case b.bad != nil && b.bad.newer:
		return nil, s.unlessUnfit(Newer), b.bad.Error()
	case b.bad != nil:
		return nil, s.unlessUnfit(VoidMsg), b.bad.Error()
	case b.subErr != nil:
		return nil, s.unlessUnfit(VoidMsg), b.subErr.Error()
	}
	j := &judge{s: s, commit: b.commit, seq: m.Seq, after: expected, gap: gap}
	switch err := j.run(b.sub, m.Time); {
	case err != nil && gap:
		return nil, s.unlessUnfit(Breaks), s.missingBefore(expected)
	case err != nil:
		return nil, s.unlessUnfit(VoidMsg), err.Error()
	}
	return j, Valid, ""
}

func (s *State) missingBefore(expected uint64) string {
	return fmt.Sprintf("it was appended after message %d of the session, and message %d is the last that can be read: a commit is missing", expected, s.last)
}

// accounts reports whether a commit is a repair that names the message it was
// appended after as missing. Where the session's last message cannot be read,
// the server still takes nothing but what expects it.
func accounts(c *Commit, expected uint64) bool {
	if c == nil || c.Role != RoleAdmin {
		return false
	}
	r, ok := c.Events[0].Body.(*Repair)
	return ok && slices.Contains(r.Missing, expected)
}

// unlessUnfit is v, but in a broken or too new session nothing except a repair
// counts.
func (s *State) unlessUnfit(v Verdict) Verdict {
	if s.cond != Whole {
		return NoEffect
	}
	return v
}

// expectation reads the one expected sequence a message of a chain must have been
// appended with, under the session's own filter and with nothing beyond a
// message id.
func expectation(chain Chain, h map[string][]string) (uint64, string) {
	for name, values := range h {
		switch name {
		case HeaderExpected, HeaderExpectedFilter, HeaderMsgID:
			if len(values) != 1 {
				return 0, fmt.Sprintf("the header %s stands %d times", name, len(values))
			}
		default:
			return 0, fmt.Sprintf("the header %q has no place on a commit", name)
		}
	}
	if filter := h[HeaderExpectedFilter]; len(filter) != 1 || filter[0] != chain.Filter() {
		return 0, "it was not appended under the session's own filter"
	}
	if len(h[HeaderExpected]) != 1 {
		return 0, "it was appended without an expected sequence"
	}
	n, err := strconv.ParseUint(h[HeaderExpected][0], 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != h[HeaderExpected][0] {
		return 0, "its expected sequence is not a number"
	}
	return n, ""
}

// judge weighs one commit: it reads the state through an overlay and changes
// only the overlay, so that a commit is true as a whole or not at all.
type judge struct {
	s      *State
	commit *Commit
	seq    uint64
	after  uint64 // the sequence it was appended after
	gap    bool   // that message is missing
	at     int    // the event being judged

	repaired bool
	endMark  *Mark
	begin    *Opened // the first run of the session
	ids      map[string]struct{}
	agents   map[string]string
	owners   map[string]Principal
	runs     map[string]*RunState
	calls    map[string]*CallState
	quest    map[string]*QuestionState
	decs     map[string]*DecisionState
	grants   map[string]*GrantState
	newGrant []string
	newDec   []string
	answers  map[string]string
	adopted  map[Scope]*Adoption
	newest   map[string]uint64
	policies map[string]*PolicyState
	active   map[string]*Activation
}

func (j *judge) run(sub Subject, stored time.Time) error {
	if err := j.envelope(sub, stored); err != nil {
		return err
	}
	for i, e := range j.commit.Events {
		j.at = i
		if err := j.event(e); err != nil {
			return fmt.Errorf("events[%d] (%s): %w", i, e.Kind, err)
		}
	}
	return nil
}

func (j *judge) envelope(sub Subject, stored time.Time) error {
	c, s := j.commit, j.s
	switch {
	case sub.Chain != s.chain || c.Session != s.chain.Session():
		return fmt.Errorf("its session is %q, its subject's %q", c.Session, sub.Chain.Session())
	case c.Role != sub.Role || c.Actor != sub.Actor:
		return fmt.Errorf("it says %s.%s wrote it, its subject says %s.%s", c.Role, c.Actor, sub.Role, sub.Actor)
	case c.After != j.after:
		return fmt.Errorf("after is %d, the session's previous message is %d", c.After, j.after)
	case c.N != s.n+1:
		return fmt.Errorf("n is %d, the next is %d", c.N, s.n+1)
	case c.Prev != s.prev:
		return fmt.Errorf("prev is %q, the head's digest is %q", c.Prev, s.prev)
	case c.Time.Before(s.time.Time):
		return fmt.Errorf("its time %s lies before its head's %s", c.Time, s.time)
	}
	if c.Time != s.time && c.Time.Sub(stored) > MaxAhead {
		return fmt.Errorf("its time %s lies more than %s ahead", c.Time, MaxAhead)
	}
	if stored.Sub(c.Time.Time) > MaxBehind {
		return fmt.Errorf("its time %s lies more than %s behind the journal's clock", c.Time, MaxBehind)
	}
	return nil
}

func (j *judge) event(e Event) error {
	if err := j.newID(e.ID); err != nil {
		return err
	}
	if (j.s.cond != Whole || j.gap) && !j.repaired && e.Kind != TypeRepair {
		return fmt.Errorf("in a broken or too new session only a repair is valid")
	}
	if e.Info {
		return j.info()
	}
	spec, ok := specOf(e.Kind)
	switch {
	case !ok:
		return fmt.Errorf("unknown type")
	case spec.policy != j.s.chain.policy && !spec.both:
		return fmt.Errorf("it does not stand on this chain")
	case !spec.allows(j.commit.Role):
		return fmt.Errorf("the role %s may not write it", j.commit.Role)
	case j.isEnded() && e.Kind != TypeResult && e.Kind != TypeRepair:
		return fmt.Errorf("the session has ended")
	case !spec.policy && !j.begun() && e.Kind != TypeOpened && e.Kind != TypeRepair:
		return fmt.Errorf("a session begins with opened")
	}
	return spec.fold(j, e)
}

// info checks an informational event: it is kept in the chain, and that is all.
func (j *judge) info() error {
	if j.commit.Role == RoleAuditor {
		return fmt.Errorf("an auditor only reads")
	}
	if j.isEnded() {
		return fmt.Errorf("the session has ended")
	}
	if !j.s.chain.policy && !j.begun() {
		return fmt.Errorf("a session begins with opened")
	}
	return nil
}

// begun reports whether the session has had its first run.
func (j *judge) begun() bool { return j.s.kind != "" || j.begin != nil }

func (j *judge) isEnded() bool { return j.s.ended != nil || j.endMark != nil }

func (j *judge) newID(id string) error {
	_, old := j.s.ids[id]
	_, new := j.ids[id]
	if old || new {
		return fmt.Errorf("the id %s is used already", id)
	}
	put(&j.ids, id, struct{}{})
	return nil
}

func (j *judge) by() Principal { return Principal{j.commit.Role, j.commit.Actor} }

func (j *judge) now() Time { return j.commit.Time }

func (j *judge) mark(id string) Mark {
	return Mark{ID: id, N: j.commit.N, I: j.at, Seq: j.seq, Time: j.commit.Time, By: j.by()}
}

// put sets a key of a map that may not be there yet.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// look reads through the overlay.
func look[K comparable, V any](over, base map[K]V, key K) (V, bool) {
	if v, ok := over[key]; ok {
		return v, true
	}
	v, ok := base[key]
	return v, ok
}

func (j *judge) findRun(id string) *RunState        { r, _ := look(j.runs, j.s.runs, id); return r }
func (j *judge) findCall(id string) *CallState      { c, _ := look(j.calls, j.s.calls, id); return c }
func (j *judge) findQuest(id string) *QuestionState { q, _ := look(j.quest, j.s.quest, id); return q }
func (j *judge) findDec(id string) *DecisionState   { d, _ := look(j.decs, j.s.decs, id); return d }
func (j *judge) findGrant(id string) *GrantState    { g, _ := look(j.grants, j.s.grants, id); return g }

// editCall is the overlay's own copy of a call, made at the first change.
func (j *judge) editCall(id string) *CallState {
	if c, ok := j.calls[id]; ok {
		return c
	}
	c := j.s.calls[id].clone()
	put(&j.calls, id, c)
	return c
}

func (j *judge) editRun(id string) *RunState {
	if r, ok := j.runs[id]; ok {
		return r
	}
	r := *j.s.runs[id]
	put(&j.runs, id, &r)
	return &r
}

func (j *judge) editQuest(id string) *QuestionState {
	if q, ok := j.quest[id]; ok {
		return q
	}
	q := j.s.quest[id].clone()
	put(&j.quest, id, q)
	return q
}

func (j *judge) editGrant(id string) *GrantState {
	if g, ok := j.grants[id]; ok {
		return g
	}
	g := *j.s.grants[id]
	put(&j.grants, id, &g)
	return &g
}

// adoption is State.Adopted through the overlay.
func (j *judge) adoption(agent, layer string) string {
	for _, scope := range Scopes(agent, layer) {
		if a, ok := look(j.adopted, j.s.adopted, scope); ok {
			return a.Digest
		}
	}
	return ""
}

// merge makes the overlay true.
func (j *judge) merge(m Message) {
	s := j.s
	s.n, s.prev, s.time, s.head = j.commit.N, Digest(m.Data), j.commit.Time, m.Seq
	if j.repaired {
		s.cond, s.why, s.repaired = Whole, Anomaly{}, j.commit.N
	}
	if j.endMark != nil {
		s.ended = j.endMark
	}
	if j.begin != nil {
		s.kind, s.label, s.follows = j.begin.Kind, j.begin.Label, j.begin.Follows
		s.first = j.findRun(j.begin.Run).Mark
	}
	for id, r := range j.runs {
		s.putRun(id, r)
	}
	calls := slices.SortedFunc(maps.Values(j.calls), func(a, b *CallState) int { return compareMarks(a.Mark, b.Mark) })
	for _, c := range calls { // in chain order, so that every fold indexes alike
		s.putCall(c.Mark.ID, c)
	}
	copyInto(s.ids, j.ids)
	copyInto(s.agents, j.agents)
	copyInto(s.owners, j.owners)
	copyInto(s.quest, j.quest)
	copyInto(s.answers, j.answers)
	copyInto(s.decs, j.decs)
	copyInto(s.grants, j.grants)
	s.grantIDs = append(s.grantIDs, j.newGrant...)
	for _, id := range j.newGrant {
		if g := s.grants[id]; !g.Expires.IsZero() || g.Origin != nil {
			s.limited = append(s.limited, id)
		}
	}
	s.decIDs = append(s.decIDs, j.newDec...)
	copyInto(s.adopted, j.adopted)
	copyInto(s.newest, j.newest)
	copyInto(s.policies, j.policies)
	copyInto(s.active, j.active)
}

func copyInto[K comparable, V any](dst, src map[K]V) {
	for k, v := range src {
		dst[k] = v
	}
}

func (s *State) putRun(id string, r *RunState) {
	s.runs[id] = r
	toggle(s.live, r.Agent, id, r.Live)
}

// putCall stores a call and keeps every index of calls in step.
func (s *State) putCall(id string, c *CallState) {
	if old := s.calls[id]; old != nil {
		for _, run := range holders(old) {
			toggle(s.held, run, id, false)
		}
	} else if c.Key == "" && c.Ref == "" {
		who := scopedKey(c.Agent, c.Layer, c.Tool, c.Digest)
		s.alike[who] = append(s.alike[who], id)
	}
	s.calls[id] = c
	for _, run := range holders(c) {
		toggle(s.held, run, id, true)
	}
	s.indexName("key", c, c.Key)
	s.indexName("ref", c, c.Ref)
	switch p := c.Last().Progress; {
	case !c.Withdrawn && (p == Open || p == Allowed || p == Started):
		s.openSet[id] = struct{}{}
	default:
		delete(s.openSet, id)
	}
}

// indexName keeps a key or a ref while its call is not withdrawn.
func (s *State) indexName(kind string, c *CallState, name string) {
	if name == "" {
		return
	}
	k := scopedKey(kind, c.Agent, c.Layer, name)
	if !c.Withdrawn {
		s.keys[k] = c.Mark.ID
	} else if s.keys[k] == c.Mark.ID {
		delete(s.keys, k)
	}
}

// holders are the runs whose end changes the call: the one that waits and the
// one that started it.
func holders(c *CallState) []string {
	var runs []string
	if c.Waiter != "" {
		runs = append(runs, c.Waiter)
	}
	for i := range c.Attempts {
		if a := &c.Attempts[i]; a.Progress == Started && a.StartRun != c.Waiter {
			runs = append(runs, a.StartRun)
		}
	}
	return runs
}

// toggle puts id into the set at key, or takes it out.
func toggle(m map[string]map[string]struct{}, key, id string, in bool) {
	set := m[key]
	switch {
	case in && set == nil:
		m[key] = map[string]struct{}{id: {}}
	case in:
		set[id] = struct{}{}
	case set != nil:
		if delete(set, id); len(set) == 0 {
			delete(m, key)
		}
	}
}
