package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// DefaultPolicyName is the policy name that a new session follows if it is
// given no policy of its own.
const DefaultPolicyName = journal.DefaultPolicyName

// Config makes a Guard. Decider and Session are required; every other zero
// value works.
type Config struct {
	// Decider decides inline, and its writer writes the agent's events too. Its
	// process is trusted as a decider.
	Decider *decider.Decider
	Session string
	Agent   string // "" is main
	Layer   string
	Label   string
	// Policy is adopted before anything is decided, unless the session has it
	// already. Nil: the adopted one stays; a new session follows the name
	// "default" and begins with the built-in policy.
	Policy *policy.Policy
	// Provider executes what is allowed. Nil: calls are decided and not started.
	Provider Provider
	// Headless refuses what would need a person.
	Headless bool
	// Takeover ends an older run of the agent even if its process answers.
	Takeover bool
	// Spool is a directory for results that could not be appended; "": none.
	Spool string
	// PingWait is how long an older run may take to answer; 0: 2 s.
	PingWait time.Duration
	Logger   *slog.Logger // nil: none
}

const defaultPingWait = 2 * time.Second

// ErrRunLives: an older run of the agent is alive.
var ErrRunLives = errors.New("another run of the agent is alive")

// ErrEnded: the session was ended and its name is not used again.
var ErrEnded = errors.New("the session has ended")

// Request is one call an agent wants made.
type Request struct {
	Call
	Key    string // names the call for good within session, agent and layer; "" if it has no name
	Ref    string // the host's own id
	Reason string // the model's own words
	CWD    string
	Retry  bool // judge a denied call again
}

// Kind says how a call came out. The zero Kind is an error.
type Kind uint8

// How a call can come out.
const (
	Failed   Kind = iota // it could not be judged, started or recorded; Text says why
	Executed             // by this run
	Recorded             // finished before; the result is the journal's
	Denied
	Allowed // decided only: there is no provider
	Pending // a person is waited for
)

// Outcome is how a call came out.
type Outcome struct {
	Kind     Kind
	Result   Result
	Call     string // id in the journal, "" if it never got there
	Question string // of a pending call
	Warning  string // the result is real, but something about it is to be known
	Err      error  // of a Failed call: why the journal or the provider failed; nil if it is the call's own fault
}

// Ticket is one submitted call on its way.
type Ticket struct {
	Request Request
	done    chan struct{}
	outcome Outcome

	arguments json.RawMessage // in canonical form
	call      string          // id in the journal
	attempt   int             // that executes, or 0
	recorded  bool            // the call was finished before it was submitted
}

// Done is closed when the outcome is there.
func (t *Ticket) Done() <-chan struct{} { return t.done }

// Outcome is how the call came out. It may be read once Done is closed.
func (t *Ticket) Outcome() Outcome { return t.outcome }

// Guard judges the calls of one run of an agent by the journal and executes
// what is allowed. Waiting for a person is a state of the journal: a Guard can
// die at any moment, and the next one goes on. Its methods may run
// concurrently.
type Guard struct {
	cfg     Config
	log     *slog.Logger
	run     string
	notices []string

	running sync.WaitGroup // executions under way

	// Owned by the loop.
	st      *journal.State
	waiting map[*Ticket]struct{}
	unsure  []*Ticket // that a start was sent for, and it is not known to be stored
	again   bool      // deciding failed, and is tried again
	closing bool      // nothing is taken or started any more
	failed  error     // the journal cannot be followed

	feed     chan fed           // what others append; nil while nothing is followed
	unfollow context.CancelFunc // ends the feed
	idle     int                // messages fed since a call last waited for one

	todo  chan func() // work for the loop
	stop  context.CancelFunc
	ended chan struct{} // closed when the loop is over
}

type fed struct {
	msg journal.Message
	err error
}

// Open begins a run of the agent in the session, taking over from an older one
// that does not answer. Errors: ErrRunLives, ErrEnded, those of a Log, and one
// that says a session is broken or too new and what to do.
func Open(ctx context.Context, cfg Config) (*Guard, error) {
	if cfg.Agent == "" {
		cfg.Agent = "main"
	}
	if cfg.PingWait == 0 {
		cfg.PingWait = defaultPingWait
	}
	if err := errors.Join(journal.CheckName("session", cfg.Session), journal.CheckName("agent", cfg.Agent)); err != nil {
		return nil, err
	}
	g := &Guard{cfg: cfg, log: logger(cfg.Logger), waiting: map[*Ticket]struct{}{},
		todo: make(chan func()), ended: make(chan struct{})}
	if err := g.begin(ctx); err != nil {
		return nil, err
	}
	if err := g.sendSpooled(ctx); err != nil {
		g.log.Warn("spooled results are kept", slog.Any("error", err))
	}
	return g, g.goOn(ctx)
}

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// goOn starts the loop. It outlives ctx: it ends with Close.
func (g *Guard) goOn(ctx context.Context) error {
	loop, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.stop = stop
	if p, ok := g.writer().Log().(journal.Presence); ok {
		if err := p.Answer(loop, g.subject(), g.run); err != nil {
			stop()
			return fmt.Errorf("presence: %w", err)
		}
	}
	go g.loop(loop)
	return nil
}

