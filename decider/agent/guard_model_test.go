package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"decisionjournal/approver"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// lenient allows what rules ask about.
const lenient = `
rules:
  - {tool: "*", decision: allow}
settings: {interrupted: retry}
`

// model is several agents of one session with everything that can happen to
// them: restarts, takeovers, answers of all kinds, revocations, changes of
// policy, faults of the journal and of the provider.
type model struct {
	*world
	t       *rapid.T
	guards  map[string]*guard // by agent: the newest
	all     []*guard
	tickets []*agent.Ticket
	plans   map[*guard]*plan

	folded  sync.Mutex
	fold    *journal.State
	started map[string]int // starts in the fold, by identity
}

// plan is the fault that a guard's journal meets next.
type plan struct{ next chan journaltest.Fault }

func (p *plan) take(_ int, op string) journaltest.Fault {
	select {
	case f := <-p.next:
		return f
	default:
		return journaltest.Fault{}
	}
}

func TestGuardModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{world: newWorld(rt), t: rt, guards: map[string]*guard{}, plans: map[*guard]*plan{},
			fold: journal.NewState(journal.SessionChain(session)), started: map[string]int{}}
		m.policy = nil
		m.activate(rules)
		m.witness.before = m.watch
		m.reopen("main")
		rt.Repeat(map[string]func(*rapid.T){
			"open":     m.open,
			"submit":   m.submit,
			"again":    m.submit,
			"more":     m.submit,
			"answer":   m.reply,
			"reply":    m.reply,
			"revoke":   m.revoke,
			"policy":   m.change,
			"fault":    m.fault,
			"provider": m.provider,
			"end":      m.close,
		})
		m.finish()
	})
}

func (m *model) agent() string {
	return rapid.SampledFrom([]string{"main", "other"}).Draw(m.t, "agent")
}

// guard is the newest guard of an agent, which is opened if there is none.
func (m *model) guard() *guard {
	name := m.agent()
	if m.guards[name] == nil {
		m.reopen(name)
	}
	return m.guards[name]
}

// open is a restart or a takeover.
func (m *model) open(*rapid.T) {
	name := m.agent()
	if g := m.guards[name]; g != nil {
		switch rapid.SampledFrom([]string{"killed", "closed", "paused", "forced"}).Draw(m.t, "older run") {
		case "killed":
			g.kill()
		case "closed":
			m.shut(g)
		case "paused", "forced":
			g.mute()
		}
	}
	m.reopen(name)
}

func (m *model) reopen(name string) {
	p, faults := m.process(), &plan{make(chan journaltest.Fault, 1)}
	p.Log = &journaltest.Faulty{Log: m.mem, Plan: faults.take}
	g, err := m.tryOpen(p, as(name), func(cfg *agent.Config) { cfg.Headless = rapid.IntRange(0, 9).Draw(m.t, "headless") == 0 })
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	m.guards[name], m.plans[g] = g, faults
	m.all = append(m.all, g)
}

func (m *model) submit(*rapid.T) {
	g := m.guard()
	var batch []agent.Request
	for range rapid.IntRange(1, 3).Draw(m.t, "calls") {
		r := call(rapid.SampledFrom([]string{"free", "redo", "write", "every", "never"}).Draw(m.t, "tool"),
			fmt.Sprintf(`{"path":"d/%d"}`, rapid.IntRange(0, 2).Draw(m.t, "argument")))
		if n := rapid.IntRange(0, 5).Draw(m.t, "key"); n < 3 {
			r.Key = fmt.Sprintf("b/%d", n)
		}
		r.Retry = rapid.Bool().Draw(m.t, "retry")
		batch = append(batch, r)
	}
	m.tickets = append(m.tickets, g.Submit(context.Background(), batch)...)
}

// reply answers one open question, in one way or another.
func (m *model) reply(*rapid.T) {
	var owed []*journal.QuestionState
	for _, q := range m.questions() {
		if !q.Over && len(q.Answers) == 0 {
			owed = append(owed, q)
		}
	}
	if len(owed) == 0 {
		return
	}
	q := owed[rapid.IntRange(0, len(owed)-1).Draw(m.t, "question")]
	action := rapid.SampledFrom([]string{journal.AllowOnce, journal.AllowOnce, journal.AlwaysAllow, journal.AlwaysAllow, journal.DenyOnce, journal.AlwaysDeny}).Draw(m.t, "action")
	req := approver.Request{Action: action}
	if action == journal.AlwaysAllow {
		req.Uses = rapid.IntRange(0, 2).Draw(m.t, "uses")
	}
	_, err := approver.Answer(context.Background(), m.writer(m.mem, journal.RoleApprover, "ann"), approver.Ref{Session: session, Question: q.Mark.ID}, req)
	var settled *approver.SettledError
	var not *approver.NotOfferedError
	if err != nil && !errors.As(err, &settled) && !errors.As(err, &not) {
		m.t.Fatal(err)
	}
}

func (m *model) revoke(*rapid.T) {
	w := m.writer(m.mem, journal.RoleApprover, "ann")
	for _, g := range m.state().Grants() {
		if g.Ended == "" {
			st := m.state() // it may be used up or revoked meanwhile; then nothing is written
			err := w.Append(context.Background(), st, w.Now(st), w.Event(&journal.Revoke{Grant: g.Mark.ID, Reason: "enough"}))
			if err != nil && !errors.Is(err, journal.ErrConflict) && !errors.Is(err, journal.ErrInvalid) {
				m.t.Fatal(err)
			}
			return
		}
	}
}

func (m *model) change(*rapid.T) {
	m.activate(rapid.SampledFrom([]string{rules, rules, strict, lenient}).Draw(m.t, "policy"))
}

