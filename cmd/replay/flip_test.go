package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"decisionjournal/decider/replay"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// flipsEnv says how many bits TestFlippedBits tries: a number, or "all".
const flipsEnv = "REPLAY_TEST_FLIPS"

const (
	flipsUnset = 150
	flipsSeed  = 20261201

	// Most of the time is waited for what cannot be read.
	flipsAtOnce    = 20
	allFlipsAtOnce = 100
)

// TestFlippedBits flips single bits in every file of a small journal that was
// closed cleanly, and has an auditor read it, twice, as the first reader may
// have mended or changed it. Either everything in it is as it was, or the
// damage is named: never is another or a shorter history taken for a whole one.
// REPLAY_TEST_FLIPS=all tries every bit there is, which takes hours.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	small := filepath.Join(t.TempDir(), "small")
	smallJournal(t, small)
	files := filesOf(t, small)
	want := look(t.Context(), small)
	if want.how() != "" {
		t.Fatalf("before any damage: %s", want.how())
	}
	bits := chooseBits(t, files)
	found := tally{counts: map[string]int{}}
	var wg sync.WaitGroup
	next := make(chan bit)
	atOnce := flipsAtOnce
	if len(bits) == files.bits() {
		atOnce = allFlipsAtOnce
	}
	for range atOnce {
		wg.Go(func() {
			for b := range next {
				for _, got := range lookTwice(t, files, b) {
					found.add(t, b, got.against(want))
				}
			}
		})
	}
	for i, b := range bits {
		next <- b
		if (i+1)%2000 == 0 {
			t.Logf("%d of %d bits: %s", i+1, len(bits), found.String())
		}
	}
	close(next)
	wg.Wait()
	t.Logf("%d of %d bits tried, each read twice: %s", len(bits), files.bits(), found.String())
}

// lookTwice is what two readers see, one after the other, of a journal with one
// bit flipped. Where the machine was too busy to tell, they look anew.
func lookTwice(t *testing.T, files contents, b bit) (seen []sight) {
	dir, err := os.MkdirTemp(t.TempDir(), "j")
	if err != nil {
		t.Error(err)
		return nil
	}
	for range 3 {
		files.write(t, dir, b)
		seen = []sight{look(t.Context(), dir), look(t.Context(), dir)}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		if !seen[0].late() && !seen[1].late() {
			return seen
		}
	}
	t.Errorf("%s: not read in time: %v, %v", b, seen[0].err, seen[1].err)
	return nil
}

// bit is one bit of one file.
type bit struct {
	file string
	at   int
}

func (b bit) String() string { return fmt.Sprintf("bit %d of byte %d of %s", b.at%8, b.at/8, b.file) }

// contents are the files of a journal directory by path.
type contents map[string][]byte

func filesOf(t *testing.T, dir string) contents {
	t.Helper()
	files := contents{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[rel], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func (c contents) bits() (n int) {
	for _, raw := range c {
		n += 8 * len(raw)
	}
	return n
}

// write makes a copy with one bit flipped.
func (c contents) write(t *testing.T, dir string, flipped bit) {
	for name, raw := range c {
		if name == flipped.file {
			raw = bytes.Clone(raw)
			raw[flipped.at/8] ^= 1 << (flipped.at % 8)
		}
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, raw, 0o600)); err != nil {
			t.Error(err)
		}
	}
}

// chooseBits takes as many bits of each file as its size calls for, and at
// least a few.
func chooseBits(t *testing.T, files contents) []bit {
	t.Helper()
	text := cmp.Or(os.Getenv(flipsEnv), strconv.Itoa(flipsUnset))
	all := text == "all"
	n, err := strconv.Atoi(text)
	if err != nil && !all {
		t.Fatalf("%s is %q: give a number, or all", flipsEnv, text)
	}
	random := rand.New(rand.NewPCG(flipsSeed, 0))
	var bits []bit
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	})
	for _, name := range names {
		have := 8 * len(files[name])
		take := min(have, max(3, n*have/files.bits()))
		if all {
			take = have
		}
		for _, at := range random.Perm(have)[:take] {
			bits = append(bits, bit{name, at})
		}
	}
	random.Shuffle(len(bits), func(i, k int) { bits[i], bits[k] = bits[k], bits[i] })
	return bits
}

// sight is all that a reader sees of a journal.
type sight struct {
	err      error
	warnings []string
	holes    []uint64
	messages []journal.Message
	sessions []replay.SessionInfo
	report   replay.Report
}

