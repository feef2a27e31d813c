package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// with opens a journal that is there with the key of a role, runs do, and closes it.
func (a *app) with(ctx context.Context, role journal.Role, do func(*cli.Journal) error) error {
	return a.open(ctx, embedded.Config{Role: role, Existing: true}, do)
}

func (a *app) open(ctx context.Context, cfg embedded.Config, do func(*cli.Journal) error) error {
	cfg.Logger = a.serverLogger()
	return a.Open(ctx, cfg, do)
}

// asDecider opens the journal as a decider does, and makes it if need be.
func (a *app) asDecider(ctx context.Context, do func(*cli.Journal, *decider.Decider) error) error {
	return a.open(ctx, embedded.Config{Role: journal.RoleDecider}, a.deciding(do))
}

// inExisting is asDecider for a journal that must be there.
func (a *app) inExisting(ctx context.Context, do func(*cli.Journal, *decider.Decider) error) error {
	return a.with(ctx, journal.RoleDecider, a.deciding(do))
}

func (a *app) deciding(do func(*cli.Journal, *decider.Decider) error) func(*cli.Journal) error {
	return func(o *cli.Journal) error {
		w, err := o.Writer()
		if err != nil {
			return err
		}
		return do(o, &decider.Decider{Writer: w, Logger: a.logger()})
	}
}

// logger is for what no result can carry: warnings on standard error.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Errs, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: untimed}))
}

// serverLogger is for the embedded server's errors alone: what it warns about
// after a crash is its way of recovering.
func (a *app) serverLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Errs, &slog.HandlerOptions{Level: slog.LevelError, ReplaceAttr: untimed}))
}

func untimed(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}

// readPolicy reads a policy file and what it includes; "" is the built-in one. A fault in it is
// the caller's to mend.
func readPolicy(file string) (*policy.Policy, error) {
	if file == "" {
		return policy.Default(), nil
	}
	pol, err := policy.Load(file, os.ReadFile)
	var unread *fs.PathError
	switch {
	case errors.As(err, &unread):
		return nil, cli.Misuse("the policy cannot be read: %v: name a policy file", err)
	case err != nil:
		return nil, cli.Misuse("%v", err)
	}
	return pol, nil
}

// input opens a file, or standard input for "-" or "".
func (a *app) input(file string) (io.ReadCloser, error) {
	if file == "-" || file == "" {
		return io.NopCloser(a.In), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, cli.Misuse("%v: name a file, or - for standard input", err)
	}
	return f, nil
}

// spoolDir is where results are kept that the journal did not take.
func (a *app) spoolDir() string { return filepath.Join(a.Dir, "spool") }
