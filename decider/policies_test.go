package decider_test

import (
	"strings"
	"testing"

	"decisionjournal/journal"
)

func TestAdoptJudgesOpenAttemptsAgain(t *testing.T) {
	const plain = "rules: [{tool: y, decision: ask, remember: true}]"
	for _, tc := range []struct {
		name, tool, policy, want string
		kept                     bool
	}{
		{"deny ends it", "x", "rules: [{tool: x, decision: deny}]", "denied rule", true},
		{"allow ends it", "x", "rules: [{tool: x, decision: allow}]", "allowed rule", true},
		{"ask by another rule, remembering", "x", "rules: [{tool: x, decision: ask, remember: true}]", "asked", true},
		{"grantable changed", "x", "rules: [{tool: x, decision: ask}]", "asked", false},
		{"need changed", "x", "approval: [{need: [{count: 2}]}]\nrules: []", "asked", false},
		{"need says the default", "x", "approval: [{need: [{}]}]\nrules: []", "asked", true},
		{"who changed", "x", "approval: [{who: [{of: [ann]}]}]\nrules: []", "asked", false},
		{"who changed in time", "x", "approval: [{who: [{from: 1h}]}]\nrules: []", "asked", false},
		{"only the deadline changed", "x", "settings: {deadline: 1h}\nrules: []", "asked", true},
		{"a rule that asked is gone", "y", "rules: []", "asked", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, plain)
			c := b.call("r1", tc.tool, `{}`)
			b.want(c, "asked")
			before := b.question(c).Mark.ID
			b.now = b.now.Add(1000)
			b.adopt(tc.policy)
			b.want(c, tc.want)
			if kept := b.question(c).Mark.ID == before; kept != tc.kept {
				t.Fatalf("question kept: %v", kept)
			}
			if !tc.kept {
				b.wantLapses(journal.LapsePolicy)
			}
		})
	}
}

// Escalation is compared as it was when asked, not by the clock.
func TestAdoptKeepsAnEscalatedQuestion(t *testing.T) {
	const who = "\napproval: [{who: [{of: [ann]}, {of: [bob], from: 1h}]}]"
	b := newBench(t, "rules: []"+who)
	c := b.call("r1", "x", `{}`)
	b.want(c, "asked")
	before := b.question(c).Mark.ID
	b.now = b.now.Add(1e9)
	b.adopt("rules: [{tool: other, decision: deny}]" + who)
	b.want(c, "asked")
	if b.question(c).Mark.ID != before {
		t.Fatal("asked anew")
	}
}

// Votes given under the older policy count for the question that stays, and
// are gone with the one that lapsed.
func TestVotesAcrossAnAdopt(t *testing.T) {
	const two = "approval: [{need: [{count: 2}]}]\n"
	b := newBench(t, two+"rules: []")
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("ann", c, journal.AllowOnce)
	b.adopt(two + "rules: [{tool: z, decision: deny}]")
	b.answer("bob", c, journal.AllowOnce)
	b.want(c, "allowed answer,answer")

	d := b.call("r1", "x", `{"n":1}`)
	b.settle()
	b.answer("ann", d, journal.AllowOnce)
	b.adopt("rules: []")
	b.want(d, "asked")
	b.answer("ann", d, journal.AllowOnce)
	b.want(d, "allowed answer")
}

// Without a waiter the next attempt waits for an attach.
func TestLapseWithoutWaiter(t *testing.T) {
	b := newBench(t, "rules: []")
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.must(journal.RoleAgent, "agent", &journal.Closed{Agent: "main", Run: "r1"})
	b.adopt("rules: [{tool: x, decision: ask}]")
	b.want(c, "void")
	b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r2", Kind: journal.KindSession})
	b.attach("r2", c, false)
	b.want(c, "asked")
}

func TestAllowOvertakenByANewerPolicy(t *testing.T) {
	for _, tc := range []struct{ name, policy, want string }{
		{"denied", "rules: [{tool: x, decision: deny}]", "denied rule"},
		{"asked about", "rules: [{tool: x, decision: ask}]", "allowed rule"}, // only a denial overtakes
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, "rules: [{tool: x, decision: allow}]")
			c := b.call("r1", "x", `{}`)
			b.want(c, "allowed rule")
			b.adopt(tc.policy)
			if released := b.releasable(c) == nil; released == (tc.name == "denied") {
				t.Fatalf("released: %v", released)
			}
			b.want(c, tc.want)
		})
	}
}

func TestFollowedPolicy(t *testing.T) {
	b := newEmpty(t)
	b.activate("default", "rules: [{tool: x, decision: allow}]")
	b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession, Follows: "default"})
	c := b.call("r1", "x", `{}`)
	b.want(c, "allowed rule")
	if n := len(b.session().Adoptions()); n != 1 {
		t.Fatalf("%d adoptions", n)
	}
	n := b.session().N()
	b.settle()
	if b.session().N() != n {
		t.Fatal("settled sessions are written to")
	}
	// Active, not yet adopted: what it denies is not started.
	b.activate("default", "rules: [{tool: x, decision: deny}]")
	if err := b.releasable(c); err == nil || !strings.Contains(err.Error(), "overtaken") {
		t.Fatalf("released against the active policy: %v", err)
	}
	b.want(c, "denied rule")
	b.want(b.call("r1", "x", `{}`), "denied rule")
	// Back again: the newest activation counts, not the newest bytes.
	b.activate("default", "rules: [{tool: x, decision: allow}]")
	b.want(b.call("r1", "x", `{}`), "allowed rule")
}

