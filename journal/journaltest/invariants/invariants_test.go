package invariants

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// byRule is what allows a call by itself.
func byRule() journal.Cause { return journal.Cause{Kind: journal.ByRule, Rule: rule("allow")} }

func byAnswer(id string) journal.Cause { return journal.Cause{Kind: journal.ByAnswer, ID: id} }
func byGrant(id string) journal.Cause  { return journal.Cause{Kind: journal.ByGrant, ID: id} }

// tell is a session with everything in it that the rules speak of, none of
// them broken.
func tell(t *testing.T) *tale {
	tl := newTeller(t)
	tl.add(&journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession}, &journal.Adopt{Digest: policyID})
	plain := tl.call("plain", "free", `{"n":1}`)
	tl.start(plain, 1, "r1", tl.allow(plain, 1, byRule()))
	tl.effect(plain)
	tl.result(plain, 1, "r1", journal.StatusOK)
	grant := tl.granted()
	tl.interrupted(grant)
	tl.denied()
	tl.notRun()
	tl.revoked(grant)
	tl.add(&journal.Closed{Agent: "main", Run: "r2"})
	return tl.end()
}

// granted: an answer allows a call and leaves a grant.
func (tl *teller) granted() (grant string) {
	first := tl.call("first", "write", `{"n":2}`)
	q := tl.ask(first, 1, journal.AskNoMatch)
	a := tl.answer(q, journal.AlwaysAllow)
	w := tl.writers[journal.RoleDecider]
	g := w.Event(&journal.Grant{Question: q, Rules: []json.RawMessage{rule("allow")}})
	d := w.Event(tl.decision(first, 1, journal.Allow, byAnswer(a), byGrant(g.ID)))
	if err := w.Append(tl.Context(), tl.st, w.Now(tl.st), g, d); err != nil {
		tl.Fatal(err)
	}
	tl.start(first, 1, "r1", d.ID)
	tl.effect(first)
	tl.result(first, 1, "r1", journal.StatusOK)
	return g.ID
}

// interrupted: run r1 dies with two calls started and two questions open, r2
// goes on. One call is run again because a person says so, the other unasked.
func (tl *teller) interrupted(grant string) {
	again := tl.call("again", "write", `{"n":3}`)
	tl.start(again, 1, "r1", tl.allow(again, 1, byGrant(grant)))
	redo := tl.call("redo", "redo", `{"n":4}`)
	tl.start(redo, 1, "r1", tl.allow(redo, 1, byRule()))
	open := tl.call("", "other", `{"n":5}`)
	q := tl.ask(open, 1, journal.AskNoMatch)
	tl.effect(again)
	tl.effect(redo)
	tl.add(&journal.Opened{Agent: "main", Run: "r2", Kind: journal.KindSession, Takeover: true})
	for _, call := range []string{again, redo, open} {
		tl.add(&journal.Attach{Call: call, Run: "r2"})
	}
	tl.start(redo, 2, "r2", tl.allow(redo, 2, byRule()))
	tl.effect(redo)
	tl.result(redo, 2, "r2", journal.StatusOK)
	a := tl.answer(tl.ask(again, 2, journal.AskInterrupted), journal.AllowOnce)
	tl.start(again, 2, "r2", tl.allow(again, 2, byAnswer(a)))
	tl.effect(again)
	tl.result(again, 2, "r2", journal.StatusOK)
	tl.result(again, 1, "r1", journal.StatusOK) // late
	tl.start(open, 1, "r2", tl.allow(open, 1, byAnswer(tl.answer(q, journal.AllowOnce))))
	tl.effect(open)
	tl.result(open, 1, "r2", journal.StatusError)
}

func (tl *teller) callOf2(key, tool, arguments string) string {
	c := &journal.Call{Agent: "main", Run: "r2", Kind: journal.CallTool, Tool: tool, Arguments: json.RawMessage(arguments),
		Key: key, Digest: journal.Digest([]byte(tool + arguments))}
	id := tl.add(c)[0]
	tl.calls[id] = c
	return id
}

