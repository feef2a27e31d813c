// Command approver answers the open questions of a decision journal.
//
// Exit codes: 0 accepted, 1 the journal failed, 2 misuse, 4 already settled,
// 5 no such question, 6 not entitled or not offered.
package main

import (
	"context"
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
	signal.Ignore(syscall.SIGXFSZ) // what meets a limit of file sizes is an error, not the end
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{in: os.Stdin, out: os.Stdout, errs: os.Stderr}
	return a.run(ctx, os.Args[1:])
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	text := approver.Line(strings.ReplaceAll(err.Error(), "\n", "; "))
	_, _ = fmt.Fprintf(a.errs, "approver: %s\n", text) // nowhere else to say so
	return exitCode(err)
}

// app is what the subcommands share.
type app struct {
	dir  string // --journal
	in   io.Reader
	out  io.Writer
	errs io.Writer

	budget time.Duration                 // of one append; 0: patience
	wrap   func(journal.Log) journal.Log // put before the journal; nil: nothing
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "approver",
		Short: "Answer what agents ask",
		Long: "approver answers the open questions of a decision journal.\n" +
			"At a terminal, without a subcommand, it takes them one by one.",
		Example:       "  approver\n  approver --journal /var/lib/agents/journal",
		Version:       version(),
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return a.prompt(cmd.Context()) },
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misuse("%v: see --help", err) })
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&a.dir, "journal", "",
		"journal `DIR` (default $DECIDER_JOURNAL, else decider/journal under $XDG_STATE_HOME or ~/.local/state)")
	root.AddCommand(a.listCommand(), a.showCommand(), a.answerCommand(), a.watchCommand())
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misuse("%s takes no argument %q: see `%s --help`", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

// version is that of the module the command was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown version)"
	}
	return info.Main.Version
}
