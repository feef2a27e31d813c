package journal_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// drawJournal draws a journal of a few sessions whose messages stand mixed with
// each other and with strays, and some of which are lost.
func drawJournal(rt *rapid.T) *journaltest.Memory {
	mem := journaltest.NewMemory()
	now := epoch
	mem.SetClock(func() time.Time { return now })
	var list []*chain
	for i := range rapid.IntRange(1, 4).Draw(rt, "sessions") {
		c := chainOf(rt, journal.SessionChain(fmt.Sprint("s", i)))
		c.mem = mem
		list = append(list, c)
	}
	for range rapid.IntRange(0, 60).Draw(rt, "messages") {
		c := rapid.SampledFrom(list).Draw(rt, "session")
		now = now.Add(time.Second)
		c.now = now
		switch rapid.IntRange(0, 9).Draw(rt, "what") {
		case 0:
			c.inject(journal.Message{Subject: c.st.Chain().Filter()[:len(c.st.Chain().Filter())-1] + "stray", Data: []byte("{}")})
			continue
		case 1:
			mem.Drop(c.st.LastSeq())
			continue
		}
		by, events := bot, c.events(opened("main", "r1"), c.callBody("r1"))
		if c.st.N() > 0 {
			by, events = draft{c, rt}.draw()
		}
		if data, err := c.commit(by, events...).Encode(); err == nil {
			c.inject(c.messageOf(by, data))
		}
	}
	return mem
}

// TestSessionsAreTheirFolds: whatever the stretches, each session is yielded
// once, as it was, and those that changed last come first.
func TestSessionsAreTheirFolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mem := drawJournal(rt)
		end, err := mem.Last(context.Background())
		if err != nil {
			rt.Fatal(err)
		}
		last := rapid.Uint64Range(0, end).Draw(rt, "last")
		holes, err := mem.Holes(context.Background())
		if err != nil {
			rt.Fatal(err)
		}
		want := foldsUpTo(mem, last, holes)
		before := end + 1
		for st, err := range journal.SessionsFrom(context.Background(), mem, last, holes, rapid.Uint64Range(1, 70).Draw(rt, "stretch")) {
			if err != nil {
				rt.Fatal(err)
			}
			if st.LastSeq() >= before {
				rt.Fatalf("%s, which changed at %d, comes after what changed at %d", st.Chain(), st.LastSeq(), before)
			}
			before = st.LastSeq()
			if want[st.Chain()] == nil {
				rt.Fatalf("%s comes twice, or from nowhere", st.Chain())
			}
			sameFold(rt, want[st.Chain()], st)
			delete(want, st.Chain())
		}
		for chain := range want {
			rt.Fatalf("%s is left out", chain)
		}
	})
}

func foldsUpTo(mem *journaltest.Memory, last uint64, holes []uint64) map[journal.Chain]*journal.State {
	folds := map[journal.Chain]*journal.State{}
	for _, m := range mem.Messages() {
		chain, ok := journal.SessionOf(m.Subject)
		if !ok || m.Seq > last {
			continue
		}
		if folds[chain] == nil {
			folds[chain] = journal.NewState(chain)
		}
		folds[chain].Apply(m)
	}
	for _, st := range folds {
		st.MarkHoles(holes)
	}
	return folds
}

// TestStateAsOf: what is folded later is the same as what was folded all along.
func TestStateAsOf(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mem := drawJournal(rt)
		end, _ := mem.Last(context.Background())
		holes, _ := mem.Holes(context.Background())
		known := rapid.Uint64Range(0, end).Draw(rt, "known")
		last := rapid.Uint64Range(known, end).Draw(rt, "last")
		for chain := range foldsUpTo(mem, last, nil) {
			want := journal.NewState(chain)
			for _, m := range mem.Messages() {
				if of, _ := journal.SessionOf(m.Subject); of == chain && m.Seq <= known {
					want.Apply(m)
				}
			}
			want.MarkHoles(holes)
			for _, m := range mem.Messages() {
				if of, _ := journal.SessionOf(m.Subject); of == chain && m.Seq <= last {
					want.Apply(m)
				}
			}
			got, err := journal.StateAsOf(context.Background(), mem, chain, last, known, holes)
			if err != nil {
				rt.Fatal(err)
			}
			sameFold(rt, want, got)
		}
	})
}