// denied: a denied call is asked about again when its agent says so.
func (tl *teller) denied() {
	call := tl.callOf2("denied", "other", `{"n":6}`)
	a := tl.answer(tl.ask(call, 1, journal.AskNoMatch), journal.DenyOnce)
	tl.add(tl.decision(call, 1, journal.Deny, byAnswer(a)))
	tl.add(&journal.Detach{Call: call, Run: "r2", Reason: "again"}, &journal.Attach{Call: call, Run: "r2", Retry: true})
	a = tl.answer(tl.ask(call, 2, journal.AskNoMatch), journal.DenyOnce)
	tl.add(tl.decision(call, 2, journal.Deny, byAnswer(a)))
}

// notRun: a start that came to nothing gives its allow back.
func (tl *teller) notRun() {
	call := tl.callOf2("", "free", `{"n":7}`)
	d := tl.allow(call, 1, byRule())
	tl.start(call, 1, "r2", d)
	tl.result(call, 1, "r2", journal.StatusNotRun)
	tl.start(call, 1, "r2", d)
	tl.effect(call)
	tl.result(call, 1, "r2", journal.StatusOK)
}

// revoked: an unspent allow lapses with its grant, and the call is asked about.
func (tl *teller) revoked(grant string) {
	call := tl.callOf2("revoked", "write", `{"n":8}`)
	d := tl.allow(call, 1, byGrant(grant))
	tl.as(journal.RoleApprover, &journal.Revoke{Grant: grant, Reason: "enough"})
	tl.add(&journal.Lapse{Decision: d, Reason: journal.LapseRevoked})
	tl.ask(call, 2, journal.AskNoMatch)
	tl.add(&journal.Detach{Call: call, Run: "r2", Reason: "not needed", Withdraw: true})
}

// believer takes every message to count, so that the rules themselves are
// tested and not what the fold lets through to them.
type believer struct{}

func (believer) counts(journal.Message) (bool, string) { return true, "" }
func (believer) differs(*ledger) string                { return "" }

func believing(journal.Chain) judge { return believer{} }

func TestHealthy(t *testing.T) {
	ta := tell(t)
	for name, judge := range map[string]func(journal.Chain) judge{"fold": byFold, "believer": believing} {
		r, err := check(t.Context(), ta.retell(t), ta.witness, judge)
		if err != nil || r.Count != 0 {
			t.Fatalf("%s: %v %+v", name, err, r.Violations)
		}
		want := Tally{Sessions: 1, Messages: len(ta.commits), Runs: 2, Takeovers: 1, Calls: 8, Questions: 6, Interrupted: 1,
			Answers: 5, Decisions: 11, Grants: 1, Starts: 9, Repeated: 2, Results: 8}
		if r.Tally != want {
			t.Errorf("%s: %+v, want %+v", name, r.Tally, want)
		}
	}
}

// keyed fits the call with a key, and what is about it is found by its id.
func keyed(t *testing.T, ta *tale, key string) string {
	i, k := find(t, ta, 0, func(c *journal.Call) bool { return c.Key == key })
	return ta.commits[i].Events[k].ID
}

func start(call string) func(*journal.Start) bool {
	return func(b *journal.Start) bool { return b.Call == call }
}
func about(call string) func(*journal.Question) bool {
	return func(b *journal.Question) bool { return b.Call == call }
}
func decisionOn(call string) func(*journal.Decision) bool {
	return func(b *journal.Decision) bool { return b.Call == call }
}

