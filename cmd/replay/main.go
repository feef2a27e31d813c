// Command replay reads a decision journal after the fact: its sessions, what
// happened in them, who granted what, and whether the record is whole.
//
// Exit codes: 0 done, 1 audit found faults, 2 misuse, 3 the journal cannot be
// read.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

func main() { os.Exit(Main()) }

// Main runs the command with the process's arguments and streams, and returns
// its exit code.
func Main() int {
	a := &app{App: cli.Process()}
	return cli.UntilSignal(func(ctx context.Context) int { return a.run(ctx, os.Args[1:]) })
}

// app is what the subcommands share.
type app struct {
	cli.App
	json bool // --json
}

func (a *app) run(ctx context.Context, args []string) int {
	return exitCode(a.Execute(ctx, a.root(), args, errFaults))
}

func (a *app) root() *cobra.Command {
	return a.Root(&cobra.Command{
		Use:     "replay",
		Short:   "Read a decision journal after the fact",
		Long:    "replay reads a decision journal: what happened, who granted what, and whether the record is whole.\nIt folds and decides everything again by itself, and writes nothing.",
		Example: "  replay sessions\n  replay audit",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}, a.sessionsCommand(), a.showCommand(), a.grantsCommand(), a.auditCommand())
}

// with opens the journal with the auditor's key, runs do, and closes it.
func (a *app) with(ctx context.Context, do func(*replay.Journal) error) error {
	return a.Open(ctx, embedded.Config{Role: journal.RoleAuditor, Existing: true}, func(j *cli.Journal) error {
		loaded, err := replay.Load(ctx, j.Log)
		if err != nil {
			return err
		}
		return do(loaded)
	})
}

// The exit codes.
const (
	exitOK         = 0
	exitFaults     = 1
	exitMisuse     = 2
	exitUnreadable = 3
)

// errFaults: the audit found faults, and has printed them.
var errFaults = errors.New("the record has faults")

func exitCode(err error) int {
	var typed *cli.MisuseError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFaults):
		return exitFaults
	case errors.As(err, &typed), errors.Is(err, replay.ErrNoSession), errors.Is(err, replay.ErrNoCommit):
		return exitMisuse
	}
	return exitUnreadable
}

// jsonFlag gives a subcommand --json.
func (a *app) jsonFlag(cmd *cobra.Command, what string) *cobra.Command {
	cmd.Flags().BoolVar(&a.json, "json", false, "print "+what)
	return cmd
}

// exactly takes n arguments and says which are missing or too many.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > n:
			return cli.Misuse("%s does not take %q: see %s --help", cmd.CommandPath(), args[n], cmd.CommandPath())
		case len(args) < n:
			return cli.Misuse("%s needs a session's name: replay sessions lists them", cmd.CommandPath())
		}
		return nil
	}
}
