package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
	"decisionjournal/journal/stream/streamtest"
)

// The policy of the sessions under attack: danger is asked about, and nobody
// ever answers.
const guardedPolicy = `rules:
  - {tool: read, decision: allow}
  - {tool: forbidden, decision: deny}
  - {tool: edit, decision: allow, under: /w/safe}
roots: {"": /w}
settings: {decision-ttl: 1h}
`

// siege is a journal with a worker that decides, and a thief with an agent's key.
type siege struct {
	t     *testing.T
	h     *embedded.Handle
	dir   string
	seed  []byte          // of the agent's key
	log   journal.Log     // the agent's
	agent *journal.Writer // the agent's
	boss  *journal.Writer // a decider's, of an honest batch runner
	ann   *journal.Writer // an approver's
	d     *decider.Decider
}

func layTo(t *testing.T) *siege {
	t.Helper()
	s := &siege{t: t, dir: t.TempDir() + "/journal"}
	var err error
	s.h, err = embedded.Open(t.Context(), embedded.Config{Dir: s.dir, Role: journal.RoleDecider, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.h.Close() })
	log, actor, err := s.h.As(t.Context(), journal.RoleAgent)
	if err != nil {
		t.Fatal(err)
	}
	s.log, s.agent = log, s.writer(log, journal.RoleAgent, actor)
	s.boss = s.writer(s.h, journal.RoleDecider, "decider")
	person, name, err := s.h.As(t.Context(), journal.RoleApprover)
	if err != nil {
		t.Fatal(err)
	}
	s.ann = s.writer(person, journal.RoleApprover, name)
	s.d = &decider.Decider{Writer: s.boss}
	if s.seed, err = os.ReadFile(filepath.Join(s.dir, "keys", "agent.agent.seed")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"default": guardedPolicy, "lenient": "rules: [{tool: '*', decision: allow}]"} {
		pol, err := policy.Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.d.Activate(t.Context(), name, pol); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *siege) writer(log journal.Log, role journal.Role, actor string) *journal.Writer {
	s.t.Helper()
	w, err := journal.NewWriter(journal.Config{Log: log, Role: role, Actor: actor})
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// work runs a worker until the test ends.
func (s *siege) work() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		w := &decider.Worker{Decider: &decider.Decider{Writer: s.boss}, Problem: func(string, error) {}}
		_ = w.Run(ctx)
	})
	s.t.Cleanup(func() { cancel(); running.Wait() })
}

// thief is one attack: a session in which danger was asked about and waits,
// a read is allowed and not started, and a forbidden call was denied.
type thief struct {
	*siege
	t       *testing.T
	session string
	st      *journal.State

	danger, question string
	read, allow      string // the read and its decision
	forbidden        string
}

func (s *siege) thief(t *testing.T, session string) *thief {
	t.Helper()
	th := &thief{siege: s, t: t, session: session, st: journal.NewState(journal.SessionChain(session))}
	th.must(&journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession, Follows: "default"})
	th.settle()
	th.danger = th.call("danger", `{"path":"/w/x"}`)
	th.read = th.call("read", `{"path":"/w/x"}`)
	th.forbidden = th.call("forbidden", `{"path":"/w/x"}`)
	th.settle()
	th.question, th.allow = th.st.Call(th.danger).Last().Question, th.st.Call(th.read).Last().Decision
	if th.question == "" || th.allow == "" || th.st.Call(th.forbidden).Last().Progress != journal.Denied {
		t.Fatal("the scene is not set")
	}
	return th
}

// settle has a decider decide what is open, as the worker does beside it.
func (th *thief) settle() {
	th.t.Helper()
	th.refresh()
	if err := th.d.Settle(th.t.Context(), th.st); err != nil && !errors.Is(err, journal.ErrConflict) {
		th.t.Log(err)
	}
	th.refresh()
}

func (th *thief) refresh() {
	th.t.Helper()
	if err := journal.Refresh(th.t.Context(), th.h, th.st); err != nil {
		th.t.Fatal(err)
	}
}

// must appends what an honest agent would, again until nobody comes between.
func (th *thief) must(bodies ...journal.Body) string {
	th.t.Helper()
	for {
		th.refresh()
		var events []journal.Event
		for _, b := range bodies {
			events = append(events, th.agent.Event(b))
		}
		err := th.agent.Append(th.t.Context(), th.st, th.agent.Now(th.st), events...)
		if err == nil {
			return events[0].ID
		}
		if !errors.Is(err, journal.ErrConflict) {
			th.t.Fatal(err)
		}
	}
}

func (th *thief) body(tool, args string) *journal.Call {
	th.t.Helper()
	digest, err := decider.CallDigest(nil, tool, json.RawMessage(args))
	if err != nil {
		th.t.Fatal(err)
	}
	return &journal.Call{Agent: "main", Run: "r1", Kind: journal.CallTool, Tool: tool, Arguments: json.RawMessage(args), Digest: digest}
}

