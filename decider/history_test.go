package decider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

// histories are judged under these. They differ in everything that open
// attempts are judged again for.
var histories = []string{
	"rules: [{tool: read, decision: allow}, {tool: rm, decision: deny}, {tool: mail, decision: ask}]\nimporters: [ops]\nsettings: {idempotent: [read]}",
	"rules: []\nsettings: {deadline: 30m, deny-repeats: 1}\nimporters: [ops]",
	"rules: [{tool: '*', decision: allow}, {tool: rm, decision: ask, remember: true}]\nsettings: {interrupted: fail, decision-ttl: 20m}",
	"rules: [{tool: read, decision: deny}, {tool: write, decision: allow, under: scratch}]\napproval: [{need: [{count: 2}]}]\nsettings: {interrupted: retry}",
	"rules: [{tool: mail, decision: deny}]\napproval: [{tool: write, need: [{}, {of: [ann]}]}, {tool: rm, note: true}, {who: [{of: [ann]}, {from: 15m}]}]",
}

// world is a history in the making: a bench whose session's state is kept.
type world struct {
	*bench
	st      *journal.State
	runs    map[string]string // agent -> its last run
	opened  int
	keys    int
	rested  bool // nothing happened since the decider had nothing to do
	writers map[journal.Principal]*journal.Writer
}

func newWorld(t *rapid.T) *world {
	w := &world{bench: newEmpty(t), runs: map[string]string{}, writers: map[journal.Principal]*journal.Writer{}}
	for _, text := range histories {
		w.publish(text)
	}
	w.activate("default", histories[0])
	w.st = journal.NewState(w.chain)
	w.opened = 1
	w.runs["main"] = "r1"
	w.write(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession, Follows: "default"})
	return w
}

// write appends if the fold takes it; what it refuses is no part of the history.
func (w *world) write(role journal.Role, actor string, bodies ...journal.Body) bool {
	who := journal.Principal{Role: role, Actor: actor}
	if w.writers[who] == nil {
		w.writers[who] = w.writer(role, actor)
	}
	wr := w.writers[who]
	var events []journal.Event
	for _, b := range bodies {
		events = append(events, wr.Event(b))
	}
	if wr.Append(context.Background(), w.st, wr.Now(w.st), events...) != nil {
		return false
	}
	w.rested = false
	return true
}

func (w *world) call(t *rapid.T) {
	agent := rapid.SampledFrom([]string{"main", "helper"}).Draw(t, "agent")
	tool := rapid.SampledFrom([]string{"read", "write", "rm", "mail", "other"}).Draw(t, "tool")
	args := rapid.SampledFrom([]string{`{}`, `{"path":"scratch/a"}`, `{"path":"docs/b"}`, `{"command":"ls","args":["-l"]}`}).Draw(t, "args")
	c := w.body(w.runs[agent], tool, args, func(c *journal.Call) { c.Agent = agent })
	if rapid.IntRange(0, 5).Draw(t, "elicits") == 0 {
		c.Kind = journal.CallElicitation
	}
	if rapid.IntRange(0, 2).Draw(t, "keyed") == 0 {
		w.keys++
		c.Key = fmt.Sprint("k", w.keys)
	}
	if rapid.IntRange(0, 4).Draw(t, "layered") == 0 {
		c.Layer = "outer"
	}
	if rapid.IntRange(0, 15).Draw(t, "false digest") == 0 {
		c.Digest = journal.Digest([]byte("another"))
	}
	w.write(journal.RoleAgent, "agent", c)
}

