package agent

import (
	"os"
	"path/filepath"
	"testing"

	"decisionjournal/decider/policy"
)

// TestTour holds the batch of the tour against its policy and its directory:
// each call is judged as the tour says, and what is allowed, or asks and would
// be allowed, can be run.
func TestTour(t *testing.T) {
	text, err := os.ReadFile("../../testdata/policies/tour.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.Parse("tour.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := os.Open("../../testdata/batches/tour.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close()
	dir := filepath.Join(t.TempDir(), "tour")
	if err := os.CopyFS(dir, os.DirFS("../../testdata/tour")); err != nil {
		t.Fatal(err)
	}
	f, err := NewFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]string{
		"read-docs": "allow", "list-notes": "allow", "write-summary": "allow", "write-plan": "ask",
		"read-outside": "deny", "delete-important": "deny",
	}
	for l := range RefuseDuplicates(ReadBatch(batch)) {
		if l.Err != nil {
			t.Fatal(l.Err)
		}
		got := rules.Judge(l.Call.Tool, rules.Facts(l.Call.Tool, l.Call.Arguments), nil).Decision.String()
		if got != want[l.Call.ID] {
			t.Errorf("%s: %s, want %q", l.Call.ID, got, want[l.Call.ID])
		}
		delete(want, l.Call.ID)
		if got != "deny" {
			wants{l.Call.Tool, string(l.Call.Arguments), "...", "ok"}.check(t, f)
		}
	}
	if len(want) > 0 {
		t.Errorf("not in the batch: %v", want)
	}
}
