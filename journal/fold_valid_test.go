package journal_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"decisionjournal/journal"
)

// A rule is one line of the table of events, tried: events that one principal
// writes in a prepared session, and what is wrong with them.
type rule struct {
	name   string
	by     who
	why    string // part of the reason it is void; "" if it is valid
	events func(c *chain) []journal.Event
}

// one makes the events of a single body.
func one(body func(c *chain) journal.Body) func(*chain) []journal.Event {
	return func(c *chain) []journal.Event { return c.events(body(c)) }
}

func try(t *testing.T, begin func(t *testing.T) *chain, rules []rule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			c := begin(t)
			events := r.events(c)
			if r.why != "" {
				c.void(r.by, r.why, events...)
				return
			}
			c.append(r.by, events...)
			c.goesOn()
		})
	}
}

func inSession(t *testing.T) *chain { return newSession(t) }
func inNothing(t *testing.T) *chain { return newChain(t) }

func TestOpenedValid(t *testing.T) {
	open := func(agent, run string, options ...func(*journal.Opened)) func(*chain) []journal.Event {
		return one(func(*chain) journal.Body { return opened(agent, run, options...) })
	}
	t.Run("first", func(t *testing.T) {
		try(t, inNothing, []rule{
			{"by an agent", bot, "", open("main", "r1")},
			{"by a decider", dec, "", open("main", "r1")},
			{"of a book", root, "", open("main", "r1", func(b *journal.Opened) { b.Kind = journal.KindBook })},
			{"takeover of nobody", bot, "", open("main", "r1", takeover)},
			{"something before it", bot, "begins with opened", one(func(*chain) journal.Body { return &journal.Closed{Agent: "main", Run: "r1"} })},
			{"info before it", bot, "begins with opened", func(c *chain) []journal.Event { return []journal.Event{c.info("{}")} }},
			{"agent no name", bot, "agent", open("a.b", "r1")},
			{"run no name", bot, "run", open("main", "")},
			{"run name too long", bot, "run", open("main", strings.Repeat("r", 65))},
			{"parent no name", bot, "parent", open("main", "r1", func(b *journal.Opened) { b.Parent = "a b" })},
			{"follows the default", bot, "", open("main", "r1", func(b *journal.Opened) { b.Follows = "default" })},
			{"follows another, by a decider", dec, "", open("main", "r1", func(b *journal.Opened) { b.Follows = "lenient" })},
			{"follows another, by an agent's key", bot, "decider's to say", open("main", "r1", func(b *journal.Opened) { b.Follows = "lenient" })},
			{"follows no name", bot, "policy name", open("main", "r1", func(b *journal.Opened) { b.Follows = "a/b" })},
			{"label too long", bot, "label", open("main", "r1", func(b *journal.Opened) { b.Label = strings.Repeat("x", 16<<10+1) })},
		})
	})
	try(t, inSession, []rule{
		{"another agent", bot2, "", open("other", "r2")},
		{"takeover", bot, "", open("main", "r2", takeover)},
		{"takeover by a decider", dec, "", open("main", "r2", takeover)},
		{"takeover by another agent's key", bot2, "belongs to agent.bot", open("main", "r2", takeover)},
		{"by another agent's key, with no run alive", bot2, "belongs to agent.bot", func(c *chain) []journal.Event { c.close(); return open("main", "r2")(c) }},
		{"of a decider's agent, by an agent's key", bot, "belongs to decider", func(c *chain) []journal.Event {
			c.add(dec, opened("inline", "r2"))
			return open("inline", "r3", takeover)(c)
		}},
		{"still the first one's after a decider's", bot, "", func(c *chain) []journal.Event {
			c.add(dec, opened("main", "r2", takeover))
			return open("main", "r3", takeover)(c)
		}},
		{"follows, by a decider", dec, "", open("other", "r2", func(b *journal.Opened) { b.Follows = "strict" })},
		{"follows, by an agent's key", bot2, "decider's to say", open("other", "r2", func(b *journal.Opened) { b.Follows = "lenient" })},
		{"after closed", bot, "", func(c *chain) []journal.Event { c.close(); return open("main", "r2")(c) }},
		{"both shared", bot, "", func(c *chain) []journal.Event {
			c.add(bot, opened("other", "r2", shared))
			return open("other", "r3", shared)(c)
		}},
		{"session ended", bot, "ended", func(c *chain) []journal.Event { c.end(); return open("main", "r2")(c) }},
		{"run id used", bot, "used", open("other", "r1")},
		{"run id used by an ended run", bot, "used", func(c *chain) []journal.Event { c.close(); return open("main", "r1")(c) }},
		{"a live run", bot, "lives", open("main", "r2")},
		{"only the new one shared", bot, "lives", open("main", "r2", shared)},
		{"only the old one shared", bot, "lives", func(c *chain) []journal.Event {
			c.add(bot, opened("other", "r2", shared))
			return open("other", "r3")(c)
		}},
		{"one live run among the shared is not", bot, "lives", func(c *chain) []journal.Event {
			c.close()
			c.reopen()
			return open("main", "r3", shared)(c)
		}},
		{"another kind of session", bot, "kind", open("other", "r2", func(b *journal.Opened) { b.Kind = journal.KindBook })},
	})
}

