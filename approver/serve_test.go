package approver_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"decisionjournal/approver"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/inbox/inboxtest"
)

// script is a frontend that answers as told and remembers what it was put.
type script struct {
	mu    sync.Mutex
	asked []string
	told  []error
	reply func(ctx context.Context, item inbox.Item) (approver.Request, error)
}

func (s *script) frontend() approver.Frontend {
	return approver.Frontend{
		Ask: func(ctx context.Context, item inbox.Item) (approver.Request, error) {
			s.mu.Lock()
			s.asked = append(s.asked, item.ID)
			s.mu.Unlock()
			return s.reply(ctx, item)
		},
		Told: func(_ inbox.Item, _ approver.Receipt, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.told = append(s.told, err)
		},
	}
}

// heard is what the frontend was told so far.
func (s *script) heard() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

func allow(context.Context, inbox.Item) (approver.Request, error) {
	return approver.Request{Action: journal.AllowOnce}, nil
}

// untilWithdrawn never answers.
func untilWithdrawn(ctx context.Context, _ inbox.Item) (approver.Request, error) {
	<-ctx.Done()
	return approver.Request{Action: journal.AllowOnce}, nil
}

// serve runs Serve as alice until the returned function stops it.
func (b *bench) serve(f approver.Frontend) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	go func() { ran <- approver.Serve(ctx, b.log, b.approver("alice"), f) }()
	synctest.Wait()
	return func() {
		b.Helper()
		cancel()
		b.must(<-ran)
	}
}

func (b *bench) wantAsked(s *script, want ...string) {
	b.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.asked, want) {
		b.Errorf("asked %v, want %v", s.asked, want)
	}
}

func TestServeAsksOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first, second := b.ask("s", inboxtest.Spec{}), b.ask("t", inboxtest.Spec{})
		s := &script{reply: allow}
		idle := 0
		f := s.frontend()
		f.Idle = func() { idle++ }
		stop := b.serve(f)
		third := b.ask("s", inboxtest.Spec{})
		synctest.Wait()
		stop()
		b.wantAsked(s, first, second, third)
		if idle != 2 {
			t.Errorf("idle %d times, want before and after the third", idle)
		}
		for _, id := range []string{first, third} {
			if len(b.votes("s", id)) != 1 {
				t.Errorf("%s has no answer", id)
			}
		}
	})
}

func TestServeLeavesOutWhatIsNotForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.ask("s", inboxtest.Spec{Who: []journal.Entitlement{{Of: []string{"bob"}}}})
		b.ask("s", inboxtest.Spec{Deadline: ahead(-time.Second)})
		b.ask("other", inboxtest.Spec{})
		answered := b.ask("s", inboxtest.Spec{Need: people(2)})
		b.answer(answered, "alice", journal.AllowOnce)
		mine := b.ask("s", inboxtest.Spec{})
		s := &script{reply: allow}
		f := s.frontend()
		f.Only = func(session string) bool { return session == "s" }
		b.serve(f)()
		b.wantAsked(s, mine)
	})
}

func TestServeWithdraws(t *testing.T) {
	for _, test := range []struct {
		name   string
		spec   inboxtest.Spec
		settle func(b *bench, id string)
		how    inbox.How
		by     string
	}{
		{"answered elsewhere", inboxtest.Spec{}, func(b *bench, id string) { b.answer(id, "bob", journal.DenyOnce) }, inbox.Answered, "bob"},
		{"withdrawn", inboxtest.Spec{}, func(b *bench, id string) { b.must(b.Withdraw(b.Context(), "s", id)) }, inbox.Withdrawn, "decider"},
		{"ended", inboxtest.Spec{}, func(b *bench, id string) { b.must(b.End(b.Context(), "s")) }, inbox.Ended, "decider"},
		{"deadline", inboxtest.Spec{Deadline: ahead(time.Hour)}, func(*bench, string) { <-time.After(2 * time.Hour) }, inbox.Lapsed, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				if !test.spec.Deadline.IsZero() {
					test.spec.Deadline = ahead(time.Hour)
				}
				id := b.ask("s", test.spec)
				s := &script{reply: untilWithdrawn}
				stop := b.serve(s.frontend())
				before := len(b.votes("s", id))
				if before != 0 || len(s.heard()) != 0 {
					t.Fatalf("it did not wait: %d votes, told %v", before, s.heard())
				}
				test.settle(b, id)
				synctest.Wait()
				stop()
				b.wantAsked(s, id)
				var settled *approver.SettledError
				if told := s.heard(); len(told) != 1 || !errors.As(told[0], &settled) || settled.How != test.how || settled.By != test.by {
					t.Errorf("told %v", told)
				}
				for _, v := range b.votes("s", id) {
					if v.By == "alice" {
						t.Error("the withdrawn prompt's answer was written")
					}
				}
			})
		})
	}
}

func TestServeEscalates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		id := b.ask("s", inboxtest.Spec{Who: []journal.Entitlement{{Of: []string{"bob"}}, {Of: []string{"alice"}, From: ahead(time.Hour)}}})
		s := &script{reply: allow}
		stop := b.serve(s.frontend())
		b.wantAsked(s)
		<-time.After(time.Hour)
		synctest.Wait()
		stop()
		b.wantAsked(s, id)
		if len(b.votes("s", id)) != 1 {
			t.Error("no answer was written")
		}
	})
}

func TestServeSkipQuitAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first, second, third := b.ask("s", inboxtest.Spec{}), b.ask("s", inboxtest.Spec{}), b.ask("s", inboxtest.Spec{})
		s := &script{}
		s.reply = func(_ context.Context, item inbox.Item) (approver.Request, error) {
			switch {
			case item.ID == first:
				return approver.Request{}, approver.ErrSkip
			case item.ID == third:
				return approver.Request{}, approver.ErrQuit
			case len(s.heard()) == 0:
				return approver.Request{Action: journal.AlwaysAllow}, nil // not offered
			}
			return approver.Request{Action: journal.DenyOnce}, nil
		}
		b.must(approver.Serve(t.Context(), b.log, b.approver("alice"), s.frontend()))
		b.wantAsked(s, first, second, second, third)
		var notOffered *approver.NotOfferedError
		if told := s.heard(); len(told) != 2 || !errors.As(told[0], &notOffered) || told[1] != nil {
			t.Errorf("told %v", told)
		}
	})
}

func TestServeEndsWithTheFrontendsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.ask("s", inboxtest.Spec{})
		broken := errors.New("the screen is gone")
		s := &script{reply: func(context.Context, inbox.Item) (approver.Request, error) { return approver.Request{}, broken }}
		if err := approver.Serve(t.Context(), b.log, b.approver("alice"), s.frontend()); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	})
}

func TestServeIsPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		present := func() bool {
			there, err := b.log.Present(t.Context(), journal.SessionChain("any"), journal.RoleApprover, time.Second)
			b.must(err)
			return there
		}
		stop := b.serve((&script{}).frontend())
		if !present() {
			t.Error("a serving frontend does not answer pings")
		}
		stop()
		synctest.Wait()
		if present() {
			t.Error("a frontend that ended answers pings")
		}
	})
}