// breaks are the ways to break each rule.
var breaks = map[Rule]map[string]func(*testing.T, *tale){
	OneRun: {
		"run opened twice": func(t *testing.T, ta *tale) { again(t, ta, 0, any1[*journal.Opened]) },
		"no takeover": func(t *testing.T, ta *tale) {
			change(t, ta, 1, any1[*journal.Opened], func(o *journal.Opened) { o.Takeover = false })
		},
		"a call after the end": func(t *testing.T, ta *tale) {
			change(t, ta, 0, func(c *journal.Call) bool { return c.Key == "denied" }, func(c *journal.Call) { c.Run = "r1" })
		},
		"a start after the end": func(t *testing.T, ta *tale) {
			change(t, ta, 1, start(keyed(t, ta, "again")), func(s *journal.Start) { s.Run = "r1" })
		},
		"an attach after the end": func(t *testing.T, ta *tale) {
			change(t, ta, 0, any1[*journal.Attach], func(a *journal.Attach) { a.Run = "r1" })
		},
	},
	OneCall: {
		"the key again": func(t *testing.T, ta *tale) {
			again(t, ta, 0, func(c *journal.Call) bool { return c.Key == "plain" })
		},
	},
	AskedOnce: {
		"asked twice": func(t *testing.T, ta *tale) { again(t, ta, 0, about(keyed(t, ta, "first"))) },
		"asked under another attempt": func(t *testing.T, ta *tale) {
			again(t, ta, 0, about(keyed(t, ta, "first")))
			change(t, ta, 1, about(keyed(t, ta, "first")), func(q *journal.Question) { q.Attempt = 2 })
		},
		"asked when it is done": func(t *testing.T, ta *tale) {
			change(t, ta, 0, about(keyed(t, ta, "revoked")), func(q *journal.Question) { q.Call = keyed(t, ta, "plain") })
		},
		"asked without the lapse": func(t *testing.T, ta *tale) { drop(t, ta, 0, any1[*journal.Lapse]) },
		"asked again without a retry": func(t *testing.T, ta *tale) {
			drop(t, ta, 0, func(a *journal.Attach) bool { return a.Retry })
		},
		"asked about an interruption that was none": func(t *testing.T, ta *tale) {
			drop(t, ta, 0, start(keyed(t, ta, "again")))
		},
		"made anew instead of joined": func(t *testing.T, ta *tale) {
			i, k := find(t, ta, 0, func(c *journal.Call) bool { return c.Key == "" })
			open := ta.commits[i].Events[k].ID
			again(t, ta, 0, func(c *journal.Call) bool { return c.Key == "" })
			to, _ := find(t, ta, 0, func(a *journal.Attach) bool { return a.Call == open })
			change(t, ta, 1, func(c *journal.Call) bool { return c.Key == "" }, func(c *journal.Call) { c.Run = "r2" })
			ta.commits = moved(ta.commits, i+1, to-1)
		},
	},
	OneDecision: {
		"decided twice": func(t *testing.T, ta *tale) { again(t, ta, 0, decisionOn(keyed(t, ta, "plain"))) },
		"decided under another attempt": func(t *testing.T, ta *tale) {
			again(t, ta, 0, decisionOn(keyed(t, ta, "plain")))
			change(t, ta, 1, decisionOn(keyed(t, ta, "plain")), func(d *journal.Decision) { d.Attempt = 2 })
		},
		"of no call": func(t *testing.T, ta *tale) {
			change(t, ta, 0, decisionOn(keyed(t, ta, "plain")), func(d *journal.Decision) { d.Call = ta.commits[0].Events[0].ID })
		},
	},
	Ground: {
		"by nothing": func(t *testing.T, ta *tale) {
			change(t, ta, 0, any1[*journal.Decision], func(d *journal.Decision) { d.By = []journal.Cause{} })
		},
		"by an error": func(t *testing.T, ta *tale) {
			change(t, ta, 0, any1[*journal.Decision], func(d *journal.Decision) { d.By = []journal.Cause{{Kind: journal.ByError}} })
		},
		"by a rule that denies": func(t *testing.T, ta *tale) {
			change(t, ta, 0, any1[*journal.Decision], func(d *journal.Decision) { d.By[0].Rule = rule("deny") })
		},
		"by an outcome of its own": func(t *testing.T, ta *tale) {
			change(t, ta, 0, func(d *journal.Decision) bool { return d.Outcome == journal.Deny }, func(d *journal.Decision) { d.Outcome = journal.Allow })
		},
		"by an answer that denies": func(t *testing.T, ta *tale) {
			change(t, ta, 0, any1[*journal.Answer], func(a *journal.Answer) { a.Action = journal.DenyOnce })
			ta.witness.Answers[0].Action = journal.DenyOnce
		},
		"by no answer": func(t *testing.T, ta *tale) {
			ta.witness.Answers = ta.witness.Answers[1:]
			drop(t, ta, 0, any1[*journal.Answer])
		},
		"by another's answer": func(t *testing.T, ta *tale) {
			i, k := find(t, ta, 2, any1[*journal.Answer])
			other := ta.commits[i].Events[k].ID
			change(t, ta, 1, decisionOn(keyed(t, ta, "again")), func(d *journal.Decision) { d.By = []journal.Cause{byAnswer(other)} })
		},
		"by no grant": func(t *testing.T, ta *tale) { drop(t, ta, 0, any1[*journal.Grant]) },
		"by a grant that denies": func(t *testing.T, ta *tale) {
			change(t, ta, 0, any1[*journal.Grant], func(g *journal.Grant) { g.Rules = []json.RawMessage{rule("deny")} })
		},
		"by an expired grant": func(t *testing.T, ta *tale) {
			change(t, ta, 0, any1[*journal.Grant], func(g *journal.Grant) { g.Expires = ta.commits[0].Time })
		},
		"by a grant used up": func(t *testing.T, ta *tale) {
			change(t, ta, 0, any1[*journal.Grant], func(g *journal.Grant) { g.Uses = 1 })
		},
		"by a revoked grant": func(t *testing.T, ta *tale) {
			from, _ := find(t, ta, 0, any1[*journal.Revoke])
			to, _ := find(t, ta, 0, start(keyed(t, ta, "again")))
			ta.commits = moved(ta.commits, from, to)
		},
	},
	OneStart: {
		"started twice": func(t *testing.T, ta *tale) { again(t, ta, 0, start(keyed(t, ta, "plain"))) },
		"started on a denial": func(t *testing.T, ta *tale) {
			change(t, ta, 0, decisionOn(keyed(t, ta, "plain")), func(d *journal.Decision) { d.Outcome = journal.Deny })
		},
		"started on nothing": func(t *testing.T, ta *tale) { drop(t, ta, 0, decisionOn(keyed(t, ta, "plain"))) },
		"started on another's allow": func(t *testing.T, ta *tale) {
			i, k := find(t, ta, 0, decisionOn(keyed(t, ta, "plain")))
			other := ta.commits[i].Events[k].ID
			change(t, ta, 0, start(keyed(t, ta, "first")), func(s *journal.Start) { s.Decision = other })
		},
		"started with other arguments": func(t *testing.T, ta *tale) {
			change(t, ta, 0, start(keyed(t, ta, "plain")), func(s *journal.Start) { s.Digest = policyID })
		},
		"started by who does not wait": func(t *testing.T, ta *tale) {
			drop(t, ta, 0, func(a *journal.Attach) bool { return a.Call == keyed(t, ta, "again") })
		},
		"started when it has its result": func(t *testing.T, ta *tale) {
			from, _ := find(t, ta, 1, func(r *journal.Result) bool { return r.Call == keyed(t, ta, "again") })
			to, _ := find(t, ta, 1, start(keyed(t, ta, "again")))
			ta.commits = moved(ta.commits, from, to)
		},
		"started after the lapse": func(t *testing.T, ta *tale) {
			call := keyed(t, ta, "revoked")
			i, k := find(t, ta, 0, decisionOn(call))
			dec, _ := find(t, ta, 0, any1[*journal.Lapse])
			ta.commits = slices.Insert(slices.Clone(ta.commits), dec+1, journal.Commit{Session: session, Role: journal.RoleDecider, Actor: "decider",
				Time: ta.commits[dec].Time, Events: []journal.Event{journal.NewEvent("01ARZ3NDEKTSV4RRFFQ69G5FAV",
					&journal.Start{Call: call, Attempt: 1, Run: "r2", Decision: ta.commits[i].Events[k].ID, Digest: ta.commits[i].Events[k].Body.(*journal.Decision).Digest})}})
		},
	},
	OneResult: {
		"two results": func(t *testing.T, ta *tale) { again(t, ta, 0, any1[*journal.Result]) },
		"of another run": func(t *testing.T, ta *tale) {
			change(t, ta, 0, any1[*journal.Result], func(r *journal.Result) { r.Run = "r2" })
		},
		"of no start": func(t *testing.T, ta *tale) { drop(t, ta, 0, start(keyed(t, ta, "plain"))) },
	},
	EffectOnce: {
		"run again unasked": func(t *testing.T, ta *tale) {
			change(t, ta, 1, decisionOn(keyed(t, ta, "again")), func(d *journal.Decision) { d.By = []journal.Cause{byRule()} })
		},
		"run again on an answer to something else": func(t *testing.T, ta *tale) {
			change(t, ta, 0, func(q *journal.Question) bool { return q.Reason == journal.AskInterrupted }, func(q *journal.Question) { q.Reason = journal.AskNoMatch })
		},
		"run again, though not idempotent": func(_ *testing.T, ta *tale) { ta.witness.Idempotent = nil },
		"twice": func(_ *testing.T, ta *tale) {
			ta.witness.Effects = append(ta.witness.Effects, ta.witness.Effects[0])
		},
	},
	EffectStarted: {
		"no call": func(_ *testing.T, ta *tale) {
			ta.witness.Effects = append(ta.witness.Effects, Effect{session, "main", "free", json.RawMessage(`{"n":9}`)})
		},
		"no session": func(_ *testing.T, ta *tale) {
			ta.witness.Effects = append(ta.witness.Effects, Effect{"s2", "main", "free", json.RawMessage(`{"n":1}`)})
		},
		"another agent's": func(_ *testing.T, ta *tale) { ta.witness.Effects[0].Agent = "other" },
		"once more than started": func(_ *testing.T, ta *tale) {
			ta.witness.Effects = append(ta.witness.Effects, Effect{session, "main", "redo", json.RawMessage(`{"n":4}`)})
		},
		"not run": func(t *testing.T, ta *tale) {
			change(t, ta, 0, func(r *journal.Result) bool { return r.Call == keyed(t, ta, "plain") }, func(r *journal.Result) { r.Status = journal.StatusNotRun })
		},
	},
	ResultEffective: {
		"nothing took place": func(_ *testing.T, ta *tale) { ta.witness.Effects = ta.witness.Effects[1:] },
		"nothing at all":     func(_ *testing.T, ta *tale) { ta.witness.Effects = []Effect{} },
	},
	Said: {
		"asked of nobody's": func(_ *testing.T, ta *tale) { ta.witness.Asked[0].Question = "none" },
		"shown otherwise":   func(_ *testing.T, ta *tale) { ta.witness.Asked[0].Shown = policyID },
		"never said":        func(_ *testing.T, ta *tale) { ta.witness.Answers = ta.witness.Answers[1:] },
		"nobody said anything": func(_ *testing.T, ta *tale) {
			ta.witness.Answers = []Answer{}
		},
		"answered twice": func(t *testing.T, ta *tale) { again(t, ta, 0, any1[*journal.Answer]) },
		"answered to something else": func(t *testing.T, ta *tale) {
			change(t, ta, 0, any1[*journal.Answer], func(a *journal.Answer) { a.Shown = policyID })
		},
		"answered when it is over": func(t *testing.T, ta *tale) {
			again(t, ta, 0, any1[*journal.Answer])
			i, _ := find(t, ta, 1, any1[*journal.Answer])
			change(t, ta, 1, any1[*journal.Answer], func(a *journal.Answer) { a.By = "another" })
			to, _ := find(t, ta, 0, decisionOn(keyed(t, ta, "first")))
			ta.commits = moved(ta.commits, i, to)
		},
	},
	Kept: {
		"an answer lost":  func(_ *testing.T, ta *tale) { ta.witness.Answers[0].ID = "lost" },
		"a result lost":   func(_ *testing.T, ta *tale) { ta.witness.Results[0].Digest = policyID },
		"another's":       func(_ *testing.T, ta *tale) { ta.witness.Results[0].Agent = "other" },
		"its key unknown": func(_ *testing.T, ta *tale) { ta.witness.Results[0].Key = "first" },
	},
}

