package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox/inboxtest"
)

// openTerminal makes a pseudo-terminal: what a person has, and what a program
// has.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return person, program
}

// screen is what a person sees.
type screen struct {
	from   io.Reader
	unread string
}

// expect reads on until the screen shows text.
func (s *screen) expect(t *testing.T, text string) {
	t.Helper()
	buf := make([]byte, 1024)
	for {
		if _, after, found := strings.Cut(s.unread, text); found {
			s.unread = after
			return
		}
		n, err := s.from.Read(buf)
		s.unread += string(buf[:n])
		if err != nil {
			t.Fatalf("the screen ended (%v) before it showed %q:\n%s", err, text, s.unread)
		}
	}
}

// TestTerminal answers at a terminal. What was typed before the question was
// shown, whole lines and the beginning of one, does not answer it.
func TestTerminal(t *testing.T) {
	dir := t.TempDir() + "/journal"
	first := askIn(t, dir, "nightly")
	person, program := openTerminal(t)
	modes, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	shows := &screen{from: person}
	typeText := func(text string) {
		t.Helper()
		if _, err := person.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	typeText("allow\nallow\nal")
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- (&app{cli.App{In: program, Out: program, Errs: program}}).run(ctx, []string{"--journal", dir})
	}()
	shows.expect(t, "[q]uit > ")
	typeText("low\n")
	shows.expect(t, "Not understood")
	typeText("deny\n")
	shows.expect(t, "A note for the agent")
	typeText("use scratch\n")
	shows.expect(t, "Answered deny-once.")
	shows.expect(t, "No open questions; waiting.")
	second := askIn(t, dir, "nightly")
	shows.expect(t, "[q]uit > ")
	typeText("q\n")
	if got := <-code; got != 0 {
		t.Errorf("it ended with %d", got)
	}
	cancel()
	after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil || *after != *modes {
		t.Errorf("the terminal's modes were %+v and are %+v (%v)", modes, after, err)
	}
	person.Close() // ends the program's reading
	program.Close()
	wantVotes(t, dir, first, journal.DenyOnce)
	wantVotes(t, dir, second, "")
}

func wantVotes(t *testing.T, dir, question, action string) {
	t.Helper()
	err := withAsker(t.Context(), dir, func(a *inboxtest.Asker) error {
		st, err := a.State(t.Context(), "nightly")
		if err != nil {
			return err
		}
		votes := st.Question(question).Answers
		if action == "" && len(votes) > 0 || action != "" && (len(votes) != 1 || votes[0].Action != action) {
			t.Errorf("%s has %+v, want %q", question, votes, action)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPipesAreNoTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if approver.IsTerminal(r) || terminal(r) || terminal(&bytes.Buffer{}) {
		t.Error("a pipe passes for a terminal")
	}
}
