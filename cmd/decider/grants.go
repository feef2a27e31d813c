package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
)

func (a *app) grantsCommand() *cobra.Command {
	var session string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "grants [--session NAME]",
		Short:   "List grants; export and import them as plain data",
		Example: "  decider grants --session nightly\n  decider grants export --session nightly > grants.json\n  decider grants import --session weekly grants.json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkSessionFlag(session); err != nil {
				return err
			}
			return a.listGrants(cmd.Context(), session, asJSON)
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "of session `NAME` only")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	cmd.AddCommand(a.grantsExport(), a.grantsImport())
	return cmd
}

// grantsOf are the grants of one session, or of all.
func (a *app) grantsOf(ctx context.Context, session string) (grants []replay.GrantReport, err error) {
	err = a.with(ctx, journal.RoleAuditor, func(o *cli.Journal) error {
		j, err := replay.Load(ctx, o.Log)
		if err != nil {
			return err
		}
		j.Now = a.Now
		sessions := []string{session}
		if session == "" {
			infos, err := j.Sessions(ctx)
			if err != nil {
				return err
			}
			sessions = nil
			for _, s := range infos {
				sessions = append(sessions, s.Session)
			}
		}
		for _, s := range sessions {
			more, err := j.Grants(ctx, s, replay.At{})
			if err != nil {
				return err
			}
			grants = append(grants, more...)
		}
		return nil
	})
	return grants, err
}

func (a *app) listGrants(ctx context.Context, session string, asJSON bool) error {
	grants, err := a.grantsOf(ctx, session)
	if err != nil {
		return err
	}
	if asJSON {
		if grants == nil {
			grants = []replay.GrantReport{}
		}
		return a.PrintJSON(grants)
	}
	for _, g := range grants {
		if err := a.Printf("%s %s %s: %s%s\n", g.Grant, approver.Visible(g.Session), g.Standing, grantRules(g.Rules), grantLimits(g)); err != nil {
			return err
		}
	}
	return nil
}

func grantRules(rules []json.RawMessage) string {
	text := ""
	for i, r := range rules {
		if i > 0 {
			text += "; "
		}
		text += approver.Visible(approver.Spell(r))
	}
	return text
}

func grantLimits(g replay.GrantReport) string {
	text := ""
	for _, v := range g.By {
		text += ", by " + approver.Visible(v.By)
	}
	if g.Origin != nil {
		text += ", from " + approver.Visible(g.Origin.Import+g.Origin.Session)
	}
	if g.Uses > 0 {
		text += fmt.Sprintf(", used %d of %d", g.Used, g.Uses)
	}
	if !g.Expires.IsZero() {
		text += ", until " + g.Expires.Format(time.RFC3339)
	}
	return text
}

// portable is a grant as plain data: what an export prints and an import reads.
type portable struct {
	Rules   []json.RawMessage `json:"rules"`
	Layer   string            `json:"layer,omitempty"`
	Expires *journal.Time     `json:"expires,omitempty"`
	Uses    int               `json:"uses,omitempty"`
}

func (a *app) grantsExport() *cobra.Command {
	var session string
	cmd := &cobra.Command{
		Use: "export --session NAME", Short: "Print a session's grants in force as plain data",
		Example: "  decider grants export --session nightly > grants.json", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if session == "" {
				return cli.Misuse("export needs --session NAME: see decider grants export --help")
			}
			if err := checkSession(session); err != nil {
				return err
			}
			grants, err := a.grantsOf(cmd.Context(), session)
			if err != nil {
				return err
			}
			list := []portable{}
			for _, g := range grants {
				if !g.InForce {
					continue
				}
				p := portable{Rules: g.Rules, Layer: g.Layer}
				if !g.Expires.IsZero() {
					p.Expires = &g.Expires
				}
				if g.Uses > 0 {
					p.Uses = g.Uses - g.Used
				}
				list = append(list, p)
			}
			return a.PrintJSON(list)
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "of session `NAME`")
	return cmd
}

