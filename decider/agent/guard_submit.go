package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

// argumentRoom is what a commit needs beside a call's arguments and their
// facts, in bytes: a call may have (max payload - room) / 2 bytes of arguments.
const argumentRoom = 64 << 10

// Submit journals a batch of calls and has them judged, all under one policy.
// It returns a ticket for each, in order; what is decided to run goes to the
// provider at once, as one batch. A call that cannot be journaled comes out as
// Failed, and the others go on.
func (g *Guard) Submit(ctx context.Context, requests []Request) []*Ticket {
	tickets := make([]*Ticket, len(requests))
	for i, r := range requests {
		tickets[i] = &Ticket{Request: r, done: make(chan struct{})}
	}
	running := g.do(func() { g.submit(ctx, tickets) })
	for _, t := range tickets {
		if !running {
			t.outcome = closedOutcome()
			close(t.done)
		}
	}
	return tickets
}

func closedOutcome() Outcome {
	return errorOutcome("", "The guard is closed. The call was not made.")
}

func (g *Guard) submit(ctx context.Context, tickets []*Ticket) {
	var ready []*Ticket
	for _, t := range tickets {
		g.waiting[t] = struct{}{}
		if g.closing {
			g.settle(t, closedOutcome())
			continue
		}
		if g.failed != nil {
			g.settle(t, faultOutcome("", g.failed, "%v. The call was not made.", g.failed))
			continue
		}
		if err := g.prepare(t); err != nil {
			g.settle(t, errorOutcome("", "%v. The call was not made.", err))
			continue
		}
		ready = append(ready, t)
	}
	var started []*Ticket
	for _, part := range chunks(ready, g.writer().Log().MaxPayload()/4) {
		started = append(started, g.submitPart(ctx, part)...)
	}
	g.execute(ctx, started) // as one batch, however many commits it took
	g.step(ctx)
}

// prepare checks what can be checked without the chain.
func (g *Guard) prepare(t *Ticket) error {
	limit := (g.writer().Log().MaxPayload() - argumentRoom) / 2
	if len(t.Request.Arguments) > limit {
		return fmt.Errorf("the arguments have %d bytes, at most %d are taken", len(t.Request.Arguments), limit)
	}
	var err error
	if t.arguments, err = canonicalArguments(t.Request.Arguments); err != nil {
		return err
	}
	r := &t.Request
	if r.Tool == "" {
		return errors.New("the call names no tool")
	}
	return cmp.Or(checkText("tool", r.Tool, maxName), checkText("key", r.Key, maxName), checkText("ref", r.Ref, maxName),
		checkText("reason", r.Reason, maxText), checkText("working directory", r.CWD, maxText))
}

// The longest texts of a call that the journal takes, in bytes.
const (
	maxName = 1 << 10
	maxText = 16 << 10
)

func checkText(name, s string, limit int) error {
	switch {
	case len(s) > limit:
		return fmt.Errorf("the %s has %d bytes, at most %d are taken", name, len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("the %s is not valid UTF-8", name)
	}
	return nil
}

// chunks cuts a batch so that each part fits one commit.
func chunks(tickets []*Ticket, limit int) [][]*Ticket {
	const most = 32
	var parts [][]*Ticket
	size := 0
	for _, t := range tickets {
		n := 2*len(t.arguments) + 2*journal.MaxViewArguments
		if len(parts) == 0 || size+n > limit || len(parts[len(parts)-1]) == most {
			parts, size = append(parts, nil), 0
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], t)
		size += n
	}
	return parts
}

// submitPart puts calls into one commit: those that are new with their
// decisions, and with their starts where nothing but a rule allowed them;
// those that were there before are joined. It returns what it started.
func (g *Guard) submitPart(ctx context.Context, part []*Ticket) []*Ticket {
	started, err := g.appendPart(ctx, part)
	if err == nil {
		return started
	}
	if len(part) == 1 || !fitToRun(g.st, g.run) || ofJournal(err) {
		g.refuse(part, err)
		return nil
	}
	started = nil
	for i := range part { // something about one of them: each by itself
		started = append(started, g.submitPart(ctx, part[i:i+1])...)
	}
	return started
}

// refuse lets calls come out as Failed that could not be journaled.
func (g *Guard) refuse(part []*Ticket, err error) {
	for _, t := range part {
		if t.attempt != 0 {
			g.doubt(err, t)
		}
		t.attempt = 0
		if _, open := g.waiting[t]; open {
			g.settle(t, faultOutcome("", err, "%s. The call was not made.", g.plain(err)))
		}
	}
}

