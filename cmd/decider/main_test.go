package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"decisionjournal/cmd/internal/cli"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary the decider of the scripts, and puts the
// other commands of the module beside it.
func TestMain(m *testing.M) {
	testscript.Main(others{m}, map[string]func(){
		"decider": func() {
			a := &app{cli.App{In: os.Stdin, Out: os.Stdout, Errs: os.Stderr, Now: clockOf(os.Getenv(clockEnv))}}
			os.Exit(cli.UntilSignal(func(ctx context.Context) int { return a.run(ctx, os.Args[1:]) }))
		},
		"forge":      func() { exit(forge(os.Args[1:])) },
		"until":      func() { exit(until(os.Args[1:])) },
		"plainagent": func() { exit(plainAgent(os.Args[1:])) },

		"remoteagent": func() { exit(remoteAgent(os.Args[1:])) },
		"certificate": func() { exit(certificate(os.Args[1:])) },
	})
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// clockEnv sets the decider's clock: to a time in RFC 3339, or by a duration
// ahead of the true one.
const clockEnv = "DECIDER_TEST_CLOCK"

func clockOf(text string) func() time.Time {
	if text == "" {
		return nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		ahead := time.Until(at)
		return func() time.Time { return time.Now().Add(ahead) }
	}
	ahead, err := time.ParseDuration(text)
	if err != nil {
		exit(fmt.Errorf("%s: %w", clockEnv, err))
	}
	return func() time.Time { return time.Now().Add(ahead) }
}

// others runs the tests with the module's other commands on PATH.
type others struct{ m *testing.M }

// Run builds the commands, and then runs the tests.
func (o others) Run() int {
	bin, err := os.MkdirTemp("", "commands")
	if err != nil {
		exit(err)
	}
	defer os.RemoveAll(bin)
	for _, name := range []string{"approver", "replay"} {
		build := exec.Command("go", "build", "-o", filepath.Join(bin, name), "decisionjournal/cmd/"+name)
		if text, err := build.CombinedOutput(); err != nil {
			exit(fmt.Errorf("building %s: %w\n%s", name, err, text))
		}
	}
	// With -race a process lingers for a second by default when it ends.
	err = errors.Join(
		os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0"),
		os.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH")))
	if err != nil {
		exit(err)
	}
	return o.m.Run()
}
