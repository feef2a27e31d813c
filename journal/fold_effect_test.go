package journal_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"decisionjournal/journal"
)

// wantAttempts holds the progress of a call's attempts.
func (c *chain) wantAttempts(call string, want ...string) {
	c.t.Helper()
	var got []string
	for _, a := range c.st.Call(call).Attempts {
		got = append(got, a.Progress.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

// wantCall holds what else a call's state says.
func (c *chain) wantCall(call, waiter string, due, received bool) {
	c.t.Helper()
	s := c.st.Call(call)
	if s.Waiter != waiter || s.Due != due || s.Received != received {
		c.t.Errorf("waiter %q, due %t, received %t; want %q, %t, %t", s.Waiter, s.Due, s.Received, waiter, due, received)
	}
}

func (c *chain) wantOver(question string, want bool) {
	c.t.Helper()
	if got := c.st.Question(question).Over; got != want {
		c.t.Errorf("question over is %t", got)
	}
}

func (c *chain) wantStanding(grant, want string) {
	c.t.Helper()
	if got := c.st.Grant(grant).Standing(journal.At(c.now)); got != want {
		c.t.Errorf("the grant is %q, want %q", got, want)
	}
}

func (c *chain) wantUsed(grant string, want int) {
	c.t.Helper()
	if got := c.st.Grant(grant).Used; got != want {
		c.t.Errorf("the grant was used %d times, want %d", got, want)
	}
}

// An effect is a sentence of the table's last column, tried.
type effect struct {
	name string
	run  func(c *chain)
}

func tryEffects(t *testing.T, effects []effect) {
	t.Helper()
	for _, e := range effects {
		t.Run(e.name, func(t *testing.T) { e.run(newSession(t)) })
	}
}

func TestRunEffects(t *testing.T) {
	tryEffects(t, []effect{
		{"opened: the run lives", func(c *chain) {
			r := c.st.Run("r1")
			if !r.Live || r.Ended != "" || r.Mark.By != bot || len(c.st.LiveRuns("main")) != 1 {
				c.t.Errorf("%+v", r)
			}
		}},
		{"takeover ends every older run of the agent, and no other's", func(c *chain) {
			c.close()
			c.reopen(shared)
			c.add(bot, opened("main", "r3", shared))
			c.add(bot, opened("other", "r4"))
			c.add(dec, opened("main", "r5", takeover))
			for run, ended := range map[string]string{"r1": "closed", "r2": "takeover", "r3": "takeover", "r4": "", "r5": ""} {
				if r := c.st.Run(run); r.Ended != ended || r.Live != (ended == "") {
					c.t.Errorf("%s: live %t, ended %q", run, r.Live, r.Ended)
				}
			}
		}},
		{"closed: its calls lose their waiter", func(c *chain) {
			call := c.call()
			c.close()
			c.wantCall(call, "", false, false)
			c.wantAttempts(call, "open")
		}},
		{"closed: an unspent allow stays", func(c *chain) {
			call := c.allowedCall()
			c.close()
			c.wantAttempts(call, "allowed")
		}},
		{"closed: an open question stays", func(c *chain) {
			q := c.ask(c.call())
			c.close()
			c.wantOver(q, false)
		}},
		{"closed: what was started is of unknown outcome", func(c *chain) {
			call := c.startedCall()
			c.close()
			c.wantAttempts(call, "unknown")
			c.wantCall(call, "", true, false)
		}},
		{"closed: also if nobody waits for it any more", func(c *chain) {
			call := c.startedCall()
			c.detach(call)
			c.close()
			c.wantAttempts(call, "unknown")
		}},
		{"closed: elicitations for its calls end", func(c *chain) {
			asked := c.call(elicitation(c.startedCall()))
			q := c.ask(asked)
			c.close()
			c.wantOver(q, true)
			c.wantAttempts(asked, "void")
			if !c.st.Call(asked).Withdrawn {
				c.t.Error("not withdrawn")
			}
		}},
		{"closed: elicitations of another agent for its calls end", func(c *chain) {
			started := c.startedCall()
			c.add(bot, opened("other", "r2"))
			asked := c.add(bot, c.callBody("r2", elicitation(started)))
			c.close()
			c.wantAttempts(asked, "void")
		}},
		{"takeover: a denial its waiter may not have read is not received", func(c *chain) {
			call := c.call()
			c.deny(call)
			c.wantCall(call, "r1", false, true)
			c.reopen(takeover)
			c.wantCall(call, "", false, false)
		}},
		{"closed: a denial stays received", func(c *chain) {
			call := c.call()
			c.deny(call)
			c.close()
			c.wantCall(call, "", false, true)
		}},
	})
}

func TestFollowsEffects(t *testing.T) {
	c := newChain(t)
	follow := func(name string) func(*journal.Opened) { return func(b *journal.Opened) { b.Follows = name } }
	c.add(dec, opened("main", "r1", follow("p"), func(b *journal.Opened) { b.Label = "title" }))
	c.add(dec, opened("other", "r2", follow("q"), func(b *journal.Opened) { b.Label = "ignored" }))
	c.add(bot, opened("third", "r3"))
	session, agents := c.st.Follows()
	if session != "p" || !cmp.Equal(agents, map[string]string{"other": "q"}) {
		t.Errorf("follows %q, %v", session, agents)
	}
	if c.st.Label() != "title" || c.st.Kind() != journal.KindSession || c.st.First().Seq != 1 {
		t.Errorf("label %q, kind %q, first %+v", c.st.Label(), c.st.Kind(), c.st.First())
	}
	c.add(dec, opened("main", "r4", takeover, follow("z")))
	session, agents = c.st.Follows()
	if session != "p" || agents["main"] != "z" {
		t.Errorf("a later run's: %q, %v", session, agents)
	}
}

func TestEndedEffects(t *testing.T) {
	c := newSession(t)
	_, grant := c.grantedCall()
	allowed, started, asked := c.allowedCall(), c.startedCall(), c.call()
	q := c.ask(asked)
	elicited := c.call(elicitation(started))
	c.end()
	if c.st.Ended() == nil || c.st.Run("r1").Live || c.st.Run("r1").Ended != "ended" || len(c.st.OpenCalls()) != 0 {
		t.Errorf("ended %v, run %+v, open %v", c.st.Ended(), c.st.Run("r1"), c.st.OpenCalls())
	}
	c.wantAttempts(allowed, "void")
	c.wantAttempts(asked, "void")
	c.wantAttempts(elicited, "void")
	c.wantAttempts(started, "unknown")
	c.wantOver(q, true)
	c.wantStanding(grant, "ended")
	c.result(started, journal.StatusOK)
	c.wantAttempts(started, "finished")
	if !c.st.Call(started).Last().Late {
		t.Error("the result is not late")
	}
}

func TestNotRunAfterTheEndAllowsNothing(t *testing.T) {
	c := newSession(t)
	call := c.startedCall()
	c.end()
	c.result(call, journal.StatusNotRun)
	c.wantAttempts(call, "void")
	if open := c.st.OpenCalls(); len(open) != 0 {
		t.Errorf("open: %v", open)
	}
}

func TestAdoptEffects(t *testing.T) {
	digest := func(n string) string { return journal.Digest([]byte(n)) }
	c := newSession(t)
	c.add(bot, opened("other", "r2"))
	want := func(agent, layer, digest string) {
		t.Helper()
		if got := c.st.Adopted(agent, layer).Digest; got != digest {
			t.Errorf("agent %s, layer %q follows another policy", agent, layer)
		}
	}
	c.add(dec, &journal.Adopt{Digest: digest("layer"), Layer: "inner"})
	c.add(dec, &journal.Adopt{Digest: digest("agent"), Agent: "main"})
	want("main", "", digest("agent"))
	want("main", "inner", digest("agent"))
	want("other", "inner", digest("layer"))
	want("other", "", policyA)
	c.add(dec, &journal.Adopt{Digest: digest("both"), Agent: "main", Layer: "inner"})
	want("main", "inner", digest("both"))
	want("main", "outer", digest("agent"))
	before := c.call()
	c.add(dec, &journal.Adopt{Digest: digest("again"), Agent: "main"})
	want("main", "", digest("again"))
	if got := c.st.Call(before).Policy; got != digest("agent") {
		t.Error("a call's policy is not the one it was written under")
	}
	c.add(dec, &journal.Adopt{Digest: policyB, Name: "p", Activation: 7})
	if c.st.NewestAdopted("p") != 7 || c.st.NewestAdopted("q") != 0 {
		t.Errorf("newest adopted: %d, %d", c.st.NewestAdopted("p"), c.st.NewestAdopted("q"))
	}
}

func TestCallEffects(t *testing.T) {
	tryEffects(t, []effect{
		{"attempt 1 opens and the run waits", func(c *chain) {
			call := c.call(keyed("k"), refer("f"))
			c.wantAttempts(call, "open")
			c.wantCall(call, "r1", false, false)
			s := c.st.Call(call)
			if s.Last().No != 1 || s.Last().AfterUnknown || !s.Undecided() || s.Policy != policyA {
				c.t.Errorf("%+v", s)
			}
			if c.st.ByKey("main", "", "k") != s || c.st.ByRef("main", "", "f") != s || c.st.ByKey("main", "", "f") != nil {
				c.t.Error("not found by key and ref")
			}
		}},
		{"unkeyed calls are alike by identity", func(c *chain) {
			first, second := c.call(), c.call()
			c.call(keyed("k"))
			c.call(digested(policyA))
			c.call(inLayer("inner"))
			alike := c.st.Alike("main", "", "t", argsOne)
			if len(alike) != 2 || alike[0].Mark.ID != first || alike[1].Mark.ID != second {
				c.t.Errorf("alike: %v", alike)
			}
		}},
		{"withdraw frees key and ref", func(c *chain) {
			call := c.call(keyed("k"), refer("f"))
			q := c.ask(call)
			c.withdraw(call)
			c.wantOver(q, true)
			c.wantAttempts(call, "void")
			if c.st.ByKey("main", "", "k") != nil || c.st.ByRef("main", "", "f") != nil {
				c.t.Error("the names still stand")
			}
			again := c.call(keyed("k"), refer("f"))
			if c.st.ByKey("main", "", "k").Mark.ID != again || c.st.ByRef("main", "", "f").Mark.ID != again {
				c.t.Error("the names are not the new call's")
			}
		}},
		{"withdraw ends an unspent allow", func(c *chain) {
			call := c.allowedCall()
			c.withdraw(call)
			c.wantAttempts(call, "void")
			c.wantCall(call, "", false, false)
		}},
		{"detach leaves the call as it is", func(c *chain) {
			call := c.allowedCall()
			c.detach(call)
			c.wantAttempts(call, "allowed")
			c.wantCall(call, "", false, false)
			if c.st.Call(call).LastWaiter != "r1" {
				c.t.Error("the last waiter is forgotten")
			}
		}},
		{"attach makes the run wait", func(c *chain) {
			call := c.call()
			c.reopen(takeover)
			c.attach(call, "r2")
			c.wantCall(call, "r2", false, false)
			c.wantAttempts(call, "open")
		}},
		{"attach to a denied call receives the denial", func(c *chain) {
			call := c.call()
			c.detach(call)
			c.deny(call)
			c.wantCall(call, "", false, false)
			c.attach(call, "r1")
			c.wantCall(call, "r1", false, true)
			c.wantAttempts(call, "denied")
		}},
		{"attach with retry opens the next attempt of a denied call", func(c *chain) {
			call := c.call()
			c.deny(call)
			c.detach(call)
			c.attach(call, "r1", retry)
			c.wantAttempts(call, "denied", "open")
			c.wantCall(call, "r1", false, false)
			if c.st.Call(call).Last().AfterUnknown {
				c.t.Error("after unknown")
			}
		}},
		{"attach with retry opens nothing otherwise", func(c *chain) {
			call := c.allowedCall()
			c.detach(call)
			c.attach(call, "r1", retry)
			c.wantAttempts(call, "allowed")
		}},
		{"no attempt opens where an older one was done after all", func(c *chain) {
			call := c.startedCall()
			c.reopen(takeover)
			c.attach(call, "r2")
			c.allow(call)
			c.start(call)
			c.result(call, journal.StatusOK, attempt(1), func(b *journal.Result) { b.Run = "r1" })
			c.wantAttempts(call, "finished", "started") // recorded only: it runs
			if c.st.Call(call).Result() != nil {
				c.t.Error("it finished the call")
			}
			c.result(call, journal.StatusUnknown, attempt(2))
			c.wantAttempts(call, "finished", "unknown") // and no third
			c.detach(call)
			c.attach(call, "r2", retry)
			c.wantAttempts(call, "finished", "unknown")
		}},
		{"attach to a finished call", func(c *chain) {
			call := c.startedCall()
			c.close()
			c.result(call, journal.StatusOK)
			c.wantCall(call, "", false, false)
			c.reopen()
			c.attach(call, "r2")
			c.wantCall(call, "r2", false, true)
			c.wantAttempts(call, "finished")
		}},
	})
}

func TestDecidingEffects(t *testing.T) {
	tryEffects(t, []effect{
		{"question: people may answer", func(c *chain) {
			call := c.call()
			q := c.ask(call)
			c.wantOver(q, false)
			if c.st.Call(call).Last().Question != q || !c.st.Call(call).Undecided() {
				c.t.Errorf("%+v", c.st.Call(call).Last())
			}
		}},
		{"answer: a vote, which decides nothing by itself", func(c *chain) {
			call := c.call()
			q := c.ask(call)
			c.answer(q, ann, journal.AllowOnce)
			c.wantAttempts(call, "open")
			c.wantOver(q, false)
			if s := c.st.Question(q); !s.Settled() || len(s.Answers) != 1 || s.Answers[0].Mark.By != ann {
				c.t.Errorf("%+v", s)
			}
		}},
		{"decision: ends the question", func(c *chain) {
			call := c.call()
			q := c.ask(call)
			c.allow(call)
			c.wantOver(q, true)
		}},
		{"decision: an allow is unspent", func(c *chain) {
			call := c.allowedCall()
			c.wantAttempts(call, "allowed")
			if c.st.Call(call).Settled() || len(c.st.OpenCalls()) != 1 {
				c.t.Error("settled")
			}
		}},
		{"decision: a denial settles", func(c *chain) {
			call := c.call()
			c.deny(call)
			c.wantAttempts(call, "denied")
			if !c.st.Call(call).Settled() || len(c.st.OpenCalls()) != 0 {
				c.t.Error("not settled")
			}
		}},
		{"decision: an accepted elicitation is spent at once", func(c *chain) {
			call := acceptedElicitation(c)
			c.wantAttempts(call, "finished")
			c.wantCall(call, "r1", false, true)
			if !c.st.Call(call).Settled() {
				c.t.Error("not settled")
			}
		}},
		{"grant: in force until it expires", func(c *chain) {
			_, g := c.grantedCall(func(b *journal.Answer) { b.Expires = at(hour) })
			c.wantStanding(g, "in force")
			c.now = epoch.Add(hour)
			c.wantStanding(g, "expired")
			c.wantUsed(g, 0)
			if got := c.st.Grants(); len(got) != 1 || got[0].Outcome() != journal.Allow {
				c.t.Errorf("%+v", got)
			}
		}},
		{"revoke: out of force", func(c *chain) {
			call, g := c.grantedCall()
			c.add(ann, &journal.Revoke{Grant: g})
			c.wantStanding(g, "revoked")
			c.wantAttempts(call, "allowed")
		}},
		{"two grants cited, each used once", func(c *chain) {
			one, two := c.add(dec, imported()), c.add(dec, imported())
			call := c.call()
			c.add(dec, c.decisionBody(call, journal.Allow, byID(journal.ByGrant, one), byID(journal.ByGrant, two), byID(journal.ByGrant, one)))
			c.start(call)
			c.wantUsed(one, 1)
			c.wantUsed(two, 1)
		}},
	})
}

func TestEventsOfACommitSeeTheOnesBefore(t *testing.T) {
	c := newChain(t)
	call, decision := c.id(), c.id()
	c.append(dec, append(c.events(opened("main", "r1"), &journal.Adopt{Digest: policyA}),
		journal.NewEvent(call, &journal.Call{Agent: "main", Run: "r1", Kind: journal.CallTool, Tool: "t", Arguments: []byte(`{"n":1}`), Digest: argsOne}),
		journal.NewEvent(decision, &journal.Decision{Call: call, Attempt: 1, Outcome: journal.Allow, By: []journal.Cause{byRule()}, Policy: policyA, Digest: argsOne, Facts: []byte(raw0)}),
		journal.NewEvent(c.id(), &journal.Start{Call: call, Attempt: 1, Run: "r1", Decision: decision, Digest: argsOne}),
		journal.NewEvent(c.id(), &journal.Result{Call: call, Attempt: 1, Run: "r1", Status: journal.StatusOK, Digest: journal.Digest(nil)}))...)
	c.wantAttempts(call, "finished")
	if m := c.st.Decision(decision).Mark; m.N != 1 || m.I != 3 || m.By != dec {
		t.Errorf("mark %+v", m)
	}
}

func TestGrantUsedInItsCommit(t *testing.T) {
	c := newSession(t)
	call := c.call()
	q := c.ask(call)
	events := c.settle(q, c.answer(q, ann, journal.AlwaysAllow), c.id())
	start := &journal.Start{Call: call, Attempt: 1, Run: "r1", Decision: events[1].ID, Digest: argsOne}
	c.append(dec, append(events, c.events(start)...)...)
	c.wantAttempts(call, "started")
	c.wantUsed(events[0].ID, 1)
}

func TestEndedInTheCommitThatBegan(t *testing.T) {
	c := newSession(t)
	call := c.id()
	c.append(dec, append(c.events(opened("other", "r2", shared), opened("other", "r3", shared)),
		append([]journal.Event{journal.NewEvent(call, func() journal.Body {
			b := c.callBody("r2")
			b.Agent = "other"
			return b
		}())}, c.events(&journal.Ended{})...)...)...)
	c.wantAttempts(call, "void")
	for _, r := range c.st.Runs() {
		if r.Live {
			t.Errorf("%s lives", r.Run)
		}
	}
}
