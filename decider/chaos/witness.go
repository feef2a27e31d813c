package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"decisionjournal/journal/journaltest/invariants"
)

// line is one thing that a process saw and wrote down before it went on.
// Exactly one of its pointers is set.
type line struct {
	Stored *storedLine        `json:"stored,omitempty"`
	Effect *invariants.Effect `json:"effect,omitempty"`
	Asked  *invariants.Asked  `json:"asked,omitempty"`
	Answer *invariants.Answer `json:"answer,omitempty"`
	Result *invariants.Result `json:"result,omitempty"`
}

// storedLine is an acknowledged message, with when its publish began and ended.
type storedLine struct {
	invariants.Stored
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
}

// diary is one process's file of lines. Each process has its own, since one
// that is killed may leave half a line behind.
type diary struct{ file *os.File }

const diarySuffix = ".jsonl"

func openDiary(dir, name string) (*diary, error) {
	f, err := os.OpenFile(filepath.Join(dir, name+diarySuffix), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the witness cannot be written: %w", err)
	}
	return &diary{f}, nil
}

// write adds a line in one write: a kill of the process does not lose it.
func (d *diary) write(l line) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = d.file.Write(append(raw, '\n'))
	return err
}

// fsync adds a line that outlives the machine too.
func (d *diary) fsync(l line) error {
	return errors.Join(d.write(l), d.file.Sync())
}

// seen is all that the processes of a round wrote down.
type seen struct {
	invariants.Witness
	stored []storedLine
}

// readDiaries collects the diaries of a directory.
func readDiaries(dir string) (*seen, error) {
	s := &seen{Witness: invariants.Witness{Stored: []invariants.Stored{}, Results: []invariants.Result{},
		Effects: []invariants.Effect{}, Asked: []invariants.Asked{}, Answers: []invariants.Answer{}, Idempotent: idempotent}}
	files, err := filepath.Glob(filepath.Join(dir, "*"+diarySuffix))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := s.read(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return s, nil
}

// read takes a diary's whole lines. What a kill cut short was not seen by
// anybody but the process that died.
func (s *seen) read(raw []byte) error {
	raw = raw[:bytes.LastIndexByte(raw, '\n')+1]
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return err
		}
		s.add(l)
	}
	return lines.Err()
}

func (s *seen) add(l line) {
	switch {
	case l.Stored != nil:
		s.stored = append(s.stored, *l.Stored)
		s.Stored = append(s.Stored, l.Stored.Stored)
	case l.Effect != nil:
		s.Effects = append(s.Effects, *l.Effect)
	case l.Asked != nil:
		s.Asked = append(s.Asked, *l.Asked)
	case l.Answer != nil:
		s.Answers = append(s.Answers, *l.Answer)
	case l.Result != nil:
		s.Results = append(s.Results, *l.Result)
	}
}

// recoveries are how long it took, from each moment at which a host died, until
// something was stored whose publish began after it.
func (s *seen) recoveries(died []time.Time) (list []time.Duration) {
	for _, at := range died {
		if d := s.recovery(at); d > 0 {
			list = append(list, d)
		}
	}
	return list
}

// recovery is 0 if nothing was stored any more.
func (s *seen) recovery(died time.Time) (least time.Duration) {
	for _, l := range s.stored {
		if l.Began.Before(died) {
			continue
		}
		if d := l.Ended.Sub(died); least == 0 || d < least {
			least = d
		}
	}
	return least
}
