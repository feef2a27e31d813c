package agent_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"decisionjournal/decider/agent"
	"decisionjournal/journal"
)

// witness is a provider that remembers what it executed. The effect of a call
// is having been counted.
type witness struct {
	mu     sync.Mutex
	counts map[string]int
	total  int
	// before is called before the effect and after once it is done; nil:
	// nothing. A result with content replaces what would come next.
	before func(agent.Call) agent.Result
	after  func(context.Context, agent.Call) agent.Result
}

func (*witness) Tools(context.Context) ([]agent.Tool, error) { return nil, nil }

func (w *witness) Execute(ctx context.Context, calls []agent.Call) []agent.Result {
	out := make([]agent.Result, len(calls))
	for i, c := range calls {
		out[i] = w.one(ctx, c)
	}
	return out
}

func (w *witness) one(ctx context.Context, c agent.Call) agent.Result {
	w.mu.Lock()
	before, after := w.before, w.after
	w.mu.Unlock()
	if before != nil {
		if r := before(c); r.Content != nil {
			return r
		}
	}
	n := w.effect(c)
	if after != nil {
		if r := after(ctx, c); r.Content != nil {
			return r
		}
	}
	return agent.Result{Content: agent.Text(fmt.Sprintf("%s ran, effect %d", c.Tool, n))}
}

func (w *witness) effect(c agent.Call) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.counts[identity(c)]++
	w.total++
	return w.total
}

func identity(c agent.Call) string { return c.Tool + " " + string(c.Arguments) }

func (w *witness) count(c agent.Call) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[identity(c)]
}

// stopper makes the witness stop at its first call, before or after the effect.
type stopper struct {
	reached chan struct{}
	goOn    chan struct{}
	stopped atomic.Bool
}

func newStopper() *stopper {
	return &stopper{reached: make(chan struct{}), goOn: make(chan struct{})}
}

func (s *stopper) stop() {
	if s.stopped.CompareAndSwap(false, true) {
		close(s.reached)
		<-s.goOn
	}
}

func (w *witness) stopBefore(s *stopper) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = func(agent.Call) agent.Result { s.stop(); return agent.Result{} }
}

func (w *witness) stopAfter(s *stopper) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = func(context.Context, agent.Call) agent.Result { s.stop(); return agent.Result{} }
}

func (w *witness) returns(r agent.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = func(context.Context, agent.Call) agent.Result { return r }
}

// wrote reports whether a commit has an event of a type.
func wrote(data []byte, kind journal.Type) bool {
	c, err := journal.Decode(data)
	return err == nil && slices.ContainsFunc(c.Events, func(e journal.Event) bool { return e.Body.Type() == kind })
}
