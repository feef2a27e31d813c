package journal_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"decisionjournal/journal"
)

func TestStartValid(t *testing.T) {
	start := func(prepare func(*chain) string, options ...func(*journal.Start)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event { return c.events(c.startBody(prepare(c), options...)) }
	}
	allowed := func(c *chain) string { return c.allowedCall() }
	then := func(prepare func(*chain) string, act func(c *chain, call string)) func(*chain) string {
		return func(c *chain) string { id := prepare(c); act(c, id); return id }
	}
	granted := func(c *chain) string { id, _ := c.grantedCall(); return id }
	inR1 := func(b *journal.Start) { b.Run = "r1" }
	try(t, inSession, []rule{
		{"allowed by rule", bot, "", start(allowed)},
		{"by a decider", dec, "", start(allowed)},
		{"allowed by grant", bot, "", start(granted)},
		{"by the run that waits now", bot, "", start(then(allowed, func(c *chain, id string) { c.close(); c.reopen(); c.attach(id, "r2") }))},
		{"call, decision and start in one commit", dec, "", func(c *chain) []journal.Event {
			sample := c.allowedCall()
			s := c.startBody(sample)
			events := c.events(c.callBody("r1"), c.decisionBody(c.call(), journal.Allow, byRule()), s)
			events[1].Body.(*journal.Decision).Call = events[0].ID
			s.Call, s.Decision = events[0].ID, events[1].ID
			return events
		}},
		{"undecided", bot, "no unspent allow", start(func(c *chain) string { return c.call() })},
		{"denied", bot, "no unspent allow", start(func(c *chain) string { id := c.call(); c.deny(id); return id })},
		{"spent", bot, "no unspent allow", start(func(c *chain) string { return c.startedCall() })},
		{"finished", bot, "no unspent allow", start(func(c *chain) string { id := c.startedCall(); c.result(id, journal.StatusOK); return id })},
		{"lapsed", bot, "no unspent allow", start(then(allowed, func(c *chain, id string) {
			c.add(dec, &journal.Adopt{Digest: policyB})
			c.add(dec, &journal.Lapse{Decision: c.st.Call(id).Last().Decision, Reason: journal.LapsePolicy})
		}))},
		{"withdrawn", bot, "not wait", start(then(allowed, func(c *chain, id string) { c.withdraw(id) }), inR1)},
		{"an accepted elicitation", bot, "no unspent allow", start(acceptedElicitation)},
		{"another attempt", bot, "no unspent allow", start(allowed, func(b *journal.Start) { b.Attempt = 2 })},
		{"another decision", bot, "no unspent allow", start(allowed, func(b *journal.Start) { b.Decision = someID })},
		{"twice in one commit", bot, "no unspent allow", func(c *chain) []journal.Event {
			s := c.startBody(allowed(c))
			return c.events(s, s)
		}},
		{"detached", bot, "not wait", start(then(allowed, func(c *chain, id string) { c.detach(id) }), inR1)},
		{"another run waits", bot, "not wait", start(then(allowed, func(c *chain, _ string) { c.add(bot, opened("other", "r2")) }), func(b *journal.Start) { b.Run = "r2" })},
		{"run ended", bot, "ended", start(then(allowed, func(c *chain, _ string) { c.close() }), inR1)},
		{"run taken over", bot, "ended", start(then(allowed, func(c *chain, _ string) { c.reopen(takeover) }), inR1)},
		{"another actor's run", bot2, "belongs", start(allowed)},
		{"no such call", bot, "no call", start(allowed, func(b *journal.Start) { b.Call = someID })},
		{"another digest", bot, "digest", start(allowed, func(b *journal.Start) { b.Digest = policyA })},
		{"its grant revoked", bot, "not in force", start(func(c *chain) string {
			id, g := c.grantedCall()
			c.add(ann, &journal.Revoke{Grant: g})
			return id
		})},
		{"its grant lapsed", bot, "not in force", start(func(c *chain) string {
			g := bookGrant(c)
			id := c.byGrant(g)
			c.add(dec, &journal.Lapse{Grant: g, Reason: journal.LapseBook})
			return id
		})},
		{"its grant expired", bot, "not in force", start(func(c *chain) string {
			id, _ := c.grantedCall(func(b *journal.Answer) { b.Expires = at(hour) })
			c.now = epoch.Add(hour)
			return id
		})},
		{"its grant used up", bot, "not in force", start(func(c *chain) string {
			first, g := c.grantedCall(func(b *journal.Answer) { b.Uses = 1 })
			second := c.byGrant(g)
			c.start(first)
			return second
		})},
		{"the decision expired", bot, "expired", start(func(c *chain) string {
			id := c.call()
			d := c.decisionBody(id, journal.Allow, byRule())
			d.Expires = at(hour)
			c.add(dec, d)
			c.now = epoch.Add(hour)
			return id
		})},
		{"an older attempt was done after all", bot, "holds no unspent allow", start(func(c *chain) string {
			id := unknownTwice(c)
			c.result(id, journal.StatusOK, attempt(1), func(b *journal.Result) { b.Run = "r1" })
			return id
		})},
		{"session ended", bot, "ended", start(then(allowed, func(c *chain, _ string) { c.end() }), inR1)},
	})
}

