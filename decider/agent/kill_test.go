package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"decisionjournal/approver"
	"decisionjournal/decider"
	"decisionjournal/decider/agent"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest/invariants"
	"decisionjournal/journal/stream/embedded"
)

// trial is a journal in a directory of its own, with what the processes that
// lived and died over it left behind.
type trial struct {
	*testing.T
	dir   string
	said  []map[string]said // by every run that came to its end
	kills *atomic.Int64     // of this trial and its copies
}

func newTrial(t *testing.T) *trial {
	return &trial{T: t, dir: t.TempDir(), kills: &atomic.Int64{}}
}

// copy is a trial that goes on from where tr stands.
func (tr *trial) copy(t *testing.T) *trial {
	next := newTrial(t)
	next.said, next.kills = append(next.said, tr.said...), tr.kills
	if out, err := exec.Command("cp", "-a", tr.dir+"/.", next.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return next
}

// child runs a process by its orders, and reports whether it killed itself.
func (tr *trial) child(o orders) (killed bool) {
	tr.Helper()
	o.Dir = tr.dir
	text, err := json.Marshal(o)
	if err != nil {
		tr.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text), "GORACE=atexit_sleep_ms=0") // else it sleeps a second
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		tr.Fatalf("%+v: %v: %s", o, err, errs.String())
	}
	if o.Role == "agent" {
		var report map[string]said
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			tr.Fatalf("%v: %q", err, out.String())
		}
		tr.said = append(tr.said, report)
	}
	return false
}

// must runs a process that comes to its end.
func (tr *trial) must(o orders) {
	tr.Helper()
	if tr.child(o) {
		tr.Fatalf("%+v: killed", o)
	}
}

// as opens the journal as a role, in this process.
func (tr *trial) as(role journal.Role, do func(*journal.Writer)) {
	tr.Helper()
	h, err := embedded.Open(context.Background(), embedded.Config{Dir: filepath.Join(tr.dir, journalDir), Role: role})
	if err != nil {
		tr.Fatal(err)
	}
	defer h.Close()
	_, actor := h.Principal()
	w, err := journal.NewWriter(journal.Config{Log: h, Role: role, Actor: actor})
	if err != nil {
		tr.Fatal(err)
	}
	do(w)
}

func (tr *trial) load(log journal.Log) *journal.State {
	tr.Helper()
	st, err := journal.LoadState(context.Background(), log, journal.SessionChain(session))
	if err != nil {
		tr.Fatal(err)
	}
	return st
}

// actions are what the people of the scenario answer, by key. An interrupted
// call they let run again.
func action(c *journal.CallState, q *journal.QuestionState) string {
	switch {
	case q.Reason == journal.AskInterrupted:
		return journal.AllowOnce
	case c.Key == "first":
		return journal.AlwaysAllow
	case c.Key == "once":
		return journal.AllowOnce
	}
	return ""
}

// open are the answers still owed, by question.
func open(st *journal.State) map[string]string {
	owed := map[string]string{}
	for _, q := range st.Questions() {
		if a := action(st.Call(q.Call), q); a != "" && !q.Over && len(q.Answers) == 0 {
			owed[q.Mark.ID] = a
		}
	}
	return owed
}

// answer answers what is open.
func (tr *trial) answer() {
	tr.Helper()
	tr.as(journal.RoleApprover, func(w *journal.Writer) {
		for q, a := range open(tr.load(w.Log())) {
			if _, err := approver.Answer(context.Background(), w, approver.Ref{Session: session, Question: q}, approver.Request{Action: a}); err != nil {
				tr.Fatal(err)
			}
		}
	})
}

// finish runs the batch again until every call has its result, answering what
// is open in between, and then checks what is left.
func (tr *trial) finish() {
	tr.Helper()
	for range 6 {
		tr.must(orders{Role: "agent"})
		if tr.done() {
			tr.check()
			return
		}
		tr.answer()
	}
	tr.Fatalf("never finished: %+v", tr.said)
}

func (tr *trial) done() bool {
	for key, s := range tr.said[len(tr.said)-1] {
		switch {
		case s.Kind == agent.Failed:
			tr.Fatalf("%s failed: %s", key, s.Text)
		case s.Kind == agent.Pending:
			return false
		case (s.Kind == agent.Denied) != (key == "denied"):
			tr.Fatalf("%s came out as %d: %s", key, s.Kind, s.Text)
		}
	}
	return true
}

