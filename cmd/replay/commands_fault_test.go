package main

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
	"decisionjournal/journal/stream/embedded"
)

// Every how-manieth fault TestCommandsUnderFaults tries of those of one command:
// FAULTS_SHARE=1 tries them all.
const (
	shareEnv   = "FAULTS_SHARE"
	shareUnset = 5
)

// faultLimit is so long that only a command that hangs meets it.
const faultLimit = 2 * time.Minute

var plainLine = regexp.MustCompile(`^replay: .+\n$`)

// TestCommandsUnderFaults has every command meet a real journal that fails, a
// run for each fault: it says so in one line, or says the same as without.
func TestCommandsUnderFaults(t *testing.T) {
	share, err := strconv.Atoi(cmp.Or(os.Getenv(shareEnv), strconv.Itoa(shareUnset)))
	if err != nil || share < 1 {
		t.Fatalf("%s is %q: give a number above 0", shareEnv, os.Getenv(shareEnv))
	}
	dir := recorded(t)
	for _, args := range [][]string{
		{"sessions"}, {"sessions", "--json"}, {"show", "one"}, {"grants", "one"}, {"grants", "one", "--at", "4", "--json"},
		{"audit"}, {"audit", "one", "--json"}, {"audit", "forged"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			want := replayed(t, dir, nil, args)
			if want.out == "" || want.errs != "" {
				t.Fatalf("without a fault: %+v", want)
			}
			journaltest.EachStrike(t, share, func(t *testing.T, f *journaltest.Faulty) {
				got := replayed(t, dir, f, args)
				failed := got.code == exitUnreadable && got.out == "" && plainLine.MatchString(got.errs) && strings.Count(got.errs, "\n") == 1
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

// ran is how a command came out.
type ran struct {
	code      int
	out, errs string
}

func replayed(t *testing.T, dir string, f *journaltest.Faulty, args []string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
	defer cancel()
	var out, errs bytes.Buffer
	a := &app{out: &out, errs: &errs}
	if f != nil {
		a.wrap = f.Before
	}
	code := a.run(ctx, append([]string{"--journal", dir}, args...))
	if ctx.Err() != nil {
		t.Fatalf("replay %s hangs", strings.Join(args, " "))
	}
	return ran{code, out.String(), errs.String()}
}
