package decider_test

import (
	"strings"
	"testing"
	"time"

	"decisionjournal/journal"
)

func TestHeadless(t *testing.T) {
	b := newBench(t, scratchPolicy, headless)
	b.want(b.call("r1", "fs_read", `{"path":"a"}`), "allowed rule")
	none := b.call("r1", "x", `{}`)
	b.want(none, "denied headless")
	if msg := b.decision(none).Message; !strings.Contains(msg, "no rule allows it") {
		t.Fatal(msg)
	}
	mail := b.call("r1", "mail", `{}`)
	b.want(mail, "denied headless")
	if msg := b.decision(mail).Message; !strings.Contains(msg, `"tool":"mail"`) {
		t.Fatal(msg)
	}
	if n := len(b.session().Questions()); n != 0 {
		t.Fatalf("%d questions", n)
	}
}

// A question asked for one run stays when a headless one waits for it.
func TestHeadlessKeepsAnOpenQuestion(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	b.want(c, "asked")
	asked := b.question(c).Mark.ID
	b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r2", Kind: journal.KindSession, Takeover: true, Headless: true})
	b.attach("r2", c, false)
	b.want(c, "asked")
	if got := b.question(c).Mark.ID; got != asked {
		t.Fatal("another question")
	}
	b.answer("alice", c, journal.AllowOnce)
	b.want(c, "allowed answer")
}

// Whoever waited last says whether somebody may be asked.
func TestHeadlessIsTheLastWaiters(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r2", Kind: journal.KindSession, Takeover: true, Headless: true})
	b.attach("r2", c, false)
	b.must(journal.RoleAgent, "agent", &journal.Closed{Agent: "main", Run: "r2"})
	b.want(c, "denied headless")
}

// Nobody waits any more: the question waits for the agent all the same.
func TestAskedForAnAgentThatIsGone(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	b.must(journal.RoleAgent, "agent", &journal.Closed{Agent: "main", Run: "r1"})
	b.want(c, "asked")
	b.answer("alice", c, journal.AllowOnce)
	b.want(c, "allowed answer")
}

func TestWithdrawnCallIsLeftAlone(t *testing.T) {
	b := newBench(t, scratchPolicy)
	c := b.call("r1", "x", `{}`)
	b.must(journal.RoleAgent, "agent", &journal.Detach{Call: c, Run: "r1", Reason: "no more", Withdraw: true})
	b.want(c, "void")
}

const elicitPolicy = `
rules: [{tool: ask_user, decision: deny}, {tool: srv, decision: allow}]
approval: [{tool: two_users, need: [{count: 2}]}, {tool: noted, note: true}]
settings: {deadline: 1h}
`

func elicit(c *journal.Call) { c.Kind = journal.CallElicitation }

func TestElicitations(t *testing.T) {
	for _, tc := range []struct {
		name   string
		tool   string
		votes  []said
		late   time.Duration
		want   string
		answer func(*journal.Answer)
	}{
		{"asked, whatever the rules say", "ask_user", nil, 0, "asked", nil},
		{"accepted", "ask_user", []said{{"ann", journal.Accept}}, 0, "finished answer", nil},
		{"declined", "ask_user", []said{{"ann", journal.Decline}}, 0, "denied answer", nil},
		{"cancelled", "ask_user", []said{{"ann", journal.Cancel}}, 0, "denied answer", nil},
		{"a tool call's action", "ask_user", []said{{"ann", journal.AllowOnce}}, 0, "denied unusable", nil},
		{"unknown action", "ask_user", []said{{"ann", "perhaps"}}, 0, "denied unusable", nil},
		{"accepted with rules", "ask_user", []said{{"ann", journal.Accept}}, 0, "denied unusable", rules(`[]`)},
		{"late", "ask_user", nil, time.Hour, "denied lapse", nil},
		{"one of two", "two_users", []said{{"ann", journal.Accept}}, 0, "asked", nil},
		{"two of two", "two_users", []said{{"ann", journal.Accept}, {"bob", journal.Accept}}, 0, "finished answer,answer", nil},
		{"one of two declines", "two_users", []said{{"ann", journal.Accept}, {"bob", journal.Decline}}, 0, "denied answer", nil},
		{"without its note", "noted", []said{{"ann", journal.Accept}}, 0, "denied unusable", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, elicitPolicy)
			c := b.call("r1", tc.tool, `{"schema":{}}`, elicit)
			b.want(c, "asked")
			if q := b.question(c); q.Reason != journal.AskElicitation || q.Grantable {
				t.Fatalf("reason %s, grantable %v", q.Reason, q.Grantable)
			}
			for _, v := range tc.votes {
				edit := tc.answer
				if edit == nil {
					edit = func(*journal.Answer) {}
				}
				b.answer(v.who, c, v.action, edit)
			}
			b.now = b.now.Add(tc.late)
			b.want(c, tc.want)
			if b.releasable(c) == nil {
				t.Fatal("an elicitation was released")
			}
		})
	}
}

