package journaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"decisionjournal/journal"
)

// loadAll reads all chains at once, from anywhere, in the journal's order.
func loadAll(t *testing.T, b *bench) {
	all := func(after uint64) []journal.Message {
		t.Helper()
		list, err := Collect(b.LoadAll(t.Context(), after))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	b.want(all(0))
	last := map[journal.Chain]uint64{}
	var bodies []string
	var seqs []uint64
	chains := []journal.Chain{session("s1"), journal.PolicyChain(), session("policy"), session("s2")}
	for i := range 150 {
		chain := chains[i%len(chains)]
		bodies = append(bodies, fmt.Sprint(i))
		last[chain] = b.append(chain, last[chain], bodies[i])
		seqs = append(seqs, last[chain])
	}
	b.want(all(0), bodies...)
	b.want(all(seqs[70]), bodies[71:]...)
	b.want(all(seqs[149]))
	b.want(all(seqs[149] + 100))
	for range b.LoadAll(t.Context(), 0) {
		break // leaving early must not block or panic
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Collect(b.LoadAll(ctx, 0)); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable: a LoadAll that stops short must say so", err)
	}
}
