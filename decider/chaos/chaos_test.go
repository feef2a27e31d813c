package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest/invariants"
	"decisionjournal/journal/stream/embedded"
)

// How many processes TestKills kills and under which seed, if these say so.
const (
	killsEnv = "CHAOS_KILLS" // else 20
	seedEnv  = "CHAOS_SEED"  // else 1003, whose plan has every blow in its first two dozen but the longest
)

func number(t *testing.T, env string, otherwise int) int {
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number above 0", env, text)
	}
	return n
}

// command builds the decider command. With the race detector a process that
// ends lingers for a second by default.
func command(t *testing.T) string {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	program := filepath.Join(t.TempDir(), "decider")
	args := slices.Concat([]string{"build"}, buildFlags, []string{"-o", program, "decisionjournal/cmd/decider"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// TestKills kills twenty processes of the real command, holds what they leave
// against the rules, and then makes the witness and the journal say something
// else, which must be noticed.
func TestKills(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	kills := number(t, killsEnv, 20)
	rep, err := Run(t.Context(), Config{Program: command(t), Child: []string{"chaos-child"}, Dir: dir,
		Seed: uint64(number(t, seedEnv, 1003)), Kills: kills, Progress: func(r Report) { t.Logf("so far:\n%s", r.Text()) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range rep.Violations {
		t.Errorf("round %d under seed %d: %s", v.Round, rep.Seed, v.Text)
	}
	if rep.Figures.Kills < kills || rep.Figures.HostKills == 0 || rep.Effects == 0 || rep.Stored == 0 || rep.Tally.Answers == 0 || rep.Derived == 0 {
		t.Errorf("little happened:\n%s", rep.Text())
	}
	if len(rep.Kept) != rep.Rounds || rep.Kept[0] != filepath.Join(dir, "round-001") {
		t.Fatalf("kept: %q", rep.Kept)
	}
	t.Run("noticed", func(t *testing.T) { testNoticed(t, rep.Kept[0]) })
}

// testNoticed changes what a round left behind, one thing after another.
func testNoticed(t *testing.T, dir string) {
	at := place{dir: dir}
	if r := checked(t, at); len(r.Violations) > 0 {
		t.Fatalf("violations: %+v", r.Violations)
	}
	saw, err := readDiaries(at.witness())
	if err != nil {
		t.Fatal(err)
	}
	plain := slices.IndexFunc(saw.Effects, func(e invariants.Effect) bool { return e.Tool == toolFree })
	for want, l := range map[string]line{
		"kept: ":           {Stored: &storedLine{Stored: invariants.Stored{Seq: saw.Stored[0].Seq, Digest: journal.Digest(nil)}}},
		"effect-once: ":    {Effect: &saw.Effects[plain]},
		"effect-started: ": {Effect: &invariants.Effect{Session: "s1", Agent: "main", Tool: toolFree, Arguments: json.RawMessage(`{}`)}},
		"said: ":           {Asked: &invariants.Asked{Session: "s1", Question: "none"}},
	} {
		d, err := openDiary(at.witness(), "other")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.fsync(l), d.file.Close()); err != nil {
			t.Fatal(err)
		}
		noticed(t, at, want)
		if err := os.Remove(d.file.Name()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(at.logs(), "x.log"), []byte("all well\npanic: oh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	noticed(t, at, "crash: x.log: panic: oh")
	forge(t, at)
	noticed(t, at, "settled: s1: call ")
	noticed(t, at, "audit: s1: ")
}

func checked(t *testing.T, at place) Report {
	t.Helper()
	var r Report
	if err := at.check(t.Context(), nil, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func noticed(t *testing.T, at place, want string) {
	t.Helper()
	r := checked(t, at)
	if !slices.ContainsFunc(r.Violations, func(v Violation) bool { return strings.HasPrefix(v.Text, want) }) {
		t.Errorf("no violation begins with %q: %+v", want, r.Violations)
	}
}

// forge allows a call that the policy asks about, by a rule there is not.
func forge(t *testing.T, at place) {
	t.Helper()
	ctx := context.Background()
	h, err := embedded.Open(ctx, embedded.Config{Dir: at.journal(), Role: journal.RoleDecider})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	role, actor := h.Principal()
	w, err := journal.NewWriter(journal.Config{Log: h, Role: role, Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	st, err := journal.LoadState(ctx, h, journal.SessionChain("s1"))
	if err != nil {
		t.Fatal(err)
	}
	run := w.NewID()
	call := w.Event(&journal.Call{Agent: "forger", Run: run, Kind: journal.CallTool, Tool: toolEvery, Arguments: json.RawMessage(`{}`), Digest: journal.Digest(nil)})
	events := []journal.Event{
		w.Event(&journal.Opened{Agent: "forger", Run: run, Kind: journal.KindSession}), call,
		w.Event(&journal.Decision{Call: call.ID, Attempt: 1, Outcome: journal.Allow, Digest: journal.Digest(nil),
			By:     []journal.Cause{{Kind: journal.ByRule, Rule: json.RawMessage(`{"decision":"allow","tool":"every"}`)}},
			Policy: st.Adopted("forger", "").Digest, Engine: "none", Facts: json.RawMessage(`{}`)})}
	if err := w.Append(ctx, st, w.Now(st), events...); err != nil {
		t.Fatal(err)
	}
}

// TestStuck: processes that come to nothing are a broken rule, not a run
// without end.
func TestStuck(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "kept")
	rep, err := Run(t.Context(), Config{Program: program, Dir: dir, Duration: time.Millisecond, patience: 300 * time.Millisecond})
	if len(rep.Violations) != 1 || !strings.HasPrefix(rep.Violations[0].Text, "stuck: agents have not finished within 300ms; see "+dir) {
		t.Errorf("%+v", rep.Violations)
	}
	if !errors.Is(err, journal.ErrUnavailable) { // none of them made a journal
		t.Errorf("%v", err)
	}
}

func TestRunRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Config{Program: "/bin/true", Dir: full, Kills: 1}); err == nil || err.Error() != full+" is not empty: name another directory" {
		t.Errorf("%v", err)
	}
	_, err := Run(t.Context(), Config{Program: filepath.Join(full, "none"), Dir: filepath.Join(full, "new"), Kills: 1})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