func (a *app) grantsImport() *cobra.Command {
	var session, from string
	var book bool
	cmd := &cobra.Command{
		Use: "import --session NAME [--book] FILE|-", Short: "Write grants from plain data, or from a book, into a session",
		Long: `import reads what export prints and writes the grants into a session, or with --book into a book of standing
grants. With --from BOOK it takes the grants in force of a book instead: revoked there, they end in the
session too.`,
		Example: "  decider grants import --session weekly grants.json\n  decider grants import --session standing --book grants.json\n  decider grants import --session weekly --from standing",
		Args: func(_ *cobra.Command, args []string) error {
			if session == "" || (from == "") != (len(args) == 1) {
				return cli.Misuse("import needs --session NAME and either one FILE or --from BOOK: see decider grants import --help")
			}
			return errors.Join(checkSession(session), checkSessionFlag(from))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := journal.KindSession
			if book {
				kind = journal.KindBook
			}
			var grants []journal.Grant
			var err error
			if from == "" {
				if grants, err = a.readGrants(args[0]); err != nil {
					return err
				}
			}
			return a.asDecider(cmd.Context(), func(o *cli.Journal, d *decider.Decider) error {
				if from != "" {
					if grants, err = bookGrants(cmd.Context(), o.Log, d.Writer, from); err != nil {
						return err
					}
				}
				n, heeded, err := d.Import(cmd.Context(), session, kind, grants)
				if err != nil {
					return err
				}
				if !heeded {
					a.Notice("warning: the policy of session %s does not list %s under importers, so these grants have no effect under it", session, d.Writer.Principal().Actor)
				}
				return a.Printf("%d of %d grants written to %s\n", n, len(grants), session)
			})
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "into session or book `NAME`")
	cmd.Flags().BoolVar(&book, "book", false, "begin a book if there is no such session")
	cmd.Flags().StringVar(&from, "from", "", "take the grants of `BOOK`")
	return cmd
}

func (a *app) readGrants(file string) ([]journal.Grant, error) {
	in, err := a.input(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	raw, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	return parseGrants(file, raw)
}

// parseGrants reads what an export printed, or a person wrote like it.
func parseGrants(file string, raw []byte) ([]journal.Grant, error) {
	raw, err := journal.Canonical(raw)
	if err != nil {
		return nil, cli.Misuse("%s: %v", file, err)
	}
	var list []portable
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields() // a limit that is misspelt is no limit
	if err := dec.Decode(&list); err != nil {
		return nil, cli.Misuse("%s: want an array of grants as decider grants export prints it: %v", file, err)
	}
	name := filepath.Base(file)
	grants := make([]journal.Grant, len(list))
	for i, p := range list {
		if len(p.Rules) == 0 {
			return nil, cli.Misuse("%s: grant %d has no rules: give it one, or leave it out", file, i+1)
		}
		if p.Uses < 0 {
			return nil, cli.Misuse("%s: grant %d: uses is %d: name how many, or leave it out for any number", file, i+1, p.Uses)
		}
		for k, r := range p.Rules {
			switch rule, err := policy.ParseRule(r); {
			case err != nil:
				return nil, cli.Misuse("%s: grant %d, rule %d: %s", file, i+1, k+1, strings.ReplaceAll(err.Error(), "\n", "; "))
			case rule.Decision == policy.Ask:
				return nil, cli.Misuse("%s: grant %d, rule %d: a grant allows or denies, it does not ask", file, i+1, k+1)
			}
		}
		grants[i] = journal.Grant{Rules: p.Rules, Layer: p.Layer, Uses: p.Uses, Origin: &journal.Origin{Import: name}}
		if p.Expires != nil {
			grants[i].Expires = *p.Expires
		}
	}
	return grants, nil
}

func bookGrants(ctx context.Context, log journal.Log, w *journal.Writer, name string) ([]journal.Grant, error) {
	book, err := journal.LoadState(ctx, log, journal.SessionChain(name))
	if err != nil {
		return nil, err
	}
	if book.Kind() != journal.KindBook {
		return nil, cli.Misuse("%s is no book: begin one with decider grants import --book", name)
	}
	var grants []journal.Grant
	for _, g := range book.Grants() {
		if g.InForce(w.Now(book)) {
			grants = append(grants, journal.Grant{Rules: g.Rules, Layer: g.Layer, Expires: g.Expires, Uses: g.Uses,
				Origin: &journal.Origin{Session: name, Grant: g.Mark.ID}})
		}
	}
	return grants, nil
}

func (a *app) revokeCommand() *cobra.Command {
	var session, reason string
	cmd := &cobra.Command{
		Use: "revoke GRANT", Short: "Put a grant out of force, as an approver",
		Example: "  decider revoke 01JDXX5ZQ0F2N6M4T8V1W3Y5Z7 --reason 'the release is over'", Args: cli.OneArg("GRANT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSessionFlag(session); err != nil {
				return err
			}
			return a.with(cmd.Context(), journal.RoleApprover, func(o *cli.Journal) error {
				w, err := o.Writer()
				if err != nil {
					return err
				}
				in, err := approver.Revoke(cmd.Context(), w, session, args[0], reason)
				if err != nil {
					return err
				}
				return a.Printf("grant %s of session %s is revoked\n", args[0], in)
			})
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "look in session `NAME` only")
	cmd.Flags().StringVar(&reason, "reason", "", "why, as `TEXT` for the record")
	return cmd
}
