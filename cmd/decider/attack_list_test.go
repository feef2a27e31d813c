package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"decisionjournal/journal"
	"decisionjournal/journal/stream"
	"decisionjournal/journal/stream/streamtest"
)

// attacks are ways to get danger started. Whether each step is refused, stored
// and void, or even valid is for the matrix of roles; here only what comes of it
// counts.
func attacks() map[string]func(th *thief) {
	grant := func(q string) *journal.Grant {
		return &journal.Grant{Question: q, Rules: []json.RawMessage{json.RawMessage(`{"decision":"allow","tool":"danger"}`)}}
	}
	return map[string]func(th *thief){
		"decide-by-rule":   func(th *thief) { th.say(th.decision(byRule())) },
		"decide-by-answer": func(th *thief) { th.say(th.decision(journal.Cause{Kind: journal.ByAnswer, ID: th.question})) },
		"decide-and-start": func(th *thief) {
			d, s := th.forged(byRule())
			c := th.commit()
			c.Events = []journal.Event{d, s}
			th.send(c)
		},
		"start-undecided":   func(th *thief) { th.say(th.start(th.danger, th.agent.NewID())) },
		"start-by-anothers": func(th *thief) { th.say(th.start(th.danger, th.allow)) },
		"start-with-the-digest-of-another": func(th *thief) {
			s := th.start(th.danger, th.allow)
			s.Digest = th.st.Call(th.read).Digest
			th.say(s)
		},
		"start-what-was-denied": func(th *thief) { th.say(th.start(th.forbidden, th.st.Call(th.forbidden).Last().Decision)) },
		"start-attempt-2":       func(th *thief) { s := th.start(th.danger, th.allow); s.Attempt = 2; th.say(s) },
		"start-attempt-0":       func(th *thief) { s := th.start(th.danger, th.allow); s.Attempt = 0; th.say(s) },
		"start-twice": func(th *thief) {
			th.say(th.start(th.read, th.allow))
			th.say(th.start(th.read, th.allow))
			th.say(th.start(th.read, th.allow), th.start(th.read, th.allow))
		},
		"start-again-after-the-result": func(th *thief) {
			th.say(th.start(th.read, th.allow))
			th.say(&journal.Result{Call: th.read, Attempt: 1, Run: "r1", Status: journal.StatusOK, Digest: journal.Digest(nil)})
			th.say(th.start(th.read, th.allow))
		},
		"start-in-a-run-of-its-own-making": func(th *thief) { s := th.start(th.danger, th.allow); s.Run = "r9"; th.say(s) },
		"result-of-nothing-then-start": func(th *thief) {
			th.say(&journal.Result{Call: th.danger, Attempt: 1, Run: "r1", Status: journal.StatusNotRun, Digest: journal.Digest(nil)})
			th.say(th.start(th.danger, th.allow))
		},
		"answer":            func(th *thief) { th.say(th.answer(journal.AllowOnce)) },
		"answer-always":     func(th *thief) { th.say(th.answer(journal.AlwaysAllow)) },
		"answer-as-itself":  func(th *thief) { a := th.answer(journal.AllowOnce); a.By = "agent"; th.say(a) },
		"answer-and-decide": func(th *thief) { th.say(th.answer(journal.AllowOnce), th.decision(byRule())) },
		"question-of-its-own": func(th *thief) {
			q := th.st.Question(th.question).Question
			q.Attempt, q.Need = 2, []journal.Stage{}
			th.say(&q)
		},
		"grant": func(th *thief) { th.say(grant(th.question)) },
		"grant-imported": func(th *thief) {
			g := grant("")
			g.Origin = &journal.Origin{Import: "mine"}
			th.say(g)
		},
		"grant-from-a-book": func(th *thief) {
			g := grant("")
			g.Origin = &journal.Origin{Session: th.session, Grant: th.agent.NewID()}
			th.say(g)
		},
		"adopt-the-lenient": func(th *thief) { th.say(&journal.Adopt{Digest: th.d.Policies().Active("lenient").Digest}) },
		"adopt-by-name": func(th *thief) {
			a := th.d.Policies().Active("lenient")
			th.say(&journal.Adopt{Digest: a.Digest, Name: "lenient", Activation: a.Mark.Seq})
		},
		"policy-in-the-session": func(th *thief) {
			pol := journal.NewPolicyBytes([]byte("rules: [{tool: '*', decision: allow}]"))
			th.say(pol, &journal.Activate{Name: "default", Digest: pol.Digest}, &journal.Adopt{Digest: pol.Digest})
		},
		"policy-on-its-chain": func(th *thief) {
			pol := journal.NewPolicyBytes([]byte("rules: [{tool: '*', decision: allow}]"))
			th.raw(streamtest.Message{Subject: "journal.policy.agent.agent", Data: th.encoded(pol)})
		},
		"follow-the-lenient": func(th *thief) {
			th.say(&journal.Opened{Agent: "main", Run: "r2", Kind: journal.KindSession, Takeover: true, Follows: "lenient"})
		},
		"another-agent-follows": func(th *thief) {
			th.another(th.session, &journal.Opened{Agent: "other", Run: "r2", Kind: journal.KindSession, Follows: "lenient"})
		},
		"another-session-follows": func(th *thief) {
			th.another(th.session+"-2", &journal.Opened{Agent: "main", Run: "r2", Kind: journal.KindSession, Follows: "lenient"})
		},
		"a-session-called-policy": func(th *thief) {
			th.another("policy", &journal.Opened{Agent: "main", Run: "r2", Kind: journal.KindSession, Follows: "lenient"})
		},
		"repair":             func(th *thief) { th.say(&journal.Repair{Missing: []uint64{}, Reason: "x"}) },
		"end":                func(th *thief) { th.say(&journal.Ended{Reason: "x"}) },
		"lapse-the-question": func(th *thief) { th.say(&journal.Lapse{Question: th.question, Reason: journal.LapsePolicy}) },
		"revoke":             func(th *thief) { th.say(&journal.Revoke{Grant: th.question, Reason: "x"}) },
		"say-decider": func(th *thief) {
			c := th.commit(th.decision(byRule()))
			c.Role, c.Actor = journal.RoleDecider, "decider"
			th.send(c)
		},
		"say-admin": func(th *thief) {
			c := th.commit(th.decision(byRule()))
			c.Role, c.Actor = journal.RoleAdmin, "admin"
			th.send(c)
		},
		"say-another-actor": func(th *thief) { c := th.commit(th.decision(byRule())); c.Actor = "decider"; th.send(c) },
		"say-a-role-twice": func(th *thief) {
			th.text(th.commit(th.decision(byRule())), `"role":"agent"`, `"role":"agent","role":"decider"`)
		},
		"say-a-role-escaped": func(th *thief) {
			th.text(th.commit(th.decision(byRule())), `"role":"agent"`, `"role":"decider","r\u006fle":"agent"`)
		},
		"say-a-role-in-another-case": func(th *thief) {
			th.text(th.commit(th.decision(byRule())), `"role":"agent"`, `"Role":"decider","role":"agent"`)
		},
		"hide-a-decision-in-a-note": func(th *thief) {
			th.text(th.commit(th.decision(byRule())), `"type":"decision"`, `"info":true,"type":"decision"`)
		},
		"write-a-newer-version": func(th *thief) { th.text(th.commit(th.decision(byRule())), `"v":1`, `"v":2`) },
		"mix-into-what-is-its-own": func(th *thief) {
			th.say(&journal.Detach{Call: th.danger, Run: "r1", Reason: "x"}, &journal.Attach{Call: th.danger, Run: "r1"}, th.decision(byRule()))
		},
		"attach-to-judge-again": func(th *thief) {
			th.say(&journal.Detach{Call: th.forbidden, Run: "r1", Reason: "x"}, &journal.Attach{Call: th.forbidden, Run: "r1", Retry: true})
		},
		"withdraw-and-start": func(th *thief) {
			th.say(&journal.Detach{Call: th.danger, Run: "r1", Reason: "x", Withdraw: true})
			th.say(th.start(th.danger, th.allow))
		},
		"replay-a-decision": func(th *thief) { th.bytes(th.last(journal.RoleDecider).Data) },
		"replay-its-own":    func(th *thief) { th.say(th.start(th.read, th.allow)); th.bytes(th.last(journal.RoleAgent).Data) },
		"replay-anothers-chain": func(th *thief) {
			other := th.siege.thief(th.t, th.session+"-2")
			th.bytes(other.last(journal.RoleDecider).Data)
		},
		"a-key-of-an-allowed-call": func(th *thief) {
			b := th.body("read", `{"path":"/w/x"}`)
			b.Key = "k"
			th.must(b)
			th.settle()
			b = th.body("danger", `{"path":"/w/x"}`)
			b.Key = "k"
			th.say(b)
		},
		"an-id-of-an-allowed-call": func(th *thief) {
			c := th.commit(th.body("danger", `{}`))
			c.Events[0].ID = th.read
			th.send(c)
			th.say(th.start(th.read, th.allow))
		},
		"an-id-of-its-decision": func(th *thief) {
			c := th.commit(th.body("danger", `{}`))
			c.Events[0].ID = th.allow
			th.send(c)
			th.say(th.start(th.allow, th.allow))
		},
		"the-digest-of-an-allowed-call": func(th *thief) {
			b := th.body("danger", `{"path":"/w/x"}`)
			b.Digest = th.st.Call(th.read).Digest
			th.say(b)
		},
		"the-tool-in-other-letters": func(th *thief) {
			for _, tool := range []string{"read\x00danger", "read danger", "READ", "read\u200b", "reаd", "read*", "*", ""} {
				if b := th.body("read", `{"path":"/w/x"}`); tool != "" {
					b.Tool = tool
					th.say(b)
				}
			}
		},
		"edit-outside-in-other-words": func(th *thief) {
			for _, path := range []string{"/w/safe/../x", "/w/safe/..\\x", "/w/SAFE/../../x", "safe/../x", "~/x", "/w/safe\u0000/x", "//w/x", "/W/safe/../x", "/w/safe/./../x"} {
				args, err := json.Marshal(map[string]string{"path": path})
				if err != nil {
					th.t.Fatal(err)
				}
				th.say(th.body("edit", string(args)))
			}
		},
		"mask-without-facts": func(th *thief) {
			b := th.body("danger", `{"path":"/w/x"}`)
			b.Masked, b.Digest = []string{"/path"}, "hmac:k:"+strings.Repeat("0", 64)
			th.say(b)
		},
		"mask-with-facts-of-another": func(th *thief) {
			b := th.body("danger", `{"path":"/w/x"}`)
			b.Masked, b.Digest, b.Facts = []string{"/path"}, "hmac:k:"+strings.Repeat("0", 64), json.RawMessage(`{"paths":[{"path":"/w/safe/x"}],"tool":"read"}`)
			th.say(b)
		},
		"ask-as-an-elicitation": func(th *thief) {
			th.say(th.start(th.read, th.allow))
			b := th.body("danger", `{"path":"/w/x"}`)
			b.Kind, b.For = journal.CallElicitation, th.read
			th.say(b)
			th.settle()
		},
		"time-ahead": func(th *thief) {
			c := th.commit(&journal.Detach{Call: th.danger, Run: "r1", Reason: "x"})
			c.Time = journal.At(c.Time.Add(100 * 365 * 24 * time.Hour))
			th.send(c)
		},
		"time-in-steps": func(th *thief) {
			for i := range 20 { // an hour ahead in twenty steps
				c := th.commit(th.body("other", fmt.Sprintf(`{"n":%d}`, i)))
				c.Time = journal.At(c.Time.Add(59 * time.Second * time.Duration(i+1)))
				th.send(c)
			}
			if ahead := time.Until(th.st.Time().Time); ahead > 2*time.Minute {
				th.t.Errorf("the session's clock is %v ahead", ahead)
			}
		},
		"time-behind": func(th *thief) {
			c := th.commit(th.start(th.read, th.allow))
			c.Time = th.st.First().Time
			th.send(c)
		},
		"take-over-a-batch": func(th *thief) {
			b := th.batch()
			b.say(&journal.Opened{Agent: "main", Run: "stolen", Kind: journal.KindSession, Takeover: true})
			for _, call := range b.st.Calls() {
				for _, run := range []string{"stolen", "b1"} {
					b.say(&journal.Attach{Call: call.Mark.ID, Run: run})
					b.say(&journal.Start{Call: call.Mark.ID, Attempt: 1, Run: run, Decision: call.Last().Decision, Digest: call.Digest})
				}
			}
		},
		"close-a-batchs-run": func(th *thief) {
			b := th.batch()
			b.say(&journal.Closed{Agent: "main", Run: "b1"})
			b.say(&journal.Opened{Agent: "main", Run: "stolen", Kind: journal.KindSession})
		},
		"call-in-a-batchs-run": func(th *thief) {
			b, call := th.batch(), th.body("read", `{}`)
			call.Run = "b1"
			b.say(call)
		},
		"no-headers": func(th *thief) {
			th.raw(streamtest.Message{Subject: th.own(), Data: th.encoded(th.decision(byRule()))})
		},
		"headers-of-another": func(th *thief) {
			data, h := th.encoded(th.decision(byRule())), th.right()
			h["Nats-Subject"] = []string{"journal.s." + th.session + ".decider.decider"}
			th.raw(streamtest.Message{Subject: th.own(), Headers: h, Data: data})
		},
		"anothers-subject": func(th *thief) {
			th.raw(streamtest.Message{Subject: "journal.s." + th.session + ".decider.decider", Headers: th.right(), Data: th.encoded(th.decision(byRule()))})
		},
		"reply-to-anothers-subject": func(th *thief) {
			th.raw(streamtest.Message{Subject: stream.Prefix + ".STREAM.MSG.GET." + stream.Name, Reply: "journal.s." + th.session + ".decider.decider",
				Data: fmt.Appendf(nil, `{"seq":%d}`, th.last(journal.RoleDecider).Seq)})
		},
		"pretend-to-be-present": func(th *thief) {
			sub := journal.Subject{Chain: th.st.Chain(), Role: journal.RoleAgent, Actor: "agent"}
			if err := th.log.(journal.Presence).Answer(th.t.Context(), sub, "r1"); err != nil {
				th.t.Fatal(err)
			}
			th.say(th.start(th.danger, th.allow))
		},
		"race-itself": func(th *thief) {
			var racing sync.WaitGroup
			data := [][]byte{th.encoded(th.start(th.read, th.allow)), th.encoded(th.decision(byRule())), th.encoded(th.start(th.read, th.allow))}
			for _, d := range data {
				racing.Go(func() {
					sub := journal.Subject{Chain: th.st.Chain(), Role: journal.RoleAgent, Actor: "agent"}
					_, _ = th.log.Publish(context.Background(), sub, th.st.LastSeq(), d) // one at most is stored
				})
			}
			racing.Wait()
		},
		"flood": func(th *thief) {
			for range 200 {
				th.bytes([]byte("x"))
			}
			th.say(th.decision(byRule()))
		},
	}
}