// appendPart appends the commit of submitPart and returns what it started.
func (g *Guard) appendPart(ctx context.Context, part []*Ticket) (started []*Ticket, err error) {
	err = g.retry(ctx, func(try int) error {
		started = nil // nothing is, of a try that came to nothing
		b, err := g.planned(ctx, part, try == 0)
		if err != nil || b.commit == nil {
			return err
		}
		if err := b.commit.Append(ctx); err != nil {
			return err
		}
		started = b.started
		return nil
	})
	return started, err
}

// planned is the commit to append, by the policies there are now, after all
// that is open in the session was decided.
func (g *Guard) planned(ctx context.Context, part []*Ticket, ahead bool) (*building, error) {
	if ahead {
		if b, err := g.planAhead(ctx, part); b != nil || err != nil {
			return b, err
		}
	}
	if err := g.cfg.Decider.Settle(ctx, g.st); err != nil && g.unusable(err) {
		return nil, err
	}
	in, err := g.cfg.Decider.Input(ctx, g.st)
	if err != nil {
		return nil, err
	}
	return g.plan(in, part)
}

// planAhead plans while the policy chain is read. It is nil if there is
// something to decide first, or if the policies turn out to have changed.
func (g *Guard) planAhead(ctx context.Context, part []*Ticket) (*building, error) {
	var b *building
	var problem error
	same, err := g.cfg.Decider.SyncBeside(ctx, func() {
		in, err := g.cfg.Decider.Input(ctx, g.st)
		if err != nil {
			problem = err
			return
		}
		if events, err := decider.Decide(in); len(events) == 0 && (err == nil || !g.unusable(err)) {
			b, problem = g.plan(in, part)
		}
	})
	if err != nil || !same {
		return nil, err
	}
	return b, problem
}

