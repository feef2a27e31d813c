package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"decisionjournal/decider"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// nothing is a provider whose calls do nothing.
type nothing struct{}

func (nothing) Tools(context.Context) ([]agent.Tool, error) { return nil, nil }

func (nothing) Execute(_ context.Context, calls []agent.Call) []agent.Result {
	results := make([]agent.Result, len(calls))
	for i := range results {
		results[i] = agent.Result{Content: agent.Text("done")}
	}
	return results
}

// BenchmarkAllowed measures calls that a rule allows, through a durable
// embedded journal: one commit with call, decision and start, and one with the
// result. Its baseline is BenchmarkRawAppend, of which a call needs two.
func BenchmarkAllowed(b *testing.B) {
	h := openBench(b)
	w, err := journal.NewWriter(journal.Config{Log: h, Role: journal.RoleDecider, Actor: "decider"})
	if err != nil {
		b.Fatal(err)
	}
	g, err := agent.Open(b.Context(), agent.Config{Decider: &decider.Decider{Writer: w}, Session: "bench", Provider: nothing{}})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close(context.Background())
	for i := 0; b.Loop(); i++ {
		t := g.Submit(b.Context(), []agent.Request{{Call: agent.Call{ID: "c", Tool: "fs_read", Arguments: json.RawMessage(`{"path":"a"}`)}, Key: fmt.Sprint("k/", i)}})[0]
		<-t.Done()
		if o := t.Outcome(); o.Kind != agent.Executed {
			b.Fatalf("%+v", o)
		}
	}
}

// BenchmarkRawAppend is one durable append of about a commit's size.
func BenchmarkRawAppend(b *testing.B) {
	h := openBench(b)
	sub := journal.Subject{Chain: journal.SessionChain("raw"), Role: journal.RoleDecider, Actor: "decider"}
	data := make([]byte, 900)
	after := uint64(0)
	for b.Loop() {
		seq, err := h.Publish(b.Context(), sub, after, data)
		if err != nil {
			b.Fatal(err)
		}
		after = seq
	}
}

func openBench(b *testing.B) *embedded.Handle {
	b.Helper()
	h, err := embedded.Open(b.Context(), embedded.Config{Dir: b.TempDir() + "/journal", Role: journal.RoleDecider})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { h.Close() })
	return h
}
