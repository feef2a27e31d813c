package inbox

import (
	"context"
	"iter"
	"slices"
)

// watcher is a reader of changes. What it has not read yet is kept for it.
type watcher struct {
	first []*entry // that were open when it began to read
	queue []Change
	wake  chan struct{}
}

// tell passes changes on; the caller holds mu.
func (b *Inbox) tell(changes []Change) {
	if len(changes) == 0 {
		return
	}
	close(b.changed)
	b.changed = make(chan struct{})
	for w := range b.watchers {
		w.push(changes)
	}
}

func (w *watcher) push(changes []Change) {
	w.queue = append(w.queue, changes...)
	select {
	case w.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Watch yields an Opened for every question that is open now and then every
// change, in order, until ctx ends or the caller breaks. Changes wait in
// memory for a slow caller.
func (b *Inbox) Watch(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		w := b.subscribe()
		defer b.unsubscribe(w)
		for _, e := range w.first {
			if ctx.Err() != nil || !yield(b.openedBefore(e)) {
				return
			}
		}
		w.first = nil
		for {
			for _, c := range b.take(w) {
				if ctx.Err() != nil || !yield(c) {
					return
				}
			}
			select {
			case <-w.wake:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (b *Inbox) subscribe() *watcher {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &watcher{first: slices.Clone(b.order), wake: make(chan struct{}, 1)}
	b.watchers[w] = struct{}{}
	return w
}

// openedBefore tells of a question that was open when a watcher began. Made
// when it is read, it takes no memory before.
func (b *Inbox) openedBefore(e *entry) Change {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Change{Kind: Opened, Seq: e.q.Mark.Seq, Item: b.item(e)}
}

func (b *Inbox) unsubscribe(w *watcher) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watchers, w)
}

func (b *Inbox) take(w *watcher) []Change {
	b.mu.Lock()
	defer b.mu.Unlock()
	changes := w.queue
	w.queue = nil
	return changes
}