func TestSessionsEndWithAnError(t *testing.T) {
	mem := journaltest.NewMemory()
	for i := range 5 {
		c := chainOf(t, journal.SessionChain(fmt.Sprint("s", i)))
		c.mem = mem
		c.now = time.Now()
		c.add(bot, opened("main", "r1"))
	}
	for at := range 5 {
		log := &journaltest.Faulty{Log: mem, Plan: func(step int, _ string) journaltest.Fault {
			if step != at {
				return journaltest.Fault{}
			}
			return journaltest.Fault{Kind: journaltest.CutLoad}
		}}
		seen := 0
		var failed error
		for _, err := range journal.SessionsFrom(t.Context(), log, 5, nil, 1) {
			if failed != nil {
				t.Fatal("it goes on after an error")
			}
			if failed = err; err == nil {
				seen++
			}
		}
		// A stretch of 1, one of 8.
		if at < 2 && (!errors.Is(failed, journal.ErrUnavailable) || seen != at) || at >= 2 && (failed != nil || seen != 5) {
			t.Errorf("cut at %d: %d sessions, %v", at, seen, failed)
		}
	}
	for range journal.SessionsFrom(t.Context(), mem, 5, nil, 2) {
		break
	}
}

func TestSessionOf(t *testing.T) {
	for subject, want := range map[string]string{
		"journal.s.a.agent.b": "a", "journal.s.a.b": "a", "journal.s.a.agent.b.c": "a", "journal.s.policy.agent.b": "policy",
		"journal.s.a": "", "journal.s.": "", "journal.s": "", "journal.s..agent.b": "", "journal.s.a!.agent.b": "",
		"journal.policy.admin.b": "", "journal.checkpoint.a.b": "", "": "", "other.s.a.agent.b": "",
	} {
		if chain, ok := journal.SessionOf(subject); chain.Session() != want || ok != (want != "") {
			t.Errorf("%q is of %q, %t", subject, chain.Session(), ok)
		}
	}
}

func TestRecent(t *testing.T) {
	states := map[string]*journal.State{}
	r := journal.Recent{Budget: 5 * 4096}
	use := func(name string) {
		if states[name] == nil {
			states[name] = journal.NewState(journal.SessionChain(name))
		}
		r.Use(states[name])
	}
	var let []string
	shed := func(keep string) string {
		let = nil
		r.Shed(func(c journal.Chain) bool {
			if c.Session() != keep {
				let = append(let, c.Session())
			}
			return c.Session() != keep
		})
		return fmt.Sprint(let)
	}
	for i := range 5 {
		use(fmt.Sprint(i))
	}
	if got := shed(""); got != "[]" {
		t.Errorf("within its budget it sheds %s", got)
	}
	use("0") // used anew
	use("5")
	use("6")
	if got := shed("2"); got != "[1 3]" {
		t.Errorf("it sheds %s", got)
	}
	r.Drop(journal.SessionChain("4"))
	use("7")
	if got := shed(""); got != "[]" {
		t.Errorf("after one was dropped it sheds %s", got)
	}
	states["7"].Apply(journal.Message{Seq: 1, Data: make([]byte, 1<<20)}) // however big the last one is, it stays
	use("7")
	if got := shed(""); got != "[2 0 5 6]" {
		t.Errorf("for a big one it sheds %s", got)
	}
	all := journal.Recent{}
	all.Use(states["7"])
	all.Shed(func(journal.Chain) bool { t.Error("without a budget it sheds"); return true })
}
