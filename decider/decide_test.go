package decider_test

import (
	"encoding/json"
	"strings"
	"testing"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

func TestDecide(t *testing.T) {
	b := newBench(t, scratchPolicy)
	b.want(b.call("r1", "fs_read", `{"path":"docs/a"}`), "allowed rule")
	b.want(b.call("r1", "fs_delete", `{"path":"docs/a"}`), "denied rule")
	write := b.call("r1", "fs_write", `{"path":"important/a","content":"x"}`)
	b.want(write, "asked")
	second := b.call("r1", "fs_write", `{"path":"important/b","content":"x"}`)
	b.want(second, "asked")
	b.answer("alice", write, journal.AlwaysAllow)
	b.want(write, "allowed answer,grant")
	b.want(second, "allowed grant")
	mail := b.call("r1", "mail", `{"to":"x"}`)
	b.want(mail, "asked")
	b.answer("alice", mail, journal.DenyOnce, note("use the staging cluster"))
	b.want(mail, "denied answer")
	if msg := b.decision(mail).Message; !strings.Contains(msg, "use the staging cluster") {
		t.Fatalf("the note does not reach the agent: %s", msg)
	}
	for _, call := range []string{write, second} {
		if err := b.releasable(call); err != nil {
			t.Fatal(err)
		}
	}
}

// The denial's rule and note reach the model.
func TestRuleDenialSaysWhy(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "fs_delete", `{"path":"docs/a"}`)
	b.want(c, "denied rule")
	if msg := b.decision(c).Message; !strings.Contains(msg, "nothing is deleted here") {
		t.Fatal(msg)
	}
}

func TestStepZero(t *testing.T) {
	hmac := "hmac:k1:" + strings.Repeat("ab", 32)
	masked := func(facts string) func(*journal.Call) {
		return func(c *journal.Call) {
			c.Masked, c.Digest = []string{"/token"}, hmac
			if facts != "" {
				c.Facts = json.RawMessage(facts)
			}
		}
	}
	other := func(c *journal.Call) { c.Digest = journal.Digest([]byte("{}")) }
	for _, tc := range []struct {
		name, tool, args string
		edit             func(*journal.Call)
		want             string
	}{
		{"digest of other arguments", "fs_read", `{"path":"a"}`, other, "denied error"},
		{"digest of other arguments, denied by rule", "fs_delete", `{"path":"a"}`, other, "denied error"},
		{"masked with facts", "fs_write", `{"path":"***"}`, masked(`{"paths":[{"path":"scratch/a"}]}`), "allowed rule"},
		{"masked, facts elsewhere", "fs_write", `{"path":"scratch/a"}`, masked(`{"paths":[{"path":"b"}]}`), "asked"},
		{"masked without facts", "fs_read", `{"path":"***"}`, masked(""), "denied error"},
		{"masked, unreadable facts", "fs_read", `{"path":"***"}`, masked(`{"path":1}`), "denied error"},
		{"arguments that are no object", "fs_write", `null`, nil, "asked"},
		{"arguments that are no object, denied by tool", "fs_delete", `[1]`, nil, "denied rule"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, scratchPolicy)
			if tc.edit == nil {
				tc.edit = func(*journal.Call) {}
			}
			b.want(b.call("r1", tc.tool, tc.args, tc.edit), tc.want)
		})
	}
}

// The digest leaves advisory parameters out, under the policy the call was
// written under, also when another one judges it.
func TestDigestUnderThePolicyOfTheCall(t *testing.T) {
	b := newBench(t, "rules: [{tool: fs_read, decision: ask}]\nadvisory-params: {fs_read: [why]}")
	c := b.call("r1", "fs_read", `{"path":"a","why":"x"}`)
	b.want(c, "asked")
	b.adopt("rules: [{tool: fs_read, decision: allow}]")
	b.want(c, "allowed rule")
	if err := b.releasable(c); err != nil {
		t.Fatal(err)
	}
}

func TestRulesInAnyOrder(t *testing.T) {
	rules := []string{"{tool: x, decision: deny}", "{tool: x, decision: ask}", "{tool: x, decision: allow}"}
	for _, tc := range []struct {
		use  []int
		want string
	}{
		{[]int{0, 1, 2}, "denied rule"}, {[]int{2, 1, 0}, "denied rule"}, {[]int{2, 0}, "denied rule"},
		{[]int{1, 2}, "asked"}, {[]int{2, 1}, "asked"}, {[]int{2}, "allowed rule"}, {nil, "asked"},
	} {
		var list []string
		for _, i := range tc.use {
			list = append(list, rules[i])
		}
		b := newBench(t, "rules: ["+strings.Join(list, ", ")+"]")
		b.want(b.call("r1", "x", `{}`), tc.want)
	}
}

func TestStaticDenyBeatsAnswersAndGrants(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "fs_write", `{"path":"important/a"}`)
	b.want(c, "asked")
	b.answer("alice", c, journal.AlwaysAllow)
	b.want(c, "allowed answer,grant")
	late := b.call("r1", "fs_read_more", `{}`)
	b.want(late, "asked")
	b.answer("alice", late, journal.AllowOnce)
	b.adopt("rules: [{tool: fs_write, decision: deny}, {tool: fs_read_more, decision: deny}]")
	b.want(late, "denied rule")
	b.want(c, "denied rule") // the unspent allow lapsed
	b.wantLapses(journal.LapsePolicy)
	b.want(b.call("r1", "fs_write", `{"path":"important/b"}`), "denied rule")
}

func TestNothingIsDecidedWithoutThePolicy(t *testing.T) {
	b := newEmpty(t)
	b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession})
	c := b.call("r1", "fs_read", `{"path":"a"}`)
	if err := b.dec.Settle(t.Context(), b.session()); err == nil || !strings.Contains(err.Error(), "no policy is adopted") {
		t.Fatalf("no policy: %v", err)
	}
	b.must(journal.RoleDecider, "decider", &journal.Adopt{Digest: journal.Digest([]byte("lost"))})
	if err := b.dec.Settle(t.Context(), b.session()); err == nil || !strings.Contains(err.Error(), "not in the journal") {
		t.Fatalf("no bytes: %v", err)
	}
	if got := b.outcome(c); got != "open" {
		t.Fatalf("decided without the bytes: %s", got)
	}
	b.adopt(scratchPolicy)
	b.want(c, "allowed rule")
}

func TestNothingIsDecidedOnceEnded(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "fs_read", `{"path":"a"}`)
	b.must(journal.RoleDecider, "decider", &journal.Ended{Reason: "done"})
	b.want(c, "void")
}

// A decision names policy, engine, facts and what made it.
func TestDecisionRecordsWhatMadeIt(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "fs_write", `{"path":"scratch/a"}`)
	b.settle()
	dec := b.decision(c)
	if dec.Policy != b.pol.Digest() || dec.Engine != decider.Engine || string(dec.Facts) != `{"paths":[{"path":"scratch/a"}]}` {
		t.Fatalf("%+v", dec.Decision)
	}
	if got := string(dec.By[0].Rule); got != `{"decision":"allow","tool":"fs_write","under":"scratch"}` {
		t.Fatal(got)
	}
}