func TestClosedValid(t *testing.T) {
	closed := func(agent, run string) func(*chain) []journal.Event {
		return one(func(*chain) journal.Body { return &journal.Closed{Agent: agent, Run: run} })
	}
	try(t, inSession, []rule{
		{"by its actor", bot, "", closed("main", "r1")},
		{"by a decider", dec, "", closed("main", "r1")},
		{"no such run", bot, "no run", closed("main", "r9")},
		{"closed already", bot, "ended", func(c *chain) []journal.Event { c.close(); return closed("main", "r1")(c) }},
		{"taken over", bot, "ended (takeover)", func(c *chain) []journal.Event { c.reopen(takeover); return closed("main", "r1")(c) }},
		{"another actor's run", bot2, "belongs", closed("main", "r1")},
		{"another agent's run", bot, "of agent", closed("other", "r1")},
		{"session ended", bot, "ended", func(c *chain) []journal.Event { c.end(); return closed("main", "r1")(c) }},
	})
}

func TestEndedValid(t *testing.T) {
	ended := one(func(*chain) journal.Body { return &journal.Ended{} })
	try(t, inSession, []rule{
		{"open session", dec, "", ended},
		{"with no run alive", dec, "", func(c *chain) []journal.Event { c.close(); return ended(c) }},
		{"ended already", dec, "ended", func(c *chain) []journal.Event { c.end(); return ended(c) }},
		{"twice in one commit", dec, "ended", func(c *chain) []journal.Event { return append(ended(c), ended(c)...) }},
		{"reason too long", dec, "reason", one(func(*chain) journal.Body { return &journal.Ended{Reason: strings.Repeat("x", 16<<10+1)} })},
	})
}

