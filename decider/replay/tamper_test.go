package replay_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// object is a JSON object that tests edit.
type object map[string]any

// edit changes a message's commit as JSON.
func edit(t *testing.T, m *journal.Message, change func(commit object)) {
	t.Helper()
	var o object
	if err := json.Unmarshal(m.Data, &o); err != nil {
		t.Fatal(err)
	}
	change(o)
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if m.Data, err = journal.Canonical(raw); err != nil {
		t.Fatal(err)
	}
}

// eventOf is the first event of a type in a commit, or nil.
func eventOf(commit object, kind journal.Type) object {
	for _, e := range commit["events"].([]any) {
		if o := object(e.(map[string]any)); o["type"] == string(kind) {
			return o
		}
	}
	return nil
}

// upTo is a journal of a bench's first messages, its holes included.
func (b *bench) upTo(seq uint64) *bench {
	c := *b
	c.log, c.writers = journaltest.NewMemory(), map[string]*journal.Writer{}
	c.log.SetClock(func() time.Time { return c.now })
	c.dec = &decider.Decider{Writer: c.writer(journal.RoleDecider, "decider")}
	last := uint64(0)
	for _, m := range b.log.Messages() {
		if m.Seq > seq {
			break
		}
		for last++; last < m.Seq; last++ {
			c.log.Drop(c.log.Inject(journal.Message{}))
		}
		c.log.Inject(m)
	}
	return &c
}

// reseal makes the session's chain of digests whole again, as one would who
// can write the disk.
func (b *bench) reseal(session string) {
	prev := ""
	for _, m := range b.log.Messages() {
		if sub, err := journal.ParseSubject(m.Subject); err != nil || sub.Chain != journal.SessionChain(session) {
			continue
		}
		b.log.Tamper(m.Seq, func(m *journal.Message) {
			edit(b.t, m, func(o object) { o["prev"] = prev })
			prev = journal.Digest(m.Data)
		})
	}
}

// with lists the sequences of the messages of a session that hold an event type.
func (b *bench) with(session string, kind journal.Type) []uint64 {
	var list []uint64
	for _, m := range b.log.Messages() {
		c, err := journal.Decode(m.Data)
		if err == nil && c.Session == session && slices.ContainsFunc(c.Events, func(e journal.Event) bool { return e.Kind == kind }) {
			list = append(list, m.Seq)
		}
	}
	return list
}

// after is the session's next message after seq, 0 if there is none.
func (b *bench) after(session string, seq uint64) uint64 {
	for _, m := range b.log.Messages() {
		if sub, err := journal.ParseSubject(m.Subject); err == nil && sub.Chain == journal.SessionChain(session) && m.Seq > seq {
			return m.Seq
		}
	}
	return 0
}

func named(list []replay.Fault, seq uint64, fields ...string) bool {
	return slices.ContainsFunc(list, func(f replay.Fault) bool { return f.Seq == seq && slices.Contains(fields, f.Field) })
}

func show(list []replay.Fault) (out string) {
	for _, f := range list {
		out += "\n  " + f.String()
	}
	return out
}

const otherDigest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// tampering is one field changed.
type tampering struct {
	name   string
	change func(commit, event object)
	fields []string // the audit may name it by; empty: the name
}

func flip(o object, key, a, b string) {
	if o[key] == a {
		o[key] = b
	} else {
		o[key] = a
	}
}

// decisionTamperings change each field of a decision.
func decisionTamperings() []tampering {
	return []tampering{
		{"outcome", func(_, e object) { flip(e, "outcome", "allow", "deny") }, []string{"outcome", "by"}},
		{"by.kind", func(_, e object) { e["by"] = []any{object{"kind": "error"}} }, []string{"by"}},
		{"by.rule", func(_, e object) {
			e["by"] = []any{object{"kind": "rule", "rule": object{"tool": "*", "decision": e["outcome"]}}}
		}, []string{"by"}},
		{"by.id", func(_, e object) {
			e["by"] = []any{object{"kind": "answer", "id": "01KBAG0000000000000000000A"}}
		}, []string{"by"}},
		{"by none", func(_, e object) { e["by"] = []any{} }, []string{"by", "body"}},
		{"policy", func(_, e object) { e["policy"] = otherDigest }, nil},
		{"digest", func(_, e object) { e["digest"] = otherDigest }, nil},
		{"facts", func(_, e object) { e["facts"] = object{"root": "/elsewhere"} }, []string{"facts", "facts.root"}},
		{"message", func(_, e object) { e["message"] = "fine" }, nil},
		{"expires", func(_, e object) { e["expires"] = "2031-01-01T00:00:00.000000000Z" }, nil},
		{"attempt", func(_, e object) { e["attempt"] = 7 }, nil},
		{"call", func(_, e object) { e["call"] = "01KBAG0000000000000000000A" }, nil},
		{"unknown member", func(_, e object) { e["why"] = "x" }, []string{"v"}},
	}
}

