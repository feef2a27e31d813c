package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"decisionjournal/decider"
	"decisionjournal/journal/stream/embedded"
)

func (a *app) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "serve",
		Short:   "Host the journal and decide for every session until stopped",
		Long:    "serve hosts the journal, or joins its host and takes over when that dies, and decides for every session\nuntil it gets SIGTERM or SIGINT. Any number may serve one journal: each attempt is decided once.",
		Example: "  decider serve --journal /var/lib/agents/journal",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.asDecider(cmd.Context(), a.serve(cmd.Context()))
		},
	}
}

func (a *app) serve(ctx context.Context) func(*embedded.Handle, *decider.Decider) error {
	return func(h *embedded.Handle, d *decider.Decider) error {
		w := &decider.Worker{
			Decider: d,
			Ready: func() {
				how := "joined"
				if h.Hosting() {
					how = "hosting"
				}
				a.notice("%s the journal in %s; deciding", how, a.dir)
			},
			Problem: func(session string, err error) {
				if err == nil {
					a.notice("session %s goes on", session)
					return
				}
				a.notice("session %s is set aside: %v", session, err)
			},
		}
		err := w.Run(ctx)
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return nil // stopped as asked
		}
		return err
	}
}
