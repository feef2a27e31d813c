package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"decisionjournal/journal"
)

// publishers are n clients of one connection that append to chains of their
// own, each message after the last one has been acknowledged: what a journal
// does without judging anything.
type publishers struct {
	log   journal.Log
	subs  []journal.Subject
	after []uint64
	data  []byte
}

// rawSize is about the size of the commits that are measured, in bytes: a call
// with its decision and start has 1,500, the result 500.
const rawSize = 1000

func (p *place) publishers(ctx context.Context, n int) (*publishers, error) {
	w, err := p.writer(ctx, journal.RoleDecider)
	if err != nil {
		return nil, err
	}
	r := &publishers{log: w.Log(), after: make([]uint64, n), data: make([]byte, rawSize)}
	p.raw++
	for i := range n {
		chain := journal.SessionChain(fmt.Sprintf("raw-%d-%d", p.raw, i))
		r.subs = append(r.subs, journal.Subject{Chain: chain, Role: w.Principal().Role, Actor: w.Principal().Actor})
	}
	return r, nil
}

func (r *publishers) publish(ctx context.Context, i int) error {
	seq, err := r.log.Publish(ctx, r.subs[i], r.after[i], r.data)
	if err == nil {
		r.after[i] = seq
	}
	return err
}

// rate is how many messages a second they append in all.
func (r *publishers) rate(ctx context.Context, d time.Duration) (float64, error) {
	return together(ctx, len(r.subs), d, r.publish)
}

// rawFigures are the disk and the server alone: they have no aims.
func rawFigures(ctx context.Context, b *run) error {
	if err := fsyncFigure(ctx, b); err != nil {
		return err
	}
	for _, how := range []link{inProcess, overSocket} {
		if err := b.rawPublish(ctx, how); err != nil {
			return err
		}
	}
	return nil
}

// fsyncFigure is how long one write of a message's size takes to be durable.
func fsyncFigure(ctx context.Context, b *run) error {
	f, err := os.Create(filepath.Join(b.dir, "fsync"))
	if err != nil {
		return err
	}
	defer f.Close()
	data := make([]byte, rawSize)
	var took []float64
	for begin := time.Now(); time.Since(begin) < b.time/5 && ctx.Err() == nil; {
		at := time.Now()
		if _, err := f.Write(data); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		took = append(took, milliseconds(time.Since(at)))
	}
	b.add(Figure{Name: "write and fsync of 1 kB, median", Unit: "ms", Value: quantile(took, 0.5)})
	b.add(Figure{Name: "write and fsync of 1 kB, 99th percentile", Unit: "ms", Value: quantile(took, 0.99)})
	return ctx.Err()
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// rawPublish is the rate and the latency of durable appends.
func (b *run) rawPublish(ctx context.Context, how link) error {
	p, err := b.open(ctx, how)
	if err != nil {
		return err
	}
	defer p.close()
	for _, n := range agentCounts {
		r, err := p.publishers(ctx, n)
		if err != nil {
			return err
		}
		rate, err := r.rate(ctx, b.time/10)
		if err != nil {
			return err
		}
		b.add(Figure{Name: fmt.Sprintf("raw appends, %s, %s", count(n, "publisher"), how), Unit: "1/s", Value: rate})
	}
	r, err := p.publishers(ctx, 1)
	if err != nil {
		return err
	}
	took, err := timed(ctx, b.time/10, func() error { return r.publish(ctx, 0) })
	if err != nil {
		return err
	}
	b.add(Figure{Name: fmt.Sprintf("raw append, median, %s", how), Unit: "ms", Value: quantile(took, 0.5)})
	b.add(Figure{Name: fmt.Sprintf("raw append, 99th percentile, %s", how), Unit: "ms", Value: quantile(took, 0.99)})
	return nil
}

// timed does something over and over for a time, and returns how many
// milliseconds each took.
func timed(ctx context.Context, d time.Duration, op func() error) ([]float64, error) {
	var took []float64
	for begin := time.Now(); time.Since(begin) < d && ctx.Err() == nil; {
		at := time.Now()
		if err := op(); err != nil {
			return nil, err
		}
		took = append(took, milliseconds(time.Since(at)))
	}
	return took, ctx.Err()
}

// agentCounts are how many agents work at a time, in the figures that say so.
var agentCounts = [...]int{1, 8, 64}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
