package embedded

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"decisionjournal/journal"
	"decisionjournal/journal/stream"
)

// powerRounds is how often the power is cut; the environment may ask for more.
const powerRoundsEnv = "POWER_ROUNDS"

func rounds(t *testing.T, env string, otherwise int) int {
	t.Helper()
	text := os.Getenv(env)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number of rounds", env, text)
	}
	return n
}

// TestPowerLoss cuts every file of a journal to what its host had synced when it
// was killed; a file that was never synced is emptied. Nothing acknowledged is
// lost, and no chain is broken. What is synced is seen by strace: on a machine
// without it this is only a test of kills.
func TestPowerLoss(t *testing.T) {
	_, err := exec.LookPath("strace")
	tracing := err == nil
	if !tracing {
		t.Logf("the host is killed, but the power is not cut: %v", err)
	}
	acked, unacked := 0, 0
	for round := range rounds(t, powerRoundsEnv, 4) {
		path := t.TempDir() + "/j"
		trace := filepath.Join(t.TempDir(), "trace")
		host := startTraced(t, trace, path, tracing)
		w := writeUntilCut(t, dir(path), func() {
			if round%2 == 0 {
				time.AfterFunc(0, host.cut) // while the first appends are made
				return
			}
			host.cut()
		})
		if tracing {
			cutFiles(t, path, readTrace(t, trace, path))
		}
		a, u := w.check(t, path)
		acked, unacked = acked+a, unacked+u
	}
	t.Logf("%d commits acknowledged, none lost; %d stored and not acknowledged", acked, unacked)
}

// traced is a host under strace, if that is there.
type traced struct {
	*exec.Cmd
	tracing bool
}

func startTraced(t *testing.T, trace, path string, tracing bool) *traced {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	if tracing {
		cmd = exec.Command("strace", "-f", "-qq", "-y", "-s", "0", "--seccomp-bpf", "-o", trace,
			"-e", "trace=openat,write,pwrite64,fsync,fdatasync,ftruncate,rename,renameat,renameat2", os.Args[0])
	}
	cmd.Env = append(os.Environ(), childEnv+"=hold", childDir+"="+path)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &traced{cmd, tracing}
	t.Cleanup(h.cut)
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open true" {
		t.Fatalf("the host said %q", lines.Text())
	}
	return h
}

// cut kills the host, not strace, which then ends by itself.
func (h *traced) cut() {
	if !h.tracing {
		_ = h.Process.Kill() // or it has ended
		h.Wait()
		return
	}
	pid := h.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return // it has ended
	}
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			if p, err := os.FindProcess(n); err == nil {
				p.Kill()
			}
		}
	}
	h.Wait()
}

// written is what writers were told is stored.
type written struct {
	mu sync.Mutex
	n  map[string]uint64 // session -> commits acknowledged
}

// writeUntilCut appends to several sessions over the socket, without taking
// over from the host, until the cut that begins once each has had some.
func writeUntilCut(t *testing.T, d dir, cut func()) *written {
	t.Helper()
	w := &written{n: map[string]uint64{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var some, writers sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprint("s", i)
		log := guestOnly(t, d)
		some.Add(1)
		writers.Go(func() {
			defer log.Close()
			told := sync.OnceFunc(some.Done)
			defer told()
			st := journal.NewState(journal.SessionChain(name))
			wr := writerOf(t, log, journal.RoleDecider, "decider")
			for ctx.Err() == nil {
				var event journal.Event
				if st.N() == 0 {
					event = wr.Event(&journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession})
				} else {
					event = note(t, wr.NewID())
				}
				if err := wr.Append(ctx, st, wr.Now(st), event); err != nil {
					return
				}
				w.mu.Lock()
				w.n[name] = st.N()
				w.mu.Unlock()
				if st.N() == 40 {
					told()
				}
			}
		})
	}
	some.Wait()
	cut()
	cancel()
	writers.Wait()
	return w
}

