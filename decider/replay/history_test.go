package replay_test

import (
	"encoding/json"
	"testing"
	"time"

	"decisionjournal/journal"
)

const tourPolicy = `
rules:
  - {tool: fs_read, decision: allow}
  - {tool: fs_write, decision: allow, under: scratch}
  - {tool: fs_delete, decision: deny, note: nothing is deleted here}
  - {tool: mail, decision: ask}
settings: {idempotent: [fs_read]}
`

const stricterPolicy = `
rules:
  - {tool: fs_read, decision: allow}
  - {tool: fs_write, decision: deny, under: important}
settings: {decision-ttl: 1h, deadline: 2h, idempotent: [fs_read]}
approval:
  - {tool: deploy, need: [{of: [alice, bob], count: 2}]}
  - {tool: page, who: [{of: [alice]}, {of: [carol], from: 30m}]}
`

const failPolicy = `
rules: [{tool: fs_read, decision: allow}]
settings: {interrupted: fail}
importers: [decider]
`

// tour is a history with the common shapes: rules, questions, answers, grants,
// a revocation.
func tour(t *testing.T) *bench {
	b := newBench(t)
	b.open("tour", "r1", func(o *journal.Opened) { o.Label = "a tour" })
	b.adopt(tourPolicy)
	read := b.call("fs_read", `{"path":"docs/readme"}`)
	b.start(read)
	b.result(read, journal.StatusOK, `"hello"`)
	b.call("fs_delete", `{"path":"docs/readme"}`)
	first := b.call("fs_write", `{"content":"x","path":"important/a"}`)
	second := b.call("fs_write", `{"content":"y","path":"important/b"}`)
	mail := b.call("mail", `{"to":"x"}`)
	b.answer("alice", first, journal.AlwaysAllow)
	b.want(second, "allowed by grant")
	b.start(first)
	b.result(first, journal.StatusOK, `"written"`)
	b.answer("alice", mail, journal.DenyOnce, func(a *journal.Answer) { a.Note = "use the staging cluster" })
	b.want(mail, "denied by answer")
	ids := b.inline(b.newCall("fs_read", `{"path":"docs/a"}`), b.newCall("fs_write", `{"content":"z","path":"important/c"}`), b.newCall("mail", `{"to":"y"}`))
	b.result(ids[0], journal.StatusOK, `"a"`)
	b.result(ids[1], journal.StatusError, `"disk full"`)
	b.must(journal.RoleApprover, "alice", &journal.Revoke{Grant: b.grants()[0], Reason: "enough"})
	b.settle()
	b.want(second, "open")
	b.must(journal.RoleAgent, "agent", &journal.Closed{Agent: "main", Run: "r1"})
	return b
}

// changes is a history of policies that change, deadlines, expiry and stages.
func changes(t *testing.T) *bench {
	b := newBench(t)
	b.open("changes", "r1")
	b.adopt(tourPolicy)
	kept := b.call("fs_write", `{"content":"x","path":"important/a"}`)
	b.answer("alice", kept, journal.AllowOnce)
	open := b.call("fs_write", `{"content":"x","path":"important/b"}`)
	deploy := b.call("deploy", `{"to":"prod"}`)
	b.adopt(stricterPolicy)
	b.settle()
	b.want(kept, "denied by rule")
	b.want(open, "denied by rule")
	b.answer("alice", deploy, journal.AlwaysAllow, func(a *journal.Answer) { a.Uses = 1 })
	b.want(deploy, "open")
	b.answer("bob", deploy, journal.AlwaysAllow, func(a *journal.Answer) { a.Uses = 1 })
	b.want(deploy, "allowed by answer")
	other := b.call("deploy", `{"to":"test"}`)
	b.want(other, "allowed by grant")
	b.start(deploy)
	b.result(deploy, journal.StatusNotRun, `"not run"`)
	b.start(deploy)
	b.settle()
	b.want(other, "open")
	page := b.call("page", `{"who":"ops"}`)
	b.tick(40 * time.Minute)
	b.answer("carol", page, journal.AlwaysDeny, func(a *journal.Answer) { a.Expires = journal.At(b.now.Add(time.Hour)) })
	b.want(b.call("page", `{"who":"dev"}`), "denied by grant")
	late := b.call("late", `{}`)
	unusable := b.call("odd", `{}`)
	b.answer("alice", unusable, "whatever")
	b.want(unusable, "denied by unusable")
	stale := b.call("stale", `{}`)
	b.answer("alice", stale, journal.AllowOnce)
	b.tick(3 * time.Hour)
	b.settle()
	b.want(late, "denied by lapse")
	return b
}

