package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider/policy"
)

func (a *app) policyTest() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "test FILE", Short: "Hold a policy to a file of calls and what is wanted of each",
		Long: `test reads a YAML or JSON file of cases,

  policy: policy.yaml        # relative to this file; --policy goes before it; without either the built-in one
  roots: {"": /srv/repo}    # in place of the policy's, if wanted
  cases:
    - {name: outside, tool: fs_read, arguments: {path: ../x}, want: ask}
    - {tool: fs_write, arguments: {path: a}, want: allow, rule: scratch is free, grants: [[{tool: fs_write, decision: allow}]]}

judges each call, and prints those that are decided otherwise, by which rule and why. rule is the note of the rule
that should be behind it, its place, or null for none; arguments in quotes stand for their own text, which need
not be JSON.

Exit codes: 0 all as wanted, 1 some missed, 2 a file that cannot be read.`,
		Example: "  decider policy test policy.test.yaml\n  decider policy test --policy changed.yaml policy.test.yaml",
		Args:    cli.OneArg("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := readSuite(args[0])
			if err != nil {
				return err
			}
			if file == "" && s.Policy != "" {
				file = beside(args[0], s.Policy)
			}
			pol, err := readPolicy(file)
			if err != nil {
				return err
			}
			return a.testPolicy(args[0], s, rulebook{cmp.Or(file, "the built-in policy"), pol}, asJSON)
		},
	}
	cmd.Flags().StringVar(&file, "policy", "", "the policy in `FILE`, whichever the cases name")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object for each case")
	return cmd
}

// beside is a path that is written in a file.
func beside(file, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

func readSuite(file string) (*policy.Suite, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, cli.Misuse("the cases cannot be read: %v: name a file of cases", err)
	}
	s, err := policy.ParseSuite(file, raw)
	if err != nil {
		return nil, cli.Misuse("%v", err)
	}
	return s, nil
}

// caseJSON is a case as --json prints it.
type caseJSON struct {
	Line int             `json:"line"`
	Name string          `json:"name"`
	Tool string          `json:"tool"`
	Want policy.Decision `json:"want"`
	OK   bool            `json:"ok"`
	judgedJSON
}

func (a *app) testPolicy(file string, s *policy.Suite, book rulebook, asJSON bool) error {
	missed := 0
	for _, r := range s.Run(book.policy) {
		if r.Missed {
			missed++
		}
		var err error
		switch c := r.Case; {
		case asJSON:
			err = a.PrintJSON(caseJSON{c.Line, c.Name, c.Tool, c.Want, !r.Missed, book.json(&r.Facts, &r.Verdict)})
		case r.Missed:
			err = a.printMiss(file, book, &r)
		}
		if err != nil {
			return err
		}
	}
	if !asJSON {
		if err := a.Printf("%d cases, %d missed\n", len(s.Cases), missed); err != nil {
			return err
		}
	}
	if missed > 0 {
		return fmt.Errorf("%w: cases missed", errSaid)
	}
	return nil
}

func (a *app) printMiss(file string, book rulebook, r *policy.CaseResult) error {
	c := r.Case
	about := cmp.Or(c.Name, c.Tool+" "+clipped(string(c.Arguments)))
	want := c.Want.String()
	if c.Rule != nil {
		want += " by " + c.Rule.String()
	}
	return a.Printf("%s:%d: %s: wanted %s, decided %s\n", file, c.Line, approver.Visible(about), approver.Visible(want), book.text(&r.Facts, &r.Verdict))
}
