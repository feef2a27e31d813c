package inbox_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/inbox/inboxtest"
	"decisionjournal/journal/journaltest"
)

// fataler is what testing.T and rapid.T share.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func writer(t fataler, log journal.Log, role journal.Role, actor string) *journal.Writer {
	t.Helper()
	w, err := journal.NewWriter(journal.Config{Log: log, Role: role, Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// bench is a journal in memory, a decider who asks and an approver who answers.
type bench struct {
	fataler
	ctx context.Context
	log *journaltest.Memory
	*inboxtest.Asker
}

func newBench(t fataler, ctx context.Context) *bench {
	log := journaltest.NewMemory()
	return &bench{t, ctx, log, inboxtest.New(writer(t, log, journal.RoleDecider, "decider"))}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) ask(session string, s inboxtest.Spec) string {
	b.Helper()
	id, err := b.Ask(b.ctx, session, s)
	b.must(err)
	return id
}

func (b *bench) answer(session, question, by, action string) string {
	b.Helper()
	w := writer(b, b.log, journal.RoleApprover, by)
	st, err := journal.LoadState(b.ctx, b.log, journal.SessionChain(session))
	b.must(err)
	e := w.Event(&journal.Answer{Question: question, Action: action, Shown: st.Question(question).Shown, By: by})
	b.must(w.Append(b.ctx, st, w.Now(st), e))
	return e.ID
}

func (b *bench) load() *inbox.Inbox {
	b.Helper()
	box, err := inbox.Load(b.ctx, b.log)
	b.must(err)
	return box
}

func ids(items []inbox.Item) []string {
	list := []string{}
	for _, i := range items {
		list = append(list, i.ID)
	}
	return list
}

func two() []journal.Stage { return []journal.Stage{{Of: []string{}, Count: 2}} }

func TestItemHoldsWhatAFrontendNeeds(t *testing.T) {
	b := newBench(t, t.Context())
	deadline := journal.At(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	id := b.ask("nightly", inboxtest.Spec{
		Agent: "a", Tool: "fs_write", Layer: "outer", Grantable: true, Suggestion: []string{`{"decision":"allow","tool":"fs_write"}`},
		Note: "two of you", Deadline: deadline, Need: two(), Who: []journal.Entitlement{{Of: []string{"alice", "bob"}}},
		View: func(v *journal.View) { v.Paths = []string{"notes/a.txt"} },
	})
	b.ask("nightly", inboxtest.Spec{Agent: "a", Tool: "fs_write", Layer: "outer"})
	b.answer("nightly", id, "alice", journal.AllowOnce)
	item, ok := b.load().Get("nightly", id)
	if !ok {
		t.Fatal("the question is not in the inbox")
	}
	if len(item.Votes) != 1 || item.Votes[0].By != "alice" || item.Votes[0].Action != journal.AllowOnce {
		t.Errorf("votes %v, want alice's", item.Votes)
	}
	got := []any{item.Session, item.Agent, item.Tool, item.Layer, string(item.Arguments), item.Reason, item.Grantable,
		string(item.Suggestion[0]), item.Note, item.Deadline, item.Count, item.Askers, item.Waiting, item.View.Paths, item.Kind}
	want := []any{"nightly", "a", "fs_write", "outer", `{"path":"notes/a.txt"}`, journal.AskNoMatch, true,
		`{"decision":"allow","tool":"fs_write"}`, "two of you", deadline, 2, []string{"decider"}, true, []string{"notes/a.txt"}, journal.CallTool}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestLongArgumentsArePreviewed(t *testing.T) {
	b := newBench(t, t.Context())
	long := strings.Repeat("x", journal.MaxViewArguments)
	id := b.ask("s", inboxtest.Spec{Arguments: `{"content":"` + long + `"}`})
	item, _ := b.load().Get("s", id)
	if item.Arguments != nil || len(item.View.Preview) != journal.MaxViewArguments || !strings.Contains(string(item.Whole), long) {
		t.Errorf("arguments %d bytes, preview %d, whole %d", len(item.Arguments), len(item.View.Preview), len(item.Whole))
	}
}

func TestFrom(t *testing.T) {
	at := func(h int) journal.Time { return journal.At(time.Date(2030, 1, 1, h, 0, 0, 0, time.UTC)) }
	item := inbox.Item{
		Askers: []string{"decider"}, Votes: []inbox.Vote{{By: "carol"}},
		Who: []journal.Entitlement{{Of: []string{"alice"}}, {Of: []string{"bob"}, From: at(2)}, {From: at(5)}},
	}
	for person, want := range map[string]journal.Time{"alice": {}, "bob": at(2), "dave": at(5)} {
		if from, ok := item.From(person); !ok || from != want {
			t.Errorf("%s may answer from %v (%t), want %v", person, from, ok, want)
		}
	}
	for _, person := range []string{"decider", "carol"} {
		if _, ok := item.From(person); ok {
			t.Errorf("%s may answer", person)
		}
	}
}

// TestClosing closes a question in every way there is.
func TestClosing(t *testing.T) {
	grant := func(b *bench, id string) string {
		other := b.ask("s", inboxtest.Spec{Tool: "other", Grantable: true, Suggestion: []string{`{"decision":"allow","tool":"*"}`}})
		answer := b.answer("s", other, "bob", journal.AlwaysAllow)
		st, err := b.State(b.ctx, "s")
		b.must(err)
		w := writer(b, b.log, journal.RoleDecider, "decider")
		g := w.Event(&journal.Grant{Question: other, Rules: st.Question(other).Suggestion})
		q := st.Question(other)
		d := &journal.Decision{Call: q.Call, Attempt: 1, Outcome: journal.Allow, Policy: q.Policy, Engine: "e", Digest: q.Digest, Facts: q.Facts,
			By: []journal.Cause{{Kind: journal.ByAnswer, ID: answer}, {Kind: journal.ByGrant, ID: g.ID}}}
		b.must(w.Append(b.ctx, st, w.Now(st), g, w.Event(d)))
		b.must(b.Decide(b.ctx, "s", id, journal.Allow, journal.Cause{Kind: journal.ByGrant, ID: g.ID}))
		return g.ID
	}
	for _, test := range []struct {
		name  string
		spec  inboxtest.Spec
		close func(b *bench, id string)
		want  inbox.Settlement
	}{
		{"answered", inboxtest.Spec{}, func(b *bench, id string) { b.answer("s", id, "alice", journal.DenyOnce) },
			inbox.Settlement{How: inbox.Answered, By: "alice", Action: journal.DenyOnce, Why: "alice answered deny-once"}},
		{"the last of two answers", inboxtest.Spec{Need: two()}, func(b *bench, id string) {
			b.answer("s", id, "alice", journal.AllowOnce)
			b.answer("s", id, "bob", journal.AllowOnce)
		}, inbox.Settlement{How: inbox.Answered, By: "bob", Action: journal.AllowOnce, Why: "bob answered allow-once"}},
		{"decided by a rule", inboxtest.Spec{}, func(b *bench, id string) { b.must(b.Decide(b.ctx, "s", id, journal.Deny, inboxtest.Rule())) },
			inbox.Settlement{How: inbox.Decided, By: "decider", Action: "deny", Why: "a rule of the policy settled it"}},
		{"decided by a grant", inboxtest.Spec{}, func(b *bench, id string) { grant(b, id) },
			inbox.Settlement{How: inbox.Decided, By: "bob", Action: "allow"}},
		{"decided by an answer that cannot be followed", inboxtest.Spec{Need: two()}, func(b *bench, id string) {
			answer := b.answer("s", id, "alice", journal.AllowOnce)
			b.must(b.Decide(b.ctx, "s", id, journal.Deny, journal.Cause{Kind: journal.ByUnusable, ID: answer}))
		}, inbox.Settlement{How: inbox.Answered, By: "alice", Action: journal.AllowOnce, Why: "alice answered allow-once"}},
		{"lapsed", inboxtest.Spec{Deadline: journal.At(time.Now().Add(-time.Hour))}, func(b *bench, id string) { b.must(b.Lapse(b.ctx, "s", id)) },
			inbox.Settlement{How: inbox.Lapsed, By: "decider", Action: "deny"}},
		{"lapsed under another policy", inboxtest.Spec{}, func(b *bench, id string) {
			b.must(b.Do(b.ctx, "s", func(*journal.State) []journal.Body {
				return []journal.Body{&journal.Adopt{Digest: journal.Digest([]byte("new"))}, &journal.Lapse{Question: id, Reason: journal.LapsePolicy}}
			}))
		}, inbox.Settlement{How: inbox.Lapsed, By: "decider", Why: "the policy changed, and it is asked anew if it still has to be"}},
		{"withdrawn", inboxtest.Spec{}, func(b *bench, id string) { b.must(b.Withdraw(b.ctx, "s", id)) },
			inbox.Settlement{How: inbox.Withdrawn, By: "decider", Why: "the agent withdrew the call"}},
		{"ended", inboxtest.Spec{}, func(b *bench, id string) { b.must(b.End(b.ctx, "s")) },
			inbox.Settlement{How: inbox.Ended, By: "decider", Why: "the session ended"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, t.Context())
				if !test.spec.Deadline.IsZero() {
					test.spec.Deadline = journal.At(time.Now().Add(-time.Hour))
				}
				id := b.ask("s", test.spec)
				box, stop := b.follow()
				defer stop()
				if got := ids(box.List()); !slices.Contains(got, id) {
					t.Fatalf("open are %v, want %s among them", got, id)
				}
				next, done := iter.Pull(box.Watch(t.Context()))
				defer done()
				next() // it is open
				test.close(b, id)
				synctest.Wait()
				got := untilClosed(t, next, id)
				want := test.want
				want.At = got.At
				if want.Why == "" {
					want.Why = got.Why
				}
				if d := cmp.Diff(want, got); d != "" || got.At.IsZero() {
					t.Errorf("settlement (-want +got):\n%s", d)
				}
				again, err := inbox.Settled(t.Context(), b.log, journal.SessionChain("s"), id)
				if d := cmp.Diff(got, again); err != nil || d != "" {
					t.Errorf("read again: %v %s", err, d)
				}
				if _, open := box.Get("s", id); open {
					t.Error("it is still in the inbox")
				}
			})
		})
	}
}

// follow runs an inbox until stop.
func (b *bench) follow() (*inbox.Inbox, func()) {
	ctx, cancel := context.WithCancel(b.ctx)
	box := inbox.New(b.log)
	ran := make(chan error, 1)
	go func() { ran <- box.Run(ctx) }()
	<-box.Ready()
	return box, func() {
		b.Helper()
		cancel()
		b.must(<-ran)
	}
}

func untilClosed(t *testing.T, next func() (inbox.Change, bool), id string) inbox.Settlement {
	t.Helper()
	for {
		change, ok := next()
		if !ok {
			t.Fatal("the watch ended")
		}
		if change.Kind == inbox.Closed && change.Item.ID == id {
			return *change.Settled
		}
	}
}

func TestWatchTellsEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.Context())
		first := b.ask("s", inboxtest.Spec{})
		box, stop := b.follow()
		defer stop()
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for c := range box.Watch(ctx) {
				got = append(got, fmt.Sprintf("%s %s %d", c.Kind, c.Item.ID, c.Item.Count))
			}
		}()
		synctest.Wait()
		second := b.ask("s", inboxtest.Spec{Need: two()})
		b.answer("s", first, "alice", journal.AllowOnce)
		b.answer("s", second, "alice", journal.AllowOnce)
		b.answer("s", second, "bob", journal.DenyOnce)
		synctest.Wait()
		cancel()
		<-watched
		want := []string{"opened " + first + " 1", "opened " + second + " 2", "closed " + first + " 1",
			"voted " + second + " 1", "closed " + second + " 0"}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestRepairClosesQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.Context())
		id := b.ask("s", inboxtest.Spec{})
		box, stop := b.follow()
		defer stop()
		admin := writer(t, b.log, journal.RoleAdmin, "admin")
		st, err := b.State(t.Context(), "s")
		b.must(err)
		b.ask("lost", inboxtest.Spec{})
		b.log.Drop(uint64(len(b.log.Messages())))
		holes, err := b.log.Holes(t.Context())
		b.must(err)
		b.must(admin.Append(t.Context(), st, admin.Now(st), admin.Event(&journal.Repair{Missing: holes, Reason: "lost"})))
		synctest.Wait()
		if _, open := box.Get("s", id); open {
			t.Error("the question of the repaired session is open")
		}
		how, err := inbox.Settled(t.Context(), b.log, journal.SessionChain("s"), id)
		if err != nil || how.How != inbox.Repaired || how.By != "admin" {
			t.Errorf("settled %+v %v", how, err)
		}
	})
}

