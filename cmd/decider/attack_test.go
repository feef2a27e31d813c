package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/decider/replay"
	"decisionjournal/journal"
	"decisionjournal/journal/stream"
	"decisionjournal/journal/stream/embedded"
	"decisionjournal/journal/stream/streamtest"
)

// The policy of the sessions under attack: danger is asked about, and nobody
// ever answers.
const guardedPolicy = `rules:
  - {tool: read, decision: allow}
  - {tool: forbidden, decision: deny}
  - {tool: edit, decision: allow, under: /w/safe}
roots: {"": /w}
settings: {decision-ttl: 1h}
`

// siege is a journal with a worker that decides, and a thief with an agent's key.
type siege struct {
	t     *testing.T
	h     *embedded.Handle
	dir   string
	seed  []byte          // of the agent's key
	log   journal.Log     // the agent's
	agent *journal.Writer // the agent's
	boss  *journal.Writer // a decider's, of an honest batch runner
	d     *decider.Decider
}

func layTo(t *testing.T) *siege {
	t.Helper()
	s := &siege{t: t, dir: t.TempDir() + "/journal"}
	var err error
	s.h, err = embedded.Open(t.Context(), embedded.Config{Dir: s.dir, Role: journal.RoleDecider, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.h.Close() })
	log, actor, err := s.h.As(t.Context(), journal.RoleAgent)
	if err != nil {
		t.Fatal(err)
	}
	s.log, s.agent = log, s.writer(log, journal.RoleAgent, actor)
	s.boss = s.writer(s.h, journal.RoleDecider, "decider")
	s.d = &decider.Decider{Writer: s.boss}
	if s.seed, err = os.ReadFile(filepath.Join(s.dir, "keys", "agent.agent.seed")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"default": guardedPolicy, "lenient": "rules: [{tool: '*', decision: allow}]"} {
		pol, err := policy.Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.d.Activate(t.Context(), name, pol); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *siege) writer(log journal.Log, role journal.Role, actor string) *journal.Writer {
	s.t.Helper()
	w, err := journal.NewWriter(journal.Config{Log: log, Role: role, Actor: actor})
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// work runs a worker until the test ends.
func (s *siege) work() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		w := &decider.Worker{Decider: &decider.Decider{Writer: s.boss}, Problem: func(string, error) {}}
		_ = w.Run(ctx)
	})
	s.t.Cleanup(func() { cancel(); running.Wait() })
}

// thief is one attack: a session in which danger was asked about and waits,
// a read is allowed and not started, and a forbidden call was denied.
type thief struct {
	*siege
	t       *testing.T
	session string
	st      *journal.State

	danger, question string
	read, allow      string // the read and its decision
	forbidden        string
}

func (s *siege) thief(t *testing.T, session string) *thief {
	t.Helper()
	th := &thief{siege: s, t: t, session: session, st: journal.NewState(journal.SessionChain(session))}
	th.must(&journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession, Follows: "default"})
	th.settle()
	th.danger = th.call("danger", `{"path":"/w/x"}`)
	th.read = th.call("read", `{"path":"/w/x"}`)
	th.forbidden = th.call("forbidden", `{"path":"/w/x"}`)
	th.settle()
	th.question, th.allow = th.st.Call(th.danger).Last().Question, th.st.Call(th.read).Last().Decision
	if th.question == "" || th.allow == "" || th.st.Call(th.forbidden).Last().Progress != journal.Denied {
		t.Fatal("the scene is not set")
	}
	return th
}

// settle has a decider decide what is open, as the worker does beside it.
func (th *thief) settle() {
	th.t.Helper()
	th.refresh()
	if err := th.d.Settle(th.t.Context(), th.st); err != nil && !errors.Is(err, journal.ErrConflict) {
		th.t.Log(err)
	}
	th.refresh()
}

func (th *thief) refresh() {
	th.t.Helper()
	if err := journal.Refresh(th.t.Context(), th.h, th.st); err != nil {
		th.t.Fatal(err)
	}
}

// must appends what an honest agent would, again until nobody comes between.
func (th *thief) must(bodies ...journal.Body) string {
	th.t.Helper()
	for {
		th.refresh()
		var events []journal.Event
		for _, b := range bodies {
			events = append(events, th.agent.Event(b))
		}
		err := th.agent.Append(th.t.Context(), th.st, th.agent.Now(th.st), events...)
		if err == nil {
			return events[0].ID
		}
		if !errors.Is(err, journal.ErrConflict) {
			th.t.Fatal(err)
		}
	}
}

