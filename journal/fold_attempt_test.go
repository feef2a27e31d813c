package journal_test

import (
	"testing"

	"decisionjournal/journal"
)

func TestStartAndResultEffects(t *testing.T) {
	tryEffects(t, []effect{
		{"start: spends the decision and a use", func(c *chain) {
			call, g := c.grantedCall(func(b *journal.Answer) { b.Uses = 2 })
			c.start(call)
			c.wantAttempts(call, "started")
			c.wantUsed(g, 1)
			c.wantStanding(g, "in force")
			c.start(c.byGrant(g))
			c.wantUsed(g, 2)
			c.wantStanding(g, "used up")
		}},
		{"result ok: finished", func(c *chain) {
			call := c.startedCall()
			c.result(call, journal.StatusOK)
			c.wantAttempts(call, "finished")
			c.wantCall(call, "r1", false, true)
			if s := c.st.Call(call); !s.Settled() || s.Result().No != 1 || s.Last().Late || len(c.st.OpenCalls()) != 0 {
				c.t.Errorf("%+v", s)
			}
		}},
		{"result error: finished", func(c *chain) {
			call := c.startedCall()
			c.result(call, journal.StatusError)
			c.wantAttempts(call, "finished")
		}},
		{"result: elicitations for the call end", func(c *chain) {
			call := c.startedCall()
			asked := c.call(elicitation(call))
			c.result(call, journal.StatusOK)
			c.wantAttempts(asked, "void")
		}},
		{"result: an accepted elicitation stays", func(c *chain) {
			asked := acceptedElicitation(c)
			c.result(c.st.Call(asked).For, journal.StatusOK)
			c.wantAttempts(asked, "finished")
		}},
		{"not-run: gives back decision and use", func(c *chain) {
			call, g := c.grantedCall(func(b *journal.Answer) { b.Uses = 1 })
			c.start(call)
			c.wantStanding(g, "used up")
			c.result(call, journal.StatusNotRun)
			c.wantAttempts(call, "allowed")
			c.wantUsed(g, 0)
			c.wantStanding(g, "in force")
			c.start(call)
			c.wantAttempts(call, "started")
			c.wantUsed(g, 1)
			c.result(call, journal.StatusOK)
			c.wantAttempts(call, "finished")
		}},
		{"not-run, late: gives back while it is the newest", func(c *chain) {
			call := c.startedCall()
			c.close()
			c.wantCall(call, "", true, false)
			c.result(call, journal.StatusNotRun)
			c.wantAttempts(call, "allowed")
			c.wantCall(call, "", false, false)
			c.reopen()
			c.attach(call, "r2")
			c.wantAttempts(call, "allowed")
			c.start(call)
		}},
		{"not-run, of an older attempt: gives nothing back", func(c *chain) {
			call, g := c.grantedCall(func(b *journal.Answer) { b.Uses = 1 })
			c.start(call)
			c.reopen(takeover)
			c.attach(call, "r2")
			c.result(call, journal.StatusNotRun)
			c.wantAttempts(call, "void", "open")
			c.wantUsed(g, 1)
			c.wantStanding(g, "used up")
		}},
		{"not-run: an older attempt that was done after all finishes the call", func(c *chain) {
			call := c.startedCall()
			c.reopen(takeover)
			c.attach(call, "r2")
			c.allow(call)
			c.start(call)
			c.result(call, journal.StatusOK, attempt(1), func(b *journal.Result) { b.Run = "r1" })
			c.wantAttempts(call, "finished", "started")
			c.result(call, journal.StatusNotRun, attempt(2))
			c.wantAttempts(call, "finished", "void")
			if r := c.st.Call(call).Result(); r == nil || r.No != 1 {
				c.t.Errorf("result: %+v", r)
			}
		}},
		{"unknown: outcome unknown", func(c *chain) {
			call := c.startedCall()
			c.detach(call)
			c.result(call, journal.StatusUnknown)
			c.wantAttempts(call, "unknown")
			c.wantCall(call, "", true, false)
		}},
		{"late: not received", func(c *chain) {
			call := c.startedCall()
			c.close()
			c.result(call, journal.StatusOK)
			c.wantAttempts(call, "finished")
			c.wantCall(call, "", false, false)
			if !c.st.Call(call).Last().Late {
				c.t.Error("not late")
			}
		}},
		{"late, newest started: a later attempt's question is gone", func(c *chain) {
			call := c.startedCall()
			c.reopen(takeover)
			c.attach(call, "r2")
			q := c.ask(call)
			c.result(call, journal.StatusOK, attempt(1))
			c.wantAttempts(call, "finished", "void")
			c.wantOver(q, true)
		}},
		{"late, newest started: a later attempt's unspent allow is gone", func(c *chain) {
			call := c.startedCall()
			c.reopen(takeover)
			c.attach(call, "r2")
			c.allow(call)
			c.result(call, journal.StatusError, attempt(1))
			c.wantAttempts(call, "finished", "void")
		}},
		{"late, of the older of two: finishes the call until the newer is known", func(c *chain) {
			call := unknownTwice(c)
			c.result(call, journal.StatusOK, attempt(1), func(b *journal.Result) { b.Run = "r1" })
			c.wantAttempts(call, "finished", "unknown", "void")
			if r := c.st.Call(call).Result(); r == nil || r.No != 1 {
				c.t.Errorf("result: %+v", r)
			}
			c.result(call, journal.StatusOK, attempt(2))
			c.wantAttempts(call, "finished", "finished", "void")
			if r := c.st.Call(call).Result(); r == nil || r.No != 2 {
				c.t.Errorf("result: %+v", r)
			}
		}},
	})
}

