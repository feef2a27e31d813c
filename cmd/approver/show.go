package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
)

func (a *app) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show QUESTION",
		Short: "Show one question, open or settled, with everything it holds",
		Long: "Show prints one question with everything it holds. QUESTION is its id, at least eight\n" +
			"characters of the beginning of its id, or SESSION/QUESTION.",
		Example: "  approver show 01JDQ7Y3V8ZK4M9T5R2N6W0XAB\n  approver show nightly/01JDQ7Y3 --json",
		Args:    exactArgs("QUESTION"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.show(cmd.Context(), args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// exactArgs wants one argument for each name.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return cli.Misuse("%s needs a %s: see `%s --help`", cmd.CommandPath(), names[len(args)], cmd.CommandPath())
		case len(args) > len(names):
			return cli.Misuse("%s takes no further argument %q: see `%s --help`", cmd.CommandPath(), args[len(names)], cmd.CommandPath())
		}
		return nil
	}
}

// shown is a question with how it stands.
type shown struct {
	inbox.Item
	Open    bool              `json:"open"`
	Settled *inbox.Settlement `json:"settled,omitzero"`
	Earlier *approver.Earlier `json:"earlier,omitzero"`
}

func (a *app) show(ctx context.Context, question string, asJSON bool) error {
	return a.with(ctx, func(w *journal.Writer) error {
		s, err := look(ctx, w.Log(), question)
		if err != nil {
			return err
		}
		if asJSON {
			return a.PrintJSON(s)
		}
		return a.printShown(s)
	})
}

// look reads a question from the journal.
func look(ctx context.Context, log journal.Log, question string) (shown, error) {
	st, id, err := approver.Find(ctx, log, approver.ParseRef(question))
	if err != nil {
		return shown{}, err
	}
	item, _ := inbox.NewItem(st, id)
	item.Count = inbox.Identical(st, item.Group)
	s := shown{Item: item, Open: inbox.Open(st, st.Question(id))}
	if s.Open {
		if len(item.Suggestion)+len(item.Alternatives) > 0 {
			earlier, err := approver.LookBack(ctx, log, st, id)
			s.Earlier = &earlier
			return s, err
		}
		return s, nil
	}
	how, err := inbox.Settled(ctx, log, st.Chain(), id)
	s.Settled = &how
	return s, err
}

func (a *app) printShown(s shown) error {
	text := approver.Render(&s.Item, approver.RenderOptions{All: true, Width: approver.ScreenWidth(a.Out)})
	if err := a.Printf("%s", text); err != nil {
		return err
	}
	if e := s.Earlier; e != nil && e.Asked > 0 {
		if err := a.printEarlier(*e); err != nil {
			return err
		}
	}
	if s.Settled == nil {
		return a.Printf("Open. To answer: approver answer %s/%s ACTION\n", s.Session, s.ID)
	}
	return a.Printf("Closed: %s.\n", &approver.SettledError{Question: s.ID, Settlement: *s.Settled})
}

// printEarlier says how much an always-answer would have spared so far.
func (a *app) printEarlier(e approver.Earlier) error {
	err := a.Printf("Of %d earlier questions in this session, always would have let through %d", e.Asked, len(e.Suggestion))
	for i, through := range e.Alternatives {
		err = errors.Join(err, a.Printf(", alternative %d: %d", i+1, len(through)))
	}
	return errors.Join(err, a.Printf(".\n"))
}
