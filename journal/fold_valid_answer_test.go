package journal_test

import (
	"strings"
	"testing"
	"time"

	"decisionjournal/journal"
)

func toBy(of ...string) func(*journal.Question) {
	return func(q *journal.Question) { q.Who = []journal.Entitlement{{Of: of}} }
}

func needing(stages ...journal.Stage) func(*journal.Question) {
	return func(q *journal.Question) { q.Need = stages }
}

func due(d time.Duration) func(*journal.Question) {
	return func(q *journal.Question) { q.Deadline = at(d) }
}

func ungrantable(q *journal.Question) { q.Grantable = false }

func throughWeb(q *journal.Question) {
	q.Frontends = []journal.Frontend{{Name: "web", For: []string{"ann", "ben"}}}
}

func TestAnswerValid(t *testing.T) {
	// answer asks about a call, lets prepare act on the question, and answers as ann.
	answer := func(ask func(*journal.Question), prepare func(c *chain, question string), options ...func(*journal.Answer)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			q := c.ask(c.call(), ask)
			body := c.answerBody(q, ann, journal.AllowOnce, options...)
			prepare(c, q)
			return c.events(body)
		}
	}
	as := func(q *journal.Question) {}
	none := func(*chain, string) {}
	later := func(d time.Duration) func(*chain, string) {
		return func(c *chain, _ string) { c.now = epoch.Add(d) }
	}
	action := func(a string) func(*journal.Answer) { return func(b *journal.Answer) { b.Action = a } }
	person := func(by string) func(*journal.Answer) { return func(b *journal.Answer) { b.By = by } }
	via := func(by, via string) func(*journal.Answer) {
		return func(b *journal.Answer) { b.By, b.Via = by, via }
	}
	two := needing(journal.Stage{Of: []string{}, Count: 2})
	escalating := func(q *journal.Question) {
		q.Who = []journal.Entitlement{{Of: []string{"ben"}}, {Of: []string{}, From: at(hour)}}
	}
	annRuns := func(c *chain) []journal.Event {
		own := who{Role: journal.RoleAgent, Actor: "ann"}
		c.add(own, opened("other", "r2"))
		return c.events(c.answerBody(c.ask(c.add(own, c.callBody("r2"))), ann, journal.AllowOnce))
	}
	annWrote := func(c *chain) []journal.Event {
		own := who{Role: journal.RoleDecider, Actor: "ann"}
		return c.events(c.answerBody(c.ask(c.add(own, c.callBody("r1"))), ann, journal.AllowOnce))
	}
	annWaits := func(c *chain) []journal.Event {
		own := who{Role: journal.RoleDecider, Actor: "ann"}
		call := c.call()
		c.close()
		c.add(own, opened("main", "r2"))
		c.add(own, &journal.Attach{Call: call, Run: "r2"})
		return c.events(c.answerBody(c.ask(call), ann, journal.AllowOnce))
	}
	try(t, inSession, []rule{
		{"by any approver", ann, "", answer(as, none)},
		{"by an admin for itself", root, "", answer(as, none, person("root"))},
		{"by an entitled one", ann, "", answer(toBy("ben", "ann"), none)},
		{"always", ann, "", answer(as, none, action(journal.AlwaysAllow))},
		{"an action nobody knows", ann, "", answer(as, none, action("perhaps"))},
		{"no action", ann, "", answer(as, none, action(""))},
		{"a second vote", ann, "", answer(two, func(c *chain, q string) { c.answer(q, ben, journal.AllowOnce) })},
		{"a vote that no stage counts before", ann, "", answer(needing(journal.Stage{Of: []string{"ann"}, Count: 1}), func(c *chain, q string) { c.answer(q, ben, journal.AllowOnce) })},
		{"just before the deadline", ann, "", answer(due(hour), later(hour-1))},
		{"entitled by now", ann, "", answer(escalating, later(hour))},
		{"through a frontend", web, "", answer(throughWeb, none, via("ann", "web"))},
		{"with the waiter gone", ann, "", answer(as, func(c *chain, _ string) { c.close() })},
		{"no such question", ann, "no question", answer(as, none, func(b *journal.Answer) { b.Question = someID })},
		{"its need is filled", ann, "settled", answer(as, func(c *chain, q string) { c.answer(q, ben, journal.AllowOnce) })},
		{"refused", ann, "settled", answer(two, func(c *chain, q string) { c.answer(q, ben, journal.DenyOnce) })},
		{"refused by an action nobody knows", ann, "settled", answer(two, func(c *chain, q string) { c.answer(q, ben, "perhaps") })},
		{"decided", ann, "settled", answer(as, func(c *chain, q string) { c.deny(c.st.Question(q).Call) })},
		{"lapsed", ann, "settled", answer(as, func(c *chain, q string) {
			c.add(dec, &journal.Adopt{Digest: policyB}, &journal.Lapse{Question: q, Reason: journal.LapsePolicy})
		})},
		{"withdrawn", ann, "settled", answer(as, func(c *chain, q string) { c.withdraw(c.st.Question(q).Call) })},
		{"at the deadline", ann, "deadline", answer(due(hour), later(hour))},
		{"not entitled", ann, "not entitled", answer(toBy("ben"), none)},
		{"not entitled yet", ann, "not entitled", answer(escalating, later(hour-1))},
		{"not entitled through a frontend", web, "not entitled", answer(func(q *journal.Question) { throughWeb(q); toBy("ben")(q) }, none, via("ann", "web"))},
		{"the frontend itself not entitled", web, "not entitled", answer(func(q *journal.Question) { throughWeb(q); toBy("ann")(q) }, none, person("web"))},
		{"by the actor who opened the call's run", ann, "asked", annRuns},
		{"by the actor who wrote the call", ann, "asked", annWrote},
		{"by the actor whose run waits", ann, "asked", annWaits},
		{"for another person", ann, "may not answer for", answer(as, none, person("ben"))},
		{"for another person in the frontend's name", ann, "may not answer for", answer(throughWeb, none, via("ben", "web"))},
		{"through a frontend for somebody not listed", web, "may not answer for", answer(throughWeb, none, via("eve", "web"))},
		{"through a frontend not named", web, "may not answer for", answer(throughWeb, none, person("ann"))},
		{"by no name", ann, "by", answer(as, none, person("a.b"))},
		{"shown another", ann, "shown", answer(as, none, func(b *journal.Answer) { b.Shown = policyA })},
		{"always where it is not grantable", ann, "grantable", answer(ungrantable, none, action(journal.AlwaysAllow))},
		{"always deny where it is not grantable", ann, "grantable", answer(ungrantable, none, action(journal.AlwaysDeny))},
		{"a second time", ann, "has answered", answer(two, func(c *chain, q string) { c.answer(q, ann, journal.AllowOnce) })},
		{"a second time through a frontend", web, "has answered", answer(func(q *journal.Question) { throughWeb(q); two(q) },
			func(c *chain, q string) { c.answer(q, ann, journal.AllowOnce) }, via("ann", "web"))},
		{"action too long", ann, "action", answer(as, none, action(strings.Repeat("x", 1025)))},
		{"note too long", ann, "note", answer(as, none, func(b *journal.Answer) { b.Note = strings.Repeat("x", 16<<10+1) })},
		{"session ended", ann, "ended", answer(as, func(c *chain, _ string) { c.end() })},
	})
}

