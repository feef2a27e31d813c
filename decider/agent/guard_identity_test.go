package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"decisionjournal/approver"
	"decisionjournal/decider/agent"
	"decisionjournal/journal"
)

func TestKeyedCallIsRunOnce(t *testing.T) {
	w := newWorld(t)
	r := keyed("b/1", "free", `{"a":1}`)
	g := w.open()
	first := g.run(r)
	w.want(first, agent.Executed, "effect 1")
	w.want(g.run(r), agent.Recorded, "effect 1")
	again := g.restart().run(keyed("b/1", "free", `{ "a" : 1 }`))
	w.want(again, agent.Recorded, "effect 1")
	if again.Call != first.Call || string(again.Result.Content) != string(first.Result.Content) {
		t.Errorf("another call or result: %+v, %+v", first, again)
	}
	w.ran(r, 1)
	if n := len(events[*journal.Call](w)); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestKeyNamesWithinAgentAndLayer(t *testing.T) {
	w := newWorld(t)
	r := keyed("b/1", "free", `{}`)
	layer := func(cfg *agent.Config) { cfg.Agent, cfg.Layer = "other", "inner" }
	for _, change := range []func(*agent.Config){as("main"), as("other"), layer} {
		g := w.open(change)
		w.want(g.run(r), agent.Executed, "ran")
		g.close()
	}
	w.ran(r, 3)
}

// TestAnotherCallUnderAKey: one that was not started gives way, whatever it
// waits for; one that was started stays.
func TestAnotherCallUnderAKey(t *testing.T) {
	for _, test := range []struct {
		name, tool, answer string
		restart, stays     bool
	}{
		{"asked", "write", "", true, false},
		{"asked, in the same run", "write", "", false, false},
		{"denied", "never", "", true, false},
		{"denied, in the same run", "never", "", false, false},
		{"finished", "free", "", true, true},
		{"finished, in the same run", "free", "", false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			g := w.open()
			old := g.submit(keyed("b/1", test.tool, `{"v":1}`))
			var question string
			if test.tool == "write" {
				question = g.question(old)
			} else {
				w.wait(old)
			}
			if test.restart {
				g = g.restart()
			}
			o := g.run(keyed("b/1", "free", `{"v":2}`))
			if test.stays {
				w.want(o, agent.Failed, `"b/1"`)
				if o.Err != nil {
					t.Errorf("blamed on the journal: %v", o.Err)
				}
				w.ran(call("free", `{"v":2}`), 0)
				return
			}
			w.want(o, agent.Executed, "ran")
			c := w.state().Calls()[0]
			if !c.Withdrawn {
				t.Error("the old call stays")
			}
			if !test.restart && test.tool == "write" {
				w.want(w.wait(old), agent.Failed, "withdrawn")
			}
			if question != "" {
				_, err := approver.Answer(context.Background(), w.writer(w.log(journal.RoleApprover), journal.RoleApprover, "ann"),
					approver.Ref{Session: session, Question: question}, approver.Request{Action: journal.AllowOnce})
				if err == nil {
					t.Error("its question takes an answer")
				}
			}
		})
	}
}

func TestConflictWithAnInterruptedCall(t *testing.T) {
	w := newWorld(t)
	s := newStopper()
	w.witness.stopBefore(s)
	g := w.open()
	g.submit(keyed("b/1", "free", `{"v":1}`))
	<-s.reached
	next := g.restart()
	w.want(next.run(keyed("b/1", "free", `{"v":2}`)), agent.Failed, `"b/1"`)
	close(s.goOn)
}

func TestKeyTwiceInOneBatch(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	tickets := g.Submit(context.Background(), []agent.Request{
		keyed("b/0", "free", `{"n":0}`), keyed("b/1", "free", `{"n":1}`), keyed("b/1", "free", `{"n":1}`), keyed("b/1", "free", `{"n":2}`)})
	w.want(w.wait(tickets[0]), agent.Executed, "ran")
	first, second := w.wait(tickets[1]), w.wait(tickets[2])
	if first.Call != second.Call || first.Kind != agent.Executed || second.Kind != agent.Recorded {
		t.Errorf("not one call: %+v, %+v", first, second)
	}
	w.want(w.wait(tickets[3]), agent.Failed, `"b/1"`)
	w.ran(call("free", `{"n":1}`), 1)
	w.ran(call("free", `{"n":2}`), 0)
}

