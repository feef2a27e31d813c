package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"decisionjournal/approver"
	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
)

// batchRun is one pass over a batch.
type batchRun struct {
	app     *app
	options runOptions
	tools   map[string]bool // that the provider has; nil without one
	guard   *agent.Guard
	journal *cli.Journal

	places  []*place
	printed int
	fresh   bool   // some call was not finished before this run
	blocked string // with --in-order, the question that holds up the rest
	fault   error  // the journal or provider failed
	told    map[string]bool
}

// place is one line of the batch and what became of it.
type place struct {
	id, tool string
	ticket   *agent.Ticket // nil for a line that could not be read or was not reached
	outcome  agent.Outcome
	done     bool
}

// closeWait is how long leaving waits for calls under way and the journal.
const closeWait = 30 * time.Second

func (b *batchRun) run(ctx context.Context, lines iter.Seq[agent.Line]) error {
	b.told = map[string]bool{}
	ask, stopAsking := b.askHere(ctx)
	b.submitAll(ctx, lines)
	b.awaitAnswers(ctx, ask)
	stopAsking()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	closeErr := b.guard.Close(closing)
	printErr := b.print()
	switch {
	case b.fault != nil:
		return b.fault
	case closeErr != nil:
		return closeErr
	case printErr != nil:
		return printErr
	}
	return b.leave(closing)
}

// submitAll puts the batch's groups to the guard one after the other. What is
// decided runs before the next group; what is asked is left to settle.
func (b *batchRun) submitAll(ctx context.Context, lines iter.Seq[agent.Line]) {
	for group := range groups(lines) {
		places, requests := b.requests(group)
		b.places = append(b.places, places...)
		if b.blocked != "" || b.away() || ctx.Err() != nil {
			b.unreached(places)
			continue
		}
		tickets := b.guard.Submit(ctx, requests)
		for _, p := range places {
			if !p.done {
				p.ticket, tickets = tickets[0], tickets[1:]
			}
		}
		for _, p := range places {
			b.await(ctx, p)
		}
	}
}

// groups gathers lines that came in one array.
func groups(lines iter.Seq[agent.Line]) iter.Seq[[]agent.Line] {
	return func(yield func([]agent.Line) bool) {
		var group []agent.Line
		for l := range lines {
			if len(group) > 0 && group[0].Group != l.Group {
				if !yield(group) {
					return
				}
				group = nil
			}
			group = append(group, l)
		}
		if len(group) > 0 {
			yield(group)
		}
	}
}

func (b *batchRun) requests(group []agent.Line) (places []*place, requests []agent.Request) {
	for _, l := range group {
		p := &place{id: l.Call.ID, tool: l.Call.Tool}
		places = append(places, p)
		if l.Err != nil {
			text := fmt.Sprintf("The call cannot be read: %v.", l.Err)
			p.outcome, p.done = agent.Outcome{Result: agent.Result{Content: agent.Text(text), IsError: true}}, true
			continue
		}
		if b.tools != nil && !b.tools[l.Call.Tool] {
			p.outcome, p.done = b.noTool(l.Call.Tool), true
			continue
		}
		r := agent.Request{Call: l.Call, Retry: b.options.retryDenied}
		if b.options.batch != "" {
			r.Key = b.options.batch + "/" + l.Call.ID
		}
		requests = append(requests, r)
	}
	return places, requests
}

// noTool is a call that could not run whatever was decided: nobody is asked
// about it.
func (b *batchRun) noTool(name string) agent.Outcome {
	text := fmt.Sprintf("There is no tool %q here. The tools are %s.", name, strings.Join(slices.Sorted(maps.Keys(b.tools)), ", "))
	b.fresh = true
	return agent.Outcome{Result: agent.Result{Content: agent.Text(text), IsError: true}}
}

// away reports whether the journal did not take a call for as long as one is
// tried: the rest of the batch is not tried, each as long, one after the other.
func (b *batchRun) away() bool { return errors.Is(b.fault, journal.ErrUnavailable) }

// unreached gives calls their result that were never put to the guard.
func (b *batchRun) unreached(places []*place) {
	for _, p := range places {
		if p.done {
			continue
		}
		o := agent.Outcome{Kind: agent.Pending, Question: b.blocked}
		why := "an earlier call of this batch waits for a person"
		switch {
		case b.blocked != "":
		case b.away():
			why = "the journal is not available"
		default:
			why = "the batch was interrupted"
		}
		o.Result = agent.Result{Content: agent.Text("Not judged yet: " + why + "."), IsError: true}
		p.outcome, p.done, b.fresh = o, true, true
	}
}

// await waits for a call that is decided to have its result. A call that
// waits for a person is only waited for with --in-order.
func (b *batchRun) await(ctx context.Context, p *place) {
	defer b.collect()
	if p.done {
		return
	}
	question := b.guard.Question(p.ticket)
	if question == "" {
		select {
		case <-p.ticket.Done():
		case <-ctx.Done():
		}
		return
	}
	b.tell(ctx, question)
	if !b.options.inOrder {
		return
	}
	wait, cancel := b.patience(ctx)
	defer cancel()
	select {
	case <-p.ticket.Done():
		if o := p.ticket.Outcome(); o.Kind == agent.Pending {
			b.blocked = o.Question
		}
	case <-wait.Done():
		b.blocked = question
	}
}

// patience is how long a person is waited for: at a terminal until they
// leave, else --wait.
func (b *batchRun) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if b.app.atTerminal(b.options) {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, b.options.wait)
}