func TestElicitationHeadless(t *testing.T) {
	b := newBench(t, elicitPolicy, headless)
	c := b.call("r1", "srv", `{}`, elicit)
	b.want(c, "denied headless")
	if msg := b.decision(c).Message; !strings.Contains(msg, "input") {
		t.Fatal(msg)
	}
}

// Grants do not answer a server's question.
func TestElicitationSkipsGrants(t *testing.T) {
	b := newBench(t, "rules: []")
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysAllow)
	b.want(c, "allowed answer,grant")
	b.want(b.call("r1", "x", `{"n":1}`, elicit), "asked")
}

func TestElicitationDigest(t *testing.T) {
	b := newBench(t, elicitPolicy)
	c := b.call("r1", "srv", `{}`, elicit, func(c *journal.Call) { c.Digest = journal.Digest(nil) })
	b.want(c, "denied error")
}

func TestDeadline(t *testing.T) {
	const timed = "rules: []\nsettings: {deadline: 1h}\napproval: [{tool: two, need: [{count: 2}]}, {tool: slow, deadline: 2h}, {tool: ever, deadline: \"0\"}]"
	t.Run("denies", func(t *testing.T) {
		b := newBench(t, timed)
		c := b.call("r1", "x", `{}`)
		b.settle()
		b.now = b.now.Add(time.Hour - 1)
		b.want(c, "asked")
		b.now = b.now.Add(1)
		if err := b.tryAnswer("alice", c, journal.AllowOnce); err == nil {
			t.Fatal("answered after the deadline")
		}
		b.want(c, "denied lapse")
		b.wantLapses(journal.LapseDeadline)
	})
	t.Run("votes that fill the need count first", func(t *testing.T) {
		b := newBench(t, timed)
		c := b.call("r1", "x", `{}`)
		b.settle()
		b.answer("alice", c, journal.AllowOnce)
		b.now = b.now.Add(2 * time.Hour)
		b.want(c, "allowed answer")
	})
	t.Run("votes that do not fill it are lost", func(t *testing.T) {
		b := newBench(t, timed)
		c := b.call("r1", "two", `{}`)
		b.settle()
		b.answer("alice", c, journal.AllowOnce)
		b.now = b.now.Add(time.Hour)
		b.want(c, "denied lapse")
	})
	t.Run("of the approval, or none", func(t *testing.T) {
		b := newBench(t, timed)
		slow, ever := b.call("r1", "slow", `{}`), b.call("r1", "ever", `{}`)
		b.settle()
		b.now = b.now.Add(90 * time.Minute)
		b.want(slow, "asked")
		b.now = b.now.Add(1000 * time.Hour)
		b.want(slow, "denied lapse")
		b.want(ever, "asked")
	})
}

func TestDecisionTTL(t *testing.T) {
	b := newBench(t, "rules: [{tool: ok, decision: allow}]\nsettings: {decision-ttl: 1h}")
	c, ok := b.call("r1", "x", `{}`), b.call("r1", "ok", `{}`)
	b.settle()
	b.answer("alice", c, journal.AllowOnce)
	b.want(c, "allowed answer")
	b.now = b.now.Add(time.Hour)
	if err := b.releasable(c); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Fatalf("expired: %v", err)
	}
	b.want(c, "asked") // anew
	b.want(ok, "allowed rule")
	b.wantLapses(journal.LapseExpired, journal.LapseExpired)
}

// interrupt leaves a call's first attempt of unknown outcome, and a new run waiting.
func interrupt(b *bench, tool string) string {
	b.t.Helper()
	c := b.call("r1", tool, `{"path":"scratch/a"}`)
	b.want(c, "allowed rule")
	b.start("r1", c)
	b.takeover("r2")
	b.attach("r2", c, false)
	return c
}

const interruptible = "rules: [{tool: '*', decision: allow}]\nsettings: {idempotent: [fs_read], interrupted: %}"

func interruptPolicy(how string) string { return strings.Replace(interruptible, "%", how, 1) }

func TestInterrupted(t *testing.T) {
	for _, tc := range []struct{ how, tool, want string }{
		{"ask", "fs_write", "asked"},
		{"ask", "fs_read", "allowed rule"},
		{"retry", "fs_write", "allowed rule"},
		{"fail", "fs_write", "denied interrupted"},
		{"fail", "fs_read", "denied interrupted"},
	} {
		t.Run(tc.how+" "+tc.tool, func(t *testing.T) {
			b := newBench(t, interruptPolicy(tc.how))
			b.want(interrupt(b, tc.tool), tc.want)
		})
	}
}

