package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"decisionjournal/journal"
)

// stored is a store of a few messages that was closed cleanly: what it holds,
// and where each record of its one block begins.
type stored struct {
	dir    dir
	file   string
	raw    []byte
	starts []int
}

// newStored stores n messages, and one without headers as its third.
func newStored(t *testing.T, n int) *stored {
	t.Helper()
	path := t.TempDir() + "/j"
	h := open(t, Config{Dir: path})
	sub := journal.Subject{Chain: journal.SessionChain("s1"), Role: journal.RoleDecider, Actor: "decider"}
	for i := range n {
		if i == 2 {
			attack(t, h, journal.RoleAgent).send(&nats.Msg{Subject: "journal.s.s1.agent.agent", Data: []byte("no headers")})
			continue
		}
		if _, err := h.Publish(t.Context(), sub, uint64(i), fmt.Appendf(nil, "body <%d>", i)); err != nil {
			t.Fatal(err)
		}
	}
	closeNow(t, h)
	s := &stored{dir: dir(path), file: dir(path).blocks(t)[0]}
	raw, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	s.raw = raw
	for at := 0; at < len(raw); at += int(binary.LittleEndian.Uint32(raw[at:]) &^ headersBit) {
		s.starts = append(s.starts, at)
	}
	if len(s.starts) != n {
		t.Fatalf("%d records, stored %d", len(s.starts), n)
	}
	return s
}

// mend has the block be what it is with some bits flipped, and mends it.
func (s *stored) mend(t *testing.T, bits ...int) (after []byte, notes []string, err error) {
	t.Helper()
	raw := bytes.Clone(s.raw)
	for _, bit := range bits {
		raw[bit/8] ^= 1 << (bit % 8)
	}
	s.write(t, raw)
	notes, _, err = mendBlocks(s.dir)
	after, readErr := os.ReadFile(s.file)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return after, notes, err
}

func (s *stored) write(t *testing.T, raw []byte) {
	t.Helper()
	if err := os.WriteFile(s.file, raw, fileMode); err != nil {
		t.Fatal(err)
	}
}

// TestMendBlocks flips every bit of every record's head: those by which the
// server would lose its way are mended, and the others are left as they are.
func TestMendBlocks(t *testing.T) {
	s := newStored(t, 6)
	if _, notes, err := s.mend(t); err != nil || len(notes) > 0 {
		t.Fatalf("nothing is damaged: %q, %v", notes, err)
	}
	for i, start := range s.starts {
		for bit := range 8 * headSize {
			after, notes, err := s.mend(t, 8*start+bit)
			if err != nil {
				t.Fatalf("record %d, bit %d: %v", i+1, bit, err)
			}
			whole := bytes.Equal(after, s.raw)
			if whole != (len(notes) == 1) || len(notes) > 1 {
				t.Errorf("record %d, bit %d: mended %t, and says %q", i+1, bit, whole, notes)
			}
			if astray := bit < 31 || bit >= 32 && bit < 96; astray && !whole {
				t.Errorf("record %d, bit %d of length or sequence is not mended", i+1, bit)
			}
			if whole && !strings.Contains(notes[0], fmt.Sprintf("byte %d, in the head of message %d,", start+bit/8, i+1)) {
				t.Errorf("record %d, bit %d: says %q", i+1, bit, notes[0])
			}
		}
	}
}

// TestMendHeaderLengths flips every bit of how long the headers are said to be.
// What an agent wrote may have been stored so, and is mended only if that cannot
// have kept a header from the server.
func TestMendHeaderLengths(t *testing.T) {
	s := newStored(t, 6)
	agents := bytes.Clone(s.raw)
	for i, start := range s.starts {
		at := start + headSize + int(binary.LittleEndian.Uint16(s.raw[start+headSize-2:]))
		if i == 2 {
			continue // it has none
		}
		is := binary.LittleEndian.Uint32(s.raw[at:])
		for bit := range 32 {
			s.raw = agents
			after, notes, err := s.mend(t, 8*at+bit)
			if err != nil || !bytes.Equal(after, s.raw) || len(notes) != 1 || !strings.Contains(notes[0], fmt.Sprintf("byte %d, in the head of message %d,", at+bit/8, i+1)) {
				t.Errorf("record %d, bit %d of the headers' length: %q, %v", i+1, bit, notes, err)
			}
			other := &block{name: s.file, number: 1, raw: bytes.Clone(s.raw)}
			copy(other.raw[start+headSize:], "journal.s.s1.agent.decider00") // as long as a decider's
			s.raw = other.raw
			if other.holds(start) {
				t.Fatal("the checksum does not cover the subject")
			}
			copy(other.raw[start+other.size(start)-checksumSize:], other.sum.Sum(nil))
			after, notes, err = s.mend(t, 8*at+bit)
			if grown := is&(1<<bit) == 0; err != nil || bytes.Equal(after, s.raw) != grown || (len(notes) == 1) != grown {
				t.Errorf("an agent's record %d, bit %d of the headers' length: %q, %v", i+1, bit, notes, err)
			}
		}
	}
}

