// Package clitest is what the tests of the module's commands share.
package clitest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/journal/journaltest"
)

// Exits is the script command
//
//	exits CODE PROGRAM ARG...     the program ends with exactly this exit code
func Exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	got := 0
	var ended *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &ended):
		got = ended.ExitCode()
	case err != nil:
		ts.Fatalf("%s: %v", args[1], err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("%s exits %d, want %s", args[1], got, args[0])
	}
}

// JSON is the script command
//
//	json MEMBER...    stdout is one JSON value that holds the members; of an
//	                  array each element does, and there is one
func JSON(ts *testscript.TestScript, _ bool, args []string) {
	raw := ts.ReadFile("stdout")
	if !strings.HasPrefix(raw, "[") {
		raw = "[" + raw + "]"
	}
	var list []map[string]json.RawMessage
	ts.Check(json.Unmarshal([]byte(raw), &list))
	if len(list) == 0 {
		ts.Fatalf("no element")
	}
	for _, element := range list {
		for _, name := range args {
			if element[name] == nil {
				ts.Fatalf("no member %s", name)
			}
		}
	}
}

// Tests of faults run a command in their own process, on a real journal whose
// Log fails in one way, a run for each fault. FAULTS_SHARE=1 tries them all; it
// is every how-manieth, of those of one command, that is tried.
const (
	shareEnv   = "FAULTS_SHARE"
	shareUnset = 5
)

// EachStrike runs check for its share of the faults.
func EachStrike(t *testing.T, check func(*testing.T, *journaltest.Faulty)) {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(shareEnv), strconv.Itoa(shareUnset)))
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: give a number above 0", shareEnv, os.Getenv(shareEnv))
	}
	journaltest.EachStrike(t, n, check)
}

// Bounds of a run with a fault. The first is short, since what fails for good
// costs each append as much; the other is so long that only a command that
// hangs meets it.
const (
	FaultBudget = 60 * time.Millisecond
	FaultLimit  = 2 * time.Minute
)

// Failing is an app whose journal has faults before it; nil is none.
func Failing(f *journaltest.Faulty) cli.App {
	if f == nil {
		return cli.App{}
	}
	return cli.App{Wrap: f.Before, Budget: FaultBudget}
}

// Ran is how a command came out.
type Ran struct {
	Code      int
	Out, Errs string
}

// Run runs a command to its end with streams of its own. It fails a test whose
// command hangs.
func Run(t *testing.T, a *cli.App, run func(context.Context, []string) int, args ...string) Ran {
	t.Helper()
	var out, errs bytes.Buffer
	a.In, a.Out, a.Errs = strings.NewReader(""), &out, &errs
	ctx, cancel := context.WithTimeout(t.Context(), FaultLimit)
	defer cancel()
	code := run(ctx, args)
	if ctx.Err() != nil {
		t.Fatalf("%s hangs: %s%s", strings.Join(args, " "), &out, &errs)
	}
	return Ran{code, out.String(), errs.String()}
}
