package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// with opens the journal with the approver's key, runs do, and closes it.
func (a *app) with(ctx context.Context, do func(*embedded.Handle) error) (err error) {
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
	return do(h)
}

func writerOf(h *embedded.Handle) (*journal.Writer, error) {
	role, actor := h.Principal()
	return journal.NewWriter(journal.Config{Log: h, Role: role, Actor: actor})
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
