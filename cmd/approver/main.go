// Command approver answers the open questions of a decision journal.
//
// Exit codes: 0 accepted, 1 the journal failed, 2 misuse, 4 already settled,
// 5 no such question, 6 not entitled or not offered.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
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
	return exitCode(a.Execute(ctx, a.root(), args, nil))
}

func (a *app) root() *cobra.Command {
	return a.Root(&cobra.Command{
		Use:   "approver",
		Short: "Answer what agents ask",
		Long: "approver answers the open questions of a decision journal.\n" +
			"At a terminal, without a subcommand, it takes them one by one.",
		Example: "  approver\n  approver --journal /var/lib/agents/journal",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.prompt(cmd.Context()) },
	}, a.listCommand(), a.showCommand(), a.answerCommand(), a.watchCommand())
}

// with opens the journal with the approver's key, runs do with a writer for it,
// and closes it.
func (a *app) with(ctx context.Context, do func(*journal.Writer) error) error {
	return a.Open(ctx, embedded.Config{Role: journal.RoleApprover, Existing: true}, func(j *cli.Journal) error {
		w, err := j.Writer()
		if err != nil {
			return err
		}
		return do(w)
	})
}
