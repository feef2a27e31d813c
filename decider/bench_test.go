package decider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// tb is what a bench needs of *testing.T or *rapid.T.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// bench is one session in memory with a decider, an agent and approvers.
type bench struct {
	t     tb
	log   *journaltest.Memory
	now   time.Time // unless live
	live  bool      // in a bubble: its clock and timers are used
	chain journal.Chain
	dec   *decider.Decider
	pol   *policy.Policy

	memory int // of its workers
}

var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// newBench has a session S with the run r1 of agent main under a policy.
func newBench(t tb, policyText string, open ...func(*journal.Opened)) *bench {
	t.Helper()
	b := newEmpty(t)
	o := &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession}
	for _, edit := range open {
		edit(o)
	}
	b.must(journal.RoleAgent, "agent", o)
	b.adopt(policyText)
	return b
}

func newEmpty(t tb) *bench { return newOver(t, journaltest.NewMemory()) }

func newOver(t tb, log *journaltest.Memory) *bench {
	b := &bench{t: t, log: log, now: epoch, chain: journal.SessionChain("S")}
	b.log.SetClock(b.clock)
	b.dec = &decider.Decider{Writer: b.writer(journal.RoleDecider, "decider")}
	return b
}

func (b *bench) clock() time.Time {
	if b.live {
		return time.Now()
	}
	return b.now
}

func headless(o *journal.Opened) { o.Headless = true }

func follows(name string) func(*journal.Opened) {
	return func(o *journal.Opened) { o.Follows = name }
}

func (b *bench) writer(role journal.Role, actor string) *journal.Writer {
	return b.writerTo(b.log, role, actor)
}