// check holds what a trial left behind against what must be true of it.
func (tr *trial) check() {
	tr.Helper()
	tr.as(journal.RoleDecider, func(w *journal.Writer) {
		tr.checkRules(w.Log())
		tr.checkCalls(tr.load(w.Log()))
		j, err := replay.Load(context.Background(), w.Log())
		if err != nil {
			tr.Fatal(err)
		}
		r, err := j.Audit(context.Background())
		if err != nil {
			tr.Fatal(err)
		}
		for _, s := range r.Sessions {
			if s.FaultCount+s.AnomalyCount > 0 || s.Condition != "whole" || s.Derived != s.Decisions {
				tr.Errorf("audit: %+v", s)
			}
		}
	})
}

// checkRules: the journal holds what was acknowledged and what took effect.
func (tr *trial) checkRules(log journal.Log) {
	tr.Helper()
	w := invariants.Witness{Stored: []invariants.Stored{}, Effects: []invariants.Effect{}}
	for _, line := range tr.lines(ackedFile) {
		var m invariants.Stored
		if _, err := fmt.Sscanf(line, "%d %s", &m.Seq, &m.Digest); err != nil {
			tr.Fatalf("%q: %v", line, err)
		}
		w.Stored = append(w.Stored, m)
	}
	if len(w.Stored) == 0 {
		tr.Error("nothing was acknowledged")
	}
	for _, key := range tr.lines(witnessFile) {
		for _, r := range batch() {
			if r.Key == key {
				w.Effects = append(w.Effects, invariants.Effect{Session: session, Agent: "main", Tool: r.Tool, Arguments: r.Arguments})
			}
		}
	}
	r, err := invariants.Check(context.Background(), log, w)
	if err != nil {
		tr.Fatal(err)
	}
	for _, v := range r.Violations {
		tr.Errorf("%s", v)
	}
}

