package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider/policy"
)

func (a *app) evalCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "eval [--policy FILE] [FILE]",
		Short: "Judge calls without a journal, one JSON line each",
		Long: `eval reads lines like {"rules": [...], "tool": "fs_read", "arguments": {"path": "a"}} and prints for each, in the
same order, {"decision", "reason", "rule", "paths", "suggestion"} or {"error"}. With --policy a line may leave
rules out.`,
		Example: "  decider eval vectors.jsonl\n  echo '{\"tool\":\"fs_read\",\"arguments\":{\"path\":\"a\"}}' | decider eval --policy policy.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Misuse("eval takes one FILE at most: see decider eval --help")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var base *policy.Policy
			if file != "" {
				var err error
				if base, err = readPolicy(file); err != nil {
					return err
				}
			}
			in, err := a.input(append(args, "")[0])
			if err != nil {
				return err
			}
			defer in.Close()
			return eval(base, in, a.Out)
		},
	}
	cmd.Flags().StringVar(&file, "policy", "", "judge by the policy in `FILE` where a line has no rules")
	return cmd
}

// eval judges line by line. An empty line is passed over.
func eval(base *policy.Policy, in io.Reader, out io.Writer) error {
	lines, w := bufio.NewReaderSize(in, 64<<10), bufio.NewWriter(out)
	for {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if _, err := w.Write(append(policy.EvalLine(base, line), '\n')); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return w.Flush()
		}
		if err != nil {
			return errors.Join(w.Flush(), fmt.Errorf("reading: %w", err))
		}
	}
}
