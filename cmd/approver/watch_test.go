package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/inbox/inboxtest"
)

// TestWatch reads changes while another process's worth of handles asks and
// answers.
func TestWatch(t *testing.T) {
	dir := t.TempDir() + "/journal"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := askIn(t, dir, "nightly")

	reader, writer := io.Pipe()
	code := make(chan int, 1)
	errs := &bytes.Buffer{}
	go func() {
		code <- (&app{cli.App{In: strings.NewReader(""), Out: writer, Errs: errs}}).run(ctx, []string{"watch", "--json", "--journal", dir})
		writer.Close()
	}()
	lines := bufio.NewScanner(reader)
	lines.Buffer(nil, 1<<20)
	next := func() inbox.Change {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("watch ended: %v, %s", lines.Err(), errs)
		}
		var c inbox.Change
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		return c
	}
	if c := next(); c.Kind != inbox.Opened || c.Item.ID != first {
		t.Errorf("first %s %s, want that %s is open", c.Kind, c.Item.ID, first)
	}
	second := askIn(t, dir, "other")
	if c := next(); c.Kind != inbox.Opened || c.Item.ID != second {
		t.Errorf("then %s %s, want that %s was opened", c.Kind, c.Item.ID, second)
	}
	if got := (&app{cli.App{In: strings.NewReader(""), Out: io.Discard, Errs: io.Discard}}).run(t.Context(), []string{"answer", first, "allow-once", "--journal", dir}); got != 0 {
		t.Fatalf("answer ended with %d", got)
	}
	c := next()
	if c.Kind != inbox.Closed || c.Item.ID != first || c.Settled == nil || c.Settled.By != "alice" || c.Settled.Action != journal.AllowOnce {
		t.Errorf("then %+v, want that alice answered", c)
	}
	cancel()
	if got := <-code; got != 0 || errs.Len() > 0 {
		t.Errorf("watch ended with %d: %s", got, errs)
	}
}

func askIn(t *testing.T, dir, session string) string {
	t.Helper()
	var id string
	err := withAsker(t.Context(), dir, func(a *inboxtest.Asker) (err error) {
		id, err = a.Ask(t.Context(), session, inboxtest.Spec{Note: ""})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}
