package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
)

// lineWidth is how wide a line of a list is where there is no screen.
const lineWidth = 160

func (a *app) listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the open questions",
		Example: "  approver list\n  approver list --json | jq -r '.[].id'",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

func (a *app) list(ctx context.Context, asJSON bool) error {
	return a.with(ctx, func(w *journal.Writer) error {
		box, err := inbox.Load(ctx, w.Log())
		if err != nil {
			return err
		}
		a.noteWithheld(box.Withheld())
		return a.printItems(box.List(), journal.At(time.Now()), asJSON)
	})
}

// noteWithheld says beside the list which sessions it leaves out.
func (a *app) noteWithheld(list []inbox.Withheld) {
	for _, w := range list {
		what := fmt.Sprintf("is broken at message %d (%s): after decider repair %s what still has to be asked is asked anew", w.Why.Seq, approver.Visible(w.Why.Why), w.Session)
		if w.Condition == journal.TooNew {
			what = fmt.Sprintf("was written by a newer program (message %d: %s): use that version", w.Why.Seq, approver.Visible(w.Why.Why))
		}
		count := "1 open question"
		if w.Questions > 1 {
			count = fmt.Sprintf("%d open questions", w.Questions)
		}
		_, _ = fmt.Fprintf(a.Errs, "approver: %s of session %s cannot be answered: it %s\n", count, w.Session, what) // nowhere else to say so
	}
}

// printItems prints the questions that take an answer at time now.
func (a *app) printItems(items []inbox.Item, now journal.Time, asJSON bool) error {
	items = slices.DeleteFunc(items, func(i inbox.Item) bool { return i.Expired(now) })
	if asJSON {
		return a.PrintJSON(items)
	}
	if len(items) == 0 {
		return a.Printf("No open questions.\n")
	}
	width := cmp.Or(approver.ScreenWidth(a.Out), lineWidth)
	for i := range items {
		if err := a.Printf("%s\n", approver.Summary(&items[i], width)); err != nil {
			return err
		}
	}
	return nil
}