// restarts is a history of headless runs, takeovers, unknown outcomes, keys,
// repeated denials, elicitations and masked arguments.
func restarts(t *testing.T) *bench {
	b := newBench(t)
	b.open("restarts", "r1", func(o *journal.Opened) { o.Headless = true })
	b.adopt(tourPolicy)
	b.want(b.call("fs_write", `{"content":"x","path":"important/a"}`), "denied by headless")
	write := b.call("fs_write", `{"content":"x","path":"scratch/a"}`, func(c *journal.Call) { c.Key = "batch/1" })
	b.start(write)
	read := b.call("fs_read", `{"path":"a"}`)
	b.start(read)
	b.open("restarts", "r2", func(o *journal.Opened) { o.Takeover = true })
	b.must(journal.RoleAgent, "agent", &journal.Attach{Call: write, Run: "r2"})
	b.must(journal.RoleAgent, "agent", &journal.Attach{Call: read, Run: "r2"})
	b.settle()
	b.want(write, "open")
	b.want(read, "allowed by rule")
	b.answer("alice", write, journal.AllowOnce)
	b.start(write)
	b.elicit(write)
	b.result(write, journal.StatusUnknown, `"connection lost"`)
	b.answer("alice", write, journal.DenyOnce)
	for range 2 {
		b.answer("alice", b.call("mail", `{"to":"x"}`), journal.DenyOnce)
	}
	b.want(b.call("mail", `{"to":"x"}`), "denied by answer")
	b.call("mail", `{"to":"***"}`, func(c *journal.Call) {
		c.Masked, c.Facts = []string{"/to"}, json.RawMessage(`{}`)
		c.Digest = "hmac:k1:" + journal.Digest([]byte("secret"))[len(journal.DigestPrefix):]
	})
	b.must(journal.RoleDecider, "decider", b.newCall("fs_read", `{"path":"b"}`))
	b.settle()
	b.open("failing", "r1")
	b.adopt(failPolicy)
	failed := b.call("fs_read", `{"path":"a"}`)
	b.start(failed)
	b.open("failing", "r2", func(o *journal.Opened) { o.Takeover = true })
	b.must(journal.RoleAgent, "agent", &journal.Attach{Call: failed, Run: "r2"})
	b.settle()
	b.want(failed, "denied by interrupted")
	return b
}

// elicit has a started call ask a person something.
func (b *bench) elicit(call string) {
	b.t.Helper()
	id := b.call("server", `{"message":"which one?"}`, func(c *journal.Call) { c.Kind, c.For = journal.CallElicitation, call })
	b.answer("alice", id, journal.Accept, func(a *journal.Answer) { a.Content = json.RawMessage(`{"x":1}`) })
	b.want(id, "finished by answer")
}

// books is a history with a policy followed by name and grants from a book.
func books(t *testing.T) *bench {
	b := newBench(t)
	b.open("standing", "b1", func(o *journal.Opened) { o.Kind = journal.KindBook })
	b.publish(failPolicy)
	activate(b)
	b.must(journal.RoleDecider, "decider", &journal.Adopt{Digest: b.pol.Digest()})
	asked := b.call("deploy", `{}`)
	b.answer("alice", asked, journal.AlwaysAllow)
	b.open("following", "r1", func(o *journal.Opened) { o.Follows = "default" })
	b.settle()
	if b.state().Adopted("main", "") == nil {
		t.Fatal("the session did not adopt what it follows")
	}
	book := b.chainState(journal.SessionChain("standing")).Grants()[0]
	b.must(journal.RoleDecider, "decider", &journal.Grant{Rules: book.Rules, Origin: &journal.Origin{Session: "standing", Grant: book.Mark.ID}})
	b.must(journal.RoleAdmin, "admin", &journal.Grant{Rules: []json.RawMessage{json.RawMessage(`{"decision":"allow","tool":"ship"}`)}, Origin: &journal.Origin{Import: "grants.json"}})
	b.want(b.call("ship", `{}`), "allowed by grant")
	call := b.call("deploy", `{"x":1}`)
	b.want(call, "allowed by grant")
	b.start(call)
	left := b.call("deploy", `{"x":2}`)
	b.session = "standing"
	b.must(journal.RoleApprover, "alice", &journal.Revoke{Grant: book.Mark.ID, Reason: "over"})
	b.session = "following"
	b.settle()
	b.want(left, "open")
	b.publish(tourPolicy)
	activate(b)
	b.settle()
	b.must(journal.RoleDecider, "decider", &journal.Ended{Reason: "done"})
	return b
}

func activate(b *bench) {
	b.t.Helper()
	if _, err := b.dec.Activate(b.t.Context(), "default", b.pol); err != nil {
		b.t.Fatal(err)
	}
}

// repaired is a history that lost a message, which an admin accounts for.
func repaired(t *testing.T) *bench {
	b := newBench(t)
	b.open("repaired", "r1")
	b.adopt(tourPolicy)
	asked := b.call("fs_write", `{"content":"x","path":"important/a"}`)
	b.answer("alice", asked, journal.AlwaysAllow)
	lost := b.state().LastSeq()
	b.lose(lost, "bad sector")
	b.settle()
	b.want(asked, "open")
	b.answer("alice", asked, journal.AllowOnce)
	b.must(journal.RoleAgent, "agent", b.newCall("fs_read", `{"path":"a"}`))
	middle := b.state().LastSeq()
	b.settle()
	b.lose(middle, "the same disk")
	b.settle()
	return b
}

// lose drops a message, and has an admin account for it: in its session and in
// the policy chain, which it may have been of.
func (b *bench) lose(seq uint64, reason string) {
	b.t.Helper()
	b.log.Drop(seq)
	for _, chain := range []journal.Chain{journal.SessionChain(b.session), journal.PolicyChain()} {
		w, st := b.writer(journal.RoleAdmin, "admin"), b.chainState(chain)
		if err := w.AppendRepair(b.t.Context(), st, w.Now(st), &journal.Repair{Missing: []uint64{seq}, Reason: reason}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// histories are whole histories of every shape.
func histories() map[string]func(*testing.T) *bench {
	return map[string]func(*testing.T) *bench{
		"tour": tour, "changes": changes, "restarts": restarts, "books": books, "repaired": repaired,
	}
}

func TestCleanHistories(t *testing.T) {
	for name, build := range histories() {
		t.Run(name, func(t *testing.T) { build(t).wantClean() })
	}
}
