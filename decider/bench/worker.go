package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// caller is an agent that holds no more than its own key: it writes its calls,
// a worker elsewhere decides them, and it starts what it finds allowed.
type caller struct {
	w     *journal.Writer
	check *decider.Decider // derives allows again before they are started
	pol   *policy.Policy
	st    *journal.State
	run   string
	calls int
	feed  <-chan fed
}

type fed struct {
	msg journal.Message
	err error
}

// openCaller begins a session and waits until a worker has given it a policy.
func openCaller(ctx context.Context, w *journal.Writer, pol *policy.Policy, session string) (*caller, error) {
	chain := journal.SessionChain(session)
	c := &caller{w: w, check: &decider.Decider{Writer: w}, pol: pol, st: journal.NewState(chain), run: w.NewID()}
	c.feed = follow(ctx, w.Log(), chain)
	err := c.append(ctx, &journal.Opened{Agent: "main", Run: c.run, Kind: journal.KindSession, Follows: "default"})
	if err != nil {
		return nil, err
	}
	return c, c.until(ctx, func() bool { return c.st.Adopted("main", "") != nil })
}

// follow hands over what is appended to a chain until ctx ends.
func follow(ctx context.Context, log journal.Log, chain journal.Chain) <-chan fed {
	feed := make(chan fed, 64)
	go func() {
		defer close(feed)
		for m, err := range log.Follow(ctx, chain, 0) {
			select {
			case feed <- fed{m, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return feed
}

// until folds what arrives until something is true.
func (c *caller) until(ctx context.Context, there func() bool) error {
	return foldUntil(ctx, c.st, c.feed, there)
}

func foldUntil(ctx context.Context, st *journal.State, feed <-chan fed, there func() bool) error {
	for !there() {
		select {
		case f, ok := <-feed:
			if !ok || f.err != nil {
				return errors.Join(errors.New("following ended"), f.err)
			}
			st.Apply(f.msg)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (c *caller) append(ctx context.Context, bodies ...journal.Body) error {
	_, err := appendAs(ctx, c.w, c.st, bodies...)
	return err
}

// appendAs appends, again after a conflict, and returns the events' ids.
func appendAs(ctx context.Context, w *journal.Writer, st *journal.State, bodies ...journal.Body) ([]string, error) {
	var events []journal.Event
	var ids []string
	for _, body := range bodies {
		e := w.Event(body)
		events, ids = append(events, e), append(ids, e.ID)
	}
	for {
		err := w.Append(ctx, st, w.Now(st), events...)
		if !errors.Is(err, journal.ErrConflict) {
			return ids, err
		}
		if err := journal.Refresh(ctx, w.Log(), st); err != nil {
			return nil, err
		}
	}
}

// call writes a call and waits until it is decided, or asked about.
func (c *caller) call(ctx context.Context, tool string) (id string, err error) {
	c.calls++
	args := json.RawMessage(fmt.Sprintf(`{"path":"notes/%d.txt"}`, c.calls))
	digest, err := decider.CallDigest(c.pol, tool, args)
	if err != nil {
		return "", err
	}
	ids, err := appendAs(ctx, c.w, c.st, &journal.Call{Agent: "main", Run: c.run, Kind: journal.CallTool, Tool: tool,
		Arguments: args, Digest: digest, Key: fmt.Sprintf("k/%d", c.calls)})
	if err != nil {
		return "", err
	}
	id = ids[0]
	return id, c.until(ctx, func() bool {
		a := c.st.Call(id).Last()
		return a.Decision != "" || a.Question != ""
	})
}

// start releases an allowed call, as an agent must: only what it derives itself
// by the policies there are now.
func (c *caller) start(ctx context.Context, call string) error {
	var commit *journal.Prepared
	var problem error
	same, err := c.check.SyncBeside(ctx, func() { commit, problem = c.prepareStart(ctx, call) })
	if err == nil && !same {
		commit, problem = c.prepareStart(ctx, call)
	}
	if err = cmp.Or(err, problem); err != nil {
		return err
	}
	return commit.Append(ctx)
}

func (c *caller) prepareStart(ctx context.Context, call string) (*journal.Prepared, error) {
	in, err := c.check.Input(ctx, c.st)
	if err != nil {
		return nil, err
	}
	of := c.st.Call(call)
	if err := decider.Releasable(in, of); err != nil {
		return nil, err
	}
	return c.w.Prepare(c.st, in.Now, c.w.Event(&journal.Start{
		Call: call, Attempt: of.Last().No, Run: c.run, Decision: of.Last().Decision, Digest: of.Digest}))
}

// finish records that a call did nothing.
func (c *caller) finish(ctx context.Context, call string) error {
	return c.append(ctx, &journal.Result{Call: call, Attempt: c.st.Call(call).Last().No, Run: c.run,
		Status: journal.StatusOK, Size: 6, Digest: journal.Digest([]byte(`"done"`)), Content: json.RawMessage(`"done"`)})
}

// callers are agents of one connection, each with a session, and a worker that
// decides for them.
type callers struct {
	list []*caller
	full bool // calls are allowed and executed, not denied
	stop context.CancelFunc
	over chan error // the worker's end
}

func (p *place) callers(ctx context.Context, n int, full bool) (*callers, error) {
	d, pol, err := p.decider(ctx)
	if err != nil {
		return nil, err
	}
	w, err := p.writer(ctx, journal.RoleAgent)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &callers{full: full, stop: stop, over: make(chan error, 1)}
	problem := make(chan error, 1)
	go func() {
		s.over <- (&decider.Worker{Decider: d, Problem: func(session string, err error) {
			if err != nil {
				select {
				case problem <- fmt.Errorf("session %s: %w", session, err):
				default:
				}
			}
		}}).Run(ctx)
	}()
	for i := range n {
		c, err := openCaller(ctx, w, pol, fmt.Sprintf("served-%d-%d-%t", n, i, full))
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.list = append(s.list, c)
	}
	return s, nil
}

// close ends the worker.
func (s *callers) close() error {
	s.stop()
	if err := <-s.over; !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (s *callers) one(ctx context.Context, i int) error {
	c := s.list[i]
	if !s.full {
		_, err := c.call(ctx, "fs_delete")
		return err
	}
	id, err := c.call(ctx, "fs_read")
	if err != nil {
		return err
	}
	if err := c.start(ctx, id); err != nil {
		return err
	}
	return c.finish(ctx, id)
}

// workerAim is which part of half the raw rate is to be reached, since a call
// and its decision are two commits.
const workerAim = 0.7

// workerFigures are decisions made by a worker for agents that cannot decide.
func workerFigures(ctx context.Context, b *run) error {
	cases := workerCases()
	each := b.time / time.Duration(len(cases))
	for _, c := range cases {
		if err := b.worker(ctx, c, each); err != nil {
			return err
		}
	}
	return nil
}

// workerCase is one figure: agents with a session each, and the appends that
// each call needs.
type workerCase struct {
	agents  int
	how     link
	appends int // 2 if calls are denied, 4 if they are allowed and executed
}

func (c workerCase) name() string {
	what := "denied by a worker"
	if c.appends == 4 {
		what = "allowed by a worker and executed"
	}
	return fmt.Sprintf("calls %s, %s, %s", what, count(c.agents, "agent"), c.how)
}

func workerCases() []workerCase {
	var list []workerCase
	for _, how := range []link{inProcess, overSocket} {
		for _, n := range agentCounts {
			list = append(list, workerCase{n, how, 2})
		}
	}
	return append(list, workerCase{1, inProcess, 4}, workerCase{64, inProcess, 4})
}

func (b *run) worker(ctx context.Context, c workerCase, d time.Duration) error {
	raw, err := b.open(ctx, c.how)
	if err != nil {
		return err
	}
	defer raw.close()
	p, err := b.open(ctx, c.how)
	if err != nil {
		return err
	}
	defer p.close()
	f, err := measureWorker(ctx, raw, p, c, d)
	if err == nil {
		b.add(f)
	}
	return err
}

func measureWorker(ctx context.Context, raw, p *place, c workerCase, d time.Duration) (Figure, error) {
	r, err := raw.publishers(ctx, c.agents)
	if err != nil {
		return Figure{}, err
	}
	s, err := p.callers(ctx, c.agents, c.appends == 4)
	if err != nil {
		return Figure{}, err
	}
	defer s.close()
	d /= 2 * rounds
	list, err := inTurn(
		func() (float64, error) { rate, err := r.rate(ctx, d); return rate / float64(c.appends), err },
		func() (float64, error) { return together(ctx, c.agents, d, s.one) })
	return Figure{Name: c.name(), Unit: "1/s", Aim: workerAim}.of(list), err
}
