package embedded

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// What the tests of power losses may be told by the environment.
const (
	powerRounds = "EMBEDDED_POWER_ROUNDS" // how many; 5 if unset
	powerSeed   = "EMBEDDED_POWER_SEED"   // of what is random in them; 1 if unset

	childPlan = "EMBEDDED_TEST_PLAN" // a tracePlan in JSON
)

// tracePlan says what to run and when to cut the power.
type tracePlan struct {
	Mode string // of the child
	Root string // the directory that stands for the disk; the child's journal is "j" in it
	Out  string // where the cut disks go
	Cuts []int  // rising: after how many changes of the disk; at the last the child is killed
}

func tracePlanned() error {
	var plan tracePlan
	if err := json.Unmarshal([]byte(os.Getenv(childPlan)), &plan); err != nil {
		return err
	}
	return trace(plan)
}

// TestPowerLoss cuts the power of a host and of those who append through it:
// after every change of the disk while a journal is made and while it is
// recovered, and at random moments later. Every file is cut to what it held at
// its last sync, with more or less of what was written since. Nothing that was
// acknowledged may be gone, no session may be broken, and the journal goes on.
//
// It traces the child by ptrace, which this system must allow. The environment
// variables EMBEDDED_POWER_ROUNDS and EMBEDDED_POWER_SEED ask for more rounds
// than 5, and for other moments.
func TestPowerLoss(t *testing.T) {
	seed := uint64(number(t, powerSeed, 1))
	random := rand.New(rand.NewPCG(seed, 0))
	base := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(base, dirMode); err != nil {
		t.Fatal(err)
	}
	var before acks // that a cut of the round before had seen
	lost := tally{}
	for round := range number(t, powerRounds, 5) {
		plan := tracePlan{Mode: "writers", Root: base, Out: t.TempDir(), Cuts: someCuts(random)}
		if round < 2 {
			plan.Cuts = allCuts() // an empty disk, and a recovery
		}
		run(t, plan)
		last := fmt.Sprint(plan.Cuts[len(plan.Cuts)-1])
		way := []string{cutJournaled, cutTorn, cutKilled}[random.IntN(3)]
		base = filepath.Join(t.TempDir(), "disk")
		if err := copyTree(base, filepath.Join(plan.Out, last+"."+way)); err != nil {
			t.Fatal(err)
		}
		for root, acked := range distinct(t, plan, ways(round), before) {
			lost.add(check(t, root, acked))
		}
		before = before.and(printed(t, plan, plan.Cuts[len(plan.Cuts)-1]))
	}
	t.Logf("seed %d: the power went off %d times; of %d commits acknowledged by then %d are lost", seed, lost.cuts, lost.acked, lost.lost)
}

// ways are those that a round is cut in. As POSIX has it, a new block of the
// store may vanish with a directory that was not synced, so that way is only
// for rounds that stay within one block; no file system that is known loses
// the name of a file that was synced itself.
func ways(round int) []string {
	all := []string{cutJournaled, cutTorn, cutZeros, cutKilled}
	if round < 2 {
		all = append(all, cutStrict)
	}
	return all
}

// distinct are the disks that the cuts of a plan left, each once, with all that
// was acknowledged by the last cut that left it.
func distinct(t *testing.T, plan tracePlan, ways []string, before acks) map[string]acks {
	t.Helper()
	roots := map[string]string{} // by digest
	acked := map[string]acks{}
	for _, cut := range plan.Cuts {
		now := before.and(printed(t, plan, cut))
		for _, way := range ways {
			root := filepath.Join(plan.Out, fmt.Sprint(cut, ".", way))
			digest := digestTree(t, root)
			if roots[digest] == "" {
				roots[digest] = root
			}
			acked[roots[digest]] = now
		}
	}
	return acked
}

func digestTree(t *testing.T, root string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			fmt.Fprintf(sum, "%q\n", strings.TrimPrefix(path, root))
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%q %d %s\n", strings.TrimPrefix(path, root), len(data), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(sum.Sum(nil))
}

const firstChanges = 80 // more than it takes until several commits are acknowledged

// allCuts is after every change of a young host.
func allCuts() (all []int) {
	for n := range firstChanges {
		all = append(all, n+1)
	}
	return all
}

// someCuts is after a few changes of a host that recovers, and a few later.
func someCuts(random *rand.Rand) []int {
	some := []int{1 + random.IntN(firstChanges), 1 + random.IntN(firstChanges)}
	for range 3 {
		some = append(some, firstChanges+random.IntN(1500))
	}
	slices.Sort(some)
	return slices.Compact(some)
}

func number(t *testing.T, variable string, unset int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), strconv.Itoa(unset)))
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// run traces a plan in a process of its own, since a tracer waits for every
// child it has.
func run(t *testing.T, plan tracePlan) {
	t.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=trace", childPlan+"="+string(text))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// ack is a commit that a writer was told is stored.
type ack struct {
	session string
	seq     uint64
	digest  string
}

// acks are what was acknowledged before a cut.
type acks struct {
	keys    string // those of the journal, once it was open
	commits []ack
}

func (a acks) and(b acks) acks {
	return acks{cmp.Or(a.keys, b.keys), append(slices.Clone(a.commits), b.commits...)}
}

func printed(t *testing.T, plan tracePlan, cut int) acks {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(plan.Out, strconv.Itoa(cut)+printedSuffix))
	if err != nil {
		t.Fatal(err)
	}
	var a acks
	for line := range strings.Lines(string(text)) {
		a.note(t, line)
	}
	return a
}