func TestInterruptedQuestion(t *testing.T) {
	b := newBench(t, interruptPolicy("ask"))
	c := interrupt(b, "fs_write")
	b.want(c, "asked")
	q := b.question(c)
	v, err := q.ReadView()
	if err != nil || q.Reason != journal.AskInterrupted || q.Grantable || len(q.Suggestion) > 0 || !strings.Contains(v.Before, "may still act") || v.Attempt != 2 {
		t.Fatalf("%v %+v %+v", err, q.Question, v)
	}
	if b.tryAnswer("alice", c, journal.AlwaysAllow) == nil {
		t.Fatal("an always-answer to an interrupted call")
	}
	b.answer("alice", c, journal.AllowOnce)
	b.want(c, "allowed answer")
	if err := b.releasable(c); err != nil {
		t.Fatal(err)
	}
}

// No grant answers for an interrupted call, but a deny grant still denies.
func TestInterruptedAndGrants(t *testing.T) {
	b := newBench(t, "rules: []")
	c := b.call("r1", "x", `{}`)
	b.settle()
	b.answer("alice", c, journal.AlwaysAllow)
	b.want(c, "allowed answer,grant")
	b.start("r1", c)
	b.takeover("r2")
	b.attach("r2", c, false)
	b.want(c, "asked")
	d := b.call("r2", "x", `{"n":1}`)
	b.want(d, "allowed grant")
	e := b.call("r2", "y", `{}`)
	b.settle()
	b.answer("alice", e, journal.AlwaysDeny, rule(`{"tool":"x"}`))
	b.want(e, "denied answer,grant")
	b.want(c, "denied grant")
}

func TestInterruptedHeadless(t *testing.T) {
	b := newBench(t, interruptPolicy("ask"))
	c := b.call("r1", "x", `{}`)
	b.want(c, "allowed rule")
	b.start("r1", c)
	b.must(journal.RoleAgent, "agent", &journal.Opened{Agent: "main", Run: "r2", Kind: journal.KindSession, Takeover: true, Headless: true})
	b.attach("r2", c, false)
	b.want(c, "denied headless")
	if msg := b.decision(c).Message; !strings.Contains(msg, "may have taken effect") {
		t.Fatal(msg)
	}
}

// The next attempts are after the unknown outcome too: after a lapse by policy,
// and after a denial that is tried again.
func TestInterruptedStaysWhenJudgedAgain(t *testing.T) {
	b := newBench(t, interruptPolicy("ask"))
	c := interrupt(b, "fs_write")
	b.want(c, "asked")
	first := b.question(c).Mark.ID
	b.adopt(interruptPolicy("ask") + "\napproval: [{need: [{count: 2}]}]")
	b.want(c, "asked")
	q := b.question(c)
	if q.Mark.ID == first || q.Reason != journal.AskInterrupted || q.Attempt != 3 {
		t.Fatalf("%+v", q.Question)
	}
	b.wantLapses(journal.LapsePolicy)
	b.answer("alice", c, journal.DenyOnce)
	b.want(c, "denied answer")
	b.takeover("r3")
	b.attach("r3", c, true)
	b.want(c, "asked")
	if got := b.question(c).Reason; got != journal.AskInterrupted {
		t.Fatal(got)
	}
	b.adopt(interruptPolicy("fail"))
	b.want(c, "denied interrupted")
}

// A policy that lets nobody run it again beats an answer given before it, and
// an allow not yet started.
func TestInterruptedFailBeatsAnswers(t *testing.T) {
	b := newBench(t, interruptPolicy("ask"))
	c := interrupt(b, "fs_write")
	b.settle()
	b.answer("alice", c, journal.AllowOnce)
	b.adopt(interruptPolicy("fail"))
	b.want(c, "denied interrupted")

	b = newBench(t, interruptPolicy("ask"))
	c = interrupt(b, "fs_write")
	b.settle()
	b.answer("alice", c, journal.AllowOnce)
	b.want(c, "allowed answer")
	b.adopt(interruptPolicy("fail"))
	if b.releasable(c) == nil {
		t.Fatal("released against the newer policy")
	}
	b.want(c, "denied interrupted")
}

func TestInterruptedButDenied(t *testing.T) {
	b := newBench(t, interruptPolicy("retry"))
	c := interrupt(b, "fs_write")
	b.adopt("rules: [{tool: fs_write, decision: deny}]")
	b.want(c, "denied rule")
}

// A call whose late result made it finished is not judged again.
func TestLateResultEndsTheQuestion(t *testing.T) {
	b := newBench(t, interruptPolicy("ask"))
	c := interrupt(b, "fs_write")
	b.want(c, "asked")
	b.result("r1", c, journal.StatusOK)
	b.want(c, "void")
	if b.session().Call(c).Result() == nil {
		t.Fatal("not finished")
	}
}

// Nor is one denied in between and tried again.
func TestRetryOfAFinishedCallAsksNobody(t *testing.T) {
	b := newBench(t, interruptPolicy("ask"))
	c := interrupt(b, "fs_write")
	b.settle()
	b.answer("alice", c, journal.DenyOnce)
	b.want(c, "denied answer")
	b.result("r1", c, journal.StatusOK)
	b.takeover("r3")
	b.attach("r3", c, true)
	b.settle()
	if n := len(b.session().Questions()); n != 1 {
		t.Fatalf("%d questions", n)
	}
}