// TestMendMergedRecords: one flipped bit in a length makes a record reach exactly
// over the next one. Nothing is amiss behind the two, which may be the end.
func TestMendMergedRecords(t *testing.T) {
	s := newStored(t, 6)
	size := func(i int) int { return s.starts[i+1] - s.starts[i] }
	const reach = 256
	if size(3)&reach != 0 || size(3) > reach {
		t.Fatalf("records have %d bytes: take another reach", size(3))
	}
	grown := &block{name: s.file, number: 1}
	grown.raw = bytes.Clone(s.raw[:s.starts[4]])
	last := append(bytes.Clone(s.raw[s.starts[4]:s.starts[5]-checksumSize]), make([]byte, reach-size(4)+checksumSize)...)
	binary.LittleEndian.PutUint32(last, reach|headersBit)
	grown.raw = append(grown.raw, last...)
	grown.holds(s.starts[4]) // which sums it up
	copy(grown.raw[len(grown.raw)-checksumSize:], grown.sum.Sum(nil))
	if !grown.holds(s.starts[4]) {
		t.Fatal("the record that was grown does not hold")
	}
	for name, whole := range map[string][]byte{
		"at the end": grown.raw,
		"in between": append(bytes.Clone(grown.raw), s.raw[s.starts[5]:]...),
	} {
		s.raw = whole
		if after, notes, err := s.mend(t, 8*(s.starts[3]+1)); err != nil || len(notes) != 1 || !bytes.Equal(after, whole) {
			t.Errorf("%s: %q, %v", name, notes, err)
		}
	}
}

// TestBlocksLeftAlone: damage of other kinds is not touched, and kept from the
// server only where that would take all memory for it.
func TestBlocksLeftAlone(t *testing.T) {
	s := newStored(t, 6)
	third, end := s.starts[2], len(s.raw)
	sequence := func(record int, to uint64) []byte {
		raw := bytes.Clone(s.raw)
		binary.LittleEndian.PutUint64(raw[s.starts[record]+4:], to)
		return raw
	}
	for name, tt := range map[string]struct {
		raw  []byte
		want string // in the error
	}{
		"a body":                {raw: append(append(bytes.Clone(s.raw[:third-9]), '!'), s.raw[third-8:]...)},
		"nothing":               {raw: []byte{}},
		"cut at a record":       {raw: s.raw[:third]},
		"cut in a head":         {raw: s.raw[:third+7]},
		"cut in a body":         {raw: s.raw[:end-9]},
		"zeroes behind":         {raw: append(bytes.Clone(s.raw), make([]byte, 500)...)},
		"zeroes":                {raw: make([]byte, 500)},
		"text":                  {raw: bytes.Repeat([]byte("no record at all. "), 100)},
		"a record is missing":   {raw: append(bytes.Clone(s.raw[:third]), s.raw[s.starts[3]:]...)},
		"a sequence a bit off":  {raw: sequence(3, 7)},
		"a sequence far off":    {raw: sequence(3, 3<<40), want: fmt.Sprintf("damaged at byte %d: restore it", s.starts[3])},
		"the first is far off":  {raw: sequence(0, 3<<40), want: "damaged at byte 0: restore it"},
		"a length two bits off": {raw: func() []byte { raw := bytes.Clone(s.raw); raw[third] ^= 3; return raw }()},
	} {
		t.Run(name, func(t *testing.T) {
			s.write(t, tt.raw)
			notes, _, err := mendBlocks(s.dir)
			after, readErr := os.ReadFile(s.file)
			if readErr != nil || !bytes.Equal(after, tt.raw) || len(notes) > 0 {
				t.Errorf("changed it, %q, %v", notes, readErr)
			}
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestSequencesGoOnBetweenBlocks: the first record of a block is held against
// the last one of the block before.
func TestSequencesGoOnBetweenBlocks(t *testing.T) {
	s := newStored(t, 6)
	cut := s.starts[3]
	next := filepath.Join(filepath.Dir(s.file), "10"+blockSuffix) // not after 1.blk by name alone
	if err := os.WriteFile(filepath.Join(filepath.Dir(s.file), "2"+blockSuffix), nil, fileMode); err != nil {
		t.Fatal(err)
	}
	raw := bytes.Clone(s.raw[cut:]) // its checksums are block 1's, and do not hold
	s.write(t, s.raw[:cut])
	if err := os.WriteFile(next, raw, fileMode); err != nil {
		t.Fatal(err)
	}
	if notes, _, err := mendBlocks(s.dir); err != nil || len(notes) > 0 {
		t.Errorf("%q, %v", notes, err)
	}
	numbers, err := s.dir.blockNumbers()
	if err != nil || !slices.Equal(numbers, []int{1, 2, 10}) {
		t.Errorf("blocks %v, %v", numbers, err)
	}
}

// FuzzBlock: whatever a block holds, it is looked at to its end.
func FuzzBlock(f *testing.F) {
	f.Add([]byte{}, uint64(0))
	f.Add(make([]byte, 100), uint64(5))
	f.Add(append([]byte{30, 0, 0, 0, 6}, make([]byte, 25)...), uint64(5))
	f.Fuzz(func(t *testing.T, raw []byte, last uint64) {
		// Nothing is mended, and so no file opened, but by a checksum that holds.
		b := &block{name: "none.blk", number: 1, raw: raw, last: last, before: -1}
		if err := b.look(); err != nil && !strings.Contains(err.Error(), "is damaged at byte") {
			t.Error(err)
		}
	})
}

// TestLostWhileUsed: a store that turns out damaged only when it is read loses
// its end under the host. The journal is opened anew, and reckons with it.
func TestLostWhileUsed(t *testing.T) {
	s := newStored(t, 40)
	raw := bytes.Clone(s.raw)
	raw[s.starts[20]] ^= 3 // more than can be mended
	s.write(t, raw)
	h := open(t, Config{Dir: string(s.dir)})
	guest := open(t, Config{Dir: string(s.dir), Role: journal.RoleAuditor})
	deadline := time.After(patience)
	for len(h.Warnings()) == 0 {
		select {
		case <-deadline:
			t.Fatal("the loss is not found")
		default:
			if _, err := guest.Last(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if list := h.Warnings(); len(list) != 1 || !strings.Contains(list[0], "lost messages 21 to 40") {
		t.Errorf("%q", list)
	}
	wantHoles(t, h, 21)
	wantHoles(t, guest, 21)
}
