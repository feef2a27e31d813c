package journal_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"decisionjournal/journal"
)

var update = flag.Bool("update", false, "write testdata/journals anew; only for what no release has written yet")

const (
	goldenJournal = "../testdata/journals/v1.jsonl"
	goldenState   = "../testdata/journals/v1.state.json"
)

var (
	goldenChain = journal.SessionChain("golden")
	goldenBook  = journal.SessionChain("book")
)

// storedMessage is a message as a line of a golden journal.
type storedMessage struct {
	Seq     uint64              `json:"seq"`
	Time    journal.Time        `json:"time"`
	Subject string              `json:"subject"`
	Headers map[string][]string `json:"headers"`
	Data    string              `json:"data"`
}

func goldenMessages(t testing.TB) []journal.Message {
	t.Helper()
	b, err := os.ReadFile(goldenJournal)
	if err != nil {
		t.Fatal(err)
	}
	var list []journal.Message
	for line := range bytes.Lines(b) {
		var m storedMessage
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		list = append(list, journal.Message{Seq: m.Seq, Time: m.Time.Time, Subject: m.Subject, Headers: m.Headers, Data: []byte(m.Data)})
	}
	return list
}

func goldenSession(t testing.TB) []journal.Message { return messagesOf(t, goldenChain) }

func messagesOf(t testing.TB, of journal.Chain) []journal.Message {
	t.Helper()
	return slices.DeleteFunc(goldenMessages(t), func(m journal.Message) bool {
		return !strings.HasPrefix(m.Subject, strings.TrimSuffix(of.Filter(), ">"))
	})
}

// TestGoldenJournal: a journal written once stays readable for ever, and says
// what it said then.
func TestGoldenJournal(t *testing.T) {
	if *update {
		writeGolden(t)
	}
	var got []json.RawMessage
	for _, of := range []journal.Chain{journal.PolicyChain(), goldenBook, goldenChain} {
		st := fold(of, messagesOf(t, of))
		if cond, why := st.Condition(); cond != journal.Whole {
			t.Errorf("%s is %s: %+v", of, cond, why)
		}
		got = append(got, json.RawMessage(dumpOf(t, st)))
	}
	text, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		writeFile(t, goldenState, text)
	}
	want, err := os.ReadFile(goldenState)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("state (-golden +got):\n%s", diff)
	}
}

// TestGoldenJournalHoldsEverything holds the stored bytes against the schemas,
// and that every type, every member and every listed value is among them.
func TestGoldenJournalHoldsEverything(t *testing.T) {
	commitSchema, _ := compileSchemas(t)
	members, values, void := map[string]bool{}, map[string]bool{}, 0
	for _, m := range goldenMessages(t) {
		if !json.Valid(m.Data) {
			void++
			continue
		}
		if err := fits(commitSchema, m.Data); err != nil {
			t.Errorf("message %d: %v", m.Seq, err)
		}
		for _, e := range rawEvents(t, m.Data) {
			event := objectOf(t, e)
			kind := strings.Trim(string(event["type"]), `"`)
			for name, value := range event {
				members[kind+"."+name] = true
				values[kind+"."+name+"="+strings.Trim(string(value), `"`)] = true
			}
		}
	}
	if void == 0 {
		t.Error("no void message")
	}
	for _, kind := range journal.Types() {
		for name, p := range readSchema(t, kind).Properties {
			if !members[string(kind)+"."+name] {
				t.Errorf("no %s.%s", kind, name)
			}
			for _, v := range p.Enum {
				if !values[string(kind)+"."+name+"="+v] {
					t.Errorf("no %s.%s %q", kind, name, v)
				}
			}
		}
	}
}

