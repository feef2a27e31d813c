package main

import (
	"github.com/spf13/cobra"

	"decisionjournal/decider"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

func (a *app) closeCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "close SESSION", Short: "End a session for good",
		Long:    "close ends a session: its open questions, unspent allows and grants end, and its name is not used again.\nIts record stays.",
		Example: "  decider close nightly --reason 'the batch is done'", Args: oneArg("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.asDecider(cmd.Context(), func(_ *embedded.Handle, d *decider.Decider) error {
				if err := journal.CheckName("session", args[0]); err != nil {
					return misuse("%v", err)
				}
				if err := d.End(cmd.Context(), args[0], reason); err != nil {
					return err
				}
				return a.printf("session %s has ended\n", args[0])
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, as `TEXT` for the record")
	return cmd
}

func (a *app) repairCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "repair SESSION", Short: "Take a broken session up again, as an admin",
		Long: `repair goes on from the last valid commit before the break. Grants from before end, questions are asked anew,
and what was started without a result is of unknown outcome: whatever the lost commits may have said, nothing
is allowed by what they may have revoked.`,
		Example: "  decider repair nightly --reason 'block 3 unreadable, restored disk'", Args: oneArg("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := journal.CheckName("session", args[0]); err != nil {
				return misuse("%v", err)
			}
			return a.with(cmd.Context(), journal.RoleAdmin, func(h *embedded.Handle) error {
				w, err := writerOf(h)
				if err != nil {
					return err
				}
				missing, err := decider.Repair(cmd.Context(), w, args[0], reason)
				if err != nil {
					return err
				}
				return a.printf("session %s is repaired; missing messages: %v\n", args[0], missing)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, as `TEXT` for the record")
	return cmd
}
