package journaltest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"decisionjournal/journal"
)

// Kind is what goes wrong in one step.
type Kind int

// The kinds of fault. Each strikes one step, and those after it if Fault.Steps
// says so; a kind that cannot strike an operation leaves it as it is.
const (
	None       Kind = iota
	LoseAck         // Publish: stored, but ErrUnknown is reported
	LoseSend        // Publish: not stored, and ErrUnknown is reported
	Conflict        // Publish: ErrConflict although the chain did not move
	Outrun          // Publish: another message is stored in the chain first
	Delay           // any: waits Fault.Delay first
	Disconnect      // any: ErrUnavailable
	CutLoad         // Load: half of the messages, then ErrUnavailable
	Duplicate       // Follow: each message comes twice
	CutFollow       // Follow: one message, then ErrUnavailable
	Refuse          // Publish: ErrRefused
	Fill            // Publish: ErrUnwritable
)

// kinds are those that EachStep tries.
var kinds = [...]Kind{LoseAck, LoseSend, Conflict, Outrun, Delay, Disconnect, CutLoad, Duplicate}

// String is the kind's name.
func (k Kind) String() string {
	return [...]string{"none", "lose-ack", "lose-send", "conflict", "outrun", "delay", "disconnect", "cut-load", "duplicate",
		"cut-follow", "refuse", "fill"}[k]
}

// Strikes reports whether the kind changes how an operation goes.
func (k Kind) Strikes(op string) bool {
	switch k {
	case LoseAck, LoseSend, Conflict, Outrun, Refuse, Fill:
		return op == OpPublish
	case CutLoad:
		return op == OpLoad
	case Duplicate, CutFollow:
		return op == OpFollow
	}
	return k != None
}

// Operations of a Log, as a plan sees them; the last four are of a [Live] one.
const (
	OpPublish = "publish"
	OpLoad    = "load"
	OpFollow  = "follow"
	OpAt      = "at"
	OpChains  = "chains"
	OpLast    = "last"
	OpHoles   = "holes"
	OpClock   = "clock"
	OpAnswer  = "answer"
	OpPing    = "ping"
	OpPresent = "present"
)

// Forever, as Fault.Steps, has the journal gone for good from the fault on.
const Forever = math.MaxInt

// Fault is one planned fault. The zero Fault is none.
type Fault struct {
	Kind  Kind
	Delay time.Duration // of Delay
	Steps int           // how many it lasts: those after the first find the journal disconnected; 0 is 1
	// Store is what Outrun stores first. Nil stores "{}" under the same subject,
	// which moves the chain and is void.
	Store func(ctx context.Context, log journal.Log, sub journal.Subject, after uint64) error
}

// Faulty is a Log that fails as planned. Steps are its calls, counted from 0 in
// the order they begin, so a caller that makes one call at a time sees the same
// faults in every run. MaxPayload is not a step. For a log that has presence and
// a clock, use [Live]. All methods may run concurrently.
type Faulty struct {
	Log  journal.Log
	Plan func(step int, op string) Fault // nil: no faults

	mu   sync.Mutex
	ops  []string // of the steps made so far
	down int      // steps for which the disconnect still lasts
	told []journal.Message

	outran []uint64
}

// Steps is the number of steps made so far.
func (f *Faulty) Steps() int { return len(f.Ops()) }

// Ops are the operations of the steps made so far.
func (f *Faulty) Ops() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ops)
}

// Told are the messages whose storing was acknowledged to the caller, as far as
// the caller knows them: subject, sequence and bytes.
func (f *Faulty) Told() []journal.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

func (f *Faulty) tell(sub journal.Subject, seq uint64, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, journal.Message{Seq: seq, Subject: sub.String(), Data: bytes.Clone(data)})
}

// next counts a step and returns its fault.
func (f *Faulty) next(op string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	step := len(f.ops)
	f.ops = append(f.ops, op)
	if f.down > 0 {
		f.down--
		return Fault{Kind: Disconnect}
	}
	if f.Plan == nil {
		return Fault{}
	}
	fault := f.Plan(step, op)
	f.down = max(fault.Steps, 1) - 1
	return fault
}

// begin counts a step and applies the faults that any operation may meet.
func (f *Faulty) begin(ctx context.Context, op string) (Fault, error) {
	fault := f.next(op)
	switch fault.Kind {
	case Disconnect:
		return fault, fmt.Errorf("%s: %w: fault injected", op, journal.ErrUnavailable)
	case Delay:
		return fault, pause(ctx, op, fault.Delay)
	}
	return fault, nil
}

func pause(ctx context.Context, op string, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: %w", op, journal.ErrUnavailable, ctx.Err())
	}
}

// Publish implements [journal.Log].
func (f *Faulty) Publish(ctx context.Context, sub journal.Subject, after uint64, data []byte) (uint64, error) {
	fault, err := f.begin(ctx, OpPublish)
	if err != nil {
		return 0, err
	}
	switch fault.Kind {
	case LoseSend:
		return 0, fmt.Errorf("publish %s: %w: fault injected", sub, journal.ErrUnknown)
	case Conflict:
		return 0, fmt.Errorf("publish %s: %w: fault injected", sub, journal.ErrConflict)
	case Refuse:
		return 0, fmt.Errorf("publish %s: %w: fault injected", sub, journal.ErrRefused)
	case Fill:
		return 0, fmt.Errorf("publish %s: %w: fault injected", sub, journal.ErrUnwritable)
	case Outrun:
		if err := f.outrun(ctx, fault, sub, after); err != nil {
			return 0, err
		}
	}
	seq, err := f.Log.Publish(ctx, sub, after, data)
	if err == nil && fault.Kind == LoseAck {
		return 0, fmt.Errorf("publish %s: %w: fault injected", sub, journal.ErrUnknown)
	}
	if err == nil {
		f.tell(sub, seq, data)
	}
	return seq, err
}