// awaitAnswers waits for the calls that are still open.
func (b *batchRun) awaitAnswers(ctx context.Context, asking <-chan struct{}) {
	wait, cancel := b.patience(ctx)
	defer cancel()
	for _, p := range b.places {
		if p.done {
			continue
		}
		select {
		case <-p.ticket.Done():
		case <-wait.Done():
			return
		case <-asking:
			return
		}
		b.collect()
	}
}

// collect takes over what is settled and prints what is next in order.
func (b *batchRun) collect() {
	if err := b.print(); err != nil && b.fault == nil {
		b.fault = err
	}
}

func (p *place) settle() bool {
	if p.done || p.ticket == nil {
		return p.done
	}
	select {
	case <-p.ticket.Done():
		p.outcome, p.done = p.ticket.Outcome(), true
	default:
	}
	return p.done
}

// print writes the results that are due, in the batch's order.
func (b *batchRun) print() error {
	for b.printed < len(b.places) {
		p := b.places[b.printed]
		if !p.settle() {
			return nil
		}
		b.printed++
		b.fresh = b.fresh || p.outcome.Kind != agent.Recorded && p.outcome.Kind != agent.Denied
		if p.outcome.Err != nil && b.fault == nil {
			b.fault = p.outcome.Err
		}
		if p.outcome.Warning != "" {
			b.app.Notice("warning: %s: %s", approver.Visible(p.id), p.outcome.Warning)
			b.fault = errors.Join(b.fault, errors.New(p.outcome.Warning))
		}
		if err := b.printOne(p); err != nil {
			return err
		}
	}
	return nil
}

func (b *batchRun) printOne(p *place) error {
	o := p.outcome
	if b.options.json {
		return agent.WriteResult(b.app.Out, agent.ToolMessage{ToolCallID: p.id, Content: o.Result.Content, IsError: o.Result.IsError, Pending: o.Question})
	}
	return b.app.Printf("%s\n", readable(p))
}

// leave says what is left, and how to go on.
func (b *batchRun) leave(ctx context.Context) error {
	pending := map[string]bool{}
	for _, p := range b.places {
		if p.outcome.Kind == agent.Pending {
			pending[p.outcome.Question] = true
		}
	}
	if len(pending) == 0 {
		if b.finishedBefore(ctx) {
			b.app.Notice("every call of this batch was finished before, and nothing was run; to run it afresh, name another --session")
		}
		return nil
	}
	for _, p := range b.places {
		if q := p.outcome.Question; q != "" && pending[q] {
			delete(pending, q)
			b.app.Notice("waiting: %s %s; answer with: %s", approver.Visible(p.id), approver.Visible(p.tool), b.answerCommand(q))
		}
	}
	b.app.Notice("then run the same command again")
	return errPending
}

// finishedBefore reports whether this run found every call with its result or
// its denial. Of a denial only the record tells when it was made.
func (b *batchRun) finishedBefore(ctx context.Context) bool {
	if b.fresh || len(b.places) == 0 {
		return false
	}
	st, err := journal.LoadState(ctx, b.journal.Log, journal.SessionChain(b.options.session))
	if err != nil || st.Run(b.guard.Run()) == nil {
		return false
	}
	began := st.Run(b.guard.Run()).Mark.N
	for _, p := range b.places {
		c := st.Call(p.outcome.Call)
		if c == nil || p.outcome.Kind == agent.Denied && st.Decision(c.Last().Decision).Mark.N >= began {
			return false
		}
	}
	return true
}

func (b *batchRun) answerCommand(question string) string {
	return fmt.Sprintf("approver --journal %s answer %s allow-once", quoted(b.app.Dir), question)
}

// quoted is s as one word of a shell.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@", r))
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// presenceWait is how long connected approvers may take to say so.
const presenceWait = 200 * time.Millisecond

// tell says once that a question is open, and whether anybody is there to see it.
func (b *batchRun) tell(ctx context.Context, question string) {
	if b.told[question] || b.app.atTerminal(b.options) {
		return
	}
	b.told[question] = true
	if b.options.wait == 0 {
		return // leave says it
	}
	there, err := b.journal.Handle.Present(ctx, journal.SessionChain(b.options.session), journal.RoleApprover, presenceWait)
	who := "no approver is connected"
	if err == nil && there {
		who = "an approver is connected"
	}
	b.app.Notice("waiting for an answer to %s (%s); answer with: %s", question, who, b.answerCommand(question))
}

// askHere puts the session's questions to the person at this terminal, beside
// all other frontends. The channel is closed when that person leaves.
func (b *batchRun) askHere(ctx context.Context) (<-chan struct{}, func()) {
	if !b.app.atTerminal(b.options) {
		return nil, func() {}
	}
	left := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	var once sync.WaitGroup
	once.Add(1)
	go func() {
		defer once.Done()
		defer close(left)
		if err := b.servePrompt(ctx); err != nil && ctx.Err() == nil {
			b.app.Notice("asking here ended: %v", err)
		}
	}()
	return left, func() { cancel(); once.Wait() }
}

func (b *batchRun) servePrompt(ctx context.Context) error {
	log, actor, err := b.journal.As(ctx, journal.RoleApprover)
	if err != nil {
		return err
	}
	w, err := b.app.Writer(log, journal.RoleApprover, actor)
	if err != nil {
		return err
	}
	f := approver.NewPrompt(b.app.In, b.app.Errs).Frontend()
	f.Only = func(session string) bool { return session == b.options.session }
	f.Idle = nil
	return approver.Serve(ctx, log, w, f)
}
