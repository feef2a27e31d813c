package journal_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"decisionjournal/journal"
)

// The fold is fuzzed by the properties that hold it: the fuzzer's bytes choose
// what a property draws, so that what is folded are chains of commits, most of
// them valid, which no bytes made up at random would be.

// FuzzChain folds chains of any commits that a writer could make.
func FuzzChain(f *testing.F) { fuzz(f, statesHold(map[journal.Type]int{})) }

// FuzzMangledChain folds the messages of a chain in any order, changed and
// repeated.
func FuzzMangledChain(f *testing.F) { fuzz(f, allowsWereDecided) }

// FuzzMissing takes messages out of chains.
func FuzzMissing(f *testing.F) { fuzz(f, removingPermitsNothing) }

// fuzz has the fuzzer choose what a property draws.
func fuzz(f *testing.F, property func(*rapid.T)) {
	for seed := range uint64(8) {
		f.Add(choices(seed, 4<<10))
	}
	f.Fuzz(rapid.MakeFuzz(property))
}

// choices are bytes for a property to draw from, the same for a seed.
func choices(seed uint64, size int) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// FuzzView reads views, which come from whoever may write as a decider.
func FuzzView(f *testing.F) {
	for _, m := range goldenSession(f) {
		commit, err := journal.Decode(m.Data)
		if err != nil {
			continue // it is there to be void
		}
		for _, e := range commit.Events {
			if q, ok := e.Body.(*journal.Question); ok {
				f.Add([]byte(q.View))
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		q := journal.Question{View: raw}
		v, err := q.ReadView()
		if err != nil {
			return
		}
		once, err := journal.NewView(v)
		if err != nil {
			return // what is not canonical was never a stored view
		}
		q.View = once
		again, err := q.ReadView()
		if err != nil {
			t.Fatalf("%s cannot be read again: %v", once, err)
		}
		if twice, err := journal.NewView(again); err != nil || string(twice) != string(once) {
			t.Fatalf("%s became %s, %v", once, twice, err)
		}
	})
}

// FuzzGrantRules reads what answers say about rules: a grant's rules are those of
// the answer, or those suggested, and decide what the answer's action says.
func FuzzGrantRules(f *testing.F) {
	f.Add("always-allow", []byte(`{"tool":"a"}`), []byte(nil))
	f.Add("always-deny", []byte(nil), []byte(`[{"tool":"a"},{"tool":"b","decision":"allow"}]`))
	f.Add("always-allow", []byte(nil), []byte(nil))
	f.Add("allow-once", []byte(`{}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, action string, rule, rules []byte) {
		q := journal.Question{Suggestion: []json.RawMessage{json.RawMessage(`{"decision":"allow","tool":"suggested"}`)}}
		list, err := q.GrantRules(&journal.Answer{Action: action, Rule: rule, Rules: rules})
		if err != nil {
			return
		}
		want := map[string]string{journal.AlwaysAllow: "allow", journal.AlwaysDeny: "deny"}[action]
		if want == "" && len(list) > 0 {
			t.Fatalf("%q leaves rules: %s", action, list)
		}
		for _, r := range list {
			var made struct{ Decision string }
			if err := json.Unmarshal(r, &made); err != nil || made.Decision != want {
				t.Fatalf("%q leaves %s: %v", action, r, err)
			}
		}
	})
}
