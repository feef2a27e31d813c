package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// big is a journal of many sessions, as agents, a worker and a person leave it
// behind: each event a commit of its own. Half of the sessions ran two calls
// that a rule allows, half ran one that a person was asked about: ten events a
// session. None of them has ended, since a batch may come back.
type big struct {
	sessions int
	// asking is how many of the sessions, the oldest, have each a question open,
	// and a run that is gone.
	asking int
	// questions is how many questions each of those has; 0: 1.
	questions int
	// undecided has the oldest session end with a call that nobody decided.
	undecided bool
}

// eventsEach is how many events a session of a big journal has.
const eventsEach = 10

// interleaved is how many sessions of a big journal go on at a time.
const interleaved = 64

// filling writes a big journal.
type filling struct {
	big
	log      *embedded.Filler
	agent    *journal.Writer
	decider  *journal.Writer
	approver *journal.Writer
	pol      *policy.Policy
	policies *decider.Policies
}

// fill makes a big journal in a new directory.
func (j big) fill(ctx context.Context, dir string) error {
	log, err := embedded.Fill(ctx, dir)
	if err != nil {
		return err
	}
	f := &filling{big: j, log: log}
	if err := f.write(ctx); err != nil {
		return errors.Join(err, log.Close(ctx))
	}
	return log.Close(ctx)
}

func (f *filling) write(ctx context.Context) error {
	if err := f.begin(ctx); err != nil {
		return err
	}
	var under []*tale
	for i := 0; i < f.sessions || len(under) > 0; {
		for ; i < f.sessions && len(under) < interleaved; i++ {
			under = append(under, f.tale(i))
		}
		going := under[:0]
		for _, t := range under {
			on, err := t.step(ctx)
			if err != nil {
				return fmt.Errorf("session %s: %w", t.st.Chain(), err)
			}
			if on {
				going = append(going, t)
			}
		}
		under = going
	}
	return ctx.Err()
}

// begin makes the writers, and the policy the default.
func (f *filling) begin(ctx context.Context) error {
	for role, w := range map[journal.Role]**journal.Writer{
		journal.RoleAgent: &f.agent, journal.RoleDecider: &f.decider, journal.RoleApprover: &f.approver,
	} {
		var err error
		if *w, err = journal.NewWriter(journal.Config{Log: f.log, Role: role, Actor: string(role)}); err != nil {
			return err
		}
	}
	var err error
	if f.pol, err = policy.Parse("bench.json", []byte(policyText)); err != nil {
		return err
	}
	d := &decider.Decider{Writer: f.decider}
	if _, err := d.Activate(ctx, journal.DefaultPolicyName, f.pol); err != nil {
		return err
	}
	f.policies = d.Policies()
	return nil
}

// tale is one session being written.
type tale struct {
	*filling
	st    *journal.State
	run   string
	steps []step
}

type step func(ctx context.Context, t *tale) error

// step writes the session's next commit, and reports whether there is more.
func (t *tale) step(ctx context.Context) (more bool, err error) {
	do := t.steps[0]
	t.steps = t.steps[1:]
	return len(t.steps) > 0, do(ctx, t)
}

// bigSession is the name of a session of a big journal.
func bigSession(i int) string { return fmt.Sprintf("session-%06d", i) }

func (f *filling) tale(i int) *tale {
	t := &tale{filling: f, st: journal.NewState(journal.SessionChain(bigSession(i))), run: f.agent.NewID()}
	t.steps = []step{open, decide}
	switch {
	case i == 0 && f.undecided:
		t.steps = append(t.steps, calling("fs_delete"))
		return t
	case i < f.asking:
		for range max(f.questions, 1) {
			t.steps = append(t.steps, calling("deploy"), decide)
		}
		return t
	case i%2 == 0:
		t.steps = append(t.steps, calling("deploy"), decide, answer, decide, start, result)
	default:
		for range 2 {
			t.steps = append(t.steps, calling("fs_read"), decide, start, result)
		}
	}
	t.steps = append(t.steps, closeRun)
	return t
}

func (t *tale) append(ctx context.Context, w *journal.Writer, body journal.Body) error {
	return w.Append(ctx, t.st, w.Now(t.st), w.Event(body))
}

// newest is the session's newest call.
func (t *tale) newest() *journal.CallState {
	list := t.st.Calls()
	return list[len(list)-1]
}

func open(ctx context.Context, t *tale) error {
	return t.append(ctx, t.agent, &journal.Opened{Agent: "main", Run: t.run, Kind: journal.KindSession, Follows: journal.DefaultPolicyName})
}

func calling(tool string) step {
	return func(ctx context.Context, t *tale) error {
		n := t.st.N()
		args := json.RawMessage(fmt.Sprintf(`{"path":"notes/%d.txt"}`, n))
		digest, err := decider.CallDigest(t.pol, tool, args)
		if err != nil {
			return err
		}
		return t.append(ctx, t.agent, &journal.Call{Agent: "main", Run: t.run, Kind: journal.CallTool, Tool: tool,
			Arguments: args, Digest: digest, Key: fmt.Sprintf("batch/%d", n)})
	}
}

// decide is what the worker does.
func decide(ctx context.Context, t *tale) error {
	now := t.decider.Now(t.st)
	events, err := decider.Decide(decider.Input{State: t.st, Policies: t.policies, Now: now, NewID: t.decider.NewID})
	if err != nil {
		return err
	}
	return t.decider.Append(ctx, t.st, now, events...)
}

func answer(ctx context.Context, t *tale) error {
	q := t.st.Question(t.newest().Last().Question)
	return t.append(ctx, t.approver, &journal.Answer{Question: q.Mark.ID, Action: journal.AllowOnce, Shown: q.Shown, By: string(journal.RoleApprover)})
}

func start(ctx context.Context, t *tale) error {
	c := t.newest()
	return t.append(ctx, t.agent, &journal.Start{Call: c.Mark.ID, Attempt: c.Last().No, Run: t.run, Decision: c.Last().Decision, Digest: c.Digest})
}

func result(ctx context.Context, t *tale) error {
	c := t.newest()
	return t.append(ctx, t.agent, &journal.Result{Call: c.Mark.ID, Attempt: c.Last().No, Run: t.run,
		Status: journal.StatusOK, Size: 6, Digest: journal.Digest([]byte(`"done"`)), Content: json.RawMessage(`"done"`)})
}

func closeRun(ctx context.Context, t *tale) error {
	return t.append(ctx, t.agent, &journal.Closed{Agent: "main", Run: t.run})
}
