package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nkeys"

	"decisionjournal/approver"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// newRealWorld is a world whose journal is a real one, and whose approvers are
// ann and those named.
func newRealWorld(t *testing.T, people ...string) *world {
	dir := filepath.Join(t.TempDir(), "journal")
	if err := os.MkdirAll(filepath.Join(dir, "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(people, "ann") {
		makeKey(t, dir, name)
	}
	w := newWorld(t)
	w.mem, w.dir = nil, dir
	logs := map[journal.Role]journal.Log{}
	for _, role := range []journal.Role{journal.RoleDecider, journal.RoleApprover, journal.RoleAuditor} {
		actor := ""
		if role == journal.RoleApprover {
			actor = "ann"
		}
		logs[role] = w.connect(role, actor)
	}
	w.log = func(role journal.Role) journal.Log { return logs[role] }
	return w
}

func makeKey(t *testing.T, dir, name string) {
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "keys", "approver."+name+".seed"), seed, 0o600); err != nil {
		t.Fatal(err)
	}
}

// connect is a connection of its own to the journal.
func (w *world) connect(role journal.Role, actor string) *embedded.Handle {
	w.Helper()
	h, err := embedded.Open(context.Background(), embedded.Config{Dir: w.dir, Role: role, Actor: actor})
	if err != nil {
		w.Fatal(err)
	}
	w.last(func() {
		if err := h.Close(); err != nil {
			w.Error(err)
		}
	})
	return h
}

// TestEightAnswerers: of eight people who answer at once one counts, and the
// others learn who it was.
func TestEightAnswerers(t *testing.T) {
	var people []string
	for i := range 8 {
		people = append(people, fmt.Sprintf("p%d", i))
	}
	w := newRealWorld(t, people...)
	g := w.open()
	for round := range 3 {
		ticket := g.submit(call("write", fmt.Sprintf(`{"path":"d/%d"}`, round)))
		winner := w.raceAnswers(g.question(ticket), people)
		if winner%2 == 0 {
			w.want(w.wait(ticket), agent.Executed, "ran")
		} else {
			w.want(w.wait(ticket), agent.Denied, people[winner])
		}
	}
	if n := len(events[*journal.Answer](w)); n != 3 {
		t.Errorf("%d answers are in the journal, want 3", n)
	}
}

// raceAnswers has everyone answer at once, by turns allow-once and deny-once,
// and returns who counted.
func (w *world) raceAnswers(question string, people []string) (winner int) {
	w.Helper()
	errs := make([]error, len(people))
	writers := make([]*journal.Writer, len(people))
	for i, name := range people {
		writers[i] = w.writer(w.connect(journal.RoleApprover, name), journal.RoleApprover, name)
	}
	var done sync.WaitGroup
	gate := make(chan struct{})
	for i := range people {
		done.Go(func() {
			<-gate
			req := approver.Request{Action: []string{journal.AllowOnce, journal.DenyOnce}[i%2]}
			_, errs[i] = approver.Answer(context.Background(), writers[i], approver.Ref{Session: session, Question: question}, req)
		})
	}
	close(gate)
	done.Wait()
	winner = -1
	for i, err := range errs {
		if err == nil && winner >= 0 {
			w.Errorf("%s and %s both count", people[winner], people[i])
		}
		if err == nil {
			winner = i
		}
	}
	if winner < 0 {
		w.Fatalf("nobody counts: %v", errs)
	}
	for i, err := range errs {
		var settled *approver.SettledError
		if i != winner && (!errors.As(err, &settled) || settled.By != people[winner]) {
			w.Errorf("%s learns %v, want that %s answered", people[i], err, people[winner])
		}
	}
	return winner
}

// TestSixAgents: six agents of one session ask about the same directory, and
// one answer settles all of them, also if the process dies that wrote the grant.
func TestSixAgents(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("the granting process dies ", dies), func(t *testing.T) {
			w := newRealWorld(t)
			var guards []*guard
			var tickets []*agent.Ticket
			var mu sync.Mutex
			dead := -1
			for i := range 6 {
				p := w.process()
				p.Log = w.connect(journal.RoleDecider, "")
				p.on(nil, func(_ journal.Subject, data []byte) error {
					mu.Lock()
					defer mu.Unlock()
					if dies && wrote(data, journal.TypeGrant) {
						dead = i
						p.kill()
						return fmt.Errorf("dead: %w", journal.ErrUnknown)
					}
					return nil
				})
				g, err := w.tryOpen(p, as(fmt.Sprintf("a%d", i)))
				if err != nil {
					t.Fatal(err)
				}
				guards = append(guards, g)
			}
			var done sync.WaitGroup
			tickets = make([]*agent.Ticket, len(guards))
			for i, g := range guards {
				done.Go(func() { tickets[i] = g.submit(call("write", fmt.Sprintf(`{"path":"d/%d"}`, i))) })
			}
			done.Wait()
			for i, g := range guards {
				g.question(tickets[i])
			}
			w.answer(guards[2].question(tickets[2]), journal.AlwaysAllow)
			for i, ticket := range tickets {
				o := w.wait(ticket)
				mu.Lock()
				lost := i == dead
				mu.Unlock()
				if lost {
					w.want(o, agent.Failed, "")
					o = guards[i].restart(as(fmt.Sprintf("a%d", i))).run(ticket.Request)
				}
				w.want(o, agent.Executed, "ran")
			}
			if (dead >= 0) != dies {
				t.Errorf("process %d died", dead)
			}
			w.checkSix()
		})
	}
}

// checkSix: six questions, one answer, one grant, and five calls that it decided.
func (w *world) checkSix() {
	w.Helper()
	byGrant := 0
	for _, d := range events[*journal.Decision](w) {
		if d.By[0].Kind == journal.ByGrant {
			byGrant++
		}
	}
	got := []int{len(events[*journal.Question](w)), len(events[*journal.Answer](w)), len(events[*journal.Grant](w)), byGrant, w.witness.total}
	if want := []int{6, 1, 1, 5, 6}; fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("questions, answers, grants, decided by it, effects: %v, want %v", got, want)
	}
}
