package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"mvdan.cc/sh/v3/syntax"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider/policy"
)

func (a *app) explainCommand() *cobra.Command {
	var file, tool string
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "explain [--policy FILE] TOOL ARGUMENTS | -- COMMAND...",
		Short: "Say why a call is judged as it is, rule by rule",
		Long: `explain judges one call without a journal and without grants, and says how that comes about: what was seen in it,
what each rule for the tool says and why, which one decides, what a grant would have to say, and which rules would
allow exactly this. ARGUMENTS are a JSON object. After -- stands a command: one word is a shell line, several are a
program with its arguments; it is judged as a call of --tool.`,
		Example: "  decider explain --policy policy.yaml fs_write '{\"path\": \"notes/a.txt\"}'\n" +
			"  decider explain --policy policy.yaml -- 'git status && git push'",
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash > 0 || dash < 0 && len(args) != 2 || len(args) == 0 {
				return cli.Misuse("explain takes TOOL and ARGUMENTS, or -- and a command: see decider explain --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pol, err := readPolicy(file)
			if err != nil {
				return err
			}
			name, arguments := args[0], []byte(nil)
			if cmd.ArgsLenAtDash() == 0 {
				name = tool
				if arguments, err = commandCall(pol, tool, args); err != nil {
					return err
				}
			} else if arguments = []byte(args[1]); !json.Valid(arguments) {
				return cli.Misuse("the arguments are no JSON: write them as an object, like '{\"path\": \"a\"}'")
			}
			e := pol.Explain(name, arguments)
			if asJSON {
				return a.PrintDocument(e)
			}
			return a.printExplanation(e, all)
		},
	}
	cmd.Flags().StringVar(&file, "policy", "", "judge by the policy in `FILE` (default the built-in one)")
	cmd.Flags().StringVar(&tool, "tool", "Bash", "`TOOL` that the command after -- is a call of")
	cmd.Flags().BoolVar(&all, "all", false, "show all rules for the tool, also where many say no")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the explanation as one JSON document")
	return cmd
}

// commandCall is a call that runs a command, as the policy reads the tool's calls.
func commandCall(pol *policy.Policy, tool string, words []string) ([]byte, error) {
	names := pol.CommandNames(tool)
	if names.Line == "" && len(words) > 1 {
		return json.Marshal(map[string]any{orElse(names.Command, "command"): words[0], orElse(names.Args, "args"): words[1:]})
	}
	line := words[0]
	if len(words) > 1 {
		quoted := make([]string, len(words))
		for i, word := range words {
			var err error
			if quoted[i], err = syntax.Quote(word, syntax.LangBash); err != nil {
				return nil, cli.Misuse("%q cannot be said to a shell: %v", word, err)
			}
		}
		line = strings.Join(quoted, " ")
	}
	return json.Marshal(map[string]string{orElse(names.Line, orElse(names.Command, "command")): line})
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// manyNos are so many rules that say no that they hide the others.
const manyNos = 20

func (a *app) printExplanation(e policy.Explanation, all bool) error {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(approver.Line(fmt.Sprintf(format, args...)) + "\n") }
	line("%s: %s", e.Decision, decidedBy(e))
	for _, p := range e.Facts.Paths {
		line("  path %s%s", p.Path, inBrackets(p.Unknown))
	}
	for _, h := range e.Facts.Hosts {
		line("  host %s%s", h.Host, inBrackets(h.Unknown))
	}
	if e.Facts.Unreadable {
		line("  the arguments cannot be read")
	}
	for _, part := range e.Parts {
		if part.Command != "" {
			at := ""
			if len(part.Span) == 2 {
				at = fmt.Sprintf(" (bytes %d to %d)", part.Span[0], part.Span[1])
			}
			line("  %s: %s%s", part.Decision, part.Command, at)
		}
		nos := 0
		for _, r := range part.Rules {
			if r.Answer == "no" {
				nos++
			}
		}
		hide := nos > manyNos && !all
		for _, r := range part.Rules {
			if hide && r.Answer == "no" {
				continue
			}
			mark := " "
			if r.Fires {
				mark = "*"
			}
			name := ruleName(r.Number, r.Rule)
			if r.Line > 0 {
				name += fmt.Sprintf(" (line %d)", r.Line)
			}
			line("   %s %-8s %s: %s: %s", mark, r.Answer, name, r.Rule.YAML(), r.Why)
		}
		if hide {
			line("     %d more rules for the tool say no: --all shows them", nos)
		}
	}
	switch e.Others {
	case 0:
	case 1:
		line("  1 rule is for other tools")
	default:
		line("  %d rules are for other tools", e.Others)
	}
	for _, r := range e.Grant {
		line("a grant would say: %s", r.YAML())
	}
	for _, r := range e.Allow {
		line("to allow exactly this, add: - %s", r.YAML())
	}
	if e.Stands != "" {
		line("no rule can allow it: %s", e.Stands)
	}
	_, err := a.Out.Write([]byte(b.String()))
	return err
}

func inBrackets(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

func decidedBy(e policy.Explanation) string {
	switch {
	case e.Rule != nil && e.Rule.Note != "":
		return ruleName(e.Number, *e.Rule) + ": " + e.Rule.Note
	case e.Rule != nil:
		return ruleName(e.Number, *e.Rule)
	case e.Decision == policy.Allow:
		return "every part is allowed"
	case e.Reason == policy.ReasonUnevaluable:
		return "no rule can be certain about it"
	}
	return "no rule matches it"
}

func ruleName(number int, r policy.Rule) string {
	if number == 0 {
		return "floor " + r.Check
	}
	return fmt.Sprintf("rule %d", number)
}
