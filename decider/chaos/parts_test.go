package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"decisionjournal/decider/agent"
	"decisionjournal/journal/journaltest/invariants"
)

func steps(seed uint64, round, n int) (list []step) {
	for p := newPlan(seed, round); n > 0; n-- {
		list = append(list, p.next())
	}
	return list
}

// TestPlan: the seed and the round are the plan, and every blow comes in it.
func TestPlan(t *testing.T) {
	const n = 5000
	one := steps(7, 1, n)
	if !slices.Equal(one, steps(7, 1, n)) {
		t.Error("the same seed makes another plan")
	}
	if slices.Equal(one, steps(8, 1, n)) || slices.Equal(one, steps(7, 2, n)) {
		t.Error("another seed or round makes the same plan")
	}
	for _, c := range chances {
		count := 0
		for _, s := range one {
			if s.blow != c.blow {
				continue
			}
			count++
			if s.lasts < c.least || s.lasts > c.most || s.wait < leastWait || s.wait >= mostWait {
				t.Fatalf("%+v", s)
			}
		}
		if count == 0 {
			t.Errorf("%s never comes", c.blow)
		}
	}
}

func TestDiaries(t *testing.T) {
	dir := t.TempDir()
	d, err := openDiary(dir, "one")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	err = errors.Join(
		d.write(line{Stored: &storedLine{invariants.Stored{Seq: 3, Digest: "d"}, at, at.Add(2 * time.Second)}}),
		d.write(line{Stored: &storedLine{invariants.Stored{Seq: 4, Digest: "e"}, at.Add(time.Second), at.Add(3 * time.Second)}}),
		d.fsync(line{Effect: &invariants.Effect{Tool: "t", Arguments: []byte(`{}`)}}),
		d.write(line{Asked: &invariants.Asked{Question: "q"}}),
		d.write(line{Answer: &invariants.Answer{Question: "q"}}),
		d.write(line{Result: &invariants.Result{Key: "k"}}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.file.WriteString(`{"effect":{"tool":"torn"`); err != nil { // a kill cut it short
		t.Fatal(err)
	}
	s, err := readDiaries(dir)
	if err != nil || len(s.Stored) != 2 || len(s.Effects) != 1 || len(s.Asked) != 1 || len(s.Answers) != 1 || len(s.Results) != 1 {
		t.Fatalf("%v %+v", err, s)
	}
	got := s.recoveries([]time.Time{at, at.Add(time.Millisecond), at.Add(time.Hour)})
	if want := []time.Duration{2 * time.Second, 3*time.Second - time.Millisecond}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := d.file.WriteString("garbage\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := readDiaries(dir); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, "one.jsonl")) {
		t.Errorf("%v", err)
	}
}

// TestWork: batches are the same whenever they are made, policies can be read,
// and what a file says of itself is the call that wrote it.
func TestWork(t *testing.T) {
	for g := range 4 {
		if _, err := policyOf(g); err != nil {
			t.Error(err)
		}
		keys := map[string]bool{}
		for _, r := range batch(g) {
			if r.Key != "" && keys[r.Key] {
				t.Errorf("two calls have the key %s", r.Key)
			}
			keys[r.Key] = true
		}
	}
	if batch(0)[0].Key == batch(1)[0].Key {
		t.Error("two batches are one")
	}
	root := t.TempDir()
	var text strings.Builder
	for _, c := range fileBatch("files-s1", 2) {
		text.WriteString(c.line() + "\n")
		err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, c.path)), 0o700),
			os.WriteFile(filepath.Join(root, c.path), []byte(c.content), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	effects, err := fileEffects(root)
	if err != nil || len(effects) != 4 {
		t.Fatalf("%v %+v", err, effects)
	}
	for l := range agent.ReadBatch(strings.NewReader(text.String())) {
		if l.Err != nil || batchOf(l.Call.ID) != "files-s1-2" {
			t.Errorf("%+v", l)
		}
		made := func(e invariants.Effect) bool { return string(e.Arguments) == string(l.Canonical) && e.Session == "s1" }
		if !slices.ContainsFunc(effects, made) {
			t.Errorf("no effect of %s: %+v", l.Canonical, effects)
		}
	}
}

func TestRecoveredSortsAndCounts(t *testing.T) {
	var rep Report
	rep.recovered([]time.Duration{3, 1})
	rep.recovered([]time.Duration{2})
	if want := (Recovery{Count: 3, Median: 2, P99: 3, Most: 3}); rep.Recovery != want {
		t.Errorf("%+v, want %+v", rep.Recovery, want)
	}
}

func TestReportIsBounded(t *testing.T) {
	var rep Report
	for range maxViolations + 1 {
		rep.violate("x")
	}
	if len(rep.Violations) != maxViolations {
		t.Errorf("%d violations", len(rep.Violations))
	}
}