func TestAdoptValid(t *testing.T) {
	adopt := func(b journal.Adopt) func(*chain) []journal.Event {
		return one(func(*chain) journal.Body { return &b })
	}
	after := func(first, then journal.Adopt) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event { c.add(dec, &first); return adopt(then)(c) }
	}
	named := func(activation uint64) journal.Adopt {
		return journal.Adopt{Digest: policyB, Name: "p", Activation: activation}
	}
	try(t, inSession, []rule{
		{"by digest", dec, "", adopt(journal.Adopt{Digest: policyB})},
		{"by name", dec, "", adopt(named(7))},
		{"the same activation again", dec, "", after(named(7), named(7))},
		{"a newer activation", dec, "", after(named(7), named(8))},
		{"in a scope", dec, "", adopt(journal.Adopt{Digest: policyB, Agent: "main", Layer: "inner"})},
		{"below the last of the name", dec, "lies before", after(named(7), named(6))},
		{"below the last of the name in another scope", dec, "lies before", after(named(7), journal.Adopt{Digest: policyA, Name: "p", Activation: 6, Agent: "main"})},
		{"below the last of another name", dec, "", after(named(7), journal.Adopt{Digest: policyA, Name: "q", Activation: 6})},
		{"name without activation", dec, "activation", adopt(journal.Adopt{Digest: policyB, Name: "p"})},
		{"activation without name", dec, "activation", adopt(journal.Adopt{Digest: policyB, Activation: 7})},
		{"digest malformed", dec, "malformed", adopt(journal.Adopt{Digest: "sha256:00"})},
		{"digest in capitals", dec, "malformed", adopt(journal.Adopt{Digest: "sha256:" + strings.Repeat("A", 64)})},
		{"keyed digest", dec, "malformed", adopt(journal.Adopt{Digest: "hmac:k:" + policyB[7:]})},
		{"agent no name", dec, "agent", adopt(journal.Adopt{Digest: policyB, Agent: "a.b"})},
		{"layer no name", dec, "layer", adopt(journal.Adopt{Digest: policyB, Layer: "*"})},
		{"session ended", dec, "ended", func(c *chain) []journal.Event { c.end(); return adopt(journal.Adopt{Digest: policyB})(c) }},
	})
}

func keyed(key string) func(*journal.Call)       { return func(b *journal.Call) { b.Key = key } }
func refer(ref string) func(*journal.Call)       { return func(b *journal.Call) { b.Ref = ref } }
func inLayer(layer string) func(*journal.Call)   { return func(b *journal.Call) { b.Layer = layer } }
func digested(digest string) func(*journal.Call) { return func(b *journal.Call) { b.Digest = digest } }

func masked(b *journal.Call) { b.Masked, b.Digest = []string{"/n"}, "hmac:k1:"+argsOne[7:] }

func TestCallValid(t *testing.T) {
	call := func(options ...func(*journal.Call)) func(*chain) []journal.Event {
		return one(func(c *chain) journal.Body { return c.callBody("r1", options...) })
	}
	after := func(prepare func(*chain), options ...func(*journal.Call)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event { prepare(c); return call(options...)(c) }
	}
	agent := func(name string) func(*journal.Call) { return func(b *journal.Call) { b.Agent = name } }
	used := func(c *chain) { c.call(keyed("k"), refer("f")) }
	freed := func(c *chain) { c.withdraw(c.call(keyed("k"), refer("f"))) }
	forLast := func(b *journal.Call) { b.Kind = journal.CallElicitation }
	try(t, inSession, []rule{
		{"by the run's actor", bot, "", call()},
		{"by a decider", dec, "", call()},
		{"masked", bot, "", call(masked)},
		{"elicitation by itself", bot, "", call(forLast)},
		{"the same call again", bot, "", after(func(c *chain) { c.call() })},
		{"another key", bot, "", after(used, keyed("k2"), refer("f2"))},
		{"key and ref in another layer", bot, "", after(used, keyed("k"), refer("f"), inLayer("inner"))},
		{"key and ref of another agent", bot, "", func(c *chain) []journal.Event {
			used(c)
			c.add(bot, opened("other", "r2"))
			return c.events(c.callBody("r2", keyed("k"), refer("f")))
		}},
		{"a key that is another's ref", bot, "", after(used, keyed("f"), refer("k"))},
		{"key and ref freed", bot, "", after(freed, keyed("k"), refer("f"))},
		{"key freed in the same commit", bot, "", func(c *chain) []journal.Event {
			id := c.call(keyed("k"))
			return c.events(&journal.Detach{Call: id, Run: "r1", Withdraw: true}, c.callBody("r1", keyed("k")))
		}},
		{"run closed", bot, "ended", after((*chain).close)},
		{"no such run", bot, "no run", one(func(c *chain) journal.Body { return c.callBody("r9") })},
		{"another actor's run", bot2, "belongs", call()},
		{"another agent's run", bot, "of agent", call(agent("other"))},
		{"key used", bot, "key", after(used, keyed("k"))},
		{"ref used", bot, "ref", after(used, refer("f"))},
		{"key of a denied call", bot, "key", after(func(c *chain) { c.deny(c.call(keyed("k"))) }, keyed("k"))},
		{"key used in the same commit", bot, "key", func(c *chain) []journal.Event {
			return c.events(c.callBody("r1", keyed("k")), c.callBody("r1", keyed("k")))
		}},
		{"ref used in the same commit", bot, "ref", func(c *chain) []journal.Event {
			return c.events(c.callBody("r1", refer("f")), c.callBody("r1", refer("f")))
		}},
		{"no tool", bot, "tool", call(func(b *journal.Call) { b.Tool = "" })},
		{"tool too long", bot, "tool", call(func(b *journal.Call) { b.Tool = strings.Repeat("t", 1025) })},
		{"layer no name", bot, "layer", call(inLayer("a.b"))},
		{"digest malformed", bot, "malformed", call(digested("sha256:1"))},
		{"digest of another kind", bot, "malformed", call(digested("md5:" + argsOne[7:]))},
		{"keyed digest without a key id", bot, "malformed", call(masked, digested("hmac::"+argsOne[7:]))},
		{"masked with a plain digest", bot, "masked", call(masked, digested(argsOne))},
		{"keyed digest of plain arguments", bot, "masked", call(digested("hmac:k1:" + argsOne[7:]))},
		{"session ended", bot, "ended", after((*chain).end)},
	})
}

