package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"

	"decisionjournal/journal"
	"decisionjournal/journal/stream"
)

// The server believes the heads of the records in its blocks before it checks
// anything: by one flipped bit in a length it throws the rest of a block away,
// by one in a sequence it can take all the memory there is. So a host looks at
// them before the server does, and mends what one flipped bit explains.
//
// A block of nats-server 2.15 is records one after another, each
//
//	length(4) sequence(8) time(8) subject length(2) subject [headers length(4) headers] body checksum(8)
//
// in little endian. The highest bit of the length says that there are headers;
// the two highest of the sequence mark what is no message.
const (
	headSize     = 22
	checksumSize = 8
	headersSize  = 4
	headersBit   = 1 << 31
	sequenceMask = 1<<62 - 1
	maxRecord    = 32 << 20
	maxBlock     = 64 << 20 // more than the server makes them

	// maxLeap is how far a sequence may leap for which nothing vouches, before
	// the server is kept from it: it takes four bytes for each that it leaps.
	maxLeap = 1 << 24
)

func (d dir) messages() string {
	return filepath.Join(d.store(), "jetstream", streamAccount, "streams", stream.Name, "msgs")
}

// mendBlocks looks at every block of a store that no server has open. It
// returns what it mended, for a person to read, and an error if the server must
// not see a block as it is. If all blocks hold message after message from 1 to
// whole and nothing else, and each holds what was stored, whole is not 0.
func mendBlocks(d dir) (mended []string, whole uint64, err error) {
	numbers, err := d.blockNumbers()
	if err != nil {
		return nil, 0, fmt.Errorf("look at the store: %w", err)
	}
	var buf []byte
	last, flawed := uint64(0), false
	for _, n := range numbers {
		b := &block{name: filepath.Join(d.messages(), strconv.Itoa(n)+blockSuffix), number: n, last: last, before: -1}
		if buf, err = b.read(buf); err == nil {
			err = b.look()
		}
		mended = append(mended, b.mended...)
		if err != nil {
			return mended, 0, fmt.Errorf("look at the store: %w", err)
		}
		last, flawed = b.last, flawed || b.flawed || len(b.mended) > 0
	}
	if flawed {
		last = 0
	}
	return mended, last, nil
}

// blockNumbers are the numbers of a store's blocks, in order.
func (d dir) blockNumbers() ([]int, error) {
	entries, err := os.ReadDir(d.messages())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		number, isBlock := strings.CutSuffix(e.Name(), blockSuffix)
		if n, err := strconv.Atoi(number); isBlock && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

const blockSuffix = ".blk"

// block is one file of records.
type block struct {
	name   string
	number int
	raw    []byte
	sum    hash.Hash64
	last   uint64 // sequence of the record before the one at hand; 0: none is known
	before int    // where that record begins, -1: in no place of this block
	flawed bool   // a record is missing, or does not hold, or something is none
	mended []string
}

func (b *block) read(buf []byte) ([]byte, error) {
	f, err := os.Open(b.name)
	if err != nil {
		return buf, err
	}
	defer f.Close()
	w := bytes.NewBuffer(buf[:0])
	if _, err := w.ReadFrom(io.LimitReader(f, maxBlock)); err != nil {
		return buf, err
	}
	b.raw = w.Bytes()
	return b.raw, nil
}

// look walks over the records. That one does not hold is for whoever reads it;
// here it matters only where the sequences do not go on, and at the end.
func (b *block) look() error {
	for at := 0; ; at += b.size(at) {
		for at == len(b.raw) || !b.fits(at) || b.sequence(at) != b.last+1 {
			again, err := b.mend(at)
			if err != nil {
				return err
			}
			if again < 0 {
				break
			}
			at = again
		}
		if at == len(b.raw) || !b.fits(at) {
			b.flawed = b.flawed || at < len(b.raw)
			return nil // the server cuts off what is no record
		}
		holds := b.holds(at)
		if holds {
			if err := b.mendHeaders(at); err != nil {
				return err
			}
		}
		b.flawed = b.flawed || b.sequence(at) != b.last+1 || !holds
		if b.sequence(at)&sequenceMask > b.last+maxLeap && !holds {
			return fmt.Errorf("%s is damaged at byte %d: restore it from a copy, or cut it off there with truncate -s %d and lose what is behind", b.name, at, at)
		}
		b.last, b.before = b.sequence(at)&sequenceMask, at
	}
}

func (b *block) size(at int) int {
	return int(binary.LittleEndian.Uint32(b.raw[at:]) &^ headersBit)
}

func (b *block) sequence(at int) uint64 { return binary.LittleEndian.Uint64(b.raw[at+4:]) }

// fits reports whether what stands at a place can be a record.
func (b *block) fits(at int) bool {
	if len(b.raw)-at < headSize+checksumSize {
		return false
	}
	size := b.size(at)
	return size <= maxRecord && size <= len(b.raw)-at && b.bodyAt(at) <= at+size-checksumSize
}

// bodyAt is where a record's headers or body begin.
func (b *block) bodyAt(at int) int {
	end := b.subjectEnd(at)
	if binary.LittleEndian.Uint32(b.raw[at:])&headersBit != 0 {
		end += headersSize
	}
	return end
}

func (b *block) subjectEnd(at int) int {
	return at + headSize + int(binary.LittleEndian.Uint16(b.raw[at+headSize-2:]))
}

// holds reports whether a record that fits has its checksum: over sequence and
// time, subject, headers and body.
func (b *block) holds(at int) bool {
	if b.sum == nil {
		key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream.Name, b.number))
		sum, err := highwayhash.New64(key[:])
		if err != nil {
			return false
		}
		b.sum = sum
	}
	end := at + b.size(at) - checksumSize
	b.sum.Reset()
	for _, part := range [][]byte{b.raw[at+4 : at+headSize-2], b.raw[at+headSize : b.subjectEnd(at)], b.raw[b.bodyAt(at):end]} {
		if _, err := b.sum.Write(part); err != nil {
			return false
		}
	}
	return bytes.Equal(b.sum.Sum(nil), b.raw[end:end+checksumSize])
}