// ofJournal reports whether an error is the journal's, or the caller's who
// does not wait, so that no call is to blame for it.
func ofJournal(err error) bool {
	for _, target := range []error{journal.ErrUnavailable, journal.ErrUnknown, journal.ErrRefused, journal.ErrConflict,
		context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// unusable reports whether an error of deciding keeps new calls out.
func (g *Guard) unusable(err error) bool {
	return errors.Is(err, journal.ErrUnavailable) || errors.Is(err, journal.ErrUnknown) || errors.Is(err, decider.ErrPolicies) || !fitToRun(g.st, g.run)
}

func (g *Guard) plain(err error) string {
	if errors.Is(err, journal.ErrUnavailable) {
		return "The journal cannot be reached, and nothing runs without it: " + err.Error()
	}
	return err.Error()
}

// building is a commit being put together.
type building struct {
	in      decider.Input
	events  []journal.Event
	commit  *journal.Prepared // of the events; nil if there are none
	started []*Ticket
	taken   map[string]bool // calls joined in this commit
}

// plan puts the commit of some calls together, and judges it.
func (g *Guard) plan(in decider.Input, part []*Ticket) (*building, error) {
	if !fitToRun(g.st, g.run) {
		return nil, fmt.Errorf("this run has ended: %s", g.overWhy())
	}
	b := &building{in: in, taken: map[string]bool{}}
	for _, t := range part {
		if _, open := g.waiting[t]; !open {
			continue
		}
		t.attempt, t.recorded = 0, false
		if err := g.planOne(b, t); err != nil {
			return nil, err
		}
	}
	if len(b.events) == 0 {
		return b, nil
	}
	var err error
	b.commit, err = g.writer().Prepare(g.st, in.Now, b.events...)
	return b, err
}

func (g *Guard) planOne(b *building, t *Ticket) error {
	if t.Request.Key != "" {
		if c := g.st.ByKey(g.cfg.Agent, g.cfg.Layer, t.Request.Key); c != nil {
			return g.planKeyed(b, t, c)
		}
		return g.planNew(b, t)
	}
	digest, err := g.digest(b.in, t, g.adopted())
	if err != nil {
		return err
	}
	for _, c := range g.st.Alike(g.cfg.Agent, g.cfg.Layer, t.Request.Tool, digest) {
		if c.Waiter == "" && !c.Withdrawn && !c.Received && !b.taken[c.Mark.ID] {
			g.join(b, t, c)
			return nil
		}
	}
	return g.planNew(b, t)
}

func (g *Guard) adopted() string {
	if a := g.st.Adopted(g.cfg.Agent, g.cfg.Layer); a != nil {
		return a.Digest
	}
	return ""
}

// digest is the request's digest under a policy.
func (g *Guard) digest(in decider.Input, t *Ticket, policyDigest string) (string, error) {
	pol, err := in.Policies.Get(policyDigest)
	if err != nil {
		return "", err
	}
	return decider.CallDigest(pol, t.Request.Tool, t.arguments)
}

// planKeyed meets a call that its key has named before: the same call is
// joined; another in its place withdraws an unstarted one, and conflicts with
// one that was started. The rerun is digested under the policy its call was
// written under.
func (g *Guard) planKeyed(b *building, t *Ticket, c *journal.CallState) error {
	digest, err := g.digest(b.in, t, c.Policy)
	if err != nil {
		return err
	}
	if digest == c.Digest && t.Request.Tool == c.Tool {
		g.join(b, t, c)
		return nil
	}
	if c.Begun() {
		g.settle(t, errorOutcome(c.Mark.ID, "The key %q names another call already, which was started and cannot be replaced any more. Use a new id.", t.Request.Key))
		return nil
	}
	w := g.writer()
	if c.Waiter == "" {
		b.events = append(b.events, w.Event(&journal.Attach{Call: c.Mark.ID, Run: g.run}))
	}
	b.events = append(b.events, w.Event(&journal.Detach{Call: c.Mark.ID, Run: g.run, Reason: "another call stands in its place", Withdraw: true}))
	return g.planNew(b, t)
}

// join has the run wait for a call that is there already. One that has its
// result, or a denial that stands, needs no waiting.
func (g *Guard) join(b *building, t *Ticket, c *journal.CallState) {
	t.call, b.taken[c.Mark.ID] = c.Mark.ID, true
	t.recorded = c.Result() != nil
	denied := c.Last().Progress == journal.Denied && !c.Withdrawn
	if denied && t.Request.Retry && c.Waiter == g.run { // this run has its denial
		b.events = append(b.events, g.writer().Event(&journal.Detach{Call: c.Mark.ID, Run: g.run, Reason: "judged again"}),
			g.writer().Event(&journal.Attach{Call: c.Mark.ID, Run: g.run, Retry: true}))
		return
	}
	if c.Waiter != "" || t.Request.Key != "" && (t.recorded || denied && !t.Request.Retry) {
		return
	}
	b.events = append(b.events, g.writer().Event(&journal.Attach{Call: c.Mark.ID, Run: g.run, Retry: denied && t.Request.Retry}))
}

// planNew writes a new call and, in the same commit, what is decided of it.
func (g *Guard) planNew(b *building, t *Ticket) error {
	if used := g.st.ByRef(g.cfg.Agent, g.cfg.Layer, t.Request.Ref); t.Request.Ref != "" && used != nil {
		g.settle(t, errorOutcome(used.Mark.ID, "The ref %q names another call already. Use a new one.", t.Request.Ref))
		return nil
	}
	digest, err := g.digest(b.in, t, g.adopted())
	if err != nil {
		return err
	}
	r := &t.Request
	call := &journal.Call{Agent: g.cfg.Agent, Run: g.run, Layer: g.cfg.Layer, Kind: journal.CallTool, Tool: r.Tool,
		Arguments: t.arguments, Digest: digest, Key: r.Key, Ref: r.Ref, Reason: r.Reason, CWD: r.CWD}
	event := g.writer().Event(call)
	t.call = event.ID
	b.events = append(b.events, event)
	decided, err := decider.DecideCall(b.in, journal.NewCallState(*call, event.ID, g.adopted()))
	if err != nil {
		return err
	}
	b.events = append(b.events, decided...)
	if dec := ruleAllow(decided); dec != nil && g.cfg.Provider != nil {
		start := &journal.Start{Call: event.ID, Attempt: 1, Run: g.run, Decision: dec.ID, Digest: digest}
		b.events = append(b.events, g.writer().Event(start))
		t.attempt = 1
		b.started = append(b.started, t)
	}
	return nil
}

// ruleAllow is the decision among events if it allows by rules alone. One that
// spends a grant is started by itself, since the next may find it used up.
func ruleAllow(events []journal.Event) *journal.Event {
	if len(events) != 1 {
		return nil
	}
	dec, ok := events[0].Body.(*journal.Decision)
	if !ok || dec.Outcome != journal.Allow {
		return nil
	}
	for _, c := range dec.By {
		if c.Kind != journal.ByRule {
			return nil
		}
	}
	return &events[0]
}
