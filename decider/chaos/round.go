package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"decisionjournal/decider/agent"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest/invariants"
)

// place is where a round happens.
type place struct {
	dir       string
	program   string
	childArgs func(orders) ([]string, error)
}

func (p place) journal() string { return filepath.Join(p.dir, "journal") }
func (p place) lock() string    { return filepath.Join(p.journal(), "lock") }
func (p place) socket() string  { return filepath.Join(p.journal(), "socket") }
func (p place) witness() string { return filepath.Join(p.dir, "witness") }
func (p place) logs() string    { return filepath.Join(p.dir, "logs") }
func (p place) root() string    { return filepath.Join(p.dir, "root") }

func (p place) policy(generation int) string {
	return filepath.Join(p.dir, fmt.Sprintf("policy-%d.yaml", generation%len(policies)))
}

// make makes the directories and files that processes find there.
func (p place) make() error {
	dirs := []string{p.witness(), p.logs()}
	for _, name := range fileDirs {
		dirs = append(dirs, filepath.Join(p.root(), name))
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	for i, text := range policies {
		if err := os.WriteFile(p.policy(i), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// exitAgain is the exit code of processes that have something left to do.
const exitAgain = 3

// Waits before a slot's next process: after one that was killed or is done, and
// after one that failed.
const (
	restartWait = 30 * time.Millisecond
	failureWait = 150 * time.Millisecond
)

// round is one journal from its beginning to its check.
type round struct {
	crew
	plan  *plan
	slots []*slot
	book  *diary // what this process saw

	patience time.Duration

	stop     chan struct{} // closed when batches are to end
	work     sync.WaitGroup
	serving  sync.WaitGroup
	resting  chan struct{} // closed when servers and approvers are to end
	later    sync.WaitGroup
	figures  Figures
	hostDied []time.Time
	faults   chan error // the first one ends the round
}

// crewList are the slots of a round: two agents in each of two sessions, decider run
// in one of them and in a third, and two each of servers and approvers.
func crewList() []*slot {
	var list []*slot
	for _, session := range []string{"s1", "s2"} {
		for _, name := range []string{"main", "other"} {
			list = append(list, &slot{kind: agentSlot, name: session + "-" + name, session: session, agent: name})
		}
	}
	for _, session := range []string{"s1", "s3"} {
		list = append(list, &slot{kind: runnerSlot, name: session + "-files", session: session, agent: "files-" + session})
	}
	for _, name := range []string{"serve-1", "serve-2"} {
		list = append(list, &slot{kind: serverSlot, name: name})
	}
	for _, name := range []string{"approver-1", "approver-2"} {
		list = append(list, &slot{kind: approverSlot, name: name})
	}
	return list
}

func newRound(at place, p *plan, patience time.Duration) (*round, error) {
	if err := at.make(); err != nil {
		return nil, err
	}
	book, err := openDiary(at.witness(), "parent")
	if err != nil {
		return nil, err
	}
	r := &round{plan: p, slots: crewList(), book: book, patience: patience,
		stop: make(chan struct{}), resting: make(chan struct{}), faults: make(chan error, 1)}
	r.place, r.living, r.ended = at, map[*process]struct{}{}, r.told
	return r, nil
}

// told writes down what decider run printed: it has said so.
func (r *round) told(p *process) {
	if p.slot.kind != runnerSlot {
		return
	}
	for raw := range wholeLines(p.out.Bytes()) {
		var m agent.ToolMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			r.fail(fmt.Errorf("decider run printed %q: %w", raw, err))
			continue
		}
		if m.IsError {
			continue
		}
		content, err := journal.Canonical(m.Content)
		if err == nil {
			err = r.book.write(line{Result: &invariants.Result{Session: p.slot.session, Agent: p.slot.agent,
				Key: batchOf(m.ToolCallID) + "/" + m.ToolCallID, Digest: journal.Digest(content)}})
		}
		if err != nil {
			r.fail(err)
		}
	}
}

func (r *round) fail(err error) {
	select {
	case r.faults <- err:
	default: // one is enough
	}
}

// run lets processes work and die, until enough of them were killed or ctx
// ends, and then lets them come to their end in peace. Whatever happens, no
// process is left.
func (r *round) run(ctx context.Context, kills int64) error {
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		cancel()
		r.extinguish(func() {})
		r.later.Wait()
		r.work.Wait()
		r.serving.Wait()
		r.book.file.Close()
	}()
	for _, s := range r.slots {
		group := &r.serving
		if s.works() {
			group = &r.work
		}
		group.Go(func() { r.keep(living, s) })
	}
	for r.kills.Load() < kills && ctx.Err() == nil && len(r.faults) == 0 {
		s := r.plan.next()
		pause(ctx, s.wait)
		r.strike(living, s)
	}
	r.figures.Kills = int(r.kills.Load())
	return r.finish(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// defaultPatience is how long a crew that nobody harms may take to finish.
const defaultPatience = 2 * time.Minute

// finish waits for what is under way.
func (r *round) finish(ctx context.Context) error {
	r.later.Wait()
	for _, p := range r.all() {
		p.signal(syscall.SIGCONT)
	}
	close(r.stop)
	if err := r.await(&r.work, "agents have not finished"); err != nil {
		return err
	}
	close(r.resting)
	if err := r.await(&r.serving, "servers and approvers have not ended"); err != nil {
		return err
	}
	r.figures.Failed, r.figures.Processes = int(r.failed.Load()), int(r.begun.Load())
	select {
	case err := <-r.faults:
		return err
	default:
		return nil
	}
}

// StuckError: processes did not come to an end although nobody harmed them.
type StuckError string

// Error implements error.
func (e StuckError) Error() string { return string(e) }

func (r *round) await(group *sync.WaitGroup, what string) error {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	timer := time.NewTimer(r.patience)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return StuckError(fmt.Sprintf("%s within %s; see %s", what, r.patience, r.logs()))
	}
}

// keep gives a slot one process after another, until its batches are to end and
// the one at hand is done, or servers and approvers are to end.
func (r *round) keep(ctx context.Context, s *slot) {
	for ctx.Err() == nil {
		p, err := r.begin(ctx, s)
		if err != nil {
			if ctx.Err() == nil {
				r.fail(err)
			}
			return
		}
		s.set(p)
		if r.attend(p) {
			s.finished()
			if closed(r.stop) {
				return
			}
		}
		if !s.works() && closed(r.resting) {
			return
		}
		if closed(p.done) && p.exit() > 0 {
			pause(ctx, failureWait)
		}
		pause(ctx, restartWait)
	}
}

// attend waits until a process has ended or was left, and reports whether it
// finished a batch.
func (r *round) attend(p *process) bool {
	if !p.slot.works() {
		select {
		case <-p.done:
		case <-r.resting:
			p.signal(syscall.SIGTERM)
			<-p.done
		}
		return false
	}
	select {
	case <-p.left:
		return false
	case <-p.done:
		return p.exit() == 0
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