// guestOnly is a client over the socket that never hosts.
func guestOnly(t *testing.T, d dir) *stream.Log {
	t.Helper()
	p, err := find(d, journal.RoleDecider, "")
	if err != nil {
		t.Fatal(err)
	}
	key, err := readKey(d, p)
	if err != nil {
		t.Fatal(err)
	}
	log, err := stream.Open(t.Context(), stream.Config{Role: p.role, Actor: p.actor, Key: key,
		Dial: func() (net.Conn, error) { return net.Dial("unix", d.socket()) }})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// check opens the journal again: every chain is whole and holds at least what
// was acknowledged, and at most the one commit more that was on its way.
func (w *written) check(t *testing.T, path string) (acked, unacked int) {
	t.Helper()
	h := open(t, Config{Dir: path})
	defer h.Close()
	for name, n := range w.n {
		st, err := journal.LoadState(t.Context(), h, journal.SessionChain(name))
		if err != nil {
			t.Fatal(err)
		}
		if cond, why := st.Condition(); cond != journal.Whole {
			t.Errorf("%s is %s: %+v", name, cond, why)
		}
		if st.N() < n || st.N() > n+1 {
			t.Errorf("%s holds %d commits, %d were acknowledged", name, st.N(), n)
		}
		acked, unacked = acked+int(n), unacked+int(st.N()-n)
	}
	if list := h.Warnings(); len(list) > 0 {
		t.Errorf("%q", list)
	}
	return acked, unacked
}

// files is what a trace tells of the sizes of files.
type files struct {
	size, pos map[string]int64
	direct    map[string]bool // opened so that each write is synced
	synced    map[string]int64
	begun     map[string]string // pid -> a call that has not returned
	syncing   map[string]int64  // pid -> the size its sync began with
}

var (
	unfinished = regexp.MustCompile(`^(\d+) +(.*) <unfinished \.\.\.>$`)
	resumed    = regexp.MustCompile(`^(\d+) +<\.\.\. \w+ resumed>(.*)$`)
	call       = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += (-?\d+)(?:<([^>]*)>)?`)
	fdPath     = regexp.MustCompile(`^\d+<([^>]*)>`)
)

// readTrace returns, for each file under path, the size it had when it was last
// synced.
func readTrace(t *testing.T, trace, path string) map[string]int64 {
	t.Helper()
	raw, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	f := &files{map[string]int64{}, map[string]int64{}, map[string]bool{}, map[string]int64{}, map[string]string{}, map[string]int64{}}
	syncs := 0
	for lines := bufio.NewScanner(raw); lines.Scan(); {
		line := lines.Text()
		if m := unfinished.FindStringSubmatch(line); m != nil {
			f.begun[m[1]] = m[2]
			f.beginSync(m[1], m[2])
			continue
		}
		if m := resumed.FindStringSubmatch(line); m != nil {
			line = m[1] + " " + f.begun[m[1]] + m[2]
			delete(f.begun, m[1])
		}
		m := call.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if f.note(t, m[1], m[2], m[3], m[4], m[5]) {
			syncs++
		}
	}
	if syncs < 100 {
		t.Fatalf("the trace shows %d syncs: it cannot be of this journal", syncs)
	}
	for name := range f.synced {
		if !strings.HasPrefix(name, path) {
			delete(f.synced, name)
		}
	}
	return f.synced
}

func (f *files) beginSync(pid, text string) {
	name, args, _ := strings.Cut(text, "(")
	if m := fdPath.FindStringSubmatch(args); m != nil && strings.HasSuffix(name, "sync") {
		f.syncing[pid] = f.size[m[1]]
	}
}

// note takes a call in that has returned, and reports whether it synced.
func (f *files) note(t *testing.T, pid, name, args, result, resultPath string) bool {
	n, err := strconv.ParseInt(result, 10, 64)
	if err != nil || n < 0 {
		return false
	}
	path := ""
	if m := fdPath.FindStringSubmatch(args); m != nil {
		path = m[1]
	}
	fields := strings.Split(args, ", ")
	last, numErr := strconv.ParseInt(fields[len(fields)-1], 10, 64)
	switch name {
	case "openat":
		f.pos[resultPath], f.direct[resultPath] = 0, strings.Contains(args, "O_SYNC")
		if strings.Contains(args, "O_TRUNC") {
			f.size[resultPath] = 0
		}
		if strings.Contains(args, "O_APPEND") {
			f.pos[resultPath] = f.size[resultPath]
		}
	case "write":
		f.pos[path] += n
		f.wrote(path, f.pos[path])
	case "pwrite64":
		if numErr != nil {
			t.Fatalf("no offset in %s(%s)", name, args)
		}
		f.wrote(path, last+n)
	case "ftruncate":
		f.size[path] = last
		if s, ok := f.synced[path]; ok {
			f.synced[path] = min(s, last)
		}
	case "fsync", "fdatasync":
		size, began := f.syncing[pid]
		if !began {
			size = f.size[path]
		}
		delete(f.syncing, pid)
		f.synced[path] = size
		return true
	case "rename", "renameat", "renameat2":
		f.rename(args)
	}
	return false
}

func (f *files) wrote(path string, to int64) {
	f.size[path] = max(f.size[path], to)
	if f.direct[path] {
		f.synced[path] = f.size[path]
	}
}

var quoted = regexp.MustCompile(`"([^"]*)"`)

// rename moves what is known of a file. strace was told to shorten texts, but
// not those of paths.
func (f *files) rename(args string) {
	names := quoted.FindAllStringSubmatch(args, -1)
	if len(names) != 2 {
		return
	}
	from, to := names[0][1], names[1][1]
	f.size[to] = f.size[from]
	if s, ok := f.synced[from]; ok {
		f.synced[to] = s
	} else {
		delete(f.synced, to)
	}
	delete(f.size, from)
	delete(f.synced, from)
}

// cutFiles is the power loss: what was not synced is gone.
func cutFiles(t *testing.T, path string, synced map[string]int64) {
	t.Helper()
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if to := synced[name]; to < info.Size() {
			t.Logf("%s: %d of %d bytes are left", strings.TrimPrefix(name, path), to, info.Size())
			return os.Truncate(name, to)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