// unknownTwice is a call whose attempts 1 (of run r1) and 2 (of r2) are of
// unknown outcome, and whose attempt 3 holds an unspent allow for run r3.
func unknownTwice(c *chain) string {
	id := c.startedCall()
	for _, run := range []string{"r2", "r3"} {
		c.add(bot, opened("main", run, takeover))
		c.attach(id, run)
		c.allow(id)
		if run == "r2" {
			c.start(id)
		}
	}
	return id
}

func TestResultValid(t *testing.T) {
	result := func(prepare func(*chain) string, options ...func(*journal.Result)) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			return c.events(c.resultBody(prepare(c), journal.StatusOK, options...))
		}
	}
	started := func(c *chain) string { return c.startedCall() }
	then := func(act func(c *chain, call string)) func(*chain) string {
		return func(c *chain) string { id := started(c); act(c, id); return id }
	}
	byR2 := func(b *journal.Result) { b.Run = "r2" }
	try(t, inSession, []rule{
		{"started", bot, "", result(started)},
		{"by a decider", dec, "", result(started)},
		{"after detach", bot, "", result(then(func(c *chain, id string) { c.detach(id) }))},
		{"late, after closed", bot, "", result(then(func(c *chain, _ string) { c.close() }))},
		{"late, after takeover", bot, "", result(then(func(c *chain, _ string) { c.reopen(takeover) }))},
		{"late, after ended", bot, "", result(then(func(c *chain, _ string) { c.end() }))},
		{"late, after a repair", bot, "", result(then(func(c *chain, _ string) { c.repair(c.lose()) }))},
		{"not started", bot, "not started", result(func(c *chain) string { return c.allowedCall() })},
		{"a second one", bot, "not started", result(then(func(c *chain, id string) { c.result(id, journal.StatusOK) }))},
		{"a second one after unknown", bot, "not started", result(then(func(c *chain, id string) { c.detach(id); c.result(id, journal.StatusUnknown) }))},
		{"a second one after it did not run", bot, "not started", result(then(func(c *chain, id string) { c.result(id, journal.StatusNotRun) }))},
		{"by another run", bot, "started it", result(then(func(c *chain, id string) { c.detach(id); c.reopen(takeover); c.attach(id, "r2") }), byR2)},
		{"by another actor", bot2, "belongs", result(started)},
		{"by no run", bot, "no run", result(started, func(b *journal.Result) { b.Run = "r9" })},
		{"no such call", bot, "no call", result(started, func(b *journal.Result) { b.Call = someID })},
		{"attempt none", bot, "no attempt", result(started, attempt(0))},
		{"attempt to come", bot, "no attempt", result(started, attempt(2))},
		{"digest malformed", bot, "malformed", result(started, func(b *journal.Result) { b.Digest = "" })},
	})
}

