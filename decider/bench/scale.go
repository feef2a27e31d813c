package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
)

// Sizes of big journals, if nothing else is said.
const (
	DefaultEvents    = 30_000
	DefaultQuestions = 10_000
)

// Aims of big journals.
const (
	questionAim = 3000 // bytes
	coldAim     = 2    // seconds to the first decision
	memoryAim   = 500  // MB, resident
)

// growthFrom is the smallest journal whose growth is measured, in events.
const growthFrom = 1000

// growthFigures measure journals of ten times as many events each.
func growthFigures(ctx context.Context, b *run) error {
	for events := growthFrom; events < b.cfg.Events; events *= 10 {
		if err := b.grown(ctx, events); err != nil {
			return err
		}
	}
	return b.grown(ctx, b.cfg.Events)
}

// grown measures one journal of so many events: how long it takes to open it,
// to append to it, to read one of its sessions, to look at all of them, and to
// decide in it after a start from nothing.
func (b *run) grown(ctx context.Context, events int) error {
	dir, err := b.filled(ctx, big{sessions: max(events/eventsEach, 1), asking: events / eventsEach / 100, undecided: true})
	if err != nil {
		return err
	}
	at := func(what string) string {
		return fmt.Sprintf("%s, %d events in %d sessions", what, events, events/eventsEach)
	}
	if err := b.cold(ctx, dir, at); err != nil {
		return err
	}
	began := time.Now()
	p, err := openPlace(ctx, dir, inProcess)
	if err != nil {
		return err
	}
	defer p.close()
	b.add(Figure{Name: at("open the journal"), Unit: "ms", Value: milliseconds(time.Since(began))})
	if err := b.appends(ctx, p, at); err != nil {
		return err
	}
	return b.reads(ctx, p, at, events/eventsEach)
}

// filled makes a big journal.
func (b *run) filled(ctx context.Context, j big) (dir string, err error) {
	b.made++
	dir = filepath.Join(b.dir, fmt.Sprintf("journal-%d", b.made))
	return dir, j.fill(ctx, dir)
}

// Samples of what is measured in one journal.
const (
	appendSamples = 100
	readSamples   = 50
)

func (b *run) appends(ctx context.Context, p *place, at func(string) string) error {
	r, err := p.publishers(ctx, 1)
	if err != nil {
		return err
	}
	took, err := repeated(ctx, appendSamples, func(int) error { return r.publish(ctx, 0) })
	b.add(Figure{Name: at("append, median"), Unit: "ms", Value: quantile(took, 0.5)})
	return err
}

func (b *run) reads(ctx context.Context, p *place, at func(string) string, sessions int) error {
	w, err := p.writer(ctx, journal.RoleDecider)
	if err != nil {
		return err
	}
	took, err := repeated(ctx, readSamples, func(i int) error {
		_, err := journal.LoadState(ctx, w.Log(), journal.SessionChain(bigSession(i*sessions/readSamples)))
		return err
	})
	if err != nil {
		return err
	}
	b.add(Figure{Name: at("read a session, median"), Unit: "ms", Value: quantile(took, 0.5)})
	began := time.Now()
	last, err := w.Log().Last(ctx)
	if err != nil {
		return err
	}
	for _, err := range journal.Sessions(ctx, w.Log(), last, nil) {
		if err != nil {
			return err
		}
	}
	b.add(Figure{Name: at("list all sessions"), Unit: "s", Value: time.Since(began).Seconds()})
	return nil
}

// repeated does something some times, and returns how many milliseconds each took.
func repeated(ctx context.Context, times int, op func(i int) error) ([]float64, error) {
	var took []float64
	for i := range times {
		began := time.Now()
		if err := op(i); err != nil {
			return took, err
		}
		took = append(took, milliseconds(time.Since(began)))
	}
	return took, ctx.Err()
}

// pageSize is how many questions a frontend shows at a time.
const pageSize = 50

// questionFigures measure an inbox of many open questions, and the host that
// holds them.
func questionFigures(ctx context.Context, b *run) error {
	const each = 20 // of a session
	sessions := max(b.cfg.Questions/each, 1)
	dir, err := b.filled(ctx, big{sessions: sessions, asking: sessions, questions: each})
	if err != nil {
		return err
	}
	before := heapInUse()
	p, err := openPlace(ctx, dir, inProcess)
	if err != nil {
		return err
	}
	defer p.close()
	log, _, err := p.host.As(ctx, journal.RoleApprover)
	if err != nil {
		return err
	}
	began := time.Now()
	box, err := inbox.Load(ctx, log)
	if err != nil {
		return err
	}
	took := time.Since(began)
	n := box.Len()
	if n != sessions*each {
		return fmt.Errorf("%d questions are open, %d were asked", n, sessions*each)
	}
	at := func(what string) string { return fmt.Sprintf("%s, %d open questions", what, n) }
	b.add(Figure{Name: at("host and inbox, heap for each"), Unit: "B", Value: float64(heapInUse()-before) / float64(n), Aim: questionAim, AtMost: true})
	b.add(Figure{Name: at("read the inbox"), Unit: "s", Value: took.Seconds()})
	behind := box.Page(nil, n/2)
	pages, err := repeated(ctx, readSamples, func(int) error {
		if page := box.Page(&behind[len(behind)-1], pageSize); len(page) != pageSize {
			return errors.New("the page is not full")
		}
		return nil
	})
	b.add(Figure{Name: at(fmt.Sprintf("list a page of %d", pageSize)), Unit: "ms", Value: quantile(pages, 0.5)})
	return err
}

// heapInUse is how many bytes of the heap are in use.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
