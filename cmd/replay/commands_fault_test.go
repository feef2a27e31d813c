package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"decisionjournal/cmd/internal/cli/clitest"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
	"decisionjournal/journal/stream/embedded"
)

var plainLine = regexp.MustCompile(`^replay: .+\n$`)

// TestCommandsUnderFaults has every command meet a real journal that fails, a
// run for each fault: it says so in one line, or says the same as without.
func TestCommandsUnderFaults(t *testing.T) {
	dir := recorded(t)
	for _, args := range [][]string{
		{"sessions"}, {"sessions", "--json"}, {"show", "one"}, {"grants", "one"}, {"grants", "one", "--at", "4", "--json"},
		{"audit"}, {"audit", "one", "--json"}, {"audit", "forged"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			want := replayed(t, dir, nil, args)
			if want.Out == "" || want.Errs != "" {
				t.Fatalf("without a fault: %+v", want)
			}
			clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
				got := replayed(t, dir, f, args)
				failed := got.Code == exitUnreadable && got.Out == "" && plainLine.MatchString(got.Errs) && strings.Count(got.Errs, "\n") == 1
				if got != want && !failed {
					t.Errorf("got %+v, want %+v, or that it cannot be read", got, want)
				}
			})
		})
	}
}

// recorded is a journal with a whole session and one with a forged decision.
func recorded(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "journal")
	t.Setenv(embedded.DirEnv, dir)
	for _, args := range [][]string{{"one"}, {"-forge", "forged"}} {
		if err := record(t.Context(), args); err != nil {
			t.Fatal(err)
		}
	}
	h, err := embedded.Open(t.Context(), embedded.Config{Dir: dir, Role: journal.RoleAuditor}) // hosts, so that commands only join
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func replayed(t *testing.T, dir string, f *journaltest.Faulty, args []string) clitest.Ran {
	t.Helper()
	a := &app{App: clitest.Failing(f)}
	return clitest.Run(t, &a.App, a.run, append([]string{"--journal", dir}, args...)...)
}
