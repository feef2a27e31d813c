// Command decider puts a policy in front of an agent's tool calls: it runs
// batches, decides for other processes, and keeps policies, grants and sessions.
//
// Exit codes: 0 done, 1 the journal or a provider failed, or what a policy is held
// to does not hold, 2 misuse, 3 calls wait for a person.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"decisionjournal/cmd/internal/cli"
)

func main() { os.Exit(Main()) }

// Main runs the command with the process's arguments and streams, and returns
// its exit code.
func Main() int {
	a := &app{cli.Process()}
	return cli.UntilSignal(func(ctx context.Context) int { return a.run(ctx, os.Args[1:]) })
}

// app is what the subcommands share.
type app struct{ cli.App }

func (a *app) run(ctx context.Context, args []string) int {
	return exitCode(a.Execute(ctx, a.root(), args, errSaid))
}

func (a *app) root() *cobra.Command {
	return a.Root(&cobra.Command{
		Use:     "decider",
		Short:   "Judge an agent's tool calls, durably",
		Long:    "decider judges tool calls by plain-data rules to allow, deny or ask. What is asked waits for a\nperson, survives every crash, and is answered once. Everything is an event in a journal.",
		Example: "  decider run --policy policy.yaml --root work batch.jsonl",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}, a.runCommand(), a.serveCommand(), a.evalCommand(), a.explainCommand(), a.policyCommand(), a.grantsCommand(),
		a.revokeCommand(), a.closeCommand(), a.repairCommand(), a.benchCommand(),
		a.chaosCommand(), a.chaosChildCommand())
}

// The exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitMisuse  = 2
	exitPending = 3
)

// errSaid: what a command looked for it has found and printed.
var errSaid = errors.New("said already")

// errPending: every call is journaled, and some wait for a person.
var errPending = fmt.Errorf("%w: calls wait for an answer", errSaid)

func exitCode(err error) int {
	var wrong *cli.MisuseError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errPending):
		return exitPending
	case errors.As(err, &wrong):
		return exitMisuse
	}
	return exitFailed
}
