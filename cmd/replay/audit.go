package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/decider/replay"
)

func (a *app) auditCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "audit [SESSION...]",
		Short: "Check that the record is whole and every decision in it follows",
		Long: "audit folds each chain message by message and makes every decision again by the rules, grants and\n" +
			"answers that stood before it. It names each fault: what is missing, what was changed, what does not follow.\n" +
			"Without a session it audits all of them. Exit codes: 0 clean, 1 faults, 2 misuse, 3 unreadable.",
		Example: "  replay audit\n  replay audit nightly --json | jq '.sessions[].faults'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(j *replay.Journal) error { return a.audit(cmd.Context(), j, args) })
		},
	}, "one JSON object")
}

func (a *app) audit(ctx context.Context, j *replay.Journal, sessions []string) error {
	r, err := j.Audit(ctx, sessions...)
	if err != nil {
		return err
	}
	if a.json {
		err = a.PrintDocument(r)
	} else {
		err = a.printReport(r)
	}
	if err == nil && !r.Clean {
		return errFaults
	}
	return err
}

func (a *app) printReport(r replay.Report) error {
	faults := 0
	for _, s := range r.Sessions {
		faults += s.FaultCount
		if err := a.printSession(s); err != nil {
			return err
		}
	}
	faults += r.FaultCount
	if err := a.printFaults("fault", r.Faults, r.FaultCount); err != nil {
		return err
	}
	if err := a.printFaults("anomaly", r.Anomalies, r.AnomalyCount); err != nil {
		return err
	}
	if r.Clean {
		return a.Printf("Clean.\n")
	}
	return a.Printf("%s.\n", count(faults, "fault"))
}

func (a *app) printSession(s replay.SessionReport) error {
	text := fmt.Sprintf("%s: %s, %s, %d of %d decisions derived again", s.Session, count(int(s.Commits), "commit"), count(s.Events, "event"), s.Derived, s.Decisions)
	if s.EngineChanged > 0 {
		text += fmt.Sprintf(" (%d by another engine, from their recorded facts)", s.EngineChanged)
	}
	if s.Condition != "whole" {
		text += ", " + s.Condition
	}
	if err := a.Printf("%s\n", approver.Visible(text)); err != nil {
		return err
	}
	if err := a.printFaults("fault", s.Faults, s.FaultCount); err != nil {
		return err
	}
	return a.printFaults("anomaly", s.Anomalies, s.AnomalyCount)
}

func (a *app) printFaults(word string, list []replay.Fault, all int) error {
	for _, f := range list {
		if err := a.Printf("  %s: %s\n", word, approver.Visible(f.String())); err != nil {
			return err
		}
	}
	if more := all - len(list); more > 0 {
		return a.Printf("  and %d more\n", more)
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
