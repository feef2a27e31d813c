package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"decisionjournal/journal"
)

// fewFiles is how many files the child may open that hosts with few.
const fewFiles = filesKept + 36

// few is a child that hosts and may open few files.
func few(path string) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: fewFiles, Max: fewFiles}); err != nil {
		return err
	}
	h, err := Open(context.Background(), Config{Dir: path, Role: journal.RoleDecider})
	if err != nil {
		return err
	}
	fmt.Println("open", h.Hosting())
	_, err = bufio.NewReader(os.Stdin).ReadByte()
	return errors.Join(err, h.Close())
}

// TestManyConnections has more clients than the host may open files: those it
// has are served, one too many is told why it is not, and nothing is lost.
func TestManyConnections(t *testing.T) {
	path := t.TempDir() + "/j"
	startWith(t, "few", path)
	h := open(t, Config{Dir: path})
	w := writerOf(t, h, journal.RoleDecider, "decider")
	st := begun(t, h, "s1")
	var conns []net.Conn
	crowd := func() {
		for range 3 * fewFiles {
			c, err := net.Dial("unix", filepath.Join(path, socketName))
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
	}
	crowd()
	for range 20 {
		if err := w.Append(t.Context(), st, w.Now(st), note(t, w.NewID())); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Open(t.Context(), Config{Dir: path, Role: journal.RoleAuditor, Patience: 300 * time.Millisecond})
	if !errors.Is(err, journal.ErrUnavailable) || !strings.Contains(err.Error(), "takes no more connections") || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("got %v, want ErrUnavailable for too many connections", err)
	}
	for _, c := range conns {
		c.Close()
	}
	reader := open(t, Config{Dir: path, Role: journal.RoleAuditor})
	if h.Hosting() || reader.Hosting() {
		t.Error("the host was given up")
	}
	wantWhole(t, reader, "s1", 21)
}

// TestBridgeCloses: the bridge waits for nobody when it closes, also
// while it cannot accept.
func TestBridgeCloses(t *testing.T) {
	path := t.TempDir() + "/j"
	h := open(t, Config{Dir: path})
	for range 10 {
		c, err := net.Dial("unix", filepath.Join(path, socketName))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	closeNow(t, h)
}

// hungry is a child that hosts, and appends large commits, all of which it keeps
// in mind, while it may have only a little more memory.
func hungry(path string) error {
	h, err := Open(context.Background(), Config{Dir: path, Role: journal.RoleDecider})
	if err != nil {
		return err
	}
	const more = 64 << 20
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var size, resident, shared, text, lib, data uint64
	if _, err := fmt.Sscan(string(raw), &size, &resident, &shared, &text, &lib, &data); err != nil {
		return err
	}
	limit.Cur = data*uint64(os.Getpagesize()) + more
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	return write(h, func(int) int { return 400_000 })
}

// TestLittleMemory has a host run out of memory while it appends. It goes as by
// a kill, and nothing that it had acknowledged is lost.
func TestLittleMemory(t *testing.T) {
	root := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=hungry", childDir+"="+filepath.Join(root, "j"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var told acks
	const atMost = 2000
	for lines := bufio.NewScanner(out); lines.Scan() && len(told.commits) < atMost; {
		told.note(t, lines.Text())
	}
	if len(told.commits) == 0 || len(told.commits) == atMost {
		t.Errorf("%d acknowledged: the limit is none, or too low to begin", len(told.commits))
		cmd.Process.Kill()
	}
	t.Logf("%d acknowledged, then: %v", len(told.commits), cmd.Wait())
	if lost := check(t, root, told); lost.lost > 0 {
		t.Errorf("%d lost", lost.lost)
	}
}

// TestSeveralTakeOver kills a host that several others wait to follow: exactly
// one does, the rest join it, and all go on.
func TestSeveralTakeOver(t *testing.T) {
	path := t.TempDir() + "/j"
	first := start(t, "hold", path, true)
	mine := open(t, Config{Dir: path})
	st := begun(t, mine, "s1")
	for range 4 {
		start(t, "hold", path, false)
	}
	first.kill()
	w := writerOf(t, mine, journal.RoleDecider, "decider")
	for range 5 {
		if err := w.Append(t.Context(), st, w.Now(st), note(t, w.NewID())); err != nil {
			t.Fatal(err)
		}
	}
	joined := open(t, Config{Dir: path, Role: journal.RoleAuditor})
	if joined.Hosting() {
		t.Error("one that came later hosts")
	}
	wantWhole(t, joined, "s1", 6)
	wantHoles(t, joined)
}