func (th *thief) call(tool, args string) string { return th.must(th.body(tool, args)) }

func (th *thief) start(call, decision string) *journal.Start {
	digest := journal.Digest(nil)
	if c := th.st.Call(call); c != nil {
		digest = c.Digest
	}
	return &journal.Start{Call: call, Attempt: 1, Run: "r1", Decision: decision, Digest: digest}
}

func (th *thief) decision(by ...journal.Cause) *journal.Decision {
	c := th.st.Call(th.danger)
	return &journal.Decision{Call: th.danger, Attempt: c.Last().No, Outcome: journal.Allow, By: by, Policy: th.st.Adopted("main", "").Digest,
		Engine: decider.Engine, Digest: c.Digest, Facts: json.RawMessage(`{}`), Message: "allowed"}
}

func byRule() journal.Cause {
	return journal.Cause{Kind: journal.ByRule, Rule: json.RawMessage(`{"decision":"allow","tool":"danger"}`)}
}

func (th *thief) answer(action string) *journal.Answer {
	return &journal.Answer{Question: th.question, Action: action, Shown: th.st.Question(th.question).Shown, By: "ann"}
}

// commit is the thief's next commit, right in all that its envelope says.
func (th *thief) commit(bodies ...journal.Body) *journal.Commit {
	th.t.Helper()
	th.refresh()
	c := &journal.Commit{Session: th.session, N: th.st.N() + 1, After: th.st.LastSeq(), Prev: th.st.Prev(),
		Role: journal.RoleAgent, Actor: "agent", Time: th.agent.Now(th.st)}
	for _, b := range bodies {
		c.Events = append(c.Events, th.agent.Event(b))
	}
	return c
}

// say stores a commit whatever it says; that it is refused is fine too. It is
// made again if a decider comes between.
func (th *thief) say(bodies ...journal.Body) {
	th.t.Helper()
	for errors.Is(th.store(th.encode(th.commit(bodies...))), journal.ErrConflict) {
	}
	th.refresh()
}

func (th *thief) send(c *journal.Commit) { th.t.Helper(); th.bytes(th.encode(c)) }

func (th *thief) encode(c *journal.Commit) []byte {
	th.t.Helper()
	data, err := c.Encode()
	if err != nil {
		th.t.Fatal(err)
	}
	return data
}

// bytes stores any bytes at the end of the session, as it was last read.
func (th *thief) bytes(data []byte) {
	th.t.Helper()
	_ = th.store(data) // a conflict is a way to be refused
	th.refresh()
}

// store appends bytes behind what was last read, and returns why it could not.
func (th *thief) store(data []byte) error {
	th.t.Helper()
	sub := journal.Subject{Chain: th.st.Chain(), Role: journal.RoleAgent, Actor: "agent"}
	_, err := th.log.Publish(th.t.Context(), sub, th.st.LastSeq(), data)
	for _, refusal := range []error{nil, journal.ErrRefused, journal.ErrConflict, journal.ErrTooLarge} {
		if errors.Is(err, refusal) {
			return err
		}
	}
	th.t.Fatal(err)
	return nil
}

// text is the thief's next commit with some of its text changed.
func (th *thief) text(c *journal.Commit, old, new string) {
	th.t.Helper()
	data := th.encode(c)
	if !strings.Contains(string(data), old) {
		th.t.Fatalf("no %s in %s", old, data)
	}
	th.bytes([]byte(strings.Replace(string(data), old, new, 1)))
}

// raw sends a message without this module's client.
func (th *thief) raw(m streamtest.Message) {
	th.t.Helper()
	if err := th.alone().Send(m); err != nil {
		th.t.Fatal(err)
	}
	th.refresh()
}

func (th *thief) alone() streamtest.Principal {
	return streamtest.Principal{URL: "nats://" + th.h.Listening(), Seed: th.seed, Role: "agent", Actor: "agent"}
}

func (th *thief) own() string { return "journal.s." + th.session + ".agent.agent" }

func (th *thief) encoded(bodies ...journal.Body) []byte {
	th.t.Helper()
	return th.encode(th.commit(bodies...))
}

func (th *thief) right() map[string][]string {
	return journal.ExpectHeaders(th.st.Chain(), th.st.LastSeq())
}

// last is the newest message of the session written by role.
func (th *thief) last(role journal.Role) journal.Message {
	th.t.Helper()
	var found journal.Message
	for m, err := range th.h.Load(th.t.Context(), th.st.Chain(), 0) {
		if err != nil {
			th.t.Fatal(err)
		}
		if strings.Contains(m.Subject, "."+string(role)+".") {
			found = m
		}
	}
	return found
}

// ownDecision is the decision that a forged commit would make, and its start.
func (th *thief) forged(by ...journal.Cause) (decision, start journal.Event) {
	decision = th.agent.Event(th.decision(by...))
	return decision, th.agent.Event(th.start(th.danger, decision.ID))
}

