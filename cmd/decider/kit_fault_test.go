package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli/clitest"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/journaltest"
	"decisionjournal/journal/journaltest/invariants"
	"decisionjournal/journal/stream/embedded"
)

// shaky is a journal for commands to fail on. One host keeps it open, and every
// command joins it.
type shaky struct {
	dir      string
	host     *embedded.Handle // an auditor's
	approver *journal.Writer
	sessions int
}

const shakyPolicy = `
rules:
  - {tool: fs_read, decision: allow}
  - {tool: fs_move, decision: allow}
  - {tool: fs_delete, decision: deny}
importers: [decider]
`

func newShaky(t *testing.T) *shaky {
	t.Helper()
	s := &shaky{dir: filepath.Join(t.TempDir(), "journal")}
	h, err := embedded.Open(t.Context(), embedded.Config{Dir: s.dir, Role: journal.RoleAuditor, User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	s.host = h
	s.approver = s.writer(t, journal.RoleApprover)
	return s
}

// writer is a writer of a role, over a connection without faults.
func (s *shaky) writer(t *testing.T, role journal.Role) *journal.Writer {
	t.Helper()
	log, actor, err := s.host.As(t.Context(), role)
	if err != nil {
		t.Fatal(err)
	}
	w, err := journal.NewWriter(journal.Config{Log: log, Role: role, Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// session names one that is not there yet.
func (s *shaky) session() string {
	s.sessions++
	return fmt.Sprintf("s%d", s.sessions)
}

// ran is how a command came out.
type ran clitest.Ran

// failing runs a command with faults before its journal.
func (s *shaky) failing(t *testing.T, f *journaltest.Faulty, args ...string) ran {
	t.Helper()
	return s.run(t, &app{clitest.Failing(f)}, args...)
}

// clean runs a command on the journal as it is. It must end with code.
func (s *shaky) clean(t *testing.T, code int, args ...string) ran {
	t.Helper()
	r := s.run(t, &app{}, args...)
	if r.Code != code {
		t.Fatalf("decider %s: exit %d, want %d: %s%s", strings.Join(args, " "), r.Code, code, r.Out, r.Errs)
	}
	return r
}

func (s *shaky) run(t *testing.T, a *app, args ...string) ran {
	t.Helper()
	return ran(clitest.Run(t, &a.App, a.run, append([]string{"--journal", s.dir}, args...)...))
}

// plainLine is what a command may say beside its results: lines of its own, and
// those of its logger.
var plainLine = regexp.MustCompile(`^(decider: .+|level=WARN msg=.+)$`)

// plain holds that a command failed as documented: by its own exit code or that
// of a journal that failed, and in words.
func (r ran) plain(t *testing.T, code int) {
	t.Helper()
	if r.Code != code && r.Code != exitFailed {
		t.Errorf("exit %d, want %d or %d: %s%s", r.Code, code, exitFailed, r.Out, r.Errs)
	}
	if r.Code == exitFailed && r.Errs == "" {
		t.Error("it failed and did not say why")
	}
	for line := range strings.Lines(r.Errs) {
		if !plainLine.MatchString(strings.TrimSuffix(line, "\n")) {
			t.Errorf("it says %q", line)
		}
	}
}

// unsure reports whether the command said that it does not know what it did.
func (r ran) unsure() bool { return strings.Contains(r.Errs, journal.ErrUnknown.Error()) }

// honest holds what a command said that it did against whether it is done.
func (r ran) honest(t *testing.T, code int, done bool) {
	t.Helper()
	r.plain(t, code)
	switch {
	case r.Code == code && !done:
		t.Errorf("it says that it is done, and it is not: %s%s", r.Out, r.Errs)
	case r.Code == exitFailed && done && !r.unsure():
		t.Errorf("it says that it failed, and it is done: %s", r.Errs)
	}
}

// state is the fold of a session.
func (s *shaky) state(t *testing.T, session string) *journal.State {
	t.Helper()
	return s.chain(t, journal.SessionChain(session))
}

func (s *shaky) chain(t *testing.T, chain journal.Chain) *journal.State {
	t.Helper()
	st, err := journal.LoadState(t.Context(), s.host, chain)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// answerAll answers a session's open questions, as a person does, and returns
// how many there were.
func (s *shaky) answerAll(t *testing.T, session, action string) (n int) {
	t.Helper()
	st := s.state(t, session)
	for _, q := range st.Questions() {
		if !inbox.Open(st, q) {
			continue
		}
		n++
		ref := approver.Ref{Session: session, Question: q.Mark.ID}
		if _, err := approver.Answer(t.Context(), s.approver, ref, approver.Request{Action: action}); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// holds checks a session against the rules of the journal, with what the command
// was told, and audits it.
func (s *shaky) holds(t *testing.T, f *journaltest.Faulty, session string, saw invariants.Witness) {
	t.Helper()
	for _, m := range f.Told() {
		if strings.HasPrefix(m.Subject, "journal.s."+session+".") {
			saw.Stored = append(saw.Stored, invariants.Stored{Seq: m.Seq, Digest: journal.Digest(m.Data)})
		}
	}
	saw.Hostile = true // what outruns a commit has no effect
	report, err := invariants.Check(t.Context(), &only{Log: s.host, session: session}, saw)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Error(v)
	}
	j, err := replay.Load(t.Context(), s.host)
	if err != nil {
		t.Fatal(err)
	}
	audit, err := j.Audit(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	faults := audit.Faults
	for _, s := range audit.Sessions {
		faults = append(faults, s.Faults...)
	}
	for _, fault := range faults {
		if !slices.Contains(f.Outran(), fault.Seq) {
			t.Errorf("audit: %s", fault)
		}
	}
}

// only is a journal with one session in it.
type only struct {
	journal.Log
	session string
}

func (o *only) Chains(context.Context) ([]journal.Chain, error) {
	return []journal.Chain{journal.PolicyChain(), journal.SessionChain(o.session)}, nil
}

func (o *only) LoadAll(ctx context.Context, after uint64) iter.Seq2[journal.Message, error] {
	return o.Load(ctx, journal.SessionChain(o.session), after)
}

// file writes a file for commands to read.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
