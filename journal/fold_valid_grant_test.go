package journal_test

import (
	"encoding/json"
	"testing"

	"decisionjournal/journal"
)

func TestGrantValid(t *testing.T) {
	// granting settles ann's answer with a grant that options change.
	granting := func(answer func(*journal.Answer), options ...func(*journal.Grant)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			q := c.ask(c.call())
			return c.settle(q, c.answer(q, ann, journal.AlwaysAllow, answer), c.id(), options...)
		}
	}
	rules := func(rules ...string) func(*journal.Grant) {
		return func(g *journal.Grant) { g.Rules = grantBody("", rules...).Rules }
	}
	as := func(*journal.Answer) {}
	saying := func(rules string) func(*journal.Answer) {
		return func(b *journal.Answer) { b.Rules = json.RawMessage(rules) }
	}
	origin := func(o journal.Origin, options ...func(*journal.Grant)) func(*chain) []journal.Event {
		return one(func(*chain) journal.Body {
			g := imported(options...)
			g.Origin = &o
			return g
		})
	}
	two := func(second string, options ...func(*journal.Grant)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			q := c.ask(c.call(), needing(journal.Stage{Of: []string{}, Count: 2}))
			first := c.answer(q, ann, journal.AlwaysAllow)
			last := c.answer(q, ben, second)
			events := c.settle(q, first, c.id(), options...)
			d := events[1].Body.(*journal.Decision)
			d.By = append(d.By, byID(journal.ByAnswer, last))
			return events
		}
	}
	change := func(events func(*chain) []journal.Event, edit func(c *chain, d *journal.Decision)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			list := events(c)
			edit(c, list[1].Body.(*journal.Decision))
			return list
		}
	}
	const wide, inner = `{"decision":"allow","tool":"*"}`, `{"decision":"allow","tool":"u"}`
	try(t, inSession, []rule{
		{"of the suggestion", dec, "", granting(as)},
		{"of the answer's rule", dec, "", granting(func(b *journal.Answer) { b.Rule = json.RawMessage(`{"tool":"*"}`) }, rules(wide))},
		{"of the answer's rules", dec, "", granting(saying(`[{"tool":"*"},{"tool":"u"}]`), rules(wide, inner))},
		{"decision from the action", dec, "", granting(saying(`[{"decision":"deny","tool":"*"}]`), rules(wide))},
		{"with expiry and uses", dec, "", granting(func(b *journal.Answer) { b.Expires, b.Uses = at(hour), 3 })},
		{"of two equal answers", dec, "", two(journal.AlwaysAllow)},
		{"to deny", dec, "", func(c *chain) []journal.Event {
			q := c.ask(c.call())
			answer := c.answer(q, ann, journal.AlwaysDeny)
			g := journal.NewEvent(c.id(), grantBody(q, denyRule))
			d := c.decisionBody(c.st.Question(q).Call, journal.Deny, byID(journal.ByAnswer, answer), byID(journal.ByGrant, g.ID))
			return append([]journal.Event{g}, c.events(d)...)
		}},
		{"of a book", dec, "", origin(journal.Origin{Session: "book", Grant: someID})},
		{"of an import", dec, "", origin(journal.Origin{Import: "file"})},
		{"of an import, in another layer", dec, "", origin(journal.Origin{Import: "file"}, func(g *journal.Grant) { g.Layer = "inner" })},
		{"without its decision", dec, "no decision", func(c *chain) []journal.Event { return granting(as)(c)[:1] }},
		{"after its decision", dec, "no such grant", func(c *chain) []journal.Event {
			list := granting(as)(c)
			return []journal.Event{list[1], list[0]}
		}},
		{"a decision that does not cite it", dec, "no decision", change(granting(as), func(c *chain, d *journal.Decision) { d.By = d.By[:1] })},
		{"a decision about another attempt", dec, "no decision", change(granting(as), func(c *chain, d *journal.Decision) { d.Attempt = 2 })},
		{"a decision that cites no answer", dec, "cites no answer", change(granting(as), func(c *chain, d *journal.Decision) { d.By = d.By[1:] })},
		{"a decision that denies", dec, "it says", change(granting(as), func(c *chain, d *journal.Decision) { d.Outcome = journal.Deny })},
		{"other rules than the suggestion", dec, "rules are not its", granting(as, rules(wide))},
		{"more rules than the suggestion", dec, "rules are not its", granting(as, rules(allowRule, wide))},
		{"the suggestion where the answer has rules", dec, "rules are not its", granting(saying(`[{"tool":"*"}]`))},
		{"to deny what is always allowed", dec, "rules are not its", granting(as, rules(denyRule))},
		{"of an answer for once", dec, "leaves no grant", granting(func(b *journal.Answer) { b.Action = journal.AllowOnce })},
		{"of two answers, one for once", dec, "leaves no grant", two(journal.AllowOnce)},
		{"both rule and rules", dec, "both", granting(func(b *journal.Answer) { b.Rule, b.Rules = json.RawMessage(`{"tool":"t"}`), json.RawMessage(`[]`) })},
		{"an answer with no rules", dec, "no rules", granting(saying("[]"))},
		{"an answer with rules of no list", dec, "rules", granting(saying("{}"))},
		{"an answer with a rule of no object", dec, "rule 1", granting(saying("[1]"))},
		{"another expiry", dec, "expiry or uses", granting(as, func(g *journal.Grant) { g.Expires = at(hour) })},
		{"no expiry where the answer has one", dec, "expiry or uses", granting(func(b *journal.Answer) { b.Expires = at(hour) }, func(g *journal.Grant) { g.Expires = journal.Time{} })},
		{"more uses", dec, "expiry or uses", granting(func(b *journal.Answer) { b.Uses = 1 }, func(g *journal.Grant) { g.Uses = 2 })},
		{"no limit where the answer has one", dec, "expiry or uses", granting(func(b *journal.Answer) { b.Uses = 1 }, func(g *journal.Grant) { g.Uses = 0 })},
		{"another layer", dec, "layer", granting(as, func(g *journal.Grant) { g.Layer = "inner" })},
		{"layer no name", dec, "layer", granting(as, func(g *journal.Grant) { g.Layer = "a.b" })},
		{"no rules", dec, "has rules", granting(as, rules())},
		{"rules of two minds", dec, "all allow, or all deny", granting(as, rules(allowRule, denyRule))},
		{"a rule that asks", dec, "all allow, or all deny", granting(as, rules(`{"decision":"ask","tool":"t"}`))},
		{"a rule without decision", dec, "all allow, or all deny", granting(as, rules(`{"tool":"t"}`))},
		{"a rule of no object", dec, "all allow, or all deny", granting(as, rules(`1`))},
		{"no such question", dec, "no open question", granting(as, func(g *journal.Grant) { g.Question = someID })},
		{"a question that is over", dec, "no open question", func(c *chain) []journal.Event {
			list := granting(as)(c)
			c.deny(list[1].Body.(*journal.Decision).Call)
			return list
		}},
		{"a question and an origin", dec, "question or an origin", granting(as, func(g *journal.Grant) { g.Origin = &journal.Origin{Import: "file"} })},
		{"neither question nor origin", dec, "question or an origin", one(func(*chain) journal.Body { return imported(func(g *journal.Grant) { g.Origin = nil }) })},
		{"an origin of nothing", dec, "an origin is", origin(journal.Origin{})},
		{"an origin of two kinds", dec, "an origin is", origin(journal.Origin{Session: "book", Grant: someID, Import: "file"})},
		{"a book without its grant", dec, "an origin is", origin(journal.Origin{Session: "book"})},
		{"a book's grant of no id", dec, "origin grant", origin(journal.Origin{Session: "book", Grant: "g"})},
		{"a book of no name", dec, "origin session", origin(journal.Origin{Session: "a.b", Grant: someID})},
		{"session ended", dec, "ended", func(c *chain) []journal.Event { list := granting(as)(c); c.end(); return list }},
	})
}

