package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"decisionjournal/cmd/internal/cli/clitest"

	"github.com/cenkalti/backoff/v4"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts drives the commands as people do. Each script is a story.
//
// Beside testscript's own, a script has these commands:
//
//	exits CODE PROGRAM ARG...     the program ends with exactly this exit code
//	capture NAME REGEXP           sets $NAME to what the group matched in stdout
//	oneline                       the last stderr is one line, however long
//	signal NAME TEXT              signals the background command that has TEXT in it
//	open, expect, ready, type, leaves   a program at a terminal: see terminal_test.go
//	lose, misread, redate, cut, split   damage the journal's store: see store_test.go
//
// and the programs
//
//	until REGEXP PROGRAM ARG...   tries another until it succeeds and prints that
//	forge, plainagent             see forge_test.go
//	remoteagent, certificate      see remote_test.go
//
// $JOURNAL is the journal, $TESTDATA the module's testdata.
func TestScripts(t *testing.T) {
	dependOnSources(t)
	testdata, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			journal := filepath.Join(env.WorkDir, "journal")
			env.Setenv("TESTDATA", testdata)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("JOURNAL", journal)
			env.Setenv("DECIDER_JOURNAL", journal)
			env.Values[terminalKey{}] = new(terminal)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": clitest.Exits, "capture": capture, "oneline": oneLine, "signal": signalTo,
			"open": openTerminal, "expect": expectScreen, "ready": readyPrompt, "type": typeLine, "leaves": leavesTerminal,
			"lose": lose, "redate": redate, "cut": cut, "split": split, "misread": misread,
		},
	})
}

// dependOnSources looks at every source file of the module, so that a change in
// one that is only built or listed here makes a cached result of the test stale.
func dependOnSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		_, err = os.Stat(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// needs ends the script unless its command line is as documented.
func needs(ts *testscript.TestScript, ok bool, usage string) {
	if !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

// untilBudget is how long a condition may take to become true, on a machine
// that does other things too.
const untilBudget = 30 * time.Second

// until is the program that tries another until it ends well with output that
// matches. It prints that output, or the last there was.
func until(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: until REGEXP PROGRAM ARG...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	if err != nil {
		return err
	}
	tries := backoff.NewExponentialBackOff(backoff.WithInitialInterval(20*time.Millisecond),
		backoff.WithMaxInterval(300*time.Millisecond), backoff.WithMaxElapsedTime(untilBudget))
	var out []byte
	err = backoff.Retry(func() error {
		out, err = exec.Command(args[1], args[2:]...).Output()
		if err == nil && !want.Match(out) {
			return fmt.Errorf("%q is not in its output", args[0])
		}
		return err
	}, tries)
	os.Stdout.Write(out)
	return err
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 2, "capture NAME REGEXP")
	want, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	found := want.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("no match, or not one group, for %q", args[1])
	}
	ts.Setenv(args[0], found[1])
}

func oneLine(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 0, "oneline")
	if text := ts.ReadFile("stderr"); strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("not one line: %q", text)
	}
}

var signals = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}

func signalTo(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 2, "signal NAME TEXT")
	sig, ok := signals[args[0]]
	needs(ts, ok, "signal TERM|INT|STOP|CONT TEXT")
	running := slices.DeleteFunc(ts.BackgroundCmds(), func(c *exec.Cmd) bool {
		return !strings.Contains(strings.Join(c.Args, " "), args[1])
	})
	if len(running) != 1 {
		ts.Fatalf("%d background commands have %q in them", len(running), args[1])
	}
	ts.Check(running[0].Process.Signal(sig))
}

// within is a context for what must happen soon.
func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), untilBudget)
}