func TestAHoleBlocksTheSessionsBeforeIt(t *testing.T) {
	b := newBench(t, t.Context())
	id := b.ask("before", inboxtest.Spec{})
	b.ask("lost", inboxtest.Spec{})
	b.ask("after", inboxtest.Spec{})
	messages := b.log.Messages()
	hole := messages[3].Seq // of the session lost
	b.log.Drop(hole)
	box := b.load()
	var open []string
	for _, item := range box.List() {
		open = append(open, item.Session)
	}
	if d := cmp.Diff([]string{"after"}, open); d != "" {
		t.Error(d)
	}
	withheld := box.Withheld()
	if len(withheld) != 1 || withheld[0].Session != "before" || withheld[0].Condition != journal.Broken || withheld[0].Why.Seq != hole || withheld[0].Questions != 1 {
		t.Errorf("withheld %+v", withheld)
	}
	how, err := inbox.Settled(t.Context(), b.log, journal.SessionChain("before"), id)
	if err != nil || how.How != inbox.Blocked || how.At.IsZero() || !strings.Contains(how.Why, fmt.Sprintf("broken at message %d: ", hole)) {
		t.Errorf("settled %+v, %v", how, err)
	}
}

func TestABreakClosesLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.Context())
		id := b.ask("s", inboxtest.Spec{})
		box, stop := b.follow()
		defer stop()
		next, done := iter.Pull(box.Watch(t.Context()))
		defer done()
		next()
		chain := journal.SessionChain("s")
		b.log.Inject(journal.Message{Subject: journal.Subject{Chain: chain, Role: journal.RoleDecider, Actor: "decider"}.String(),
			Headers: journal.ExpectHeaders(chain, 77), Data: []byte("{}")})
		synctest.Wait()
		if got := untilClosed(t, next, id); got.How != inbox.Blocked {
			t.Errorf("closed as %+v", got)
		}
	})
}

