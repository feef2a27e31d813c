// Package bench measures what a journal costs on a given disk, beside what the
// disk and the server cost alone: each figure is a ratio of two things measured
// in turn, in one run, with the settings a journal has. Use [Run].
//
// The numbers are of the machine as it is at that moment. Ratios travel from
// one machine to another, rates and latencies do not.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
)

// Config says where and for how long to measure. The zero value measures in
// the current directory.
type Config struct {
	// Dir is where scratch journals are made, and removed again: a directory on
	// the disk to measure; "" is the current one.
	Dir string
	// Time is how long measuring may take in all, about; 0: DefaultTime. Each
	// figure gets its part of it.
	Time time.Duration
	// Events is how large the largest journal is whose growth is measured; 0:
	// DefaultEvents. Questions is how many are open at a time where many are; 0:
	// DefaultQuestions. A million events take minutes to write.
	Events, Questions int
	// Serve is a command that hosts the journal in the directory named behind it
	// and decides for it, as decider serve --journal. It is measured as a process
	// of its own. Nil: in this one, without its memory.
	Serve []string
	// Told is called with each figure once it is measured; nil: not.
	Told func(Figure)
}

// DefaultTime is how long a run takes if nothing else is said.
const DefaultTime = 40 * time.Second

func (cfg Config) withDefaults() Config {
	cfg.Dir = cmp.Or(cfg.Dir, ".")
	cfg.Time = cmp.Or(cfg.Time, DefaultTime)
	cfg.Events = cmp.Or(cfg.Events, DefaultEvents)
	cfg.Questions = cmp.Or(cfg.Questions, DefaultQuestions)
	if cfg.Told == nil {
		cfg.Told = func(Figure) {}
	}
	return cfg
}

// Figure is one thing measured.
type Figure struct {
	// Name says what was measured; it is unique in a report.
	Name string `json:"name"`
	// Unit of Value and Baseline, such as "1/s" or "ms".
	Unit string `json:"unit"`
	// Value is the median over the rounds, unless the name says otherwise.
	Value float64 `json:"value"`
	// Baseline is what Value is held against, measured in the same rounds; 0:
	// nothing.
	Baseline float64 `json:"baseline,omitzero"`
	// Ratio is the median of the rounds' ratios of value to baseline, which
	// need not be the ratio of the medians; 0 without a baseline.
	Ratio float64 `json:"ratio,omitzero"`
	// Aim is what Ratio should reach, or Value where there is no baseline; 0: no aim.
	Aim float64 `json:"aim,omitzero"`
	// AtMost says that the aim is an upper bound.
	AtMost bool `json:"at_most,omitzero"`
}

// Met reports whether a figure reaches its aim. One without an aim does.
func (f Figure) Met() bool {
	got := f.Value
	if f.Baseline != 0 {
		got = f.Ratio
	}
	if f.Aim == 0 {
		return true
	}
	if f.AtMost {
		return got <= f.Aim
	}
	return got >= f.Aim
}

// Report is what a run measured, and on what.
type Report struct {
	Dir     string   `json:"dir"`
	System  string   `json:"system"` // operating system and architecture
	Go      string   `json:"go"`
	CPUs    int      `json:"cpus"`
	Figures []Figure `json:"figures"`
}

// part is a group of figures, and its share of the whole time.
type part struct {
	weight int
	run    func(ctx context.Context, b *run) error
}

// parts are all there is to measure, in order.
func parts() []part {
	return []part{
		{1, rawFigures},
		{4, inlineFigures},
		{4, workerFigures},
		{2, answerFigures},
		{2, restartFigures},
		{1, questionFigures},
		{3, growthFigures},
	}
}

// run is one run of measurements.
type run struct {
	cfg   Config
	dir   string        // of scratch journals
	time  time.Duration // for the part being measured
	made  int           // scratch journals so far
	found Report
}

// Run measures everything, in a scratch directory that it removes. A report it
// returns beside an error holds the figures measured before that.
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	dir, err := os.MkdirTemp(cfg.Dir, "bench-")
	if err != nil {
		return Report{}, fmt.Errorf("measure: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &run{cfg: cfg, dir: dir, found: Report{
		Dir: cfg.Dir, System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), CPUs: runtime.NumCPU()}}
	total := 0
	for _, p := range parts() {
		total += p.weight
	}
	for _, p := range parts() {
		b.time = cfg.Time * time.Duration(p.weight) / time.Duration(total)
		if err := p.run(ctx, b); err != nil {
			return b.found, err
		}
	}
	return b.found, nil
}

// add takes a figure into the report.
func (b *run) add(f Figure) {
	b.found.Figures = append(b.found.Figures, f)
	b.cfg.Told(f)
}

// rounds is how often the two sides of a figure take turns. Odd, so that the
// median is one of them.
const rounds = 5

// pair is what one round measured of a figure's two sides.
type pair struct{ value, baseline float64 }

// inTurn measures both sides of a figure, the baseline first, round by round.
func inTurn(baseline, value func() (float64, error)) ([]pair, error) {
	var list []pair
	for range rounds {
		b, err := baseline()
		if err != nil {
			return nil, fmt.Errorf("the baseline: %w", err)
		}
		v, err := value()
		if err != nil {
			return nil, err
		}
		list = append(list, pair{v, b})
	}
	return list, nil
}

// of fills a figure with the medians of its rounds.
func (f Figure) of(list []pair) Figure {
	f.Value = medianOf(list, func(p pair) float64 { return p.value })
	f.Baseline = medianOf(list, func(p pair) float64 { return p.baseline })
	f.Ratio = medianOf(list, func(p pair) float64 { return p.value / p.baseline })
	return f
}

func medianOf[T any](list []T, of func(T) float64) float64 {
	numbers := make([]float64, len(list))
	for i, v := range list {
		numbers[i] = of(v)
	}
	return quantile(numbers, 0.5)
}

// quantile is the number below which the part q of all numbers lies; 0 of none.
func quantile(numbers []float64, q float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(numbers))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}