// moved is a list with one element at another's place.
func moved(list []journal.Commit, from, to int) []journal.Commit {
	list = slices.Clone(list)
	c := list[from]
	return slices.Insert(slices.Delete(list, from, from+1), to, c)
}

// broken checks a tale and reports whether a rule is among those it breaks.
func broken(t *testing.T, log journal.Log, w Witness, judge func(journal.Chain) judge, rule Rule) {
	t.Helper()
	r, err := check(t.Context(), log, w, judge)
	if err != nil {
		t.Fatal(err)
	}
	if r.Count != len(r.Violations) {
		t.Errorf("%d violations, %d listed", r.Count, len(r.Violations))
	}
	if !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Rule == rule }) {
		t.Errorf("%s holds: %+v", rule, r.Violations)
	}
}

func TestBroken(t *testing.T) {
	for rule, ways := range breaks {
		for name, way := range ways {
			t.Run(string(rule)+"/"+name, func(t *testing.T) {
				ta := tell(t)
				way(t, ta)
				broken(t, ta.retell(t), ta.witness, believing, rule)
			})
		}
	}
}

// TestChainBroken: messages that were tampered with, and a fold that does not mind.
func TestChainBroken(t *testing.T) {
	for name, tamper := range map[string]func(*journal.Message){
		"unreadable": func(m *journal.Message) { m.Data = []byte("{") },
		"another's subject": func(m *journal.Message) {
			m.Subject = strings.Replace(m.Subject, "decider.decider", "decider.other", 1)
		},
		"no condition":      func(m *journal.Message) { m.Headers = nil },
		"another condition": func(m *journal.Message) { m.Headers[journal.HeaderExpected] = []string{"1"} },
		"another filter":    func(m *journal.Message) { m.Headers[journal.HeaderExpectedFilter] = []string{"journal.s.*.>"} },
		"after":             edited(func(c *journal.Commit) { c.After-- }),
		"n":                 edited(func(c *journal.Commit) { c.N++ }),
		"prev":              edited(func(c *journal.Commit) { c.Prev = policyID }),
		"time":              edited(func(c *journal.Commit) { c.Time.Time = c.Time.AddDate(-1, 0, 0) }),
		"session":           edited(func(c *journal.Commit) { c.Session = "s2" }),
	} {
		t.Run(name, func(t *testing.T) {
			ta := tell(t)
			log := ta.retell(t)
			log.Tamper(5, tamper)
			ta.witness.Stored = nil
			broken(t, log, ta.witness, believing, Chain)
		})
	}
}

