package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
)

func (a *app) grantsCommand() *cobra.Command {
	var at string
	cmd := a.jsonFlag(&cobra.Command{
		Use:     "grants SESSION",
		Short:   "Say who granted what, and whether it is in force",
		Long:    "grants lists a session's grants: the rules, who gave them, through which question, and whether they are\nin force: now, after commit N, or at a time.",
		Example: "  replay grants nightly\n  replay grants nightly --at 42\n  replay grants nightly --at 2026-11-30T12:00:00Z --json",
		Args:    exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			point, err := parseAt(at)
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), func(j *replay.Journal) error { return a.grants(cmd.Context(), j, args[0], point) })
		},
	}, "one JSON array")
	cmd.Flags().StringVar(&at, "at", "", "as of commit `N`, or as of an RFC 3339 time (default now)")
	return cmd
}

func parseAt(text string) (replay.At, error) {
	if text == "" {
		return replay.At{}, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 {
		return replay.At{N: n}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.IsZero() {
		return replay.At{}, cli.Misuse("--at %q is neither a commit's number nor a time such as 2026-11-30T12:00:00Z", text)
	}
	return replay.At{Time: at}, nil
}

func (a *app) grants(ctx context.Context, j *replay.Journal, session string, at replay.At) error {
	list, err := j.Grants(ctx, session, at)
	switch {
	case err != nil:
		return err
	case a.json:
		return a.PrintDocument(list)
	case len(list) == 0:
		return a.Printf("No grants.\n")
	}
	for _, g := range list {
		if err := a.Printf("%s", grantText(g)); err != nil {
			return err
		}
	}
	return nil
}

// grantText is a grant as a few lines.
func grantText(g replay.GrantReport) string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s%s\n", name, approver.Visible(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(&b, "grant %s: %s\n", g.Grant, approver.Visible(standing(g)))
	for _, r := range g.Rules {
		row("rule", "%s", r)
	}
	row("given", "%s, n %d, written by %s", clock(g.Time), g.N, g.Writer)
	for _, v := range g.By {
		row("by", "%s", voiceText(v))
	}
	if g.Question != "" {
		row("through", "question %s about call %s of agent %s (%s)", g.Question, g.Call, g.Agent, g.Tool)
	}
	if g.Origin != nil {
		row("origin", "%s", originText(g.Origin))
	}
	if limits := limitsText(g); limits != "" {
		row("limits", "%s", limits)
	}
	row("used", "%s", count(g.Used, "time"))
	if e := g.End; e != nil {
		row("ended", "%s, n %d, by %s%s", clock(e.Time), e.N, e.By, after(": ", e.Reason))
	}
	return b.String()
}

func standing(g replay.GrantReport) string {
	if g.InForce {
		return g.Standing
	}
	return "not in force (" + g.Standing + ")"
}

func voiceText(v replay.Voice) string {
	text := fmt.Sprintf("%s, %s, %s%s", v.By, v.Action, clock(v.Time), after(", through ", v.Via))
	if v.Note != "" {
		text += fmt.Sprintf(", writing %q", v.Note)
	}
	return text
}

func originText(o *journal.Origin) string {
	if o.Session != "" {
		return fmt.Sprintf("grant %s of book %s", o.Grant, o.Session)
	}
	return "import " + o.Import
}

func limitsText(g replay.GrantReport) string {
	var parts []string
	if !g.Expires.IsZero() {
		parts = append(parts, "until "+clock(g.Expires))
	}
	if g.Uses > 0 {
		parts = append(parts, fmt.Sprintf("%d uses", g.Uses))
	}
	if g.Layer != "" {
		parts = append(parts, "layer "+g.Layer)
	}
	return strings.Join(parts, ", ")
}

// after puts a lead before a text that is there.
func after(lead, text string) string {
	if text == "" {
		return ""
	}
	return lead + text
}
