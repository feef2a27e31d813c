package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"decisionjournal/approver"
	"decisionjournal/decider"
	"decisionjournal/decider/agent"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// childEnv makes the test binary a process of its own that does what the
// orders in it say, as JSON.
const childEnv = "AGENT_TEST_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// orders are what a child does and where it dies.
type orders struct {
	Role    string // agent, approver or worker
	Dir     string
	Answers map[string]string // of an approver: action by question

	// Publish is the publish, from 1, at which the process kills itself; 0: none.
	Publish int
	// Effect is the call by key at whose effect it kills itself; "": none.
	Effect string
	Moment moment
}

// moment is when a process dies.
type moment string

const (
	before moment = "before" // nothing was sent or done
	during moment = "during" // some time while it is sent; of an effect, as before
	after  moment = "after"  // it is done and acknowledged, and nobody knows yet
)

// Files of a trial, beside the journal.
const (
	journalDir  = "journal"
	ackedFile   = "acked"   // "seq digest" of every acknowledged message
	witnessFile = "witness" // the key of every call that took effect
	spoolDir    = "spool"
)

// said is what a child reports of a call.
type said struct {
	Kind     agent.Kind
	Question string
	Text     string
}

// batch is the scenario: a call that is allowed, one that is denied, one that
// is asked, one that its answer settles too, and one that is asked for itself.
func batch() []agent.Request {
	return []agent.Request{
		keyed("allowed", "free", `{"n":1}`),
		keyed("denied", "never", `{"n":2}`),
		keyed("first", "write", `{"path":"d/a"}`),
		keyed("second", "write", `{"path":"d/b"}`),
		keyed("once", "other", `{"path":"e/c"}`),
	}
}

func child(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	role := journal.RoleDecider
	if o.Role == "approver" {
		role = journal.RoleApprover
	}
	h, err := embedded.Open(ctx, embedded.Config{Dir: filepath.Join(o.Dir, journalDir), Role: role})
	if err != nil {
		return err
	}
	acked, err := os.OpenFile(filepath.Join(o.Dir, ackedFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, actor := h.Principal()
	w, err := journal.NewWriter(journal.Config{Log: &mortal{Handle: h, orders: o, acked: acked}, Role: role, Actor: actor})
	if err != nil {
		return err
	}
	do := map[string]func(context.Context, *journal.Writer, orders) error{"agent": childAgent, "approver": childApprover, "worker": childWorker}[o.Role]
	return errors.Join(do(ctx, w, o), h.Close())
}

// mortal is a journal whose process dies at one of its publishes.
type mortal struct {
	*embedded.Handle
	orders
	acked *os.File
	n     atomic.Int64
}

func (m *mortal) Publish(ctx context.Context, sub journal.Subject, expected uint64, data []byte) (uint64, error) {
	here := int(m.n.Add(1)) == m.orders.Publish
	switch {
	case here && m.Moment == before:
		die()
	case here && m.Moment == during:
		time.AfterFunc(time.Duration(m.orders.Publish*61%300)*time.Microsecond, die)
	}
	seq, err := m.Handle.Publish(ctx, sub, expected, data)
	if err == nil {
		_, writeErr := fmt.Fprintf(m.acked, "%d %s\n", seq, journal.Digest(data))
		if err := errors.Join(writeErr, m.acked.Sync()); err != nil {
			return 0, err
		}
	}
	if here {
		die()
	}
	return seq, err
}

// die is kill -9 of this process, by itself.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// lasting is a provider whose effects are lines of a file.
type lasting struct{ orders }

func (lasting) Tools(context.Context) ([]agent.Tool, error) { return nil, nil }

func (p lasting) Execute(_ context.Context, calls []agent.Call) []agent.Result {
	out := make([]agent.Result, len(calls))
	for i, c := range calls {
		out[i] = p.one(c)
	}
	return out
}

func (p lasting) one(c agent.Call) agent.Result {
	if c.ID == p.Effect && p.Moment != after {
		die()
	}
	f, err := os.OpenFile(filepath.Join(p.Dir, witnessFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, c.ID)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return agent.Result{Content: agent.Text(err.Error()), Unknown: true}
	}
	if c.ID == p.Effect {
		die()
	}
	return agent.Result{Content: agent.Text("did " + c.ID)}
}

// childAgent runs the batch as far as it goes without waiting for people, and
// prints how each call stands.
func childAgent(ctx context.Context, w *journal.Writer, o orders) error {
	pol, err := policy.Parse("test.yaml", []byte(rules))
	if err != nil {
		return err
	}
	g, err := agent.Open(ctx, agent.Config{Decider: &decider.Decider{Writer: w}, Session: session, Policy: pol,
		Provider: lasting{o}, Spool: filepath.Join(o.Dir, spoolDir)})
	if err != nil {
		return err
	}
	tickets := g.Submit(ctx, batch())
	for _, t := range tickets {
		if g.Question(t) == "" {
			select {
			case <-t.Done():
			case <-ctx.Done():
				return fmt.Errorf("call %s: %w", t.Request.ID, ctx.Err())
			}
		}
	}
	if err := g.Close(ctx); err != nil {
		return err
	}
	report := map[string]said{}
	for _, t := range tickets {
		out := t.Outcome()
		report[t.Request.ID] = said{out.Kind, out.Question, string(out.Result.Content)}
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// childApprover answers what is still open of its questions.
func childApprover(ctx context.Context, w *journal.Writer, o orders) error {
	for q, action := range o.Answers {
		_, err := approver.Answer(ctx, w, approver.Ref{Session: session, Question: q}, approver.Request{Action: action})
		var settled *approver.SettledError
		if err != nil && !errors.As(err, &settled) {
			return err
		}
	}
	return nil
}

// childWorker decides everything that is stored.
func childWorker(ctx context.Context, w *journal.Writer, _ orders) error {
	ctx, cancel := context.WithCancel(ctx)
	worker := decider.Worker{Decider: &decider.Decider{Writer: w}, Ready: cancel}
	if err := worker.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
