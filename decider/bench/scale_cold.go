package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// cold measures a worker that starts from nothing: when the first call that is
// made then is decided, when what was left undecided before is, and how much
// memory its process takes.
func (b *run) cold(ctx context.Context, dir string, at func(string) string) error {
	began := time.Now()
	s, err := serve(ctx, b.cfg.Serve, dir)
	if err != nil {
		return err
	}
	first, backlog, err := s.measure(ctx, began)
	memory := s.memory()
	if err := errors.Join(err, s.stop()); err != nil {
		return err
	}
	b.add(Figure{Name: at("first decision after a cold start"), Unit: "s", Value: first.Seconds(), Aim: coldAim, AtMost: true})
	b.add(Figure{Name: at("oldest call decided after a cold start"), Unit: "s", Value: backlog.Seconds()})
	if memory > 0 {
		b.add(Figure{Name: at("most memory of the host"), Unit: "MB", Value: float64(memory) / 1e6, Aim: memoryAim, AtMost: true})
	}
	return nil
}

// server hosts a journal and decides for it, and is joined by this process.
type server struct {
	cmd    *exec.Cmd // nil: in this process,
	host   *embedded.Handle
	cancel context.CancelFunc
	over   chan error
	joined *embedded.Handle
}

func serve(ctx context.Context, command []string, dir string) (*server, error) {
	s := &server{over: make(chan error, 1)}
	begin := s.beside
	if len(command) == 0 {
		begin = s.inside
	}
	err := begin(ctx, command, dir)
	if err == nil {
		s.joined, err = embedded.Open(ctx, embedded.Config{Dir: dir, Existing: true, Role: journal.RoleAgent})
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// inside hosts in this process.
func (s *server) inside(ctx context.Context, _ []string, dir string) (err error) {
	if s.host, err = embedded.Open(ctx, embedded.Config{Dir: dir, Role: journal.RoleDecider}); err != nil {
		return err
	}
	_, actor := s.host.Principal()
	w, err := journal.NewWriter(journal.Config{Log: s.host, Role: journal.RoleDecider, Actor: actor})
	if err != nil {
		return err
	}
	ctx, s.cancel = context.WithCancel(ctx)
	go func() { s.over <- (&decider.Worker{Decider: &decider.Decider{Writer: w}}).Run(ctx) }()
	return nil
}

// beside starts a process, and waits until it hosts.
func (s *server) beside(ctx context.Context, command []string, dir string) error {
	s.cmd = exec.Command(command[0], append(command[1:], dir)...)
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return fmt.Errorf("start %s: %w", command[0], err)
	}
	go func() { s.over <- s.cmd.Wait() }()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !s.hosts(dir) {
		select {
		case <-ticker.C:
		case err := <-s.over:
			s.cmd = nil
			return fmt.Errorf("%s ended: %w", command[0], err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// hosts reports whether the process has the lock of the journal: whoever joins
// now joins it.
func (s *server) hosts(dir string) bool {
	raw, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(raw)))
	return err == nil && pid == s.cmd.Process.Pid
}

// measure makes a call and waits until it is decided, and then until the call
// of the oldest session is.
func (s *server) measure(ctx context.Context, began time.Time) (first, backlog time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pol, err := policy.Parse("bench.json", []byte(policyText))
	if err != nil {
		return 0, 0, err
	}
	_, actor := s.joined.Principal()
	w, err := journal.NewWriter(journal.Config{Log: s.joined, Role: journal.RoleAgent, Actor: actor})
	if err != nil {
		return 0, 0, err
	}
	c, err := openCaller(ctx, w, pol, "cold")
	if err != nil {
		return 0, 0, err
	}
	if _, err := c.call(ctx, "fs_delete"); err != nil {
		return 0, 0, err
	}
	first = time.Since(began)
	chain := journal.SessionChain(bigSession(0))
	st := journal.NewState(chain)
	err = foldUntil(ctx, st, follow(ctx, w.Log(), chain), func() bool {
		calls := st.Calls()
		return len(calls) > 0 && calls[0].Last().Progress == journal.Denied
	})
	return first, time.Since(began), err
}

// memory is the most that the process had resident so far, in bytes; 0 if that
// is not known.
func (s *server) memory() int {
	if s.cmd == nil {
		return 0
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(raw, []byte("VmHWM:"))
	kilobytes := 0
	if _, err := fmt.Sscan(string(rest), &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}

// stop ends what was begun.
func (s *server) stop() error {
	var errs []error
	if s.joined != nil {
		errs = append(errs, s.joined.Close())
	}
	if s.cancel != nil {
		s.cancel()
		if err := <-s.over; !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
	}
	if s.host != nil {
		errs = append(errs, s.host.Close())
	}
	if s.cmd != nil {
		errs = append(errs, s.cmd.Process.Signal(syscall.SIGTERM), <-s.over)
	}
	return errors.Join(errs...)
}
