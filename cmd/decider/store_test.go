package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/minio/highwayhash"
	"github.com/rogpeppe/go-internal/testscript"
)

// The store of a journal, as nats-server 2.15 writes it: blocks of records, each
// of them
//
//	length(4) sequence(8) time(8) subject length(2) subject [headers length(4) headers] body checksum(8)
//
// in little endian, with the highest bit of the length set if there are headers.
const (
	messagesDir  = "store/jetstream/J/streams/JOURNAL/msgs"
	streamName   = "JOURNAL"
	recordHead   = 22
	checksumSize = 8

	headersLength = 4
	headersBit    = 1 << 31
)

// lose damages the one message of the journal that holds TEXT by a bit, so that
// the server skips it. Nobody may host the journal meanwhile.
func lose(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 1, "lose TEXT")
	b := blockWith(ts, args[0])
	b.record()[bytes.Index(b.record(), []byte(args[0]))] ^= 1
	b.write(ts, b.raw)
}

// misread flips a bit in the length of the one message that holds TEXT, or with
// a number leads its sequence that far astray.
func misread(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && (len(args) == 1 || len(args) == 2), "misread TEXT [SEQUENCE]")
	b := blockWith(ts, args[0])
	if len(args) == 1 {
		b.record()[1] ^= 1
	} else {
		to, err := strconv.ParseUint(args[1], 10, 64)
		ts.Check(err)
		binary.LittleEndian.PutUint64(b.record()[4:], to)
	}
	b.write(ts, b.raw)
}

// redate makes the one message that holds TEXT be stored at another time, as
// by a server whose clock stood there.
func redate(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 2, "redate TEXT TIME")
	at, err := time.Parse(time.RFC3339, args[1])
	ts.Check(err)
	b := blockWith(ts, args[0])
	binary.LittleEndian.PutUint64(b.record()[12:], uint64(at.UnixNano()))
	ts.Check(seal(b.record(), b.number))
	b.write(ts, b.raw)
}

// cut ends the store before the one message that holds TEXT, or within it.
func cut(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 2 && (args[0] == "before" || args[0] == "within"), "cut before|within TEXT")
	b := blockWith(ts, args[1])
	end := b.at
	if args[0] == "within" {
		end += len(b.record()) / 2
	}
	b.write(ts, b.raw[:end])
}

// split begins a new block with the one message that holds TEXT, as the server
// does when a block is full, and removes the index, which the next host makes.
func split(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 1, "split TEXT")
	b := blockWith(ts, args[0])
	next := storeBlock{number: b.number + 1, raw: bytes.Clone(b.raw[b.at:])}
	if _, err := os.Stat(next.file(ts)); err == nil {
		ts.Fatalf("%s is there: split from the front", next.file(ts))
	}
	for rest := next.raw; len(rest) > 0; {
		size := recordSize(rest)
		ts.Check(seal(rest[:size], next.number))
		rest = rest[size:]
	}
	b.write(ts, b.raw[:b.at])
	next.write(ts, next.raw)
	ts.Check(os.RemoveAll(filepath.Join(filepath.Dir(next.file(ts)), "index.db")))
}

// storeBlock is a block of the store, and a place in it.
type storeBlock struct {
	number int
	raw    []byte
	at     int
}

func (b *storeBlock) file(ts *testscript.TestScript) string {
	return filepath.Join(ts.Getenv("JOURNAL"), messagesDir, fmt.Sprint(b.number)+".blk")
}

func (b *storeBlock) write(ts *testscript.TestScript, raw []byte) {
	ts.Check(os.WriteFile(b.file(ts), raw, 0o600))
}

func (b *storeBlock) record() []byte { return b.raw[b.at:][:recordSize(b.raw[b.at:])] }

func recordSize(raw []byte) int { return int(binary.LittleEndian.Uint32(raw) &^ headersBit) }

// blockWith finds the one record of the store that holds a text.
func blockWith(ts *testscript.TestScript, text string) *storeBlock {
	var found []*storeBlock
	for number := 1; ; number++ {
		b := storeBlock{number: number}
		raw, err := os.ReadFile(b.file(ts))
		if err != nil {
			break
		}
		for b.raw = raw; len(raw)-b.at >= recordHead; b.at += recordSize(raw[b.at:]) {
			if bytes.Contains(b.record(), []byte(text)) {
				here := b
				found = append(found, &here)
			}
		}
	}
	if len(found) != 1 {
		ts.Fatalf("%d messages hold %q, want one", len(found), text)
	}
	return found[0]
}

// seal writes a record's checksum: over its sequence and time, its subject,
// its headers and its body, with its block as the key.
func seal(record []byte, block int) error {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", streamName, block))
	sum, err := highwayhash.New64(key[:])
	if err != nil {
		return err
	}
	end := len(record) - checksumSize
	rest := recordHead + int(binary.LittleEndian.Uint16(record[recordHead-2:]))
	subject := record[recordHead:rest]
	if binary.LittleEndian.Uint32(record)&headersBit != 0 {
		rest += headersLength
	}
	for _, part := range [][]byte{record[4:20], subject, record[rest:end]} {
		if _, err := sum.Write(part); err != nil {
			return err
		}
	}
	copy(record[end:], sum.Sum(nil))
	return nil
}