func TestElicitationValid(t *testing.T) {
	ask := func(call func(*chain) string) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event { return c.events(c.callBody("r1", elicitation(call(c)))) }
	}
	started := func(c *chain) string { return c.startedCall() }
	try(t, inSession, []rule{
		{"for a started call", bot, "", ask(started)},
		{"for no call", bot, "not started", ask((*chain).id)},
		{"for an undecided call", bot, "not started", ask(func(c *chain) string { return c.call() })},
		{"for an allowed call", bot, "not started", ask(func(c *chain) string { return c.allowedCall() })},
		{"for a finished call", bot, "not started", ask(func(c *chain) string { id := started(c); c.result(id, journal.StatusOK); return id })},
		{"for a call of unknown outcome", bot, "not started", ask(func(c *chain) string { id := started(c); c.result(id, journal.StatusUnknown); return id })},
		{"for a call that did not run", bot, "not started", ask(func(c *chain) string { id := started(c); c.result(id, journal.StatusNotRun); return id })},
		{"a tool call with for", bot, "for names", one(func(c *chain) journal.Body {
			id := started(c)
			return c.callBody("r1", func(b *journal.Call) { b.For = id })
		})},
	})
}

func TestAttachValid(t *testing.T) {
	attach := func(prepare func(*chain) string, run string, options ...func(*journal.Attach)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			return c.events(with(&journal.Attach{Call: prepare(c), Run: run}, options))
		}
	}
	detached := func(c *chain) string { id := c.call(); c.detach(id); return id }
	bothShared := func(c *chain) string {
		c.close()
		c.reopen(shared)
		c.add(bot, opened("main", "r3", shared))
		return c.add(bot, c.callBody("r2"))
	}
	try(t, inSession, []rule{
		{"no waiter after detach", bot, "", attach(detached, "r1")},
		{"by a decider", dec, "", attach(detached, "r1")},
		{"waiter's run closed", bot, "", attach(func(c *chain) string { id := c.call(); c.close(); c.reopen(); return id }, "r2")},
		{"waiter's run taken over", bot, "", attach(func(c *chain) string { id := c.call(); c.reopen(takeover); return id }, "r2")},
		{"a finished call", bot, "", attach(func(c *chain) string {
			id := c.startedCall()
			c.result(id, journal.StatusOK)
			c.detach(id)
			return id
		}, "r1")},
		{"the same shared run again", bot, "", attach(bothShared, "r2")},
		{"run ended", bot, "ended", attach(func(c *chain) string { id := c.call(); c.close(); return id }, "r1")},
		{"no such run", bot, "no run", attach(detached, "r9")},
		{"another actor's run", bot2, "belongs", attach(detached, "r1")},
		{"a run of another agent", bot, "of agent", attach(func(c *chain) string { c.add(bot, opened("other", "r2")); return detached(c) }, "r2")},
		{"no such call", bot, "no call", attach((*chain).id, "r1")},
		{"the call has a waiter", bot, "waits", attach(func(c *chain) string { return c.call() }, "r1")},
		{"the call has another shared run as waiter", bot, "waits", attach(bothShared, "r3")},
		{"withdrawn", bot, "withdrawn", attach(func(c *chain) string { id := c.call(); c.withdraw(id); return id }, "r1")},
		{"session ended", bot, "ended", attach(func(c *chain) string { id := detached(c); c.end(); return id }, "r1")},
	})
}

