package journaltest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"decisionjournal/journal"
)

type answerer struct {
	sub journal.Subject
	run string
}

// Answer implements [journal.Presence].
func (m *Memory) Answer(ctx context.Context, sub journal.Subject, run string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("answer for %s: %w: %w", sub.Actor, journal.ErrUnavailable, err)
	}
	a := &answerer{sub, run}
	m.mu.Lock()
	m.presence = append(m.presence, a)
	m.mu.Unlock()
	context.AfterFunc(ctx, func() { m.leave(a) })
	return nil
}

func (m *Memory) leave(a *answerer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.presence = slices.DeleteFunc(m.presence, func(b *answerer) bool { return a == b })
}

// Ping implements [journal.Presence].
func (m *Memory) Ping(ctx context.Context, sub journal.Subject, run string, wait time.Duration) (bool, error) {
	return m.anybody(ctx, wait, func(a *answerer) (listens, answers bool) {
		listens = a.covers(sub.Chain) && a.sub.Role == sub.Role && a.sub.Actor == sub.Actor
		return listens, listens && a.run == run
	})
}

// Present implements [journal.Presence].
func (m *Memory) Present(ctx context.Context, chain journal.Chain, role journal.Role, wait time.Duration) (bool, error) {
	return m.anybody(ctx, wait, func(a *answerer) (listens, answers bool) {
		there := a.run == "" && a.covers(chain) && a.sub.Role == role
		return there, there
	})
}

func (a *answerer) covers(chain journal.Chain) bool {
	return !a.sub.Chain.Valid() || a.sub.Chain == chain
}

// anybody waits out its time only if somebody listens who does not answer, as
// one who asks over a network has to.
func (m *Memory) anybody(ctx context.Context, wait time.Duration, ask func(*answerer) (listens, answers bool)) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("ping: %w: %w", journal.ErrUnavailable, err)
	}
	listening := false
	m.mu.Lock()
	for _, a := range m.presence {
		listens, answers := ask(a)
		if answers {
			m.mu.Unlock()
			return true, nil
		}
		listening = listening || listens
	}
	m.mu.Unlock()
	if !listening {
		return false, nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, fmt.Errorf("ping: %w: %w", journal.ErrUnavailable, ctx.Err())
	}
}
