package main

import (
	"context"
	"os"

	"decisionjournal/approver"
	"decisionjournal/journal"
)

// prompt takes questions one by one at a terminal.
func (a *app) prompt(ctx context.Context) error {
	if !terminal(a.in) || !terminal(a.out) {
		return misuse("without a terminal there is nobody to ask: use `approver list` and `approver answer`, or see `approver --help`")
	}
	return a.with(ctx, func(w *journal.Writer) error {
		return approver.Serve(ctx, w.Log(), w, approver.NewPrompt(a.in, a.out).Frontend())
	})
}

func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && approver.IsTerminal(f)
}
