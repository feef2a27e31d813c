package agent_test

import (
	"context"
	"errors"
	"testing"

	"decisionjournal/decider"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// TestUntrustedPolicies: once the policy chain is a newer program's, nothing is
// decided or started, not even what a rule known before would allow.
func TestUntrustedPolicies(t *testing.T) {
	mem := journaltest.NewMemory()
	w, err := journal.NewWriter(journal.Config{Log: mem, Role: journal.RoleDecider, Actor: "decider"})
	if err != nil {
		t.Fatal(err)
	}
	seen := &witness{}
	g, err := agent.Open(t.Context(), agent.Config{Decider: &decider.Decider{Writer: w}, Session: "s", Provider: seen,
		Policy: parse(t, "rules: [{tool: free, decision: allow}]")})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	policies, err := journal.LoadState(t.Context(), mem, journal.PolicyChain())
	if err != nil {
		t.Fatal(err)
	}
	sub := journal.Subject{Chain: policies.Chain(), Role: journal.RoleAdmin, Actor: "admin"}
	if _, err := mem.Publish(t.Context(), sub, policies.LastSeq(), []byte(`{"v":2}`)); err != nil {
		t.Fatal(err)
	}
	ticket := g.Submit(t.Context(), []agent.Request{call("free", `{}`)})[0]
	<-ticket.Done()
	if o := ticket.Outcome(); o.Kind != agent.Failed || !errors.Is(o.Err, decider.ErrPolicies) {
		t.Fatalf("%+v", o)
	}
	if n := seen.count(call("free", `{}`).Call); n != 0 {
		t.Fatalf("ran %d times", n)
	}
}
