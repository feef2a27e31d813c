package journal_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"decisionjournal/journal"
)

func TestView(t *testing.T) {
	want := journal.View{
		Session: "s", Agent: "main", Tool: "t", Arguments: json.RawMessage(`{"n":1.0}`), Size: 9, Paths: []string{"/a", "\u2028"},
		Commands: [][]string{{"ls"}, {}}, Reason: journal.AskRule, Attempt: 1,
		Recent: []journal.RecentDecision{{Call: someID, Tool: "t", Outcome: journal.Deny, By: journal.ByRule, Time: at(0)}},
	}
	raw, err := journal.NewView(want)
	if err != nil || !journal.IsCanonical(raw) {
		t.Fatalf("%s, %v", raw, err)
	}
	got, err := (&journal.Question{View: raw}).ReadView()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	if _, err := (&journal.Question{View: json.RawMessage(`{"future":1,"tool":"t"}`)}).ReadView(); err != nil {
		t.Errorf("a member it does not know: %v", err)
	}
	if _, err := (&journal.Question{View: json.RawMessage("[]")}).ReadView(); err == nil {
		t.Error("a list is a view")
	}
	if _, err := journal.NewView(journal.View{Arguments: json.RawMessage("{")}); err == nil {
		t.Error("a view of what is no JSON")
	}
}
