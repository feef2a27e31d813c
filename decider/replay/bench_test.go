package replay_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// bench is a journal in memory with a decider, an agent and approvers. Clock
// and ids are the same in every run.
type bench struct {
	t       *testing.T
	log     *journaltest.Memory
	now     time.Time
	writers map[string]*journal.Writer
	dec     *decider.Decider
	pol     *policy.Policy
	session string
	run     string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, log: journaltest.NewMemory(), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), writers: map[string]*journal.Writer{}}
	b.log.SetClock(func() time.Time { return b.now })
	b.dec = &decider.Decider{Writer: b.writer(journal.RoleDecider, "decider")}
	return b
}

func (b *bench) writer(role journal.Role, actor string) *journal.Writer {
	key := string(role) + "." + actor
	if w := b.writers[key]; w != nil {
		return w
	}
	var seed [32]byte
	copy(seed[:], key)
	w, err := journal.NewWriter(journal.Config{Log: b.log, Role: role, Actor: actor, Now: func() time.Time { return b.now }, Entropy: rand.NewChaCha8(seed)})
	if err != nil {
		b.t.Fatal(err)
	}
	b.writers[key] = w
	return w
}

func (b *bench) tick(d time.Duration) { b.now = b.now.Add(d) }

func (b *bench) chainState(chain journal.Chain) *journal.State {
	b.t.Helper()
	st, err := journal.LoadState(b.t.Context(), b.log, chain)
	if err != nil {
		b.t.Fatal(err)
	}
	return st
}

func (b *bench) state() *journal.State { return b.chainState(journal.SessionChain(b.session)) }

// must appends bodies as one commit and returns their ids.
func (b *bench) must(role journal.Role, actor string, bodies ...journal.Body) []string {
	b.t.Helper()
	w, st := b.writer(role, actor), b.state()
	var events []journal.Event
	var ids []string
	for _, body := range bodies {
		e := w.Event(body)
		events, ids = append(events, e), append(ids, e.ID)
	}
	b.appendAs(w, st, events)
	return ids
}

func (b *bench) appendAs(w *journal.Writer, st *journal.State, events []journal.Event) {
	b.t.Helper()
	b.tick(time.Second)
	if err := w.Append(b.t.Context(), st, w.Now(st), events...); err != nil {
		b.t.Fatal(err)
	}
}

// open begins a run in a session.
func (b *bench) open(session, run string, edit ...func(*journal.Opened)) {
	b.t.Helper()
	b.session, b.run = session, run
	o := &journal.Opened{Agent: "main", Run: run, Kind: journal.KindSession}
	for _, e := range edit {
		e(o)
	}
	b.must(journal.RoleAgent, "agent", o)
}

// adopt puts a policy on its chain and adopts it in the session.
func (b *bench) adopt(text string) {
	b.t.Helper()
	b.publish(text)
	b.must(journal.RoleDecider, "decider", &journal.Adopt{Digest: b.pol.Digest()})
}

func (b *bench) publish(text string) {
	b.t.Helper()
	pol, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	b.pol = pol
	if err := b.dec.Publish(b.t.Context(), pol); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) newCall(tool, args string, edit ...func(*journal.Call)) *journal.Call {
	b.t.Helper()
	digest, err := decider.CallDigest(b.pol, tool, json.RawMessage(args))
	if err != nil {
		b.t.Fatal(err)
	}
	c := &journal.Call{Agent: "main", Run: b.run, Kind: journal.CallTool, Tool: tool, Arguments: json.RawMessage(args), Digest: digest}
	for _, e := range edit {
		e(c)
	}
	return c
}

// call appends a call and has it decided.
func (b *bench) call(tool, args string, edit ...func(*journal.Call)) string {
	b.t.Helper()
	id := b.must(journal.RoleAgent, "agent", b.newCall(tool, args, edit...))[0]
	b.settle()
	return id
}