func (tr *trial) lines(name string) []string {
	raw, err := os.ReadFile(filepath.Join(tr.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		tr.Fatal(err)
	}
	return strings.FieldsFunc(string(raw), func(r rune) bool { return r == '\n' })
}

// checkCalls: one call to a key, asked once, and no effect more than was let.
func (tr *trial) checkCalls(st *journal.State) {
	tr.Helper()
	effects := map[string]int{}
	for _, key := range tr.lines(witnessFile) {
		effects[key]++
	}
	if n := len(st.Calls()); n != len(batch()) {
		tr.Errorf("%d calls", n)
	}
	for _, c := range st.Calls() {
		asked, again, starts := tr.questions(st, c), 0, 0
		for _, a := range c.Attempts {
			if q := st.Question(a.Question); q != nil && q.Reason == journal.AskInterrupted && len(q.Answers) == 1 {
				again++
			}
			if a.Start != "" {
				starts++
			}
		}
		n := effects[c.Key]
		switch {
		case c.Key == "denied" && (n != 0 || asked != 0 || starts != 0):
			tr.Errorf("the denied call: %d effects, %d questions, %d starts", n, asked, starts)
		case c.Key == "denied":
		case n < 1 || n > 1+again || n > starts:
			tr.Errorf("%s: %d effects, %d starts, let run again %d times", c.Key, n, starts, again)
		case (c.Key == "allowed") != (asked == 0):
			tr.Errorf("%s: asked %d times", c.Key, asked)
		case c.Key == "second" && st.Decision(c.Attempts[0].Decision).By[0].Kind != journal.ByGrant:
			tr.Errorf("the second call was decided by %+v", st.Decision(c.Attempts[0].Decision).By)
		}
	}
	if n := len(st.Grants()); n != 1 {
		tr.Errorf("%d grants", n)
	}
}

// questions counts a call's questions but for those about interruptions, and
// checks that it is one and the same over all runs.
func (tr *trial) questions(st *journal.State, c *journal.CallState) int {
	tr.Helper()
	ids := map[string]bool{}
	for _, q := range st.Questions() {
		if q.Call == c.Mark.ID && q.Reason != journal.AskInterrupted {
			ids[q.Mark.ID] = true
		}
	}
	if len(ids) > 1 {
		tr.Errorf("%s was asked %d times", c.Key, len(ids))
	}
	for _, report := range tr.said {
		if id := report[c.Key].Question; id != "" && !ids[id] && st.Question(id).Reason != journal.AskInterrupted {
			tr.Errorf("%s waited for %s, which is not its question", c.Key, id)
		}
	}
	return len(ids)
}

// killAll lets processes by the orders die at each of their publishes and at
// each effect named, each from where tr stands, and then goes on to the end.
func killAll(t *testing.T, tr *trial, o orders, effects ...string) {
	t.Cleanup(func() { t.Logf("%d processes killed", tr.kills.Load()) })
	moments := []moment{before, during, after}
	if testing.Short() {
		moments = []moment{after}
	}
	for _, m := range moments {
		for n := 1; ; n++ {
			o := o
			o.Publish, o.Moment = n, m
			if !killOne(t, tr, o) {
				break
			}
		}
		for _, key := range effects {
			o := o
			o.Effect, o.Moment = key, m
			if m != during && !killOne(t, tr, o) {
				t.Errorf("the effect of %s is never reached", key)
			}
		}
	}
}

// killOne is one trial. It is false if the process came to its end.
func killOne(t *testing.T, tr *trial, o orders) (killed bool) {
	name := fmt.Sprintf("%s/%s publish %d%s", o.Role, o.Moment, o.Publish, o.Effect)
	t.Run(name, func(t *testing.T) {
		next := tr.copy(t)
		if killed = next.child(o); !killed {
			return
		}
		next.kills.Add(1)
		if o.Role != "agent" {
			o.Publish = 0
			next.must(o)
		}
		next.finish()
	})
	return killed
}

// TestKill kills processes at every step of a batch's life.
func TestKill(t *testing.T) {
	fresh := newTrial(t)
	asked := fresh.copy(t)
	asked.must(orders{Role: "agent"})
	var owed map[string]string
	asked.as(journal.RoleAuditor, func(w *journal.Writer) { owed = open(asked.load(w.Log())) })
	if len(owed) != 2 {
		t.Fatalf("%d answers are owed: %+v", len(owed), asked.said)
	}
	answered := asked.copy(t)
	answered.must(orders{Role: "approver", Answers: owed})

	t.Run("asking", func(t *testing.T) {
		t.Parallel()
		killAll(t, fresh, orders{Role: "agent"}, "allowed")
	})
	t.Run("answering", func(t *testing.T) {
		t.Parallel()
		killAll(t, asked, orders{Role: "approver", Answers: owed})
	})
	t.Run("resuming", func(t *testing.T) {
		t.Parallel()
		killAll(t, answered, orders{Role: "agent"}, "first", "second", "once")
	})
}

// TestKillWorker kills a worker at every step: while it asks, and while it
// grants and decides.
func TestKillWorker(t *testing.T) {
	called := newTrial(t)
	called.as(journal.RoleDecider, called.writeBatch)
	answered := called.copy(t)
	answered.must(orders{Role: "worker"})
	answered.answer()
	t.Run("asking", func(t *testing.T) {
		t.Parallel()
		killAll(t, called, orders{Role: "worker"})
	})
	t.Run("granting", func(t *testing.T) {
		t.Parallel()
		killAll(t, answered, orders{Role: "worker"})
	})
}

// writeBatch writes the batch as a process does that leaves deciding to others.
func (tr *trial) writeBatch(w *journal.Writer) {
	ctx, pol := context.Background(), parse(tr, rules)
	d := &decider.Decider{Writer: w}
	if err := d.Publish(ctx, pol); err != nil {
		tr.Fatal(err)
	}
	list := []journal.Event{w.Event(&journal.Opened{Agent: "main", Run: "first", Kind: journal.KindSession}),
		w.Event(&journal.Adopt{Digest: pol.Digest()})}
	for _, r := range batch() {
		digest, err := decider.CallDigest(pol, r.Tool, r.Arguments)
		if err != nil {
			tr.Fatal(err)
		}
		list = append(list, w.Event(&journal.Call{Agent: "main", Run: "first", Kind: journal.CallTool, Tool: r.Tool,
			Arguments: r.Arguments, Digest: digest, Key: r.Key}))
	}
	st := tr.load(w.Log())
	if err := w.Append(ctx, st, w.Now(st), list...); err != nil {
		tr.Fatal(err)
	}
}
