package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"decisionjournal/cmd/internal/cli/clitest"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
	"decisionjournal/journal/journaltest/invariants"
)

// asking is a session whose calls were made and wait for a person.
func (s *shaky) asking(t *testing.T, policy, calls string) string {
	t.Helper()
	b := s.batch(t, policy, calls)
	s.clean(t, exitPending, b.args...)
	return b.session
}

// granted is a session in which an answer left a grant.
func (s *shaky) granted(t *testing.T, policy, calls string) (session, grant string) {
	t.Helper()
	b := s.batch(t, policy, calls)
	s.clean(t, exitPending, b.args...)
	s.answerAll(t, b.session, journal.AlwaysAllow)
	s.clean(t, exitOK, b.args...)
	return b.session, s.state(t, b.session).Grants()[0].Mark.ID
}

// TestCloseUnderFaults ends a session while the journal fails.
func TestCloseUnderFaults(t *testing.T) {
	s := newShaky(t)
	policy, calls := file(t, "policy.yaml", shakyPolicy), file(t, "moves.jsonl", moves)
	clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
		session := s.asking(t, policy, calls)
		s.failing(t, f, "close", session).honest(t, exitOK, s.state(t, session).Ended() != nil)
		again := s.run(t, &app{}, "close", session)
		if s.state(t, session).Ended() == nil {
			t.Errorf("it is not closed in the end: exit %d: %s", again.Code, again.Errs)
		}
		s.holds(t, f, session, invariants.Witness{})
	})
}

// TestRevokeUnderFaults revokes a grant while the journal fails.
func TestRevokeUnderFaults(t *testing.T) {
	s := newShaky(t)
	policy, calls := file(t, "policy.yaml", shakyPolicy), file(t, "moves.jsonl", moves)
	clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
		session, grant := s.granted(t, policy, calls)
		r := s.failing(t, f, "revoke", "--session", session, grant)
		r.honest(t, exitOK, s.state(t, session).Grant(grant).Ended != "")
		again := s.run(t, &app{}, "revoke", "--session", session, grant)
		if s.state(t, session).Grant(grant).Ended == "" {
			t.Errorf("it is not revoked in the end: exit %d: %s", again.Code, again.Errs)
		}
		s.holds(t, f, session, invariants.Witness{})
	})
}

const plainGrants = `[{"rules":[{"decision":"allow","tool":"mail"}]},{"rules":[{"decision":"allow","tool":"fs_write"}],"uses":3}]`

// TestImportUnderFaults imports grants from a file, and from a book, while the
// journal fails. However often it is tried, each is there once.
func TestImportUnderFaults(t *testing.T) {
	s := newShaky(t)
	grants := file(t, "grants.json", plainGrants)
	s.clean(t, exitOK, "grants", "import", "--session", "standing", "--book", grants)
	for name, source := range map[string][]string{"file": {grants}, "book": {"--from", "standing"}} {
		t.Run(name, func(t *testing.T) {
			clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
				session := s.session()
				args := append([]string{"grants", "import", "--session", session}, source...)
				s.failing(t, f, args...).honest(t, exitOK, len(s.state(t, session).Grants()) == 2)
				s.clean(t, exitOK, args...)
				if n := len(s.state(t, session).Grants()); n != 2 {
					t.Errorf("%d grants were imported in the end, want 2", n)
				}
				s.holds(t, f, session, invariants.Witness{})
			})
		})
	}
}

// TestActivateUnderFaults activates a policy while the journal fails.
func TestActivateUnderFaults(t *testing.T) {
	s := newShaky(t)
	policy := file(t, "policy.yaml", shakyPolicy)
	clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
		name := s.session()
		active := func() bool { return s.chain(t, journal.PolicyChain()).Active(name) != nil }
		s.failing(t, f, "policy", "activate", "--name", name, policy).honest(t, exitOK, active())
		s.clean(t, exitOK, "policy", "activate", "--name", name, policy)
		if !active() {
			t.Error("it is not active in the end")
		}
	})
}

// newer is a commit as a newer program would write it.
const newer = `{"v":2}`

