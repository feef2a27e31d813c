package embedded

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// filled is a new journal of n messages in two sessions.
func filled(t *testing.T, n int) dir {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal")
	f, err := Fill(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var last [2]uint64
	for i := range n {
		sub := journal.Subject{Chain: journal.SessionChain(fmt.Sprint("s", i%2)), Role: journal.RoleAgent, Actor: "agent"}
		if last[i%2], err = f.Publish(t.Context(), sub, last[i%2], []byte(fmt.Sprint(i))); err != nil || last[i%2] != uint64(i+1) {
			t.Fatalf("message %d was stored at %d: %v", i+1, last[i%2], err)
		}
	}
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir(path)
}

// TestFill: a journal that was filled is one like any other.
func TestFill(t *testing.T) {
	d := filled(t, 3000)
	if _, err := Fill(t.Context(), string(d)); err == nil || !strings.Contains(err.Error(), "holds one already") {
		t.Errorf("filled anew: %v", err)
	}
	h := open(t, Config{Dir: string(d)})
	if list := h.Warnings(); len(list) > 0 {
		t.Errorf("%q", list)
	}
	wantHoles(t, h)
	all, err := journaltest.Collect(h.LoadAll(t.Context(), 0))
	if err != nil || len(all) != 3000 {
		t.Fatalf("%d messages, %v", len(all), err)
	}
	for i, m := range all {
		if m.Seq != uint64(i+1) || string(m.Data) != fmt.Sprint(i) {
			t.Fatalf("message %d is %d %q", i+1, m.Seq, m.Data)
		}
	}
}

func TestFillTellsOfARefusal(t *testing.T) {
	f, err := Fill(t.Context(), filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	sub := journal.Subject{Chain: journal.SessionChain("s"), Role: journal.RoleAgent, Actor: "agent"}
	for _, after := range []uint64{0, 7} {
		if _, err := f.Publish(t.Context(), sub, after, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "message 2 of a journal being filled") {
		t.Errorf("a false expectation: %v", err)
	}
}

// TestWholeStoreIsNotReadTwice: what the host found intact on its disk is known
// before anyone asks, and anything else is not taken for it.
func TestWholeStoreIsNotReadTwice(t *testing.T) {
	d := filled(t, 50)
	if _, whole, err := mendBlocks(d); err != nil || whole != 50 {
		t.Fatalf("whole up to %d, %v", whole, err)
	}
	name := d.blocks(t)[0]
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < 8*len(raw); at += 8*len(raw)/400 + 1 {
		flipped := bytes.Clone(raw)
		flipped[at/8] ^= 1 << (at % 8)
		if err := os.WriteFile(name, flipped, fileMode); err != nil {
			t.Fatal(err)
		}
		if _, whole, err := mendBlocks(d); whole != 0 {
			t.Errorf("with bit %d flipped it is whole up to %d, %v", at, whole, err)
		}
	}
	for what, bad := range map[string][]byte{
		"cut": raw[:len(raw)-1], "longer": append(bytes.Clone(raw), 0), "without its first": raw[int(raw[0])|int(raw[1])<<8:], "gone": nil,
	} {
		if err := os.WriteFile(name, bad, fileMode); err != nil {
			t.Fatal(err)
		}
		if _, whole, err := mendBlocks(d); whole != 0 {
			t.Errorf("%s, it is whole up to %d, %v", what, whole, err)
		}
	}
}
