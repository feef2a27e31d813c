package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
)

// answerFlags are what the command line says about an answer.
type answerFlags struct {
	rules   []string
	note    string
	expires string
	uses    int
	shown   string
	asJSON  bool
}

func (a *app) answerCommand() *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use:   "answer QUESTION ACTION",
		Short: "Answer one question",
		Long: "Answer writes one answer. QUESTION is its id, at least eight characters of the beginning of\n" +
			"its id, or SESSION/QUESTION. ACTION is one of " + strings.Join(approver.Actions(), ", ") + ".\n" +
			"Exit code 0: accepted; 4: already settled, by whom, when and how; 5: no such question;\n" +
			"6: not entitled, or not offered; 2: misuse; 1: the journal failed.",
		Example: "  approver answer 01JDQ7Y3V8ZK4M9T5R2N6W0XAB allow-once\n" +
			"  approver answer nightly/01JDQ7Y3 deny-once --note 'write to scratch instead'\n" +
			`  approver answer 01JDQ7Y3 always-allow --rule '{"tool":"fs_write","under":"scratch"}' --expires 24h`,
		Args: exactArgs("QUESTION", "ACTION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := f.request(args[1], cmd.Flags().Changed("rule"), cmd.Flags().Changed("uses"), time.Now())
			if err != nil {
				return err
			}
			return a.answer(cmd.Context(), approver.ParseRef(args[0]), req, f.asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.rules, "rule", nil, "`JSON` of a rule that an always-answer leaves; may be repeated (default: the question's suggestion)")
	flags.StringVar(&f.note, "note", "", "`TEXT` for the agent and for the record")
	flags.StringVar(&f.expires, "expires", "", "when an always-answer's grant ends: a duration such as 24h or 7d, or a `TIME` in RFC 3339")
	flags.IntVar(&f.uses, "uses", 0, "`N` calls that an always-answer's grant allows (default: no limit)")
	flags.StringVar(&f.shown, "shown", "", "refuse to answer unless the question still shows what has this `DIGEST`")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

// request is the answer that the flags spell, or what is wrong with them.
func (f *answerFlags) request(action string, rulesGiven, usesGiven bool, now time.Time) (approver.Request, error) {
	req := approver.Request{Action: action, RulesGiven: rulesGiven, Note: f.note, Uses: f.uses, Shown: f.shown, Via: "approver"}
	if !slices.Contains(approver.Actions(), action) {
		return req, cli.Misuse("there is no action %q: use one of %s", action, strings.Join(approver.Actions(), ", "))
	}
	if usesGiven && f.uses < 1 {
		return req, cli.Misuse("--uses %d: give 1 or more, or leave it out for no limit", f.uses)
	}
	for _, r := range f.rules {
		if !json.Valid([]byte(r)) {
			return req, cli.Misuse("--rule %q is not JSON: write it as {\"tool\":\"NAME\"}", r)
		}
		req.Rules = append(req.Rules, json.RawMessage(r))
	}
	var err error
	req.Expires, err = expiry(f.expires, now)
	return req, err
}

// expiry reads a duration from now on, or a time.
func expiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := policy.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, cli.Misuse("--expires %q: give a duration such as 24h or 7d, or a time such as 2030-01-31T18:00:00Z", text)
	}
	return t, nil
}

// settledJSON is what answer --json prints of a question settled before.
type settledJSON struct {
	Question string           `json:"question"`
	Settled  inbox.Settlement `json:"settled"`
}

func (a *app) answer(ctx context.Context, ref approver.Ref, req approver.Request, asJSON bool) error {
	return a.with(ctx, func(w *journal.Writer) error {
		receipt, err := approver.Answer(ctx, w, ref, req)
		var settled *approver.SettledError
		switch {
		case asJSON && errors.As(err, &settled):
			return errors.Join(err, a.PrintJSON(settledJSON{settled.Question, settled.Settlement}))
		case err != nil:
			return err
		case asJSON:
			return a.PrintJSON(receipt)
		}
		return a.printReceipt(receipt)
	})
}

func (a *app) printReceipt(r approver.Receipt) error {
	more := ""
	if !r.Settles {
		more = "; the question needs more answers"
	}
	if err := a.Printf("Accepted: %s answered %s to %s of %s/%s (%s)%s.\n",
		r.By, r.Action, r.Question, r.Session, r.Agent, approver.Visible(r.Tool), more); err != nil {
		return err
	}
	for _, rule := range r.Remembers {
		if err := a.Printf("For the rest of the session: %s\n", approver.Visible(approver.Spell(rule))); err != nil {
			return err
		}
	}
	return nil
}
