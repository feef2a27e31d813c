package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"decisionjournal/decider/agent"
	"decisionjournal/journal"
)

// waitForFiles waits until the spool holds n results.
func waitForFiles(t *testing.T, dir string, n int) []string {
	t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == n {
			return files
		}
	}
	t.Fatalf("the spool never holds %d files", n)
	return nil
}

// TestSpool: a result that the journal does not take is returned with a
// warning and appended by the next run, once.
func TestSpool(t *testing.T) {
	for _, test := range []struct {
		name  string
		spool func(t *testing.T) string
		says  string
		kept  bool
	}{
		{"a new directory", func(t *testing.T) string { return filepath.Join(t.TempDir(), "x", "spool[1]") }, "kept and appended by the next run", true},
		{"none", func(*testing.T) string { return "" }, "could not be journaled", false},
		{"one that cannot be written", func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(file, "spool")
		}, "nor kept", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			dir := test.spool(t)
			spooling := func(cfg *agent.Config) { cfg.Spool = dir }
			g := w.open(spooling)
			g.on(failing(journal.TypeResult), nil)
			r := keyed("b/1", "free", `{}`)
			o := g.run(r)
			w.want(o, agent.Executed, "effect 1")
			if o.Result.IsError || !strings.Contains(o.Warning, test.says) || strings.Contains(o.Warning, "kept and") != test.kept {
				t.Errorf("warning %q", o.Warning)
			}
			g = g.restart(spooling)
			if !test.kept {
				ticket := g.submit(r)
				if q := w.state().Question(g.question(ticket)); q.Reason != journal.AskInterrupted {
					t.Errorf("asked for %s", q.Reason)
				}
				return
			}
			if n := strings.Join(g.Notices(), "\n"); !strings.Contains(n, "was appended") {
				t.Errorf("notices %q", n)
			}
			w.want(g.run(r), agent.Recorded, "effect 1")
			g = g.restart(spooling)
			w.want(g.run(r), agent.Recorded, "effect 1")
			if n := len(events[*journal.Result](w)); n != 1 {
				t.Errorf("%d results", n)
			}
			w.ran(r, 1)
		})
	}
}

// failing makes every publish of a commit with an event of a type fail.
func failing(kind journal.Type) func(journal.Subject, []byte) error {
	return func(_ journal.Subject, data []byte) error {
		if wrote(data, kind) {
			return fmt.Errorf("the disk is full: %w", journal.ErrUnavailable)
		}
		return nil
	}
}

// TestSpoolIsAppendedOnce: a run that dies between appending a spooled result
// and removing its file leaves one that the next run drops.
func TestSpoolIsAppendedOnce(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	spooling := func(cfg *agent.Config) { cfg.Spool = dir }
	g := w.open(spooling)
	g.on(failing(journal.TypeResult), nil)
	g.run(keyed("b/1", "free", `{}`))
	file := waitForFiles(t, dir, 1)[0]
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g = g.restart(spooling)
	waitForFiles(t, dir, 0)
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	g = g.restart(spooling)
	waitForFiles(t, dir, 0)
	if n := strings.Join(g.Notices(), "\n"); !strings.Contains(n, "dropped") {
		t.Errorf("notices %q", n)
	}
	if n := len(events[*journal.Result](w)); n != 1 {
		t.Errorf("%d results", n)
	}
}

// TestSpoolOfOthers: files of other sessions stay, one that cannot be read
// stays, and neither keeps the rest.
func TestSpoolOfOthers(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	spooling := func(cfg *agent.Config) { cfg.Spool = dir }
	for _, name := range []string{"s1-0broken.json", "s1-2-x-1.json", "other-x-1.json", ".new-1", "note.txt"} {
		text := `{"session":"s1-2","result":{"call":"x"}}`
		if strings.Contains(name, "broken") {
			text = `{"session":`
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := w.open(spooling)
	g.on(failing(journal.TypeResult), nil)
	g.run(keyed("b/1", "free", `{}`))
	g = g.restart(spooling)
	w.want(g.run(keyed("b/1", "free", `{}`)), agent.Recorded, "effect 1")
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 5 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestSpoolIsDamaged: a file whose digest or size is not that of its content
// is not appended, and stays; what came of the call is unknown.
func TestSpoolIsDamaged(t *testing.T) {
	for _, member := range []string{`"digest":"sha256:`, `"size":`, `"content":"`} {
		t.Run(member, func(t *testing.T) {
			w := newWorld(t)
			dir := t.TempDir()
			spooling := func(cfg *agent.Config) { cfg.Spool = dir }
			g := w.open(spooling)
			g.on(failing(journal.TypeResult), nil)
			r := keyed("b/1", "free", `{}`)
			g.run(r)
			file := waitForFiles(t, dir, 1)[0]
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(raw, []byte(member)) + len(member)
			raw[at] ^= 1 // a digit or a letter stays one
			if err := os.WriteFile(file, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			g = g.restart(spooling)
			waitForFiles(t, dir, 1)
			if n := len(events[*journal.Result](w)); n != 0 {
				t.Errorf("%d results", n)
			}
			question := g.question(g.submit(r))
			if q := w.state().Question(question); q.Reason != journal.AskInterrupted {
				t.Errorf("asked for %s", q.Reason)
			}
		})
	}
}

// TestSpoolStaysWhileTheJournalFails.
func TestSpoolStaysWhileTheJournalFails(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	spooling := func(cfg *agent.Config) { cfg.Spool = dir }
	g := w.open(spooling)
	g.on(failing(journal.TypeResult), nil)
	g.run(keyed("b/1", "free", `{}`))
	g.kill()
	p := w.process()
	p.on(failing(journal.TypeResult), nil)
	g, err := w.tryOpen(p, spooling)
	if err != nil {
		t.Fatal(err)
	}
	waitForFiles(t, dir, 1)
	g = g.restart(spooling)
	w.want(g.run(keyed("b/1", "free", `{}`)), agent.Recorded, "effect 1")
}

// TestJournalUnavailable: before the effect it means that nothing runs, said
// plainly; calls go on once it is back.
func TestJournalUnavailable(t *testing.T) {
	for _, kind := range []journal.Type{journal.TypeCall, journal.TypeStart, journal.TypeDecision} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t)
			g := w.open()
			g.on(failing(kind), nil)
			r := keyed("b/1", "free", `{}`)
			o := g.run(r)
			w.want(o, agent.Failed, "The journal cannot be reached, and nothing runs without it")
			if !errors.Is(o.Err, journal.ErrUnavailable) {
				t.Errorf("%v", o.Err)
			}
			w.ran(r, 0)
			g.on(nil, nil)
			w.want(g.run(r), agent.Executed, "ran")
		})
	}
}

