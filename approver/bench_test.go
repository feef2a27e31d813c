package approver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"decisionjournal/approver"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox/inboxtest"
	"decisionjournal/journal/journaltest"
)

// bench is a journal in memory with a decider who asks.
type bench struct {
	*testing.T
	log *journaltest.Memory
	*inboxtest.Asker
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, log: journaltest.NewMemory()}
	b.Asker = inboxtest.New(b.writer(b.log, journal.RoleDecider, "decider"))
	return b
}

func (b *bench) writer(log journal.Log, role journal.Role, actor string) *journal.Writer {
	b.Helper()
	w, err := journal.NewWriter(journal.Config{Log: log, Role: role, Actor: actor})
	b.must(err)
	return w
}

func (b *bench) approver(name string) *journal.Writer {
	return b.writer(b.log, journal.RoleApprover, name)
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) ask(session string, s inboxtest.Spec) string {
	b.Helper()
	id, err := b.Ask(b.Context(), session, s)
	b.must(err)
	return id
}

// answer answers as a person, who must succeed.
func (b *bench) answer(question, by, action string) approver.Receipt {
	b.Helper()
	r, err := approver.Answer(b.Context(), b.approver(by), approver.Ref{Question: question}, approver.Request{Action: action})
	b.must(err)
	return r
}

func (b *bench) votes(session, question string) []journal.Vote {
	b.Helper()
	st, err := journal.LoadState(context.Background(), b.log, journal.SessionChain(session))
	b.must(err)
	if _, voids := st.Anomalies(); voids > 0 {
		b.Fatalf("%d messages are void", voids)
	}
	return st.Question(question).Answers
}

func people(count int, names ...string) []journal.Stage {
	return []journal.Stage{{Of: append([]string{}, names...), Count: count}}
}

func ahead(d time.Duration) journal.Time { return journal.At(time.Now().Add(d)) }

// suggesting is a grantable question with a suggestion.
func suggesting() inboxtest.Spec {
	return inboxtest.Spec{Grantable: true, Suggestion: []string{`{"decision":"allow","tool":"fs_write","under":"notes"}`}}
}

func name(i int) string { return fmt.Sprintf("person-%d", i) }

// day is a time that does not come soon.
var day = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