func TestStrayMessagesChangeNothing(t *testing.T) {
	b := newBench(t, t.Context())
	id := b.ask("s", inboxtest.Spec{})
	for _, subject := range []string{"journal.s.s.nobody.x", "journal.s.s.approver.x.y", "journal.s.s.decider.decider", "journal.policy.admin.admin", "journal.s.s!.agent.a"} {
		b.log.Inject(journal.Message{Subject: subject, Data: []byte(`{"type":"question"}`)})
	}
	if got := ids(b.load().List()); !slices.Equal(got, []string{id}) {
		t.Errorf("open are %v", got)
	}
	b.answer("s", id, "alice", journal.AllowOnce) // the chain goes on past what is void
	if got := ids(b.load().List()); len(got) != 0 {
		t.Errorf("open are %v", got)
	}
}

func TestRunRidesOverAnUnavailableJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.Context())
		id := b.ask("s", inboxtest.Spec{})
		faulty := &journaltest.Faulty{Log: b.log, Plan: func(step int, op string) journaltest.Fault {
			switch {
			case step == 1, op == journaltest.OpLoad && step < 8:
				return journaltest.Fault{Kind: journaltest.CutLoad}
			case step == 2:
				return journaltest.Fault{Kind: journaltest.Disconnect, Steps: 2}
			case op == journaltest.OpFollow:
				return journaltest.Fault{Kind: journaltest.Duplicate}
			}
			return journaltest.Fault{}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		box := inbox.New(faulty)
		ran := make(chan error, 1)
		go func() { ran <- box.Run(ctx) }()
		<-box.Ready()
		b.answer("s", id, "alice", journal.AllowOnce)
		second := b.ask("s", inboxtest.Spec{})
		synctest.Wait()
		if got := ids(box.List()); !slices.Equal(got, []string{second}) {
			t.Errorf("open are %v, want %s", got, second)
		}
		cancel()
		b.must(<-ran)
	})
}