func (w *world) answer(t *rapid.T) {
	var open []*journal.QuestionState
	for _, q := range w.st.Questions() {
		if !q.Over {
			open = append(open, q)
		}
	}
	if len(open) == 0 {
		return
	}
	q := rapid.SampledFrom(open).Draw(t, "question")
	who := rapid.SampledFrom([]string{"ann", "bob", "cat"}).Draw(t, "who")
	a := &journal.Answer{Question: q.Mark.ID, Shown: q.Shown, By: who}
	a.Action = rapid.SampledFrom([]string{
		journal.AllowOnce, journal.AlwaysAllow, journal.AlwaysAllow, journal.AlwaysAllow, journal.DenyOnce, journal.AlwaysDeny,
		journal.Accept, journal.Accept, journal.Decline, "perhaps",
	}).Draw(t, "action")
	a.Note = rapid.SampledFrom([]string{"", "a note"}).Draw(t, "note")
	switch rapid.IntRange(0, 7).Draw(t, "rules") {
	case 0:
		a.Rule = json.RawMessage(`{"tool":"*"}`)
	case 1:
		a.Rules = json.RawMessage(`[{"tool":"write"},{"tool":"other"}]`)
	case 2:
		a.Rules = json.RawMessage(`[{"colour":"red"}]`)
	}
	if rapid.IntRange(0, 2).Draw(t, "limited") == 0 {
		a.Uses = rapid.IntRange(1, 2).Draw(t, "uses")
	}
	if rapid.IntRange(0, 3).Draw(t, "expiring") == 0 {
		a.Expires = journal.At(w.now.Add(time.Duration(rapid.IntRange(-1, 40).Draw(t, "minutes")) * time.Minute))
	}
	w.write(journal.RoleApprover, who, a)
}

func (w *world) revoke(t *rapid.T) {
	if list := w.st.Grants(); len(list) > 0 {
		w.write(journal.RoleApprover, "ann", &journal.Revoke{Grant: rapid.SampledFrom(list).Draw(t, "grant").Mark.ID})
	}
}

func (w *world) importOne(t *rapid.T) {
	rule := rapid.SampledFrom([]string{`{"decision":"allow","tool":"other"}`, `{"decision":"deny","tool":"w*"}`}).Draw(t, "rule")
	w.write(journal.RoleDecider, "ops", &journal.Grant{Rules: []json.RawMessage{json.RawMessage(rule)}, Origin: &journal.Origin{Import: "file"}})
}

func (w *world) adoptOne(t *rapid.T) {
	text := rapid.SampledFrom(histories).Draw(t, "policy")
	a := &journal.Adopt{Digest: journal.Digest([]byte(text))}
	a.Agent = rapid.SampledFrom([]string{"", "", "helper"}).Draw(t, "of agent")
	a.Layer = rapid.SampledFrom([]string{"", "", "outer"}).Draw(t, "of layer")
	w.write(journal.RoleDecider, "ops", a)
}

func (w *world) activateOne(t *rapid.T) {
	text := rapid.SampledFrom(histories).Draw(t, "policy")
	w.must(journal.RoleAdmin, "root", &journal.Activate{Name: "default", Digest: journal.Digest([]byte(text))})
}

// die opens another run of an agent, which ends the one before, or closes it.
func (w *world) die(t *rapid.T) {
	agent := rapid.SampledFrom([]string{"main", "helper"}).Draw(t, "agent")
	if old := w.runs[agent]; old != "" && rapid.Bool().Draw(t, "closes") {
		w.write(journal.RoleAgent, "agent", &journal.Closed{Agent: agent, Run: old})
		return
	}
	w.opened++
	w.runs[agent] = fmt.Sprint("r", w.opened)
	w.write(journal.RoleAgent, "agent", &journal.Opened{
		Agent: agent, Run: w.runs[agent], Kind: journal.KindSession, Takeover: true,
		Headless: rapid.IntRange(0, 3).Draw(t, "headless") == 0,
	})
}

func (w *world) attachOne(t *rapid.T) {
	if list := w.st.Calls(); len(list) > 0 {
		c := rapid.SampledFrom(list).Draw(t, "call")
		w.write(journal.RoleAgent, "agent", &journal.Attach{Call: c.Mark.ID, Run: w.runs[c.Agent], Retry: rapid.Bool().Draw(t, "retry")})
	}
}

