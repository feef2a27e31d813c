// Package chaos lets real processes work on a journal and kills, stops and
// slows them as a seed says, and then holds the journal against what they
// witnessed. Use [Run].
//
// Agents in processes of their own have batches of calls judged and made,
// people answer, servers decide and host, the commands among them; each is
// started again when it dies, as a supervisor does. What agents do to the
// world, what was acknowledged and what people were shown and said is written
// outside the journal. After each round everything comes to its end in peace,
// and then the rules of [invariants] and an audit must hold.
package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"decisionjournal/journal/journaltest/invariants"
)

// Config is what to do. Program is required, and Kills or Duration.
type Config struct {
	// Program is the decider command's file, and Child how it is told to be a
	// process that calls [Child] with the text that follows.
	Program string
	Child   []string
	// Seed chooses the blows: the same seed makes the same plan. What the blows
	// meet depends on the machine, so two runs are never the same.
	Seed uint64
	// Kills ends the run after so many killed processes, Duration after a time,
	// whichever comes first; 0: neither does.
	Kills    int
	Duration time.Duration
	// Dir keeps the journals and all that was witnessed. It must be empty or not
	// there. "": a temporary directory, of which only rounds that broke a rule
	// are kept.
	Dir string
	// Progress is told of the figures so far after each round; nil: nobody is.
	Progress func(Report)

	patience time.Duration // with a crew that nobody harms; 0 is defaultPatience
}

// killsInRound is after how many killed processes a journal is checked and
// another begun: rounds keep memory and recovery bounded however long it goes.
const killsInRound = 50

// Figures count what was done to processes.
type Figures struct {
	Blows            int `json:"blows"`
	Kills            int `json:"kills"` // processes ended by SIGKILL
	HostKills        int `json:"host_kills"`
	KilledTakingOver int `json:"killed_taking_over"` // right after the host before them
	AllKilled        int `json:"all_killed"`         // times that all were, at once
	Twins            int `json:"twins"`              // times that two began in one's place
	Pauses           int `json:"pauses"`             // agents stopped until another had taken over
	HostPauses       int `json:"host_pauses"`
	Slowed           int `json:"slowed"`
	Processes        int `json:"processes"` // started
	Failed           int `json:"failed"`    // ended with an error of their own, such as a host that hangs
}

func (f *Figures) add(o Figures) {
	f.Blows += o.Blows
	f.Kills += o.Kills
	f.HostKills += o.HostKills
	f.KilledTakingOver += o.KilledTakingOver
	f.AllKilled += o.AllKilled
	f.Twins += o.Twins
	f.Pauses += o.Pauses
	f.HostPauses += o.HostPauses
	f.Slowed += o.Slowed
	f.Processes += o.Processes
	f.Failed += o.Failed
}

// Recovery is how long it took from the end of a host until something was
// stored again, further blows in between included.
type Recovery struct {
	Count  int           `json:"count"`
	Median time.Duration `json:"median_ns"`
	P99    time.Duration `json:"p99_ns"`
	Most   time.Duration `json:"most_ns"`
}

// Report is how a run went.
type Report struct {
	Seed     uint64           `json:"seed"`
	Rounds   int              `json:"rounds"`
	Took     time.Duration    `json:"took_ns"`
	Figures  Figures          `json:"figures"`
	Tally    invariants.Tally `json:"tally"`
	Stored   int              `json:"stored"`  // acknowledgements witnessed
	Effects  int              `json:"effects"` // that took place
	Derived  int              `json:"derived"` // decisions and the like that the audit derived again
	Recovery Recovery         `json:"recovery"`

	Violations []Violation `json:"violations"`
	Kept       []string    `json:"kept"` // directories of journals that were kept

	recoveries []time.Duration
}

// Violation is a rule that a round broke.
type Violation struct {
	Round int    `json:"round"`
	Text  string `json:"text"`
}

// Run goes on until what Config says, or ctx ends; then it finishes its round
// and reports. Whether a rule was broken is in the report; the error says that
// the run itself failed, and the report how far it came. No process is left
// behind.
func Run(ctx context.Context, cfg Config) (Report, error) {
	began := time.Now()
	if cfg.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.Duration)
		defer cancel()
	}
	rep := Report{Seed: cfg.Seed, Violations: []Violation{}, Kept: []string{}}
	dir, err := cfg.directory()
	if err != nil {
		return rep, err
	}
	for err == nil && ctx.Err() == nil && (cfg.Kills == 0 || rep.Figures.Kills < cfg.Kills) {
		err = cfg.round(ctx, dir, &rep)
		rep.Took = time.Since(began)
		if err == nil && cfg.Progress != nil {
			cfg.Progress(rep)
		}
	}
	if cfg.Dir == "" && len(rep.Kept) == 0 && err == nil {
		err = os.RemoveAll(dir)
	}
	return rep, err
}

// directory is where rounds are kept.
func (cfg Config) directory() (string, error) {
	if cfg.Dir == "" {
		return os.MkdirTemp("", "chaos-")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(cfg.Dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: name another directory", cfg.Dir)
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(cfg.Dir)
}

// round runs one round and adds what it was to the report.
func (cfg Config) round(ctx context.Context, dir string, rep *Report) error {
	rep.Rounds++
	at := place{dir: filepath.Join(dir, fmt.Sprintf("round-%03d", rep.Rounds)), program: cfg.Program, childArgs: cfg.childArgs}
	r, err := newRound(at, newPlan(cfg.Seed, rep.Rounds), cmp.Or(cfg.patience, defaultPatience))
	if err != nil {
		return err
	}
	kills := killsInRound
	if cfg.Kills > 0 {
		kills = min(kills, cfg.Kills-rep.Figures.Kills)
	}
	runErr := r.run(ctx, int64(kills))
	before := len(rep.Violations)
	var stuck StuckError
	if errors.As(runErr, &stuck) {
		rep.violate("stuck: %s", stuck)
		runErr = nil
	}
	if runErr == nil {
		runErr = at.check(context.WithoutCancel(ctx), r.hostDied, rep)
	}
	rep.Figures.add(r.figures)
	switch broke := len(rep.Violations) > before; {
	case broke || runErr != nil || cfg.Dir != "":
		rep.Kept = append(rep.Kept, at.dir)
	default:
		runErr = os.RemoveAll(at.dir)
	}
	return runErr
}

func (cfg Config) childArgs(o orders) ([]string, error) {
	text, err := json.Marshal(o)
	return append(slices.Clone(cfg.Child), string(text)), err
}

// maxViolations bounds a report.
const maxViolations = 200

func (rep *Report) violate(format string, args ...any) {
	if len(rep.Violations) < maxViolations {
		rep.Violations = append(rep.Violations, Violation{rep.Rounds, fmt.Sprintf(format, args...)})
	}
}

// recovered adds how long recoveries took.
func (rep *Report) recovered(took []time.Duration) {
	rep.recoveries = append(rep.recoveries, took...)
	list := slices.SortedFunc(slices.Values(rep.recoveries), cmp.Compare[time.Duration])
	if n := len(list); n > 0 {
		rep.Recovery = Recovery{n, list[n/2], list[min(n-1, n*99/100)], list[n-1]}
	}
}
