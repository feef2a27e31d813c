package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

// maxKept is the largest result content that the journal keeps, in bytes.
const maxKept = 1 << 20

// maxStarts is how many calls are started by one commit.
const maxStarts = 32

// release starts allowed calls whose allow this guard derives by itself and
// nothing overtook, and then executes each by itself: they were asked about, and
// one need not wait for another.
func (g *Guard) release(ctx context.Context, tickets []*Ticket) {
	for part := range slices.Chunk(tickets, maxStarts) {
		g.releasePart(ctx, part)
	}
}

func (g *Guard) releasePart(ctx context.Context, part []*Ticket) {
	started, err := g.startPart(ctx, part)
	switch {
	case err == nil:
		for i := range started {
			g.execute(ctx, started[i:i+1])
		}
	case len(part) > 1 && !ofJournal(err): // something about one of them: each by itself
		for i := range part {
			g.releasePart(ctx, part[i:i+1])
		}
	default:
		g.doubt(err, part...)
		g.fault(err, part)
	}
}

// fault lets calls come out as Failed that could not be started.
func (g *Guard) fault(err error, tickets []*Ticket) {
	for _, t := range tickets {
		g.settle(t, faultOutcome(t.call, err, "%s. The call was not started.", g.plain(err)))
	}
}

// starting is a commit that starts calls.
type starting struct {
	commit  *journal.Prepared // nil if there is nothing to start
	tickets []*Ticket
	attempt []int
}

// startPart starts calls in one commit, and returns those it started: not what
// has moved on meanwhile, of which the chain says what now.
func (g *Guard) startPart(ctx context.Context, part []*Ticket) (started []*Ticket, err error) {
	err = g.retry(ctx, func(int) error {
		started = nil
		s, err := g.startAhead(ctx, part)
		if err == nil && s == nil {
			s, err = g.startAfter(ctx, part)
		}
		if err != nil || s.commit == nil {
			return err
		}
		if err := s.commit.Append(ctx); err != nil {
			return err
		}
		g.begun(s)
		started = s.tickets
		return nil
	})
	return started, err
}

// begun notes what a stored commit started.
func (g *Guard) begun(s *starting) {
	for i, t := range s.tickets {
		t.attempt = s.attempt[i]
		g.unsure = slices.DeleteFunc(g.unsure, func(u *Ticket) bool { return u.call == t.call })
	}
}

// startAhead is the commit to append, judged while the policy chain is read. It
// is nil if there is something to decide first, or if the policies turn out to
// have changed.
func (g *Guard) startAhead(ctx context.Context, part []*Ticket) (s *starting, err error) {
	var problem error
	same, err := g.cfg.Decider.SyncBeside(ctx, func() {
		var in decider.Input
		if in, problem = g.cfg.Decider.Input(ctx, g.st); problem != nil {
			return
		}
		if events, err := decider.Decide(in); len(events) == 0 && (err == nil || !g.unusable(err)) {
			s, problem = g.prepareStarts(in, part)
		}
	})
	if err != nil || !same {
		return nil, err
	}
	return s, problem
}

// startAfter is the commit to append once all that is open was decided.
func (g *Guard) startAfter(ctx context.Context, part []*Ticket) (*starting, error) {
	if err := g.cfg.Decider.Settle(ctx, g.st); err != nil && g.unusable(err) {
		return nil, err
	}
	if err := g.cfg.Decider.Sync(ctx); err != nil {
		return nil, err
	}
	in, err := g.cfg.Decider.Input(ctx, g.st)
	if err != nil {
		return nil, err
	}
	return g.prepareStarts(in, part)
}

func (g *Guard) prepareStarts(in decider.Input, part []*Ticket) (*starting, error) {
	s, w := &starting{}, g.writer()
	var events []journal.Event
	taken := map[string]bool{} // two tickets may wait for one call
	for _, t := range part {
		c := g.st.Call(t.call)
		a := c.Last()
		if a.Progress != journal.Allowed || c.Waiter != g.run || !fitToRun(g.st, g.run) || taken[t.call] {
			continue
		}
		taken[t.call] = true
		if err := decider.Releasable(in, c); err != nil {
			return nil, err
		}
		events = append(events, w.Event(&journal.Start{Call: t.call, Attempt: a.No, Run: g.run, Decision: a.Decision, Digest: c.Digest}))
		s.tickets, s.attempt = append(s.tickets, t), append(s.attempt, a.No)
	}
	if len(events) == 0 {
		return s, nil
	}
	var err error
	s.commit, err = w.Prepare(g.st, in.Now, events...)
	return s, err
}

