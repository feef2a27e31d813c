package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// opened is an open journal. What a command reads and writes goes through its
// Log.
type opened struct {
	handle *embedded.Handle
	log    journal.Log
	wrap   func(journal.Log) journal.Log
}

// as is the Log of another principal of the journal, and its actor.
func (o *opened) as(ctx context.Context, role journal.Role) (journal.Log, string, error) {
	log, actor, err := o.handle.As(ctx, role)
	if err != nil {
		return nil, "", err
	}
	return o.wrap(log), actor, nil
}

// with opens a journal that is there with the key of a role, runs do, and closes it.
func (a *app) with(ctx context.Context, role journal.Role, do func(*opened) error) error {
	return a.open(ctx, embedded.Config{Role: role, Existing: true}, do)
}

func (a *app) open(ctx context.Context, cfg embedded.Config, do func(*opened) error) (err error) {
	if a.dir == "" {
		if a.dir, err = embedded.DefaultDir(); err != nil {
			return err
		}
	}
	cfg.Dir, cfg.Logger = a.dir, a.serverLogger()
	h, err := embedded.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	for _, w := range h.Warnings() {
		a.notice("warning: %s", w)
	}
	wrap := a.wrap
	if wrap == nil {
		wrap = func(log journal.Log) journal.Log { return log }
	}
	return do(&opened{h, wrap(h), wrap})
}

// asDecider opens the journal as a decider does, and makes it if need be.
func (a *app) asDecider(ctx context.Context, do func(*opened, *decider.Decider) error) error {
	return a.open(ctx, embedded.Config{Role: journal.RoleDecider}, a.deciding(do))
}

// inExisting is asDecider for a journal that must be there.
func (a *app) inExisting(ctx context.Context, do func(*opened, *decider.Decider) error) error {
	return a.with(ctx, journal.RoleDecider, a.deciding(do))
}

func (a *app) deciding(do func(*opened, *decider.Decider) error) func(*opened) error {
	return func(o *opened) error {
		w, err := a.writerOf(o)
		if err != nil {
			return err
		}
		return do(o, &decider.Decider{Writer: w, Logger: a.logger()})
	}
}

// patience is how long a command tries to append what the journal does not
// take. Whoever started it waits, and can start it again.
const patience = 10 * time.Second

func (a *app) writerOf(o *opened) (*journal.Writer, error) {
	role, actor := o.handle.Principal()
	return a.writer(o.log, role, actor)
}

func (a *app) writer(log journal.Log, role journal.Role, actor string) (*journal.Writer, error) {
	return journal.NewWriter(journal.Config{Log: log, Role: role, Actor: actor, Now: a.now, Budget: cmp.Or(a.budget, patience)})
}

// logger is for what no result can carry: warnings on standard error.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.errs, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: untimed}))
}

// serverLogger is for the embedded server's errors alone: what it warns about
// after a crash is its way of recovering.
func (a *app) serverLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.errs, &slog.HandlerOptions{Level: slog.LevelError, ReplaceAttr: untimed}))
}

func untimed(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}

// notice says something beside the results.
func (a *app) notice(format string, args ...any) {
	_, _ = fmt.Fprintf(a.errs, "decider: "+format+"\n", args...) // nowhere else to say so
}

func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format, args...)
	return err
}

// printJSON writes v as one line of JSON.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// readPolicy parses a policy file; "" is the built-in one. A fault in it is
// the caller's to mend.
func readPolicy(file string) (*policy.Policy, error) {
	if file == "" {
		return policy.Default(), nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, misuse("the policy cannot be read: %v: name a policy file", err)
	}
	pol, err := policy.Parse(file, raw)
	if err != nil {
		return nil, &misuseError{err.Error()}
	}
	return pol, nil
}

// input opens a file, or standard input for "-" or "".
func (a *app) input(file string) (io.ReadCloser, error) {
	if file == "-" || file == "" {
		return io.NopCloser(a.in), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, misuse("%v: name a file, or - for standard input", err)
	}
	return f, nil
}

// spoolDir is where results are kept that the journal did not take.
func (a *app) spoolDir() string { return filepath.Join(a.dir, "spool") }