func (g *Guard) writer() *journal.Writer { return g.cfg.Decider.Writer }

func (g *Guard) subject() journal.Subject {
	p := g.writer().Principal()
	return journal.Subject{Chain: journal.SessionChain(g.cfg.Session), Role: p.Role, Actor: p.Actor}
}

// Run is the id of the guard's run.
func (g *Guard) Run() string { return g.run }

// Notices say what Open did that a person should know: a policy adopted, a run
// taken over.
func (g *Guard) Notices() []string { return g.notices }

// begin loads the session and opens the run.
func (g *Guard) begin(ctx context.Context) error {
	d := g.cfg.Decider
	if err := d.Sync(ctx); err != nil {
		return err
	}
	st, err := journal.LoadState(ctx, d.Writer.Log(), journal.SessionChain(g.cfg.Session))
	if err != nil {
		return err
	}
	g.st, g.run = st, d.Writer.NewID()
	digest, err := g.policyOnChain(ctx)
	if err != nil {
		return err
	}
	return g.retry(ctx, func(int) error { return g.openRun(ctx, digest) })
}

// policyOnChain sees to it that the bytes the session will begin with, or
// change to, are on the policy chain, and returns their digest; "" if the
// adopted policy stays.
func (g *Guard) policyOnChain(ctx context.Context) (string, error) {
	d := g.cfg.Decider
	pol := g.cfg.Policy
	if pol == nil {
		if g.st.Adopted(g.cfg.Agent, g.cfg.Layer) != nil || d.Policies().Active(DefaultPolicyName) != nil {
			return "", nil
		}
		pol = policy.Default()
	}
	return pol.Digest(), d.Publish(ctx, pol)
}

// openRun appends opened, with the adoption if there is one to make.
func (g *Guard) openRun(ctx context.Context, digest string) error {
	st := g.st
	g.notices = nil
	if err := fit(st); err != nil {
		return err
	}
	takeover, err := g.mayTakeOver(ctx)
	if err != nil {
		return err
	}
	w := g.writer()
	opened := &journal.Opened{Agent: g.cfg.Agent, Run: g.run, Kind: journal.KindSession, Label: g.cfg.Label,
		Headless: g.cfg.Headless, Takeover: takeover}
	if st.Kind() == "" && g.cfg.Policy == nil {
		opened.Follows = DefaultPolicyName
	}
	events := []journal.Event{w.Event(opened)}
	before := st.Adopted(g.cfg.Agent, g.cfg.Layer)
	if digest != "" && (before == nil || before.Digest != digest) {
		events = append(events, w.Event(&journal.Adopt{Digest: digest}))
	}
	if err := w.Append(ctx, st, w.Now(st), events...); err != nil {
		return err
	}
	if before == nil {
		g.notices = append(g.notices, g.startsUnder(digest))
	}
	if len(events) > 1 && before != nil {
		g.notices = append(g.notices, fmt.Sprintf("policy %s adopted instead of %s", short(digest), short(before.Digest)))
	}
	return nil
}

// startsUnder says which policy a new session is judged by.
func (g *Guard) startsUnder(digest string) string {
	switch {
	case g.cfg.Policy != nil:
		return fmt.Sprintf("session %s begins under policy %s", g.cfg.Session, short(digest))
	case digest == "":
		return fmt.Sprintf("session %s begins under the policy active as %s", g.cfg.Session, DefaultPolicyName)
	}
	return fmt.Sprintf("session %s begins under the built-in policy", g.cfg.Session)
}

func short(digest string) string { return digest[:min(len(digest), len(journal.DigestPrefix)+12)] }

// fit refuses a session that may not be appended to.
func fit(st *journal.State) error {
	switch cond, why := st.Condition(); {
	case cond == journal.Broken:
		return fmt.Errorf("session %s is broken at message %d: %s; see what is lost with replay show, then run decider repair %s", st.Chain(), why.Seq, why.Why, st.Chain())
	case cond == journal.TooNew:
		return fmt.Errorf("session %s was written by a newer program (message %d: %s); use that version", st.Chain(), why.Seq, why.Why)
	case st.Ended() != nil:
		return fmt.Errorf("%w: %s, at %s; use another name", ErrEnded, st.Chain(), st.Ended().Time)
	case st.Kind() == journal.KindBook:
		return fmt.Errorf("%s is a book of standing grants, not a session; use another name", st.Chain())
	}
	return nil
}