// commitTamperings change each field of a commit.
func commitTamperings() []tampering {
	return []tampering{
		{"n", func(c, _ object) { c["n"] = c["n"].(float64) + 1 }, nil},
		{"after", func(c, _ object) { c["after"] = c["after"].(float64) + 1 }, nil},
		{"prev", func(c, _ object) { c["prev"] = otherDigest }, nil},
		{"actor", func(c, _ object) { c["actor"] = "mallory" }, nil},
		{"role", func(c, _ object) { c["role"] = "admin" }, nil},
		{"session", func(c, _ object) { c["session"] = "another" }, nil},
		{"time back", func(c, _ object) { c["time"] = "2001-01-01T00:00:00.000000000Z" }, []string{"time"}},
		{"time ahead", func(c, _ object) { c["time"] = "2099-01-01T00:00:00.000000000Z" }, []string{"time"}},
		{"v", func(c, _ object) { c["v"] = 2 }, nil},
		{"events", func(c, _ object) { c["events"] = []any{} }, nil},
		{"missing member", func(c, _ object) { delete(c, "actor") }, []string{"actor"}},
	}
}

// sessionsOf are the sessions that the named history holds decisions in.
func sessionsOf() map[string][]string {
	return map[string][]string{"tour": {"tour"}, "changes": {"changes"}, "restarts": {"restarts", "failing"}, "books": {"following"}}
}

// eachTampering runs a check on one in so many decisions of every history,
// changed in every way.
func eachTampering(t *testing.T, oneIn int, list []tampering, check func(t *testing.T, b *bench, session string, seq uint64, change func(*bench), fields []string)) {
	for name, sessions := range sessionsOf() {
		whole := histories()[name](t)
		for _, session := range sessions {
			for i, seq := range whole.with(session, journal.TypeDecision) {
				if i%oneIn != 0 {
					continue
				}
				for _, tmp := range list {
					change := func(b *bench) {
						b.log.Tamper(seq, func(m *journal.Message) {
							edit(t, m, func(c object) { tmp.change(c, eventOf(c, journal.TypeDecision)) })
						})
					}
					fields := tmp.fields
					if fields == nil {
						fields = []string{tmp.name}
					}
					t.Run(fmt.Sprintf("%s %d %s", session, seq, tmp.name), func(t *testing.T) { check(t, whole, session, seq, change, fields) })
				}
			}
		}
	}
}

// A changed last message is named by itself: nothing after it gives it away.
func TestTamperedHeadIsNamed(t *testing.T) {
	check := func(t *testing.T, whole *bench, session string, seq uint64, change func(*bench), fields []string) {
		b := whole.upTo(seq)
		change(b)
		if r := b.audit(session); r.Clean || !named(faults(r), seq, fields...) {
			t.Fatalf("want message %d named by %q, got:%s", seq, fields, show(faults(r)))
		}
	}
	eachTampering(t, 1, decisionTamperings(), check)
	eachTampering(t, 4, commitTamperings(), check)
}

// A changed message inside the chain is named, and if it looks well by itself,
// the one after it says that it was changed.
func TestTamperedChainIsNamed(t *testing.T) {
	some := slices.DeleteFunc(append(decisionTamperings(), commitTamperings()...), func(c tampering) bool {
		return !slices.Contains([]string{"outcome", "policy", "facts", "n", "after", "prev", "actor", "time back"}, c.name)
	})
	eachTampering(t, 3, some, func(t *testing.T, whole *bench, session string, seq uint64, change func(*bench), fields []string) {
		next := whole.after(session, seq)
		if next == 0 {
			return // covered above
		}
		b := whole.upTo(1 << 60)
		change(b)
		r := b.audit(session)
		list := faults(r)
		if r.Clean || !named(list, seq, fields...) {
			t.Fatalf("want message %d named by %q, got:%s", seq, fields, show(list))
		}
		if !named(listed(r), next, "prev", "n", "chain") {
			t.Fatalf("want message %d named to follow on other bytes, got:%s", next, show(listed(r)))
		}
	})
}

