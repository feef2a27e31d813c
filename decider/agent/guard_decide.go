package agent

import (
	"context"
	"errors"
	"slices"
	"strings"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

// decide decides what is open in the session, and starts in the same commit the
// calls that wait here and that it allows: so an answer is one append away from
// the call it lets run.
func (g *Guard) decide(ctx context.Context) error {
	return g.retry(ctx, func(try int) error {
		if try > 0 {
			return g.cfg.Decider.Settle(ctx, g.st)
		}
		s, err := g.decideAhead(ctx)
		if err != nil || s != nil && s.commit == nil {
			return err
		}
		if s != nil {
			err = g.appendStarts(ctx, s)
			if err == nil || errors.Is(err, journal.ErrConflict) || errors.Is(err, journal.ErrUnknown) {
				return err
			}
		}
		return g.cfg.Decider.Settle(ctx, g.st) // what is decided is one thing, and its start another
	})
}

// appendStarts appends a commit that may start calls, and has them executed.
func (g *Guard) appendStarts(ctx context.Context, s *starting) error {
	err := s.commit.Append(ctx)
	if errors.Is(err, journal.ErrUnknown) {
		g.doubt(err, s.tickets...)
		g.fault(err, s.tickets)
	}
	if err != nil {
		return err
	}
	g.begun(s)
	for i := range s.tickets { // each by itself: one need not wait for another
		g.execute(ctx, s.tickets[i:i+1])
	}
	return nil
}

// decideAhead is the next commit of what is to be decided, put together while
// the policy chain is read; without a commit there is nothing. It is nil if the
// policies turn out to have changed, or if the decisions and the starts do not
// go together.
func (g *Guard) decideAhead(ctx context.Context) (*starting, error) {
	s := &starting{}
	var problem error
	same, err := g.cfg.Decider.SyncBeside(ctx, func() {
		var in decider.Input
		if in, problem = g.cfg.Decider.Input(ctx, g.st); problem != nil {
			return
		}
		var events []journal.Event
		if events, problem = decider.Decide(in); len(events) > 0 {
			s, problem = g.withStarts(in, events), nil
		}
	})
	if err != nil || !same {
		return nil, err
	}
	return s, problem
}

// withStarts is the commit of decisions, with the starts of those calls that
// wait here and may be started with their decision; nil if it is not valid.
func (g *Guard) withStarts(in decider.Input, events []journal.Event) *starting {
	s := &starting{}
	waiting := g.startable()
	for _, e := range slices.Clone(events) {
		dec, ok := e.Body.(*journal.Decision)
		if !ok || waiting[dec.Call] == nil || len(s.tickets) == maxStarts || !decider.Startable(in, dec) {
			continue
		}
		start := &journal.Start{Call: dec.Call, Attempt: dec.Attempt, Run: g.run, Decision: e.ID, Digest: dec.Digest}
		events = append(events, g.writer().Event(start))
		s.tickets, s.attempt = append(s.tickets, waiting[dec.Call]), append(s.attempt, dec.Attempt)
	}
	commit, err := g.writer().Prepare(g.st, in.Now, events...)
	if err != nil {
		return nil
	}
	s.commit = commit
	return s
}

// startable are the tickets that wait for calls this guard may start, by call:
// one of each.
func (g *Guard) startable() map[string]*Ticket {
	list := map[string]*Ticket{}
	if g.closing || g.cfg.Provider == nil || !fitToRun(g.st, g.run) {
		return list
	}
	for t := range g.waiting {
		c := g.st.Call(t.call)
		if t.attempt != 0 || c == nil || c.Waiter != g.run {
			continue
		}
		if have := list[t.call]; have == nil || strings.Compare(t.Request.ID, have.Request.ID) < 0 {
			list[t.call] = t
		}
	}
	return list
}
