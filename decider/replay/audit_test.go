package replay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"decisionjournal/decider/replay"
	"decisionjournal/journal"
)

// permissions are what a fold of every session permits: allows, starts and
// grants, by id.
func (b *bench) permissions() map[string]bool {
	b.t.Helper()
	chains, err := b.log.Chains(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[string]bool{}
	for _, chain := range chains {
		st := b.chainState(chain)
		for _, d := range st.Decisions() {
			if d.Outcome == journal.Allow {
				all[chain.String()+" allow "+d.Call] = true
			}
		}
		for _, g := range st.Grants() {
			all[chain.String()+" grant "+fmt.Sprintf("%s", g.Rules)+g.Expires.String()+fmt.Sprint(g.Uses)] = true
		}
	}
	return all
}

// small is a short history in which each event type that permits stands once.
func small(t *testing.T) *bench {
	b := newBench(t)
	b.open("s", "r1")
	b.adopt("rules: [{tool: mail, decision: deny}]")
	b.call("mail", `{}`)
	call := b.call("w", `{}`)
	b.answer("al", call, journal.AlwaysAllow)
	b.start(call)
	return b
}

// Every flipped bit is named, or permits nothing that was not permitted.
func TestFlippedBits(t *testing.T) {
	whole := small(t)
	allowed := whole.permissions()
	named, quiet := 0, 0
	b := whole.upTo(1 << 60)
	for _, m := range whole.log.Messages() {
		for i := range m.Data {
			b.log.Tamper(m.Seq, func(now *journal.Message) { now.Data = bytes.Clone(m.Data); now.Data[i] ^= 1 << (i % 8) })
			if r := b.audit(); !r.Clean || r.Sessions[0].AnomalyCount+r.Sessions[1].AnomalyCount > 0 {
				named++
				continue
			}
			quiet++
			for p := range b.permissions() {
				if !allowed[p] {
					t.Fatalf("message %d, byte %d: nobody noticed, and now %q", m.Seq, i, p)
				}
			}
			if !strings.HasPrefix(m.Subject, "journal.policy") && whole.after("s", m.Seq) != 0 {
				t.Errorf("message %d, byte %d: a change inside the chain is not named", m.Seq, i)
			}
		}
		b.log.Tamper(m.Seq, func(now *journal.Message) { now.Data = m.Data })
	}
	if named == 0 || named < 9*quiet {
		t.Fatalf("%d flipped bits were named, %d not", named, quiet)
	}
}

// A flipped bit of a subject or a header is named too.
func TestFlippedBitsOutsideTheBody(t *testing.T) {
	whole := small(t)
	for _, m := range whole.log.Messages() {
		for i := range m.Subject {
			b := whole.upTo(1 << 60)
			b.log.Tamper(m.Seq, func(m *journal.Message) {
				s := []byte(m.Subject)
				s[i] ^= 1
				m.Subject = string(s)
			})
			if r := b.audit(); len(listed(r)) == 0 {
				t.Errorf("message %d, subject byte %d (%s): not named", m.Seq, i, m.Subject)
			}
		}
		for _, h := range []string{journal.HeaderExpected, journal.HeaderExpectedFilter} {
			b := whole.upTo(1 << 60)
			b.log.Tamper(m.Seq, func(m *journal.Message) { delete(m.Headers, h) })
			if r := b.audit(); !named(listed(r), m.Seq, "headers") {
				t.Errorf("message %d without %s: %s", m.Seq, h, show(listed(r)))
			}
		}
	}
}

func fieldNamed(r replay.Report, seq uint64, fields ...string) bool {
	return named(faults(r), seq, fields...)
}

// A repair of what was lost at a chain's end, where nothing behind shows it, is
// on record with who made it and why.
func TestRepairedEnd(t *testing.T) {
	b := small(t)
	lost := b.log.Inject(journal.Message{Subject: "journal.s.other.agent.agent"})
	b.log.Drop(lost)
	if r := b.audit(); r.Clean || !fieldNamed(r, lost, "seq") {
		t.Fatalf("lost: %s", show(faults(r)))
	}
	for _, chain := range []journal.Chain{journal.PolicyChain(), journal.SessionChain("s")} {
		st := b.chainState(chain)
		w := b.writer(journal.RoleAdmin, "root")
		if err := w.AppendRepair(t.Context(), st, w.Now(st), &journal.Repair{Missing: []uint64{lost}, Reason: "a bad block"}); err != nil {
			t.Fatal(err)
		}
	}
	r := b.audit()
	if !r.Clean || len(r.Sessions) != 2 {
		t.Fatalf("repaired: %s", show(faults(r)))
	}
	for _, s := range r.Sessions {
		if len(s.Anomalies) != 1 || s.Anomalies[0].Seq != lost || !strings.HasSuffix(s.Anomalies[0].Text, fmt.Sprintf("repaired by admin.root at n %d: a bad block", s.Commits)) {
			t.Errorf("%s: %s", s.Session, show(s.Anomalies))
		}
	}
}

// Every removed message is named, wherever it stood, and removing one permits
// nothing new.
func TestRemovedMessages(t *testing.T) {
	for name, build := range histories() {
		whole := build(t)
		for _, m := range whole.log.Messages() {
			b := whole.upTo(1 << 60)
			b.log.Drop(m.Seq)
			r := b.audit()
			if r.Clean || !fieldNamed(r, m.Seq, "seq") {
				t.Errorf("%s without message %d: %s", name, m.Seq, show(faults(r)))
			}
			sub, err := journal.ParseSubject(m.Subject)
			if err != nil {
				t.Fatal(err)
			}
			next := whole.after(sub.Chain.Session(), m.Seq)
			if sub.Chain.IsPolicy() || next == 0 || name == "repaired" {
				continue
			}
			if !fieldNamed(r, next, "after") {
				t.Errorf("%s without message %d: message %d is not named to follow on it:%s", name, m.Seq, next, show(faults(r)))
			}
		}
	}
}

func TestSwappedMessages(t *testing.T) {
	whole := tour(t)
	msgs := whole.log.Messages()
	for i := 3; i < len(msgs)-1; i++ {
		b := whole.upTo(1 << 60)
		swap := func(to uint64, with journal.Message) {
			b.log.Tamper(to, func(m *journal.Message) { m.Subject, m.Headers, m.Data = with.Subject, with.Headers, with.Data })
		}
		swap(msgs[i].Seq, msgs[i+1])
		swap(msgs[i+1].Seq, msgs[i])
		if r := b.audit("tour"); !fieldNamed(r, msgs[i].Seq, "after") {
			t.Errorf("messages %d and %d swapped:%s", msgs[i].Seq, msgs[i+1].Seq, show(faults(r)))
		}
	}
}

// A dropped revocation breaks the session: as a gap if something follows, as
// a hole past the head if nothing does.
func TestDroppedRevoke(t *testing.T) {
	whole := tour(t)
	revoke := whole.with("tour", journal.TypeRevoke)[0]
	b := whole.upTo(1 << 60)
	b.log.Drop(revoke)
	r := b.audit("tour")
	if !fieldNamed(r, whole.after("tour", revoke), "after") || r.Sessions[1].Condition != "broken" {
		t.Fatalf("inside: %+v%s", r.Sessions[1], show(faults(r)))
	}
	b = whole.upTo(revoke)
	b.log.Drop(revoke)
	if r = b.audit("tour"); !fieldNamed(r, revoke, "seq") || r.Sessions[1].Condition != "broken" {
		t.Fatalf("at the head: %+v%s", r.Sessions[1], show(faults(r)))
	}
	for _, g := range b.grantReports("tour", replay.At{}) {
		if g.InForce {
			t.Fatalf("the revoked grant is in force: %+v", g)
		}
	}
}

func (b *bench) grantReports(session string, at replay.At) []replay.GrantReport {
	b.t.Helper()
	list, err := b.load().Grants(b.t.Context(), session, at)
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// forge appends events as a decider that makes up what it likes.
func (b *bench) forge(bodies ...journal.Body) uint64 {
	b.t.Helper()
	b.must(journal.RoleDecider, "decider", bodies...)
	return b.state().LastSeq()
}

// decision is a decision about a call's newest attempt.
func (b *bench) decision(call string, outcome journal.Outcome, by ...journal.Cause) *journal.Decision {
	st := b.state()
	c := st.Call(call)
	return &journal.Decision{Call: call, Attempt: c.Last().No, Outcome: outcome, By: by, Policy: st.Adopted(c.Agent, c.Layer).Digest,
		Engine: "policy/1", Digest: c.Digest, Facts: json.RawMessage(`{}`), Message: "allowed by rule"}
}

func TestForgedAllowIsNamed(t *testing.T) {
	b := tour(t)
	b.open("tour", "r9")
	call := b.must(journal.RoleAgent, "agent", b.newCall("rm", `{}`))[0]
	rule := journal.Cause{Kind: journal.ByRule, Rule: json.RawMessage(`{"decision":"allow","tool":"rm"}`)}
	forged := b.decision(call, journal.Allow, rule)
	seq := b.forge(forged)
	dec := b.state().Call(call).Last().Decision
	started := b.forge(&journal.Start{Call: call, Attempt: 1, Run: "r9", Decision: dec, Digest: forged.Digest})
	r := b.audit("tour")
	if !fieldNamed(r, seq, "outcome") || !fieldNamed(r, started, "decision") {
		t.Fatalf("want the allow and its start named:%s", show(faults(r)))
	}
	for _, f := range faults(r) {
		if f.Session != "tour" || f.Agent != "main" || f.Call != call {
			t.Errorf("a fault without session, agent and call: %+v", f)
		}
	}
}

func TestForgedGrantsAreNamed(t *testing.T) {
	rules := []json.RawMessage{json.RawMessage(`{"decision":"allow","tool":"*"}`)}
	t.Run("import", func(t *testing.T) { // by one who may not: it settles nothing
		b := tour(t)
		seq := b.forge(&journal.Grant{Rules: rules, Origin: &journal.Origin{Import: "grants.json"}})
		r := b.audit("tour")
		if !r.Clean || !named(r.Sessions[1].Anomalies, seq, "origin") {
			t.Fatalf("want the grant listed:%s", show(r.Sessions[1].Anomalies))
		}
	})
	t.Run("book", func(t *testing.T) {
		b := tour(t)
		seq := b.forge(&journal.Grant{Rules: rules, Origin: &journal.Origin{Session: "standing", Grant: "01KBAG0000000000000000000A"}})
		if r := b.audit("tour"); !fieldNamed(r, seq, "origin") {
			t.Fatalf("want the grant named:%s", show(faults(r)))
		}
	})
	t.Run("other rules than the book's", func(t *testing.T) {
		b := books(t)
		b = b.upTo(b.with("following", journal.TypeGrant)[0])
		from := b.chainState(journal.SessionChain("standing")).Grants()[0].Mark.ID
		seq := b.forge(&journal.Grant{Rules: rules, Origin: &journal.Origin{Session: "standing", Grant: from}})
		if r := b.audit("following"); !fieldNamed(r, seq, "origin") {
			t.Fatalf("want the grant named:%s", show(faults(r)))
		}
	})
	t.Run("book lapse", func(t *testing.T) {
		b := books(t)
		b = b.upTo(b.with("following", journal.TypeGrant)[0])
		seq := b.forge(&journal.Lapse{Grant: b.grants()[0], Reason: journal.LapseBook})
		if r := b.audit("following"); !fieldNamed(r, seq, "reason") {
			t.Fatalf("want the lapse named:%s", show(faults(r)))
		}
	})
}

// A start that something overtook is named, also where the fold took it.
func TestOvertakenStartIsNamed(t *testing.T) {
	b := newBench(t)
	b.open("s", "r1")
	b.adopt(tourPolicy)
	call := b.call("fs_write", `{"content":"x","path":"important/a"}`)
	b.answer("alice", call, journal.AllowOnce)
	b.adopt(stricterPolicy)
	c := b.state().Call(call)
	seq := b.forge(&journal.Start{Call: call, Attempt: 1, Run: "r1", Decision: c.Last().Decision, Digest: c.Digest})
	if r := b.audit("s"); !fieldNamed(r, seq, "decision") {
		t.Fatalf("want the start named:%s", show(faults(r)))
	}
}

// Another engine's decisions are judged again by their recorded facts.
func TestEngineChanged(t *testing.T) {
	whole := tour(t)
	seqs := whole.with("tour", journal.TypeDecision)
	b := whole.upTo(seqs[len(seqs)-1])
	b.t = t
	for _, seq := range append(seqs, b.with("tour", journal.TypeQuestion)...) {
		b.log.Tamper(seq, func(m *journal.Message) {
			edit(t, m, func(o object) {
				for _, e := range o["events"].([]any) {
					e := object(e.(map[string]any))
					if _, ok := e["engine"]; ok {
						e["engine"] = "policy/0"
					}
					if e["type"] == "question" {
						e["shown"] = reshown(t, e)
					}
				}
			})
		})
	}
	reanswer(t, b)
	b.reseal("tour")
	r := b.audit("tour")
	if !r.Clean || r.Sessions[1].EngineChanged == 0 {
		t.Fatalf("%d engine changes:%s", r.Sessions[1].EngineChanged, show(faults(r)))
	}
	// The recorded facts must still give the recorded verdict.
	b.log.Tamper(seqs[0], func(m *journal.Message) {
		edit(t, m, func(o object) { eventOf(o, journal.TypeDecision)["outcome"] = "deny" })
	})
	if r := b.audit("tour"); !fieldNamed(r, seqs[0], "outcome") {
		t.Fatalf("want the verdict named:%s", show(faults(r)))
	}
}

// reanswer makes answers say what their questions show now.
func reanswer(t *testing.T, b *bench) {
	shown := map[string]any{}
	for _, m := range b.log.Messages() {
		b.log.Tamper(m.Seq, func(m *journal.Message) {
			edit(t, m, func(o object) {
				for _, e := range o["events"].([]any) {
					switch e := object(e.(map[string]any)); e["type"] {
					case "question":
						shown[e["id"].(string)] = e["shown"]
					case "answer":
						e["shown"] = shown[e["question"].(string)]
					}
				}
			})
		})
	}
}

// What an agent may not write is an anomaly: it had no effect, and it says
// nothing against the record.
func TestRefusedAttemptsAreAnomalies(t *testing.T) {
	b := tour(t)
	st := b.state()
	msg := func(commit journal.Commit) journal.Message {
		data, err := commit.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return journal.Message{Subject: "journal.s.tour.agent.agent", Headers: journal.ExpectHeaders(st.Chain(), st.LastSeq()), Data: data}
	}
	w := b.writer(journal.RoleAgent, "agent")
	seq := b.log.Inject(msg(journal.Commit{Session: "tour", N: st.N() + 1, After: st.LastSeq(), Prev: st.Prev(), Role: journal.RoleAgent,
		Actor: "agent", Time: journal.At(b.now), Events: []journal.Event{w.Event(&journal.Revoke{Grant: b.grants()[0], Reason: "x"})}}))
	r := b.audit("tour")
	if !r.Clean || r.Sessions[1].AnomalyCount != 1 || r.Sessions[1].Anomalies[0].Seq != seq {
		t.Fatalf("want one anomaly and no fault: %+v", r.Sessions[1])
	}
	for _, tt := range []struct{ subject, field string }{
		{"journal.s.tour.agent.agent", "headers"},
		{"journal.s.t!ur.agent.agent", "subject"},
		{"journal.s.tour.decider.decider", "headers"},
		{"journal.s.t!ur.decider.decider", "subject"},
	} {
		seq := b.log.Inject(journal.Message{Subject: tt.subject, Data: []byte("hello")})
		r := b.audit()
		if !named(listed(r), seq, tt.field) || named(faults(r), seq, tt.field) != strings.Contains(tt.subject, "decider") {
			t.Errorf("%s: %s", tt.subject, show(listed(r)))
		}
	}
}

// TestJunkThatChains: an agent may add to its junk as to a chain, and it is
// junk still; what a decider adds to it is not.
func TestJunkThatChains(t *testing.T) {
	for role, clean := range map[journal.Role]bool{journal.RoleAgent: true, journal.RoleDecider: false} {
		b := tour(t)
		st := b.state()
		junk := func(role journal.Role, n uint64, prev string, after uint64) journal.Message {
			w := b.writer(role, string(role))
			c := journal.Commit{Session: "tour", N: n, After: after, Prev: prev, Role: role, Actor: string(role), Time: journal.At(b.now),
				Events: []journal.Event{w.Event(&journal.Start{Call: w.NewID(), Attempt: 1, Run: "r1", Decision: w.NewID(), Digest: otherDigest})}}
			data, err := c.Encode()
			if err != nil {
				t.Fatal(err)
			}
			return journal.Message{Subject: "journal.s.tour." + string(role) + "." + string(role), Headers: journal.ExpectHeaders(st.Chain(), after), Data: data}
		}
		first := junk(journal.RoleAgent, st.N()+1, st.Prev(), st.LastSeq())
		seq := b.log.Inject(first)
		b.log.Inject(junk(role, st.N()+2, journal.Digest(first.Data), seq))
		if r := b.audit(); r.Clean != clean {
			t.Errorf("%s: clean is %t: %s", role, r.Clean, show(listed(r)))
		}
	}
}

func TestTooNew(t *testing.T) {
	b := tour(t)
	st := b.state()
	seq := b.log.Inject(journal.Message{Subject: "journal.s.tour.agent.agent", Headers: journal.ExpectHeaders(st.Chain(), st.LastSeq()), Data: []byte(`{"v":2}`)})
	if r := b.audit("tour"); !fieldNamed(r, seq, "v") || r.Sessions[1].Condition != "too new" {
		t.Fatalf("%+v%s", r.Sessions[1], show(faults(r)))
	}
}

// The same journal gives the same report.
func TestAuditIsDeterministic(t *testing.T) {
	for name, build := range histories() {
		b := build(t)
		b.log.Tamper(6, func(m *journal.Message) { m.Data[10] ^= 1 })
		var texts [][]byte
		for range 3 {
			raw, err := json.Marshal(b.audit())
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, raw)
		}
		again, err := json.Marshal(func() replay.Report {
			c := build(t)
			c.log.Tamper(6, func(m *journal.Message) { m.Data[10] ^= 1 })
			return c.audit()
		}())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range append(texts, again) {
			if !bytes.Equal(x, texts[0]) {
				t.Fatalf("%s: two audits differ:\n%s\n%s", name, texts[0], x)
			}
		}
	}
}

func TestAuditOfSessions(t *testing.T) {
	b := books(t)
	r := b.audit("following")
	var got []string
	for _, s := range r.Sessions {
		got = append(got, s.Session)
	}
	if !slices.Equal(got, []string{"policy chain", "following"}) {
		t.Fatalf("audited %q", got)
	}
	for _, name := range []string{"nobody", "not a name", ""} {
		if _, err := b.load().Audit(t.Context(), name); !errors.Is(err, replay.ErrNoSession) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