func edited(edit func(*journal.Commit)) func(*journal.Message) {
	return func(m *journal.Message) {
		c, err := journal.Decode(m.Data)
		if err == nil {
			edit(c)
			m.Data, err = c.Encode()
		}
		if err != nil {
			panic(err)
		}
	}
}

// TestLost: with the real fold, what a store loses or a stranger writes.
func TestLost(t *testing.T) {
	junk := func(log *journaltest.Memory) {
		log.Inject(journal.Message{Subject: "journal.s.s1.agent.a", Data: []byte("junk")})
	}
	for name, c := range map[string]struct {
		damage func(*journaltest.Memory)
		rules  []Rule
	}{
		"lost in the middle": {func(log *journaltest.Memory) { log.Drop(5) }, []Rule{Kept, Chain, Fold}},
		"lost at the end":    {func(log *journaltest.Memory) { log.Drop(uint64(len(log.Messages()))) }, []Rule{Kept, Chain}},
		"changed":            {func(log *journaltest.Memory) { log.Tamper(5, edited(func(c *journal.Commit) { c.Actor = "x" })) }, []Rule{Kept, Chain}},
		"without effect":     {junk, []Rule{Chain}},
	} {
		t.Run(name, func(t *testing.T) {
			ta := tell(t)
			log := ta.retell(t)
			c.damage(log)
			for _, rule := range c.rules {
				broken(t, log, ta.witness, byFold, rule)
			}
		})
	}
	ta := tell(t)
	log := ta.retell(t)
	junk(log)
	ta.witness.Hostile = true
	if r, err := Check(t.Context(), log, ta.witness); err != nil || r.Count != 0 || r.Tally.Void != 1 {
		t.Errorf("what strangers write without effect: %v %+v", err, r)
	}
	ta.witness.Stored = append(ta.witness.Stored, Stored{uint64(len(ta.commits)) + 1, journal.Digest([]byte("junk"))})
	broken(t, log, ta.witness, byFold, Kept)
}

