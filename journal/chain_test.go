package journal_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// epoch is when every chain of the tests begins.
var epoch = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func at(d time.Duration) journal.Time { return journal.At(epoch.Add(d)) }

type who = journal.Principal

var (
	bot  = who{Role: journal.RoleAgent, Actor: "bot"}
	bot2 = who{Role: journal.RoleAgent, Actor: "bot2"}
	dec  = who{Role: journal.RoleDecider, Actor: "dec"}
	ann  = who{Role: journal.RoleApprover, Actor: "ann"}
	ben  = who{Role: journal.RoleApprover, Actor: "ben"}
	web  = who{Role: journal.RoleApprover, Actor: "web"}
	root = who{Role: journal.RoleAdmin, Actor: "root"}

	policyA = journal.Digest([]byte("a"))
	policyB = journal.Digest([]byte("b"))
	argsOne = journal.Digest([]byte(`{"n":1}`))
)

const raw0 = "0" // any JSON

// chain writes one chain into a journal in memory, and folds it as it goes.
type chain struct {
	t    rapid.TB
	mem  *journaltest.Memory
	st   *journal.State
	now  time.Time // the writers' and the server's clock
	made uint64    // ids
}

// newChain is an empty session called s.
func newChain(t rapid.TB) *chain { return chainOf(t, journal.SessionChain("s")) }

func chainOf(t rapid.TB, of journal.Chain) *chain {
	c := &chain{t: t, mem: journaltest.NewMemory(), st: journal.NewState(of), now: epoch}
	c.mem.SetClock(func() time.Time { return c.now })
	return c
}

// newSession is a session in which bot's run r1 of agent main lives, under policyA.
func newSession(t rapid.TB) *chain {
	c := newChain(t)
	c.add(bot, opened("main", "r1"))
	c.add(dec, &journal.Adopt{Digest: policyA})
	return c
}

// id makes the chain's next event id.
func (c *chain) id() string {
	c.made++
	var id ulid.ULID
	if err := id.SetTime(ulid.Timestamp(epoch)); err != nil {
		c.t.Fatal(err)
	}
	binary.BigEndian.PutUint64(id[8:], c.made)
	return id.String()
}

// events gives bodies new ids.
func (c *chain) events(bodies ...journal.Body) []journal.Event {
	list := make([]journal.Event, len(bodies))
	for i, b := range bodies {
		list[i] = journal.NewEvent(c.id(), b)
	}
	return list
}

func (c *chain) writer(by who, log journal.Log) *journal.Writer {
	w, err := journal.NewWriter(journal.Config{Log: log, Role: by.Role, Actor: by.Actor, Now: func() time.Time { return c.now }})
	if err != nil {
		c.t.Fatal(err)
	}
	return w
}

// add appends bodies as one commit and returns the first event's id.
func (c *chain) add(by who, bodies ...journal.Body) string {
	c.t.Helper()
	return c.append(by, c.events(bodies...)...)
}

func (c *chain) append(by who, events ...journal.Event) string {
	c.t.Helper()
	w := c.writer(by, c.mem)
	if err := w.Append(context.Background(), c.st, w.Now(c.st), events...); err != nil {
		c.t.Fatalf("%s appends %s: %v", by, events[0].Kind, err)
	}
	return events[0].ID
}

// commit is the next commit of the chain.
func (c *chain) commit(by who, events ...journal.Event) *journal.Commit {
	return &journal.Commit{
		Session: c.st.Chain().Session(), N: c.st.N() + 1, After: c.st.LastSeq(), Prev: c.st.Prev(),
		Role: by.Role, Actor: by.Actor, Time: journal.At(c.now), Events: events,
	}
}

// message is the commit as the journal would hold it next.
func (c *chain) message(commit *journal.Commit) journal.Message {
	data, err := commit.Encode()
	if err != nil {
		c.t.Fatal(err)
	}
	return c.messageOf(who{Role: commit.Role, Actor: commit.Actor}, data)
}

