package bench

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// The benchmarks measure each figure for as long as -benchtime says and report
// both sides of it and their ratio.

func BenchmarkInline(b *testing.B) {
	for _, c := range inlineCases() {
		b.Run(c.name(), func(b *testing.B) {
			measured(b, c.how, func(ctx context.Context, raw, p *place, d time.Duration) ([]Figure, error) {
				f, err := measureInline(ctx, raw, p, c, d)
				return []Figure{f}, err
			})
		})
	}
}

func BenchmarkWorker(b *testing.B) {
	for _, c := range workerCases() {
		b.Run(c.name(), func(b *testing.B) {
			measured(b, c.how, func(ctx context.Context, raw, p *place, d time.Duration) ([]Figure, error) {
				f, err := measureWorker(ctx, raw, p, c, d)
				return []Figure{f}, err
			})
		})
	}
}

func BenchmarkAnswer(b *testing.B) {
	for _, c := range answerCases() {
		b.Run(c.name+", "+string(c.how), func(b *testing.B) {
			measured(b, c.how, func(ctx context.Context, raw, p *place, d time.Duration) ([]Figure, error) {
				return measureAnswers(ctx, raw, p, c.name, c.open, d)
			})
		})
	}
}

// benchTime is how long one figure is measured.
const benchTime = 3 * time.Second

// measured has a figure measured once. An iteration of the benchmark is a
// whole measurement, since each is a comparison of rounds.
func measured(b *testing.B, how link, measure func(context.Context, *place, *place, time.Duration) ([]Figure, error)) {
	b.Helper()
	for b.Loop() {
		dir := b.TempDir()
		raw, err := openPlace(b.Context(), filepath.Join(dir, "raw"), how)
		if err != nil {
			b.Fatal(err)
		}
		p, err := openPlace(b.Context(), filepath.Join(dir, "journal"), how)
		if err != nil {
			b.Fatal(err)
		}
		figures, err := measure(b.Context(), raw, p, benchTime)
		if err != nil {
			b.Fatal(err)
		}
		for i, f := range figures {
			unit := [...]string{"", "-p99"}[i]
			b.ReportMetric(f.Value, f.Unit+unit)
			b.ReportMetric(f.Baseline, "raw-"+f.Unit+unit)
			b.ReportMetric(f.Ratio, "ratio"+unit)
		}
		if err := p.close(); err != nil {
			b.Fatal(err)
		}
		if err := raw.close(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRestart takes up a session as a kill left it: every call that was
// answered is released once, and nothing is asked again.
func TestRestart(t *testing.T) {
	b := &run{cfg: Config{}.withDefaults(), dir: t.TempDir()}
	if err := b.restart(t.Context(), 50); err != nil {
		t.Fatal(err)
	}
	if len(b.found.Figures) != 2 || b.found.Figures[0].Value <= 0 || b.found.Figures[1].Value < b.found.Figures[0].Value {
		t.Errorf("%+v", b.found.Figures)
	}
}

func BenchmarkRestart(b *testing.B) {
	for b.Loop() {
		r := &run{cfg: Config{}.withDefaults(), dir: b.TempDir()}
		if err := r.restart(b.Context(), waitingCalls); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(r.found.Figures[0].Value, "first-s")
		b.ReportMetric(r.found.Figures[1].Value, "last-s")
	}
}
