package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"decisionjournal/journal"
)

// TestRefusalReachesWhoWaits: and nobody else is told that it may not.
func TestRefusalReachesWhoWaits(t *testing.T) {
	const (
		own    = "journal.s.s1.agent.agent"
		create = Prefix + ".CONSUMER.CREATE." + Name
	)
	for subject, want := range map[string][]string{
		own:                           {own},
		create + ".name.journal.s.>":  {create},
		create:                        {create},
		"journal.s.s1.agent.agent2":   nil,
		"journal.s.s1.agent":          nil,
		"_INBOX.agent.agent.x.*":      {own, create},
		"_INBOX.agent.agent2.x.*":     nil,
		"presence.s1.decider.decider": nil,
	} {
		c := &conn{logger: slog.New(slog.DiscardHandler), up: true, inbox: inbox(journal.RoleAgent, "agent"), waiting: map[*waiter]struct{}{}}
		waits := map[string]context.Context{}
		for _, s := range []string{own, create} {
			ctx, done := c.watch(t.Context(), s)
			defer done()
			waits[s] = ctx
		}
		c.asyncError(fmt.Errorf("%w: Permissions Violation for Subscription to %q", nats.ErrPermissionViolation, subject))
		for s, ctx := range waits {
			refused := errors.Is(context.Cause(ctx), errRefused)
			if expected := slices.Contains(want, s); refused != expected {
				t.Errorf("%s is refused: who waits on %s is told %t, want %t", subject, s, refused, expected)
			}
		}
	}
}
