package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider/bench"
)

func (a *app) benchCommand() *cobra.Command {
	var asJSON bool
	var seconds int
	cfg := bench.Config{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what the journal costs on this disk",
		Long: "bench makes scratch journals in a directory, measures in them, and removes them. Each figure stands beside what\n" +
			"the server and the disk take alone for as many appends of that size, measured in turn in the same run: compare\n" +
			"ratios, since rates and latencies are those of this machine at this moment. It reaches no verdict: a ratio that\n" +
			"misses its aim is marked, and the exit code is 0 all the same. Exit codes: 0 measured, 1 failed, 2 misuse.",
		Example: "  decider bench --dir /var/lib/agents\n  decider bench --seconds 120 --json | jq '.figures[] | select(.ratio)'",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seconds < 1 {
				return cli.Misuse("--seconds %d: name at least 1", seconds)
			}
			if cfg.Events < 10 || cfg.Questions < 1 {
				return cli.Misuse("--events %d --questions %d: name at least 10 and 1", cfg.Events, cfg.Questions)
			}
			program, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program, to start it as a host: %w", err)
			}
			cfg.Serve = []string{program, "serve", "--journal"}
			cfg.Time = time.Duration(seconds) * time.Second
			return a.bench(cmd.Context(), cfg, asJSON)
		},
	}
	cmd.Flags().StringVar(&cfg.Dir, "dir", "", "measure on the disk of `DIR` (default the current directory)")
	cmd.Flags().IntVar(&seconds, "seconds", int(bench.DefaultTime/time.Second), "how long to measure, about")
	cmd.Flags().IntVar(&cfg.Events, "events", bench.DefaultEvents, "measure growth up to a journal of so many events; a million take minutes to write")
	cmd.Flags().IntVar(&cfg.Questions, "questions", bench.DefaultQuestions, "measure an inbox of so many open questions")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) bench(ctx context.Context, cfg bench.Config, asJSON bool) error {
	if asJSON {
		report, err := bench.Run(ctx, cfg)
		if err != nil {
			return err
		}
		return a.PrintJSON(report)
	}
	var failed error
	cfg.Told = func(f bench.Figure) {
		if failed == nil {
			failed = a.Printf("%s\n", figureLine(f))
		}
	}
	report, err := bench.Run(ctx, cfg)
	if err != nil {
		return err
	}
	if failed == nil {
		failed = a.Printf("on %s, %s, %s, %s\n", report.Dir, report.System, report.Go, count(report.CPUs, "CPU"))
	}
	return failed
}

// figureLine is a figure as a person reads it: the value, what it is held
// against, and whether it reaches its aim.
func figureLine(f bench.Figure) string {
	line := fmt.Sprintf("%-72s %10s %-5s", f.Name, short(f.Value), f.Unit)
	if f.Baseline == 0 {
		return line + aimed(f)
	}
	return line + fmt.Sprintf(" %10s alone, ratio %s", short(f.Baseline), short(f.Ratio)) + aimed(f)
}

func aimed(f bench.Figure) string {
	if f.Aim == 0 {
		return ""
	}
	bound := "at least"
	if f.AtMost {
		bound = "at most"
	}
	missed := ""
	if !f.Met() {
		missed = ", missed"
	}
	return fmt.Sprintf(" (aim %s %s%s)", bound, short(f.Aim), missed)
}

// short is a number with three digits that matter.
func short(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