func (c *chain) messageOf(by who, data []byte) journal.Message {
	return journal.Message{
		Subject: journal.Subject{Chain: c.st.Chain(), Role: by.Role, Actor: by.Actor}.String(),
		Headers: journal.ExpectHeaders(c.st.Chain(), c.st.LastSeq()), Data: data,
	}
}

// inject stores a message past every check and folds it.
func (c *chain) inject(m journal.Message) (journal.Verdict, string) {
	m.Seq, m.Time = c.mem.Inject(m), c.now
	return c.st.Apply(m)
}

// void holds that a commit of events has no effect: the writer refuses it
// unsent, and stored all the same it is void, for a reason that says why.
func (c *chain) void(by who, why string, events ...journal.Event) {
	c.t.Helper()
	before, stored := dumpOf(c.t, c.st), len(c.mem.Messages())
	err := c.writer(by, c.mem).Append(context.Background(), c.st, journal.At(c.now), events...)
	if !errors.Is(err, journal.ErrInvalid) || !strings.Contains(err.Error(), why) {
		c.t.Errorf("the writer says %v, want %q", err, why)
	}
	if len(c.mem.Messages()) != stored {
		c.t.Error("the writer sent it")
	}
	v, got := c.inject(c.message(c.commit(by, events...)))
	if v != journal.VoidMsg || !strings.Contains(got, why) {
		c.t.Errorf("it is %s: %s; want void: %s", v, got, why)
	}
	c.same(before)
	c.goesOn()
}

// same holds that the state is as it was.
func (c *chain) same(before string) {
	c.t.Helper()
	if diff := cmp.Diff(before, dumpOf(c.t, c.st)); diff != "" {
		c.t.Errorf("the state changed (-before +after):\n%s", diff)
	}
}

// goesOn holds that the chain takes a next commit, unless it has ended.
func (c *chain) goesOn() {
	c.t.Helper()
	switch {
	case c.st.Ended() != nil:
	case c.st.N() == 0 && !c.st.Chain().IsPolicy():
		c.add(bot, opened("another", "r-another"))
	default:
		c.append(root, c.info("{}"))
	}
}

// info is an informational event.
func (c *chain) info(body string) journal.Event {
	e, err := journal.InfoEvent(c.id(), "seen", json.RawMessage(body))
	if err != nil {
		c.t.Fatal(err)
	}
	return e
}

// What follows makes bodies that are valid in the state as it is. Options
// change them; a question is sealed after its options.

func opened(agent, run string, options ...func(*journal.Opened)) *journal.Opened {
	return with(&journal.Opened{Agent: agent, Run: run, Kind: journal.KindSession}, options)
}

func shared(b *journal.Opened)   { b.Shared = true }
func takeover(b *journal.Opened) { b.Takeover = true }

func with[B any](b *B, options []func(*B)) *B {
	for _, o := range options {
		o(b)
	}
	return b
}

func (c *chain) callBody(run string, options ...func(*journal.Call)) *journal.Call {
	b := &journal.Call{
		Agent: "main", Run: run, Kind: journal.CallTool, Tool: "t",
		Arguments: json.RawMessage(`{"n":1}`), Digest: argsOne,
	}
	if r := c.st.Run(run); r != nil {
		b.Agent = r.Agent
	}
	return with(b, options)
}

func (c *chain) questionBody(call string, options ...func(*journal.Question)) *journal.Question {
	s := c.st.Call(call)
	q := &journal.Question{
		Call: call, Attempt: s.Last().No, Reason: journal.AskNoMatch, Verdict: json.RawMessage(raw0),
		Policy: c.st.Adopted(s.Agent, s.Layer).Digest, Engine: "e", Digest: s.Digest, Facts: json.RawMessage(raw0),
		Grantable: true, Suggestion: []json.RawMessage{json.RawMessage(`{"tool":"t"}`)}, Alternatives: [][]json.RawMessage{},
		Need: []journal.Stage{{Of: []string{}, Count: 1}}, Who: []journal.Entitlement{}, Frontends: []journal.Frontend{},
		View: json.RawMessage(raw0),
	}
	if s.Kind == journal.CallElicitation {
		q.Reason, q.Grantable = journal.AskElicitation, false
	}
	return c.seal(with(q, options))
}

