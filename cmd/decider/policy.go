package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider"
	"decisionjournal/decider/agent"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "policy",
		Short:   "Write, check, test, compare, show and activate policies",
		Example: "  decider policy check policy.yaml",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.policyCheck(), a.policyTest(), a.policyDiff(), a.policyPacks(), a.policyInit(), a.policyShow(),
		a.policyActivate())
	return cmd
}

func (a *app) policyCheck() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Read a policy file and name every fault in it",
		Long: "check names every fault in a policy file by its line, or, where there is none, warns of what is valid and\nsurely not meant: rules that never decide or are there twice, narrowers that say nothing.\n\n" +
			"Exit codes: 0 no fault, 1 with --strict a warning, 2 a fault, or no file.",
		Example: "  decider policy check policy.yaml\n  decider policy check --strict policy.yaml", Args: cli.OneArg("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			pol, err := readPolicy(args[0])
			if err != nil {
				return err
			}
			warnings := pol.Lint()
			for _, w := range warnings {
				if err := a.Printf("%s:%d: warning: %s\n", args[0], w.Line, approver.Line(w.Msg)); err != nil {
					return err
				}
			}
			if err := a.Printf("%s: %d rules, %s\n", args[0], len(pol.Rules), pol.Digest()); err != nil {
				return err
			}
			if strict && len(warnings) > 0 {
				return fmt.Errorf("%w: there are warnings", errSaid)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "fail if there are warnings")
	return cmd
}

func (a *app) policyShow() *cobra.Command {
	var session, pack string
	cmd := &cobra.Command{
		Use: "show [DIGEST|NAME]", Short: "Print a policy's bytes: the built-in one, an active one, or one the journal holds",
		Long:    "show prints the built-in policy; with --session the one that session has adopted; with --pack one to\nbegin with; with an argument the policy that is active under that name, or has that digest.",
		Example: "  decider policy show\n  decider policy show default\n  decider policy show --session nightly\n  decider policy show --pack coding",
		Args: func(_ *cobra.Command, args []string) error {
			asked := len(args)
			for _, flag := range []string{session, pack} {
				if flag != "" {
					asked++
				}
			}
			if asked > 1 {
				return cli.Misuse("show takes one DIGEST or NAME, or --session, or --pack: see decider policy show --help")
			}
			return checkSessionFlag(session)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if pack != "" {
				return a.showPack(pack)
			}
			if len(args) == 0 && session == "" {
				_, err := a.Out.Write(policy.Default().Bytes())
				return err
			}
			return a.inExisting(cmd.Context(), func(o *cli.Journal, d *decider.Decider) error {
				if err := d.Sync(cmd.Context()); err != nil {
					return err
				}
				digest := append(args, "")[0]
				if active := d.Policies().Active(digest); active != nil {
					digest = active.Digest
				}
				if session != "" {
					st, err := journal.LoadState(cmd.Context(), o.Log, journal.SessionChain(session))
					if err != nil {
						return err
					}
					if st.Kind() == "" {
						return cli.Misuse("there is no session %s: list them with replay sessions", session)
					}
					adopted := st.Adopted("", "")
					if adopted == nil {
						return cli.Misuse("session %s has adopted no policy", session)
					}
					digest = adopted.Digest
				}
				pol, err := d.Policies().Get(digest)
				switch {
				case err != nil && digest == agent.DefaultPolicyName:
					return cli.Misuse("no policy is active under %s, so new sessions begin with the built-in one: see decider policy show", digest)
				case err != nil:
					return cli.Misuse("%v", err)
				}
				_, err = a.Out.Write(pol.Bytes())
				return err
			})
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "the policy that session `NAME` has adopted")
	cmd.Flags().StringVar(&pack, "pack", "", "the pack `NAME`, of decider policy packs")
	return cmd
}

func (a *app) policyActivate() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "activate FILE", Short: "Make a policy the current one of a name",
		Long:    "activate puts a policy into the journal and makes it the current one of a name. Sessions that follow the\nname adopt it before they decide anything more; their open calls are judged again.",
		Example: "  decider policy activate policy.yaml\n  decider policy activate --name production policy.yaml",
		Args:    cli.OneArg("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := journal.CheckName("policy name", name); err != nil {
				return cli.Misuse("%v", err)
			}
			pol, err := readPolicy(args[0])
			if err != nil {
				return err
			}
			return a.asDecider(cmd.Context(), func(_ *cli.Journal, d *decider.Decider) error {
				seq, err := d.Activate(cmd.Context(), name, pol)
				if err != nil {
					return err
				}
				return a.Printf("%s is %s from message %d on\n", name, pol.Digest(), seq)
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", agent.DefaultPolicyName, "`NAME` to activate it under")
	return cmd
}