func TestRevokeValid(t *testing.T) {
	revoke := func(grant func(*chain) string) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event { return c.events(&journal.Revoke{Grant: grant(c)}) }
	}
	granted := func(c *chain) string { _, g := c.grantedCall(); return g }
	lonely := func(c *chain) string {
		call := c.call()
		q := c.ask(call, toBy("ann"))
		answer, g := c.answer(q, ann, journal.AlwaysAllow), c.id()
		c.append(dec, c.settle(q, answer, g)...)
		return g
	}
	try(t, inSession, []rule{
		{"entitled to its question", ann, "", revoke(lonely)},
		{"any approver, of a question to all", ben, "", revoke(granted)},
		{"any approver, without question", ben, "", revoke(func(c *chain) string { return c.add(dec, imported()) })},
		{"by an admin", root, "", revoke(granted)},
		{"no such grant", ann, "no grant", revoke((*chain).id)},
		{"revoked", ann, "revoked", revoke(func(c *chain) string { g := granted(c); c.add(ann, &journal.Revoke{Grant: g}); return g })},
		{"expired", ann, "expired", revoke(func(c *chain) string {
			g := c.add(dec, imported(func(g *journal.Grant) { g.Expires = at(hour) }))
			c.now = epoch.Add(hour)
			return g
		})},
		{"used up", ann, "used up", revoke(func(c *chain) string {
			call, g := c.grantedCall(func(b *journal.Answer) { b.Uses = 1 })
			c.start(call)
			return g
		})},
		{"lapsed", ann, "book", revoke(func(c *chain) string {
			g := bookGrant(c)
			c.add(dec, &journal.Lapse{Grant: g, Reason: journal.LapseBook})
			return g
		})},
		{"ended by a repair", ann, "repaired", revoke(func(c *chain) string { g := granted(c); c.repair(c.lose()); return g })},
		{"not entitled to its question", ben, "not entitled", revoke(lonely)},
		{"session ended", ann, "ended", revoke(func(c *chain) string { g := granted(c); c.end(); return g })},
	})
}