// lax is the fold where it cannot be heard: everything counts, whatever it
// says, as if it had a fault.
type lax struct{ judge }

func (l lax) counts(m journal.Message) (bool, string) {
	l.judge.counts(m)
	return true, ""
}

func TestFoldDiffers(t *testing.T) {
	for name, way := range map[string]func(*testing.T, *tale){
		"runs":      breaks[OneRun]["run opened twice"],
		"calls":     breaks[OneCall]["the key again"],
		"questions": breaks[AskedOnce]["asked twice"],
		"decisions": breaks[OneDecision]["decided twice"],
		"starts":    breaks[OneStart]["started twice"],
	} {
		t.Run(name, func(t *testing.T) {
			ta := tell(t)
			way(t, ta)
			broken(t, ta.retell(t), ta.witness, func(c journal.Chain) judge { return lax{byFold(c)} }, Fold)
		})
	}
	ta := tell(t)
	log := ta.retell(t)
	for name, change := range map[string]func(*ledger){
		"no call":   func(l *ledger) { l.calls = map[string]*call{"other": {}} },
		"waiter":    func(l *ledger) { l.calls[keyed(t, ta, "plain")].waiter = "r1" },
		"withdrawn": func(l *ledger) { l.calls[keyed(t, ta, "plain")].withdrawn = true },
		"arguments": func(l *ledger) { l.calls[keyed(t, ta, "plain")].Arguments = json.RawMessage(`{}`) },
		"prev":      func(l *ledger) { l.prev = "" },
		"grants":    func(l *ledger) { l.grants = nil },
		"commits":   func(l *ledger) { l.n++ },
	} {
		t.Run("ledger "+name, func(t *testing.T) {
			broken(t, log, ta.witness, func(c journal.Chain) judge { return other{byFold(c), change} }, Fold)
		})
	}
}