func TestRepairValid(t *testing.T) {
	repair := func(missing func(c *chain) []uint64) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event { return c.events(&journal.Repair{Missing: missing(c)}) }
	}
	// holes makes sequences past the head unreadable, and the session learns of none.
	holes := func(shift ...int) func(c *chain) []uint64 {
		return func(c *chain) []uint64 {
			var list []uint64
			for range shift {
				c.mem.Drop(c.mem.Inject(journal.Message{Subject: "journal.s.other.agent.a"}))
			}
			for _, s := range shift {
				list = append(list, uint64(int(c.st.Head())+s))
			}
			return list
		}
	}
	try(t, inSession, []rule{
		{"a hole past the head", root, "", repair(holes(1))},
		{"holes past the head", root, "", repair(holes(1, 2, 3))},
		{"nothing broken and nothing missing", root, "nothing is said to be missing", repair(holes())},
		{"the head itself", root, "missing sequence", repair(holes(0))},
		{"a hole before the head", root, "missing sequence", repair(holes(-1))},
		{"a hole twice", root, "missing sequence", repair(holes(1, 1))},
		{"holes out of order", root, "missing sequence", repair(holes(2, 1))},
		{"reason too long", root, "reason", one(func(c *chain) journal.Body {
			return &journal.Repair{Missing: holes(1)(c), Reason: strings.Repeat("x", 16<<10+1)}
		})},
	})
	t.Run("a hole that is yet to come", func(t *testing.T) {
		c := newSession(t)
		m := c.message(c.commit(root, c.events(&journal.Repair{Missing: []uint64{c.st.Head() + 2}})...))
		if v, why := c.inject(m); v != journal.VoidMsg || !strings.Contains(why, "missing sequence") {
			t.Errorf("%s: %s", v, why)
		}
	})
	t.Run("an ended session", func(t *testing.T) {
		c := newSession(t)
		c.end()
		c.append(root, repair(holes(1))(c)...)
	})
	t.Run("a broken session, none named", func(t *testing.T) {
		c := newSession(t)
		c.lose()
		c.repair()
	})
}

func inPolicy(t *testing.T) *chain { return chainOf(t, journal.PolicyChain()) }

func policyBody(text string) *journal.PolicyBytes {
	return &journal.PolicyBytes{Bytes: base64.StdEncoding.EncodeToString([]byte(text)), Digest: journal.Digest([]byte(text))}
}

func TestPolicyValid(t *testing.T) {
	policy := func(bytes, of string) func(*chain) []journal.Event {
		return one(func(*chain) journal.Body {
			return &journal.PolicyBytes{Bytes: bytes, Digest: journal.Digest([]byte(of))}
		})
	}
	try(t, inPolicy, []rule{
		{"by a decider", dec, "", policy("YWJjZA==", "abcd")},
		{"by an admin", root, "", policy("YWJjZA==", "abcd")},
		{"empty", dec, "", policy("", "")},
		{"again", dec, "", func(c *chain) []journal.Event { c.add(root, policyBody("abcd")); return policy("YWJjZA==", "abcd")(c) }},
		{"digest of something else", dec, "digest", policy("YWJjZA==", "abce")},
		{"not base64", dec, "bytes", policy("?", "")},
		{"no padding", dec, "bytes", policy("YWJjZA", "abcd")},
		{"stray bits", dec, "bytes", policy("YWJjZB==", "abcd")},
		{"line ends", dec, "bytes", policy("YWJj\nZA==", "abcd")},
		{"the alphabet for addresses", dec, "bytes", policy("--__", "\xfb\xef\xff")},
	})
}