// refusedCall is a call whose question ann refused.
func refusedCall(c *chain, options ...func(*journal.Call)) (call, answer string) {
	call = c.call(options...)
	answer = c.answer(c.ask(call), ann, journal.DenyOnce)
	return call, answer
}

func TestDecisionValid(t *testing.T) {
	decide := func(outcome journal.Outcome, by func(c *chain) (call string, causes []journal.Cause), options ...func(*journal.Decision)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			call, causes := by(c)
			return c.events(with(c.decisionBody(call, outcome, causes...), options))
		}
	}
	cite := func(causes ...journal.Cause) func(*chain) (string, []journal.Cause) {
		return func(c *chain) (string, []journal.Cause) { return c.call(), causes }
	}
	plain := cite(byRule())
	// answered cites an answer with action to the call's own question.
	answered := func(action string, ask func(*journal.Question)) func(*chain) (string, []journal.Cause) {
		return func(c *chain) (string, []journal.Cause) {
			call := c.call()
			return call, []journal.Cause{byID(journal.ByAnswer, c.answer(c.ask(call, ask), ann, action))}
		}
	}
	// granted cites a grant, after prepare, for a new call.
	granted := func(prepare func(c *chain, grant string), grant *journal.Grant, options ...func(*journal.Call)) func(*chain) (string, []journal.Cause) {
		return func(c *chain) (string, []journal.Cause) {
			id := c.add(dec, grant)
			prepare(c, id)
			return c.call(options...), []journal.Cause{byID(journal.ByGrant, id)}
		}
	}
	as := func(*journal.Question) {}
	none := func(*chain, string) {}
	// other cites an answer about another call.
	other := func(action string, options ...func(*journal.Call)) func(*chain) (string, []journal.Cause) {
		return func(c *chain) (string, []journal.Cause) {
			first := c.call()
			answer := c.answer(c.ask(first), ann, action)
			return c.call(options...), []journal.Cause{byID(journal.ByAnswer, answer)}
		}
	}
	asked := func(cause journal.Cause) func(*chain) (string, []journal.Cause) {
		return func(c *chain) (string, []journal.Cause) {
			call := c.call()
			c.ask(call)
			return call, []journal.Cause{cause}
		}
	}
	revoked := func(c *chain, g string) { c.add(ann, &journal.Revoke{Grant: g}) }
	spent := func(c *chain, g string) { c.start(c.byGrant(g)) }
	expired := func(c *chain, _ string) { c.now = epoch.Add(hour) }
	denying := func(g *journal.Grant) { g.Rules = grantBody("", denyRule).Rules }
	once := func(g *journal.Grant) { g.Uses = 1 }
	forAnHour := func(g *journal.Grant) { g.Expires = at(hour) }
	two := needing(journal.Stage{Of: []string{}, Count: 2})
	try(t, inSession, []rule{
		{"allow by rule", dec, "", decide(journal.Allow, plain)},
		{"deny by rule", dec, "", decide(journal.Deny, plain)},
		{"by an admin", root, "", decide(journal.Deny, plain)},
		{"deny headless", dec, "", decide(journal.Deny, cite(journal.Cause{Kind: journal.ByHeadless}))},
		{"deny interrupted", dec, "", decide(journal.Deny, cite(journal.Cause{Kind: journal.ByInterrupted}))},
		{"deny by error", dec, "", decide(journal.Deny, cite(journal.Cause{Kind: journal.ByError}))},
		{"allow by grant", dec, "", decide(journal.Allow, granted(none, imported()))},
		{"deny by grant", dec, "", decide(journal.Deny, granted(none, imported(denying)))},
		{"allow by answer", dec, "", decide(journal.Allow, answered(journal.AllowOnce, as))},
		{"deny by answer", dec, "", decide(journal.Deny, answered(journal.DenyOnce, as))},
		{"deny by an answer nobody knows", dec, "", decide(journal.Deny, answered("perhaps", as))},
		{"deny by an unusable answer", dec, "", decide(journal.Deny, func(c *chain) (string, []journal.Cause) {
			call, causes := answered(journal.AlwaysAllow, as)(c)
			causes[0].Kind = journal.ByUnusable
			return call, causes
		})},
		{"deny by the answer to an identical call", dec, "", decide(journal.Deny, other(journal.DenyOnce))},
		{"allow by rule and grant", dec, "", decide(journal.Allow, func(c *chain) (string, []journal.Cause) {
			call, causes := granted(none, imported())(c)
			return call, append(causes, byRule())
		})},
		{"an open question decided by rule", dec, "", decide(journal.Allow, asked(byRule()))},
		{"in the commit of its call", dec, "", func(c *chain) []journal.Event {
			d := c.decisionBody(c.call(), journal.Allow, byRule())
			events := c.events(c.callBody("r1"), d)
			d.Call = events[0].ID
			return events
		}},
		{"no such call", dec, "no call", decide(journal.Deny, plain, func(d *journal.Decision) { d.Call = someID })},
		{"decided", dec, "undecided", decide(journal.Deny, func(c *chain) (string, []journal.Cause) {
			return c.allowedCall(), []journal.Cause{byRule()}
		})},
		{"twice in one commit", dec, "undecided", func(c *chain) []journal.Event {
			d := c.decisionBody(c.call(), journal.Allow, byRule())
			return c.events(d, d)
		}},
		{"withdrawn", dec, "undecided", decide(journal.Deny, func(c *chain) (string, []journal.Cause) {
			call := c.call()
			c.withdraw(call)
			return call, []journal.Cause{byRule()}
		})},
		{"another attempt", dec, "undecided", decide(journal.Deny, plain, func(d *journal.Decision) { d.Attempt = 2 })},
		{"another policy", dec, "policy", decide(journal.Deny, plain, func(d *journal.Decision) { d.Policy = policyB })},
		{"the policy before", dec, "policy", decide(journal.Deny, func(c *chain) (string, []journal.Cause) {
			c.add(dec, &journal.Adopt{Digest: policyB, Agent: "main"})
			return c.call(), []journal.Cause{byRule()}
		}, func(d *journal.Decision) { d.Policy = policyA })},
		{"another digest", dec, "digest", decide(journal.Deny, plain, func(d *journal.Decision) { d.Digest = policyB })},
		{"message too long", dec, "message", decide(journal.Deny, plain, func(d *journal.Decision) { d.Message = strings.Repeat("x", 16<<10+1) })},
		{"by nothing", dec, "nothing that made it", decide(journal.Deny, cite())},
		{"a rule that is not named", dec, "as its kind asks", decide(journal.Deny, cite(journal.Cause{Kind: journal.ByRule}))},
		{"a rule with an id", dec, "as its kind asks", decide(journal.Deny, cite(journal.Cause{Kind: journal.ByRule, Rule: byRule().Rule, ID: someID}))},
		{"an answer with a rule", dec, "as its kind asks", decide(journal.Deny, cite(journal.Cause{Kind: journal.ByAnswer, Rule: byRule().Rule, ID: someID}))},
		{"a grant that is not named", dec, "as its kind asks", decide(journal.Deny, cite(journal.Cause{Kind: journal.ByGrant}))},
		{"headless with an id", dec, "as its kind asks", decide(journal.Deny, cite(byID(journal.ByHeadless, someID)))},
		{"no such grant", dec, "no such grant", decide(journal.Allow, cite(byID(journal.ByGrant, someID)))},
		{"a grant revoked", dec, "not in force", decide(journal.Allow, granted(revoked, imported()))},
		{"a grant expired", dec, "not in force", decide(journal.Allow, granted(expired, imported(forAnHour)))},
		{"a grant used up", dec, "not in force", decide(journal.Allow, granted(spent, imported(once)))},
		{"a grant of another layer", dec, "layer", decide(journal.Allow, granted(none, imported(), inLayer("inner")))},
		{"allow by a deny grant", dec, "grant to deny", decide(journal.Allow, granted(none, imported(denying)))},
		{"deny by an allow grant", dec, "grant to allow", decide(journal.Deny, granted(none, imported()))},
		{"no such answer", dec, "no such answer", decide(journal.Allow, cite(byID(journal.ByAnswer, someID)))},
		{"allow by a denial", dec, "refused", func(c *chain) []journal.Event {
			call, _ := refusedCall(c)
			return c.events(c.decisionBody(call, journal.Allow, byRule()))
		}},
		{"allow by an answer that denies", dec, "it says", decide(journal.Allow, answered(journal.DenyOnce, as))},
		{"allow by an answer nobody knows", dec, "it says", decide(journal.Allow, answered("allow", as))},
		{"deny by an answer that allows", dec, "it says", decide(journal.Deny, answered(journal.AllowOnce, as))},
		{"allow before the need is filled", dec, "more answers", decide(journal.Allow, answered(journal.AllowOnce, two))},
		{"allow by a vote that no stage counts", dec, "more answers", decide(journal.Allow, answered(journal.AllowOnce, needing(journal.Stage{Of: []string{"ben"}, Count: 1})))},
		{"allow by the answer to an identical call", dec, "another question", decide(journal.Allow, other(journal.AllowOnce))},
		{"deny by the answer to another call", dec, "another call", decide(journal.Deny, other(journal.DenyOnce, digested(policyA)))},
		{"deny by the answer to a call beside a keyed one", dec, "another call", decide(journal.Deny, other(journal.DenyOnce, keyed("k")))},
		{"unusable: no such answer", dec, "no such answer", decide(journal.Deny, asked(byID(journal.ByUnusable, someID)))},
		{"unusable: the answer to another question", dec, "no such answer", decide(journal.Deny, func(c *chain) (string, []journal.Cause) {
			call, causes := other(journal.DenyOnce)(c)
			causes[0].Kind = journal.ByUnusable
			return call, causes
		})},
		{"lapse: none", dec, "no such lapse", decide(journal.Deny, asked(byID(journal.ByLapse, someID)))},
		{"lapse: no question", dec, "no such lapse", decide(journal.Deny, cite(byID(journal.ByLapse, someID)))},
		{"headless with a question", dec, "has a question", decide(journal.Deny, asked(journal.Cause{Kind: journal.ByHeadless}))},
		{"allow headless", dec, "cannot allow", decide(journal.Allow, cite(journal.Cause{Kind: journal.ByHeadless}))},
		{"allow by interrupted", dec, "cannot allow", decide(journal.Allow, cite(journal.Cause{Kind: journal.ByInterrupted}))},
		{"allow by error", dec, "cannot allow", decide(journal.Allow, cite(journal.Cause{Kind: journal.ByError}))},
		{"allow by an unusable answer", dec, "cannot allow", decide(journal.Allow, asked(byID(journal.ByUnusable, someID)))},
		{"allow by lapse", dec, "cannot allow", decide(journal.Allow, asked(byID(journal.ByLapse, someID)))},
		{"allow by rule and error", dec, "cannot allow", decide(journal.Allow, cite(byRule(), journal.Cause{Kind: journal.ByError}))},
		{"session ended", dec, "ended", func(c *chain) []journal.Event {
			d := c.decisionBody(c.call(), journal.Deny, byRule())
			c.end()
			return c.events(d)
		}},
	})
	t.Run("elicitation", func(t *testing.T) { try(t, inSession, elicitationDecisions()) })
}

func elicitationDecisions() []rule {
	answered := func(action string, outcome journal.Outcome) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			call := c.call(elicitation(c.startedCall()))
			answer := c.answer(c.ask(call), ann, action)
			return c.events(c.decisionBody(call, outcome, byID(journal.ByAnswer, answer)))
		}
	}
	return []rule{
		{"accepted", dec, "", answered(journal.Accept, journal.Allow)},
		{"declined", dec, "", answered(journal.Decline, journal.Deny)},
		{"cancelled", dec, "", answered(journal.Cancel, journal.Deny)},
		{"headless", dec, "", one(func(c *chain) journal.Body {
			return c.decisionBody(c.call(elicitation(c.startedCall())), journal.Deny, journal.Cause{Kind: journal.ByHeadless})
		})},
		{"allow-once is no accept", dec, "it says", answered(journal.AllowOnce, journal.Allow)},
		{"declined, yet allowed", dec, "it says", answered(journal.Decline, journal.Allow)},
		{"allowed by rule", dec, "accepted by an answer", one(func(c *chain) journal.Body {
			return c.decisionBody(c.call(elicitation(c.startedCall())), journal.Allow, byRule())
		})},
	}
}
