package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// A scripted Log does as its steps say with each Publish, then goes through.
type scripted struct {
	*journaltest.Memory
	steps   []step
	sent    [][]byte // what was published, in order
	loads   int
	loadErr error // of every Load, once something was published
}

// A step is what happens to one Publish.
type step struct {
	store bool                  // it is stored
	err   error                 // and this is reported
	first func(*scripted) error // happens before it
}

func (s *scripted) Publish(ctx context.Context, sub journal.Subject, after uint64, data []byte) (uint64, error) {
	s.sent = append(s.sent, bytes.Clone(data))
	if len(s.steps) == 0 {
		return s.Memory.Publish(ctx, sub, after, data)
	}
	now := s.steps[0]
	s.steps = s.steps[1:]
	if now.first != nil {
		if err := now.first(s); err != nil {
			return 0, err
		}
	}
	if !now.store {
		return 0, now.err
	}
	seq, err := s.Memory.Publish(ctx, sub, after, data)
	if now.err != nil {
		return 0, now.err
	}
	return seq, err
}

func (s *scripted) Load(ctx context.Context, chain journal.Chain, after uint64) iter.Seq2[journal.Message, error] {
	s.loads++
	if s.loadErr != nil {
		return func(yield func(journal.Message, error) bool) { yield(journal.Message{}, s.loadErr) }
	}
	return s.Memory.Load(ctx, chain, after)
}

var errStrange = errors.New("an error of no known kind")

// another appends a commit of somebody else to the session.
func another(c *chain) func(*scripted) error {
	return func(s *scripted) error {
		st, err := journal.LoadState(context.Background(), s.Memory, c.st.Chain())
		if err != nil {
			return err
		}
		w := c.writer(dec, s.Memory)
		return w.Append(context.Background(), st, w.Now(st), c.events(&journal.Adopt{Digest: policyB})...)
	}
}

// wait makes a Wait that gives up at the given try.
func wait(tries int) func(context.Context, int) error {
	return func(_ context.Context, try int) error {
		if try >= tries {
			return context.DeadlineExceeded
		}
		return nil
	}
}