// another opens a run by the agent's key and calls danger in it.
func (th *thief) another(session string, opened *journal.Opened) {
	th.t.Helper()
	first := *th
	first.session, first.st = session, journal.NewState(journal.SessionChain(session))
	first.say(opened)
	b := first.body("danger", `{"path":"/w/x"}`)
	b.Agent, b.Run = opened.Agent, opened.Run
	first.say(b)
	first.settle()
	for _, c := range first.st.Calls() {
		if c.Last().Progress == journal.Allowed {
			first.say(&journal.Start{Call: c.Mark.ID, Attempt: 1, Run: opened.Run, Decision: c.Last().Decision, Digest: c.Digest})
		}
	}
}

// batch is the thief before a session of an honest runner, which has a call
// that is allowed and not started.
func (th *thief) batch() *thief {
	th.t.Helper()
	there := *th
	there.session = th.session + "-batch"
	st := journal.NewState(journal.SessionChain(there.session))
	there.st = st
	add := func(w *journal.Writer, body journal.Body) string {
		th.t.Helper()
		for {
			if err := journal.Refresh(th.t.Context(), th.h, st); err != nil {
				th.t.Fatal(err)
			}
			e := w.Event(body)
			err := w.Append(th.t.Context(), st, w.Now(st), e)
			if err == nil {
				return e.ID
			}
			if !errors.Is(err, journal.ErrConflict) {
				th.t.Fatal(err)
			}
		}
	}
	add(th.boss, &journal.Opened{Agent: "main", Run: "b1", Kind: journal.KindSession, Follows: "default"})
	if err := th.d.Settle(th.t.Context(), st); err != nil {
		th.t.Fatal(err)
	}
	b := th.body("read", `{"path":"/w/batch"}`)
	b.Run = "b1"
	add(th.boss, b)
	if err := th.d.Settle(th.t.Context(), st); err != nil {
		th.t.Fatal(err)
	}
	return &there
}

// TestAgentsKeyAlone: whatever the holder of an agent's key writes, nothing of
// its own is started that no rule and no person allowed, and nothing twice. The
// record stays sound: what was tried is an anomaly.
func TestAgentsKeyAlone(t *testing.T) {
	s := layTo(t)
	s.work()
	all := attacks()
	maps.Copy(all, attacksOnGrants())
	maps.Copy(all, attacksOnTheServer())
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			th := s.thief(t, name)
			all[name](th)
			th.settle()
			if c := th.st.Call(th.danger); c != nil && s.d.Releasable(t.Context(), th.st, th.danger) == nil {
				t.Error("danger would be released")
			}
		})
	}
	s.wantNothingStolen()
}

// wantNothingStolen folds every session as a reader who begins anew.
func (s *siege) wantNothingStolen() {
	s.t.Helper()
	chains, err := s.h.Chains(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, chain := range chains {
		if chain.IsPolicy() {
			continue
		}
		st, starts := s.startsOf(chain)
		for _, m := range starts {
			if m.again || m.role == journal.RoleAgent && strings.HasSuffix(chain.String(), "-batch") {
				s.t.Errorf("%s: message %d starts call %s", chain, m.seq, m.call)
			}
		}
		for _, c := range st.Calls() {
			p := c.Last().Progress
			if c.Tool != "read" && c.Tool != lent && p != journal.Open && p != journal.Denied && p != journal.Void {
				s.t.Errorf("%s: %s %s is %s", chain, c.Tool, c.Arguments, p)
			}
		}
	}
	j, err := replay.Load(s.t.Context(), s.h)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := j.Audit(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range slices.Concat(append([][]replay.Fault{r.Faults}, faultsOf(r)...)...) {
		switch {
		case f.Field == "v" && f.Session == "write-a-newer-version": // it asks for an admin's repair
		case f.Field == "digest" && f.Event == "call": // a false record, and denied
		default:
			s.t.Errorf("audit: %s", f)
		}
	}
}

// started is one start that a chain holds.
type started struct {
	seq   uint64
	role  journal.Role
	call  string
	again bool // the call was started before, and that was not taken back
}

// startsOf folds a chain from its first message, and finds what is started in it.
func (s *siege) startsOf(chain journal.Chain) (st *journal.State, all []started) {
	s.t.Helper()
	st = journal.NewState(chain)
	under := map[string]bool{}
	for m, err := range s.h.Load(s.t.Context(), chain, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		if v, _ := st.Apply(m); v != journal.Valid {
			continue
		}
		c, err := journal.Decode(m.Data)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range c.Events {
			switch b := e.Body.(type) {
			case *journal.Start:
				all = append(all, started{m.Seq, c.Role, b.Call, under[b.Call]})
				under[b.Call] = true
			case *journal.Result:
				under[b.Call] = b.Status != journal.StatusNotRun
			}
		}
	}
	return st, all
}

func faultsOf(r replay.Report) (all [][]replay.Fault) {
	for _, s := range r.Sessions {
		all = append(all, s.Faults)
	}
	return all
}