// TestRepairUnderFaults repairs a session while the journal fails.
func TestRepairUnderFaults(t *testing.T) {
	s := newShaky(t)
	policy, calls := file(t, "policy.yaml", shakyPolicy), file(t, "moves.jsonl", moves)
	dec := s.writer(t, journal.RoleDecider)
	clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
		session := s.asking(t, policy, calls)
		chain := journal.SessionChain(session)
		whole := func() bool {
			cond, _ := s.state(t, session).Condition()
			return cond == journal.Whole
		}
		sub := journal.Subject{Chain: chain, Role: journal.RoleDecider, Actor: dec.Principal().Actor}
		if _, err := dec.Log().Publish(t.Context(), sub, s.state(t, session).LastSeq(), []byte(newer)); err != nil || whole() {
			t.Fatalf("the session is not too new: %v", err)
		}
		s.failing(t, f, "repair", "--newer", session).honest(t, exitOK, whole())
		again := s.run(t, &app{}, "repair", "--newer", session)
		if !whole() {
			t.Errorf("it is not repaired in the end: exit %d: %s", again.Code, again.Errs)
		}
		s.holds(t, f, session, invariants.Witness{})
	})
}

// TestReadingUnderFaults has the commands that only read meet a journal that
// fails: they say so, or say the same as without the fault.
func TestReadingUnderFaults(t *testing.T) {
	s := newShaky(t)
	policy, calls := file(t, "policy.yaml", shakyPolicy), file(t, "moves.jsonl", moves)
	session, _ := s.granted(t, policy, calls)
	s.clean(t, exitOK, "policy", "activate", policy)
	for _, args := range [][]string{
		{"grants"},
		{"grants", "--session", session, "--json"},
		{"grants", "export", "--session", session},
		{"policy", "show", "default"},
		{"policy", "show", "--session", session},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			want := s.clean(t, exitOK, args...)
			if want.Out == "" {
				t.Fatal("it says nothing")
			}
			clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
				r := s.failing(t, f, args...)
				r.plain(t, exitOK)
				if r.Code == exitOK && r.Out != want.Out || r.Code != exitOK && r.Out != "" {
					t.Errorf("exit %d: it says %q, want %q", r.Code, r.Out, want.Out)
				}
			})
		})
	}
}

// TestServeUnderFaults has a worker decide while the journal fails. It decides,
// sets the session aside and says so, or ends; another then decides what it did
// not.
func TestServeUnderFaults(t *testing.T) {
	s := newShaky(t)
	policy, calls := file(t, "policy.yaml", shakyPolicy), file(t, "moves.jsonl", moves)
	clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
		session := s.asking(t, policy, calls)
		s.answerAll(t, session, journal.AllowOnce)
		decided := func() bool {
			for _, c := range s.state(t, session).Calls() {
				if c.Undecided() {
					return false
				}
			}
			return true
		}
		first := s.serve(t, &app{clitest.Failing(f)}, decided)
		first.plain(t, exitOK)
		if decided() {
			s.holds(t, f, session, invariants.Witness{})
			return
		}
		last := s.serve(t, &app{}, decided)
		if last.Code != exitOK || !decided() {
			t.Errorf("not decided in the end: exit %d: %s", last.Code, last.Errs)
		}
		s.holds(t, f, session, invariants.Witness{})
	})
}

// serve runs decider serve until done, or until it ends or sets something aside.
func (s *shaky) serve(t *testing.T, a *app, done func() bool) ran {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), clitest.FaultLimit)
	defer stop()
	errs := &watched{change: make(chan struct{}, 1)}
	var out bytes.Buffer
	a.In, a.Out, a.Errs = strings.NewReader(""), &out, errs
	ended := make(chan int, 1)
	go func() { ended <- a.run(ctx, []string{"--journal", s.dir, "serve"}) }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() && !strings.Contains(errs.String(), "set aside") {
		select {
		case code := <-ended:
			return ran{code, out.String(), errs.String()}
		case <-errs.change:
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("serve hangs: %s", errs)
		}
	}
	stop()
	code := <-ended
	return ran{code, out.String(), errs.String()}
}

// watched is a buffer that tells when it grows.
type watched struct {
	mu     sync.Mutex
	text   bytes.Buffer
	change chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.change <- struct{}{}:
	default:
	}
	return w.text.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
