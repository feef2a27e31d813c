package inbox

import (
	"context"
	"maps"
	"slices"

	"decisionjournal/journal"
)

// Apply folds one message, and keeps its changes for Drain.
func Apply(b *Inbox, m journal.Message) {
	b.mu.Lock()
	if len(b.watchers) == 0 {
		b.watchers[&watcher{wake: make(chan struct{}, 1)}] = struct{}{}
	}
	b.mu.Unlock()
	if err := b.apply(context.Background(), m); err != nil {
		panic(err)
	}
}

// Forgetful has an inbox keep no state but the one used last.
func Forgetful(b *Inbox) *Inbox {
	b.recent.Budget = 1
	return b
}

// CatchUp fills an inbox, which stays as it is then.
func CatchUp(b *Inbox, ctx context.Context) error { return b.catchUp(ctx) }

// Kept is how many sessions the inbox knows, and of how many it keeps the state.
func Kept(b *Inbox) (sessions, states int) {
	for _, s := range b.sessions {
		if sessions++; s.st != nil {
			states++
		}
	}
	return sessions, states
}

// Drain are the changes since the last Drain.
func Drain(b *Inbox) []Change {
	var all []Change
	for _, w := range slices.Collect(maps.Keys(b.watchers)) {
		all = append(all, b.take(w)...)
	}
	return all
}
