package main

import (
	"github.com/spf13/cobra"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider"
	"decisionjournal/journal"
)

func (a *app) closeCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "close SESSION", Short: "End a session for good",
		Long:    "close ends a session: its open questions, unspent allows and grants end, and its name is not used again.\nIts record stays.",
		Example: "  decider close nightly --reason 'the batch is done'", Args: cli.OneArg("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSession(args[0]); err != nil {
				return err
			}
			return a.inExisting(cmd.Context(), func(_ *cli.Journal, d *decider.Decider) error {
				if err := d.End(cmd.Context(), args[0], reason); err != nil {
					return err
				}
				return a.Printf("session %s has ended\n", args[0])
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, as `TEXT` for the record")
	return cmd
}

func (a *app) repairCommand() *cobra.Command {
	var reason string
	var policies, newer bool
	cmd := &cobra.Command{
		Use: "repair SESSION | --policies", Short: "Take a broken session up again, as an admin",
		Long: `repair goes on from the last valid commit before the break. Grants from before end, and every call that has
no result is of unknown outcome and is judged as such: whatever the lost commits may have said, nothing is
allowed by what they may have revoked, nor run again unasked that they may have started. A call of which all
was lost is not known any more: its agent would make it anew. With --policies it takes up the policy chain:
activate the policies that should hold afterwards, since the lost commits may have been activations. With
--newer it passes messages that claim to be a newer program's, which any key can write; where a newer program
really wrote, use that version, since it does not take back what it wrote.`,
		Example: "  decider repair nightly --reason 'block 3 unreadable, restored disk'\n  decider repair --policies --reason 'block 3 unreadable'",
		Args: func(cmd *cobra.Command, args []string) error {
			if policies && len(args) > 0 || !policies && len(args) != 1 {
				return cli.Misuse("%s takes one SESSION, or --policies: see %s --help", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			chain := journal.PolicyChain()
			if !policies {
				if err := checkSession(args[0]); err != nil {
					return err
				}
				chain = journal.SessionChain(args[0])
			}
			return a.with(cmd.Context(), journal.RoleAdmin, func(o *cli.Journal) error {
				w, err := o.Writer()
				if err != nil {
					return err
				}
				missing, err := decider.Repair(cmd.Context(), w, chain, reason, newer)
				if err != nil {
					return err
				}
				return a.Printf("%s is repaired; missing messages: %v\n", chain, missing)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, as `TEXT` for the record")
	cmd.Flags().BoolVar(&policies, "policies", false, "repair the policy chain")
	cmd.Flags().BoolVar(&newer, "newer", false, "pass what claims to be a newer program's, where none was ever used")
	return cmd
}

// checkSession refuses what cannot be a session's name before a journal is opened.
func checkSession(name string) error {
	if err := journal.CheckName("session", name); err != nil {
		return cli.Misuse("%v", err)
	}
	return nil
}

// checkSessionFlag is checkSession for a flag that may be left out.
func checkSessionFlag(name string) error {
	if name == "" {
		return nil
	}
	return checkSession(name)
}