func TestActivateValid(t *testing.T) {
	activate := func(name, of string) func(*chain) []journal.Event {
		return func(c *chain) []journal.Event {
			c.add(dec, policyBody("abcd"))
			return c.events(&journal.Activate{Name: name, Digest: journal.Digest([]byte(of))})
		}
	}
	try(t, inPolicy, []rule{
		{"by an admin", root, "", activate("p", "abcd")},
		{"by a decider", dec, "", activate("p", "abcd")},
		{"in the commit of its bytes", dec, "", func(c *chain) []journal.Event {
			return c.events(policyBody("x"), &journal.Activate{Name: "p", Digest: journal.Digest([]byte("x"))})
		}},
		{"a policy not on the chain", root, "no policy", activate("p", "abce")},
		{"a name that is none", root, "policy name", activate("a.b", "abcd")},
	})
}

// writers is the table's column of roles, spelled out once more.
var writers = map[journal.Type][]journal.Role{
	journal.TypeOpened:   {journal.RoleAgent, journal.RoleDecider, journal.RoleAdmin},
	journal.TypeClosed:   {journal.RoleAgent, journal.RoleDecider, journal.RoleAdmin},
	journal.TypeEnded:    {journal.RoleDecider, journal.RoleAdmin},
	journal.TypeAdopt:    {journal.RoleDecider, journal.RoleAdmin},
	journal.TypeCall:     {journal.RoleAgent, journal.RoleDecider, journal.RoleAdmin},
	journal.TypeAttach:   {journal.RoleAgent, journal.RoleDecider, journal.RoleAdmin},
	journal.TypeDetach:   {journal.RoleAgent, journal.RoleDecider, journal.RoleAdmin},
	journal.TypeQuestion: {journal.RoleDecider, journal.RoleAdmin},
	journal.TypeAnswer:   {journal.RoleApprover, journal.RoleAdmin},
	journal.TypeDecision: {journal.RoleDecider, journal.RoleAdmin},
	journal.TypeGrant:    {journal.RoleDecider, journal.RoleAdmin},
	journal.TypeRevoke:   {journal.RoleApprover, journal.RoleAdmin},
	journal.TypeStart:    {journal.RoleAgent, journal.RoleDecider, journal.RoleAdmin},
	journal.TypeResult:   {journal.RoleAgent, journal.RoleDecider, journal.RoleAdmin},
	journal.TypeLapse:    {journal.RoleDecider, journal.RoleAdmin},
	journal.TypeRepair:   {journal.RoleAdmin},
	journal.TypePolicy:   {journal.RoleDecider, journal.RoleAdmin},
	journal.TypeActivate: {journal.RoleDecider, journal.RoleAdmin},
}

// prepared is a chain in which the event is valid if role may write it.
func prepared(t *testing.T, kind journal.Type, actor string) (*chain, []journal.Event) {
	if kind == journal.TypePolicy || kind == journal.TypeActivate {
		c := inPolicy(t)
		c.add(root, policyBody("x"))
		body := map[journal.Type]journal.Body{
			journal.TypePolicy:   policyBody("y"),
			journal.TypeActivate: &journal.Activate{Name: "p", Digest: journal.Digest([]byte("x"))},
		}
		return c, c.events(body[kind])
	}
	c := newSession(t)
	return c, sessionEvents(c, kind, actor)
}

