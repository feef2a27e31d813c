package embedded

import (
	"errors"
	"strings"
	"testing"
	"time"

	"decisionjournal/journal"
)

// TestClockSteps sets a writer's clock while it appends to a real host, whose
// clock is right: what is ahead is refused, what is behind goes by the chain's
// time, and once the clock is right the session goes on.
func TestClockSteps(t *testing.T) {
	path := t.TempDir() + "/j"
	open(t, Config{Dir: path, Role: journal.RoleAuditor})
	h := open(t, Config{Dir: path})
	var ahead time.Duration
	w, err := journal.NewWriter(journal.Config{Log: h, Role: journal.RoleDecider, Actor: "decider",
		Now: func() time.Time { return time.Now().Add(ahead) }})
	if err != nil {
		t.Fatal(err)
	}
	st := begun(t, h, "s1")
	for _, step := range []struct {
		ahead time.Duration
		why   string // "": taken
	}{
		{0, ""},
		{20 * time.Second, ""},
		{2 * time.Minute, "ahead of the journal's; set it right"},
		{365 * 24 * time.Hour, "ahead of the journal's; set it right"},
		{-time.Hour, ""},
		{time.Hour, "ahead of the journal's; set it right"},
		{0, ""},
	} {
		ahead = step.ahead
		n, head := st.N(), st.Time()
		err := w.Append(t.Context(), st, w.Now(st), note(t, w.NewID()))
		if step.why == "" && err != nil || step.why != "" && (!errors.Is(err, journal.ErrInvalid) || !strings.Contains(err.Error(), step.why)) {
			t.Errorf("%v ahead: %v, want %q", step.ahead, err, step.why)
		}
		if (st.N() > n) != (step.why == "") || st.Time().Before(head.Time) {
			t.Errorf("%v ahead: %d commits after %d, at %s after %s", step.ahead, st.N(), n, st.Time(), head)
		}
	}
	wantWhole(t, h, "s1", st.N())
	again, err := journal.LoadState(t.Context(), h, journal.SessionChain("s1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, voids := again.Anomalies(); voids != 0 || again.N() != st.N() {
		t.Errorf("%d void, %d commits of %d", voids, again.N(), st.N())
	}
}