func TestAppend(t *testing.T) {
	lostAck := step{store: true, err: journal.ErrUnknown}
	lostSend := step{err: journal.ErrUnknown}
	down := step{err: journal.ErrUnavailable}
	for _, tt := range []struct {
		name    string
		steps   func(c *chain) []step
		loadErr error
		want    error // nil: appended
		stored  int   // commits of the writer in the log afterwards
		sends   int
	}{
		{"at once", func(*chain) []step { return nil }, nil, nil, 1, 1},
		{"stored, the ack lost", func(*chain) []step { return []step{lostAck} }, nil, nil, 1, 1},
		{"never stored, the outcome unknown", func(*chain) []step { return []step{lostSend} }, nil, nil, 1, 2},
		{"unknown again and again", func(*chain) []step { return []step{lostSend, lostSend, lostSend, lostAck} }, nil, nil, 1, 4},
		{"unavailable, then fine", func(*chain) []step { return []step{down, down} }, nil, nil, 1, 3},
		{"unavailable, then the ack lost", func(*chain) []step { return []step{down, lostAck} }, nil, nil, 1, 2},
		{"unknown, then unavailable, then fine", func(*chain) []step { return []step{lostSend, down} }, nil, nil, 1, 3},
		{"an error of no known kind may have stored it", func(*chain) []step { return []step{{store: true, err: errStrange}} }, nil, nil, 1, 1},
		{"somebody else was first", func(c *chain) []step { return []step{{store: true, first: another(c)}} }, nil, journal.ErrConflict, 0, 1},
		{"unknown, and somebody else was first", func(c *chain) []step { return []step{{err: journal.ErrUnknown, first: another(c)}} }, nil, journal.ErrConflict, 0, 1},
		{"unknown, then somebody else was first", func(c *chain) []step { return []step{lostSend, {store: true, first: another(c)}} }, nil, journal.ErrConflict, 0, 2},
		{"a conflict with itself", func(c *chain) []step {
			// Stored late: the first look saw nothing, the second send conflicts with the first.
			return []step{lostSend, {err: journal.ErrConflict, first: func(s *scripted) error {
				sub := journal.Subject{Chain: c.st.Chain(), Role: bot.Role, Actor: bot.Actor}
				_, err := s.Memory.Publish(context.Background(), sub, c.st.LastSeq(), s.sent[0])
				return err
			}}}
		}, nil, nil, 1, 2},
		{"refused", func(*chain) []step { return []step{{err: journal.ErrRefused}} }, nil, journal.ErrRefused, 0, 1},
		{"too large", func(*chain) []step { return []step{{err: journal.ErrTooLarge}} }, nil, journal.ErrTooLarge, 0, 1},
		{"out of time, unavailable", func(*chain) []step { return []step{down, down, down, down, down} }, nil, journal.ErrUnavailable, 0, 4},
		{"out of time, unknown", func(*chain) []step { return []step{lostSend, lostSend, lostSend, lostSend, lostSend} }, nil, journal.ErrUnknown, 0, 4},
		{"out of time, unknown and then unavailable", func(*chain) []step { return []step{lostSend, down, down, down, down} }, nil, journal.ErrUnknown, 0, 4},
		{"out of time, unknown and then refused", func(*chain) []step {
			refused := step{err: journal.ErrRefused}
			return []step{lostSend, refused, refused, refused}
		}, nil, journal.ErrUnknown, 0, 4},
		{"stored, and nobody can look", func(*chain) []step { return []step{lostAck, down, down, down} }, journal.ErrUnavailable, journal.ErrUnknown, 1, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newSession(t)
			log := &scripted{Memory: c.mem, steps: tt.steps(c), loadErr: tt.loadErr}
			w, err := journal.NewWriter(journal.Config{Log: log, Role: bot.Role, Actor: bot.Actor, Now: func() time.Time { return c.now }, Wait: wait(3)})
			if err != nil {
				t.Fatal(err)
			}
			before := dumpOf(t, c.st)
			err = w.Append(context.Background(), c.st, w.Now(c.st), c.events(c.callBody("r1"))...)
			if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			for _, other := range []error{journal.ErrConflict, journal.ErrUnknown, journal.ErrRefused, journal.ErrTooLarge, journal.ErrUnavailable, journal.ErrInvalid} {
				if tt.want != other && errors.Is(err, other) {
					t.Errorf("error %v is also %v", err, other)
				}
			}
			checkSent(t, log, tt.sends, tt.stored)
			if err != nil {
				c.same(before)
				return
			}
			st, err := journal.LoadState(context.Background(), c.mem, c.st.Chain())
			if err != nil {
				t.Fatal(err)
			}
			sameFold(t, st, c.st)
		})
	}
}

// TestAppendGivesUp: without a Wait of its own, a writer tries until its budget is spent.
func TestAppendGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSession(t)
		var steps []step
		for range 1000 {
			steps = append(steps, step{err: journal.ErrUnknown})
		}
		log := &scripted{Memory: c.mem, steps: steps}
		w, err := journal.NewWriter(journal.Config{Log: log, Role: bot.Role, Actor: bot.Actor, Now: func() time.Time { return c.now }, Budget: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		err = w.Append(context.Background(), c.st, w.Now(c.st), c.events(c.callBody("r1"))...)
		if !errors.Is(err, journal.ErrUnknown) || time.Since(begun) != 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		if n := len(log.sent); n < 10 || n > 30 {
			t.Errorf("%d tries", n)
		}
	})
}

// checkSent holds that the same bytes went out every time, and how often they are stored.
func checkSent(t *testing.T, log *scripted, sends, stored int) {
	t.Helper()
	if len(log.sent) != sends {
		t.Errorf("%d sends, want %d", len(log.sent), sends)
	}
	for _, data := range log.sent {
		if !bytes.Equal(data, log.sent[0]) {
			t.Errorf("sent %s\nafter %s", data, log.sent[0])
		}
	}
	n := 0
	for _, m := range log.Messages() {
		if bytes.Equal(m.Data, log.sent[0]) {
			n++
		}
	}
	if n != stored {
		t.Errorf("stored %d times, want %d", n, stored)
	}
}