// doubt remembers calls whose start may be stored although appending it
// failed. They are not executed.
func (g *Guard) doubt(err error, tickets ...*Ticket) {
	if errors.Is(err, journal.ErrUnknown) {
		g.unsure = append(g.unsure, tickets...)
	}
}

// takeBack gives back the starts that turned out to be stored after all, since
// nothing was executed under them.
func (g *Guard) takeBack(ctx context.Context) error {
	w := g.writer()
	var events []journal.Event
	for _, t := range g.unsure {
		c := g.st.Call(t.call)
		if c == nil || c.Last().Progress != journal.Started || c.Last().StartRun != g.run {
			continue
		}
		events = append(events, g.gaveBack(t, resultBody(t.call, c.Last().No, g.run, notRun("not run: the start was acknowledged too late")))...)
	}
	if len(events) == 0 || !fitToRun(g.st, g.run) {
		return nil
	}
	if err := w.Append(ctx, g.st, w.Now(g.st), events...); err != nil {
		return err
	}
	g.unsure = nil
	return nil
}

// gaveBack are the events that say a ticket's start had no effect: its decision
// is unspent again, and nobody waits for it, unless another ticket does.
func (g *Guard) gaveBack(t *Ticket, notRun *journal.Result) []journal.Event {
	w := g.writer()
	events := []journal.Event{w.Event(notRun)}
	for other := range g.waiting {
		if other != t && other.call == t.call {
			return events
		}
	}
	return append(events, w.Event(&journal.Detach{Call: t.call, Run: g.run, Reason: "not run"}))
}

// execute hands started calls to the provider, as one batch, and has the loop
// record what comes back.
func (g *Guard) execute(ctx context.Context, tickets []*Ticket) {
	if len(tickets) == 0 {
		return
	}
	calls := make([]Call, len(tickets))
	for i, t := range tickets {
		calls[i] = t.Request.Call
	}
	g.running.Add(1)
	go func() {
		defer g.running.Done()
		results := Execute(ctx, g.cfg.Provider, calls)
		recorded := g.do(func() {
			for i, t := range tickets {
				g.record(context.WithoutCancel(ctx), t, results[i])
			}
			g.step(ctx)
		})
		if !recorded {
			g.keepLate(tickets, results)
		}
	}()
}

// keepLate spools results that came after Close had given them up.
func (g *Guard) keepLate(tickets []*Ticket, results []Result) {
	for i, t := range tickets {
		if err := g.spool(resultBody(t.call, t.attempt, g.run, results[i])); err != nil {
			g.log.Warn("a late result is lost", slog.String("call", t.call), slog.Any("error", err))
		}
	}
}

// record appends a result. The effect has happened, so what the journal does
// not take is returned all the same, with a warning, and spooled.
func (g *Guard) record(ctx context.Context, t *Ticket, r Result) {
	body := resultBody(t.call, t.attempt, g.run, r)
	err := g.retry(ctx, func(int) error {
		w := g.writer()
		events := []journal.Event{w.Event(body)}
		if c := g.st.Call(t.call); r.NotRun && c.Waiter == g.run && c.Last().No == t.attempt {
			events = g.gaveBack(t, body)
		}
		return w.Append(ctx, g.st, w.Now(g.st), events...)
	})
	o := Outcome{Kind: Executed, Call: t.call, Result: r}
	if err != nil {
		o.Warning = fmt.Sprintf("the call ran, but its result could not be journaled (%v)", err)
		if spoolErr := g.spool(body); spoolErr != nil {
			o.Warning += fmt.Sprintf(" nor kept (%v)", spoolErr)
		} else if g.cfg.Spool != "" {
			o.Warning += "; it is kept and appended by the next run"
		}
	}
	if _, open := g.waiting[t]; open {
		g.settle(t, o)
	}
}

func resultBody(call string, attempt int, run string, r Result) *journal.Result {
	content, err := journal.Canonical(r.Content)
	if err != nil {
		content = json.RawMessage(`""`)
	}
	body := &journal.Result{Call: call, Attempt: attempt, Run: run, Status: journal.StatusOK,
		Size: uint64(len(content)), Digest: journal.Digest(content)}
	switch {
	case r.NotRun:
		body.Status = journal.StatusNotRun
	case r.Unknown:
		body.Status = journal.StatusUnknown
	case r.IsError:
		body.Status = journal.StatusError
	}
	if len(content) <= maxKept {
		body.Content = content
	}
	return body
}
