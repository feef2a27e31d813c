package main

import (
	"context"
	"os"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/journal"
)

// prompt takes questions one by one at a terminal.
func (a *app) prompt(ctx context.Context) error {
	if !terminal(a.In) || !terminal(a.Out) {
		return cli.Misuse("without a terminal there is nobody to ask: use `approver list` and `approver answer`, or see `approver --help`")
	}
	return a.with(ctx, func(w *journal.Writer) error {
		return approver.Serve(ctx, w.Log(), w, approver.NewPrompt(a.In, a.Out).Frontend())
	})
}

func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && approver.IsTerminal(f)
}
