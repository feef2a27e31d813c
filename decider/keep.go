package decider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"decisionjournal/journal"
)

// End ends a session for good: its runs, questions, unspent allows and grants
// end with it, and its name is not used again.
func (d *Decider) End(ctx context.Context, session, reason string) error {
	st, err := journal.LoadState(ctx, d.Writer.Log(), journal.SessionChain(session))
	if err != nil {
		return err
	}
	return d.append(ctx, st, func() ([]journal.Event, error) {
		if err := appendable(st, session); err != nil {
			return nil, err
		}
		return []journal.Event{d.Writer.Event(&journal.Ended{Reason: reason})}, nil
	})
}

// appendable refuses a session that is not there or may not be appended to.
func appendable(st *journal.State, session string) error {
	switch cond, why := st.Condition(); {
	case cond == journal.Broken:
		return fmt.Errorf("session %s is %s at message %d: %s; see what is lost with replay show, then run decider repair %s", session, cond, why.Seq, why.Why, session)
	case cond == journal.TooNew:
		return fmt.Errorf("session %s is %s at message %d: %s; use the version that wrote it", session, cond, why.Seq, why.Why)
	case st.Kind() == "":
		return fmt.Errorf("there is no session %s: list them with replay sessions", session)
	case st.Ended() != nil:
		return fmt.Errorf("session %s ended at %s; its name is not used again", session, st.Ended().Time)
	}
	return nil
}

// importAgent is the agent that a session is opened by for an import alone.
const importAgent = "import"

// maxImport is how many grants go into one commit.
const maxImport = 100

// Import writes grants with an origin into a session, which is begun as kind
// if it is not there yet. A grant that the session holds in force from the
// same origin is not written twice. It returns how many were written, and
// whether the session's policy lets this decider import at all: if not, they
// have no effect under it.
func (d *Decider) Import(ctx context.Context, session string, kind journal.SessionKind, grants []journal.Grant) (written int, heeded bool, err error) {
	if err := d.Sync(ctx); err != nil {
		return 0, false, err
	}
	st, err := journal.LoadState(ctx, d.Writer.Log(), journal.SessionChain(session))
	if err != nil {
		return 0, false, err
	}
	if err := d.begin(ctx, st, kind); err != nil {
		return 0, false, err
	}
	for part := range slices.Chunk(grants, maxImport) {
		n := 0
		err := d.append(ctx, st, func() ([]journal.Event, error) {
			if err := appendable(st, session); err != nil {
				return nil, err
			}
			events := d.newGrants(st, part)
			n = len(events)
			return events, nil
		})
		if err != nil {
			return written, false, err
		}
		written += n
	}
	return written, d.heeded(st), nil
}

func (d *Decider) begin(ctx context.Context, st *journal.State, kind journal.SessionKind) error {
	return d.append(ctx, st, func() ([]journal.Event, error) {
		if st.Kind() != "" {
			return nil, nil
		}
		run := d.Writer.NewID()
		follows := ""
		if kind == journal.KindSession {
			follows = journal.DefaultPolicyName
		}
		return []journal.Event{
			d.Writer.Event(&journal.Opened{Agent: importAgent, Run: run, Kind: kind, Follows: follows}),
			d.Writer.Event(&journal.Closed{Agent: importAgent, Run: run}),
		}, nil
	})
}

func (d *Decider) newGrants(st *journal.State, grants []journal.Grant) []journal.Event {
	now := d.Writer.Now(st)
	var events []journal.Event
	for _, g := range grants {
		held := slices.ContainsFunc(st.Grants(), func(have *journal.GrantState) bool {
			return have.Origin != nil && *have.Origin == *g.Origin && have.Layer == g.Layer && have.InForce(now) &&
				slices.EqualFunc(have.Rules, g.Rules, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
		})
		if !held {
			events = append(events, d.Writer.Event(&g))
		}
	}
	return events
}

// heeded reports whether the session's policy lists this decider as importer.
// A session without a policy yet is taken to.
func (d *Decider) heeded(st *journal.State) bool {
	adopted := st.Adopted("", "")
	if adopted == nil {
		return true
	}
	pol, err := d.Policies().Get(adopted.Digest)
	return err == nil && slices.Contains(pol.Importers, d.Writer.Principal().Actor)
}

// append appends what events asks for at the head of st, again after a conflict.
func (d *Decider) append(ctx context.Context, st *journal.State, events func() ([]journal.Event, error)) error {
	for try := 0; ; try++ {
		list, err := events()
		if err != nil || len(list) == 0 {
			return err
		}
		err = d.Writer.Append(ctx, st, d.Writer.Now(st), list...)
		if !errors.Is(err, journal.ErrConflict) || try == maxConflicts {
			return err
		}
		if err := d.again(ctx, st, try); err != nil {
			return err
		}
	}
}

// Repair takes a broken chain up again from its last valid commit before the
// break, with an admin's writer, and returns the sequences it names as
// missing: a session's, or the policy chain, without which nothing is decided.
// What a newer program wrote it passes only if newer is set: that program holds
// to what it wrote, and the two go on apart. It is for messages that only claim
// to be newer.
func Repair(ctx context.Context, admin *journal.Writer, chain journal.Chain, reason string, newer bool) ([]uint64, error) {
	st, err := journal.LoadState(ctx, admin.Log(), chain)
	if err != nil {
		return nil, err
	}
	holes, err := admin.Log().Holes(ctx)
	if err != nil {
		return nil, err
	}
	cond, why := st.Condition()
	switch {
	case cond == journal.TooNew && !newer:
		return nil, fmt.Errorf("%s was written by a newer program (message %d: %s); use that version, or, if no newer program was ever used here, pass what only claims so with decider repair --newer", chain, why.Seq, why.Why)
	case cond == journal.Whole && st.LastSeq() == 0:
		return nil, fmt.Errorf("there is no session %s: list them with replay sessions", chain)
	case cond == journal.Whole:
		return nil, fmt.Errorf("%s is whole; there is nothing to repair", chain)
	}
	missing := []uint64{}
	for _, h := range holes {
		if h > st.Head() {
			missing = append(missing, h)
		}
	}
	if cond == journal.TooNew && !slices.Contains(missing, why.Seq) {
		missing = append(missing, why.Seq)
		slices.Sort(missing)
	}
	return missing, admin.AppendRepair(ctx, st, admin.Now(st), &journal.Repair{Missing: missing, Reason: reason})
}
