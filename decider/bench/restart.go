package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
)

// waitingCalls is how many calls of a session wait when its processes die.
const waitingCalls = 1000

// Aims of a restart, in seconds: when the first and the last of the calls that
// were answered meanwhile is released.
const (
	firstAim = 0.5
	lastAim  = 1
)

// restartFigures measure a restart after kill -9: a session whose calls were
// all asked about and answered is taken up from a copy of the directory as the
// kill left it, by a process that hosts it anew.
func restartFigures(ctx context.Context, b *run) error {
	return b.restart(ctx, waitingCalls)
}

func (b *run) restart(ctx context.Context, calls int) error {
	b.made++
	dir := filepath.Join(b.dir, fmt.Sprintf("journal-%d", b.made))
	killed := dir + "-killed"
	if err := leaveWaiting(ctx, dir, killed, calls); err != nil {
		return err
	}
	first, last, err := takeUp(ctx, killed, calls)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("restart with %d waiting calls, %%s released", calls)
	b.add(Figure{Name: fmt.Sprintf(name, "first"), Unit: "s", Value: first.Seconds(), Aim: firstAim, AtMost: true})
	b.add(Figure{Name: fmt.Sprintf(name, "last"), Unit: "s", Value: last.Seconds(), Aim: lastAim, AtMost: true})
	return nil
}

const waitingSession = "waiting"

func waitingRequests(calls int) []agent.Request {
	list := make([]agent.Request, calls)
	for i := range list {
		id := fmt.Sprint(i)
		args := json.RawMessage(fmt.Sprintf(`{"path":"notes/%d.txt","content":"x"}`, i))
		list[i] = agent.Request{Call: agent.Call{ID: id, Tool: "fs_write", Arguments: args}, Key: "batch/" + id}
	}
	return list
}

// leaveWaiting makes a journal in dir with a session whose calls are all asked
// about and answered, and copies it to killed while its host lives: what is
// there after kill -9.
func leaveWaiting(ctx context.Context, dir, killed string, calls int) error {
	p, err := openPlace(ctx, dir, inProcess)
	if err != nil {
		return err
	}
	defer p.close()
	d, _, err := p.decider(ctx)
	if err != nil {
		return err
	}
	g, err := agent.Open(ctx, agent.Config{Decider: d, Session: waitingSession, Provider: nothing{}})
	if err != nil {
		return err
	}
	for _, t := range g.Submit(ctx, waitingRequests(calls)) {
		for g.Question(t) == "" { // asked in the commits after its own
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	over, stop := context.WithCancel(ctx)
	stop()
	if err := g.Close(over); err != nil {
		return err
	}
	if err := p.answerAll(ctx, waitingSession); err != nil {
		return err
	}
	return copyLive(dir, killed)
}

// answerAll allows every open question of a session, once.
func (p *place) answerAll(ctx context.Context, session string) error {
	w, err := p.writer(ctx, journal.RoleApprover)
	if err != nil {
		return err
	}
	st, err := journal.LoadState(ctx, w.Log(), journal.SessionChain(session))
	if err != nil {
		return err
	}
	for _, q := range st.Questions() {
		if q.Over {
			continue
		}
		answer := &journal.Answer{Question: q.Mark.ID, Action: journal.AllowOnce, Shown: q.Shown, By: w.Principal().Actor}
		if _, err := appendAs(ctx, w, st, answer); err != nil {
			return err
		}
	}
	return nil
}

// copyLive copies a directory that is in use, but for its socket.
func copyLive(from, to string) error {
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		into := to + path[len(from):]
		switch {
		case e.IsDir():
			return os.Mkdir(into, 0o700)
		case !e.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(into, data, 0o600)
	})
	if err != nil {
		return fmt.Errorf("copy the journal: %w", err)
	}
	return nil
}

// takeUp opens a journal and makes its session's calls again, and returns how
// long it took until the first and the last of them was released.
func takeUp(ctx context.Context, dir string, calls int) (first, last time.Duration, err error) {
	began := time.Now()
	p, err := openPlace(ctx, dir, inProcess)
	if err != nil {
		return 0, 0, err
	}
	defer p.close()
	w, err := p.writer(ctx, journal.RoleDecider)
	if err != nil {
		return 0, 0, err
	}
	clock := &released{began: began}
	g, err := agent.Open(ctx, agent.Config{Decider: &decider.Decider{Writer: w}, Session: waitingSession, Provider: clock})
	if err != nil {
		return 0, 0, err
	}
	for _, t := range g.Submit(ctx, waitingRequests(calls)) {
		<-t.Done()
		if o := t.Outcome(); o.Kind != agent.Executed {
			return 0, 0, fmt.Errorf("a call that was answered came out as %d: %s %w", o.Kind, o.Result.Content, o.Err)
		}
	}
	err = g.Close(ctx)
	return clock.first, clock.last, err
}

// released is a provider that notes when calls reach it.
type released struct {
	nothing
	began time.Time

	mu          sync.Mutex
	first, last time.Duration
}

func (r *released) Execute(ctx context.Context, calls []agent.Call) []agent.Result {
	r.mu.Lock()
	r.last = time.Since(r.began)
	if r.first == 0 {
		r.first = r.last
	}
	r.mu.Unlock()
	return r.nothing.Execute(ctx, calls)
}
