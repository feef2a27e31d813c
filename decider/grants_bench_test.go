package decider_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

// BenchmarkGrants decides a call that a grant allows in a session with many of
// them, and one that none does.
func BenchmarkGrants(bm *testing.B) {
	for _, n := range []int{1, 100, 10000} {
		b := newBench(bm, "importers: [decider]\nrules: []\n")
		var bodies []journal.Body
		for i := range n {
			bodies = append(bodies, &journal.Grant{Origin: &journal.Origin{Import: "x"}, Rules: []json.RawMessage{json.RawMessage(
				fmt.Sprintf(`{"decision":"allow","tool":"write","under":"/srv/p%d"}`, i))}})
		}
		for part := range slices.Chunk(bodies, 100) {
			b.must(journal.RoleDecider, "decider", part...)
		}
		st := b.session()
		for name, dir := range map[string]int{"granted": n / 2, "asks": n} {
			body := b.body("r1", "write", fmt.Sprintf(`{"path":"/srv/p%d/a"}`, dir))
			c := journal.NewCallState(*body, b.dec.Writer.NewID(), b.pol.Digest())
			if err := b.dec.Sync(bm.Context()); err != nil {
				bm.Fatal(err)
			}
			in := decider.Input{State: st, Policies: b.dec.Policies(), Now: journal.At(b.now), NewID: b.dec.Writer.NewID}
			bm.Run(fmt.Sprintf("%d/%s", n, name), func(bm *testing.B) {
				for bm.Loop() {
					events, err := decider.DecideCall(in, c)
					if err != nil || len(events) == 0 {
						bm.Fatal(events, err)
					}
					if _, decided := events[0].Body.(*journal.Decision); decided != (name == "granted") {
						bm.Fatalf("%+v", events[0].Body)
					}
				}
			})
		}
	}
}