// TestAppendUnderEveryFault runs a little session with a fault at every step:
// whatever happens, the state is the log's, and each step is there once.
func TestAppendUnderEveryFault(t *testing.T) {
	journaltest.EachStep(t, func(t *testing.T, log journal.Log, mem *journaltest.Memory) {
		c := newChain(t)
		c.mem = mem
		mem.SetClock(func() time.Time { return c.now })
		w, err := journal.NewWriter(journal.Config{Log: log, Role: dec.Role, Actor: dec.Actor, Now: func() time.Time { return c.now }, Wait: wait(50)})
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []journal.Body{opened("main", "r1"), &journal.Adopt{Digest: policyA}, &journal.Adopt{Digest: policyB}} {
			appendAnyhow(t, c, w, log, c.events(body)[0])
		}
		st, err := journal.LoadState(context.Background(), mem, c.st.Chain())
		if err != nil {
			t.Fatal(err)
		}
		if a, b := dumpOf(t, st), dumpOf(t, c.st); a != b || st.N() != 3 {
			t.Errorf("the log says\n%s\nthe state\n%s", a, b)
		}
	})
}

// appendAnyhow appends an event, and after a conflict decides the same again.
func appendAnyhow(t *testing.T, c *chain, w *journal.Writer, log journal.Log, event journal.Event) {
	t.Helper()
	for range 20 {
		err := w.Append(context.Background(), c.st, w.Now(c.st), event)
		if err == nil {
			return
		}
		if !errors.Is(err, journal.ErrConflict) {
			t.Fatal(err)
		}
		for journal.Refresh(context.Background(), log, c.st) != nil {
			continue // a fault strikes once
		}
	}
	t.Fatal("never appended")
}

func TestAppendTooLarge(t *testing.T) {
	c := newSession(t)
	c.mem.SetMaxPayload(2000)
	err := c.writer(bot, c.mem).Append(context.Background(), c.st, journal.At(c.now), c.events(c.callBody("r1", func(b *journal.Call) {
		b.Arguments = []byte(`"` + string(bytes.Repeat([]byte("x"), 2000)) + `"`)
	}))...)
	if !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("%v", err)
	}
}

// TestAppendRefusesUnsent: what would be void is never sent. That it is so for
// every rule of the table, the tests of the table hold.
func TestAppendRefusesUnsent(t *testing.T) {
	for name, events := range map[string]func(c *chain) []journal.Event{
		"no event":         func(*chain) []journal.Event { return nil },
		"an event no body": func(c *chain) []journal.Event { return []journal.Event{{ID: c.id()}} },
		"no ULID":          func(*chain) []journal.Event { return []journal.Event{journal.NewEvent("1", &journal.Ended{})} },
		"a value nobody knows": func(c *chain) []journal.Event {
			return c.events(opened("other", "r2", func(b *journal.Opened) { b.Kind = "fleet" }))
		},
		"invalid UTF-8": func(c *chain) []journal.Event { return c.events(&journal.Ended{Reason: "\xff"}) },
		"two, the second void": func(c *chain) []journal.Event {
			return c.events(c.callBody("r1"), &journal.Closed{Agent: "main", Run: "r9"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newSession(t)
			log := &scripted{Memory: c.mem}
			before := dumpOf(t, c.st)
			err := c.writer(dec, log).Append(context.Background(), c.st, journal.At(c.now), events(c)...)
			if !errors.Is(err, journal.ErrInvalid) || len(log.sent) > 0 {
				t.Errorf("%v, %d sent", err, len(log.sent))
			}
			c.same(before)
		})
	}
}

// clocked is a Log whose server has a clock.
type clocked struct {
	*journaltest.Memory
	clock func() (time.Time, error)
}

func (l clocked) Clock(context.Context) (time.Time, error) { return l.clock() }

func TestAppendWithAWrongClock(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ahead  time.Duration // of the writer's clock
		later  time.Duration // of the server's
		server error
		want   error
	}{
		{"right", 0, 0, nil, nil},
		{"a little ahead", 20 * time.Second, 0, nil, nil},
		{"far ahead", 2 * hour, 0, nil, journal.ErrInvalid},
		{"far ahead of a server set back, by the head's time", -hour, -2 * hour, nil, nil},
		{"a little behind", -20 * time.Second, 0, nil, nil},
		{"two hours back, with the head at the server's time", -2 * hour, 0, nil, nil},
		{"far behind", 0, 2 * hour, nil, journal.ErrInvalid},
		{"nobody knows", time.Second, 0, journal.ErrUnknown, journal.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newSession(t)
			log := clocked{c.mem, func() (time.Time, error) { return epoch.Add(tt.later), tt.server }}
			c.now = epoch.Add(tt.ahead)
			w := c.writer(bot, log)
			stored := len(c.mem.Messages())
			err := w.Append(context.Background(), c.st, w.Now(c.st), c.events(c.callBody("r1"))...)
			if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if got := len(c.mem.Messages()) - stored; (got == 1) != (tt.want == nil) {
				t.Errorf("%d stored", got)
			}
			if c.st.Time().Before(epoch) {
				t.Errorf("the chain's time went back to %s", c.st.Time())
			}
		})
	}
}