// bookGrant is a grant that came from a book.
func bookGrant(c *chain) string {
	return c.add(dec, imported(func(g *journal.Grant) { g.Origin = &journal.Origin{Session: "book", Grant: someID} }))
}

func TestLapseValid(t *testing.T) {
	question := func(reason journal.LapseReason, prepare func(c *chain, q string), options ...func(*journal.Question)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			q := c.ask(c.call(), options...)
			prepare(c, q)
			return c.events(&journal.Lapse{Question: q, Reason: reason})
		}
	}
	allow := func(reason journal.LapseReason, prepare func(c *chain) (decision string)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			return c.events(&journal.Lapse{Decision: prepare(c), Reason: reason})
		}
	}
	grant := func(reason journal.LapseReason, prepare func(c *chain) string) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			return c.events(&journal.Lapse{Grant: prepare(c), Reason: reason})
		}
	}
	try(t, inSession, lapsesOfQuestions(question))
	t.Run("decision", func(t *testing.T) { try(t, inSession, lapsesOfDecisions(allow)) })
	t.Run("grant", func(t *testing.T) { try(t, inSession, lapsesOfGrants(grant)) })
}

// atDeadline is the commit of a question's deadline, changed by edit.
func atDeadline(passed bool, edit func(l *journal.Lapse, d *journal.Decision)) func(*chain) []journal.Event {
	return func(c *chain) []journal.Event {
		call := c.call()
		q := c.ask(call, due(hour))
		if passed {
			c.now = epoch.Add(hour)
		}
		l := journal.NewEvent(c.id(), &journal.Lapse{Question: q, Reason: journal.LapseDeadline})
		d := c.decisionBody(call, journal.Deny, byID(journal.ByLapse, l.ID))
		edit(l.Body.(*journal.Lapse), d)
		return append([]journal.Event{l}, c.events(d)...)
	}
}