// mend tries whether one flipped bit explains what is wrong at a place: in the
// head that stands there, or in the one before, which then leads astray. It
// returns from where to look again, -1 if it mended nothing.
func (b *block) mend(at int) (again int, err error) {
	for _, head := range []int{at, b.before} {
		if bit, ok := b.flipped(head); ok {
			if head == b.before {
				b.last = 0 // unknown again
			}
			return head, b.flip(head, bit, head)
		}
	}
	return -1, nil
}

// flipped is the bit of the head of a damaged record without which it holds.
func (b *block) flipped(head int) (bit int, ok bool) {
	if head < 0 || len(b.raw)-head < headSize+checksumSize || b.fits(head) && b.holds(head) {
		return 0, false
	}
	for bit := range 8 * headSize {
		b.raw[head+bit/8] ^= 1 << (bit % 8)
		ok := b.fits(head) && b.holds(head)
		b.raw[head+bit/8] ^= 1 << (bit % 8)
		if ok {
			return bit, true
		}
	}
	return 0, false
}

// mendHeaders mends a flipped bit in how long a record's headers are, which no
// checksum covers: with it the server takes a part of the headers for the body,
// or a part of the body for headers, and a commit has no effect any more. The
// server takes headers that say a wrong length, and an agent may write them to
// have some unseen by it. So what an agent wrote is mended only if the server saw
// all of its headers.
func (b *block) mendHeaders(at int) error {
	if binary.LittleEndian.Uint32(b.raw[at:])&headersBit == 0 {
		return nil
	}
	length := b.subjectEnd(at)
	text := b.raw[length+headersSize : at+b.size(at)-checksumSize]
	const first, last = "NATS/1.0", "\r\n\r\n"
	before, _, found := bytes.Cut(text, []byte(last))
	said, is := binary.LittleEndian.Uint32(b.raw[length:]), uint32(len(before)+len(last))
	if !found || !bytes.HasPrefix(text, []byte(first)) || said == is {
		b.flawed = b.flawed || said > uint32(len(text))
		return nil
	}
	b.flawed = true
	sub, err := journal.ParseSubject(string(b.raw[at+headSize : length]))
	if bits.OnesCount32(said^is) != 1 || said < is && (err != nil || sub.Role == journal.RoleAgent) {
		return nil
	}
	return b.flip(length, bits.TrailingZeros32(said^is), at)
}

// flip mends one bit for good: counted from a place, of the record at head.
func (b *block) flip(place, bit, head int) error {
	at := place + bit/8
	b.raw[at] ^= 1 << (bit % 8)
	f, err := os.OpenFile(b.name, os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b.raw[at:at+1], int64(at))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	b.mended = append(b.mended, fmt.Sprintf("the disk damaged %s: a flipped bit at byte %d, in the head of message %d, was mended", b.name, at, b.sequence(head)))
	return nil
}