func sessionEvents(c *chain, kind journal.Type, actor string) []journal.Event {
	switch kind {
	case journal.TypeOpened:
		return c.events(opened("other", "r2"))
	case journal.TypeClosed:
		return c.events(&journal.Closed{Agent: "main", Run: "r1"})
	case journal.TypeEnded:
		return c.events(&journal.Ended{})
	case journal.TypeAdopt:
		return c.events(&journal.Adopt{Digest: policyB})
	case journal.TypeCall:
		return c.events(c.callBody("r1"))
	case journal.TypeAttach:
		call := c.call()
		c.detach(call)
		return c.events(&journal.Attach{Call: call, Run: "r1"})
	case journal.TypeDetach:
		return c.events(&journal.Detach{Call: c.call(), Run: "r1"})
	case journal.TypeQuestion:
		return c.events(c.questionBody(c.call()))
	case journal.TypeAnswer:
		return c.events(c.answerBody(c.ask(c.call()), who{Actor: actor}, journal.AllowOnce))
	case journal.TypeDecision:
		return c.events(c.decisionBody(c.call(), journal.Deny, byRule()))
	case journal.TypeGrant:
		return c.events(imported())
	case journal.TypeRevoke:
		return c.events(&journal.Revoke{Grant: c.add(dec, imported())})
	case journal.TypeStart:
		return c.events(c.startBody(c.allowedCall()))
	case journal.TypeResult:
		return c.events(c.resultBody(c.startedCall(), journal.StatusOK))
	case journal.TypeLapse:
		return c.events(&journal.Lapse{Grant: bookGrant(c), Reason: journal.LapseBook})
	case journal.TypeRepair:
		return c.events(&journal.Repair{Missing: []uint64{c.lose()}})
	}
	c.t.Fatalf("no events of type %s", kind)
	return nil
}

func TestRoles(t *testing.T) {
	roles := []journal.Role{journal.RoleAgent, journal.RoleDecider, journal.RoleApprover, journal.RoleAdmin, journal.RoleAuditor, ""}
	for _, kind := range journal.Types() {
		for _, role := range roles {
			t.Run(string(kind)+"/"+string(role), func(t *testing.T) { tryRole(t, kind, role) })
		}
	}
	if journal.MayWrite(journal.RoleAdmin, "future") {
		t.Error("an unknown type may be written")
	}
}

func tryRole(t *testing.T, kind journal.Type, role journal.Role) {
	may := false
	for _, r := range writers[kind] {
		may = may || r == role
	}
	if journal.MayWrite(role, kind) != may {
		t.Errorf("MayWrite is %t", !may)
	}
	if role == "" {
		return // no subject has it
	}
	by := who{Role: role, Actor: "zoe"}
	if role == journal.RoleAgent {
		by = bot // whose run it is
	}
	c, events := prepared(t, kind, by.Actor)
	if may {
		c.append(by, events...)
		return
	}
	if kind == journal.TypeRepair { // in a broken session nothing has an effect
		before := dumpOf(t, c.st)
		if v, why := c.inject(c.message(c.commit(by, events...))); v != journal.NoEffect || !strings.Contains(why, "may not write it") {
			t.Errorf("%s: %s", v, why)
		}
		c.same(before)
		return
	}
	c.void(by, "may not write it", events...)
}

func TestChainsOfTypes(t *testing.T) {
	for _, kind := range journal.Types() {
		if kind == journal.TypeRepair {
			continue // stands on either: TestRepairOfThePolicyChain
		}
		t.Run(string(kind), func(t *testing.T) {
			_, events := prepared(t, kind, root.Actor)
			other := newSession(t)
			if kind != journal.TypePolicy && kind != journal.TypeActivate {
				other = inPolicy(t)
			}
			other.void(root, "does not stand on this chain", other.events(events[0].Body)...)
		})
	}
}

func TestInfoEvents(t *testing.T) {
	info := func(c *chain) []journal.Event { return []journal.Event{c.info(`{"any":[1.0]}`)} }
	try(t, inSession, []rule{
		{"by an agent", bot, "", info},
		{"by a decider", dec, "", info},
		{"by an approver", ann, "", info},
		{"by an admin", root, "", info},
		{"by an auditor", who{Role: journal.RoleAuditor, Actor: "a"}, "only reads", info},
		{"session ended", dec, "ended", func(c *chain) []journal.Event { c.end(); return info(c) }},
		{"beside one that is void", bot, "no run", func(c *chain) []journal.Event {
			return append(info(c), c.events(&journal.Closed{Agent: "main", Run: "r9"})...)
		}},
		{"an id used", bot, "used already", func(c *chain) []journal.Event {
			e := info(c)
			c.append(bot, e...)
			return e
		}},
		{"an id twice", bot, "used already", func(c *chain) []journal.Event { e := info(c); return append(e, e...) }},
	})
}