// late reports whether time ran out.
func (s sight) late() bool {
	return errors.Is(s.err, context.DeadlineExceeded) || errors.Is(s.err, context.Canceled)
}

// look reads a journal as an auditor.
func look(ctx context.Context, dir string) (s sight) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	h, err := embedded.Open(ctx, embedded.Config{Dir: dir, Role: journal.RoleAuditor, Existing: true})
	if err != nil {
		s.err = err
		return s
	}
	defer func() { s.err = errors.Join(s.err, h.Close()) }()
	s.warnings = h.Warnings()
	s.err = s.read(ctx, h)
	return s
}

func (s *sight) read(ctx context.Context, log journal.Log) (err error) {
	if s.holes, err = log.Holes(ctx); err != nil {
		return err
	}
	chains, err := log.Chains(ctx)
	if err != nil {
		return err
	}
	for _, c := range chains {
		for m, err := range log.Load(ctx, c, 0) {
			if err != nil {
				return err
			}
			s.messages = append(s.messages, m)
		}
	}
	j, err := replay.Load(ctx, log)
	if err != nil {
		return err
	}
	if s.sessions, err = j.Sessions(ctx); err != nil {
		return err
	}
	s.report, err = j.Audit(ctx)
	return err
}

// how says by what the sight names damage, "" if by nothing.
func (s sight) how() string {
	switch {
	case s.err != nil:
		return "an error"
	case len(s.holes) > 0 && !s.report.Clean:
		return "a hole and audit"
	case len(s.holes) > 0:
		return "A HOLE ALONE"
	case !s.report.Clean:
		return "audit alone"
	case len(s.warnings) > 0:
		return "a warning"
	}
	return ""
}

// against is what came of the damage.
func (s sight) against(want sight) outcome {
	o := outcome{how: s.how(), same: s.err == nil && same(s.messages, want.messages)}
	o.silent = !o.same && (o.how == "" || o.how == "a warning")
	o.text = fmt.Sprintf("%v; holes %v; warnings %q; %d of %d messages; clean %t", s.err, s.holes, s.warnings, len(s.messages), len(want.messages), s.report.Clean)
	return o
}

func same(a, b []journal.Message) bool {
	one, err1 := json.Marshal(a)
	two, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(one, two)
}

type outcome struct {
	how, text    string
	same, silent bool
}

// tally counts outcomes.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (y *tally) add(t *testing.T, b bit, o outcome) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if o.silent {
		t.Errorf("%s: another history is taken for whole: %s", b, o.text)
	}
	word := "named by " + o.how
	switch {
	case o.silent:
		word = "SILENT"
	case o.same && o.how == "":
		word = "harmless"
	case o.same:
		word = "harmless, and named by " + o.how
	}
	y.counts[word]++
}

func (y *tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var parts []string
	for word, n := range y.counts {
		parts = append(parts, fmt.Sprintf("%s %d", word, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// smallJournal records one session with all that matters in it.
func smallJournal(t *testing.T, dir string) {
	t.Helper()
	ctx := t.Context()
	h, err := embedded.Open(ctx, embedded.Config{Dir: dir, Role: journal.RoleDecider, User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRecorder(ctx, h, "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.dec.Activate(ctx, "default", r.pol); err != nil {
		t.Fatal(err)
	}
	id, err := r.write(ctx, r.dec.Writer, r.call("fs_write", `{"path":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	q := r.st.Question(r.st.Call(id).Last().Question)
	if _, err := r.write(ctx, r.approver, &journal.Answer{Question: q.Mark.ID, Action: journal.AlwaysAllow, Shown: q.Shown, By: r.approver.Principal().Actor}); err != nil {
		t.Fatal(err)
	}
	r.start(t, id)
	if _, err := r.write(ctx, r.approver, &journal.Revoke{Grant: r.st.Grants()[0].Mark.ID, Reason: "only once"}); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

// start has a call started and finished.
func (r *recorder) start(t *testing.T, id string) {
	t.Helper()
	c := r.st.Call(id)
	run, content := r.st.LiveRuns("main")[0].Run, []byte(`"done"`)
	_, err1 := r.write(t.Context(), r.dec.Writer, &journal.Start{Call: id, Attempt: 1, Run: run, Decision: c.Last().Decision, Digest: c.Digest})
	_, err2 := r.write(t.Context(), r.dec.Writer, &journal.Result{Call: id, Attempt: 1, Run: run, Status: journal.StatusOK, Content: content, Size: uint64(len(content)), Digest: journal.Digest(content)})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
}
