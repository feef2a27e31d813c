package chaos

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"decisionjournal/decider/replay"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest/invariants"
	"decisionjournal/journal/stream/embedded"
)

// check holds the journal of a round against the rules, and adds what it finds
// to a report. Died are the moments at which hosts did.
func (p place) check(ctx context.Context, died []time.Time, rep *Report) error {
	saw, err := readDiaries(p.witness())
	if err != nil {
		return err
	}
	files, err := fileEffects(p.root())
	if err != nil {
		return err
	}
	saw.Effects = append(saw.Effects, files...)
	rep.recovered(saw.recoveries(died))
	h, err := embedded.Open(ctx, embedded.Config{Dir: p.journal(), Role: journal.RoleAuditor, Existing: true})
	if err != nil {
		return fmt.Errorf("the journal of round %d cannot be opened: %w", rep.Rounds, err)
	}
	for _, w := range h.Warnings() {
		rep.violate("warning: %s", w)
	}
	err = errors.Join(rep.hold(ctx, h, saw), h.Close())
	return errors.Join(err, p.crashes(rep))
}

// hold holds a journal against what was seen and against itself.
func (rep *Report) hold(ctx context.Context, log journal.Log, saw *seen) error {
	found, err := invariants.Check(ctx, log, saw.Witness)
	if err != nil {
		return err
	}
	for _, v := range found.Violations {
		rep.violate("%s", v)
	}
	rep.Tally.Add(found.Tally)
	rep.Stored += len(saw.Stored)
	rep.Effects += len(saw.Effects)
	if err := rep.settled(ctx, log); err != nil {
		return err
	}
	return rep.audit(ctx, log)
}

// settled holds that every call came to its end, since every batch did. Calls
// without a key that nobody waits for may be left over: where two processes
// began in one's place, the second does the batch anew, and may be killed when
// the first has finished it.
func (rep *Report) settled(ctx context.Context, log journal.Log) error {
	chains, err := log.Chains(ctx)
	if err != nil {
		return err
	}
	for _, chain := range chains {
		if chain.IsPolicy() {
			continue
		}
		st, err := journal.LoadState(ctx, log, chain)
		if err != nil {
			return err
		}
		for _, c := range st.OpenCalls() {
			if c.Key == "" && c.Waiter == "" {
				continue
			}
			rep.violate("settled: %s: call %s (%s %s of agent %s) is %s and waits for run %q after its batch was done",
				chain, c.Mark.ID, c.Tool, c.Key, c.Agent, c.Last().Progress, c.Waiter)
		}
	}
	return nil
}

// audit derives again what was decided. Nobody wrote here but this program, so
// an anomaly is as wrong as a fault.
func (rep *Report) audit(ctx context.Context, log journal.Log) error {
	j, err := replay.Load(ctx, log)
	if err != nil {
		return err
	}
	report, err := j.Audit(ctx)
	if err != nil {
		return err
	}
	faults := append(report.Faults, report.Anomalies...)
	for _, s := range report.Sessions {
		faults = append(append(faults, s.Faults...), s.Anomalies...)
		rep.Derived += s.Derived
		if s.Derived != s.Decisions || s.Condition != journal.Whole.String() {
			rep.violate("audit: %s is %s, and %d of %d follow", s.Session, s.Condition, s.Derived, s.Decisions)
		}
	}
	for _, f := range faults {
		rep.violate("audit: %s", f)
	}
	return nil
}

// crashes looks for processes that ended as no program should.
func (p place) crashes(rep *Report) error {
	logs, err := filepath.Glob(filepath.Join(p.logs(), "*.log"))
	if err != nil {
		return err
	}
	for _, name := range logs {
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for text := range wholeLines(raw) {
			if crashed(string(text)) {
				rep.violate("crash: %s: %s", filepath.Base(name), text)
			}
		}
	}
	return nil
}

func crashed(text string) bool {
	for _, sign := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
		if strings.HasPrefix(text, sign) {
			return true
		}
	}
	return false
}

// wholeLines are the lines of b that have an end.
func wholeLines(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		lines := bufio.NewReader(bytes.NewReader(b))
		for {
			text, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) || !yield(bytes.TrimSuffix(text, []byte("\n"))) {
				return
			}
		}
	}
}

// batchOf is the batch of a call of decider run, by its id.
func batchOf(id string) string { return id[:max(strings.LastIndexByte(id, '-'), 0)] }
