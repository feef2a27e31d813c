package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// link is how the clients of a place reach its journal.
type link string

const (
	inProcess  link = "in process" // they are in the host's process
	overSocket link = "socket"     // as a program that joined the host
)

// place is a scratch journal and a way to it.
type place struct {
	host   *embedded.Handle
	joined *embedded.Handle // nil in process
	raw    int              // groups of publishers so far
}

// open makes a scratch journal. The caller closes it.
func (b *run) open(ctx context.Context, how link) (*place, error) {
	b.made++
	return openPlace(ctx, filepath.Join(b.dir, fmt.Sprintf("journal-%d", b.made)), how)
}

func openPlace(ctx context.Context, dir string, how link) (*place, error) {
	p := &place{}
	var err error
	if p.host, err = embedded.Open(ctx, embedded.Config{Dir: dir, Role: journal.RoleDecider}); err != nil {
		return nil, err
	}
	if how == overSocket {
		if p.joined, err = embedded.Open(ctx, embedded.Config{Dir: dir, Role: journal.RoleDecider}); err != nil {
			return nil, errors.Join(err, p.host.Close())
		}
	}
	return p, nil
}

func (p *place) close() error {
	var err error
	if p.joined != nil {
		err = p.joined.Close()
	}
	return errors.Join(err, p.host.Close())
}

// writer is a connection of its own with a role's key.
func (p *place) writer(ctx context.Context, role journal.Role) (*journal.Writer, error) {
	h := p.host
	if p.joined != nil {
		h = p.joined
	}
	log, actor, err := h.As(ctx, role)
	if err != nil {
		return nil, err
	}
	return journal.NewWriter(journal.Config{Log: log, Role: role, Actor: actor})
}

// decider is a decider with a connection of its own, that has made the
// measurements' policy the default.
func (p *place) decider(ctx context.Context) (*decider.Decider, *policy.Policy, error) {
	w, err := p.writer(ctx, journal.RoleDecider)
	if err != nil {
		return nil, nil, err
	}
	pol, err := policy.Parse("bench.json", []byte(policyText))
	if err != nil {
		return nil, nil, err
	}
	d := &decider.Decider{Writer: w}
	_, err = d.Activate(ctx, "default", pol)
	return d, pol, err
}

// policyText allows what is measured as allowed and asks about what is
// measured as asked.
const policyText = `{"rules": [
  {"tool": "fs_read", "decision": "allow"},
  {"tool": "fs_write", "decision": "allow", "under": "scratch"},
  {"tool": "fs_delete", "decision": "deny"},
  {"tool": "deploy", "decision": "ask"}
]}`

// together has n workers do something over and over for a time, and returns
// how often a second it was done in all. op gets the worker's number.
func together(ctx context.Context, n int, d time.Duration, op func(ctx context.Context, worker int) error) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	counts, errs := make([]int, n), make([]error, n)
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for time.Since(begin) < d && ctx.Err() == nil {
				if errs[i] = op(ctx, i); errs[i] != nil {
					cancel()
					return
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	total := 0
	for _, c := range counts {
		total += c
	}
	return float64(total) / time.Since(begin).Seconds(), errors.Join(append(errs, ctx.Err())...)
}