func TestFollowedPolicyThatCannotBeRead(t *testing.T) {
	b := newBench(t, "rules: [{tool: x, decision: allow}]", follows("default"))
	allowed := b.call("r1", "x", `{}`)
	b.want(allowed, "allowed rule")
	broken := []byte("rules: [{tool: x, colour: red, decision: allow}]")
	b.must(journal.RoleDecider, "decider", journal.NewPolicyBytes(broken))
	b.must(journal.RoleAdmin, "root", &journal.Activate{Name: "default", Digest: journal.Digest(broken)})
	c := b.call("r1", "x", `{}`)
	if err := b.releasable(allowed); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Fatalf("released under a policy that cannot be read: %v", err)
	}
	err := b.dec.Settle(t.Context(), b.session())
	if err == nil || !strings.Contains(err.Error(), "colour") {
		t.Fatalf("err %v", err)
	}
	if got := b.outcome(c); got != "open" {
		t.Fatalf("decided: %s", got)
	}
	b.activate("default", "rules: [{tool: x, decision: allow}]")
	b.want(c, "allowed rule")
}

func TestPolicyNamedByHandStays(t *testing.T) {
	b := newEmpty(t)
	b.activate("default", "rules: [{tool: x, decision: allow}]")
	b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession, Follows: "default"})
	b.settle()
	b.adopt("rules: [{tool: x, decision: deny}]")
	b.want(b.call("r1", "x", `{}`), "denied rule")
}

func TestAgentsFollowTheirOwnPolicies(t *testing.T) {
	b := newEmpty(t)
	b.activate("default", "rules: [{tool: x, decision: allow}]")
	b.activate("strict", "rules: [{tool: x, decision: deny}]")
	open := func(agent, run, follows string) { // a decider's to say
		b.must(journal.RoleDecider, "decider", &journal.Opened{Agent: agent, Run: run, Kind: journal.KindSession, Follows: follows})
	}
	call := func(agent, run string) string {
		b.t.Helper()
		return b.must(journal.RoleDecider, "decider", b.body(run, "x", `{}`, func(c *journal.Call) { c.Agent = agent }))[0]
	}
	open("main", "r1", "default")
	open("helper", "h1", "strict")
	b.want(call("main", "r1"), "allowed rule")
	b.want(call("helper", "h1"), "denied rule")
	// A later agent that follows the same name is under it too.
	open("other", "o1", "strict")
	b.want(call("other", "o1"), "denied rule")
	open("plain", "p1", "")
	b.want(call("plain", "p1"), "allowed rule")
	b.activate("strict", "rules: [{tool: x, decision: ask}]")
	b.want(call("helper", "h1"), "asked")
	b.want(call("other", "o1"), "asked")
	b.want(call("plain", "p1"), "allowed rule")
}

// TestForgedActivation: what a session adopts under a name stands on the policy
// chain, or nothing is decided or started under it.
func TestForgedActivation(t *testing.T) {
	for name, forge := range map[string]func(a *journal.Adopt){
		"one to come":                func(a *journal.Adopt) { a.Activation = 1 << 40 },
		"of a name that is not":      func(a *journal.Adopt) { a.Name = "nobody" },
		"the newest, another policy": func(*journal.Adopt) {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEmpty(t)
			b.activate("default", "rules: [{tool: x, decision: allow}]")
			b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession, Follows: "default"})
			allowed := b.call("r1", "x", `{}`)
			b.want(allowed, "allowed rule")
			lenient := b.pol.Digest()
			b.activate("default", "rules: [{tool: x, decision: deny}]")
			if err := b.dec.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			adopt := &journal.Adopt{Name: "default", Activation: b.dec.Policies().Active("default").Mark.Seq, Digest: lenient}
			forge(adopt)
			b.must(journal.RoleDecider, "decider", adopt)
			later := b.call("r1", "x", `{}`)
			st := b.session()
			if err := b.dec.Settle(t.Context(), st); err == nil || !strings.Contains(err.Error(), "does not have") {
				t.Errorf("settled: %v", err)
			}
			if got := b.outcome(later); got != "open" {
				t.Errorf("decided: %s", got)
			}
			if err := b.dec.Releasable(t.Context(), st, allowed); err == nil {
				t.Error("released")
			}
		})
	}
}

func TestScopesOfAdopt(t *testing.T) {
	b := newBench(t, "rules: [{tool: x, decision: allow}]")
	b.adopt("rules: [{tool: x, decision: deny}]", func(a *journal.Adopt) { a.Layer = "outer" })
	b.want(b.call("r1", "x", `{}`), "allowed rule")
	b.want(b.call("r1", "x", `{}`, layer("outer")), "denied rule")
	b.adopt("rules: [{tool: x, decision: ask}]", func(a *journal.Adopt) { a.Agent = "main" })
	b.want(b.call("r1", "x", `{}`, layer("outer")), "asked")
}