func (th *thief) body(tool, args string) *journal.Call {
	th.t.Helper()
	digest, err := decider.CallDigest(nil, tool, json.RawMessage(args))
	if err != nil {
		th.t.Fatal(err)
	}
	return &journal.Call{Agent: "main", Run: "r1", Kind: journal.CallTool, Tool: tool, Arguments: json.RawMessage(args), Digest: digest}
}

func (th *thief) call(tool, args string) string { return th.must(th.body(tool, args)) }

func (th *thief) start(call, decision string) *journal.Start {
	digest := journal.Digest(nil)
	if c := th.st.Call(call); c != nil {
		digest = c.Digest
	}
	return &journal.Start{Call: call, Attempt: 1, Run: "r1", Decision: decision, Digest: digest}
}

func (th *thief) decision(by ...journal.Cause) *journal.Decision {
	c := th.st.Call(th.danger)
	return &journal.Decision{Call: th.danger, Attempt: c.Last().No, Outcome: journal.Allow, By: by, Policy: th.st.Adopted("main", "").Digest,
		Engine: decider.Engine, Digest: c.Digest, Facts: json.RawMessage(`{}`), Message: "allowed"}
}

func byRule() journal.Cause {
	return journal.Cause{Kind: journal.ByRule, Rule: json.RawMessage(`{"decision":"allow","tool":"danger"}`)}
}

func (th *thief) answer(action string) *journal.Answer {
	return &journal.Answer{Question: th.question, Action: action, Shown: th.st.Question(th.question).Shown, By: "ann"}
}

// commit is the thief's next commit, right in all that its envelope says.
func (th *thief) commit(bodies ...journal.Body) *journal.Commit {
	th.t.Helper()
	th.refresh()
	c := &journal.Commit{Session: th.session, N: th.st.N() + 1, After: th.st.LastSeq(), Prev: th.st.Prev(),
		Role: journal.RoleAgent, Actor: "agent", Time: th.agent.Now(th.st)}
	for _, b := range bodies {
		c.Events = append(c.Events, th.agent.Event(b))
	}
	return c
}

// say stores a commit whatever it says; that it is refused is fine too.
func (th *thief) say(bodies ...journal.Body) { th.t.Helper(); th.send(th.commit(bodies...)) }

func (th *thief) send(c *journal.Commit) {
	th.t.Helper()
	data, err := c.Encode()
	if err != nil {
		th.t.Fatal(err)
	}
	th.bytes(data)
}

func (th *thief) bytes(data []byte) {
	th.t.Helper()
	th.refresh()
	sub := journal.Subject{Chain: th.st.Chain(), Role: journal.RoleAgent, Actor: "agent"}
	if _, err := th.log.Publish(th.t.Context(), sub, th.st.LastSeq(), data); err != nil && !errors.Is(err, journal.ErrRefused) && !errors.Is(err, journal.ErrConflict) {
		th.t.Fatal(err)
	}
	th.refresh()
}

// text is the thief's next commit with some of its text changed.
func (th *thief) text(c *journal.Commit, old, new string) {
	th.t.Helper()
	data, err := c.Encode()
	if err != nil {
		th.t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		th.t.Fatalf("no %s in %s", old, data)
	}
	th.bytes([]byte(strings.Replace(string(data), old, new, 1)))
}

// raw sends a message without this module's client.
func (th *thief) raw(m streamtest.Message) {
	th.t.Helper()
	agent := streamtest.Principal{URL: "nats://" + th.h.Listening(), Seed: th.seed, Role: "agent", Actor: "agent"}
	if err := agent.Send(m); err != nil {
		th.t.Fatal(err)
	}
	th.refresh()
}

func (th *thief) own() string { return "journal.s." + th.session + ".agent.agent" }

func (th *thief) encoded(bodies ...journal.Body) []byte {
	th.t.Helper()
	data, err := th.commit(bodies...).Encode()
	if err != nil {
		th.t.Fatal(err)
	}
	return data
}

func (th *thief) right() map[string][]string {
	return journal.ExpectHeaders(th.st.Chain(), th.st.LastSeq())
}

// last is the newest message of the session written by role.
func (th *thief) last(role journal.Role) journal.Message {
	th.t.Helper()
	var found journal.Message
	for m, err := range th.h.Load(th.t.Context(), th.st.Chain(), 0) {
		if err != nil {
			th.t.Fatal(err)
		}
		if strings.Contains(m.Subject, "."+string(role)+".") {
			found = m
		}
	}
	return found
}

// ownDecision is the decision that a forged commit would make, and its start.
func (th *thief) forged(by ...journal.Cause) (decision, start journal.Event) {
	decision = th.agent.Event(th.decision(by...))
	return decision, th.agent.Event(th.start(th.danger, decision.ID))
}

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

