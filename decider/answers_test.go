package decider_test

import (
	"strings"
	"testing"
	"time"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

const approvals = `
rules: []
groups: {security: [sam, sue]}
approval:
  - {tool: all, need: [{of: [ann]}, {of: [bob]}]}
  - {tool: both, need: [{of: [ann, bob], count: 2}]}
  - {tool: any, need: [{of: [ann, bob]}]}
  - {tool: group, need: [{of: [security]}, {}]}
  - {tool: two, need: [{count: 2}]}
  - {tool: noted, note: true}
  - {tool: escalate, who: [{of: [ann]}, {of: [security], from: 1h}]}
`

type said struct{ who, action string }

func TestStagesOfNeed(t *testing.T) {
	allow, deny := journal.AllowOnce, journal.DenyOnce
	for _, tc := range []struct {
		name, tool string
		votes      []said
		want       string
	}{
		{"all-of, one", "all", []said{{"ann", allow}}, "asked"},
		{"all-of, both", "all", []said{{"ann", allow}, {"bob", allow}}, "allowed answer,answer"},
		{"all-of, backwards", "all", []said{{"bob", allow}, {"ann", allow}}, "allowed answer,answer"},
		{"all-of, another counts for nothing", "all", []said{{"ann", allow}, {"cat", allow}}, "asked"},
		{"all-of, another does not stand in the way", "all", []said{{"ann", allow}, {"cat", allow}, {"bob", allow}}, "allowed answer,answer"},
		{"all-of, another denies", "all", []said{{"ann", allow}, {"cat", deny}}, "denied answer"},
		{"count of a list", "both", []said{{"ann", allow}, {"bob", allow}}, "allowed answer,answer"},
		{"any-of", "any", []said{{"bob", allow}}, "allowed answer"},
		{"any-of, not listed", "any", []said{{"cat", allow}}, "asked"},
		{"group then anybody", "group", []said{{"sam", allow}, {"cat", allow}}, "allowed answer,answer"},
		{"anybody then group", "group", []said{{"cat", allow}, {"sue", allow}}, "allowed answer,answer"},
		{"group twice fills both", "group", []said{{"sam", allow}, {"sue", allow}}, "allowed answer,answer"},
		{"two people, one", "two", []said{{"ann", allow}}, "asked"},
		{"two people", "two", []said{{"ann", allow}, {"bob", allow}}, "allowed answer,answer"},
		{"two people, second denies", "two", []said{{"ann", allow}, {"bob", deny}}, "denied answer"},
		{"two people, first denies", "two", []said{{"ann", deny}}, "denied answer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, approvals)
			c := b.call("r1", tc.tool, `{}`)
			b.settle()
			for _, v := range tc.votes {
				b.answer(v.who, c, v.action)
			}
			b.want(c, tc.want)
		})
	}
}

// The stage that anybody fills comes first, and the one person of the second
// answers first: a later answer of anybody settles it all the same.
func TestAnEarlyAnswerLeavesRoom(t *testing.T) {
	b := newBench(t, "approval: [{tool: x, need: [{}, {of: [ann]}, {of: [ann, bob]}]}]\nrules: []")
	c := b.call("r1", "x", `{}`)
	b.settle()
	for _, who := range []string{"ann", "bob"} {
		b.answer(who, c, journal.AllowOnce)
		b.want(c, "asked")
	}
	b.answer("cat", c, journal.AllowOnce)
	b.want(c, "allowed answer,answer,answer")
}

func TestOneAnswerPerPersonAndNoneOnceSettled(t *testing.T) {
	b := newBench(t, approvals)
	c := b.call("r1", "two", `{}`)
	b.settle()
	b.answer("ann", c, journal.AllowOnce)
	if err := b.tryAnswer("ann", c, journal.AllowOnce); err == nil {
		t.Fatal("one person answered twice")
	}
	if err := b.tryAnswer("agent", c, journal.AllowOnce); err == nil {
		t.Fatal("the asker answered")
	}
	b.answer("bob", c, journal.AllowOnce)
	if err := b.tryAnswer("cat", c, journal.DenyOnce); err == nil {
		t.Fatal("a settled question took an answer")
	}
	b.want(c, "allowed answer,answer")
}

