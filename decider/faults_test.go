package decider_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"decisionjournal/decider"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// Settle under every fault at every step: what it leaves is sound, and nothing
// is decided twice.
func TestSettleUnderFaults(t *testing.T) {
	journaltest.EachStep(t, func(t *testing.T, log journal.Log, mem *journaltest.Memory) {
		b := newOver(t, mem)
		b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession, Follows: "default"})
		b.activate("default", "importers: [importer]"+strings.Replace(scratchPolicy, "settings: {", "settings: {deadline: 1h, ", 1))
		standing := b.book()
		b.importGrant("importer", journal.Origin{Session: "book", Grant: standing}, `{"decision":"allow","tool":"x"}`)
		b.settle()
		late := b.call("r1", "late", `{}`)
		b.settle()
		b.now = b.now.Add(time.Hour)
		read, x := b.call("r1", "fs_read", `{"path":"a"}`), b.call("r1", "x", `{}`)
		write, other := b.call("r1", "fs_write", `{"path":"docs/a"}`), b.call("r1", "fs_write", `{"path":"docs/b"}`)

		faulty := &decider.Decider{Writer: b.writerTo(log, journal.RoleDecider, "decider")}
		settle := func() {
			t.Helper()
			var err error
			for range 4 { // a supervisor tries again
				var st *journal.State
				if st, err = journal.LoadState(context.Background(), log, b.chain); err != nil {
					continue
				}
				if err = faulty.Settle(context.Background(), st); err == nil {
					return
				}
			}
			t.Fatal(err)
		}
		settle()
		b.answer("alice", write, journal.AlwaysAllow)
		settle()
		released := func() (err error) {
			for range 4 {
				if err = faulty.Releasable(context.Background(), b.session(), x); err == nil {
					return nil
				}
			}
			return err
		}
		if err := released(); err != nil {
			t.Error(err)
		}

		for call, want := range map[string]string{
			late: "denied lapse", read: "allowed rule", x: "allowed grant", write: "allowed answer,grant", other: "allowed grant",
		} {
			if got := b.outcome(call); got != want {
				t.Errorf("call %s: %s, want %s", call, got, want)
			}
		}
		for what, n := range b.decided() {
			if n != 1 {
				t.Errorf("%s decided %d times", what, n)
			}
		}
		if n := len(b.session().Questions()); n != 3 {
			t.Errorf("%d questions", n)
		}
	})
}
