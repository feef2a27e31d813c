package embedded

import (
	"testing"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

func open(t *testing.T, cfg Config) *Handle {
	t.Helper()
	if cfg.Role == "" {
		cfg.Role = journal.RoleDecider
	}
	h, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

func TestInProcessConforms(t *testing.T) {
	journaltest.Conformance(t, func(t *testing.T) journal.Log {
		return open(t, Config{Dir: t.TempDir() + "/j"})
	})
}

func TestSocketConforms(t *testing.T) {
	journaltest.Conformance(t, func(t *testing.T) journal.Log {
		dir := t.TempDir() + "/j"
		if host := open(t, Config{Dir: dir}); !host.Hosting() {
			t.Fatal("the first to open does not host")
		}
		guest := open(t, Config{Dir: dir})
		if guest.Hosting() {
			t.Fatal("the second to open hosts too")
		}
		return guest
	})
}
