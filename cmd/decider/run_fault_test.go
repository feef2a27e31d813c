package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"decisionjournal/cmd/internal/cli/clitest"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
	"decisionjournal/journal/journaltest/invariants"
)

// moves is a batch of a call that is allowed and cannot be done twice, one that
// is asked about, and one that is denied.
const moves = `{"id":"move","function":{"name":"fs_move","arguments":{"from":"a","to":"b"}}}
{"id":"write","function":{"name":"fs_write","arguments":{"path":"c","content":"written"}}}
{"id":"delete","function":{"name":"fs_delete","arguments":{"path":"b"}}}
`

// batch is a run of moves in a directory of its own.
type batch struct {
	session, root string
	args          []string
}

func (s *shaky) batch(t *testing.T, policy, calls string) batch {
	t.Helper()
	b := batch{session: s.session(), root: t.TempDir()}
	if err := os.WriteFile(filepath.Join(b.root, "a"), []byte("moved"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.args = []string{"run", "--json", "--session", b.session, "--policy", policy, "--root", b.root, calls}
	return b
}

// told are the results in a command's output.
func (b batch) told(t *testing.T, r ran) (all []agent.ToolMessage) {
	t.Helper()
	for line := range strings.Lines(r.Out) {
		var m agent.ToolMessage
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("it prints %q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

// onceEach holds that a command answered every call of moves in order, unless it
// could not begin.
func (b batch) onceEach(t *testing.T, r ran) {
	t.Helper()
	ids := ""
	for _, m := range b.told(t, r) {
		ids += m.ToolCallID + " "
	}
	if ids != "move write delete " && (ids != "" || r.Code != exitFailed) {
		t.Errorf("exit %d with results of %q", r.Code, ids)
	}
}

// results are those results as a witness saw them.
func (b batch) results(t *testing.T, r ran) (list []invariants.Result) {
	t.Helper()
	for _, m := range b.told(t, r) {
		if m.IsError {
			continue
		}
		content, err := journal.Canonical(m.Content)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, invariants.Result{Session: b.session, Agent: "main", Key: "moves.jsonl/" + m.ToolCallID, Digest: journal.Digest(content)})
	}
	return list
}

// finish runs the batch again, without faults, until everything is answered.
func (s *shaky) finish(t *testing.T, b batch) {
	t.Helper()
	for range 4 {
		r := s.run(t, &app{}, b.args...)
		b.onceEach(t, r)
		switch r.Code {
		case exitOK:
			return
		case exitPending:
			if s.answerAll(t, b.session, journal.AllowOnce) == 0 {
				t.Fatalf("it waits for an answer to nothing: %s%s", r.Out, r.Errs)
			}
		default:
			t.Fatalf("exit %d: %s%s", r.Code, r.Out, r.Errs)
		}
	}
	t.Fatal("the batch does not end")
}

// done holds that what was to happen did.
func (b batch) done(t *testing.T) {
	t.Helper()
	for name, want := range map[string]string{"b": "moved", "c": "written"} {
		if got, err := os.ReadFile(filepath.Join(b.root, name)); string(got) != want {
			t.Errorf("%s holds %q, want %q: %v", name, got, want, err)
		}
	}
}

// TestRunUnderFaults begins a batch while the journal fails.
func TestRunUnderFaults(t *testing.T) {
	s := newShaky(t)
	policy, calls := file(t, "policy.yaml", shakyPolicy), file(t, "moves.jsonl", moves)
	clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
		b := s.batch(t, policy, calls)
		r := s.failing(t, f, b.args...)
		r.plain(t, exitPending)
		b.onceEach(t, r)
		s.finish(t, b)
		b.done(t)
		s.holds(t, f, b.session, invariants.Witness{Results: b.results(t, r)})
	})
}

// TestResumeUnderFaults goes on with a batch whose question was answered while
// the journal fails.
func TestResumeUnderFaults(t *testing.T) {
	s := newShaky(t)
	policy, calls := file(t, "policy.yaml", shakyPolicy), file(t, "moves.jsonl", moves)
	clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
		b := s.batch(t, policy, calls)
		s.clean(t, exitPending, b.args...)
		s.answerAll(t, b.session, journal.AlwaysAllow)
		r := s.failing(t, f, b.args...)
		r.plain(t, exitOK)
		b.onceEach(t, r)
		s.finish(t, b)
		b.done(t)
		s.holds(t, f, b.session, invariants.Witness{Results: b.results(t, r)})
	})
}