// Who can write the disk can make the digests fit again. What a decision says
// still does not follow.
func TestResealedTamperingIsNamed(t *testing.T) {
	eachTampering(t, 2, decisionTamperings(), func(t *testing.T, whole *bench, session string, seq uint64, change func(*bench), fields []string) {
		b := whole.upTo(1 << 60)
		change(b)
		b.reseal(session)
		if r := b.audit(session); r.Clean || !named(faults(r), seq, fields...) {
			t.Fatalf("want message %d named by %q, got:%s", seq, fields, show(faults(r)))
		}
	})
}

// Times that stay plausible are given away by the chain alone.
func TestTamperedTimeIsNamed(t *testing.T) {
	b := tour(t)
	seq := b.with("tour", journal.TypeDecision)[1]
	b.log.Tamper(seq, func(m *journal.Message) {
		edit(t, m, func(c object) {
			at, err := time.Parse(time.RFC3339Nano, c["time"].(string))
			if err != nil {
				t.Fatal(err)
			}
			c["time"] = journal.At(at.Add(time.Millisecond)).String()
		})
	})
	if r := b.audit(); !named(faults(r), b.after("tour", seq), "prev") {
		t.Fatalf("want the next message named by prev, got:%s", show(faults(r)))
	}
}

func TestTamperedEventsAreNamed(t *testing.T) {
	for _, c := range []struct {
		kind   journal.Type
		field  string
		value  any
		fields []string
	}{
		{journal.TypeQuestion, "reason", "rule", nil},
		{journal.TypeQuestion, "grantable", false, nil},
		{journal.TypeQuestion, "suggestion", []any{}, nil},
		{journal.TypeQuestion, "alternatives", []any{}, nil},
		{journal.TypeQuestion, "need", []any{object{"of": []any{"eve"}, "count": 1}}, nil},
		{journal.TypeQuestion, "who", []any{object{"of": []any{"eve"}}}, nil},
		{journal.TypeQuestion, "frontends", []any{object{"name": "eve", "for": []any{"alice"}}}, nil},
		{journal.TypeQuestion, "deadline", "2031-01-01T00:00:00.000000000Z", nil},
		{journal.TypeQuestion, "note", "x", nil},
		{journal.TypeQuestion, "view", object{"tool": "fs_read"}, []string{"view.tool"}},
		{journal.TypeQuestion, "facts", object{}, []string{"facts.paths", "facts"}},
		{journal.TypeQuestion, "verdict", object{"decision": "allow"}, []string{"verdict.decision"}},
		{journal.TypeQuestion, "shown", otherDigest, nil},
		{journal.TypeCall, "digest", otherDigest, nil},
		{journal.TypeResult, "digest", otherDigest, nil},
		{journal.TypeResult, "size", 99, nil},
		{journal.TypeResult, "content", "changed", []string{"digest"}},
		{journal.TypeAdopt, "digest", otherDigest, nil},
		{journal.TypeGrant, "rules", []any{object{"tool": "*", "decision": "allow"}}, []string{"body", "rules"}},
		{journal.TypeGrant, "uses", 100, []string{"body", "uses"}},
	} {
		t.Run(fmt.Sprintf("%s %s", c.kind, c.field), func(t *testing.T) {
			whole := tour(t)
			seq := whole.with("tour", c.kind)[0]
			b := whole.upTo(seq)
			b.log.Tamper(seq, func(m *journal.Message) {
				edit(t, m, func(o object) {
					e := eventOf(o, c.kind)
					e[c.field] = c.value
					if c.kind == journal.TypeQuestion && c.field != "shown" {
						e["shown"] = reshown(t, e)
					}
				})
			})
			fields := append(c.fields, c.field)
			if r := b.audit(); !named(faults(r), seq, fields...) {
				t.Fatalf("want message %d named by %q, got:%s", seq, fields, show(faults(r)))
			}
		})
	}
}

// reshown makes a question's shown fit again.
func reshown(t *testing.T, e object) string {
	t.Helper()
	var q journal.Question
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		t.Fatal(err)
	}
	shown, err := q.ShownDigest()
	if err != nil {
		t.Fatal(err)
	}
	return shown
}