// inline writes a call, its decision and its start in one commit, as a process
// that decides for itself does, with more calls beside it.
func (b *bench) inline(calls ...*journal.Call) []string {
	b.t.Helper()
	w, st := b.writer(journal.RoleDecider, "decider"), b.state()
	b.tick(time.Second)
	if err := b.dec.Sync(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	in, err := b.dec.Input(b.t.Context(), st)
	if err != nil {
		b.t.Fatal(err)
	}
	var events []journal.Event
	var ids []string
	for _, c := range calls {
		e := w.Event(c)
		ids = append(ids, e.ID)
		made, err := decider.DecideCall(in, journal.NewCallState(*c, e.ID, st.Adopted(c.Agent, c.Layer).Digest))
		if err != nil {
			b.t.Fatal(err)
		}
		events = append(append(events, e), made...)
		if d, ok := made[len(made)-1].Body.(*journal.Decision); ok && d.Outcome == journal.Allow {
			events = append(events, w.Event(&journal.Start{Call: e.ID, Attempt: 1, Run: c.Run, Decision: made[len(made)-1].ID, Digest: c.Digest}))
		}
	}
	if err := w.Append(b.t.Context(), st, in.Now, events...); err != nil {
		b.t.Fatal(err)
	}
	return ids
}

func (b *bench) settle() {
	b.t.Helper()
	b.tick(time.Second)
	if err := b.dec.Settle(b.t.Context(), b.state()); err != nil {
		b.t.Fatal(err)
	}
}

// answer answers a call's question and has it settled.
func (b *bench) answer(who, call, action string, edit ...func(*journal.Answer)) {
	b.t.Helper()
	st := b.state()
	q := st.Question(st.Call(call).Last().Question)
	if q == nil {
		b.t.Fatalf("call %s has no question", call)
	}
	a := &journal.Answer{Question: q.Mark.ID, Action: action, Shown: q.Shown, By: who}
	for _, e := range edit {
		e(a)
	}
	b.must(journal.RoleApprover, who, a)
	b.settle()
}

func (b *bench) start(call string) {
	b.t.Helper()
	st := b.state()
	c := st.Call(call)
	if err := b.dec.Releasable(b.t.Context(), st, call); err != nil {
		b.t.Fatal(err)
	}
	b.must(journal.RoleAgent, "agent", &journal.Start{Call: call, Attempt: c.Last().No, Run: b.run, Decision: c.Last().Decision, Digest: c.Digest})
}

func (b *bench) result(call string, status journal.Status, content string) {
	b.t.Helper()
	raw, err := journal.Canonical([]byte(content))
	if err != nil {
		b.t.Fatal(err)
	}
	b.must(journal.RoleAgent, "agent", &journal.Result{Call: call, Attempt: b.state().Call(call).Last().No, Run: b.run, Status: status,
		Content: raw, Size: uint64(len(raw)), Digest: journal.Digest(raw)})
	b.settle()
}

func (b *bench) grants() []string {
	var ids []string
	for _, g := range b.state().Grants() {
		ids = append(ids, g.Mark.ID)
	}
	return ids
}

func (b *bench) want(call, want string) {
	b.t.Helper()
	st := b.state()
	a := st.Call(call).Last()
	got := a.Progress.String()
	if d := st.Decision(a.Decision); d != nil {
		got += fmt.Sprintf(" by %s", d.By[0].Kind)
	}
	if got != want {
		b.t.Fatalf("call %s is %s, want %s", call, got, want)
	}
}

func (b *bench) load() *replay.Journal {
	b.t.Helper()
	j, err := replay.Load(b.t.Context(), b.log)
	if err != nil {
		b.t.Fatal(err)
	}
	j.Now = func() time.Time { return b.now }
	return j
}

func (b *bench) audit(sessions ...string) replay.Report {
	b.t.Helper()
	r, err := b.load().Audit(b.t.Context(), sessions...)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// faults are all faults of a report.
func faults(r replay.Report) []replay.Fault {
	var list []replay.Fault
	for _, s := range r.Sessions {
		list = append(list, s.Faults...)
	}
	return append(list, r.Faults...)
}

// listed are the faults and the anomalies: what an agent's key could have
// stored as well is only the latter.
func listed(r replay.Report) []replay.Fault {
	list := append(faults(r), r.Anomalies...)
	for _, s := range r.Sessions {
		list = append(list, s.Anomalies...)
	}
	return list
}

func (b *bench) wantClean() replay.Report {
	b.t.Helper()
	r := b.audit()
	for _, f := range faults(r) {
		b.t.Errorf("fault: %s", f)
	}
	if !r.Clean {
		b.t.Fatal("the audit is not clean")
	}
	for _, s := range r.Sessions {
		if s.Derived != s.Decisions {
			b.t.Errorf("%s: %d of %d derived", s.Session, s.Derived, s.Decisions)
		}
	}
	return r
}
