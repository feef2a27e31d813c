package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// with opens the journal with the approver's key, runs do with a writer for it,
// and closes it.
func (a *app) with(ctx context.Context, do func(*journal.Writer) error) (err error) {
	if a.dir == "" {
		if a.dir, err = embedded.DefaultDir(); err != nil {
			return err
		}
	}
	h, err := embedded.Open(ctx, embedded.Config{Dir: a.dir, Role: journal.RoleApprover, Existing: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	for _, w := range h.Warnings() {
		_, _ = fmt.Fprintf(a.errs, "approver: warning: %s\n", w)
	}
	w, err := a.writerOf(h)
	if err != nil {
		return err
	}
	return do(w)
}

// patience is how long a command tries to append what the journal does not
// take. Whoever started it waits, and can start it again.
const patience = 10 * time.Second

func (a *app) writerOf(h *embedded.Handle) (*journal.Writer, error) {
	var log journal.Log = h
	if a.wrap != nil {
		log = a.wrap(h)
	}
	role, actor := h.Principal()
	return journal.NewWriter(journal.Config{Log: log, Role: role, Actor: actor, Budget: cmp.Or(a.budget, patience)})
}

// printJSON writes v as one line of JSON.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format, args...)
	return err
}
