package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"decisionjournal/journal/stream"
)

// A store that is damaged at its end loses messages without a trace: nothing
// after them shows that they are missing. So a host keeps beside the store how
// far it reached, and remembers for ever where it was found to end before that.
const (
	markName   = "mark"
	lossesName = "losses"

	markEvery = 200 * time.Millisecond
)

func (d dir) mark() string   { return filepath.Join(string(d), markName) }
func (d dir) losses() string { return filepath.Join(string(d), lossesName) }

// mark is the file that holds how far the store is known to reach: never
// further than it does, since only what is stored for good is read from it. It
// has two slots, written in turn, so that one survives whatever happens to the
// other. It is not synced but at a clean end: after a power loss it may be old,
// and then tells less.
type mark struct {
	file *os.File
	last uint64
	slot int64
}

const (
	slotSize   = 64
	slotFormat = "%020d %08x\n"
)

func slotOf(last uint64) []byte {
	number := fmt.Sprintf("%020d", last)
	line := fmt.Sprintf(slotFormat, last, crc32.ChecksumIEEE([]byte(number)))
	return append(bytes.Repeat([]byte{' '}, slotSize-len(line)), line...)
}

func readSlot(b []byte) (last uint64, ok bool) {
	if _, err := fmt.Sscanf(string(b), "%d", &last); err != nil {
		return 0, false
	}
	return last, bytes.Equal(b, slotOf(last))
}

// openMark opens the mark of d, and makes it if there is none. damaged says
// that part of it cannot be read, so that it may tell less.
func openMark(d dir) (m *mark, damaged bool, err error) {
	f, err := os.OpenFile(d.mark(), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, false, fmt.Errorf("open the high-water mark: %w", err)
	}
	m = &mark{file: f}
	raw, err := io.ReadAll(io.LimitReader(f, 2*slotSize+1))
	if err != nil {
		f.Close()
		return nil, false, fmt.Errorf("read the high-water mark: %w", err)
	}
	for i := 0; i < 2 && len(raw) > 0; i++ {
		last, ok := readSlot(raw[min(i*slotSize, len(raw)):min((i+1)*slotSize, len(raw))])
		if ok {
			m.last = max(m.last, last)
		}
		damaged = damaged || !ok
	}
	return m, damaged || len(raw) > 2*slotSize, nil
}

// errLostEnd: the store lost its end while it was used.
var errLostEnd = errors.New("the store has lost its last messages")

// set notes that the store reaches to last. It never takes back what it told.
func (m *mark) set(last uint64) error {
	switch {
	case last == m.last:
		return nil
	case last < m.last:
		return fmt.Errorf("%w: it ends at %d and reached to %d", errLostEnd, last, m.last)
	}
	if _, err := m.file.WriteAt(slotOf(last), m.slot*slotSize); err != nil {
		return fmt.Errorf("write the high-water mark: %w", err)
	}
	m.last, m.slot = last, 1-m.slot
	return nil
}

// settle writes both slots for good.
func (m *mark) settle(last uint64) error {
	both := append(slotOf(last), slotOf(last)...)
	_, err := m.file.WriteAt(both, 0)
	if err = errors.Join(err, m.file.Truncate(2*slotSize), m.file.Sync()); err != nil {
		return fmt.Errorf("write the high-water mark: %w", err)
	}
	m.last = last
	return nil
}

// keep follows the store's end until ctx ends, or with errLostEnd.
func (m *mark) keep(ctx context.Context, log *stream.Log, logger *slog.Logger) error {
	ticker := time.NewTicker(markEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		last, err := log.Last(ctx)
		if err == nil {
			err = m.set(last)
		}
		switch {
		case errors.Is(err, errLostEnd):
			return err
		case err != nil && ctx.Err() == nil:
			logger.Warn("the high-water mark is not kept", "error", err)
		}
	}
}

// loss is one finding that the store had lost its end: messages After+1 to To
// are gone, and their sequences are given again.
type loss struct {
	After uint64    `json:"after"`
	To    uint64    `json:"to"`
	Found time.Time `json:"found"`
}

// readLosses reads what was found before. A file that cannot be read is an
// error: what it told decides which sessions may go on.
func readLosses(d dir) ([]loss, error) {
	raw, err := os.ReadFile(d.losses())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the store lost before: %w", err)
	}
	var list []loss
	sum, body, _ := bytes.Cut(raw, []byte("\n"))
	if string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(body)) || json.Unmarshal(body, &list) != nil {
		return nil, fmt.Errorf("%s is damaged: restore it; it says after which messages the store lost others", d.losses())
	}
	return list, nil
}

func writeLosses(d dir, list []loss) error {
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return writeWhole(d.losses(), fmt.Appendf(nil, "%08x\n%s", crc32.ChecksumIEEE(body), body))
}

// reckon holds the store's end against the mark, before anyone may append. It
// returns the sequences from which on the store has lost messages at any time,
// and what a person should know.
func (m *mark) reckon(d dir, last uint64, now time.Time) (lost []uint64, warning string, err error) {
	list, err := readLosses(d)
	if err != nil {
		return nil, "", err
	}
	if last < m.last {
		warning = fmt.Sprintf("the store has lost messages %d to %d: sessions that were open are broken, see replay audit and decider repair", last+1, m.last)
		list = append(list, loss{last, m.last, now.UTC()})
		if err := writeLosses(d, list); err != nil {
			return nil, "", fmt.Errorf("note what the store lost: %w", err)
		}
	}
	for _, l := range list {
		lost = append(lost, l.After+1)
	}
	return lost, warning, m.settle(last)
}