func TestKeyedDenialStands(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*agent.Config)
		part   string
	}{
		{"by rule", under(nil), "it breaks things"},
		{"headless", headless, "nobody to ask"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			r := keyed("b/1", "never", `{}`)
			if test.name == "headless" {
				r.Tool = "write"
			}
			g := w.open(test.change, under(w.policy))
			w.want(g.run(r), agent.Denied, test.part)
			lenient := parse(t, `rules: [{tool: "*", decision: allow}]`)
			g = g.restart(under(lenient))
			w.want(g.run(r), agent.Denied, test.part)
			w.want(g.run(r), agent.Denied, test.part)
			w.ran(r, 0)
			w.want(g.run(retried(r)), agent.Executed, "ran")
			w.want(g.run(retried(r)), agent.Recorded, "ran")
			w.ran(r, 1)
		})
	}
}

func TestRetryInTheRunThatWasDenied(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	r := keyed("b/1", "write", `{"path":"a"}`)
	ticket := g.submit(r)
	w.answerWith(g.question(ticket), approver.Request{Action: journal.DenyOnce, Note: "not today"})
	w.want(w.wait(ticket), agent.Denied, "not today")
	w.want(g.run(r), agent.Denied, "not today")
	ticket = g.submit(retried(r))
	w.answer(g.question(ticket), journal.AllowOnce)
	w.want(w.wait(ticket), agent.Executed, "ran")
	w.ran(r, 1)
}

const advisory = rules + `
advisory-params:
  free: [why]
  write: [why]
`

// TestDigestUnderThePolicyItWasWrittenUnder: what a newer policy calls
// advisory does not make a keyed call another one, nor the other way round.
func TestDigestUnderThePolicyItWasWrittenUnder(t *testing.T) {
	w := newWorld(t)
	with := parse(t, advisory)
	g := w.open(under(with))
	w.want(g.run(keyed("b/1", "free", `{"a":1,"why":"x"}`)), agent.Executed, "ran")
	g = g.restart() // under rules, which name no advisory parameter
	w.want(g.run(keyed("b/1", "free", `{"a":1,"why":"y"}`)), agent.Recorded, "effect 1")
	w.want(g.run(keyed("b/2", "free", `{"a":2,"why":"x"}`)), agent.Executed, "effect 2")
	g = g.restart(under(with))
	w.want(g.run(keyed("b/2", "free", `{"a":2,"why":"y"}`)), agent.Failed, `"b/2"`)
	w.want(g.run(keyed("b/2", "free", `{"a":2,"why":"x"}`)), agent.Recorded, "effect 2")
	if w.witness.total != 2 {
		t.Errorf("%d effects", w.witness.total)
	}
}

// TestAdvisoryCallIsReleased: a call asked under one policy, allowed and
// started under another that digests differently.
func TestAdvisoryCallIsReleased(t *testing.T) {
	w := newWorld(t)
	g := w.open(under(parse(t, advisory)))
	r := keyed("b/1", "write", `{"path":"a","why":"x"}`)
	question := g.question(g.submit(r))
	g = g.restart()
	ticket := g.submit(r)
	if again := g.question(ticket); again != question {
		t.Errorf("asked again: %s, %s", question, again)
	}
	w.answer(question, journal.AllowOnce)
	w.want(w.wait(ticket), agent.Executed, "ran")
}

