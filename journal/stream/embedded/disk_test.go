package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"decisionjournal/journal"
)

// fileLimit is how large a file may be that the child with a limit writes: more
// than those of a new journal are, and less than what tries whether there is room.
const fileLimit = probeSize / 2

// limited is a child that hosts and may not write large files, until its input
// has a line.
func limited(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var whole syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &whole); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: fileLimit, Max: whole.Max}); err != nil {
		return err
	}
	h, err := Open(context.Background(), Config{Dir: path, Role: journal.RoleDecider})
	if err != nil {
		return err
	}
	fmt.Println("open", h.Hosting())
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &whole); err != nil {
		return err
	}
	_, err = in.ReadString('\n') // until the test is over
	return errors.Join(err, h.Close())
}

// TestFullDisk has a host's disk take no more: appends fail at once with the
// reason, reading goes on, nothing acknowledged is lost, and once there is room
// the same connections go on, and nobody had to do anything.
func TestFullDisk(t *testing.T) {
	t.Run("a limit of file sizes", func(t *testing.T) {
		path := t.TempDir() + "/j"
		in := startWith(t, "limited", path)
		fullDisk(t, path, "raise the limit", func() {
			if _, err := in.WriteString("go on\n"); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("no room", func(t *testing.T) {
		disk, ok := newExt4(t, 16<<10)
		if !ok {
			return
		}
		path := filepath.Join(disk.dir, "j")
		host := open(t, Config{Dir: path, Role: journal.RoleAdmin})
		defer host.Close() // before the disk is unmounted
		free := disk.fill(t, 40)
		fullDisk(t, path, "free some space", free)
	})
}

// startWith starts a child that hosts, and returns its standard input.
func startWith(t *testing.T, mode, path string) *os.File {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+mode, childDir+"="+path)
	cmd.Stderr = os.Stderr
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	cmd.Stdin = theirs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open true" {
		t.Fatalf("the child said %q, want open true", lines.Text())
	}
	return ours
}

// fullDisk appends to a journal that another hosts until its disk is full, and
// goes on once it is free.
func fullDisk(t *testing.T, path, advice string, free func()) {
	t.Helper()
	h := open(t, Config{Dir: path})
	defer h.Close()
	w := writerOf(t, h, journal.RoleDecider, "decider")
	st := begun(t, h, "s1")
	err := fillUp(t, w, st)
	if !errors.Is(err, journal.ErrUnknown) && !errors.Is(err, journal.ErrUnwritable) {
		t.Fatalf("got %v, want ErrUnknown or ErrUnwritable", err)
	}
	acked := st.N()
	for range 3 {
		err := w.Append(t.Context(), st, w.Now(st), bulk(w, 10_000))
		if !errors.Is(err, journal.ErrUnwritable) || errors.Is(err, journal.ErrUnknown) ||
			!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), advice) {
			t.Fatalf("got %v, want ErrUnwritable that names %s and says: %s", err, path, advice)
		}
	}
	reader := open(t, Config{Dir: path, Role: journal.RoleAuditor})
	defer reader.Close()
	wantWhole(t, reader, "s1", acked)
	free()
	for try := 0; ; try++ {
		err := w.Append(t.Context(), st, w.Now(st), bulk(w, 10_000))
		if err == nil {
			break
		}
		if !errors.Is(err, journal.ErrUnavailable) && !errors.Is(err, journal.ErrUnknown) {
			t.Fatal(err)
		}
		if err := errors.Join(journal.Refresh(t.Context(), h, st), w.Pause(t.Context(), try)); err != nil && t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	wantWhole(t, reader, "s1", acked+1)
	wantHoles(t, reader)
}

// fillUp appends until that fails, which on a disk this small is soon.
func fillUp(t *testing.T, w *journal.Writer, st *journal.State) error {
	t.Helper()
	for range 2000 {
		if err := w.Append(t.Context(), st, w.Now(st), bulk(w, 10_000)); err != nil {
			return err
		}
	}
	return errors.New("the disk has more room than it has")
}

// bulk is an event of a size.
func bulk(w *journal.Writer, size int) journal.Event {
	arguments := fmt.Appendf(nil, `{"text":"%s"}`, strings.Repeat("x", size))
	return w.Event(&journal.Call{Agent: "main", Run: "r1", Kind: journal.CallTool, Tool: "read", Arguments: arguments, Digest: journal.Digest(arguments)})
}

// wantWhole wants a session to be whole and to have at least n commits.
func wantWhole(t *testing.T, log journal.Log, name string, n uint64) {
	t.Helper()
	st, err := journal.LoadState(t.Context(), log, journal.SessionChain(name))
	if err != nil {
		t.Fatal(err)
	}
	if cond, at := st.Condition(); cond != journal.Whole || st.N() < n {
		t.Errorf("%s is %s %+v and has %d commits, %d were acknowledged", name, cond, at, st.N(), n)
	}
}

// TestAlmostFullDisk begins a journal on a disk that has hardly any room: either
// it is there, or it is said why not, and it can be begun once there is room.
func TestAlmostFullDisk(t *testing.T) {
	disk, ok := newExt4(t, 16<<10)
	if !ok {
		return
	}
	refused := 0
	for leave := int64(2); leave <= 58; leave += 8 {
		path := filepath.Join(disk.dir, fmt.Sprint("j", leave))
		free := disk.fill(t, leave)
		h, err := Open(t.Context(), Config{Dir: path, Role: journal.RoleDecider})
		switch {
		case err == nil:
			h.Close()
		case !strings.Contains(err.Error(), "is full: free some space") || strings.Contains(err.Error(), "\n"):
			t.Errorf("with %d KiB: %v", leave, err)
		default:
			refused++
		}
		free()
		h, err = Open(t.Context(), Config{Dir: path, Role: journal.RoleDecider})
		if err != nil {
			t.Fatalf("with %d KiB, and then more: %v", leave, err)
		}
		begun(t, h, "s1")
		closeNow(t, h)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Error("there was always room")
	}
	t.Logf("refused %d times", refused)
}

func TestReadOnlyDisk(t *testing.T) {
	disk, ok := newExt4(t, 16<<10)
	if !ok {
		return
	}
	path := filepath.Join(disk.dir, "j")
	h := open(t, Config{Dir: path})
	begun(t, h, "s1")
	closeNow(t, h)
	disk.remount(t, "ro")
	for dir, why := range map[string]string{path: "is read-only", filepath.Join(disk.dir, "new"): "cannot be made"} {
		_, err := Open(t.Context(), Config{Dir: dir, Role: journal.RoleAuditor})
		if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "mount it for writing, or copy it") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	disk.remount(t, "rw")
	h = open(t, Config{Dir: path})
	defer h.Close()
	wantWhole(t, h, "s1", 1)
}

// TestDeadDisk has a disk fail for good under a host: appends fail with the
// reason, and the host ends in order.
func TestDeadDisk(t *testing.T) {
	disk, ok := newExt4(t, 16<<10)
	if !ok {
		return
	}
	path := filepath.Join(disk.dir, "j")
	h := open(t, Config{Dir: path, Role: journal.RoleAdmin})
	guest := open(t, Config{Dir: path})
	st := begun(t, guest, "s1")
	disk.powerOff(t)
	w := writerOf(t, guest, journal.RoleDecider, "decider")
	if err := w.Append(t.Context(), st, w.Now(st), bulk(w, 100)); !errors.Is(err, journal.ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
	err := w.Append(t.Context(), st, w.Now(st), bulk(w, 100))
	for errors.Is(err, journal.ErrConflict) { // the server counts what it could not write, until it is found out
		if err = journal.Refresh(t.Context(), guest, st); err == nil {
			err = w.Append(t.Context(), st, w.Now(st), bulk(w, 100))
		}
	}
	if !errors.Is(err, journal.ErrUnwritable) || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("got %v, want ErrUnwritable for an input/output error", err)
	}
	guest.Close()
	h.Close()
	disk.cycle(t)
	h = open(t, Config{Dir: path})
	defer h.Close()
	wantWhole(t, h, "s1", 1)
	wantHoles(t, h)
}

func TestAdvice(t *testing.T) {
	d := dir("/var/j")
	for errno, want := range map[syscall.Errno]string{
		syscall.ENOSPC: "the disk of /var/j is full: free some space",
		syscall.EDQUOT: "the disk of /var/j is full: free some space",
		syscall.EROFS:  "the disk of /var/j is read-only",
		syscall.EFBIG:  "a file of /var/j may not grow",
		syscall.EMFILE: "no more files of /var/j can be opened",
		syscall.EIO:    "write x: input/output error",
	} {
		got := d.advise(&os.PathError{Op: "write", Path: "x", Err: errno})
		if !strings.HasPrefix(got.Error(), want) {
			t.Errorf("%v: got %q, want %q", errno, got, want)
		}
	}
}