// another opens a run by the agent's key and calls danger in it.
func (th *thief) another(session string, opened *journal.Opened) {
	th.t.Helper()
	first := *th
	first.session, first.st = session, journal.NewState(journal.SessionChain(session))
	first.say(opened)
	b := first.body("danger", `{"path":"/w/x"}`)
	b.Agent, b.Run = opened.Agent, opened.Run
	first.say(b)
	first.settle()
	for _, c := range first.st.Calls() {
		if c.Last().Progress == journal.Allowed {
			first.say(&journal.Start{Call: c.Mark.ID, Attempt: 1, Run: opened.Run, Decision: c.Last().Decision, Digest: c.Digest})
		}
	}
}

// batch is the thief before a session of an honest runner, which has a call
// that is allowed and not started.
func (th *thief) batch() *thief {
	th.t.Helper()
	there := *th
	there.session = th.session + "-batch"
	st := journal.NewState(journal.SessionChain(there.session))
	there.st = st
	add := func(w *journal.Writer, body journal.Body) string {
		th.t.Helper()
		for {
			if err := journal.Refresh(th.t.Context(), th.h, st); err != nil {
				th.t.Fatal(err)
			}
			e := w.Event(body)
			err := w.Append(th.t.Context(), st, w.Now(st), e)
			if err == nil {
				return e.ID
			}
			if !errors.Is(err, journal.ErrConflict) {
				th.t.Fatal(err)
			}
		}
	}
	add(th.boss, &journal.Opened{Agent: "main", Run: "b1", Kind: journal.KindSession, Follows: "default"})
	if err := th.d.Settle(th.t.Context(), st); err != nil {
		th.t.Fatal(err)
	}
	b := th.body("read", `{"path":"/w/batch"}`)
	b.Run = "b1"
	add(th.boss, b)
	if err := th.d.Settle(th.t.Context(), st); err != nil {
		th.t.Fatal(err)
	}
	return &there
}

// TestAgentsKeyAlone: whatever the holder of an agent's key writes, nothing of
// its own is started that no rule and no person allowed, and nothing twice. The
// record stays sound: what was tried is an anomaly.
func TestAgentsKeyAlone(t *testing.T) {
	s := layTo(t)
	s.work()
	all := attacks()
	if len(all) < 30 {
		t.Fatalf("%d attacks", len(all))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			th := s.thief(t, name)
			all[name](th)
			th.settle()
			if c := th.st.Call(th.danger); c != nil && s.d.Releasable(t.Context(), th.st, th.danger) == nil {
				t.Error("danger would be released")
			}
		})
	}
	s.wantNothingStolen()
}

// wantNothingStolen folds every session as a reader who begins anew.
func (s *siege) wantNothingStolen() {
	s.t.Helper()
	chains, err := s.h.Chains(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, chain := range chains {
		if chain.IsPolicy() {
			continue
		}
		st := journal.NewState(chain)
		starts := map[string]int{}
		for m, err := range s.h.Load(s.t.Context(), chain, 0) {
			if err != nil {
				s.t.Fatal(err)
			}
			if v, _ := st.Apply(m); v != journal.Valid {
				continue
			}
			c, err := journal.Decode(m.Data)
			if err != nil {
				s.t.Fatal(err)
			}
			for _, e := range c.Events {
				if b, ok := e.Body.(*journal.Start); ok {
					starts[b.Call]++
					if starts[b.Call] > 1 || c.Role == journal.RoleAgent && strings.HasSuffix(chain.String(), "-batch") {
						s.t.Errorf("%s: message %d starts call %s", chain, m.Seq, b.Call)
					}
				}
			}
		}
		for _, c := range st.Calls() {
			p := c.Last().Progress
			if c.Tool != "read" && p != journal.Open && p != journal.Denied && p != journal.Void {
				s.t.Errorf("%s: %s %s is %s", chain, c.Tool, c.Arguments, p)
			}
		}
	}
	j, err := replay.Load(s.t.Context(), s.h)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := j.Audit(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range slices.Concat(append([][]replay.Fault{r.Faults}, faultsOf(r)...)...) {
		switch {
		case f.Field == "v" && f.Session == "write-a-newer-version": // it asks for an admin's repair
		case f.Field == "digest" && f.Event == "call": // a false record, and denied
		default:
			s.t.Errorf("audit: %s", f)
		}
	}
}

func faultsOf(r replay.Report) (all [][]replay.Fault) {
	for _, s := range r.Sessions {
		all = append(all, s.Faults)
	}
	return all
}
