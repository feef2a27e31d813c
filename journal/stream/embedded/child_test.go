package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"decisionjournal/journal"
)

// childEnv makes the test binary a child process that does what it names in the
// directory of childDir.
const (
	childEnv = "EMBEDDED_TEST_CHILD"
	childDir = "EMBEDDED_TEST_DIR"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		if err := child(mode, os.Getenv(childDir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var crash = journal.SessionChain("crash")

// child opens the journal and says "open" and whether it hosts. As "append" it
// then appends without end, and prints the sequence of each append that was
// acknowledged; as "hold" it waits for its input to end.
func child(mode, dir string) error {
	switch mode {
	case "trace":
		return tracePlanned()
	case "writers":
		return writers(dir)
	case "limited":
		return limited(dir)
	case "few":
		return few(dir)
	case "hungry":
		return hungry(dir)
	}
	h, err := Open(context.Background(), Config{Dir: dir, Role: journal.RoleDecider})
	if err != nil {
		return err
	}
	fmt.Println("open", h.Hosting())
	if mode == "hold" {
		bufio.NewReader(os.Stdin).ReadByte()
		return h.Close()
	}
	sub := journal.Subject{Chain: crash, Role: journal.RoleDecider, Actor: "decider"}
	for after, i := uint64(0), 0; ; i++ {
		seq, err := h.Publish(context.Background(), sub, after, []byte(strconv.Itoa(i)))
		if err != nil {
			return err
		}
		fmt.Println(seq)
		after = seq
	}
}

// process is a running child.
type process struct {
	*exec.Cmd
	out *bufio.Scanner
}

// start runs a child until it has opened dir, and wants it to host or not.
func start(t *testing.T, mode, dir string, hosts bool) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+mode, childDir+"="+dir)
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
	p := &process{cmd, bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	if !p.out.Scan() || p.out.Text() != fmt.Sprint("open ", hosts) {
		t.Fatalf("the child said %q, want open %v", p.out.Text(), hosts)
	}
	return p
}

// kill is kill -9, and waits until the process is gone.
func (p *process) kill() {
	if err := p.Process.Kill(); err == nil || errors.Is(err, os.ErrProcessDone) {
		p.Wait()
	}
}

// pause stops the process where it is, and waits until it stands still.
func (p *process) pause(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("not stopped: %v, %v", status, err)
	}
}

// sequences reads n acknowledged sequences, or with n < 0 all until the end.
func (p *process) sequences(t *testing.T, n int) []uint64 {
	t.Helper()
	var seqs []uint64
	for (n < 0 || len(seqs) < n) && p.out.Scan() {
		seq, err := strconv.ParseUint(strings.TrimSpace(p.out.Text()), 10, 64)
		if err != nil {
			break // a line cut off by the kill is no acknowledgement
		}
		seqs = append(seqs, seq)
	}
	return seqs
}
