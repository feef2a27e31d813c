// Command decider puts a policy in front of an agent's tool calls: it runs
// batches, decides for other processes, and keeps policies, grants and sessions.
//
// Exit codes: 0 done, 1 the journal or a provider failed, 2 misuse, 3 calls
// wait for a person.
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
	"time"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/journal"
)

func main() { os.Exit(Main()) }

// Main runs the command with the process's arguments and streams, and returns
// its exit code.
func Main() int {
	a := &app{in: os.Stdin, out: os.Stdout, errs: os.Stderr}
	return a.main(os.Args[1:])
}

func (a *app) main(args []string) int {
	signal.Ignore(syscall.SIGXFSZ) // what meets a limit of file sizes is an error, not the end
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errPending) {
		text := approver.Line(strings.ReplaceAll(err.Error(), "\n", "; "))
		if errors.Is(err, journal.ErrUnknown) {
			text += "; it may be stored: run the same command again"
		}
		_, _ = fmt.Fprintf(a.errs, "decider: %s\n", text) // nowhere else to say so
	}
	return exitCode(err)
}

// The exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitMisuse  = 2
	exitPending = 3
)

// errPending: every call is journaled, and some wait for a person.
var errPending = errors.New("calls wait for an answer")

// misuseError is a fault of the command line.
type misuseError struct{ text string }

func (e *misuseError) Error() string { return e.text }

func misuse(format string, args ...any) error {
	return &misuseError{fmt.Sprintf(format, args...)}
}

func exitCode(err error) int {
	var wrong *misuseError
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

// app is what the subcommands share.
type app struct {
	dir  string // --journal
	in   io.Reader
	out  io.Writer
	errs io.Writer
	now  func() time.Time // of what is written; nil: time.Now

	budget time.Duration                 // of one append; 0: patience
	wrap   func(journal.Log) journal.Log // put before the journal; nil: nothing
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "decider",
		Short:         "Judge an agent's tool calls, durably",
		Long:          "decider judges tool calls by plain-data rules to allow, deny or ask. What is asked waits for a\nperson, survives every crash, and is answered once. Everything is an event in a journal.",
		Example:       "  decider run --policy policy.yaml --root work batch.jsonl",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misuse("%v: see %s --help", err, cmd.CommandPath()) })
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand(root))
	root.PersistentFlags().StringVar(&a.dir, "journal", "",
		"journal `DIR` (default $DECIDER_JOURNAL, else decider/journal under $XDG_STATE_HOME or ~/.local/state)")
	root.AddCommand(a.runCommand(), a.serveCommand(), a.evalCommand(), a.policyCommand(), a.grantsCommand(),
		a.revokeCommand(), a.closeCommand(), a.repairCommand(), a.benchCommand(),
		a.chaosCommand(), a.chaosChildCommand())
	return root
}

// helpCommand is cobra's, but that a command there is not is misuse.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command", Example: "  decider help run",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return misuse("there is no command %q: see decider --help", strings.Join(args, " "))
			}
			return cmd.Help()
		},
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misuse("%s takes no argument %q: see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

// oneArg asks for exactly one argument, called name.
func oneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return misuse("%s takes one %s: see %s --help", cmd.CommandPath(), name, cmd.CommandPath())
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