// setBack is a Log whose machine's clock is set back while a commit is on its
// way.
type setBack struct {
	*journaltest.Memory
	step func()
}

func (l setBack) Publish(ctx context.Context, sub journal.Subject, after uint64, data []byte) (uint64, error) {
	l.step()
	return l.Memory.Publish(ctx, sub, after, data)
}

// TestAppendAcrossAClockStep: what the journal's clock makes void is not taken
// for stored by the one who wrote it either.
func TestAppendAcrossAClockStep(t *testing.T) {
	for back, want := range map[time.Duration]error{5 * time.Second: nil, 30 * time.Second: nil, hour: journal.ErrConflict} {
		t.Run(back.String(), func(t *testing.T) {
			c := newSession(t)
			c.now = c.now.Add(2 * hour)
			w := c.writer(bot, setBack{c.mem, func() { c.now = c.now.Add(-back) }})
			n := c.st.N()
			err := w.Append(context.Background(), c.st, w.Now(c.st), c.events(c.callBody("r1"))...)
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%v, want %v", err, want)
			}
			if (c.st.N() > n) != (want == nil) {
				t.Errorf("n is %d after %d", c.st.N(), n)
			}
			own := dumpOf(t, c.st)
			c.load()
			c.same(own)
		})
	}
}

func TestWriterConfig(t *testing.T) {
	mem := journaltest.NewMemory()
	for name, cfg := range map[string]journal.Config{
		"no log":           {Role: journal.RoleAgent, Actor: "a"},
		"no role":          {Log: mem, Actor: "a"},
		"an unknown role":  {Log: mem, Role: "king", Actor: "a"},
		"no actor":         {Log: mem, Role: journal.RoleAgent},
		"an actor no name": {Log: mem, Role: journal.RoleAgent, Actor: "a.b"},
	} {
		if _, err := journal.NewWriter(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	w, err := journal.NewWriter(journal.Config{Log: mem, Role: journal.RoleAgent, Actor: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if w.Principal() != (who{Role: journal.RoleAgent, Actor: "a"}) || w.Log() != journal.Log(mem) {
		t.Errorf("%+v", w.Principal())
	}
	last := ""
	for range 1000 {
		id := w.NewID()
		if id <= last {
			t.Fatalf("id %s after %s", id, last)
		}
		last = id
	}
}

// TestRacingWriters: of many writers that decide on the same state one wins,
// and the chain has no gap.
func TestRacingWriters(t *testing.T) {
	c := newSession(t)
	done := make(chan error)
	const writers, each = 8, 10
	for i := range writers {
		go func() { done <- race(c, fmt.Sprintf("w%d", i), each) }()
	}
	for range writers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	st, err := journal.LoadState(context.Background(), c.mem, c.st.Chain())
	if err != nil {
		t.Fatal(err)
	}
	cond, _ := st.Condition()
	if _, voids := st.Anomalies(); cond != journal.Whole || voids != 0 || st.N() != 2+writers*each {
		t.Errorf("%s, %d void, n %d", cond, voids, st.N())
	}
}

// race appends n commits, deciding again after every conflict.
func race(c *chain, actor string, n int) error {
	ctx := context.Background()
	w, err := journal.NewWriter(journal.Config{Log: c.mem, Role: journal.RoleDecider, Actor: actor, Now: func() time.Time { return epoch }})
	if err != nil {
		return err
	}
	st, err := journal.LoadState(ctx, c.mem, c.st.Chain())
	for done := 0; done < n && err == nil; {
		if err = w.Append(ctx, st, w.Now(st), w.Event(&journal.Adopt{Digest: policyA})); err == nil {
			done++
		} else if errors.Is(err, journal.ErrConflict) {
			err = journal.Refresh(ctx, c.mem, st)
		}
	}
	return err
}