func TestGroupsAreSpelledOut(t *testing.T) {
	b := newBench(t, approvals)
	c := b.call("r1", "group", `{}`)
	b.settle()
	q := b.question(c)
	if got := strings.Join(q.Need[0].Of, ","); got != "sam,sue" || len(q.Need) != 2 || q.Need[1].Count != 1 {
		t.Fatalf("need %+v", q.Need)
	}
}

func TestEscalation(t *testing.T) {
	b := newBench(t, approvals)
	c := b.call("r1", "escalate", `{}`)
	b.settle()
	if err := b.tryAnswer("sam", c, journal.AllowOnce); err == nil {
		t.Fatal("the second line answered at once")
	}
	if err := b.tryAnswer("cat", c, journal.AllowOnce); err == nil {
		t.Fatal("somebody else answered")
	}
	b.now = b.now.Add(time.Hour)
	b.answer("sam", c, journal.AllowOnce)
	b.want(c, "allowed answer")
}

func TestUnusableAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, tool, action string
		edit               []func(*journal.Answer)
		says               string
	}{
		{"unknown action", "x", "perhaps", nil, `"perhaps" is not one of`},
		{"no action", "x", "", nil, "is not one of"},
		{"an elicitation's action", "x", journal.Accept, nil, "not a tool call"},
		{"one unusable rule", "x", journal.AlwaysAllow, []func(*journal.Answer){rules(`[{"tool":"x"},{"tool":"x","colour":1}]`)}, "colour"},
		{"a rule that is none", "x", journal.AlwaysAllow, []func(*journal.Answer){rule(`7`)}, "rule"},
		{"a rule without tool", "x", journal.AlwaysAllow, []func(*journal.Answer){rule(`{}`)}, "tool"},
		{"empty rules", "x", journal.AlwaysAllow, []func(*journal.Answer){rules(`[]`)}, "no rules to remember"},
		{"rules that are no list", "x", journal.AlwaysDeny, []func(*journal.Answer){rules(`{"tool":"x"}`)}, "rules"},
		{"rule and rules", "x", journal.AlwaysAllow, []func(*journal.Answer){rule(`{"tool":"x"}`), rules(`[{"tool":"x"}]`)}, "both"},
		{"nothing to suggest", "run", journal.AlwaysAllow, nil, "no rules to remember"},
		{"once with a rule", "x", journal.AllowOnce, []func(*journal.Answer){rule(`{"tool":"x"}`)}, "answers once"},
		{"deny once with rules", "x", journal.DenyOnce, []func(*journal.Answer){rules(`[]`)}, "answers once"},
		{"no note", "noted", journal.AllowOnce, nil, "asks for a note"},
		{"a blank note", "noted", journal.AlwaysAllow, []func(*journal.Answer){note(" \n")}, "asks for a note"},
		{"expired when given", "x", journal.AlwaysAllow, []func(*journal.Answer){func(a *journal.Answer) { a.Expires = journal.At(epoch.Add(-time.Hour)) }}, "expiry"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, approvals)
			args := `{}`
			if tc.tool == "run" {
				args = `{"command":"./made-here"}`
			}
			c, other := b.call("r1", tc.tool, args), b.call("r1", tc.tool, `{"n":1}`)
			b.settle()
			b.answer("alice", c, tc.action, tc.edit...)
			b.want(c, "denied unusable")
			if msg := b.decision(c).Message; !strings.Contains(msg, tc.says) || strings.Contains(msg, "\n") {
				t.Fatalf("message %q does not say %q in one line", msg, tc.says)
			}
			if n := len(b.grants()); n != 0 {
				t.Fatalf("%d grants", n)
			}
			if got := b.outcome(other); got != "asked" {
				t.Fatalf("the other call is %q", got)
			}
		})
	}
}

