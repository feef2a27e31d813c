package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"decisionjournal/journal"
)

// process is one process of a crew.
type process struct {
	cmd  *exec.Cmd
	slot *slot
	out  bytes.Buffer  // its standard output
	done chan struct{} // closed when it has ended and was reaped
	left chan struct{} // closed when its slot goes on without it
	once sync.Once
}

// leave lets the process's slot go on without it.
func (p *process) leave() { p.once.Do(func() { close(p.left) }) }

// signal is lost on a process that has ended.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// exit is the exit code, -1 if a signal ended it. It may be called once done
// is closed.
func (p *process) exit() int { return p.cmd.ProcessState.ExitCode() }

func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// crew are the processes of a round. Its methods may run concurrently.
type crew struct {
	place
	gate    sync.RWMutex // held for writing while nothing may begin
	begun   atomic.Int64 // processes
	kills   atomic.Int64 // processes that SIGKILL ended
	failed  atomic.Int64 // processes that ended with an error of their own
	mu      sync.Mutex
	living  map[*process]struct{}
	reaping sync.WaitGroup
	ended   func(*process) // told of every process that has ended
}

// begin starts a process for a slot.
func (c *crew) begin(ctx context.Context, s *slot) (*process, error) {
	c.gate.RLock()
	defer c.gate.RUnlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(c.logs(), s.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args, err := s.args(c.place, int(c.begun.Add(1)))
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(c.program, args...), slot: s, done: make(chan struct{}), left: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, log
	p.cmd.SysProcAttr = attached()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	c.mu.Lock()
	c.living[p] = struct{}{}
	c.mu.Unlock()
	c.reaping.Go(func() { c.reap(p) })
	return p, nil
}

func (c *crew) reap(p *process) {
	_ = p.cmd.Wait() // its state says all
	c.mu.Lock()
	delete(c.living, p)
	c.mu.Unlock()
	switch {
	case p.killed():
		c.kills.Add(1)
	case p.exit() > 0 && p.exit() != exitAgain:
		c.failed.Add(1)
	}
	c.ended(p)
	close(p.done)
}

// all are the processes that live now.
func (c *crew) all() (list []*process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.living {
		list = append(list, p)
	}
	return list
}

// host is the process whose pid stands in the journal's lock, nil if none of
// the crew that lives has it.
func (c *crew) host() *process {
	raw, err := os.ReadFile(c.lock())
	if err != nil {
		return nil
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(raw)))
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.living {
		if p.cmd.Process.Pid == pid {
			return p
		}
	}
	return nil
}

// extinguish kills all processes at once and returns when none is left. What
// stale does then is done before any begins.
func (c *crew) extinguish(stale func()) {
	c.gate.Lock()
	defer c.gate.Unlock()
	for _, p := range c.all() {
		p.signal(syscall.SIGKILL)
	}
	c.reaping.Wait()
	stale()
}

// slotKind is what the processes of a slot are.
type slotKind int

const (
	agentSlot    slotKind = iota // children of this package
	runnerSlot                   // decider run
	serverSlot                   // decider serve
	approverSlot                 // children of this package
)

// slot is a place that always has a process, one after another.
type slot struct {
	kind           slotKind
	name           string
	session, agent string

	mu         sync.Mutex
	current    *process
	generation int
}

// works reports whether the slot's processes have batches to finish.
func (s *slot) works() bool { return s.kind == agentSlot || s.kind == runnerSlot }

func (s *slot) now() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *slot) at() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

func (s *slot) set(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = p
}

func (s *slot) finished() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
}

// args are the command line of the slot's next process, the nth of its round.
func (s *slot) args(at place, n int) ([]string, error) {
	switch s.kind {
	case serverSlot:
		return []string{"serve", "--journal", at.journal()}, nil
	case runnerSlot:
		return s.runArgs(at)
	}
	o := orders{Role: journal.RoleDecider, Journal: at.journal(), Witness: at.witness(), Name: fmt.Sprintf("%s-%d", s.name, n),
		Session: s.session, Agent: s.agent, Generation: s.at()}
	if s.kind == approverSlot {
		o.Role = journal.RoleApprover
	}
	return at.childArgs(o)
}

// runArgs are the command line of decider run, for a batch file that is written
// first.
func (s *slot) runArgs(at place) ([]string, error) {
	generation := s.at()
	batch := fmt.Sprintf("%s-%d", s.agent, generation)
	file := filepath.Join(at.dir, batch+".jsonl")
	var text bytes.Buffer
	for _, c := range fileBatch(s.agent, generation) {
		text.WriteString(c.line() + "\n")
	}
	// Another process may be reading it: it is replaced as a whole.
	fresh := file + ".new"
	err := errors.Join(os.WriteFile(fresh, text.Bytes(), 0o600), os.Rename(fresh, file))
	return []string{"run", "--journal", at.journal(), "--session", s.session, "--agent", s.agent, "--batch", batch,
		"--policy", at.policy(generation), "--root", at.root(), "--wait", childWait.String(), "--json", file}, err
}