func (w *world) detachOne(t *rapid.T) {
	if list := w.st.Calls(); len(list) > 0 {
		c := rapid.SampledFrom(list).Draw(t, "call")
		w.write(journal.RoleAgent, "agent", &journal.Detach{Call: c.Mark.ID, Run: w.runs[c.Agent], Withdraw: rapid.Bool().Draw(t, "withdraw")})
	}
}

// startOne starts an allowed call, as the releasing side does. It can be
// started unless something happened that no decider has seen yet.
func (w *world) startOne(t *rapid.T) {
	for _, c := range w.st.OpenCalls() {
		if a := c.Last(); a.Progress == journal.Allowed && c.Waiter != "" && rapid.Bool().Draw(t, "start") {
			s := &journal.Start{Call: c.Mark.ID, Attempt: a.No, Run: c.Waiter, Decision: a.Decision, Digest: c.Digest}
			if !w.write(journal.RoleAgent, "agent", s) && w.rested {
				t.Fatalf("the allow of call %s cannot be started", c.Mark.ID)
			}
			return
		}
	}
}

func (w *world) resultOne(t *rapid.T) {
	status := rapid.SampledFrom([]journal.Status{journal.StatusOK, journal.StatusError, journal.StatusNotRun, journal.StatusUnknown}).Draw(t, "status")
	for _, c := range w.st.Calls() {
		for _, a := range c.Attempts {
			if a.Start != "" && a.Result == nil && rapid.Bool().Draw(t, "result") {
				w.write(journal.RoleAgent, "agent", &journal.Result{Call: c.Mark.ID, Attempt: a.No, Run: a.StartRun, Status: status, Digest: journal.Digest(nil)})
				return
			}
		}
	}
}

func (w *world) step(t *rapid.T) {
	w.rested = false
	w.now = w.now.Add(time.Duration(rapid.IntRange(1, 25).Draw(t, "minutes")) * time.Minute)
}

// counter makes the same ids every time.
func counter() func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("%026d", n) }
}

// settled decides until nothing is left, and holds that it comes to an end,
// that the fold takes every event, and that deciding is a function.
func (w *world) settled(t *rapid.T) {
	ctx := context.Background()
	if err := w.dec.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		in, err := w.dec.Input(ctx, w.st)
		if err != nil {
			t.Fatal(err)
		}
		events, err := decider.Decide(in)
		if err != nil {
			t.Fatalf("not decided: %v", err)
		}
		w.same(t, in)
		if len(events) == 0 {
			w.rested = true
			return
		}
		if err := w.dec.Writer.Append(ctx, w.st, in.Now, events...); err != nil {
			t.Fatalf("the fold refuses what Decide makes: %v", err)
		}
	}
	t.Fatal("deciding does not end")
}

func (w *world) same(t *rapid.T, in decider.Input) {
	in.NewID = counter()
	first, _ := decider.Decide(in)
	in.NewID = counter()
	second, _ := decider.Decide(in)
	if a, b := text(t, first), text(t, second); a != b {
		t.Fatalf("decided twice:\n%s\n%s", a, b)
	}
}