func writeFile(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func writeGolden(t *testing.T) {
	t.Helper()
	g := newGolden(t)
	g.policies()
	g.begin()
	g.asking()
	g.restarting()
	g.lapsing()
	g.breaking()
	g.finish()
	var b bytes.Buffer
	for _, m := range g.mem.Messages() {
		line, err := json.Marshal(storedMessage{m.Seq, journal.At(m.Time), m.Subject, m.Headers, string(m.Data)})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	writeFile(t, goldenJournal, b.Bytes())
}

// golden writes the golden journal: the same bytes in every run.
type golden struct {
	*chain
	policy, book *chain
}

func newGolden(t *testing.T) *golden {
	g := &golden{chainOf(t, goldenChain), chainOf(t, journal.PolicyChain()), chainOf(t, goldenBook)}
	g.policy.mem, g.book.mem = g.mem, g.mem
	g.policy.made, g.book.made = 1000, 2000
	g.mem.SetClock(func() time.Time { return g.now.Add(3 * time.Millisecond) })
	return g
}

// tick lets time pass.
func (g *golden) tick() {
	g.now = g.now.Add(1500*time.Millisecond + 7)
	g.policy.now, g.book.now = g.now, g.now
}

func (g *golden) policies() {
	g.policy.add(dec, policyBody("a"), policyBody("b"))
	g.tick()
	g.policy.add(root, &journal.Activate{Name: "default", Digest: policyA})
}

func (g *golden) begin() {
	g.add(bot, opened("main", "r1", func(b *journal.Opened) { b.Label, b.Follows = "Ünïcode 😀 \"quoted\"", "default" }))
	g.add(dec, &journal.Adopt{Digest: policyA, Name: "default", Activation: g.policy.st.Active("default").Mark.Seq})
	g.add(dec, &journal.Adopt{Digest: policyA, Agent: "sub", Layer: "inner"})
	g.tick()
	call := g.call(keyed("batch/1"), refer("toolu_1"), func(b *journal.Call) {
		b.Arguments = json.RawMessage(`{"big":9007199254740993,"n":1.0,"z":-0,"é":"\u0007"}`)
		b.Reason, b.CWD = "to see", "/srv"
	})
	g.allow(call)
	g.start(call)
	g.call(elicitation(call))
	g.result(call, journal.StatusOK, func(b *journal.Result) { b.Content, b.Size = json.RawMessage(`{"text":"done"}`), 15 })
	g.append(bot, g.info(`{"note":"kept"}`))
}

// asking is people asked, in every way.
func (g *golden) asking() {
	first, grant := g.grantedCall(func(b *journal.Answer) { b.Uses, b.Expires = 5, at(hour) })
	g.start(first)
	g.result(first, journal.StatusError)
	second := g.byGrant(grant, func(b *journal.Call) { b.Parent = first })
	g.tick()
	g.add(ann, &journal.Revoke{Grant: grant, Reason: "too wide"})
	g.add(dec, &journal.Lapse{Decision: g.st.Call(second).Last().Decision, Reason: journal.LapseRevoked})
	q := g.ask(second, throughWeb, due(hour), func(q *journal.Question) {
		q.Reason, q.Note = journal.AskRule, "mind the disk"
		q.Who = []journal.Entitlement{{Of: []string{"ann"}}, {Of: []string{}, From: at(hour / 2)}}
		q.Alternatives = [][]json.RawMessage{{json.RawMessage(`{"tool":"t*"}`)}}
	})
	g.tick()
	g.add(web, g.answerBody(q, ann, journal.DenyOnce, func(b *journal.Answer) {
		b.Via, b.Note, b.Proof = "web", "not now", json.RawMessage(`{"sig":"x"}`)
	}))
	g.add(dec, g.decisionBody(second, journal.Deny, byID(journal.ByAnswer, g.st.Question(q).Answers[0].Mark.ID)))
	g.ruled(func(b *journal.Answer) { b.Rule = json.RawMessage(`{"decision":"deny","tool":"t"}`) })
	g.ruled(func(b *journal.Answer) { b.Rules = json.RawMessage(`[{"tool":"t"}]`) })
	outer := g.startedCall(inLayer("outer"))
	asked := g.call(elicitation(outer))
	answer := g.answer(g.ask(asked), ben, journal.Accept, func(b *journal.Answer) { b.Content = json.RawMessage(`{"name":"x"}`) })
	g.add(dec, g.decisionBody(asked, journal.Allow, byID(journal.ByAnswer, answer)))
	g.result(outer, journal.StatusNotRun)
	g.start(outer)
	g.result(outer, journal.StatusOK)
}

// ruled is a call allowed for ever by rules of the answer's own.
func (g *golden) ruled(answer func(*journal.Answer)) {
	q := g.ask(g.call(), func(q *journal.Question) { q.Reason = journal.AskUnevaluable })
	id := g.answer(q, ann, journal.AlwaysAllow, answer)
	g.append(dec, g.settle(q, id, g.id())...)
}

// restarting is runs that end, and what they leave behind.
func (g *golden) restarting() {
	call := g.call(masked, func(b *journal.Call) { b.Facts = json.RawMessage(`{"paths":[]}`) })
	g.allow(call)
	g.start(call)
	g.tick()
	g.add(bot, opened("main", "r2", takeover))
	g.attach(call, "r2")
	q := g.ask(call, ungrantable, func(q *journal.Question) { q.Reason = journal.AskInterrupted })
	g.result(call, journal.StatusUnknown)
	g.answer(q, ann, journal.DenyOnce)
	g.add(dec, g.decisionBody(call, journal.Deny, byID(journal.ByAnswer, g.st.Question(q).Answers[0].Mark.ID)))
	g.add(bot, &journal.Detach{Call: call, Run: "r2", Reason: "gone"})
	g.attach(call, "r2", retry)
	g.add(bot, &journal.Detach{Call: g.add(bot, g.callBody("r2", keyed("batch/2"))), Run: "r2", Reason: "other arguments", Withdraw: true})
	g.add(bot, g.callBody("r2", keyed("batch/2")))
	g.add(bot2, opened("sub", "r3", shared, func(b *journal.Opened) { b.Parent, b.Headless = "main", true }))
	denied := g.add(bot2, g.callBody("r3", inLayer("inner")))
	g.add(dec, g.decisionBody(denied, journal.Deny, journal.Cause{Kind: journal.ByHeadless}))
	g.add(bot2, &journal.Closed{Agent: "sub", Run: "r3"})
}

// lapsing is things that end by themselves.
func (g *golden) lapsing() {
	g.book.add(dec, opened("main", "r1", func(b *journal.Opened) { b.Kind = journal.KindBook }))
	standing := g.book.add(dec, imported())
	lent := imported()
	lent.Origin = &journal.Origin{Session: "book", Grant: standing}
	borrowed := g.add(dec, lent)
	g.book.add(ann, &journal.Revoke{Grant: standing, Reason: "no more"})
	g.add(dec, &journal.Lapse{Grant: borrowed, Reason: journal.LapseBook})
	once := g.add(dec, imported(func(g *journal.Grant) { g.Uses, g.Layer = 1, "outer" }))
	var calls []string
	for range 2 {
		calls = append(calls, g.add(bot, g.callBody("r2", inLayer("outer"))))
		g.add(dec, g.decisionBody(calls[len(calls)-1], journal.Allow, byID(journal.ByGrant, once)))
	}
	g.start(calls[0])
	g.add(dec, &journal.Lapse{Decision: g.st.Call(calls[1]).Last().Decision, Reason: journal.LapseOvertaken})
	expiring := g.decisionBody(calls[1], journal.Allow, byRule())
	expiring.Expires, expiring.Message = journal.At(g.now.Add(time.Second)), "for a second"
	g.add(dec, expiring)
	g.tick()
	g.add(dec, &journal.Lapse{Decision: g.st.Call(calls[1]).Last().Decision, Reason: journal.LapseExpired})
	q := g.ask(calls[1], due(g.now.Add(time.Second).Sub(epoch)))
	g.tick()
	lapse := journal.NewEvent(g.id(), &journal.Lapse{Question: q, Reason: journal.LapseDeadline})
	g.append(dec, append([]journal.Event{lapse}, g.events(g.decisionBody(calls[1], journal.Deny, byID(journal.ByLapse, lapse.ID)))...)...)
	asked := g.ask(g.add(bot, g.callBody("r2")))
	g.add(dec, &journal.Adopt{Digest: policyB})
	g.add(dec, &journal.Lapse{Question: asked, Reason: journal.LapsePolicy})
}

// breaking is a message without effect, a lost one, and the repair.
func (g *golden) breaking() {
	m := g.messageOf(bot, []byte("not JSON"))
	if v, why := g.inject(m); v != journal.VoidMsg {
		g.t.Fatalf("%s: %s", v, why)
	}
	g.repair(g.lose())
}

func (g *golden) finish() {
	call := g.add(bot, g.callBody("r2"))
	g.allow(call)
	g.start(call)
	g.tick()
	g.add(dec, &journal.Ended{Reason: "finished"})
	g.result(call, journal.StatusOK)
}