func (c *chain) seal(q *journal.Question) *journal.Question {
	shown, err := q.ShownDigest()
	if err != nil {
		c.t.Fatal(err)
	}
	q.Shown = shown
	return q
}

func (c *chain) answerBody(question string, by who, action string, options ...func(*journal.Answer)) *journal.Answer {
	return with(&journal.Answer{Question: question, Action: action, Shown: c.st.Question(question).Shown, By: by.Actor}, options)
}

func (c *chain) decisionBody(call string, outcome journal.Outcome, by ...journal.Cause) *journal.Decision {
	s := c.st.Call(call)
	return &journal.Decision{
		Call: call, Attempt: s.Last().No, Outcome: outcome, By: by, Policy: c.st.Adopted(s.Agent, s.Layer).Digest,
		Engine: "e", Digest: s.Digest, Facts: json.RawMessage(raw0),
	}
}

func byRule() journal.Cause { return journal.Cause{Kind: journal.ByRule, Rule: json.RawMessage(raw0)} }

func byID(kind journal.CauseKind, id string) journal.Cause { return journal.Cause{Kind: kind, ID: id} }

func (c *chain) startBody(call string, options ...func(*journal.Start)) *journal.Start {
	s := c.st.Call(call)
	return with(&journal.Start{Call: call, Attempt: s.Last().No, Run: s.Waiter, Decision: s.Last().Decision, Digest: s.Digest}, options)
}

// resultBody is a result of the call's newest started attempt.
func (c *chain) resultBody(call string, status journal.Status, options ...func(*journal.Result)) *journal.Result {
	s := c.st.Call(call)
	b := &journal.Result{Call: call, Status: status, Attempt: 1, Run: "r1", Digest: journal.Digest(nil)}
	for _, a := range s.Attempts {
		if a.Start != "" {
			b.Attempt, b.Run = a.No, a.StartRun
		}
	}
	return with(b, options)
}

func attempt(n int) func(*journal.Result) { return func(b *journal.Result) { b.Attempt = n } }

func grantBody(question string, rules ...string) *journal.Grant {
	g := &journal.Grant{Question: question}
	for _, r := range rules {
		g.Rules = append(g.Rules, json.RawMessage(r))
	}
	return g
}

const (
	allowRule = `{"decision":"allow","tool":"t"}`
	denyRule  = `{"decision":"deny","tool":"t"}`
)

// imported is a grant that came from a file, and needs no question.
func imported(options ...func(*journal.Grant)) *journal.Grant {
	g := grantBody("", allowRule)
	g.Origin = &journal.Origin{Import: "file"}
	return with(g, options)
}

// What follows appends the usual steps.

// call is a call of run r1.
func (c *chain) call(options ...func(*journal.Call)) string {
	c.t.Helper()
	return c.add(bot, c.callBody("r1", options...))
}

// allow decides the call by rule and returns the decision.
func (c *chain) allow(call string) string {
	c.t.Helper()
	return c.add(dec, c.decisionBody(call, journal.Allow, byRule()))
}

func (c *chain) deny(call string) string {
	c.t.Helper()
	return c.add(dec, c.decisionBody(call, journal.Deny, byRule()))
}

func (c *chain) ask(call string, options ...func(*journal.Question)) string {
	c.t.Helper()
	return c.add(dec, c.questionBody(call, options...))
}

func (c *chain) answer(question string, by who, action string, options ...func(*journal.Answer)) string {
	c.t.Helper()
	return c.add(by, c.answerBody(question, by, action, options...))
}

func (c *chain) start(call string) string {
	c.t.Helper()
	return c.add(bot, c.startBody(call))
}

