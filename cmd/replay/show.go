package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/decider/replay"
)

func (a *app) showCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:     "show SESSION",
		Short:   "Tell a session's history, one line for each event",
		Long:    "show tells a session's history in chain order: the commit, its time, who wrote it, and what it says.\nMessages without effect and missing commits stand in their place.",
		Example: "  replay show nightly\n  replay show nightly --json | jq '.[] | select(.event == \"decision\")'",
		Args:    exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(j *replay.Journal) error { return a.show(cmd.Context(), j, args[0]) })
		},
	}, "one JSON array")
}

func (a *app) show(ctx context.Context, j *replay.Journal, session string) error {
	lines, err := j.Timeline(ctx, session)
	switch {
	case err != nil:
		return err
	case a.json:
		return a.PrintDocument(lines)
	}
	for _, l := range lines {
		if err := a.Printf("%s\n", lineText(l)); err != nil {
			return err
		}
	}
	return nil
}

func lineText(l replay.Line) string {
	n := "-"
	if l.N > 0 {
		n = fmt.Sprint(l.N)
	}
	about := approver.Visible(strings.TrimSpace(l.Agent + " " + l.Call))
	if about != "" {
		about += ": "
	}
	return fmt.Sprintf("%5s  %-30s  %-18s  %-9s  %s%s", n, clock(l.Time), approver.Visible(l.Who), l.Event, about, approver.Visible(l.Text))
}