func (b *bench) writerTo(log journal.Log, role journal.Role, actor string) *journal.Writer {
	cfg := journal.Config{Log: log, Role: role, Actor: actor, Now: b.clock}
	if !b.live {
		cfg.Wait = func(ctx context.Context, _ int) error { return ctx.Err() }
	}
	w, err := journal.NewWriter(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

func (b *bench) state(chain journal.Chain) *journal.State {
	b.t.Helper()
	st, err := journal.LoadState(context.Background(), b.log, chain)
	if err != nil {
		b.t.Fatal(err)
	}
	return st
}

// session is the state of the bench's session.
func (b *bench) session() *journal.State { b.t.Helper(); return b.state(b.chain) }

func (b *bench) try(role journal.Role, actor string, bodies ...journal.Body) ([]string, error) {
	b.t.Helper()
	chain := b.chain
	switch bodies[0].(type) {
	case *journal.PolicyBytes, *journal.Activate:
		chain = journal.PolicyChain()
	}
	return b.tryAt(chain, role, actor, bodies...)
}

func (b *bench) tryAt(chain journal.Chain, role journal.Role, actor string, bodies ...journal.Body) ([]string, error) {
	b.t.Helper()
	w := b.writer(role, actor)
	var events []journal.Event
	var ids []string
	for _, body := range bodies {
		e := w.Event(body)
		events, ids = append(events, e), append(ids, e.ID)
	}
	for try := 0; ; try++ { // a worker may write at the same time
		st := b.state(chain)
		if err := w.Append(context.Background(), st, w.Now(st), events...); !errors.Is(err, journal.ErrConflict) || try == 100 {
			return ids, err
		}
	}
}

func (b *bench) must(role journal.Role, actor string, bodies ...journal.Body) []string {
	b.t.Helper()
	ids, err := b.try(role, actor, bodies...)
	if err != nil {
		b.t.Fatal(err)
	}
	return ids
}

// publish puts a policy's bytes on the policy chain and returns the policy.
func (b *bench) publish(text string) *policy.Policy {
	b.t.Helper()
	pol, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	b.must(journal.RoleDecider, "decider", journal.NewPolicyBytes([]byte(text)))
	return pol
}

// adopt publishes a policy and adopts it in the session.
func (b *bench) adopt(text string, edit ...func(*journal.Adopt)) {
	b.t.Helper()
	b.pol = b.publish(text)
	a := &journal.Adopt{Digest: b.pol.Digest()}
	for _, e := range edit {
		e(a)
	}
	b.must(journal.RoleDecider, "decider", a)
}

// activate makes a policy the current one of a name.
func (b *bench) activate(name, text string) {
	b.t.Helper()
	b.pol = b.publish(text)
	b.must(journal.RoleAdmin, "root", &journal.Activate{Name: name, Digest: b.pol.Digest()})
}

func (b *bench) body(run, tool, args string, edit ...func(*journal.Call)) *journal.Call {
	b.t.Helper()
	digest, err := decider.CallDigest(b.pol, tool, json.RawMessage(args))
	if err != nil {
		b.t.Fatal(err)
	}
	c := &journal.Call{Agent: "main", Run: run, Kind: journal.CallTool, Tool: tool, Arguments: json.RawMessage(args), Digest: digest}
	for _, e := range edit {
		e(c)
	}
	return c
}

func (b *bench) call(run, tool, args string, edit ...func(*journal.Call)) string {
	b.t.Helper()
	return b.must(journal.RoleAgent, "agent", b.body(run, tool, args, edit...))[0]
}

func key(k string) func(*journal.Call)   { return func(c *journal.Call) { c.Key = k } }
func layer(l string) func(*journal.Call) { return func(c *journal.Call) { c.Layer = l } }

func (b *bench) settle() *journal.State {
	b.t.Helper()
	st := b.session()
	if err := b.dec.Settle(context.Background(), st); err != nil {
		b.t.Fatal(err)
	}
	return st
}

// question is the newest attempt's question, whether over or not.
func (b *bench) question(call string) *journal.QuestionState {
	b.t.Helper()
	st := b.session()
	q := st.Question(st.Call(call).Last().Question)
	if q == nil {
		b.t.Fatalf("call %s has no question", call)
	}
	return q
}

func (b *bench) answer(who, call, action string, edit ...func(*journal.Answer)) {
	b.t.Helper()
	if err := b.tryAnswer(who, call, action, edit...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) tryAnswer(who, call, action string, edit ...func(*journal.Answer)) error {
	b.t.Helper()
	q := b.question(call)
	a := &journal.Answer{Question: q.Mark.ID, Action: action, Shown: q.Shown, By: who}
	for _, e := range edit {
		e(a)
	}
	_, err := b.try(journal.RoleApprover, who, a)
	return err
}

func note(s string) func(*journal.Answer) { return func(a *journal.Answer) { a.Note = s } }
func uses(n int) func(*journal.Answer)    { return func(a *journal.Answer) { a.Uses = n } }
func rule(s string) func(*journal.Answer) {
	return func(a *journal.Answer) { a.Rule = json.RawMessage(s) }
}
func rules(s string) func(*journal.Answer) {
	return func(a *journal.Answer) { a.Rules = json.RawMessage(s) }
}

func (b *bench) expires(d time.Duration) func(*journal.Answer) {
	return func(a *journal.Answer) { a.Expires = journal.At(b.now.Add(d)) }
}

func (b *bench) start(run, call string) {
	b.t.Helper()
	c := b.session().Call(call)
	a := c.Last()
	b.must(journal.RoleAgent, "agent", &journal.Start{Call: call, Attempt: a.No, Run: run, Decision: a.Decision, Digest: c.Digest})
}

func (b *bench) result(run, call string, status journal.Status) {
	b.t.Helper()
	attempt := 0
	for i, a := range b.session().Call(call).Attempts {
		if a.StartRun == run {
			attempt = i + 1
		}
	}
	b.must(journal.RoleAgent, "agent", &journal.Result{Call: call, Attempt: attempt, Run: run, Status: status, Digest: journal.Digest(nil)})
}

// takeover ends the agent's runs in favour of a new one.
func (b *bench) takeover(run string) {
	b.t.Helper()
	b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: run, Kind: journal.KindSession, Takeover: true})
}

func (b *bench) attach(run, call string, retry bool) {
	b.t.Helper()
	b.must(journal.RoleAgent, "agent", &journal.Attach{Call: call, Run: run, Retry: retry})
}

// grants are the session's grants.
func (b *bench) grants() []*journal.GrantState { b.t.Helper(); return b.session().Grants() }

// releasable asks the releasing side.
func (b *bench) releasable(call string) error {
	b.t.Helper()
	return b.dec.Releasable(context.Background(), b.session(), call)
}

// decision is the newest attempt's decision.
func (b *bench) decision(call string) *journal.DecisionState {
	b.t.Helper()
	st := b.session()
	dec := st.Decision(st.Call(call).Last().Decision)
	if dec == nil {
		b.t.Fatalf("call %s is not decided", call)
	}
	return dec
}

// outcome is the call's newest attempt as "progress outcome kind,kind", or its
// progress and "asked" if a question is open.
func (b *bench) outcome(call string) string {
	b.t.Helper()
	st := b.session()
	a := st.Call(call).Last()
	dec := st.Decision(a.Decision)
	if dec == nil {
		if q := st.Question(a.Question); q != nil && !q.Over {
			return "asked"
		}
		return a.Progress.String()
	}
	var kinds []string
	for _, c := range dec.By {
		kinds = append(kinds, string(c.Kind))
	}
	return fmt.Sprintf("%s %s", a.Progress, strings.Join(kinds, ","))
}

// want settles and compares the call's outcome.
func (b *bench) want(call, want string) {
	b.t.Helper()
	b.settle()
	if got := b.outcome(call); got != want {
		b.t.Fatalf("call %s: %q, want %q", call, got, want)
	}
}

// lapses are the reasons of all lapses in the chain, in order.
func (b *bench) lapses() []journal.LapseReason {
	b.t.Helper()
	var list []journal.LapseReason
	for _, m := range b.log.Messages() {
		c, err := journal.Decode(m.Data)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, e := range c.Events {
			if l, ok := e.Body.(*journal.Lapse); ok {
				list = append(list, l.Reason)
			}
		}
	}
	return list
}

func (b *bench) wantLapses(want ...journal.LapseReason) {
	b.t.Helper()
	if got := b.lapses(); !slices.Equal(got, want) {
		b.t.Fatalf("lapses %v, want %v", got, want)
	}
}

const scratchPolicy = `
rules:
  - {tool: fs_read, decision: allow}
  - {tool: fs_write, decision: allow, under: scratch}
  - {tool: fs_delete, decision: deny, note: nothing is deleted here}
  - {tool: mail, decision: ask}
  - {tool: push, decision: ask, remember: true}
settings: {idempotent: [fs_read]}
`