func (c *chain) result(call string, status journal.Status, options ...func(*journal.Result)) string {
	c.t.Helper()
	return c.add(bot, c.resultBody(call, status, options...))
}

// allowedCall is a call with an unspent allow.
func (c *chain) allowedCall(options ...func(*journal.Call)) string {
	c.t.Helper()
	call := c.call(options...)
	c.allow(call)
	return call
}

// startedCall is a call started by r1.
func (c *chain) startedCall(options ...func(*journal.Call)) string {
	c.t.Helper()
	call := c.allowedCall(options...)
	c.start(call)
	return call
}

// grantedCall is a call allowed by a new grant of ann's always-allow.
func (c *chain) grantedCall(options ...func(*journal.Answer)) (call, grant string) {
	c.t.Helper()
	call = c.call()
	question := c.ask(call)
	answer := c.answer(question, ann, journal.AlwaysAllow, options...)
	grant = c.id()
	c.append(dec, c.settle(question, answer, grant)...)
	return call, grant
}

// settle is the commit of an always-allow: its grant and its decision.
func (c *chain) settle(question, answer, grant string, options ...func(*journal.Grant)) []journal.Event {
	q := c.st.Question(question)
	g := grantBody(question, allowRule)
	for _, v := range q.Answers {
		if v.Mark.ID == answer {
			g.Expires, g.Uses = v.Expires, v.Uses
		}
	}
	g.Layer = c.st.Call(q.Call).Layer
	d := c.decisionBody(q.Call, journal.Allow, byID(journal.ByAnswer, answer), byID(journal.ByGrant, grant))
	return append([]journal.Event{journal.NewEvent(grant, with(g, options))}, c.events(d)...)
}

// byGrant is a call decided by a grant.
func (c *chain) byGrant(grant string, options ...func(*journal.Call)) string {
	c.t.Helper()
	call := c.call(options...)
	c.add(dec, c.decisionBody(call, journal.Allow, byID(journal.ByGrant, grant)))
	return call
}

// close ends run r1.
func (c *chain) close() {
	c.t.Helper()
	c.add(bot, &journal.Closed{Agent: "main", Run: "r1"})
}

// reopen begins run r2 of agent main.
func (c *chain) reopen(options ...func(*journal.Opened)) {
	c.t.Helper()
	c.add(bot, opened("main", "r2", options...))
}

func (c *chain) attach(call, run string, options ...func(*journal.Attach)) {
	c.t.Helper()
	c.add(bot, with(&journal.Attach{Call: call, Run: run}, options))
}

func retry(b *journal.Attach) { b.Retry = true }

func (c *chain) detach(call string) {
	c.t.Helper()
	c.add(bot, &journal.Detach{Call: call, Run: c.st.Call(call).Waiter})
}

func (c *chain) withdraw(call string) {
	c.t.Helper()
	c.add(bot, &journal.Detach{Call: call, Run: c.st.Call(call).Waiter, Withdraw: true})
}

func (c *chain) end() {
	c.t.Helper()
	c.add(dec, &journal.Ended{Reason: "done"})
}

// elicitation is a question a server puts to people for the sake of a started call.
func elicitation(call string) func(*journal.Call) {
	return func(b *journal.Call) { b.Kind, b.For = journal.CallElicitation, call }
}

// lose makes the chain's next message one that cannot be read, and puts an
// informational commit after it, appended as if it had been there.
func (c *chain) lose() (missing uint64) {
	c.t.Helper()
	missing = c.mem.Inject(c.message(c.commit(root, c.info("{}"))))
	c.mem.Drop(missing)
	m := c.message(c.commit(root, c.info("{}")))
	m.Headers = journal.ExpectHeaders(c.st.Chain(), missing)
	if v, why := c.inject(m); v != journal.Breaks {
		c.t.Fatalf("a commit past the lost one is %s: %s", v, why)
	}
	return missing
}

func (c *chain) repair(missing ...uint64) {
	c.t.Helper()
	c.add(root, &journal.Repair{Missing: missing, Reason: "disk"})
}
