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

// release starts an allowed call, if this guard derives the allow by itself
// and nothing overtook it, and then executes it.
func (g *Guard) release(ctx context.Context, t *Ticket) {
	err := g.retry(ctx, func(int) error { return g.start(ctx, t) })
	switch {
	case errors.Is(err, errMoved):
		return // the chain says what now; the loop looks again
	case err != nil:
		g.doubt(err, t)
		g.settle(t, faultOutcome(t.call, err, "%s. The call was not started.", g.plain(err)))
		return
	}
	g.execute(ctx, []*Ticket{t})
}

// errMoved: the call is not an unspent allow of this run any more.
var errMoved = errors.New("the call moved on")

func (g *Guard) start(ctx context.Context, t *Ticket) error {
	commit, err := g.startAhead(ctx, t)
	if err == nil && commit == nil {
		commit, err = g.startAfter(ctx, t)
	}
	if err != nil {
		return err
	}
	attempt := g.st.Call(t.call).Last().No
	if err := commit.Append(ctx); err != nil {
		return err
	}
	t.attempt = attempt
	g.unsure = slices.DeleteFunc(g.unsure, func(u *Ticket) bool { return u.call == t.call })
	return nil
}

// startAhead is the start to append, judged while the policy chain is read. It
// is nil if there is something to decide first, or if the policies turn out to
// have changed.
func (g *Guard) startAhead(ctx context.Context, t *Ticket) (commit *journal.Prepared, err error) {
	var problem error
	same, err := g.cfg.Decider.SyncBeside(ctx, func() {
		var in decider.Input
		if in, problem = g.cfg.Decider.Input(ctx, g.st); problem != nil {
			return
		}
		if events, err := decider.Decide(in); len(events) == 0 && (err == nil || !g.unusable(err)) {
			commit, problem = g.prepareStart(t, func(c *journal.CallState) error { return decider.Releasable(in, c) })
		}
	})
	if err != nil || !same {
		return nil, err
	}
	return commit, problem
}

// startAfter is the start to append once all that is open was decided.
func (g *Guard) startAfter(ctx context.Context, t *Ticket) (*journal.Prepared, error) {
	if err := g.cfg.Decider.Settle(ctx, g.st); err != nil && g.unusable(err) {
		return nil, err
	}
	return g.prepareStart(t, func(*journal.CallState) error { return g.cfg.Decider.Releasable(ctx, g.st, t.call) })
}

func (g *Guard) prepareStart(t *Ticket, releasable func(*journal.CallState) error) (*journal.Prepared, error) {
	c := g.st.Call(t.call)
	a := c.Last()
	if a.Progress != journal.Allowed || c.Waiter != g.run || !fitToRun(g.st, g.run) {
		return nil, errMoved
	}
	if err := releasable(c); err != nil {
		return nil, err
	}
	w := g.writer()
	start := &journal.Start{Call: t.call, Attempt: a.No, Run: g.run, Decision: a.Decision, Digest: c.Digest}
	return w.Prepare(g.st, w.Now(g.st), w.Event(start))
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
