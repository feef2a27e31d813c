package approver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
)

// What Ask may return beside an answer.
var (
	// ErrSkip leaves a question open; it is not put again in this Serve.
	ErrSkip = errors.New("skipped")
	// ErrQuit ends Serve, and leaves every question open.
	ErrQuit = errors.New("quit")
)

// Frontend is how questions reach one person in this process. Only Ask is
// required. Its functions are called one at a time.
type Frontend struct {
	// Ask shows a question and returns what the person answers. Its context
	// ends when the question needs no answer any more: its cause is then the
	// *SettledError, and what Ask returns is dropped. Other errors than ErrSkip
	// and ErrQuit end Serve.
	Ask func(ctx context.Context, item inbox.Item) (Request, error)

	// Told says how an answer went, or, with err a *SettledError, that the
	// question on show was settled elsewhere. After another error the question
	// is put again. Nil: nobody is told.
	Told func(item inbox.Item, receipt Receipt, err error)

	// Idle is called whenever there is nothing to ask. Nil: nothing is said.
	Idle func()

	// Only picks the sessions to serve. Nil: all.
	Only func(session string) bool

	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Serve puts the open questions that the writer's actor may answer to a
// frontend, one at a time, the oldest first, and answers as it says, until ctx
// ends or the frontend quits; then it returns nil. Meanwhile it answers pings
// as a connected approver, if the log can. Any number of frontends may serve
// one journal: exactly one answer to a question counts.
func Serve(ctx context.Context, log journal.Log, w *journal.Writer, f Frontend) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if f.Now == nil {
		f.Now = time.Now
	}
	if p, ok := log.(journal.Presence); ok {
		if err := p.Answer(ctx, journal.Subject{Role: w.Principal().Role, Actor: w.Principal().Actor}, ""); err != nil {
			return err
		}
	}
	s := &server{Frontend: f, w: w, box: inbox.New(log), skipped: map[Ref]bool{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.box.Run(ctx); err != nil {
			cancel(fmt.Errorf("the inbox cannot follow the journal: %w", err))
		}
	}()
	err := s.run(ctx)
	cancel(nil)
	<-done
	return err
}

type server struct {
	Frontend
	w       *journal.Writer
	box     *inbox.Inbox
	skipped map[Ref]bool
}

func (s *server) run(ctx context.Context) error {
	select {
	case <-s.box.Ready():
	case <-ctx.Done():
		return causeOf(ctx)
	}
	idle := false
	for ctx.Err() == nil {
		changed := s.box.Changed()
		item, wait := s.next()
		if wait == nil {
			idle = false
			if err := s.put(ctx, item); err != nil {
				return quiet(err)
			}
			continue
		}
		if !idle && s.Idle != nil {
			s.Idle()
		}
		idle = true
		pause(ctx, changed, *wait)
	}
	return causeOf(ctx)
}

// causeOf is why ctx ended, nil if its owner ended it.
func causeOf(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

func quiet(err error) error {
	if errors.Is(err, ErrQuit) {
		return nil
	}
	return err
}

// pause waits for a change or the end of ctx, and no longer than d unless d is 0.
func pause(ctx context.Context, changed <-chan struct{}, d time.Duration) {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-after:
	}
}

// next is the oldest question to put, or how long to wait for the next one
// that falls to this person (0: until something changes).
func (s *server) next() (inbox.Item, *time.Duration) {
	var wait time.Duration
	now := journal.At(s.Now())
	for item := range s.box.All() {
		if s.skipped[Ref{item.Session, item.ID}] || s.Only != nil && !s.Only(item.Session) || item.Expired(now) {
			continue
		}
		from, ok := item.From(s.w.Principal().Actor)
		if !ok {
			continue
		}
		left := from.Sub(now.Time)
		if left <= 0 {
			return item, nil
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return inbox.Item{}, &wait
}

// put asks one question and writes the answer. It returns the error that ends
// Serve, if any.
func (s *server) put(ctx context.Context, item inbox.Item) error {
	ref := Ref{item.Session, item.ID}
	asking, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.withdraw(asking, cancel, item)
	}()
	req, err := s.Ask(asking, item)
	settled, gone := errors.AsType[*SettledError](context.Cause(asking))
	cancel(nil)
	<-watched
	switch {
	case ctx.Err() != nil:
		return nil // run sees it
	case gone:
		s.skipped[ref] = true // the inbox may lag behind
		s.tell(item, Receipt{}, settled)
		return nil
	case errors.Is(err, ErrSkip):
		s.skipped[ref] = true
		return nil
	case err != nil:
		return err
	}
	req.Shown = item.Shown
	receipt, err := Answer(ctx, s.w, ref, req)
	if !again(err) {
		s.skipped[ref] = true
	}
	s.tell(item, receipt, err)
	return nil
}

// again reports whether a question can still be put after an error.
func again(err error) bool {
	var settled *SettledError
	return err != nil && !errors.As(err, &settled) &&
		!errors.Is(err, ErrNotEntitled) && !errors.Is(err, ErrNoQuestion) && !errors.Is(err, ErrUnfit)
}

func (s *server) tell(item inbox.Item, r Receipt, err error) {
	if s.Told != nil {
		s.Told(item, r, err)
	}
}

// withdraw ends asking once the question takes no answer any more.
func (s *server) withdraw(asking context.Context, cancel context.CancelCauseFunc, item inbox.Item) {
	for asking.Err() == nil {
		changed := s.box.Changed()
		now := journal.At(s.Now())
		if _, open := s.box.Get(item.Session, item.ID); !open {
			cancel(s.settlement(asking, item))
			return
		}
		if item.Expired(now) {
			cancel(&SettledError{item.ID, lapsed(item.Deadline)})
			return
		}
		var left time.Duration
		if !item.Deadline.IsZero() {
			left = item.Deadline.Sub(now.Time)
		}
		pause(asking, changed, left)
	}
}

// settlement reads from the journal how a question closed.
func (s *server) settlement(ctx context.Context, item inbox.Item) error {
	how, err := inbox.Settled(ctx, s.w.Log(), journal.SessionChain(item.Session), item.ID)
	if err != nil || how.How == "" {
		how = inbox.Settlement{How: inbox.Blocked, At: journal.At(s.Now()), Why: "its session takes no answers now"}
	}
	return &SettledError{item.ID, how}
}
