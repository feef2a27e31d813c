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
	whole := tell(t)
	for rule, ways := range breaks {
		for name, way := range ways {
			t.Run(string(rule)+"/"+name, func(t *testing.T) {
				ta := whole.clone()
				way(t, ta)
				broken(t, ta.retell(t), ta.witness, believing, rule)
			})
		}
	}
}

// TestChainBroken: messages that were tampered with, and a fold that does not mind.
func TestChainBroken(t *testing.T) {
	whole := tell(t)
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
			ta := whole.clone()
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
	whole := tell(t)
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
			ta := whole.clone()
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
	whole := tell(t)
	for name, way := range map[string]func(*testing.T, *tale){
		"runs":      breaks[OneRun]["run opened twice"],
		"calls":     breaks[OneCall]["the key again"],
		"questions": breaks[AskedOnce]["asked twice"],
		"decisions": breaks[OneDecision]["decided twice"],
		"starts":    breaks[OneStart]["started twice"],
	} {
		t.Run(name, func(t *testing.T) {
			ta := whole.clone()
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

// TestRepaired: after a repair everything that was open is asked about anew,
// and what it says was lost is no hole any more.
func TestRepaired(t *testing.T) {
	tl := newTeller(t)
	tl.add(&journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession}, &journal.Adopt{Digest: policyID})
	grant := tl.granted()
	asked := tl.call("asked", "other", `{"n":11}`)
	question := tl.ask(asked, 1, journal.AskNoMatch)
	begun := tl.call("begun", "write", `{"n":12}`)
	tl.start(begun, 1, "r1", tl.allow(begun, 1, byGrant(grant)))
	tl.effect(begun)
	lost := tl.log.Inject(journal.Message{Subject: "journal.s.other.decider.decider", Data: []byte("lost")})
	tl.log.Drop(lost)
	tl.st.MarkHoles([]uint64{lost})
	tl.as(journal.RoleAdmin, &journal.Repair{Missing: []uint64{lost}, Reason: "lost"})
	asked2, begun2 := tl.ask(asked, 2, journal.AskInterrupted), tl.ask(begun, 2, journal.AskInterrupted)
	tl.start(begun, 2, "r1", tl.allow(begun, 2, byAnswer(tl.answer(begun2, journal.AllowOnce))))
	tl.effect(begun)
	tl.result(begun, 2, "r1", journal.StatusOK)
	tl.start(asked, 2, "r1", tl.allow(asked, 2, byAnswer(tl.answer(asked2, journal.AllowOnce))))
	tl.effect(asked)
	tl.result(asked, 2, "r1", journal.StatusOK)
	r, err := Check(t.Context(), tl.log, tl.witness)
	if err != nil || r.Count != 0 {
		t.Errorf("%v %+v", err, r.Violations)
	}
	ta := tl.end()
	again := tell(t)
	again.commits, again.witness = ta.commits, ta.witness
	drop(t, again, 0, every[*journal.Repair])
	broken(t, again.retell(t), again.witness, believing, AskedOnce)
	again.commits = ta.commits
	again.witness.Answers = append(again.witness.Answers, Answer{session, question, journal.AllowOnce, ""})
	change(t, again, 2, every[*journal.Answer], func(a *journal.Answer) { a.Question = question })
	broken(t, again.retell(t), again.witness, believing, Said)
}
