package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider"
	"decisionjournal/decider/agent"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// runOptions are the flags of decider run.
type runOptions struct {
	session, agent, batch, label string
	policy, root                 string
	wait                         time.Duration
	headless, inOrder            bool
	takeover, retryDenied, json  bool
	file                         string
}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] FILE|-",
		Short: "Judge a batch of tool calls and run what is allowed",
		Long: `run reads tool calls as JSON lines in OpenAI's shape,
{"id":"c1","function":{"name":"fs_read","arguments":{"path":"a"}}}, or arrays of them, judges each by the
policy, runs what is allowed, and prints one result per call, in order. Run again, it resumes: finished
calls return their recorded results, answered ones proceed, open ones stay the same question.

Exit codes: 0 every call has its result, 1 the journal or the provider failed, 2 misuse, 3 calls wait for
a person; each is printed with the command that answers it.`,
		Example: "  decider run --policy policy.yaml --root work batch.jsonl\n  agent | decider run --session nightly --headless --json -",
		Args:    cli.OneArg("FILE, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return a.runBatch(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.session, "session", "", "`NAME` of the session (default from the batch's name and path)")
	f.StringVar(&o.agent, "agent", "main", "`NAME` of the agent in the session")
	f.StringVar(&o.batch, "batch", "", "`NAME` that makes the calls' ids lasting (default the file's base name)")
	f.StringVar(&o.label, "label", "", "what people are told the session is about, as `TEXT`")
	f.StringVar(&o.policy, "policy", "", "adopt the policy in `FILE` (default: the session's; a new one follows \"default\")")
	f.StringVar(&o.root, "root", "", "run file tools (fs_read, fs_write, ...) in `DIR`; without it calls are only decided")
	f.DurationVar(&o.wait, "wait", 0, "how long to wait for answers before leaving, such as 30s")
	f.BoolVar(&o.headless, "headless", false, "refuse at once what would need a person")
	f.BoolVar(&o.inOrder, "in-order", false, "let a call that waits hold up those after it")
	f.BoolVar(&o.takeover, "takeover", false, "take over from an older run even if its process answers")
	f.BoolVar(&o.retryDenied, "retry-denied", false, "have calls that were denied judged again")
	f.BoolVar(&o.json, "json", false, "print results as JSON lines: role, tool_call_id, content, is_error")
	return cmd
}

// runBatch opens everything a batch needs, in the order it can fail.
func (a *app) runBatch(ctx context.Context, o runOptions) error {
	if err := o.names(); err != nil {
		return err
	}
	var pol *policy.Policy
	if o.policy != "" {
		var err error
		if pol, err = readPolicy(o.policy); err != nil {
			return err
		}
	}
	in, err := a.input(o.file)
	if err != nil {
		return err
	}
	defer in.Close()
	var provider agent.Provider
	if o.root != "" {
		fs, err := agent.NewFS(o.root)
		if err != nil {
			return cli.Misuse("%v", err)
		}
		defer fs.Close()
		provider = fs
	}
	tools, err := toolsOf(ctx, provider)
	if err != nil {
		return err
	}
	return a.asDecider(ctx, func(j *cli.Journal, d *decider.Decider) error {
		g, err := agent.Open(ctx, agent.Config{
			Decider: d, Session: o.session, Agent: o.agent, Label: o.label, Policy: pol, Provider: provider,
			Headless: o.headless, Takeover: o.takeover, Spool: a.spoolDir(), Logger: a.logger(),
		})
		if err != nil {
			return err
		}
		for _, n := range g.Notices() {
			a.Notice("%s", n)
		}
		b := &batchRun{app: a, options: o, guard: g, journal: j, tools: tools}
		lines := agent.ReadBatch(in)
		if o.batch != "" {
			lines = agent.RefuseDuplicates(lines)
		}
		return b.run(ctx, lines)
	})
}

// toolsOf are the names of a provider's tools; nil without a provider.
func toolsOf(ctx context.Context, p agent.Provider) (map[string]bool, error) {
	if p == nil {
		return nil, nil
	}
	list, err := p.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("the provider cannot list its tools: %w", err)
	}
	tools := map[string]bool{}
	for _, t := range list {
		tools[t.Name] = true
	}
	return tools, nil
}

// sessionCut is how much of a batch's name a default session keeps, so that
// "-" and eight digits of its path's hash fit a name.
const sessionCut = 55

// names fills in session and batch from the file.
func (o *runOptions) names() error {
	base, place := o.batch, o.file
	if o.file == "-" {
		if o.session == "" && o.batch == "" {
			return cli.Misuse("standard input has no name: give --session NAME")
		}
		place = o.batch
	} else if base == "" {
		base = filepath.Base(o.file)
	}
	o.batch = base
	if strings.Contains(o.batch, "/") {
		return cli.Misuse("--batch %q: leave out the /, which parts a batch's name from its calls' ids", o.batch)
	}
	if o.headless && o.wait > 0 {
		return cli.Misuse("--headless asks nobody, so there is nothing to --wait for: give one of the two")
	}
	if o.wait < 0 {
		return cli.Misuse("--wait %s: give a duration of 0 or more", o.wait)
	}
	if o.session != "" {
		return nameFault("session", o.session, o.agent)
	}
	abs, err := filepath.Abs(place)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(abs))
	o.session = journal.NameFrom(base, sessionCut) + "-" + hex.EncodeToString(sum[:4])
	return nameFault("session", o.session, o.agent)
}

func nameFault(kind, name, agentName string) error {
	if err := journal.CheckName(kind, name); err != nil {
		return cli.Misuse("%v", err)
	}
	if err := journal.CheckName("agent", agentName); err != nil {
		return cli.Misuse("%v", err)
	}
	return nil
}

// atTerminal reports whether a person sits at the batch's terminal.
func (a *app) atTerminal(o runOptions) bool {
	in, ok := a.In.(*os.File)
	if !ok || o.file == "-" || o.headless || !approver.IsTerminal(in) {
		return false
	}
	errs, ok := a.Errs.(*os.File)
	return ok && approver.IsTerminal(errs)
}
