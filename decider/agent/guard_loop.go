package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

// waits reports whether the guard cannot move on by itself: a call waits for
// what others append, or it is not known whether a start is stored.
func (g *Guard) waits() bool {
	for t := range g.waiting {
		if t.attempt == 0 {
			return true
		}
	}
	return len(g.unsure) > 0
}

// maxIdle is how many messages are followed that no call waited for, before
// following ends: each costs the journal a read.
const maxIdle = 64

// watch follows the session while a call waits for what others append to it. A
// guard whose calls are decided at once and run follows nothing: that it lags
// behind, it learns from the first append that conflicts.
func (g *Guard) watch(ctx context.Context) {
	switch {
	case g.waits():
		g.idle = 0
		if g.feed == nil && g.failed == nil {
			g.follow(ctx)
		}
	case g.feed != nil && g.idle >= maxIdle:
		g.unfollow()
		g.feed = nil
	}
}

// follow feeds the loop with what is appended to the session from here on.
func (g *Guard) follow(ctx context.Context) {
	ctx, g.unfollow = context.WithCancel(ctx)
	feed, after := make(chan fed, 64), g.st.LastSeq()
	g.feed = feed
	go func() {
		defer close(feed)
		for m, err := range g.writer().Log().Follow(ctx, g.subject().Chain, after) {
			select {
			case feed <- fed{m, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
}

// loop owns the state: everything that reads or changes it runs here.
func (g *Guard) loop(ctx context.Context) {
	defer close(g.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		g.watch(ctx)
		timer.Reset(g.untilDeadline())
		select {
		case f, ok := <-g.feed:
			if !ok || f.err != nil {
				g.unfollow()
				g.feed = nil
				g.cut(ctx, f.err)
				continue
			}
			g.idle++
			if v, _ := g.st.Apply(f.msg); v == journal.NoEffect {
				continue // folded by the guard itself, while it appended
			}
			g.step(ctx)
		case f := <-g.todo:
			f()
		case <-timer.C:
			g.step(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// cut notes that the journal cannot be followed any more, which ends every
// wait: a call whose answer cannot arrive is not waited for in silence.
func (g *Guard) cut(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	g.failed = fmt.Errorf("the journal can no longer be followed: %w", errors.Join(err, journal.ErrUnavailable))
	for t := range g.waiting {
		if t.attempt == 0 {
			g.settle(t, faultOutcome(t.call, g.failed, "%v. The call was not made.", g.failed))
		}
	}
}

// tryAgain is after how long deciding is tried again that the journal failed.
const tryAgain = 2 * time.Second

// untilDeadline is how long the loop may sleep.
func (g *Guard) untilDeadline() time.Duration {
	if g.again {
		return tryAgain
	}
	if !g.waits() {
		return time.Hour
	}
	at := decider.NextDeadline(g.st)
	if at.IsZero() {
		return time.Hour
	}
	return max(at.Sub(g.writer().Clock()), time.Millisecond)
}

// step moves every waiting call on and decides what can be decided, until
// nothing moves: appending for one call may fold what another waits for.
func (g *Guard) step(ctx context.Context) {
	g.again = false
	for moved := true; moved; {
		before := g.st.LastSeq()
		g.advanceAll(ctx)
		if !g.waits() {
			return
		}
		err := g.retry(ctx, func(int) error { return g.takeBack(ctx) })
		if err == nil {
			err = g.decide(ctx)
		}
		if err != nil && ctx.Err() == nil {
			g.log.Warn("deciding", slog.String("session", g.cfg.Session), slog.Any("error", err))
			g.again = ofJournal(err)
		}
		moved = g.st.LastSeq() != before
	}
}

func (g *Guard) advanceAll(ctx context.Context) {
	var allowed []*Ticket
	for t := range g.waiting {
		if g.advance(t) {
			allowed = append(allowed, t)
		}
	}
	slices.SortFunc(allowed, func(a, b *Ticket) int { return strings.Compare(a.call, b.call) })
	g.release(ctx, allowed)
}

// advance looks at where the chain left a waiting call and does what is the
// guard's to do. It reports whether the call is allowed and to be released.
func (g *Guard) advance(t *Ticket) (allowed bool) {
	if t.attempt != 0 {
		return false // executing
	}
	c := g.st.Call(t.call)
	if c == nil {
		return false // not journaled yet
	}
	last := c.Last()
	switch done := c.Result(); {
	case done != nil:
		g.settle(t, g.recordedOutcome(c, done))
	case c.Withdrawn:
		g.settle(t, errorOutcome(t.call, "The call was withdrawn."))
	case g.closing:
		// Close says how it stands.
	case !fitToRun(g.st, g.run):
		g.settle(t, faultOutcome(t.call, fmt.Errorf("this run has ended: %s", g.overWhy()), "This run has ended: %s. The call was not made.", g.overWhy()))
	case last.Progress == journal.Denied:
		dec := g.st.Decision(last.Decision)
		g.settle(t, Outcome{Kind: Denied, Call: t.call, Result: errorResult(dec.Message)})
	case last.Progress == journal.Allowed && g.cfg.Provider == nil:
		g.settle(t, Outcome{Kind: Allowed, Call: t.call, Result: Result{Content: Text("Allowed. Nothing was run: there is no provider.")}})
	case last.Progress == journal.Allowed && c.Waiter == g.run:
		return true
	case last.Progress == journal.Open && last.Question != "" && g.cfg.Headless:
		g.pend(t)
	}
	return false
}

func fitToRun(st *journal.State, run string) bool {
	cond, _ := st.Condition()
	r := st.Run(run)
	return cond == journal.Whole && st.Ended() == nil && r != nil && r.Live
}

func (g *Guard) overWhy() string {
	if cond, why := g.st.Condition(); cond != journal.Whole {
		return fmt.Sprintf("the session is %s at message %d", cond, why.Seq)
	}
	if r := g.st.Run(g.run); r != nil && r.Ended != "" {
		return r.Ended
	}
	return "the session has ended"
}

// recordedOutcome is a finished call's result, as the journal has it.
func (g *Guard) recordedOutcome(c *journal.CallState, a *journal.Attempt) Outcome {
	out := Outcome{Kind: Recorded, Call: c.Mark.ID}
	out.Result = Result{Content: a.Result.Content, IsError: a.Result.Status == journal.StatusError}
	if out.Result.Content == nil {
		out.Result.Content = Text(fmt.Sprintf("The call finished; its result of %d bytes was too large to keep (digest %s).", a.Result.Size, a.Result.Digest))
	}
	return out
}

func (g *Guard) settle(t *Ticket, o Outcome) {
	delete(g.waiting, t)
	t.outcome = o
	close(t.done)
}

// pend lets a ticket come out as pending: its call waits on in the journal.
func (g *Guard) pend(t *Ticket) {
	o := Outcome{Kind: Pending, Call: t.call}
	if c := g.st.Call(t.call); c != nil {
		o.Question = c.Last().Question
	}
	o.Result = errorResult("Waiting for a person's approval. The call was not made yet. Make the same call again later: it runs once it is approved.")
	if t.attempt != 0 {
		o.Result = errorResult("The call was started and has not returned. Its outcome is unknown.")
	}
	g.settle(t, o)
}

// Question is the question a ticket's call waits for now, or "".
func (g *Guard) Question(t *Ticket) (id string) {
	g.do(func() {
		c := g.st.Call(t.call)
		if c == nil || t.attempt != 0 {
			return
		}
		if q := g.st.Question(c.Last().Question); q != nil && !q.Over {
			id = q.Mark.ID
		}
	})
	return id
}

// View is the question's view, for progress and for saying how to answer it.
func (g *Guard) View(question string) (view journal.View, ok bool) {
	g.do(func() {
		if q := g.st.Question(question); q != nil {
			var err error
			view, err = q.ReadView()
			ok = err == nil
		}
	})
	return view, ok
}
