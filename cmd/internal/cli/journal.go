package cli

import (
	"cmp"
	"context"
	"errors"
	"time"

	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// patience is how long a command tries to append what the journal does not
// take. Whoever started it waits, and can start it again.
const patience = 10 * time.Second

// Journal is an open journal. What a command reads and writes goes through Log.
type Journal struct {
	Handle *embedded.Handle
	Log    journal.Log
	app    *App
}

// Open opens the app's journal as cfg says, calls do, and closes it.
func (a *App) Open(ctx context.Context, cfg embedded.Config, do func(*Journal) error) (err error) {
	if a.Dir == "" {
		if a.Dir, err = embedded.DefaultDir(); err != nil {
			return err
		}
	}
	cfg.Dir = a.Dir
	h, err := embedded.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	for _, w := range h.Warnings() {
		a.Notice("warning: %s", w)
	}
	return do(&Journal{h, a.wrapped(h), a})
}

func (a *App) wrapped(log journal.Log) journal.Log {
	if a.Wrap == nil {
		return log
	}
	return a.Wrap(log)
}

// As is the Log of another principal of the journal, and its actor.
func (j *Journal) As(ctx context.Context, role journal.Role) (journal.Log, string, error) {
	log, actor, err := j.Handle.As(ctx, role)
	if err != nil {
		return nil, "", err
	}
	return j.app.wrapped(log), actor, nil
}

// Writer writes as the principal the journal was opened for.
func (j *Journal) Writer() (*journal.Writer, error) {
	role, actor := j.Handle.Principal()
	return j.app.Writer(j.Log, role, actor)
}

// Writer writes to a log as a principal.
func (a *App) Writer(log journal.Log, role journal.Role, actor string) (*journal.Writer, error) {
	return journal.NewWriter(journal.Config{Log: log, Role: role, Actor: actor, Now: a.Now, Budget: cmp.Or(a.Budget, patience)})
}
