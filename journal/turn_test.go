package journal_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"decisionjournal/journal"
)

// TestTurn: users of one writer who take turns never conflict, each on a state
// of its own.
func TestTurn(t *testing.T) {
	c := newSession(t)
	w := c.writer(dec, c.mem)
	const users, each = 8, 20
	var appending sync.WaitGroup
	for range users {
		st := fold(c.st.Chain(), messagesIn(c))
		appending.Go(func() {
			for range each {
				done, err := w.Turn(t.Context(), st)
				if err == nil {
					err = w.Append(t.Context(), st, w.Now(st), w.Event(&journal.Adopt{Digest: policyA}))
					done()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	appending.Wait()
	n := c.st.N()
	c.load()
	if got := c.st.N() - n; got != users*each {
		t.Errorf("%d commits, want %d", got, users*each)
	}
}

func TestTurnIsGivenUp(t *testing.T) {
	c := newSession(t)
	w := c.writer(dec, c.mem)
	done, err := w.Turn(t.Context(), c.st)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Turn(ctx, c.st); !errors.Is(err, journal.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("while another has it: %v", err)
	}
	done()
	if done, err = w.Turn(t.Context(), c.st); err != nil {
		t.Fatal(err)
	}
	done()
}
