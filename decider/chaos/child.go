package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"decisionjournal/approver"
	"decisionjournal/decider"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/journaltest/invariants"
	"decisionjournal/journal/stream/embedded"
)

// orders are what one process does, as it is told on its command line.
type orders struct {
	Role       journal.Role `json:"role"` // decider for an agent that decides inline, or approver
	Journal    string       `json:"journal"`
	Witness    string       `json:"witness"` // directory
	Name       string       `json:"name"`    // of this process, in the witness
	Session    string       `json:"session,omitempty"`
	Agent      string       `json:"agent,omitempty"`
	Generation int          `json:"generation,omitempty"`
}

// How long a child goes on at most, and how it does things.
const (
	childLife  = 90 * time.Second
	childPing  = 250 * time.Millisecond // before it takes over from a run that does not answer
	childWait  = 15 * time.Second       // for answers, before it leaves and comes back
	afterClose = 10 * time.Second
)

// ErrUnfinished: the batch is not done; the same process is to be started again.
var ErrUnfinished = errors.New("the batch is not done")

// Child is one process of a round: it does what its orders say, until it is
// done, is killed or ctx ends.
func Child(ctx context.Context, text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("the orders cannot be read: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, childLife)
	defer cancel()
	d, err := openDiary(o.Witness, o.Name)
	if err != nil {
		return err
	}
	h, err := embedded.Open(ctx, embedded.Config{Dir: o.Journal, Role: o.Role})
	if err != nil {
		return err
	}
	role, actor := h.Principal()
	w, err := journal.NewWriter(journal.Config{Log: &witnessed{h, d}, Role: role, Actor: actor})
	if err != nil {
		return errors.Join(err, h.Close())
	}
	if role == journal.RoleApprover {
		err = answer(ctx, w, d)
	} else {
		err = act(ctx, w, d, o)
	}
	return errors.Join(err, h.Close())
}

// witnessed is a journal whose acknowledgements are written down before
// anybody here learns of them.
type witnessed struct {
	*embedded.Handle
	diary *diary
}

// Publish implements [journal.Log].
func (w *witnessed) Publish(ctx context.Context, sub journal.Subject, expected uint64, data []byte) (uint64, error) {
	began := time.Now()
	seq, err := w.Handle.Publish(ctx, sub, expected, data)
	if err == nil {
		err = w.diary.write(line{Stored: &storedLine{invariants.Stored{Seq: seq, Digest: journal.Digest(data)}, began, time.Now()}})
	}
	return seq, err
}

// answer answers whatever is asked.
func answer(ctx context.Context, w *journal.Writer, d *diary) error {
	return approver.Serve(ctx, w.Log(), w, approver.Frontend{
		Ask: func(_ context.Context, item inbox.Item) (approver.Request, error) {
			action := actionOn(item)
			err := errors.Join(
				d.write(line{Asked: &invariants.Asked{Session: item.Session, Question: item.ID, Shown: item.Shown}}),
				d.write(line{Answer: &invariants.Answer{Session: item.Session, Question: item.ID, Action: action}}))
			return approver.Request{Action: action}, err
		},
		Told: func(item inbox.Item, r approver.Receipt, err error) {
			if err != nil {
				return
			}
			// A line that cannot be written is one answer less to look for.
			_ = d.write(line{Answer: &invariants.Answer{Session: item.Session, Question: item.ID, Action: r.Action, ID: r.Answer}})
		},
	})
}

// act has the calls of a batch made.
func act(ctx context.Context, w *journal.Writer, d *diary, o orders) error {
	pol, err := policyOf(o.Generation)
	if err != nil {
		return err
	}
	g, err := agent.Open(ctx, agent.Config{
		Decider: &decider.Decider{Writer: w}, Session: o.Session, Agent: o.Agent, Policy: pol,
		Provider: &provider{d, o}, Spool: filepath.Join(o.Journal, "spool"), PingWait: childPing,
	})
	if err != nil {
		return err
	}
	calls := batch(o.Generation)
	tickets := append(g.Submit(ctx, calls[:len(calls)/2]), g.Submit(ctx, calls[len(calls)/2:])...)
	waitAll(ctx, tickets)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterClose)
	defer cancel()
	if err := g.Close(ending); err != nil {
		return err
	}
	return report(d, o, tickets)
}

// waitAll waits for all tickets, but no longer than people are waited for.
func waitAll(ctx context.Context, tickets []*agent.Ticket) {
	ctx, cancel := context.WithTimeout(ctx, childWait)
	defer cancel()
	for _, t := range tickets {
		select {
		case <-t.Done():
		case <-ctx.Done():
			return
		}
	}
}

// report writes down what the agent was told of its calls. It is ErrUnfinished
// if one of them is to be made again.
func report(d *diary, o orders, tickets []*agent.Ticket) error {
	var undone error
	for _, t := range tickets {
		out := t.Outcome()
		switch ran := out.Kind == agent.Executed || out.Kind == agent.Recorded; {
		case out.Kind == agent.Denied:
		case out.Kind == agent.Failed:
			undone = fmt.Errorf("%w: %s: %s", ErrUnfinished, t.Request.ID, out.Result.Content)
		case !ran || out.Result.NotRun || out.Result.Unknown:
			undone = ErrUnfinished
		case out.Warning == "" && t.Request.Key != "":
			r := invariants.Result{Session: o.Session, Agent: o.Agent, Key: t.Request.Key, Digest: journal.Digest(out.Result.Content)}
			if err := d.write(line{Result: &r}); err != nil {
				return err
			}
		}
	}
	return undone
}

// provider is the world of an agent. An effect is a line that is on disk.
type provider struct {
	diary *diary
	orders
}

// Tools implements [agent.Provider].
func (*provider) Tools(context.Context) ([]agent.Tool, error) { return nil, nil }

// Execute implements [agent.Provider].
func (p *provider) Execute(ctx context.Context, calls []agent.Call) []agent.Result {
	out := make([]agent.Result, len(calls))
	for i, c := range calls {
		pause(ctx, rand.N(mostWork))
		out[i] = p.one(c)
		pause(ctx, rand.N(mostWork))
	}
	return out
}

// mostWork is how long a tool takes at most before its effect, and after it:
// long enough that some die in between.
const mostWork = 20 * time.Millisecond

// oneIn is how often a tool that is not reliable is not.
const oneIn = 3

func (p *provider) one(c agent.Call) agent.Result {
	fails := rand.IntN(oneIn) == 0
	if c.Tool == toolLazy && fails {
		return agent.Result{Content: agent.Text("not now"), NotRun: true}
	}
	arguments, err := journal.Canonical(c.Arguments)
	if err == nil {
		err = p.diary.fsync(line{Effect: &invariants.Effect{Session: p.Session, Agent: p.Agent, Tool: c.Tool, Arguments: arguments}})
	}
	if err != nil || c.Tool == toolShaky && fails {
		return agent.Result{Content: agent.Text("who knows"), Unknown: true}
	}
	return agent.Result{Content: agent.Text("did " + c.ID)}
}
