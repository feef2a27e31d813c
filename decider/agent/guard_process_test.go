package agent_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"decisionjournal/journal"
)

// process is a guard's way to the journal, and dies with it: after kill nothing
// is written, read or answered any more.
type process struct {
	journal.Log
	w *world

	ctx  context.Context
	kill context.CancelFunc

	mu     sync.Mutex
	muted  bool                                // it lives and does not answer, as one that is paused
	blank  bool                                // it can read nothing
	before func(journal.Subject, []byte) error // nil: nothing
	after  func(journal.Subject, []byte) error
	cut    func() // ends what it follows
	cutOff bool   // what it follows first is cut at once
	begun  int    // how often it began to follow
	ended  int    // and ended
}

func (w *world) process() *process {
	p := &process{Log: w.log(journal.RoleDecider), w: w}
	p.ctx, p.kill = context.WithCancel(context.Background())
	w.Cleanup(p.kill)
	return p
}

func (p *process) dead() error {
	if p.ctx.Err() != nil {
		return fmt.Errorf("the process is dead: %w", journal.ErrUnavailable)
	}
	return nil
}

// blind lets the process read nothing, or lets it read again.
func (p *process) blind(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blank = on
}

func (p *process) readable() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blank {
		return fmt.Errorf("nothing can be read: %w", journal.ErrUnavailable)
	}
	return p.dead()
}

// failing reports whether a test may make the journal fail for the process.
func (p *process) failing() bool {
	before, after := p.hooks()
	return before != nil || after != nil || p.readable() != nil
}

func (p *process) hooks() (before, after func(journal.Subject, []byte) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.before, p.after
}

// on sets what happens before and after each publish; either may be nil.
func (p *process) on(before, after func(journal.Subject, []byte) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before, p.after = before, after
}

func (p *process) Publish(ctx context.Context, sub journal.Subject, after uint64, data []byte) (uint64, error) {
	before, then := p.hooks()
	if before != nil {
		if err := before(sub, data); err != nil {
			return 0, err
		}
	}
	if err := p.dead(); err != nil {
		return 0, err
	}
	seq, err := p.Log.Publish(ctx, sub, after, data)
	if err == nil && then != nil {
		if err := then(sub, data); err != nil {
			return 0, err
		}
	}
	return seq, err
}

func (p *process) Load(ctx context.Context, chain journal.Chain, after uint64) iter.Seq2[journal.Message, error] {
	if err := p.readable(); err != nil {
		return func(yield func(journal.Message, error) bool) { yield(journal.Message{}, err) }
	}
	return p.Log.Load(ctx, chain, after)
}

func (p *process) LoadAll(ctx context.Context, after uint64) iter.Seq2[journal.Message, error] {
	if err := p.readable(); err != nil {
		return func(yield func(journal.Message, error) bool) { yield(journal.Message{}, err) }
	}
	return p.Log.LoadAll(ctx, after)
}

func (p *process) Follow(ctx context.Context, chain journal.Chain, after uint64) iter.Seq2[journal.Message, error] {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(p.ctx, cancel)
	p.mu.Lock()
	p.cut = cancel
	if p.cutOff {
		cancel()
	}
	p.begun++
	p.mu.Unlock()
	return func(yield func(journal.Message, error) bool) {
		defer p.endFollow()
		p.Log.Follow(ctx, chain, after)(yield)
	}
}

func (p *process) endFollow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
}

// followed is how often the process began to follow, and whether it does now.
func (p *process) followed() (times int, now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun, p.begun > p.ended
}

// unfollow ends what the process follows, as a connection lost for good does.
func (p *process) unfollow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut == nil { // it has not begun to follow yet
		p.cutOff = true
		return
	}
	p.cut()
}

func (p *process) Answer(ctx context.Context, sub journal.Subject, run string) error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.w.there == nil {
		p.w.there = map[string]*process{}
	}
	p.w.there[run] = p
	context.AfterFunc(ctx, p.kill)
	return nil
}

// mute ends the process's presence.
func (p *process) mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.muted = true
}

func (p *process) answers() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.muted && p.ctx.Err() == nil
}

func (p *process) Ping(ctx context.Context, sub journal.Subject, run string, wait time.Duration) (bool, error) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	there := p.w.there[run]
	return there != nil && there.answers(), ctx.Err()
}

func (p *process) Present(context.Context, journal.Chain, journal.Role, time.Duration) (bool, error) {
	return false, p.ctx.Err()
}