func TestQuestionKeepsItsIDOverRestarts(t *testing.T) {
	w := newWorld(t)
	r := keyed("b/1", "write", `{"path":"a"}`)
	g := w.open()
	question := g.question(g.submit(r))
	for i := range 3 {
		if i == 1 {
			g.close()
			g = w.open()
		} else {
			g = g.restart()
		}
		if again := g.question(g.submit(r)); again != question {
			t.Fatalf("asked again: %s, %s", question, again)
		}
	}
	g.kill()
	w.answer(question, journal.AllowOnce) // while nobody else is there
	w.want(g.restart().run(r), agent.Executed, "ran")
	w.ran(r, 1)
	if n := len(events[*journal.Question](w)); n != 1 {
		t.Errorf("%d questions", n)
	}
}

// TestOneBadCall: what is wrong with one call is said in its result, and the
// calls around it go on.
func TestOneBadCall(t *testing.T) {
	long := strings.Repeat("x", 20<<10)
	for _, test := range []struct {
		name string
		bad  agent.Request
		part string
	}{
		{"arguments that are no JSON", call("free", `{"a":`), "cannot be read"},
		{"no arguments", call("free", ``), "cannot be read"},
		{"a key twice", call("free", `{"a":1,"a":2}`), "cannot be read"},
		{"invalid UTF-8", call("free", "{\"a\":\"\xff\"}"), "cannot be read"},
		{"arguments that are no object", call("free", `[1]`), "not a JSON object"},
		{"null", call("free", `null`), "not a JSON object"},
		{"no tool", call("", `{}`), "names no tool"},
		{"a long tool name", call(long, `{}`), "at most 1024"},
		{"a long key", keyed(long, "free", `{}`), "at most 1024"},
		{"a long reason", agent.Request{Call: call("free", `{}`).Call, Reason: long}, "at most 16384"},
		{"a long directory", agent.Request{Call: call("free", `{}`).Call, CWD: long}, "at most 16384"},
		{"a long ref", agent.Request{Call: call("free", `{}`).Call, Ref: long}, "at most 1024"},
		{"a tool that is not UTF-8", call("a\xff", `{}`), "UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			g := w.open()
			tickets := g.Submit(context.Background(), []agent.Request{keyed("1", "free", `{"n":1}`), test.bad, keyed("2", "never", `{}`), keyed("3", "free", `{"n":3}`)})
			w.want(w.wait(tickets[0]), agent.Executed, "ran")
			bad := w.wait(tickets[1])
			w.want(bad, agent.Failed, test.part)
			if bad.Err != nil {
				t.Errorf("blamed on the journal: %v", bad.Err)
			}
			w.want(w.wait(tickets[2]), agent.Denied, "it breaks things")
			w.want(w.wait(tickets[3]), agent.Executed, "ran")
			if w.witness.total != 2 {
				t.Errorf("%d effects", w.witness.total)
			}
		})
	}
}

func TestArgumentsOverTheLimit(t *testing.T) {
	w := newWorld(t)
	w.mem.SetMaxPayload(512 << 10)
	limit := (w.mem.MaxPayload() - 64<<10) / 2
	sized := func(n int) agent.Request {
		return call("free", `{"a":"`+strings.Repeat("x", n-len(`{"a":""}`))+`"}`)
	}
	g := w.open()
	tickets := g.Submit(context.Background(), []agent.Request{sized(limit), sized(limit + 1), call("free", `{}`)})
	w.want(w.wait(tickets[0]), agent.Executed, "ran")
	w.want(w.wait(tickets[1]), agent.Failed, fmt.Sprintf("at most %d", limit))
	w.want(w.wait(tickets[2]), agent.Executed, "ran")
}

// TestRefTwice: a host's own id names one call.
func TestRefTwice(t *testing.T) {
	w := newWorld(t)
	g := w.open()
	with := func(ref, args string) agent.Request {
		r := call("free", args)
		r.Ref = ref
		return r
	}
	w.want(g.run(with("toolu_1", `{"n":1}`)), agent.Executed, "ran")
	w.want(g.run(with("toolu_2", `{"n":1}`)), agent.Executed, "ran")
	o := g.run(with("toolu_1", `{"n":2}`))
	w.want(o, agent.Failed, "toolu_1")
	w.ran(call("free", `{"n":2}`), 0)
}
