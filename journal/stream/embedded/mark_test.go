package embedded

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"decisionjournal/journal"
)

// TestMarkSurvivesFlippedBits: whatever single bit of a mark is flipped, it
// still tells how far the store reached, and that it is damaged.
func TestMarkSurvivesFlippedBits(t *testing.T) {
	d := dir(t.TempDir())
	m, damaged, err := openMark(d)
	if err != nil || damaged || m.last != 0 {
		t.Fatalf("a new mark: %+v, damaged %t, %v", m, damaged, err)
	}
	if err := m.settle(12345); err != nil {
		t.Fatal(err)
	}
	m.file.Close()
	raw, err := os.ReadFile(d.mark())
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(raw) {
		flipped := bytes.Clone(raw)
		flipped[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(d.mark(), flipped, fileMode); err != nil {
			t.Fatal(err)
		}
		m, damaged, err := openMark(d)
		if err != nil {
			t.Fatal(err)
		}
		if m.last != 12345 || !damaged {
			t.Errorf("bit %d: reaches to %d, damaged %t", bit, m.last, damaged)
		}
		m.file.Close()
	}
}

// TestMarkInTurn: a mark cut off at any byte of a write tells what it told
// before, or what was written.
func TestMarkInTurn(t *testing.T) {
	d := dir(t.TempDir())
	m, _, err := openMark(d)
	if err != nil {
		t.Fatal(err)
	}
	defer m.file.Close()
	if err := m.settle(1); err != nil {
		t.Fatal(err)
	}
	for last := uint64(2); last < 6; last++ {
		before, err := os.ReadFile(d.mark())
		if err != nil {
			t.Fatal(err)
		}
		if err := m.set(last); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(d.mark())
		if err != nil {
			t.Fatal(err)
		}
		for cut := range after {
			torn := dir(t.TempDir())
			if err := os.WriteFile(torn.mark(), append(bytes.Clone(after[:cut]), before[cut:]...), fileMode); err != nil {
				t.Fatal(err)
			}
			got, _, err := openMark(torn)
			if err != nil {
				t.Fatal(err)
			}
			if got.file.Close(); got.last != last && got.last != last-1 {
				t.Errorf("cut at %d of the write of %d: tells %d", cut, last, got.last)
			}
		}
	}
}

func TestDamagedLossesAreRefused(t *testing.T) {
	d := dir(t.TempDir())
	if err := writeLosses(d, []loss{{3, 5, time.Unix(0, 0).UTC()}}); err != nil {
		t.Fatal(err)
	}
	if list, err := readLosses(d); err != nil || len(list) != 1 || list[0].After != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	raw, err := os.ReadFile(d.losses())
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(raw) {
		flipped := bytes.Clone(raw)
		flipped[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(d.losses(), flipped, fileMode); err != nil {
			t.Fatal(err)
		}
		if list, err := readLosses(d); err == nil {
			t.Errorf("bit %d: read as %+v", bit, list)
		}
	}
}

// begun is a session with one run, at its head.
func begun(t *testing.T, h *Handle, name string) *journal.State {
	t.Helper()
	st := journal.NewState(journal.SessionChain(name))
	add(t, writerOf(t, h, journal.RoleDecider, "decider"), st, &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession})
	return st
}

func writerOf(t *testing.T, log journal.Log, role journal.Role, actor string) *journal.Writer {
	t.Helper()
	w, err := journal.NewWriter(journal.Config{Log: log, Role: role, Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func add(t *testing.T, w *journal.Writer, st *journal.State, bodies ...journal.Body) {
	t.Helper()
	var events []journal.Event
	for _, b := range bodies {
		events = append(events, w.Event(b))
	}
	if err := w.Append(t.Context(), st, w.Now(st), events...); err != nil {
		t.Fatal(err)
	}
}

func (d dir) blocks(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(d.store(), "jetstream", "*", "streams", "*", "msgs", "*.blk"))
	if err != nil || len(list) == 0 {
		t.Fatalf("blocks: %v, %v", list, err)
	}
	slices.Sort(list)
	return list
}

func (d dir) removeIndex(t *testing.T) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(d.store(), "jetstream", "*", "streams", "*", "msgs", "index.db"))
	if err != nil || len(list) == 0 {
		t.Fatalf("index: %v, %v", list, err)
	}
	for _, f := range list {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}

func closeNow(t *testing.T, h *Handle) {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

func condition(t *testing.T, log journal.Log, name string) journal.Condition {
	t.Helper()
	st, err := journal.LoadState(t.Context(), log, journal.SessionChain(name))
	if err != nil {
		t.Fatal(err)
	}
	cond, _ := st.Condition()
	return cond
}

// TestLostEnd damages a store so that its last messages are gone without a
// trace: what was open then is broken until it is repaired, also after the same
// sequences are given to others.
func TestLostEnd(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, d dir, size int64){
		"cut off": func(t *testing.T, d dir, size int64) {
			if err := os.Truncate(d.blocks(t)[0], size); err != nil {
				t.Fatal(err)
			}
			d.removeIndex(t)
		},
		"a flipped bit, and no index": func(t *testing.T, d dir, size int64) {
			raw, err := os.ReadFile(d.blocks(t)[0])
			if err != nil {
				t.Fatal(err)
			}
			raw[size+40] ^= 1
			if err := os.WriteFile(d.blocks(t)[0], raw, fileMode); err != nil {
				t.Fatal(err)
			}
			d.removeIndex(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/j"
			d := dir(path)
			h := open(t, Config{Dir: path})
			st := begun(t, h, "old")
			closeNow(t, h)
			info, err := os.Stat(d.blocks(t)[0])
			if err != nil {
				t.Fatal(err)
			}
			h = open(t, Config{Dir: path})
			for range 3 { // any of them may have been a revocation
				add(t, writerOf(t, h, journal.RoleDecider, "decider"), st, &journal.Opened{Agent: "a" + fmt.Sprint(st.N()), Run: "r" + fmt.Sprint(st.N()+1), Kind: journal.KindSession})
			}
			if list := h.Warnings(); len(list) != 0 {
				t.Errorf("before: %q", list)
			}
			closeNow(t, h)

			damage(t, d, info.Size())
			h = open(t, Config{Dir: path})
			if list := h.Warnings(); len(list) != 1 || !strings.Contains(list[0], "lost messages 2 to 4") {
				t.Errorf("after: %q", list)
			}
			wantHoles(t, h, 2)
			for _, n := range []string{"new1", "new2", "new3", "new4"} { // on the sequences that are gone, and past them
				begun(t, h, n)
			}
			closeNow(t, h)

			h = open(t, Config{Dir: path})
			if list := h.Warnings(); len(list) != 0 {
				t.Errorf("found again: %q", list)
			}
			wantHoles(t, h, 2)
			guest := open(t, Config{Dir: path, Role: journal.RoleAdmin})
			wantHoles(t, guest, 2)
			for _, n := range []string{"new1", "new2", "new3", "new4"} {
				if cond := condition(t, guest, n); cond != journal.Whole {
					t.Errorf("%s is %s", n, cond)
				}
			}
			if cond := condition(t, guest, "old"); cond != journal.Broken {
				t.Fatalf("what lost commits is %s", cond)
			}
			st, err = journal.LoadState(t.Context(), guest, journal.SessionChain("old"))
			if err != nil {
				t.Fatal(err)
			}
			repair(t, guest, st, 2)
			if cond := condition(t, h, "old"); cond != journal.Whole {
				t.Errorf("repaired, and %s", cond)
			}
		})
	}
}

func wantHoles(t *testing.T, log journal.Log, want ...uint64) {
	t.Helper()
	holes, err := log.Holes(t.Context())
	if err != nil || !slices.Equal(holes, want) {
		t.Errorf("holes %v, %v; want %v", holes, err, want)
	}
}

// TestLostStore: the whole store is gone and the mark is not.
func TestLostStore(t *testing.T) {
	path := t.TempDir() + "/j"
	h := open(t, Config{Dir: path})
	begun(t, h, "old")
	closeNow(t, h)
	if err := os.RemoveAll(dir(path).store()); err != nil {
		t.Fatal(err)
	}
	h = open(t, Config{Dir: path, Role: journal.RoleAdmin})
	if list := h.Warnings(); len(list) != 1 || !strings.Contains(list[0], "lost messages 1 to 1") {
		t.Errorf("%q", list)
	}
	wantHoles(t, h, 1)
	policies, err := journal.LoadState(t.Context(), h, journal.PolicyChain())
	if err != nil {
		t.Fatal(err)
	}
	if cond, _ := policies.Condition(); cond != journal.Broken {
		t.Errorf("the policies that there may have been are %s", cond)
	}
	repair(t, h, policies, 1)                   // the repair is message 1 now
	begun(t, open(t, Config{Dir: path}), "old") // of which nothing is known any more
	if cond := condition(t, h, "old"); cond != journal.Whole {
		t.Errorf("a session begun anew is %s", cond)
	}
}

// repair appends a repair, and sees to it that a reader takes it.
func repair(t *testing.T, h *Handle, st *journal.State, missing ...uint64) {
	t.Helper()
	w := writerOf(t, h, journal.RoleAdmin, "admin")
	if err := w.AppendRepair(t.Context(), st, w.Now(st), &journal.Repair{Missing: missing}); err != nil {
		t.Fatal(err)
	}
	again, err := journal.LoadState(t.Context(), h, st.Chain())
	if err != nil {
		t.Fatal(err)
	}
	if cond, why := again.Condition(); cond != journal.Whole {
		t.Errorf("repaired, %s is %s: %s", st.Chain(), cond, why.Why)
	}
}

// TestRepairOfALostEndAtOnce: the repair gets the first of the sequences that
// were lost, which it names as missing.
func TestRepairOfALostEndAtOnce(t *testing.T) {
	path := t.TempDir() + "/j"
	h := open(t, Config{Dir: path})
	st := begun(t, h, "old")
	info, err := os.Stat(dir(path).blocks(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	add(t, writerOf(t, h, journal.RoleDecider, "decider"), st, &journal.Closed{Agent: "main", Run: "r1"})
	closeNow(t, h)
	if err := os.Truncate(dir(path).blocks(t)[0], info.Size()); err != nil {
		t.Fatal(err)
	}
	dir(path).removeIndex(t)
	h = open(t, Config{Dir: path, Role: journal.RoleAdmin})
	if st, err = journal.LoadState(t.Context(), h, st.Chain()); err != nil {
		t.Fatal(err)
	}
	repair(t, h, st, 2)
	if st.LastSeq() != 2 {
		t.Errorf("the repair is message %d", st.LastSeq())
	}
}

// TestMarkAfterAKill: the mark follows the store while it is used, so that a
// host that was killed left one.
func TestMarkAfterAKill(t *testing.T) {
	path := t.TempDir() + "/j"
	p := start(t, "append", path, true)
	acked := p.sequences(t, 50)
	want := acked[len(acked)-1]
	for reached := uint64(0); reached < want; { // written within a fraction of a second
		m, damaged, err := openMark(dir(path))
		if err != nil || damaged {
			t.Fatalf("damaged %t, %v", damaged, err)
		}
		reached = m.last
		m.file.Close()
		if t.Context().Err() != nil {
			t.Fatal("the mark does not follow")
		}
	}
	p.Process.Kill()
	h := open(t, Config{Dir: path})
	if list := h.Warnings(); len(list) != 0 {
		t.Errorf("%q", list)
	}
	if last, err := h.Last(context.Background()); err != nil || last < want {
		t.Errorf("the store reaches to %d, %v; the mark to %d", last, err, want)
	}
}