// note takes in a line that a child printed.
func (a *acks) note(t *testing.T, line string) {
	t.Helper()
	var c ack
	if n, _ := fmt.Sscanf(line, "keys %s", &a.keys); n == 1 {
		return
	}
	if _, err := fmt.Sscanf(line, "ack %s %d %s", &c.session, &c.seq, &c.digest); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	a.commits = append(a.commits, c)
}

type tally struct{ cuts, acked, lost int }

func (a *tally) add(b tally) { a.cuts, a.acked, a.lost = a.cuts+b.cuts, a.acked+b.acked, a.lost+b.lost }

// check opens what a cut left and holds it against what was acknowledged.
func check(t *testing.T, root string, acked acks) tally {
	t.Helper()
	h, err := Open(t.Context(), Config{Dir: filepath.Join(root, "j"), Role: journal.RoleDecider})
	if err != nil {
		t.Errorf("%s: %v", filepath.Base(root), err)
		return tally{1, len(acked.commits), len(acked.commits)}
	}
	defer h.Close()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: %s", filepath.Base(root), fmt.Sprintf(format, args...))
	}
	if keys, err := keysOf(dir(filepath.Join(root, "j"))); err != nil || acked.keys != "" && keys != acked.keys {
		fail("the keys are others than before: %v", err)
	}
	if holes, err := h.Holes(t.Context()); err != nil || len(holes) > 0 || len(h.Warnings()) > 0 {
		fail("holes %v, %v, warnings %q", holes, err, h.Warnings())
	}
	lost := missing(t, h, acked.commits, fail)
	if lost > 0 {
		fail("%d of %d acknowledged commits are gone", lost, len(acked.commits))
	}
	return tally{1, len(acked.commits), lost}
}

// missing counts the acknowledged commits that are not there, and lets every
// session go on.
func missing(t *testing.T, h *Handle, acked []ack, fail func(string, ...any)) (lost int) {
	t.Helper()
	stored := map[ack]bool{}
	w := writerOf(t, h, journal.RoleDecider, "decider")
	for _, name := range sessionsOf(acked) {
		chain := journal.SessionChain(name)
		all, err := journaltest.Collect(h.Load(t.Context(), chain, 0))
		if err != nil {
			fail("load %s: %v", name, err)
		}
		st := journal.NewState(chain)
		for _, m := range all {
			stored[ack{name, m.Seq, journal.Digest(m.Data)}] = true
			st.Apply(m)
		}
		if cond, at := st.Condition(); cond != journal.Whole {
			fail("%s is %s at %+v", name, cond, at)
			continue
		}
		if err := w.Append(t.Context(), st, w.Now(st), note(t, w.NewID())); err != nil {
			fail("%s does not go on: %v", name, err)
		}
	}
	for _, a := range acked {
		if !stored[a] {
			lost++
		}
	}
	return lost
}

func sessionsOf(acked []ack) []string {
	var list []string
	for _, a := range acked {
		list = append(list, a.session)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// keysOf is a digest of all keys of a journal.
func keysOf(d dir) (string, error) {
	all, err := principals(d)
	if err != nil {
		return "", err
	}
	var seeds []byte
	for _, p := range all {
		seed, err := os.ReadFile(filepath.Join(d.keys(), p.file()))
		if err != nil {
			return "", err
		}
		seeds = append(seeds, seed...)
	}
	return journal.Digest(seeds), nil
}

// writers is a child that hosts, and appends to several sessions at a time,
// in process and over the socket. It prints each commit once it is acknowledged.
func writers(path string) error {
	const each = 2
	failed := make(chan error)
	for i := range 3 {
		h, err := Open(context.Background(), Config{Dir: path, Role: journal.RoleDecider})
		if err != nil {
			return err
		}
		if h.Hosting() != (i == 0) {
			return fmt.Errorf("opened %d times, and hosting is %v", i+1, h.Hosting())
		}
		if keys, err := keysOf(dir(path)); err != nil || i == 0 && say("keys %s", keys) != nil {
			return errors.New("keys not told")
		}
		for range each {
			go func() { failed <- write(h, sometimesLarge) }()
		}
	}
	return <-failed
}

func say(format string, args ...any) error {
	_, err := fmt.Fprintf(os.Stdout, format+"\n", args...) // in one write
	return err
}

// sometimesLarge are sizes of commits: mostly small, and now and then a large one.
func sometimesLarge(n int) int {
	if n%20 == 0 {
		return 300_000
	}
	return 50 * (n % 7)
}

// write appends to a new session without end, and prints each commit once it is
// acknowledged.
func write(h *Handle, size func(n int) int) error {
	w, err := journal.NewWriter(journal.Config{Log: h, Role: journal.RoleDecider, Actor: "decider"})
	if err != nil {
		return err
	}
	st := journal.NewState(journal.SessionChain(w.NewID()))
	var body journal.Body = &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession}
	for n := 1; ; n++ {
		if err := w.Append(context.Background(), st, w.Now(st), w.Event(body)); err != nil {
			return err
		}
		if err := say("ack %s %d %s", st.Chain().Session(), st.LastSeq(), st.Prev()); err != nil {
			return err
		}
		arguments := fmt.Appendf(nil, `{"text":"%s"}`, strings.Repeat("x", size(n)))
		body = &journal.Call{Agent: "main", Run: "r1", Kind: journal.CallTool, Tool: "read", Arguments: arguments, Digest: journal.Digest(arguments)}
	}
}
