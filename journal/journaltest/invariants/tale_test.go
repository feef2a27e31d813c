package invariants

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

const (
	session  = "s1"
	policyID = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	engine   = "test/1"
)

// tale is a session as it happened, commit by commit, for tests to change.
type tale struct {
	commits []journal.Commit
	witness Witness
}

// teller writes a tale through the real writers and the real fold.
type teller struct {
	*testing.T
	log     *journaltest.Memory
	st      *journal.State
	writers map[journal.Role]*journal.Writer
	calls   map[string]*journal.Call // by id
	witness Witness
}

func newTeller(t *testing.T) *teller {
	tl := &teller{T: t, log: journaltest.NewMemory(), st: journal.NewState(journal.SessionChain(session)),
		writers: map[journal.Role]*journal.Writer{}, calls: map[string]*journal.Call{},
		witness: Witness{Stored: []Stored{}, Results: []Result{}, Effects: []Effect{}, Asked: []Asked{}, Answers: []Answer{},
			Idempotent: func(tool string) bool { return tool == "redo" }}}
	for _, role := range []journal.Role{journal.RoleDecider, journal.RoleApprover, journal.RoleAdmin} {
		w, err := journal.NewWriter(journal.Config{Log: tl.log, Role: role, Actor: string(role)})
		if err != nil {
			t.Fatal(err)
		}
		tl.writers[role] = w
	}
	return tl
}

// as appends one commit and returns the ids of its events.
func (tl *teller) as(role journal.Role, bodies ...journal.Body) []string {
	tl.Helper()
	w := tl.writers[role]
	var events []journal.Event
	var ids []string
	for _, b := range bodies {
		e := w.Event(b)
		events, ids = append(events, e), append(ids, e.ID)
	}
	if err := w.Append(context.Background(), tl.st, w.Now(tl.st), events...); err != nil {
		tl.Fatal(err)
	}
	return ids
}

func (tl *teller) add(bodies ...journal.Body) []string {
	tl.Helper()
	return tl.as(journal.RoleDecider, bodies...)
}

func (tl *teller) call(key, tool, arguments string) string {
	tl.Helper()
	c := &journal.Call{Agent: "main", Run: "r1", Kind: journal.CallTool, Tool: tool, Arguments: json.RawMessage(arguments), Key: key}
	c.Digest = journal.Digest([]byte(tool + arguments))
	id := tl.add(c)[0]
	tl.calls[id] = c
	return id
}

func rule(decision string) json.RawMessage {
	return json.RawMessage(`{"decision":"` + decision + `","tool":"write"}`)
}

func (tl *teller) ask(call string, attempt int, reason journal.AskReason) string {
	tl.Helper()
	q := &journal.Question{Call: call, Attempt: attempt, Reason: reason, Verdict: json.RawMessage(`{}`), Policy: policyID, Engine: engine,
		Digest: tl.calls[call].Digest, Facts: json.RawMessage(`{}`), Grantable: reason != journal.AskInterrupted,
		Suggestion: []json.RawMessage{rule("allow")}, Alternatives: [][]json.RawMessage{}, Need: []journal.Stage{{Of: []string{}, Count: 1}},
		Who: []journal.Entitlement{}, Frontends: []journal.Frontend{}, View: json.RawMessage(`{}`)}
	var err error
	if q.Shown, err = q.ShownDigest(); err != nil {
		tl.Fatal(err)
	}
	id := tl.add(q)[0]
	tl.witness.Asked = append(tl.witness.Asked, Asked{session, id, q.Shown})
	return id
}

func (tl *teller) answer(question, action string) string {
	tl.Helper()
	a := &journal.Answer{Question: question, Action: action, Shown: tl.st.Question(question).Shown, By: "approver"}
	id := tl.as(journal.RoleApprover, a)[0]
	tl.witness.Answers = append(tl.witness.Answers, Answer{session, question, action, id})
	return id
}

func (tl *teller) decision(call string, attempt int, outcome journal.Outcome, by ...journal.Cause) *journal.Decision {
	return &journal.Decision{Call: call, Attempt: attempt, Outcome: outcome, By: by, Policy: policyID, Engine: engine,
		Digest: tl.calls[call].Digest, Facts: json.RawMessage(`{}`), Message: "so"}
}

func (tl *teller) allow(call string, attempt int, by ...journal.Cause) string {
	tl.Helper()
	return tl.add(tl.decision(call, attempt, journal.Allow, by...))[0]
}

func (tl *teller) start(call string, attempt int, run, decision string) {
	tl.Helper()
	tl.add(&journal.Start{Call: call, Attempt: attempt, Run: run, Decision: decision, Digest: tl.calls[call].Digest})
}

