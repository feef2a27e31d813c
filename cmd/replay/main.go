// Command replay reads a decision journal after the fact: its sessions, what
// happened in them, who granted what, and whether the record is whole.
//
// Exit codes: 0 done, 1 audit found faults, 2 misuse, 3 the journal cannot be
// read.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
)

func main() { os.Exit(Main()) }

// Main runs the command with the process's arguments and streams, and returns
// its exit code.
func Main() int {
	signal.Ignore(syscall.SIGXFSZ) // what meets a limit of file sizes is an error, not the end
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{out: os.Stdout, errs: os.Stderr}
	return a.run(ctx, os.Args[1:])
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errFaults) {
		text := approver.Line(strings.ReplaceAll(err.Error(), "\n", "; "))
		_, _ = fmt.Fprintf(a.errs, "replay: %s\n", text) // nowhere else to say so
	}
	return exitCode(err)
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

// misuseError is what a person has to type differently.
type misuseError struct{ text string }

func (e *misuseError) Error() string { return e.text }

func misuse(format string, args ...any) error { return &misuseError{fmt.Sprintf(format, args...)} }

func exitCode(err error) int {
	var typed *misuseError
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

// app is what the subcommands share.
type app struct {
	dir       string // --journal
	json      bool   // --json
	out, errs io.Writer

	wrap func(journal.Log) journal.Log // put before the journal; nil: nothing
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "replay",
		Short:         "Read a decision journal after the fact",
		Long:          "replay reads a decision journal: what happened, who granted what, and whether the record is whole.\nIt folds and decides everything again by itself, and writes nothing.",
		Example:       "  replay sessions\n  replay audit",
		Version:       version(),
		Args:          exactly(0),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misuse("%v: see %s --help", err, cmd.CommandPath()) })
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&a.dir, "journal", "",
		"journal `DIR` (default $DECIDER_JOURNAL, else decider/journal under $XDG_STATE_HOME or ~/.local/state)")
	root.AddCommand(a.sessionsCommand(), a.showCommand(), a.grantsCommand(), a.auditCommand())
	return root
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
			return misuse("%s does not take %q: see %s --help", cmd.CommandPath(), args[n], cmd.CommandPath())
		case len(args) < n:
			return misuse("%s needs a session's name: replay sessions lists them", cmd.CommandPath())
		}
		return nil
	}
}

// version is that of the module the command was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown version)"
	}
	return info.Main.Version
}