func (f *Faulty) outrun(ctx context.Context, fault Fault, sub journal.Subject, after uint64) error {
	if fault.Store != nil {
		return fault.Store(ctx, f.Log, sub, after)
	}
	seq, err := f.Log.Publish(ctx, sub, after, []byte("{}"))
	if err == nil {
		f.mu.Lock()
		f.outran = append(f.outran, seq)
		f.mu.Unlock()
	}
	return err
}

// Outran are the void messages that Outrun has stored, which no principal would.
func (f *Faulty) Outran() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.outran)
}

// Load implements [journal.Log].
func (f *Faulty) Load(ctx context.Context, chain journal.Chain, after uint64) iter.Seq2[journal.Message, error] {
	return f.load(ctx, f.Log.Load(ctx, chain, after))
}

// LoadAll implements [journal.Log]. It is an OpLoad too.
func (f *Faulty) LoadAll(ctx context.Context, after uint64) iter.Seq2[journal.Message, error] {
	return f.load(ctx, f.Log.LoadAll(ctx, after))
}

func (f *Faulty) load(ctx context.Context, load iter.Seq2[journal.Message, error]) iter.Seq2[journal.Message, error] {
	return func(yield func(journal.Message, error) bool) {
		fault, err := f.begin(ctx, OpLoad)
		if err != nil {
			yield(journal.Message{}, err)
			return
		}
		if fault.Kind != CutLoad {
			load(yield)
			return
		}
		all, err := Collect(load)
		for _, msg := range all[:len(all)/2] {
			if !yield(msg, nil) {
				return
			}
		}
		if err == nil {
			err = fmt.Errorf("load: %w: fault injected", journal.ErrUnavailable)
		}
		yield(journal.Message{}, err)
	}
}

// Follow implements [journal.Log].
func (f *Faulty) Follow(ctx context.Context, chain journal.Chain, after uint64) iter.Seq2[journal.Message, error] {
	return func(yield func(journal.Message, error) bool) {
		fault, err := f.begin(ctx, OpFollow)
		if err != nil {
			yield(journal.Message{}, err)
			return
		}
		for msg, err := range f.Log.Follow(ctx, chain, after) {
			if !yield(msg, err) {
				return
			}
			if err == nil && fault.Kind == Duplicate && !yield(copyMessage(msg), nil) {
				return
			}
			if fault.Kind == CutFollow {
				yield(journal.Message{}, fmt.Errorf("follow: %w: fault injected", journal.ErrUnavailable))
				return
			}
		}
	}
}

// At implements [journal.Log].
func (f *Faulty) At(ctx context.Context, seq uint64) (journal.Message, bool, error) {
	if _, err := f.begin(ctx, OpAt); err != nil {
		return journal.Message{}, false, err
	}
	return f.Log.At(ctx, seq)
}

// Chains implements [journal.Log].
func (f *Faulty) Chains(ctx context.Context) ([]journal.Chain, error) {
	if _, err := f.begin(ctx, OpChains); err != nil {
		return nil, err
	}
	return f.Log.Chains(ctx)
}

// Last implements [journal.Log].
func (f *Faulty) Last(ctx context.Context) (uint64, error) {
	if _, err := f.begin(ctx, OpLast); err != nil {
		return 0, err
	}
	return f.Log.Last(ctx)
}

// Holes implements [journal.Log].
func (f *Faulty) Holes(ctx context.Context) ([]uint64, error) {
	if _, err := f.begin(ctx, OpHoles); err != nil {
		return nil, err
	}
	return f.Log.Holes(ctx)
}

// MaxPayload implements [journal.Log].
func (f *Faulty) MaxPayload() int { return f.Log.MaxPayload() }

// Collect reads a Load to its end. The messages read before an error are
// returned with it.
func Collect(load iter.Seq2[journal.Message, error]) ([]journal.Message, error) {
	var all []journal.Message
	for msg, err := range load {
		if err != nil {
			return all, err
		}
		all = append(all, msg)
	}
	return all, nil
}

// Tuning of EachStep.
const (
	eachStepDelay = time.Millisecond
	eachStepLimit = 10_000 // a scenario with more steps than this never ends
)

// EachStep runs scenario again and again, each time as a subtest on a new
// Memory, with a fault of each kind at step 0, then 1, and so on, until a run
// has no step left to fail. First it runs without a fault. The scenario fails
// the test itself if what it finds afterwards in mem is not sound.
func EachStep(t *testing.T, scenario func(t *testing.T, log journal.Log, mem *Memory)) {
	t.Helper()
	run := func(name string, plan func(int, string) Fault) (steps int, ok bool) {
		ok = t.Run(name, func(t *testing.T) {
			mem := NewMemory()
			log := &Faulty{Log: mem, Plan: plan}
			scenario(t, log, mem)
			steps = log.Steps()
		})
		return steps, ok
	}
	if _, ok := run("no fault", nil); !ok {
		return
	}
	for _, kind := range kinds {
		for at := 0; ; at++ {
			steps, ok := run(fmt.Sprintf("%s at %d", kind, at), func(step int, _ string) Fault {
				if step != at {
					return Fault{}
				}
				fault := Fault{Kind: kind, Delay: eachStepDelay}
				if kind == Disconnect {
					fault.Steps = 2
				}
				return fault
			})
			if !ok || steps <= at+1 {
				break
			}
			if at == eachStepLimit {
				t.Fatalf("more than %d steps", eachStepLimit)
			}
		}
	}
}