// mayTakeOver reports whether older runs of the agent are there to take over
// from. One whose process answers is left alone, unless that is forced.
func (g *Guard) mayTakeOver(ctx context.Context) (bool, error) {
	live := g.st.LiveRuns(g.cfg.Agent)
	for _, r := range live {
		if !g.cfg.Takeover && g.alive(ctx, r) {
			return false, fmt.Errorf("%w: run %s of agent %s in session %s, since %s; wait for it, use another --agent, or force it with --takeover",
				ErrRunLives, r.Run, g.cfg.Agent, g.cfg.Session, r.Mark.Time)
		}
	}
	switch {
	case len(live) > 0 && g.cfg.Takeover:
		g.notices = append(g.notices, fmt.Sprintf("taken over from run %s", live[len(live)-1].Run))
	case len(live) > 0:
		g.notices = append(g.notices, fmt.Sprintf("taken over from run %s, which does not answer", live[len(live)-1].Run))
	}
	return len(live) > 0, nil
}

func (g *Guard) alive(ctx context.Context, r *journal.RunState) bool {
	p, ok := g.writer().Log().(journal.Presence)
	if !ok {
		return false
	}
	there, err := p.Ping(ctx, journal.Subject{Chain: g.st.Chain(), Role: r.Mark.By.Role, Actor: r.Mark.By.Actor}, r.Run, g.cfg.PingWait)
	return there || err != nil
}

// maxTries bounds how often one thing is tried again after a conflict.
const maxTries = 200

// retry does something until it no longer conflicts, folding what came first
// in between.
func (g *Guard) retry(ctx context.Context, do func(try int) error) error {
	done, err := g.writer().Turn(ctx, g.st)
	if err != nil {
		return err
	}
	defer done()
	for try := 0; ; try++ {
		err := do(try)
		if !errors.Is(err, journal.ErrConflict) || try == maxTries {
			return err
		}
		if try > 0 { // at first the state was merely behind
			if err := g.writer().Pause(ctx, try); err != nil {
				return err
			}
		}
		if err := journal.Refresh(ctx, g.writer().Log(), g.st); err != nil {
			return err
		}
	}
}

// closeGrace is how long ending the run may take once Close's context is over.
const closeGrace = 5 * time.Second

// Close takes and starts no more calls, waits for executions under way until
// ctx ends, and then ends the run. Calls that are still open stay so, for a
// later run; their tickets come out as pending. A result that comes after that
// is spooled.
func (g *Guard) Close(ctx context.Context) error {
	g.do(func() { g.closing = true })
	idle := make(chan struct{})
	go func() { g.running.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-ctx.Done():
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
	}
	var err error
	stopped := g.do(func() {
		for t := range g.waiting {
			g.pend(t)
		}
		err = g.retry(ctx, func(int) error {
			if !fitToRun(g.st, g.run) {
				return nil
			}
			if err := g.takeBack(ctx); err != nil {
				return err
			}
			w := g.writer()
			return w.Append(ctx, g.st, w.Now(g.st), w.Event(&journal.Closed{Agent: g.cfg.Agent, Run: g.run}))
		})
	})
	g.stop()
	<-g.ended
	if !stopped {
		return nil
	}
	return err
}

// do has the loop run f and waits for it. It is false if the loop is over.
func (g *Guard) do(f func()) bool {
	done := make(chan struct{})
	select {
	case g.todo <- func() { f(); close(done) }:
		<-done
		return true
	case <-g.ended:
		return false
	}
}

// errorOutcome is a call that came to nothing, in words for the model.
func errorOutcome(call, format string, args ...any) Outcome {
	return Outcome{Kind: Failed, Call: call, Result: errorResult(fmt.Sprintf(format, args...))}
}

func faultOutcome(call string, err error, format string, args ...any) Outcome {
	o := errorOutcome(call, format, args...)
	o.Err = err
	return o
}

func errorResult(text string) Result { return Result{Content: Text(text), IsError: true} }

// canonicalArguments are a call's arguments in canonical form; what is not a
// JSON object is refused.
func canonicalArguments(raw json.RawMessage) (json.RawMessage, error) {
	c, err := journal.Canonical(raw)
	if err != nil {
		return nil, fmt.Errorf("the arguments cannot be read: %w", err)
	}
	if len(c) == 0 || c[0] != '{' {
		return nil, errors.New("the arguments are not a JSON object")
	}
	return c, nil
}
