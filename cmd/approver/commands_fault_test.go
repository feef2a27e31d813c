package main

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/cmd/internal/cli/clitest"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox/inboxtest"
	"decisionjournal/journal/journaltest"
	"decisionjournal/journal/stream/embedded"
)

// shaky is a journal for commands to fail on. One host keeps it open, and every
// command joins it.
type shaky struct {
	dir   string
	host  *embedded.Handle // a decider's
	asker *inboxtest.Asker
}

func newShaky(t *testing.T) *shaky {
	t.Helper()
	s := &shaky{dir: filepath.Join(t.TempDir(), "journal")}
	h, err := embedded.Open(t.Context(), embedded.Config{Dir: s.dir, Role: journal.RoleDecider, User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	role, actor := h.Principal()
	w, err := journal.NewWriter(journal.Config{Log: h, Role: role, Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	s.host, s.asker = h, inboxtest.New(w)
	return s
}

func (s *shaky) ask(t *testing.T, session string) string {
	t.Helper()
	id, err := s.asker.Ask(t.Context(), session, inboxtest.Spec{Grantable: true, Suggestion: []string{`{"decision":"allow","tool":"fs_write"}`}})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// ran is how a command came out.
type ran clitest.Ran

func (s *shaky) run(t *testing.T, f *journaltest.Faulty, args ...string) ran {
	t.Helper()
	a := &app{clitest.Failing(f)}
	return ran(clitest.Run(t, &a.App, a.run, append([]string{"--journal", s.dir}, args...)...))
}

var plainLine = regexp.MustCompile(`^approver: .+\n$`)

// plain holds that a command ended in one of the documented ways, and said in one
// line why it failed.
func (r ran) plain(t *testing.T, codes ...int) {
	t.Helper()
	if !slices.Contains(codes, r.Code) {
		t.Errorf("exit %d, want one of %v: %s%s", r.Code, codes, r.Out, r.Errs)
	}
	if r.Code == exitOK && r.Errs == "" {
		return
	}
	if strings.Count(r.Errs, "\n") != 1 || !plainLine.MatchString(r.Errs) {
		t.Errorf("exit %d: it says %q", r.Code, r.Errs)
	}
}

func (s *shaky) votes(t *testing.T, session, question string) []journal.Vote {
	t.Helper()
	st, err := journal.LoadState(t.Context(), s.host, journal.SessionChain(session))
	if err != nil {
		t.Fatal(err)
	}
	return st.Question(question).Answers
}

// TestAnswerUnderFaults answers while the journal fails. What is said to be
// given stands in the journal, once; what is said to have failed does not.
func TestAnswerUnderFaults(t *testing.T) {
	s := newShaky(t)
	sessions := 0
	for _, action := range []string{journal.AllowOnce, journal.AlwaysAllow} {
		t.Run(action, func(t *testing.T) {
			clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
				sessions++
				session := "s" + strconv.Itoa(sessions)
				id := s.ask(t, session)
				r := s.run(t, f, "answer", session+"/"+id, action)
				r.plain(t, exitOK, exitFailed, exitRefused)
				votes, unsure := s.votes(t, session, id), strings.Contains(r.Errs, "is not known")
				switch {
				case r.Code == exitOK && len(votes) != 1:
					t.Errorf("it was given, and the journal holds %+v", votes)
				case r.Code != exitOK && len(votes) > 0 && !unsure:
					t.Errorf("it failed, and the journal holds %+v: %s", votes, r.Errs)
				}
				again := s.run(t, nil, "answer", session+"/"+id, action)
				again.plain(t, map[bool]int{true: exitSettled, false: exitOK}[len(votes) > 0])
				if votes := s.votes(t, session, id); len(votes) != 1 || votes[0].Action != action {
					t.Errorf("in the end the journal holds %+v", votes)
				}
			})
		})
	}
}

// TestReadingUnderFaults has the commands that only read meet a journal that
// fails: they say so, or say the same as without the fault.
func TestReadingUnderFaults(t *testing.T) {
	s := newShaky(t)
	open, settled := s.ask(t, "one"), s.ask(t, "two")
	s.run(t, nil, "answer", "two/"+settled, journal.DenyOnce).plain(t, exitOK)
	for _, args := range [][]string{
		{"list"}, {"list", "--json"}, {"show", open}, {"show", "two/" + settled, "--json"}, {"show", "one/" + open[:12]},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			want := s.run(t, nil, args...)
			want.plain(t, exitOK)
			clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
				r := s.run(t, f, args...)
				r.plain(t, exitOK, exitFailed)
				if r.Code == exitOK && r.Out != want.Out || r.Code != exitOK && r.Out != "" {
					t.Errorf("exit %d: it says %q, want %q", r.Code, r.Out, want.Out)
				}
			})
		})
	}
}

// TestWatchUnderFaults watches while the journal fails: it shows what is open,
// or ends and says why.
func TestWatchUnderFaults(t *testing.T) {
	s := newShaky(t)
	id := s.ask(t, "one")
	clitest.EachStrike(t, func(t *testing.T, f *journaltest.Faulty) {
		ctx, cancel := context.WithTimeout(t.Context(), clitest.FaultLimit)
		defer cancel()
		var errs bytes.Buffer
		seen := &finder{text: id, found: cancel}
		a := &app{cli.App{In: strings.NewReader(""), Out: seen, Errs: &errs, Wrap: f.Before}}
		code := a.run(ctx, []string{"--journal", s.dir, "watch"})
		ran{code, "", errs.String()}.plain(t, exitOK, exitFailed)
		if code == exitOK && !seen.done {
			t.Error("it ended and had shown nothing")
		}
	})
}

// finder calls found once text was written to it.
type finder struct {
	text  string
	found func()
	done  bool
}

func (f *finder) Write(p []byte) (int, error) {
	if strings.Contains(string(p), f.text) && !f.done {
		f.done = true
		f.found()
	}
	return len(p), nil
}
