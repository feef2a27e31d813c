package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"decisionjournal/approver"
	"decisionjournal/decider"
	"decisionjournal/decider/agent"
	"decisionjournal/decider/policy"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// The rules of most tests: free and redo run, never is denied, all else asks.
const rules = `
rules:
  - {tool: free, decision: allow}
  - {tool: redo, decision: allow}
  - {tool: never, decision: deny, note: it breaks things}
  - {tool: every, decision: ask}
settings:
  idempotent: [redo]
`

// strict denies what rules let run or asked about.
const strict = `
rules:
  - {tool: "*", decision: deny, note: closed for today}
`

// session is the session of the tests.
const session = "s1"

// patience is how long a test waits for what must happen; it only ever runs
// out in a test that fails.
const patience = 10 * time.Second

// tb is what a world needs of a test, or of one check of a property.
type tb interface {
	Helper()
	Cleanup(func())
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

// world is a journal in memory with the processes that use it.
type world struct {
	tb
	log     func(journal.Role) journal.Log
	mem     *journaltest.Memory // behind it, if it is in memory
	witness *witness
	policy  *policy.Policy
	session string
	dir     string        // of a journal on disk
	forged  bool          // no audit at the end: the test forges
	healed  chan struct{} // closed when a test's fault is over

	closers []func()

	mu    sync.Mutex
	there map[string]*process // by run: who answers pings for it
}

func newWorld(t tb) *world {
	mem := journaltest.NewMemory()
	w := &world{tb: t, log: func(journal.Role) journal.Log { return mem }, mem: mem, witness: &witness{}, policy: parse(t, rules), session: session}
	t.Cleanup(w.end)
	return w
}

// last is done at the test's end, after the audit.
func (w *world) last(f func()) { w.closers = append(w.closers, f) }

func (w *world) end() {
	w.Helper()
	w.audit()
	for _, f := range w.closers {
		f()
	}
}

func parse(t tb, text string) *policy.Policy {
	t.Helper()
	pol, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return pol
}

// audit is the end of every test: everything in the journal follows, and
// nothing that the product wrote is without effect.
func (w *world) audit() {
	w.Helper()
	if w.forged {
		return
	}
	j, err := replay.Load(context.Background(), w.log(journal.RoleAuditor))
	if err != nil {
		w.Fatal(err)
	}
	r, err := j.Audit(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range r.Sessions {
		if s.FaultCount > 0 || s.AnomalyCount > 0 {
			w.Errorf("audit of %s: faults %+v, anomalies %+v", s.Session, s.Faults, s.Anomalies)
		}
	}
}

// state is the session's fold.
func (w *world) state() *journal.State {
	w.Helper()
	st, err := journal.LoadState(context.Background(), w.log(journal.RoleAuditor), journal.SessionChain(w.session))
	if err != nil {
		w.Fatal(err)
	}
	return st
}

// events are all valid events of a type, in chain order.
func events[B journal.Body](w *world) []B {
	var list []B
	st := journal.NewState(journal.SessionChain(w.session))
	for m, err := range w.log(journal.RoleAuditor).Load(context.Background(), st.Chain(), 0) {
		if err != nil {
			w.Fatal(err)
		}
		if v, _ := st.Apply(m); v != journal.Valid {
			continue
		}
		commit, err := journal.Decode(m.Data)
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range commit.Events {
			if b, ok := e.Body.(B); ok {
				list = append(list, b)
			}
		}
	}
	return list
}

// writer is a principal that writes by a log.
func (w *world) writer(log journal.Log, role journal.Role, actor string) *journal.Writer {
	w.Helper()
	budget := time.Second // spent by a fault that hangs, and nothing else
	if w.dir != "" {
		budget = 0 // a disk takes the time it takes
	}
	wr, err := journal.NewWriter(journal.Config{Log: log, Role: role, Actor: actor, Budget: budget, Wait: waiting(log)})
	if err != nil {
		w.Fatal(err)
	}
	return wr
}

// tries of one append while a test makes its process's journal fail.
const tries = 5

// waiting pauses before another try, and not at all for a process that is dead,
// or for an append after so many tries.
func waiting(log journal.Log) func(context.Context, int) error {
	return func(ctx context.Context, try int) error {
		if p, ok := log.(*process); ok {
			if p.dead() != nil {
				return p.dead()
			}
			if _, append := ctx.Deadline(); append && p.failing() && try+1 >= tries {
				return errors.New("the test lets it fail for good")
			}
		}
		select {
		case <-time.After(min(time.Millisecond<<min(try, 4), 10*time.Millisecond)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// must appends events of a principal, whatever comes in between.
func (w *world) must(role journal.Role, actor string, bodies ...journal.Body) {
	w.Helper()
	wr := w.writer(w.log(role), role, actor)
	var list []journal.Event
	for _, b := range bodies {
		list = append(list, wr.Event(b))
	}
	st := w.state()
	for {
		err := wr.Append(context.Background(), st, wr.Now(st), list...)
		if err == nil {
			return
		}
		if !errors.Is(err, journal.ErrConflict) {
			w.Fatal(err)
		}
		if err := journal.Refresh(context.Background(), wr.Log(), st); err != nil {
			w.Fatal(err)
		}
	}
}

// settle has another process decide what is open.
func (w *world) settle() {
	w.Helper()
	d := &decider.Decider{Writer: w.writer(w.log(journal.RoleDecider), journal.RoleDecider, "decider")}
	if err := d.Settle(context.Background(), w.state()); err != nil {
		w.Fatal(err)
	}
}

// activate makes a policy the current one of the default name.
func (w *world) activate(text string) {
	w.Helper()
	d := &decider.Decider{Writer: w.writer(w.log(journal.RoleDecider), journal.RoleDecider, "decider")}
	if _, err := d.Activate(context.Background(), agent.DefaultPolicyName, parse(w, text)); err != nil {
		w.Fatal(err)
	}
}

// guard is a guard with the process it runs in.
type guard struct {
	*agent.Guard
	*process
}

// tryOpen opens a guard in a process of its own.
func (w *world) tryOpen(p *process, change ...func(*agent.Config)) (*guard, error) {
	cfg := agent.Config{
		Decider: &decider.Decider{Writer: w.writer(p, journal.RoleDecider, "decider")},
		Session: w.session, Policy: w.policy, Provider: w.witness, PingWait: 5 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&cfg)
	}
	g, err := agent.Open(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	w.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.kill()
		g.Close(ctx)
	})
	return &guard{Guard: g, process: p}, nil
}

func (w *world) open(change ...func(*agent.Config)) *guard {
	w.Helper()
	g, err := w.tryOpen(w.process(), change...)
	if err != nil {
		w.Fatal(err)
	}
	return g
}

// close ends the guard's run in order.
func (g *guard) close() {
	g.w.Helper()
	if err := g.Close(context.Background()); err != nil {
		g.w.Fatal(err)
	}
}

// restart is the next run, after the guard was killed.
func (g *guard) restart(change ...func(*agent.Config)) *guard {
	g.w.Helper()
	g.kill()
	return g.w.open(change...)
}

func headless(cfg *agent.Config)  { cfg.Headless = true }
func forced(cfg *agent.Config)    { cfg.Takeover = true }
func following(cfg *agent.Config) { cfg.Policy = nil }

func under(pol *policy.Policy) func(*agent.Config) {
	return func(cfg *agent.Config) { cfg.Policy = pol }
}

func as(name string) func(*agent.Config) { return func(cfg *agent.Config) { cfg.Agent = name } }

// call is a request without a key; its arguments are JSON.
func call(tool, arguments string) agent.Request {
	return agent.Request{Call: agent.Call{ID: tool, Tool: tool, Arguments: json.RawMessage(arguments)}}
}

func keyed(key, tool, arguments string) agent.Request {
	r := call(tool, arguments)
	r.ID, r.Key = key, key
	return r
}

func retried(r agent.Request) agent.Request {
	r.Retry = true
	return r
}

// submit submits one call.
func (g *guard) submit(r agent.Request) *agent.Ticket {
	return g.Submit(context.Background(), []agent.Request{r})[0]
}

// wait is a ticket's outcome.
func (w *world) wait(t *agent.Ticket) agent.Outcome {
	w.Helper()
	select {
	case <-t.Done():
		return t.Outcome()
	case <-time.After(patience):
		w.Fatalf("call %s has no outcome", t.Request.ID)
		return agent.Outcome{}
	}
}

func isDone(t *agent.Ticket) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}

// run submits one call and waits for its outcome.
func (g *guard) run(r agent.Request) agent.Outcome {
	g.w.Helper()
	return g.w.wait(g.submit(r))
}

// question is what the ticket waits for.
func (g *guard) question(t *agent.Ticket) string {
	g.w.Helper()
	q := g.Question(t)
	if q == "" {
		if isDone(t) {
			g.w.Fatalf("call %s is not asked: %s", t.Request.ID, text(t.Outcome()))
		}
		g.w.Fatalf("call %s is not asked", t.Request.ID)
	}
	return q
}

// answer answers a question as ann.
func (w *world) answer(question, action string) {
	w.Helper()
	w.answerWith(question, approver.Request{Action: action})
}

func (w *world) answerWith(question string, req approver.Request) {
	w.Helper()
	_, err := approver.Answer(context.Background(), w.writer(w.log(journal.RoleApprover), journal.RoleApprover, "ann"), approver.Ref{Session: w.session, Question: question}, req)
	if err != nil {
		w.Fatal(err)
	}
}

func always(uses int) approver.Request {
	return approver.Request{Action: journal.AlwaysAllow, Uses: uses}
}

// text is what the model gets.
func text(o agent.Outcome) string {
	var s string
	if json.Unmarshal(o.Result.Content, &s) != nil {
		return string(o.Result.Content)
	}
	return s
}

// want holds an outcome against its kind and a part of its text.
func (w *world) want(o agent.Outcome, kind agent.Kind, part string) {
	w.Helper()
	if o.Kind != kind || !strings.Contains(text(o), part) {
		w.Errorf("kind %d, %q (%v); want kind %d, %q", o.Kind, text(o), o.Err, kind, part)
	}
	isError := kind != agent.Executed && kind != agent.Recorded && kind != agent.Allowed
	if isError && !o.Result.IsError {
		w.Errorf("%q is no error", text(o))
	}
}

// ran is how often the witness saw a call.
func (w *world) ran(r agent.Request, want int) {
	w.Helper()
	if got := w.witness.count(r.Call); got != want {
		w.Errorf("%s %s ran %d times, want %d", r.Tool, r.Arguments, got, want)
	}
}
