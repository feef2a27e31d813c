package journaltest

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"decisionjournal/journal"
)

// Live is a [Faulty] over a log that is a [journal.Presence] and [journal.Clocked]
// too, such as an embedded journal. What it is asked about those are steps as
// well: they can be delayed and disconnected.
type Live struct{ *Faulty }

// Clock implements [journal.Clocked].
func (l Live) Clock(ctx context.Context) (time.Time, error) {
	if _, err := l.begin(ctx, OpClock); err != nil {
		return time.Time{}, err
	}
	return l.Log.(journal.Clocked).Clock(ctx)
}

// Answer implements [journal.Presence].
func (l Live) Answer(ctx context.Context, sub journal.Subject, run string) error {
	if _, err := l.begin(ctx, OpAnswer); err != nil {
		return err
	}
	return l.Log.(journal.Presence).Answer(ctx, sub, run)
}

// Ping implements [journal.Presence].
func (l Live) Ping(ctx context.Context, sub journal.Subject, run string, wait time.Duration) (bool, error) {
	if _, err := l.begin(ctx, OpPing); err != nil {
		return false, err
	}
	return l.Log.(journal.Presence).Ping(ctx, sub, run, wait)
}

// Present implements [journal.Presence].
func (l Live) Present(ctx context.Context, chain journal.Chain, role journal.Role, wait time.Duration) (bool, error) {
	if _, err := l.begin(ctx, OpPresent); err != nil {
		return false, err
	}
	return l.Log.(journal.Presence).Present(ctx, chain, role, wait)
}

// Strike is one way to let a run fail.
type Strike struct {
	At    int    // the step
	Op    string // what that step did in the run that went before
	Fault Fault
}

// String names the strike.
func (s Strike) String() string {
	text := fmt.Sprintf("%s at %d %s", s.Fault.Kind, s.At, s.Op)
	if s.Fault.Steps == Forever {
		text += " for good"
	}
	return text
}

// Plan is the strike as a Faulty's plan.
func (s Strike) Plan() func(int, string) Fault {
	return func(step int, _ string) Fault {
		if step == s.At {
			return s.Fault
		}
		return Fault{}
	}
}

// Strikes yields every way to let a run fail whose steps were ops: at each step
// each kind that can strike it, and those after which the journal stays away:
// with it, with what was being sent, and with the acknowledgement alone.
func Strikes(ops []string) iter.Seq[Strike] {
	return func(yield func(Strike) bool) {
		for at, op := range ops {
			for _, fault := range strikes() {
				if fault.Kind.Strikes(op) && !yield(Strike{at, op, fault}) {
					return
				}
			}
		}
	}
}

func strikes() []Fault {
	return []Fault{
		{Kind: LoseAck}, {Kind: LoseSend}, {Kind: Conflict}, {Kind: Outrun}, {Kind: Refuse}, {Kind: Fill},
		{Kind: Delay, Delay: eachStepDelay}, {Kind: Disconnect, Steps: 2}, {Kind: CutLoad}, {Kind: Duplicate}, {Kind: CutFollow},
		{Kind: LoseAck, Steps: Forever}, {Kind: LoseSend, Steps: Forever}, {Kind: Disconnect, Steps: Forever},
	}
}

// EachStrike runs scenario as it is, and then again and again, as subtests, each
// time with a log that fails in another way. It tries every share-th of the
// Strikes of the first run's steps. The scenario puts the log before the journal
// by [Faulty.Before], and fails the test itself if what it finds is not sound.
func EachStrike(t *testing.T, share int, scenario func(t *testing.T, f *Faulty)) {
	t.Helper()
	calm := &Faulty{}
	if !t.Run("no fault", func(t *testing.T) { scenario(t, calm) }) {
		return
	}
	if calm.Steps() == 0 {
		t.Fatal("the scenario made no step")
	}
	n := 0
	for strike := range Strikes(calm.Ops()) {
		if n++; n%share != 0 {
			continue
		}
		t.Run(strike.String(), func(t *testing.T) { scenario(t, &Faulty{Plan: strike.Plan()}) })
	}
}

// Before puts the faults before a log, and what that has of presence and clock.
// A second log of the same scenario is left as it is.
func (f *Faulty) Before(log journal.Log) journal.Log {
	if f.Log != nil {
		return log
	}
	f.Log = log
	return Live{f}
}
