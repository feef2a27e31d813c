package decider_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// bench is one session in memory with a decider, an agent and approvers.
type bench struct {
	t     *testing.T
	log   *journaltest.Memory
	now   time.Time
	chain journal.Chain
	dec   *decider.Decider
	pol   *policy.Policy
}

func newBench(t *testing.T, policyText string) *bench {
	t.Helper()
	b := &bench{t: t, log: journaltest.NewMemory(), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), chain: journal.SessionChain("S")}
	b.log.SetClock(func() time.Time { return b.now })
	b.dec = &decider.Decider{Writer: b.writer(journal.RoleDecider, "decider")}
	b.adopt(policyText)
	return b
}

func (b *bench) writer(role journal.Role, actor string) *journal.Writer {
	w, err := journal.NewWriter(journal.Config{Log: b.log, Role: role, Actor: actor, Now: func() time.Time { return b.now }})
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

func (b *bench) state(chain journal.Chain) *journal.State {
	b.t.Helper()
	st, err := journal.LoadState(b.t.Context(), b.log, chain)
	if err != nil {
		b.t.Fatal(err)
	}
	return st
}

func (b *bench) try(role journal.Role, actor string, bodies ...journal.Body) ([]string, error) {
	b.t.Helper()
	w, st := b.writer(role, actor), b.state(b.chain)
	if _, ok := bodies[0].(*journal.PolicyBytes); ok {
		st = b.state(journal.PolicyChain())
	}
	var events []journal.Event
	var ids []string
	for _, body := range bodies {
		e := w.Event(body)
		events, ids = append(events, e), append(ids, e.ID)
	}
	return ids, w.Append(b.t.Context(), st, w.Now(st), events...)
}

func (b *bench) must(role journal.Role, actor string, bodies ...journal.Body) []string {
	b.t.Helper()
	ids, err := b.try(role, actor, bodies...)
	if err != nil {
		b.t.Fatal(err)
	}
	return ids
}

// adopt puts a policy on its chain, and if the session runs, adopts it there.
func (b *bench) adopt(text string) {
	b.t.Helper()
	pol, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	b.pol = pol
	b.must(journal.RoleDecider, "decider", journal.NewPolicyBytes([]byte(text)))
	if b.state(b.chain).N() == 0 {
		b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession})
	}
	b.must(journal.RoleDecider, "decider", &journal.Adopt{Digest: pol.Digest()})
}

func (b *bench) call(run, tool, args string, edit ...func(*journal.Call)) string {
	b.t.Helper()
	digest, err := decider.CallDigest(b.pol, tool, json.RawMessage(args))
	if err != nil {
		b.t.Fatal(err)
	}
	c := &journal.Call{Agent: "main", Run: run, Kind: journal.CallTool, Tool: tool, Arguments: json.RawMessage(args), Digest: digest}
	for _, e := range edit {
		e(c)
	}
	return b.must(journal.RoleAgent, "agent", c)[0]
}

func (b *bench) settle() *journal.State {
	b.t.Helper()
	st := b.state(b.chain)
	if err := b.dec.Settle(b.t.Context(), st); err != nil {
		b.t.Fatal(err)
	}
	return st
}

func (b *bench) answer(who, call, action string, edit ...func(*journal.Answer)) {
	b.t.Helper()
	st := b.state(b.chain)
	q := st.Question(st.Call(call).Last().Question)
	if q == nil {
		b.t.Fatalf("call %s has no question", call)
	}
	a := &journal.Answer{Question: q.Mark.ID, Action: action, Shown: q.Shown, By: who}
	for _, e := range edit {
		e(a)
	}
	b.must(journal.RoleApprover, who, a)
}

// outcome is the call's newest decision as "outcome kind,kind", or its progress.
func (b *bench) outcome(call string) string {
	b.t.Helper()
	st := b.state(b.chain)
	a := st.Call(call).Last()
	dec := st.Decision(a.Decision)
	if dec == nil {
		return a.Progress.String()
	}
	var kinds []string
	for _, c := range dec.By {
		kinds = append(kinds, string(c.Kind))
	}
	return fmt.Sprintf("%s %s %s", a.Progress, dec.Outcome, strings.Join(kinds, ","))
}

func (b *bench) want(call, want string) {
	b.t.Helper()
	b.settle()
	if got := b.outcome(call); got != want {
		b.t.Fatalf("call %s: %s, want %s", call, got, want)
	}
}

const scratchPolicy = `
rules:
  - {tool: fs_read, decision: allow}
  - {tool: fs_write, decision: allow, under: scratch}
  - {tool: fs_delete, decision: deny, note: nothing is deleted here}
  - {tool: mail, decision: ask}
settings: {idempotent: [fs_read]}
`

func TestDecide(t *testing.T) {
	b := newBench(t, scratchPolicy)
	read := b.call("r1", "fs_read", `{"path":"docs/a"}`)
	b.want(read, "allowed allow rule")
	b.want(b.call("r1", "fs_delete", `{"path":"docs/a"}`), "denied deny rule")
	write := b.call("r1", "fs_write", `{"path":"important/a","content":"x"}`)
	b.want(write, "open")
	second := b.call("r1", "fs_write", `{"path":"important/b","content":"x"}`)
	b.want(second, "open")
	b.answer("alice", write, journal.AlwaysAllow)
	b.want(write, "allowed allow answer,grant")
	if got := b.outcome(second); got != "allowed allow grant" {
		t.Fatalf("the grant left the second question at %s", got)
	}
	mail := b.call("r1", "mail", `{"to":"x"}`)
	b.want(mail, "open")
	b.answer("alice", mail, journal.DenyOnce, func(a *journal.Answer) { a.Note = "use the staging cluster" })
	b.want(mail, "denied deny answer")
	st := b.state(b.chain)
	if msg := st.Decision(st.Call(mail).Last().Decision).Message; !strings.Contains(msg, "use the staging cluster") {
		t.Fatalf("the note does not reach the agent: %s", msg)
	}
	if err := b.dec.Releasable(t.Context(), st, write); err != nil {
		t.Fatal(err)
	}
}
