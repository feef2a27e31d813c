package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
)

func (a *app) watchCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "watch",
		Short:   "Print questions as they are asked, answered and settled",
		Long:    "Watch prints a line for every question that is open now, and for every change, until it is stopped.",
		Example: "  approver watch\n  approver watch --json | jq -r 'select(.change == \"opened\").question.id'",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.watch(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object on each line")
	return cmd
}

func (a *app) watch(ctx context.Context, asJSON bool) error {
	err := a.watching(ctx, asJSON)
	if ctx.Err() != nil { // it was told to stop, and what it was doing then does not matter
		return nil
	}
	return err
}

func (a *app) watching(ctx context.Context, asJSON bool) error {
	return a.with(ctx, func(w *journal.Writer) error {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		box := inbox.New(w.Log())
		ran := make(chan error, 1)
		go func() {
			err := box.Run(ctx)
			stop(err)
			ran <- err
		}()
		for change := range box.Watch(ctx) {
			if err := a.printChange(change, asJSON); err != nil {
				stop(nil)
				<-ran
				return err
			}
		}
		return <-ran
	})
}

func (a *app) printChange(c inbox.Change, asJSON bool) error {
	if asJSON {
		return a.PrintJSON(c)
	}
	how := ""
	if c.Settled != nil {
		how = fmt.Sprintf("  (%s: %s)", c.Settled.How, approver.Visible(c.Settled.Why))
	}
	width := cmp.Or(approver.ScreenWidth(a.Out), lineWidth)
	return a.Printf("%-6s  %s%s\n", c.Kind, approver.Summary(&c.Item, width-8), how)
}