// TestJournalUnavailableAtTheStart: the allow of an asked call stays unspent.
func TestJournalUnavailableAtTheStart(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	r := call("write", `{"path":"a"}`)
	ticket := g.submit(r)
	g.on(failing(journal.TypeStart), nil)
	w.answer(g.question(ticket), journal.AllowOnce)
	w.want(w.wait(ticket), agent.Failed, "cannot be reached")
	g.on(nil, nil)
	w.ran(r, 0)
	w.want(g.restart().run(r), agent.Executed, "ran")
	if n := len(events[*journal.Question](w)); n != 1 {
		t.Errorf("%d questions", n)
	}
}

// TestAnswerWhileTheJournalFails: deciding is tried again without a new message.
func TestAnswerWhileTheJournalFails(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	r := call("write", `{"path":"a"}`)
	ticket := g.submit(r)
	failed := make(chan struct{})
	n := 0
	w.healed = make(chan struct{})
	g.on(func(_ journal.Subject, data []byte) error {
		if !wrote(data, journal.TypeDecision) {
			return nil
		}
		if n++; n == 1 {
			close(failed)
		}
		select {
		case <-w.healed:
			return nil
		default:
			return fmt.Errorf("the disk is full: %w", journal.ErrUnavailable)
		}
	}, nil)
	w.answer(g.question(ticket), journal.AllowOnce)
	<-failed
	g.Question(ticket) // until this try is over
	close(w.healed)
	w.want(w.wait(ticket), agent.Executed, "ran")
}

// TestFollowCutOff: a call whose answer cannot arrive is not waited for in
// silence; what is under way is recorded.
func TestFollowCutOff(t *testing.T) {
	w := newWorld(t)
	s := newStopper()
	w.witness.stopAfter(s)
	g := w.open()
	running := g.submit(keyed("b/1", "free", `{}`))
	<-s.reached
	asked := g.submit(call("write", `{"path":"a"}`))
	q := g.question(asked)
	g.unfollow()
	o := w.wait(asked)
	w.want(o, agent.Failed, "can no longer be followed")
	if !errors.Is(o.Err, journal.ErrUnavailable) {
		t.Errorf("%v", o.Err)
	}
	w.want(g.run(call("free", `{"n":2}`)), agent.Failed, "can no longer be followed")
	close(s.goOn)
	w.want(w.wait(running), agent.Executed, "effect 1")
	g.close()
	w.answer(q, journal.AllowOnce)
	g = w.open()
	w.want(g.run(call("write", `{"path":"a"}`)), agent.Executed, "ran")
	w.want(g.run(keyed("b/1", "free", `{}`)), agent.Recorded, "effect 1")
}

// TestStartOfUnknownOutcome: a start that may be stored is not executed; once
// it turns out to be stored it is given back.
func TestStartOfUnknownOutcome(t *testing.T) {
	for _, stored := range []bool{false, true} {
		for _, tool := range []string{"free", "write"} {
			t.Run(fmt.Sprint(tool, " stored ", stored), func(t *testing.T) {
				w := newWorld(t)
				g := w.open()
				r := keyed("b/1", tool, `{"path":"a"}`)
				fault := w.lose(g, journal.TypeStart, stored)
				ticket := g.submit(r)
				if tool == "write" {
					w.answer(g.question(ticket), journal.AllowOnce)
				}
				o := w.wait(ticket)
				w.want(o, agent.Failed, "outcome unknown")
				w.ran(r, 0)
				fault()
				w.want(g.run(r), agent.Executed, "effect 1")
				g.close()
				w.want(w.open().run(r), agent.Recorded, "effect 1")
				w.ran(r, 1)
			})
		}
	}
}

// lose makes the outcome of a guard's commits with an event of a type unknown
// for longer than it tries, until the fault is lifted.
func (w *world) lose(g *guard, kind journal.Type, stored bool) (lift func()) {
	unknown := func(_ journal.Subject, data []byte) error {
		if wrote(data, kind) {
			g.blind(true)
			return fmt.Errorf("no acknowledgement: %w", journal.ErrUnknown)
		}
		return nil
	}
	if stored {
		g.on(nil, unknown)
	} else {
		g.on(unknown, nil)
	}
	return func() { g.on(nil, nil); g.blind(false) }
}