// fault lets one of the next steps of a guard's journal fail.
func (m *model) fault(*rapid.T) {
	f := journaltest.Fault{
		Kind: rapid.SampledFrom([]journaltest.Kind{journaltest.LoseAck, journaltest.LoseSend, journaltest.Conflict,
			journaltest.Outrun, journaltest.Delay, journaltest.Disconnect, journaltest.CutLoad}).Draw(m.t, "fault"),
		Delay: time.Millisecond,
		Steps: rapid.SampledFrom([]int{1, 2, 50}).Draw(m.t, "steps"), // 50: for longer than an append is tried
		Store: m.outrun,
	}
	select {
	case m.plans[m.guard()].next <- f:
	default:
	}
}

// outrun appends something harmless before the commit at hand.
func (m *model) outrun(ctx context.Context, log journal.Log, sub journal.Subject, _ uint64) error {
	if sub.Chain.IsPolicy() {
		return nil
	}
	w := m.writer(log, journal.RoleDecider, "decider")
	st, run := m.state(), w.NewID()
	return w.Append(ctx, st, w.Now(st), w.Event(&journal.Opened{Agent: run, Run: run, Kind: journal.KindSession}), w.Event(&journal.Closed{Agent: run, Run: run}))
}

// provider changes how executions end.
func (m *model) provider(*rapid.T) {
	end := rapid.SampledFrom([]agent.Result{{}, {}, {}, {Content: agent.Text("no"), IsError: true},
		{Content: agent.Text("perhaps"), Unknown: true}, {Content: agent.Text("gone"), NotRun: true}}).Draw(m.t, "result")
	m.witness.mu.Lock()
	defer m.witness.mu.Unlock()
	m.witness.after = func(context.Context, agent.Call) agent.Result { return end }
	m.witness.before = m.watch
	if end.NotRun {
		m.witness.before = func(c agent.Call) agent.Result { m.watch(c); return end }
	}
}

// watch is called before each effect: it must have been started.
func (m *model) watch(c agent.Call) agent.Result {
	ran := m.witness.count(c) // first: what is counted here was started before
	if started := m.starts(identity(c)); ran >= started {
		m.Errorf("%s: effect %d of %d starts", identity(c), ran+1, started)
	}
	return agent.Result{}
}

// starts counts the starts in the chain of calls that look alike.
func (m *model) starts(id string) int {
	m.folded.Lock()
	defer m.folded.Unlock()
	m.refold()
	return m.started[id]
}

func (m *model) questions() []*journal.QuestionState {
	m.folded.Lock()
	defer m.folded.Unlock()
	m.refold()
	return m.fold.Questions()
}

// refold takes over what was appended since; folded is held.
func (m *model) refold() {
	for msg, err := range m.mem.Load(context.Background(), m.fold.Chain(), m.fold.LastSeq()) {
		if err != nil {
			m.t.Fatal(err)
		}
		if v, _ := m.fold.Apply(msg); v != journal.Valid {
			continue
		}
		commit, err := journal.Decode(msg.Data)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, e := range commit.Events {
			if s, ok := e.Body.(*journal.Start); ok {
				c := m.fold.Call(s.Call)
				m.started[identity(agent.Call{Tool: c.Tool, Arguments: c.Arguments})]++
			}
		}
	}
}

func (m *model) close(*rapid.T) {
	name := m.agent()
	if g := m.guards[name]; g != nil {
		m.shut(g)
		m.guards[name] = nil
	}
}

// shut closes a guard in order; the journal may fail that.
func (m *model) shut(g *guard) {
	if err := g.Close(context.Background()); err != nil && !errors.Is(err, journal.ErrUnavailable) && !errors.Is(err, journal.ErrUnknown) {
		m.t.Fatalf("close: %v", err)
	}
	g.kill() // if it could not end its run
}

// finish ends everything and looks at what is left. The audit follows.
func (m *model) finish() {
	for _, g := range m.all {
		m.shut(g)
	}
	for _, ticket := range m.tickets {
		if o := m.wait(ticket); len(o.Result.Content) == 0 || o.Kind == agent.Failed && !o.Result.IsError {
			m.t.Errorf("%s came out as %+v", ticket.Request.Tool, o)
		}
	}
	st := m.state()
	if list, n := st.Anomalies(); n > 0 {
		m.t.Errorf("void: %+v", list)
	}
	for _, c := range st.Calls() {
		m.checkAttempts(st, c)
		alike := agent.Call{Tool: c.Tool, Arguments: c.Arguments}
		if ran, started := m.witness.count(alike), m.starts(identity(alike)); ran > started {
			m.t.Errorf("%s: %d effects of %d starts", identity(alike), ran, started)
		}
	}
}

// checkAttempts: a call is started again only if its interruption was answered
// so, or its policy says so.
func (m *model) checkAttempts(st *journal.State, c *journal.CallState) {
	started := false
	for _, a := range c.Attempts {
		if a.Start == "" {
			continue
		}
		d := st.Decision(a.Decision)
		if d == nil || d.Outcome != journal.Allow {
			m.t.Errorf("%s attempt %d was started without an allow", c.Tool, a.No)
			continue
		}
		q := st.Question(a.Question)
		asked := q != nil && q.Reason == journal.AskInterrupted
		if started && !asked && !m.mayRetry(d.Policy, c.Tool) {
			m.t.Errorf("%s attempt %d was started again by %+v", c.Tool, a.No, d.By)
		}
		started = true
	}
}

func (m *model) mayRetry(digest, tool string) bool {
	return tool == "redo" && digest == parse(m, rules).Digest() || digest == parse(m, lenient).Digest()
}