func lapsesOfQuestions(question func(journal.LapseReason, func(*chain, string), ...func(*journal.Question)) func(*chain) []journal.Event) []rule {
	none := func(*chain, string) {}
	as := func(*journal.Lapse, *journal.Decision) {}
	adopt := func(c *chain, _ string) { c.add(dec, &journal.Adopt{Digest: policyB}) }
	return []rule{
		{"deadline", dec, "", atDeadline(true, as)},
		{"policy", dec, "", question(journal.LapsePolicy, adopt)},
		{"by an admin", root, "", question(journal.LapsePolicy, adopt)},
		{"deadline not reached", dec, "deadline has not passed", atDeadline(false, as)},
		{"deadline without the decision", dec, "no decision", func(c *chain) []journal.Event { return atDeadline(true, as)(c)[:1] }},
		{"deadline after the decision", dec, "no such lapse", func(c *chain) []journal.Event {
			list := atDeadline(true, as)(c)
			return []journal.Event{list[1], list[0]}
		}},
		{"deadline with a decision by something else", dec, "no decision", atDeadline(true, func(_ *journal.Lapse, d *journal.Decision) { d.By = []journal.Cause{byRule()} })},
		{"deadline with an allow", dec, "no decision", atDeadline(true, func(_ *journal.Lapse, d *journal.Decision) {
			d.Outcome, d.By = journal.Allow, []journal.Cause{byRule()}
		})},
		{"deadline with a decision about another attempt", dec, "no decision", atDeadline(true, func(_ *journal.Lapse, d *journal.Decision) { d.Attempt = 2 })},
		{"deadline of a question that has none", dec, "deadline has not passed", question(journal.LapseDeadline, none)},
		{"policy is the adopted one", dec, "adopted policy", question(journal.LapsePolicy, none)},
		{"policy of another scope", dec, "adopted policy", question(journal.LapsePolicy, func(c *chain, _ string) { c.add(dec, &journal.Adopt{Digest: policyB, Layer: "inner"}) })},
		{"no such question", dec, "no open question", one(func(c *chain) journal.Body { return &journal.Lapse{Question: c.id(), Reason: journal.LapsePolicy} })},
		{"question decided", dec, "no open question", question(journal.LapsePolicy, func(c *chain, q string) { adopt(c, q); c.deny(c.st.Question(q).Call) })},
		{"question lapsed", dec, "no open question", question(journal.LapsePolicy, func(c *chain, q string) {
			adopt(c, q)
			c.add(dec, &journal.Lapse{Question: q, Reason: journal.LapsePolicy})
		})},
		{"question revoked", dec, "does not lapse", question(journal.LapseRevoked, adopt)},
		{"question expired", dec, "does not lapse", question(journal.LapseExpired, adopt)},
		{"question overtaken", dec, "does not lapse", question(journal.LapseOvertaken, adopt)},
		{"question by its book", dec, "does not lapse", question(journal.LapseBook, adopt)},
		{"nothing named", dec, "names one", one(func(*chain) journal.Body { return &journal.Lapse{Reason: journal.LapsePolicy} })},
		{"two things named", dec, "names one", one(func(c *chain) journal.Body {
			call := c.allowedCall()
			return &journal.Lapse{Decision: c.st.Call(call).Last().Decision, Grant: c.add(dec, imported()), Reason: journal.LapseExpired}
		})},
		{"session ended", dec, "ended", question(journal.LapsePolicy, func(c *chain, q string) { adopt(c, q); c.end() })},
	}
}

