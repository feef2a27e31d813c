package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
)

func (a *app) sessionsCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:     "sessions",
		Short:   "List the sessions of the journal",
		Example: "  replay sessions\n  replay sessions --json | jq -r '.[] | select(.open_questions > 0) | .session'",
		Args:    exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(j *replay.Journal) error { return a.sessions(cmd.Context(), j) })
		},
	}, "one JSON array")
}

func (a *app) sessions(ctx context.Context, j *replay.Journal) error {
	list, err := j.Sessions(ctx)
	if err == nil {
		err = a.notePolicies(ctx, j)
	}
	switch {
	case err != nil:
		return err
	case a.json:
		return a.PrintDocument(list)
	case len(list) == 0:
		return a.Printf("No sessions.\n")
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	rows := []string{"SESSION\tKIND\tSTATE\tFIRST\tLAST\tCALLS\tQUESTIONS\tGRANTS\tCONDITION"}
	for _, s := range list {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s", s.Session, s.Kind, s.State,
			clock(s.First), clock(s.Last), s.Calls, s.OpenQuestions, s.Grants, condition(s)))
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(w, row); err != nil {
			return err
		}
	}
	return w.Flush()
}

// notePolicies says beside the list that nothing is decided in any session.
func (a *app) notePolicies(ctx context.Context, j *replay.Journal) error {
	cond, why, err := j.Policies(ctx)
	if err == nil && cond != journal.Whole {
		_, _ = fmt.Fprintf(a.Errs, "replay: the policy chain is %s at message %d: %s; nothing is decided meanwhile: see decider repair --help\n",
			cond, why.Seq, approver.Visible(why.Why)) // nowhere else to say so
	}
	return err
}

func condition(s replay.SessionInfo) string {
	if s.Why == "" {
		return s.Condition
	}
	return fmt.Sprintf("%s at message %d: %s", s.Condition, s.WhySeq, approver.Visible(s.Why))
}

// clock is a time as people read it, with as many decimals as it has: it may
// be given back to --at.
func clock(t journal.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
