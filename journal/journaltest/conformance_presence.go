package journaltest

import (
	"context"
	"testing"
	"time"

	"decisionjournal/journal"
)

// shortWait is waited out where somebody listens who does not answer.
const shortWait = 50 * time.Millisecond

// presence is the part of the suite for a Log that tells who is there.
func presence(t *testing.T, b *bench) {
	p, ok := b.Log.(journal.Presence)
	if !ok {
		t.Log("this Log does not tell presence")
		return
	}
	ping := func(want bool, sub journal.Subject, run string, wait time.Duration) {
		t.Helper()
		if got, err := p.Ping(t.Context(), sub, run, wait); err != nil || got != want {
			t.Errorf("ping %s run %q: %v, %v, want %v", sub, run, got, err, want)
		}
	}
	present := func(want bool, chain journal.Chain, wait time.Duration) {
		t.Helper()
		if got, err := p.Present(t.Context(), chain, b.role, wait); err != nil || got != want {
			t.Errorf("present in %s: %v, %v, want %v", chain, got, err, want)
		}
	}
	one, two := b.subject(session("s1")), b.subject(session("s2"))
	nobodyListens := func() {
		t.Helper()
		began := time.Now()
		ping(false, one, "r1", patience)
		present(false, session("s1"), patience)
		if took := time.Since(began); took > patience/2 {
			t.Errorf("that nobody listens took %v to know", took)
		}
	}

	nobodyListens()
	ctx, leave := context.WithCancel(t.Context())
	if err := p.Answer(ctx, one, "r1"); err != nil {
		t.Fatal(err)
	}
	ping(true, one, "r1", patience)
	ping(false, one, "r2", shortWait)
	ping(false, two, "r1", patience)
	present(false, session("s1"), patience) // a run is not a frontend

	if err := p.Answer(ctx, journal.Subject{Role: b.role, Actor: b.actor}, ""); err != nil {
		t.Fatal(err)
	}
	present(true, session("s1"), patience)
	present(true, session("s2"), patience)
	ping(true, two, "", patience)
	ping(true, one, "r1", patience)

	leave()
	awaitGone(t, p, one)
	nobodyListens()
}

// awaitGone pings until the answer is no: leaving is not acknowledged.
func awaitGone(t *testing.T, p journal.Presence, sub journal.Subject) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		run, err := p.Ping(t.Context(), sub, "r1", shortWait)
		if err != nil {
			t.Fatal(err)
		}
		frontend, err := p.Present(t.Context(), sub.Chain, sub.Role, shortWait)
		if err != nil {
			t.Fatal(err)
		}
		if !run && !frontend {
			return
		}
	}
	t.Fatal("still answered for after its context ended")
}
