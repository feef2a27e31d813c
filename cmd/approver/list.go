package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/stream/embedded"
)

// lineWidth is how wide a line of a list is where there is no screen.
const lineWidth = 160

func (a *app) listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the open questions",
		Example: "  approver list\n  approver list --json | jq -r '.[].id'",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

func (a *app) list(ctx context.Context, asJSON bool) error {
	return a.with(ctx, func(h *embedded.Handle) error {
		box, err := inbox.Load(ctx, h)
		if err != nil {
			return err
		}
		return a.printItems(box.List(), journal.At(time.Now()), asJSON)
	})
}

// printItems prints the questions that take an answer at time now.
func (a *app) printItems(items []inbox.Item, now journal.Time, asJSON bool) error {
	items = slices.DeleteFunc(items, func(i inbox.Item) bool { return i.Expired(now) })
	if asJSON {
		return a.printJSON(items)
	}
	if len(items) == 0 {
		return a.printf("No open questions.\n")
	}
	width := cmp.Or(approver.ScreenWidth(a.out), lineWidth)
	for i := range items {
		if err := a.printf("%s\n", approver.Summary(&items[i], width)); err != nil {
			return err
		}
	}
	return nil
}