func (tl *teller) effect(call string) {
	c := tl.calls[call]
	tl.witness.Effects = append(tl.witness.Effects, Effect{session, c.Agent, c.Tool, c.Arguments})
}

func (tl *teller) result(call string, attempt int, run string, status journal.Status) {
	tl.Helper()
	content := json.RawMessage(`"did ` + call + `"`)
	r := &journal.Result{Call: call, Attempt: attempt, Run: run, Status: status, Content: content,
		Size: uint64(len(content)), Digest: journal.Digest(content)}
	tl.add(r)
	tl.witness.Results = append(tl.witness.Results, Result{session, "main", tl.calls[call].Key, r.Digest})
}

// end is the tale as it was stored.
func (tl *teller) end() *tale {
	tl.Helper()
	t := &tale{witness: tl.witness}
	for _, m := range tl.log.Messages() {
		c, err := journal.Decode(m.Data)
		if err != nil {
			tl.Fatal(err)
		}
		t.commits = append(t.commits, *c)
		t.witness.Stored = append(t.witness.Stored, Stored{m.Seq, journal.Digest(m.Data)})
	}
	return t
}

// clone is a tale that can be changed without changing this one.
func (ta *tale) clone() *tale {
	w := ta.witness
	w.Stored, w.Results, w.Effects = slices.Clone(w.Stored), slices.Clone(w.Results), slices.Clone(w.Effects)
	w.Asked, w.Answers = slices.Clone(w.Asked), slices.Clone(w.Answers)
	return &tale{slices.Clone(ta.commits), w}
}

// retell stores the commits as a chain. What was acknowledged of them is what
// is stored, since a change of one changes them all.
func (ta *tale) retell(t *testing.T) *journaltest.Memory {
	t.Helper()
	log := journaltest.NewMemory()
	ta.witness.Stored = []Stored{}
	var after, n uint64
	prev := ""
	for _, c := range ta.commits {
		n++
		c.N, c.After, c.Prev = n, after, prev
		data, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		chain := journal.SessionChain(session)
		after = log.Inject(journal.Message{Subject: journal.Subject{Chain: chain, Role: c.Role, Actor: c.Actor}.String(),
			Headers: journal.ExpectHeaders(chain, after), Data: data})
		prev = journal.Digest(data)
		ta.witness.Stored = append(ta.witness.Stored, Stored{after, prev})
	}
	return log
}

// find is the place of the nth event (from 0) of a type that fits.
func find[B journal.Body](t *testing.T, ta *tale, nth int, fits func(B) bool) (commit, event int) {
	t.Helper()
	for i, c := range ta.commits {
		for k, e := range c.Events {
			if b, ok := e.Body.(B); ok && fits(b) {
				if nth == 0 {
					return i, k
				}
				nth--
			}
		}
	}
	t.Fatal("the tale has no such event")
	return 0, 0
}

// change gives the nth event of a type that fits a copy of its body to change.
func change[B any, P interface {
	*B
	journal.Body
}](t *testing.T, ta *tale, nth int, fits func(P) bool, edit func(P)) {
	t.Helper()
	i, k := find(t, ta, nth, fits)
	body := *ta.commits[i].Events[k].Body.(P)
	edit(&body)
	ta.commits[i].Events = slices.Clone(ta.commits[i].Events)
	ta.commits[i].Events[k].Body = P(&body)
}

// drop takes the nth event of a type that fits out, with its commit if that is
// empty then.
func drop[B journal.Body](t *testing.T, ta *tale, nth int, fits func(B) bool) {
	t.Helper()
	i, k := find(t, ta, nth, fits)
	ta.commits[i].Events = slices.Delete(slices.Clone(ta.commits[i].Events), k, k+1)
	if len(ta.commits[i].Events) == 0 {
		ta.commits = slices.Delete(slices.Clone(ta.commits), i, i+1)
	}
}

// again repeats the commit of the nth event of a type that fits, with new ids.
func again[B journal.Body](t *testing.T, ta *tale, nth int, fits func(B) bool) {
	t.Helper()
	i, _ := find(t, ta, nth, fits)
	c := ta.commits[i]
	c.Events = slices.Clone(c.Events)
	for k := range c.Events {
		c.Events[k].ID = "01ARZ3NDEKTSV4RRFFQ69G5F" + string([]byte{'A' + byte(k), 'A'})
	}
	ta.commits = slices.Insert(slices.Clone(ta.commits), i+1, c)
}

// every fits all events of a type.
func every[B journal.Body](B) bool { return true }