func lapsesOfDecisions(allow func(journal.LapseReason, func(*chain) string) func(*chain) []journal.Event) []rule {
	decided := func(c *chain) string { return c.allow(c.call()) }
	byRevoked := func(c *chain) string {
		call, g := c.grantedCall()
		c.add(ann, &journal.Revoke{Grant: g})
		return c.st.Call(call).Last().Decision
	}
	usedUp := func(c *chain) string {
		first, g := c.grantedCall(func(b *journal.Answer) { b.Uses = 1 })
		second := c.byGrant(g)
		c.start(first)
		return c.st.Call(second).Last().Decision
	}
	grantExpired := func(c *chain) string {
		call, _ := c.grantedCall(func(b *journal.Answer) { b.Expires = at(hour) })
		c.now = epoch.Add(hour)
		return c.st.Call(call).Last().Decision
	}
	expiring := func(after bool) func(*chain) string {
		return func(c *chain) string {
			d := c.decisionBody(c.call(), journal.Allow, byRule())
			d.Expires = at(hour)
			id := c.add(dec, d)
			if after {
				c.now = epoch.Add(hour)
			}
			return id
		}
	}
	newPolicy := func(c *chain) string {
		id := decided(c)
		c.add(dec, &journal.Adopt{Digest: policyB})
		return id
	}
	return []rule{
		{"policy", dec, "", allow(journal.LapsePolicy, newPolicy)},
		{"revoked", dec, "", allow(journal.LapseRevoked, byRevoked)},
		{"expired by itself", dec, "", allow(journal.LapseExpired, expiring(true))},
		{"expired with its grant", dec, "", allow(journal.LapseExpired, grantExpired)},
		{"overtaken", dec, "", allow(journal.LapseOvertaken, usedUp)},
		{"policy is the adopted one", dec, "does not hold", allow(journal.LapsePolicy, decided)},
		{"no grant revoked", dec, "does not hold", allow(journal.LapseRevoked, func(c *chain) string {
			call, _ := c.grantedCall()
			return c.st.Call(call).Last().Decision
		})},
		{"no grant at all", dec, "does not hold", allow(journal.LapseRevoked, decided)},
		{"not expired", dec, "does not hold", allow(journal.LapseExpired, expiring(false))},
		{"no expiry", dec, "does not hold", allow(journal.LapseExpired, decided)},
		{"uses left", dec, "does not hold", allow(journal.LapseOvertaken, func(c *chain) string {
			first, g := c.grantedCall(func(b *journal.Answer) { b.Uses = 2 })
			second := c.byGrant(g)
			c.start(first)
			return c.st.Call(second).Last().Decision
		})},
		{"deadline", dec, "does not hold", allow(journal.LapseDeadline, newPolicy)},
		{"book", dec, "does not hold", allow(journal.LapseBook, byRevoked)},
		{"no such decision", dec, "no decision", allow(journal.LapsePolicy, (*chain).id)},
		{"a denial", dec, "not an unspent allow", allow(journal.LapsePolicy, func(c *chain) string {
			id := c.deny(c.call())
			c.add(dec, &journal.Adopt{Digest: policyB})
			return id
		})},
		{"spent", dec, "not an unspent allow", allow(journal.LapsePolicy, func(c *chain) string {
			call := c.startedCall()
			c.add(dec, &journal.Adopt{Digest: policyB})
			return c.st.Call(call).Last().Decision
		})},
		{"lapsed", dec, "not an unspent allow", allow(journal.LapsePolicy, func(c *chain) string {
			id := newPolicy(c)
			c.add(dec, &journal.Lapse{Decision: id, Reason: journal.LapsePolicy})
			return id
		})},
		{"withdrawn", dec, "not an unspent allow", allow(journal.LapsePolicy, func(c *chain) string {
			id := newPolicy(c)
			c.withdraw(c.st.Decision(id).Call)
			return id
		})},
	}
}

func lapsesOfGrants(grant func(journal.LapseReason, func(*chain) string) func(*chain) []journal.Event) []rule {
	expiring := func(after bool) func(*chain) string {
		return func(c *chain) string {
			id := c.add(dec, imported(func(g *journal.Grant) { g.Expires = at(hour) }))
			if after {
				c.now = epoch.Add(hour)
			}
			return id
		}
	}
	lasting := func(c *chain) string { return c.add(dec, imported()) }
	return []rule{
		{"expired", dec, "", grant(journal.LapseExpired, expiring(true))},
		{"book", dec, "", grant(journal.LapseBook, bookGrant)},
		{"not expired", dec, "does not hold", grant(journal.LapseExpired, expiring(false))},
		{"no expiry", dec, "does not hold", grant(journal.LapseExpired, lasting)},
		{"of no book", dec, "does not hold", grant(journal.LapseBook, lasting)},
		{"policy", dec, "does not hold", grant(journal.LapsePolicy, lasting)},
		{"revoked", dec, "does not hold", grant(journal.LapseRevoked, lasting)},
		{"no such grant", dec, "no grant", grant(journal.LapseExpired, (*chain).id)},
		{"ended", dec, "no grant", grant(journal.LapseBook, func(c *chain) string { g := bookGrant(c); c.add(ann, &journal.Revoke{Grant: g}); return g })},
	}
}