// Of two allows needed, the first cannot be followed: refused without waiting.
func TestUnusableFirstOfTwo(t *testing.T) {
	b := newBench(t, approvals)
	c := b.call("r1", "two", `{}`)
	b.settle()
	b.answer("ann", c, journal.AlwaysAllow, rules(`[]`))
	b.want(c, "denied unusable")
}

func TestAlwaysVotesMustAgree(t *testing.T) {
	always := journal.AlwaysAllow
	later := func(a *journal.Answer) { a.Expires = journal.At(epoch.Add(time.Hour)) }
	for _, tc := range []struct {
		name   string
		first  []func(*journal.Answer)
		second []func(*journal.Answer)
		action string
		want   string
	}{
		{"alike", nil, nil, always, "allowed answer,answer,grant"},
		{"the suggestion spelled out", nil, []func(*journal.Answer){rule(`{"tool": "two"}`)}, always, "allowed answer,answer,grant"},
		{"one once", nil, nil, journal.AllowOnce, "allowed answer,answer"},
		{"other rules", nil, []func(*journal.Answer){rule(`{"tool":"two*"}`)}, always, "allowed answer,answer"},
		{"other expiry", nil, []func(*journal.Answer){later}, always, "allowed answer,answer"},
		{"other uses", []func(*journal.Answer){uses(1)}, []func(*journal.Answer){uses(2)}, always, "allowed answer,answer"},
		{"same expiry and uses", []func(*journal.Answer){uses(1), later}, []func(*journal.Answer){later, uses(1)}, always, "allowed answer,answer,grant"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, approvals)
			c := b.call("r1", "two", `{}`)
			b.settle()
			b.answer("ann", c, always, tc.first...)
			b.answer("bob", c, tc.action, tc.second...)
			b.want(c, tc.want)
			if err := b.releasable(c); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// An answer without a stage to fill is not counted, so it does not keep the
// counted ones from leaving their grant.
func TestUncountedVotesDoNotMatterToTheGrant(t *testing.T) {
	b := newBench(t, approvals)
	c := b.call("r1", "all", `{}`)
	b.settle()
	b.answer("cat", c, journal.AllowOnce)
	b.answer("ann", c, journal.AlwaysAllow)
	b.answer("bob", c, journal.AlwaysAllow)
	b.want(c, "allowed answer,answer,grant")
}

// The decision that wrote a grant cites its answer and the grant, in one commit.
func TestAlwaysAnswerWritesItsGrantWithTheDecision(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "fs_write", `{"path":"docs/a"}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysDeny)
	b.want(c, "denied answer,grant")
	g, dec := b.grants()[0], b.decision(c)
	if g.Mark.N != dec.Mark.N || dec.By[1].ID != g.Mark.ID || g.Question != b.question(c).Mark.ID {
		t.Fatalf("grant %+v, decision %+v", g.Mark, dec.Mark)
	}
	if got := string(g.Rules[0]); got != `{"decision":"deny","tool":"fs_write","under":"docs"}` {
		t.Fatal(got)
	}
}

// An expiry that passes between answer and decision leaves no grant, and allows.
func TestGrantThatExpiredBeforeItsDecision(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysAllow, b.expires(time.Minute))
	b.now = b.now.Add(time.Hour)
	b.want(c, "allowed answer")
}

// Long notes and rules are cut in the message, never a reason for no decision.
func TestLongWordsStillDecide(t *testing.T) {
	long := strings.Repeat("\x01é", 5<<10)
	b := newBench(t, "rules: [{tool: no, decision: deny, note: "+strings.Repeat("word ", 5<<10)+"}]")
	b.want(b.call("r1", "no", `{}`), "denied rule")
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("alice", c, journal.DenyOnce, note(long))
	b.want(c, "denied answer")
	d := b.call("r1", "y", `{}`)
	b.settle()
	b.answer("alice", d, journal.AlwaysDeny, rule(`{"tool":"y","note":"`+strings.Repeat("n", 20<<10)+`"}`))
	b.want(d, "denied answer,grant")
	b.want(b.call("r1", "y", `{"n":1}`), "denied grant")
}

func TestDenyRepeats(t *testing.T) {
	deny := func(b *bench, c, text string) {
		b.t.Helper()
		b.want(c, "asked")
		b.answer("alice", c, journal.DenyOnce, note(text))
		b.want(c, "denied answer")
	}
	b := newBench(t, scratchPolicy)
	deny(b, b.call("r1", "x", `{}`), "no")
	deny(b, b.call("r1", "x", `{"n":1}`), "not this either")
	second := b.call("r1", "x", `{}`)
	deny(b, second, "I said no")
	for range 50 {
		c := b.call("r1", "x", `{}`)
		b.want(c, "denied answer")
		if dec := b.decision(c); dec.By[0].ID != b.question(second).Answers[0].Mark.ID || !strings.Contains(dec.Message, "I said no") {
			t.Fatalf("%+v", dec.Decision)
		}
	}
	b.want(b.call("r1", "x", `{}`, key("k")), "asked")
	b.want(b.call("r1", "x", `{}`, layer("l")), "asked")
	b.want(b.call("r1", "x", `{"n":1}`), "asked")
	b.takeover("r2")
	b.want(b.call("r2", "x", `{}`), "asked")
}

// Two denials answered at once count before a third call is asked about.
func TestDenyRepeatsBesideFreshDenials(t *testing.T) {
	b := newBench(t, scratchPolicy)
	one, two := b.call("r1", "x", `{}`), b.call("r1", "x", `{}`)
	b.settle()
	b.answer("alice", one, journal.DenyOnce)
	b.answer("alice", two, journal.DenyOnce)
	b.want(b.call("r1", "x", `{}`), "denied answer")
}

// Denials that no person gave do not count.
func TestDenyRepeatsCountsPeopleOnly(t *testing.T) {
	b := newBench(t, scratchPolicy)
	for range 3 {
		c := b.call("r1", "x", `{}`)
		b.want(c, "asked")
		b.answer("alice", c, "perhaps")
		b.want(c, "denied unusable")
	}
}

func TestQuestionHoldsWhatAFrontendNeeds(t *testing.T) {
	b := newBench(t, "rules: [{tool: rm, decision: ask, note: gone is gone, severity: danger}]\nfrontends: [slack]\nprincipals: {ann: {}, slack: {}, d: {role: decider}}",
		func(o *journal.Opened) { o.Label, o.Parent = "nightly", "boss" })
	b.want(b.call("r1", "other", `{}`), "asked")
	c := b.call("r1", "rm", `{"path":"docs/a","url":"https://example.org/x"}`, func(c *journal.Call) {
		c.Reason, c.CWD = "because", "/srv"
	})
	b.want(c, "asked")
	q := b.question(c)
	v, err := q.ReadView()
	if err != nil {
		t.Fatal(err)
	}
	if v.Session != "S" || v.Label != "nightly" || v.Agent != "main" || v.Parent != "boss" || v.Tool != "rm" || v.Model != "because" ||
		v.CWD != "/srv" || v.Severity != "danger" || !strings.Contains(string(v.Rule), "gone is gone") || v.Attempt != 1 ||
		string(v.Arguments) != `{"path":"docs/a","url":"https://example.org/x"}` || v.Paths[0] != "docs/a" || v.Hosts[0] != "example.org" {
		t.Fatalf("%+v", v)
	}
	if q.Engine != decider.Engine || len(q.Frontends) != 1 || q.Frontends[0].Name != "slack" {
		t.Fatalf("%+v", q.Frontends)
	}
}
