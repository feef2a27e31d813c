package inbox

import (
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
	b.apply(m)
}

// Drain are the changes since the last Drain.
func Drain(b *Inbox) []Change {
	var all []Change
	for _, w := range slices.Collect(maps.Keys(b.watchers)) {
		all = append(all, b.take(w)...)
	}
	return all
}
