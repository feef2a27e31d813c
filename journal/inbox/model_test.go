package inbox_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/inbox/inboxtest"
)

// TestInboxIsTheFilteredFold holds an inbox that follows any history against
// a fold of every session, and its changes against its list.
func TestInboxIsTheFilteredFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t, context.Background())
		sessions := []string{"a", "b", "policy"}
		var asked [][2]string
		box := inbox.New(b.log)
		if rapid.Bool().Draw(t, "forgetful") {
			inbox.Forgetful(box)
		}
		seen := uint64(0)
		open := map[string]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				session := rapid.SampledFrom(sessions).Draw(t, "session")
				need := []journal.Stage{{Of: []string{}, Count: rapid.IntRange(1, 2).Draw(t, "need")}}
				id, err := b.Ask(b.ctx, session, inboxtest.Spec{Need: need, Arguments: rapid.SampledFrom([]string{`{"a":1}`, `{"a":2}`}).Draw(t, "arguments")})
				if err == nil { // a session may have ended
					asked = append(asked, [2]string{session, id})
				}
			},
			"end": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "end") == 0 {
					_ = b.End(b.ctx, rapid.SampledFrom(sessions).Draw(t, "session")) // may not have begun
				}
			},
			"settle": func(t *rapid.T) {
				if len(asked) == 0 {
					return
				}
				q := rapid.SampledFrom(asked).Draw(t, "question")
				b.try(t, q[0], q[1])
			},
			"load": func(t *rapid.T) {
				if d := cmp.Diff(b.filtered(), ids(b.load().List())); d != "" {
					t.Fatalf("loaded (-fold +inbox):\n%s", d)
				}
			},
			"": func(t *rapid.T) {
				before := seen
				for _, m := range b.log.Messages() {
					if m.Seq > seen {
						inbox.Apply(box, m)
						seen = m.Seq
					}
				}
				if seen == before {
					return
				}
				for _, c := range inbox.Drain(box) {
					if open[c.Item.ID] = c.Kind != inbox.Closed; !open[c.Item.ID] {
						delete(open, c.Item.ID)
					}
				}
				want := b.filtered()
				if d := cmp.Diff(want, ids(box.List())); d != "" {
					t.Fatalf("followed (-fold +inbox):\n%s", d)
				}
				if len(open) != len(want) {
					t.Fatalf("changes leave %d open, the list has %d", len(open), len(want))
				}
				for _, item := range box.List() {
					if n := b.sameGroup(box, item.Group); item.Count != n {
						t.Fatalf("%s counts %d, its group has %d", item.ID, item.Count, n)
					}
				}
			},
		})
	})
}

func (b *bench) sameGroup(box *inbox.Inbox, group string) int {
	n := 0
	for _, item := range box.List() {
		if item.Group == group {
			n++
		}
	}
	return n
}

// try settles a question in some way, if it can be settled so.
func (b *bench) try(t *rapid.T, session, question string) {
	st, err := journal.LoadState(b.ctx, b.log, journal.SessionChain(session))
	b.must(err)
	switch rapid.SampledFrom([]string{"allow", "deny", "rule", "withdraw", "void"}).Draw(t, "how") {
	case "rule":
		_ = b.Decide(b.ctx, session, question, journal.Deny, inboxtest.Rule())
	case "withdraw":
		if c := st.Call(st.Question(question).Call); c.Waiter != "" {
			_ = b.Withdraw(b.ctx, session, question)
		}
	case "void":
		b.log.Inject(journal.Message{Subject: "journal.s." + session + ".approver.eve", Data: []byte("{}")})
	default:
		by := rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(t, "by")
		action := rapid.SampledFrom([]string{journal.AllowOnce, journal.DenyOnce}).Draw(t, "action")
		w := writer(b, b.log, journal.RoleApprover, by)
		_ = w.Append(b.ctx, st, w.Now(st), w.Event(&journal.Answer{Question: question, Action: action, Shown: st.Question(question).Shown, By: by}))
	}
}

// filtered are the open questions of all sessions, by folding each anew.
func (b *bench) filtered() []string {
	type at struct {
		seq uint64
		id  string
	}
	var open []at
	chains, err := b.log.Chains(b.ctx)
	b.must(err)
	for _, chain := range chains {
		st, err := journal.LoadState(b.ctx, b.log, chain)
		b.must(err)
		for _, q := range st.Questions() {
			if !q.Over && !q.Settled() {
				open = append(open, at{q.Mark.Seq, q.Mark.ID})
			}
		}
	}
	slices.SortFunc(open, func(x, y at) int { return int(x.seq) - int(y.seq) })
	list := []string{}
	for _, o := range open {
		list = append(list, o.id)
	}
	return list
}
