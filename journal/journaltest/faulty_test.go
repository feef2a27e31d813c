package journaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"decisionjournal/journal"
)

var faultySub = journal.Subject{Chain: session("s1"), Role: journal.RoleDecider, Actor: "decider"}

// TestFaultyPublish: what each kind of fault reports, and what is stored.
func TestFaultyPublish(t *testing.T) {
	for _, c := range []struct {
		kind   Kind
		want   error
		stored int
	}{
		{None, nil, 1},
		{LoseAck, journal.ErrUnknown, 1},
		{LoseSend, journal.ErrUnknown, 0},
		{Conflict, journal.ErrConflict, 0},
		{Outrun, journal.ErrConflict, 1},
		{Delay, nil, 1},
		{Disconnect, journal.ErrUnavailable, 0},
		{CutLoad, nil, 1},
		{Duplicate, nil, 1},
	} {
		mem := NewMemory()
		f := &Faulty{Log: mem, Plan: func(int, string) Fault { return Fault{Kind: c.kind} }}
		_, err := f.Publish(t.Context(), faultySub, 0, []byte("x"))
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, want %v", c.kind, err, c.want)
		}
		if got := len(mem.Messages()); got != c.stored {
			t.Errorf("%s: %d stored, want %d", c.kind, got, c.stored)
		}
	}
}

func TestFaultyReads(t *testing.T) {
	mem := NewMemory()
	for i := range 4 {
		if _, err := mem.Publish(t.Context(), faultySub, uint64(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	f := &Faulty{Log: mem, Plan: func(step int, op string) Fault {
		switch {
		case op == OpLoad && step == 0:
			return Fault{Kind: CutLoad}
		case op == OpFollow:
			return Fault{Kind: Duplicate}
		case op == OpLast:
			return Fault{Kind: Disconnect, Steps: 3}
		}
		return Fault{}
	}}
	if all, err := Collect(f.Load(t.Context(), faultySub.Chain, 0)); len(all) != 2 || !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("cut load: %d, %v", len(all), err)
	}
	var seqs []uint64
	for m, err := range f.Follow(t.Context(), faultySub.Chain, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seqs = append(seqs, m.Seq); len(seqs) == 4 {
			break
		}
	}
	if fmt.Sprint(seqs) != "[1 1 2 2]" {
		t.Errorf("duplicates: %v", seqs)
	}
	_, last := f.Last(t.Context())
	_, chains := f.Chains(t.Context())
	_, holes := f.Holes(t.Context())
	for _, err := range []error{last, chains, holes} {
		if !errors.Is(err, journal.ErrUnavailable) {
			t.Errorf("while disconnected: %v", err)
		}
	}
	if _, err := f.Chains(t.Context()); err != nil || f.Steps() != 6 {
		t.Errorf("after the disconnect: %v, %d steps", err, f.Steps())
	}
}

func TestFaultyDelayEndsWithItsContext(t *testing.T) {
	f := &Faulty{Log: NewMemory(), Plan: func(int, string) Fault { return Fault{Kind: Delay, Delay: time.Hour} }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Last(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestEachStep: every kind strikes every step of a scenario that gets by.
func TestEachStep(t *testing.T) {
	struck := map[Kind]map[int]bool{}
	runs := 0
	EachStep(t, func(t *testing.T, log journal.Log, mem *Memory) {
		runs++
		f := log.(*Faulty)
		plan := f.Plan
		f.Plan = func(step int, op string) Fault {
			if plan == nil {
				return Fault{}
			}
			fault := plan(step, op)
			if struck[fault.Kind] == nil {
				struck[fault.Kind] = map[int]bool{}
			}
			struck[fault.Kind][step] = true
			return fault
		}
		for i := range 2 {
			if err := settle(t.Context(), log, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		found := 0
		for _, m := range mem.Messages() {
			if string(m.Data) != "{}" {
				found++
			}
		}
		if found != 2 {
			t.Errorf("%d stored, want 2", found)
		}
	})
	for _, kind := range kinds {
		for step := range 4 {
			if !struck[kind][step] {
				t.Errorf("%s never struck step %d", kind, step)
			}
		}
	}
	if runs < 1+len(kinds)*4 {
		t.Errorf("%d runs", runs)
	}
}

// settle appends data once, whatever happens on the way.
func settle(ctx context.Context, log journal.Log, data string) error {
	for range 20 {
		all, err := Collect(log.Load(ctx, faultySub.Chain, 0))
		if err != nil {
			continue
		}
		var head uint64
		for _, m := range all {
			if string(m.Data) == data {
				return nil
			}
			head = m.Seq
		}
		if _, err := log.Publish(ctx, faultySub, head, []byte(data)); err == nil {
			return nil
		}
	}
	return errors.New("never settled")
}

func TestMemoryDoors(t *testing.T) {
	mem := NewMemory()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	mem.SetClock(func() time.Time { return at })
	if _, err := mem.Publish(t.Context(), faultySub, 0, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if got := mem.Messages()[0].Time; !got.Equal(at) {
		t.Errorf("time %v", got)
	}
	seq := mem.Inject(journal.Message{Subject: "journal.s.s1.king.k", Headers: map[string][]string{"X": {"1", "2"}}, Data: []byte("two")})
	mem.Inject(journal.Message{Subject: "journal.s.s1.decider.decider", Data: []byte("three")})
	if !mem.Drop(1) || mem.Drop(1) || mem.Drop(9) || mem.Drop(0) {
		t.Error("Drop reports wrongly")
	}
	if !mem.Tamper(seq, func(m *journal.Message) { m.Data[0] ^= 1 }) || mem.Tamper(1, func(*journal.Message) {}) {
		t.Error("Tamper reports wrongly")
	}
	holes, err := mem.Holes(t.Context())
	if err != nil || fmt.Sprint(holes) != "[1]" {
		t.Errorf("holes %v, %v", holes, err)
	}
	all, err := Collect(mem.Load(t.Context(), faultySub.Chain, 0))
	if err != nil || len(all) != 2 || string(all[0].Data) != "uwo" || len(all[0].Headers["X"]) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	all[0].Data[0] = 'x'
	if again := mem.Messages(); string(again[0].Data) != "uwo" {
		t.Error("a reader changed what is stored")
	}
}
