package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"decisionjournal/decider/replay"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// with opens the journal with the auditor's key, runs do, and closes it.
func (a *app) with(ctx context.Context, do func(*replay.Journal) error) (err error) {
	if a.dir == "" {
		if a.dir, err = embedded.DefaultDir(); err != nil {
			return err
		}
	}
	h, err := embedded.Open(ctx, embedded.Config{Dir: a.dir, Role: journal.RoleAuditor, Existing: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	for _, w := range h.Warnings() {
		_, _ = fmt.Fprintf(a.errs, "replay: warning: %s\n", w) // nowhere else to say so
	}
	var log journal.Log = h
	if a.wrap != nil {
		log = a.wrap(h)
	}
	j, err := replay.Load(ctx, log)
	if err != nil {
		return err
	}
	return do(j)
}

func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format, args...)
	return err
}

// printJSON writes v as one document. Characters that a screen would hide or
// act on are written as escapes, which mean the same.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.out.Write(escaped(b.Bytes()))
	return err
}

func escaped(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	for len(doc) > 0 {
		r, size := utf8.DecodeRune(doc)
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			out = append(out, doc[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		doc = doc[size:]
	}
	return out
}