func TestDetachValid(t *testing.T) {
	detach := func(prepare func(*chain) string, withdraw bool) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			return c.events(&journal.Detach{Call: prepare(c), Run: "r1", Withdraw: withdraw})
		}
	}
	open := func(c *chain) string { return c.call() }
	try(t, inSession, []rule{
		{"waiting", bot, "", detach(open, false)},
		{"by a decider", dec, "", detach(open, false)},
		{"from a started call", bot, "", detach(func(c *chain) string { return c.startedCall() }, false)},
		{"withdraw an undecided call", bot, "", detach(open, true)},
		{"withdraw an unspent allow", bot, "", detach(func(c *chain) string { return c.allowedCall() }, true)},
		{"withdraw a call that did not run", bot, "", detach(func(c *chain) string { id := c.startedCall(); c.result(id, journal.StatusNotRun); return id }, true)},
		{"withdraw a started call", bot, "started", detach(func(c *chain) string { return c.startedCall() }, true)},
		{"withdraw a finished call", bot, "started", detach(func(c *chain) string { id := c.startedCall(); c.result(id, journal.StatusError); return id }, true)},
		{"withdraw a call of unknown outcome", bot, "started", detach(func(c *chain) string { id := c.startedCall(); c.result(id, journal.StatusUnknown); return id }, true)},
		{"withdraw an accepted elicitation", bot, "started", detach(acceptedElicitation, true)},
		{"not waiting", bot, "not wait", detach(func(c *chain) string { id := c.call(); c.detach(id); return id }, false)},
		{"another run waits", bot, "not wait", detach(func(c *chain) string {
			c.add(bot, opened("other", "r2"))
			return c.add(bot, c.callBody("r2"))
		}, false)},
		{"run ended", bot, "ended", detach(func(c *chain) string { id := c.call(); c.close(); return id }, false)},
		{"another actor's run", bot2, "belongs", detach(open, false)},
		{"no such call", bot, "no call", detach((*chain).id, false)},
		{"session ended", bot, "ended", detach(func(c *chain) string { id := c.call(); c.end(); return id }, false)},
	})
}

// acceptedElicitation is an elicitation that ann accepted.
func acceptedElicitation(c *chain) string {
	id := c.call(elicitation(c.startedCall()))
	answer := c.answer(c.ask(id), ann, journal.Accept)
	c.add(dec, c.decisionBody(id, journal.Allow, byID(journal.ByAnswer, answer)))
	return id
}