func TestLoadFailsWhole(t *testing.T) {
	b := newBench(t, t.Context())
	b.ask("s", inboxtest.Spec{})
	for at := range 3 {
		faulty := &journaltest.Faulty{Log: b.log, Plan: func(step int, _ string) journaltest.Fault {
			if step != at {
				return journaltest.Fault{}
			}
			return journaltest.Fault{Kind: journaltest.Disconnect}
		}}
		if box, err := inbox.Load(t.Context(), faulty); err == nil || box != nil {
			t.Errorf("a failure at step %d gives %v, %v", at, box, err)
		}
	}
}

// TestAnElicitationEndsWithItsCall: what was asked for the sake of a call
// closes with the call's result, and when its run is taken over.
func TestAnElicitationEndsWithItsCall(t *testing.T) {
	ends := map[string]func(st *journal.State, call string) journal.Body{
		"result": func(st *journal.State, call string) journal.Body {
			return &journal.Result{Call: call, Attempt: 1, Run: st.Call(call).Run, Status: journal.StatusOK, Digest: journal.Digest(nil)}
		},
		"takeover": func(*journal.State, string) journal.Body {
			return &journal.Opened{Agent: "main", Run: "second", Kind: journal.KindSession, Takeover: true}
		},
		"closed": func(st *journal.State, call string) journal.Body {
			return &journal.Closed{Agent: "main", Run: st.Call(call).Run}
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, t.Context())
				id := b.ask("s", inboxtest.Spec{})
				allow := journal.Cause{Kind: journal.ByAnswer, ID: b.answer("s", id, "alice", journal.AllowOnce)}
				b.must(b.Decide(b.ctx, "s", id, journal.Allow, allow))
				var call string
				b.must(b.Do(b.ctx, "s", func(st *journal.State) []journal.Body {
					c := st.Call(st.Question(id).Call)
					call = c.Mark.ID
					return []journal.Body{&journal.Start{Call: call, Attempt: 1, Run: c.Waiter, Decision: c.Last().Decision, Digest: c.Digest}}
				}))
				elicited := b.ask("s", inboxtest.Spec{Kind: journal.CallElicitation, For: call})
				box, stop := b.follow()
				defer stop()
				next, done := iter.Pull(box.Watch(t.Context()))
				defer done()
				if c, _ := next(); c.Item.ID != elicited {
					t.Fatalf("open is %s, want %s", c.Item.ID, elicited)
				}
				b.must(b.Do(b.ctx, "s", func(st *journal.State) []journal.Body { return []journal.Body{end(st, call)} }))
				synctest.Wait()
				got := untilClosed(t, next, elicited)
				if got.How != inbox.Withdrawn || got.Why != "the call that it belongs to ended" {
					t.Errorf("closed as %+v", got)
				}
			})
		})
	}
}