func TestNextAttempt(t *testing.T) {
	byUnknown := func(c *chain, call string) { c.result(call, journal.StatusUnknown) }
	tryEffects(t, []effect{
		{"after unknown status, at once if a run waits", func(c *chain) {
			call := c.startedCall()
			byUnknown(c, call)
			c.wantAttempts(call, "unknown", "open")
			if !c.st.Call(call).Last().AfterUnknown {
				c.t.Error("not after unknown")
			}
		}},
		{"after unknown status, else with the next attach", func(c *chain) {
			call := c.startedCall()
			c.detach(call)
			byUnknown(c, call)
			c.wantAttempts(call, "unknown")
			c.attach(call, "r1")
			c.wantAttempts(call, "unknown", "open")
			c.wantCall(call, "r1", false, false)
		}},
		{"after closed", func(c *chain) {
			call := c.startedCall()
			c.close()
			c.reopen()
			c.wantAttempts(call, "unknown")
			c.attach(call, "r2")
			c.wantAttempts(call, "unknown", "open")
		}},
		{"after takeover", func(c *chain) {
			call := c.startedCall()
			c.reopen(takeover)
			c.attach(call, "r2")
			c.wantAttempts(call, "unknown", "open")
		}},
		{"after a lapse, at once if a run waits", func(c *chain) {
			call := c.call()
			q := c.ask(call)
			c.add(dec, &journal.Adopt{Digest: policyB}, &journal.Lapse{Question: q, Reason: journal.LapsePolicy})
			c.wantAttempts(call, "void", "open")
			c.wantOver(q, true)
			c.ask(call)
		}},
		{"after a lapse, else with the next attach", func(c *chain) {
			call := c.allowedCall()
			c.detach(call)
			c.add(dec, &journal.Adopt{Digest: policyB}, &journal.Lapse{Decision: c.st.Call(call).Last().Decision, Reason: journal.LapsePolicy})
			c.wantAttempts(call, "void")
			c.wantCall(call, "", true, false)
			c.attach(call, "r1")
			c.wantAttempts(call, "void", "open")
		}},
		{"not after the deadline: the attempt is denied", func(c *chain) {
			call := c.call()
			q := c.ask(call, due(hour))
			c.now = epoch.Add(hour)
			l := journal.NewEvent(c.id(), &journal.Lapse{Question: q, Reason: journal.LapseDeadline})
			c.append(dec, append([]journal.Event{l}, c.events(c.decisionBody(call, journal.Deny, byID(journal.ByLapse, l.ID)))...)...)
			c.wantAttempts(call, "denied")
			c.wantCall(call, "r1", false, true)
			if s := c.st.Question(q); !s.Over || s.Lapse != l.ID {
				c.t.Errorf("%+v", s)
			}
		}},
		{"not after a grant's lapse", func(c *chain) {
			g := bookGrant(c)
			call := c.byGrant(g)
			c.add(dec, &journal.Lapse{Grant: g, Reason: journal.LapseBook})
			c.wantStanding(g, "book")
			c.wantAttempts(call, "allowed")
			c.add(dec, &journal.Lapse{Decision: c.st.Call(call).Last().Decision, Reason: journal.LapseRevoked})
			c.wantAttempts(call, "void", "open")
		}},
		{"unknown is not forgotten by attempts between", func(c *chain) {
			call := c.startedCall()
			byUnknown(c, call)
			c.ask(call)
			c.add(dec, &journal.Adopt{Digest: policyB}, &journal.Lapse{Question: c.st.Call(call).Last().Question, Reason: journal.LapsePolicy})
			c.wantAttempts(call, "unknown", "void", "open")
			if !c.st.Call(call).Last().AfterUnknown {
				c.t.Error("not after unknown")
			}
		}},
	})
}

