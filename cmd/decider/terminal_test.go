package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
)

// terminal is a program at a terminal of its own, played by a script:
//
//	open PROGRAM ARG...   starts it
//	expect REGEXP         waits until that is on the screen, after what was expected before
//	ready                 waits until the prompt takes what is typed
//	type LINE             types a line and Enter
//	leaves CODE           waits until it ends with this exit code
type terminal struct {
	cmd  *exec.Cmd
	keys *os.File
	seen chan struct{} // closed when nothing more comes

	mu     sync.Mutex
	screen bytes.Buffer
	more   chan struct{} // closed when the screen changes
	passed int           // of the screen
}

type terminalKey struct{}

func terminalOf(ts *testscript.TestScript) *terminal { return ts.Value(terminalKey{}).(*terminal) }

func openTerminal(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) >= 1, "open PROGRAM ARG...")
	t := terminalOf(ts)
	program, err := exec.LookPath(args[0])
	ts.Check(err)
	*t = terminal{cmd: exec.Command(program, args[1:]...), seen: make(chan struct{}), more: make(chan struct{})}
	t.cmd.Args[0] = args[0]
	t.cmd.Dir = ts.MkAbs(".")
	t.cmd.Env = append(os.Environ(), "DECIDER_JOURNAL="+ts.Getenv("DECIDER_JOURNAL"))
	t.keys, err = pty.StartWithSize(t.cmd, &pty.Winsize{Rows: 40, Cols: 120})
	ts.Check(err)
	ts.Defer(func() {
		t.cmd.Process.Kill()
		t.keys.Close()
	})
	go t.watch()
}

// watch collects what comes to the screen, until the program is gone.
func (t *terminal) watch() {
	defer close(t.seen)
	buf := make([]byte, 4096)
	for {
		n, err := t.keys.Read(buf)
		t.mu.Lock()
		t.screen.Write(buf[:n])
		close(t.more)
		t.more = make(chan struct{})
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// find looks for what was not passed yet, and says when to look again.
func (t *terminal) find(want *regexp.Regexp) (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := want.FindIndex(t.screen.Bytes()[t.passed:])
	if at == nil {
		return false, t.more
	}
	t.passed += at[1]
	return true, t.more
}

func (t *terminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.String()
}

// wait waits until want is on the screen. It reports false if it is not within
// patience, or cannot come any more.
func (t *terminal) wait(want *regexp.Regexp, patience time.Duration) bool {
	late := time.After(patience)
	for {
		found, more := t.find(want)
		if found {
			return true
		}
		select {
		case <-more:
		case <-t.seen:
			found, _ := t.find(want)
			return found
		case <-late:
			return false
		}
	}
}

func expectScreen(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 1, "expect REGEXP")
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	if t := terminalOf(ts); !t.wait(want, untilBudget) {
		ts.Fatalf("%q is not in\n%s", args[0], t.text())
	}
}

var emptyLine = regexp.MustCompile("Nothing is answered by an empty line")

// readyPrompt types empty lines until one is noticed: what is typed while a
// question comes to the screen is dropped, as it should be.
func readyPrompt(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 0, "ready")
	t := terminalOf(ts)
	for range int(untilBudget / time.Second) {
		_, err := t.keys.WriteString("\n")
		ts.Check(err)
		if t.wait(emptyLine, time.Second) {
			return
		}
	}
	ts.Fatalf("it takes no line; its screen is\n%s", t.text())
}

func typeLine(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 1, "type LINE")
	_, err := terminalOf(ts).keys.WriteString(args[0] + "\n")
	ts.Check(err)
}

func leavesTerminal(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 1, "leaves CODE")
	t := terminalOf(ts)
	select {
	case <-t.seen:
	case <-time.After(untilBudget):
		ts.Fatalf("it does not end; its screen is\n%s", t.text())
	}
	err := t.cmd.Wait()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		ts.Check(err)
	}
	if got := strconv.Itoa(t.cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("it exits %s, want %s; its screen is\n%s", got, args[0], t.text())
	}
}
