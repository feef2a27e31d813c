package embedded

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzMark opens high-water marks of any content: what is read is what was
// written in one of the slots, and the mark can be used on.
func FuzzMark(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(append(slotOf(7), slotOf(9)...))
	f.Add(append(slotOf(7), slotOf(9)[1:]...))
	f.Add(bytes.Repeat([]byte("9"), 3*slotSize))
	path := filepath.Join(f.TempDir(), "journal")
	if err := os.Mkdir(path, 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d := dir(path)
		if err := os.WriteFile(d.mark(), raw, fileMode); err != nil {
			t.Fatal(err)
		}
		m, _, err := openMark(d)
		if err != nil {
			t.Fatal(err)
		}
		defer m.file.Close()
		if m.last > 0 && !bytes.Contains(raw, slotOf(m.last)) {
			t.Fatalf("%q tells of %d", raw, m.last)
		}
		if err := m.settle(m.last + 1); err != nil {
			t.Fatal(err)
		}
		again, damaged, err := openMark(d)
		if err != nil || damaged || again.last != m.last {
			t.Fatalf("settled at %d, and read as %+v, %t, %v", m.last, again, damaged, err)
		}
		again.file.Close()
	})
}

// FuzzLosses reads what a store is said to have lost: a file that was changed is
// refused, since it decides which sessions may go on.
func FuzzLosses(f *testing.F) {
	path := filepath.Join(f.TempDir(), "journal")
	if err := os.Mkdir(path, 0o700); err != nil {
		f.Fatal(err)
	}
	d := dir(path)
	if err := writeLosses(d, []loss{{After: 3, To: 9, Found: time.Unix(1e9, 0).UTC()}}); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(d.losses())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, false)
	f.Add(good[len("00000000\n"):], true)
	f.Add([]byte("00000000\n"), false)
	f.Add([]byte("null"), true)
	f.Fuzz(func(t *testing.T, raw []byte, seal bool) {
		if seal { // a body that the file's sum is right for
			raw = fmt.Appendf(nil, "%08x\n%s", crc32.ChecksumIEEE(raw), raw)
		}
		if err := os.WriteFile(d.losses(), raw, fileMode); err != nil {
			t.Fatal(err)
		}
		list, err := readLosses(d)
		if err != nil {
			return
		}
		if err := writeLosses(d, list); err != nil {
			t.Fatal(err)
		}
		again, err := readLosses(d)
		if err != nil || len(again) != len(list) {
			t.Fatalf("%q reads as %v, and written again as %v, %v", raw, list, again, err)
		}
	})
}