// text is the events as JSON.
func text(t *rapid.T, events []journal.Event) string {
	b, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// sound holds the state against what must be true of every settled session.
func (w *world) sound(t *rapid.T) {
	open := map[string]int{}
	for _, q := range w.st.Questions() {
		if !q.Over {
			open[q.Call]++
		}
	}
	in, err := w.dec.Input(context.Background(), w.st)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range w.st.Calls() {
		a := c.Last()
		asked := a.Progress == journal.Open && !c.Withdrawn
		if want := map[bool]int{true: 1}[asked]; open[c.Mark.ID] != want {
			t.Fatalf("call %s is %s with %d open questions", c.Mark.ID, a.Progress, open[c.Mark.ID])
		}
		if a.Progress == journal.Allowed && !c.Withdrawn {
			if err := decider.Releasable(in, c); err != nil {
				t.Fatalf("an honest allow is not releasable: %v", err)
			}
		}
	}
	for _, d := range w.st.Decisions() {
		made := slices.ContainsFunc(d.By, func(c journal.Cause) bool {
			return c.Kind == journal.ByRule || c.Kind == journal.ByGrant || c.Kind == journal.ByAnswer
		})
		if d.Outcome == journal.Allow && !made {
			t.Fatalf("allowed by nothing: %+v", d.Decision)
		}
	}
}

// once counts what may be in the chain once only.
func (w *world) once(t *rapid.T) {
	seen, backs := map[string]int{}, map[string]int{}
	for _, m := range w.log.Messages() {
		c, err := journal.Decode(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.Events {
			switch b := e.Body.(type) {
			case *journal.Decision:
				seen[fmt.Sprint("decision ", b.Call, b.Attempt)]++
			case *journal.Question:
				seen[fmt.Sprint("question ", b.Call, b.Attempt)]++
			case *journal.Start:
				seen[fmt.Sprint("start ", b.Call, b.Attempt)]++
			case *journal.Result:
				if b.Status == journal.StatusNotRun {
					backs[fmt.Sprint("start ", b.Call, b.Attempt)]++
				}
			}
		}
	}
	for what, n := range seen {
		if n > 1+backs[what] {
			t.Fatalf("%s: %d times", what, n)
		}
	}
}

// replayed folds the journal again and decides again wherever a decider did:
// the same comes out.
func (w *world) replayed(t *rapid.T) {
	st, chain := journal.NewState(w.chain), journal.NewState(journal.PolicyChain())
	var policies decider.Policies
	for _, m := range w.log.Messages() {
		sub, err := journal.ParseSubject(m.Subject)
		if err != nil {
			t.Fatal(err)
		}
		if sub.Chain.IsPolicy() {
			chain.Apply(m)
			policies.Update(chain)
			continue
		}
		c, err := journal.Decode(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		if sub.Actor == "decider" {
			ids := c.Events
			next := func() string { id := ids[0].ID; ids = ids[1:]; return id }
			// What does not fit the commit is made and thrown away: give it ids too.
			spare := counter()
			got, err := decider.Decide(decider.Input{State: st, Policies: &policies, Now: c.Time, NewID: func() string {
				if len(ids) == 0 {
					return spare()
				}
				return next()
			}})
			if err != nil {
				t.Fatal(err)
			}
			if a, b := text(t, c.Events), text(t, got); a != b {
				t.Fatalf("replayed at %d:\n%s\n%s", m.Seq, a, b)
			}
		}
		if v, why := st.Apply(m); v != journal.Valid {
			t.Fatalf("message %d is %s: %s", m.Seq, v, why)
		}
	}
}

func TestHistories(t *testing.T) { rapid.Check(t, history) }

// history draws a session, decides it step by step, and replays it.
func history(t *rapid.T) {
	w := newWorld(t)
	w.settled(t)
	act := func(do func(*rapid.T)) func(*rapid.T) {
		return func(t *rapid.T) {
			do(t)
			if rapid.IntRange(0, 4).Draw(t, "decider sleeps") > 0 {
				w.settled(t)
				w.sound(t)
			}
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"call": act(w.call), "call again": act(w.call), "answer": act(w.answer), "answer again": act(w.answer),
		"revoke": act(w.revoke), "import": act(w.importOne), "adopt": act(w.adoptOne), "activate": act(w.activateOne),
		"die": act(w.die), "attach": act(w.attachOne), "detach": act(w.detachOne), "start": act(func(t *rapid.T) {
			w.settled(t) // the releasing side checks first
			w.startOne(t)
		}), "result": act(w.resultOne), "clock": act(w.step),
	})
	w.settled(t)
	w.sound(t)
	w.once(t)
	w.replayed(t)
}
