package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider/agent"
	"decisionjournal/decider/policy"
)

func (a *app) policyDiff() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "diff A B CALLS|-", Short: "Name the calls that two policies decide differently",
		Long: `diff judges calls by the policy in file A and by that in file B, and prints each that is decided differently, by
which rules and why. CALLS has a JSON line for each, {"tool": "fs_read", "arguments": {"path": "a"}}, or is a batch
as decider run takes it. Grants play no part.

Exit codes: 0 none changes, 1 some do, 2 misuse.`,
		Example: "  decider policy diff policy.yaml changed.yaml calls.jsonl\n  agent | decider policy diff --json policy.yaml changed.yaml -",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 3 {
				return cli.Misuse("diff takes two policy files and CALLS, or - for standard input: see decider policy diff --help")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var books [2]rulebook
			for i := range books {
				pol, err := readPolicy(args[i])
				if err != nil {
					return err
				}
				books[i] = rulebook{args[i], pol}
			}
			in, err := a.input(args[2])
			if err != nil {
				return err
			}
			defer in.Close()
			calls, err := readCalls(args[2], in)
			if err != nil {
				return err
			}
			return a.diffPolicies(args[2], books, calls, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object for each call that changes")
	return cmd
}

// listedCall is a call of a file, with the id that a batch gives it.
type listedCall struct {
	Line      int             `json:"line"`
	ID        string          `json:"id"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// readCalls reads calls of either shape, which the first of them tells. All of them
// must be readable: a policy is not said to change nothing by what was not judged.
func readCalls(file string, in io.Reader) ([]listedCall, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF")) // some editors begin a file with it
	if isBatch(text) {
		return batchCalls(file, text)
	}
	var calls []listedCall
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		tool, arguments, err := policy.ParseCall(line)
		if err != nil {
			return nil, cli.Misuse("%s: line %d: %v", file, i+1, err)
		}
		calls = append(calls, listedCall{Line: i + 1, Tool: tool, Arguments: arguments})
	}
	return calls, nil
}

// isBatch reports whether the first line is one of a batch.
func isBatch(text []byte) bool {
	first, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	var call map[string]json.RawMessage
	if json.Unmarshal(first, &call) != nil {
		return bytes.HasPrefix(first, []byte("["))
	}
	return call["tool"] == nil && (call["function"] != nil || call["tool_calls"] != nil)
}

func batchCalls(file string, text []byte) (calls []listedCall, err error) {
	for l := range agent.ReadBatch(bytes.NewReader(text)) {
		if l.Err != nil {
			return nil, cli.Misuse("%s: %v", file, l.Err)
		}
		calls = append(calls, listedCall{l.Number, l.Call.ID, l.Call.Tool, l.Call.Arguments})
	}
	return calls, nil
}

// changeJSON is a call that changes as --json prints it.
type changeJSON struct {
	listedCall
	From judgedJSON `json:"from"`
	To   judgedJSON `json:"to"`
}

func (a *app) diffPolicies(file string, books [2]rulebook, calls []listedCall, asJSON bool) error {
	changed := 0
	for i := range calls {
		facts, verdicts := judged(books, &calls[i])
		if verdicts[0].Decision == verdicts[1].Decision {
			continue
		}
		changed++
		var err error
		if asJSON {
			err = a.PrintJSON(changeJSON{calls[i], books[0].json(&facts[0], &verdicts[0]), books[1].json(&facts[1], &verdicts[1])})
		} else {
			err = a.printChange(file, books, &calls[i], facts, verdicts)
		}
		if err != nil {
			return err
		}
	}
	if !asJSON {
		if err := a.Printf("%d calls, %d changed\n", len(calls), changed); err != nil {
			return err
		}
	}
	if changed > 0 {
		return fmt.Errorf("%w: calls change", errSaid)
	}
	return nil
}

func judged(books [2]rulebook, c *listedCall) (facts [2]policy.Facts, verdicts [2]policy.Verdict) {
	for i, b := range books {
		facts[i] = b.policy.Facts(c.Tool, c.Arguments)
		verdicts[i] = b.policy.Judge(c.Tool, facts[i], nil)
	}
	return facts, verdicts
}

func (a *app) printChange(file string, books [2]rulebook, c *listedCall, facts [2]policy.Facts, verdicts [2]policy.Verdict) error {
	text := fmt.Sprintf("%s:%d: %s %s: %s -> %s\n", file, c.Line, approver.Visible(c.Tool), approver.Visible(clipped(string(c.Arguments))),
		verdicts[0].Decision, verdicts[1].Decision)
	for i, b := range books {
		text += fmt.Sprintf("  %s: %s\n", b.name, b.text(&facts[i], &verdicts[i]))
	}
	return a.Printf("%s", text)
}
