package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// strike lets one blow fall.
func (r *round) strike(ctx context.Context, s step) {
	r.figures.Blows++
	switch s.blow {
	case killAgent:
		r.kill(r.one(s, (*slot).works).now())
	case killServer:
		r.kill(r.one(s, ofKind(serverSlot)).now())
	case killApprover:
		r.kill(r.one(s, ofKind(approverSlot)).now())
	case killHost:
		r.kill(r.host())
	case killNext:
		r.killNext(ctx, s)
	case killAll:
		r.figures.AllKilled++
		r.died()
		r.extinguish(func() { r.stale(s) })
	case twins:
		r.twins(ctx, s)
	case pauseAgent:
		r.pauseAgent(ctx, s)
	case pauseHost, hangHost:
		r.figures.HostPauses++
		r.hold(ctx, r.host(), s.lasts)
	case slowAgent:
		r.slow(ctx, r.one(s, (*slot).works).now(), s.lasts)
	case slowHost:
		r.slow(ctx, r.host(), s.lasts)
	}
}

func ofKind(k slotKind) func(*slot) bool { return func(s *slot) bool { return s.kind == k } }

// one is the slot that a step falls on.
func (r *round) one(s step, fits func(*slot) bool) *slot {
	var list []*slot
	for _, slot := range r.slots {
		if fits(slot) {
			list = append(list, slot)
		}
	}
	return list[s.pick%uint64(len(list))]
}

func (r *round) kill(p *process) {
	if p == nil {
		return
	}
	if p == r.host() {
		r.died()
	}
	p.signal(syscall.SIGKILL)
}

// died notes that the host dies now.
func (r *round) died() {
	r.figures.HostKills++
	r.hostDied = append(r.hostDied, time.Now())
}

// takeoverWait is how long the next host is waited for.
const takeoverWait = 3 * time.Second

// killNext kills the host, and then the next one as it takes over.
func (r *round) killNext(ctx context.Context, s step) {
	first := r.host()
	if first == nil {
		return
	}
	r.kill(first)
	for end := time.Now().Add(takeoverWait); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, time.Millisecond) {
		if next := r.host(); next != nil && next != first {
			pause(ctx, s.lasts)
			r.figures.KilledTakingOver++
			r.kill(next)
			return
		}
	}
}

// twins kills an agent and begins two in its place.
func (r *round) twins(ctx context.Context, s step) {
	slot := r.one(s, (*slot).works)
	r.kill(slot.now())
	r.figures.Twins++
	if _, err := r.begin(ctx, slot); err != nil {
		r.fail(err)
	}
}

// pauseAgent stops an agent for so long that another takes its place, and lets
// it go on then.
func (r *round) pauseAgent(ctx context.Context, s step) {
	p := r.one(s, (*slot).works).now()
	if p == nil {
		return
	}
	r.figures.Pauses++
	r.hold(ctx, p, s.lasts)
	p.leave()
}

// hold stops a process for a while.
func (r *round) hold(ctx context.Context, p *process, d time.Duration) {
	if p == nil {
		return
	}
	p.signal(syscall.SIGSTOP)
	r.later.Go(func() {
		pause(ctx, d)
		p.signal(syscall.SIGCONT)
	})
}

// The slow run for a small part of the time only.
const (
	slowStop = 25 * time.Millisecond
	slowGo   = 5 * time.Millisecond
)

// slow lets a process run now and then only.
func (r *round) slow(ctx context.Context, p *process, d time.Duration) {
	if p == nil {
		return
	}
	r.figures.Slowed++
	r.later.Go(func() {
		for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, slowGo) {
			p.signal(syscall.SIGSTOP)
			pause(ctx, slowStop)
			p.signal(syscall.SIGCONT)
		}
	})
}

// stale leaves what a host of another time may leave: a lock with the pid of a
// process that is no host, and a socket that nobody listens at, or no socket.
func (r *round) stale(s step) {
	err := os.WriteFile(r.lock(), fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return // there is no journal yet
	}
	if rmErr := os.Remove(r.socket()); rmErr != nil && !errors.Is(rmErr, os.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	if s.pick%2 == 0 {
		err = errors.Join(err, leaveSocket(r.socket()))
	}
	if err != nil {
		r.fail(err)
	}
}

// leaveSocket makes a socket that nobody listens at. A path that is too long
// for one gets a plain file.
func leaveSocket(path string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return os.WriteFile(path, nil, 0o600)
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}