func TestRepairEffects(t *testing.T) {
	c := newSession(t)
	_, grant := c.grantedCall()
	allowed, started, asked, plain, detached := c.allowedCall(), c.startedCall(), c.call(), c.call(), c.allowedCall()
	c.detach(detached)
	q := c.ask(asked)
	denied := c.call()
	c.deny(denied)
	head := c.st.N()
	missing := c.lose()
	c.repair(missing)
	if cond, _ := c.st.Condition(); cond != journal.Whole || c.st.N() != head+1 {
		t.Errorf("%s, n %d after %d", cond, c.st.N(), head)
	}
	c.wantStanding(grant, "repaired")
	c.wantAttempts(allowed, "void", "open")
	c.wantAttempts(started, "unknown", "open")
	c.wantAttempts(asked, "void", "open")
	c.wantOver(q, true)
	c.wantAttempts(plain, "void", "open")
	c.wantAttempts(denied, "denied")
	c.wantAttempts(detached, "void")
	c.wantCall(detached, "", true, false)
	for _, call := range []string{allowed, started, asked, plain} { // a lost commit may have started any of them
		if !c.st.Call(call).Last().AfterUnknown {
			t.Errorf("%s is not after unknown", call)
		}
	}
	c.attach(detached, "r1")
	c.detach(denied)
	c.attach(denied, "r1", retry)
	later := c.call()
	if !c.st.Call(detached).Last().AfterUnknown || !c.st.Call(denied).Last().AfterUnknown || c.st.Call(later).Last().AfterUnknown {
		t.Error("after unknown, of what came after the repair")
	}
	c.result(started, journal.StatusOK, attempt(1))
	c.wantAttempts(started, "finished", "void")
	c.allow(allowed)
	c.start(allowed)
}

func TestPolicyChainEffects(t *testing.T) {
	c := inPolicy(t)
	first, second := policyBody("one"), policyBody("two")
	id := c.add(dec, first)
	c.add(root, second, first)
	c.add(root, &journal.Activate{Name: "p", Digest: second.Digest})
	c.add(root, &journal.Activate{Name: "p", Digest: first.Digest})
	c.add(root, &journal.Activate{Name: "q", Digest: second.Digest})
	if got := c.st.Policy(first.Digest); got == nil || got.Mark.ID != id {
		t.Errorf("the first copy is not the policy: %+v", got)
	} else if raw, err := got.Decode(); err != nil || string(raw) != "one" {
		t.Errorf("bytes: %q, %v", raw, err)
	}
	if got := c.st.Active("p"); got == nil || got.Digest != first.Digest || got.Mark.Seq != 4 {
		t.Errorf("p: %+v", got)
	}
	if len(c.st.Policies()) != 2 || len(c.st.Activations()) != 2 || c.st.Policy(policyA) != nil || c.st.Active("r") != nil {
		t.Errorf("%d policies, %d activations", len(c.st.Policies()), len(c.st.Activations()))
	}
}
