package approver

import (
	"context"
	"errors"
	"fmt"

	"decisionjournal/journal"
)

// ErrNoGrant: no session has such a grant.
var ErrNoGrant = errors.New("no such grant")

// Revoke puts a grant out of force, from the next start on, everywhere. Session
// "" searches all of them. It returns the session. Errors: ErrNoGrant,
// ErrNotEntitled, ErrUnfit, those of a Log, and one that says why a grant is
// out of force already.
func Revoke(ctx context.Context, w *journal.Writer, session, grant, reason string) (string, error) {
	st, err := sessionOfGrant(ctx, w.Log(), session, grant)
	if err != nil {
		return "", err
	}
	for try := 0; ; try++ {
		if err := revocable(st, w, grant); err != nil {
			return "", err
		}
		err := w.Append(ctx, st, w.Now(st), w.Event(&journal.Revoke{Grant: grant, Reason: reason}))
		if !errors.Is(err, journal.ErrConflict) || try == maxRevokeTries {
			return st.Chain().Session(), err
		}
		if err := errors.Join(w.Pause(ctx, try), journal.Refresh(ctx, w.Log(), st)); err != nil {
			return "", err
		}
	}
}

const maxRevokeTries = 100

func sessionOfGrant(ctx context.Context, log journal.Log, session, grant string) (*journal.State, error) {
	chains := []journal.Chain{journal.SessionChain(session)}
	if session == "" {
		var err error
		if chains, err = log.Chains(ctx); err != nil {
			return nil, err
		}
	}
	for _, c := range chains {
		if c.IsPolicy() {
			continue
		}
		st, err := journal.LoadState(ctx, log, c)
		if err != nil {
			return nil, err
		}
		if st.Grant(grant) != nil {
			return st, nil
		}
	}
	return nil, fmt.Errorf("%w: %s; list them with decider grants", ErrNoGrant, grant)
}

func revocable(st *journal.State, w *journal.Writer, grant string) error {
	if cond, why := st.Condition(); cond != journal.Whole {
		return fmt.Errorf("%w: session %s is %s at message %d: run decider repair", ErrUnfit, st.Chain(), cond, why.Seq)
	}
	g, now := st.Grant(grant), w.Now(st)
	if standing := g.Standing(now); standing != "in force" {
		return fmt.Errorf("grant %s is not in force (%s); there is nothing to revoke", grant, standing)
	}
	if q := st.Question(g.Question); q != nil && !q.Entitled(w.Principal().Actor, now) {
		return fmt.Errorf("%w: %s could not have answered the question of grant %s; ask who could", ErrNotEntitled, w.Principal().Actor, grant)
	}
	return nil
}