func TestQuestionValid(t *testing.T) {
	ask := func(prepare func(*chain) string, options ...func(*journal.Question)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event { return c.events(c.questionBody(prepare(c), options...)) }
	}
	open := func(c *chain) string { return c.call() }
	need := func(stages ...journal.Stage) func(*journal.Question) {
		return func(q *journal.Question) { q.Need = stages }
	}
	try(t, inSession, []rule{
		{"undecided", dec, "", ask(open)},
		{"by an admin", root, "", ask(open)},
		{"of a detached call", dec, "", ask(func(c *chain) string { id := c.call(); c.detach(id); return id })},
		{"in the commit of its call", dec, "", func(c *chain) []journal.Event {
			sample := c.call()
			events := c.events(c.callBody("r1"), c.questionBody(sample))
			q := events[1].Body.(*journal.Question)
			q.Call = events[0].ID
			c.seal(q)
			return events
		}},
		{"of an elicitation", dec, "", ask(func(c *chain) string { return c.call(elicitation(c.startedCall())) })},
		{"no such call", dec, "no call", func(c *chain) []journal.Event {
			q := c.questionBody(c.call())
			q.Call = c.id()
			return c.events(c.seal(q))
		}},
		{"denied", dec, "undecided", ask(func(c *chain) string { id := c.call(); c.deny(id); return id })},
		{"allowed", dec, "undecided", ask(func(c *chain) string { return c.allowedCall() })},
		{"withdrawn", dec, "undecided", ask(func(c *chain) string { id := c.call(); c.withdraw(id); return id })},
		{"an attempt that is not the newest", dec, "undecided", ask(open, func(q *journal.Question) { q.Attempt = 2 })},
		{"asked already", dec, "has its question", ask(func(c *chain) string { id := c.call(); c.ask(id); return id })},
		{"another policy", dec, "policy", ask(open, func(q *journal.Question) { q.Policy = policyB })},
		{"another digest", dec, "digest", ask(open, func(q *journal.Question) { q.Digest = policyB })},
		{"shown is of something else", dec, "shown", one(func(c *chain) journal.Body {
			q := c.questionBody(c.call())
			q.View = json.RawMessage("1")
			return q
		})},
		{"no stage", dec, "stage", ask(open, need())},
		{"a stage that needs nobody", dec, "stage", ask(open, need(journal.Stage{Of: []string{}}))},
		{"a stage that cannot be filled", dec, "stage", ask(open, need(journal.Stage{Of: []string{"ann"}, Count: 2}))},
		{"a person twice in a stage", dec, "twice", ask(open, need(journal.Stage{Of: []string{"ann", "ann"}, Count: 2}))},
		{"a person with no name", dec, "principal", ask(open, func(q *journal.Question) { q.Who = []journal.Entitlement{{Of: []string{"a b"}}} })},
		{"a frontend with no name", dec, "frontend", ask(open, func(q *journal.Question) { q.Frontends = []journal.Frontend{{Name: "", For: []string{}}} })},
		{"a tool call asked as an elicitation", dec, "kind of call", ask(open, func(q *journal.Question) { q.Reason = journal.AskElicitation })},
		{"an elicitation asked as a tool call", dec, "kind of call", ask(func(c *chain) string { return c.call(elicitation(c.startedCall())) },
			func(q *journal.Question) { q.Reason = journal.AskRule })},
		{"note too long", dec, "note", ask(open, func(q *journal.Question) { q.Note = strings.Repeat("x", 16<<10+1) })},
		{"session ended", dec, "ended", func(c *chain) []journal.Event { q := c.questionBody(c.call()); c.end(); return c.events(q) }},
	})
	t.Run("no policy adopted", func(t *testing.T) {
		c := newChain(t)
		c.add(bot, opened("main", "r1"))
		call := c.call()
		c.add(dec, &journal.Adopt{Digest: policyA, Agent: "other"})
		q := &journal.Question{Call: call, Attempt: 1, Reason: journal.AskRule, Verdict: json.RawMessage(raw0), Policy: policyA, Digest: argsOne,
			Facts: json.RawMessage(raw0), Need: []journal.Stage{{Count: 1}}, View: json.RawMessage(raw0)}
		c.void(dec, "no policy", c.events(c.seal(q))...)
	})
}

const hour = time.Hour