// other is the fold held against a ledger that was changed.
type other struct {
	judge
	change func(*ledger)
}

func (o other) differs(l *ledger) string {
	c := *l
	c.calls = map[string]*call{}
	for id, was := range l.calls {
		is := *was
		c.calls[id] = &is
	}
	o.change(&c)
	return o.judge.differs(&c)
}

// TestEveryRuleBreaks: no rule is without a test that breaks it.
func TestEveryRuleBreaks(t *testing.T) {
	elsewhere := []Rule{Chain, Fold}
	for _, r := range Rules() {
		if len(breaks[r]) == 0 && !slices.Contains(elsewhere, r) {
			t.Errorf("nothing breaks %s", r)
		}
	}
}

// TestUnwatched: what nobody watched is not held against the journal.
func TestUnwatched(t *testing.T) {
	ta := tell(t)
	w := Witness{Idempotent: ta.witness.Idempotent}
	if r, err := Check(t.Context(), ta.retell(t), w); err != nil || r.Count != 0 {
		t.Errorf("%v %+v", err, r)
	}
}

func TestReportIsBounded(t *testing.T) {
	ta := tell(t)
	for i := range maxListed + 10 {
		ta.witness.Asked = append(ta.witness.Asked, Asked{session, fmt.Sprint(i), ""})
	}
	r, err := Check(t.Context(), ta.retell(t), ta.witness)
	if err != nil || r.Count != maxListed+10 || len(r.Violations) != maxListed {
		t.Errorf("%v, %d listed of %d", err, len(r.Violations), r.Count)
	}
	if v := r.Violations[0].String(); v != "said: s1: a person was asked 0 as , which is not there" {
		t.Errorf("%q", v)
	}
}
