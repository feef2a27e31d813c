package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/highwayhash"
	"github.com/rogpeppe/go-internal/testscript"
)

// The store of a journal, as nats-server 2.15 writes it: one block of records,
// each of them
//
//	length(4) sequence(8) time(8) subject length(2) subject [headers length(4) headers] body checksum(8)
//
// in little endian, with the highest bit of the length set if there are headers.
const (
	blockFile    = "store/jetstream/J/streams/JOURNAL/msgs/1.blk"
	blockKey     = "JOURNAL-1"
	recordHead   = 22
	checksumSize = 8

	headersLength = 4
	headersBit    = 1 << 31
)

// lose damages the one message of the journal that holds TEXT by a bit, so that
// the server skips it. Nobody may host the journal meanwhile.
func lose(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 1, "lose TEXT")
	change(ts, args[0], func(record []byte) { record[bytes.Index(record, []byte(args[0]))] ^= 1 })
}

// redate makes the one message that holds TEXT be stored at another time, as
// by a server whose clock stood there.
func redate(ts *testscript.TestScript, neg bool, args []string) {
	needs(ts, !neg && len(args) == 2, "redate TEXT TIME")
	at, err := time.Parse(time.RFC3339, args[1])
	ts.Check(err)
	change(ts, args[0], func(record []byte) {
		binary.LittleEndian.PutUint64(record[12:], uint64(at.UnixNano()))
		ts.Check(seal(record))
	})
}

// change rewrites one record of the store in place.
func change(ts *testscript.TestScript, text string, edit func(record []byte)) {
	file := filepath.Join(ts.Getenv("JOURNAL"), blockFile)
	block, err := os.ReadFile(file)
	ts.Check(err)
	found := 0
	for rest := block; len(rest) >= recordHead; {
		size := binary.LittleEndian.Uint32(rest) &^ headersBit
		record := rest[:size]
		rest = rest[size:]
		if bytes.Contains(record, []byte(text)) {
			found++
			edit(record)
		}
	}
	if found != 1 {
		ts.Fatalf("%d messages hold %q, want one", found, text)
	}
	ts.Check(os.WriteFile(file, block, 0o600))
}

// seal writes a record's checksum: over its sequence and time, its subject,
// its headers and its body.
func seal(record []byte) error {
	key := sha256.Sum256([]byte(blockKey))
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
