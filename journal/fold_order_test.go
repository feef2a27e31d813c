package journal_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"decisionjournal/journal"
)

// next is a message that would be valid, to be spoilt.
func (c *chain) next() journal.Message {
	return c.message(c.commit(bot, c.events(c.callBody("r1"))...))
}

// want injects m and holds what it was and that the state did not change.
func (c *chain) want(m journal.Message, want journal.Verdict, why string) {
	c.t.Helper()
	before := dumpOf(c.t, c.st)
	v, got := c.inject(m)
	if v != want || !strings.Contains(got, why) {
		c.t.Errorf("%s: %s; want %s: %s", v, got, want, why)
	}
	if v == journal.VoidMsg || v == journal.NoEffect {
		c.same(before)
	}
}

func TestHeaders(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(h map[string][]string)
		why  string // "" is valid
	}{
		{"as they should be", func(map[string][]string) {}, ""},
		{"a message id", func(h map[string][]string) { h[journal.HeaderMsgID] = []string{"x"} }, ""},
		{"two message ids", func(h map[string][]string) { h[journal.HeaderMsgID] = []string{"x", "y"} }, "2 times"},
		{"no expected sequence", func(h map[string][]string) { delete(h, journal.HeaderExpected) }, "without an expected"},
		{"an expected sequence without value", func(h map[string][]string) { h[journal.HeaderExpected] = nil }, "0 times"},
		{"two expected sequences", func(h map[string][]string) { h[journal.HeaderExpected] = append(h[journal.HeaderExpected], "2") }, "2 times"},
		{"an expected sequence of no number", func(h map[string][]string) { h[journal.HeaderExpected] = []string{"x"} }, "not a number"},
		{"an expected sequence in another spelling", func(h map[string][]string) { h[journal.HeaderExpected] = []string{"02"} }, "not a number"},
		{"a signed expected sequence", func(h map[string][]string) { h[journal.HeaderExpected] = []string{"+2"} }, "not a number"},
		{"no filter", func(h map[string][]string) { delete(h, journal.HeaderExpectedFilter) }, "own filter"},
		{"another session's filter", func(h map[string][]string) { h[journal.HeaderExpectedFilter] = []string{"journal.s.other.>"} }, "own filter"},
		{"a narrower filter", func(h map[string][]string) { h[journal.HeaderExpectedFilter] = []string{"journal.s.s.agent.bot"} }, "own filter"},
		{"two filters", func(h map[string][]string) {
			h[journal.HeaderExpectedFilter] = append(h[journal.HeaderExpectedFilter], "journal.s.s.>")
		}, "2 times"},
		{"one more header", func(h map[string][]string) { h["Nats-Rollup"] = []string{"sub"} }, "no place"},
		{"one more header without value", func(h map[string][]string) { h["X"] = nil }, "no place"},
		{"the expected sequence in lower case", func(h map[string][]string) {
			h[strings.ToLower(journal.HeaderExpected)] = h[journal.HeaderExpected]
			delete(h, journal.HeaderExpected)
		}, "no place"},
		{"none at all", func(h map[string][]string) { clear(h) }, "own filter"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newSession(t)
			m := c.next()
			tt.edit(m.Headers)
			if tt.why == "" {
				if v, why := c.inject(m); v != journal.Valid {
					t.Errorf("%s: %s", v, why)
				}
				return
			}
			c.want(m, journal.VoidMsg, tt.why)
			if list, n := c.st.Anomalies(); n != 1 || len(list) != 1 || list[0].Seq != c.st.LastSeq() || list[0].Subject != m.Subject {
				t.Errorf("anomalies %+v, %d", list, n)
			}
			c.goesOn()
		})
	}
}

func TestEnvelope(t *testing.T) {
	edit := func(change func(*journal.Commit)) func(*chain) journal.Message {
		return func(c *chain) journal.Message {
			commit := c.commit(bot, c.events(c.callBody("r1"))...)
			m := c.message(commit)
			change(commit)
			data, err := commit.Encode()
			if err != nil {
				c.t.Fatal(err)
			}
			m.Data = data
			return m
		}
	}
	subject := func(s string) func(*chain) journal.Message {
		return func(c *chain) journal.Message { m := c.next(); m.Subject = s; return m }
	}
	for _, tt := range []struct {
		name string
		make func(*chain) journal.Message
		why  string
	}{
		{"another session", edit(func(b *journal.Commit) { b.Session = "other" }), "session"},
		{"another role", edit(func(b *journal.Commit) { b.Role = journal.RoleAdmin }), "wrote it"},
		{"another actor", edit(func(b *journal.Commit) { b.Actor = "bot2" }), "wrote it"},
		{"after too small", edit(func(b *journal.Commit) { b.After-- }), "after"},
		{"after too great", edit(func(b *journal.Commit) { b.After++ }), "after"},
		{"n too small", edit(func(b *journal.Commit) { b.N-- }), "n is"},
		{"n too great", edit(func(b *journal.Commit) { b.N++ }), "n is"},
		{"no prev", edit(func(b *journal.Commit) { b.Prev = "" }), "prev"},
		{"another prev", edit(func(b *journal.Commit) { b.Prev = policyA }), "prev"},
		{"before its head", edit(func(b *journal.Commit) { b.Time = at(-1) }), "before its head"},
		{"a minute and a bit ahead", edit(func(b *journal.Commit) { b.Time = at(journal.MaxAhead + 1) }), "ahead"},
		{"centuries ahead", edit(func(b *journal.Commit) { b.Time = at(290 * 365 * 24 * hour) }), "ahead"},
		{"a subject of another session", subject("journal.s.other.agent.bot"), "its subject's"},
		{"a subject of another actor", subject("journal.s.s.agent.eve"), "its subject says"},
		{"a subject of another role", subject("journal.s.s.admin.bot"), "its subject says"},
		{"a subject of an unknown role", subject("journal.s.s.king.bot"), "not of a journal"},
		{"a subject too long", subject("journal.s.s.agent.bot.x"), "not of a journal"},
		{"bytes that are no JSON", func(c *chain) journal.Message { m := c.next(); m.Data = []byte("{"); return m }, "canonical"},
		{"no bytes", func(c *chain) journal.Message { m := c.next(); m.Data = nil; return m }, "canonical"},
		{"a blank", func(c *chain) journal.Message { m := c.next(); m.Data = append(m.Data, ' '); return m }, "canonical"},
		{"a body outside its schema", func(c *chain) journal.Message {
			m := c.next()
			m.Data = []byte(strings.Replace(string(m.Data), `"tool":"t",`, "", 1))
			return m
		}, "missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newSession(t)
			c.want(tt.make(c), journal.VoidMsg, tt.why)
			if v, why := c.inject(c.next()); v != journal.Valid {
				t.Errorf("the next one is %s: %s", v, why)
			}
		})
	}
}

func TestAnomaliesAreBounded(t *testing.T) {
	c := newSession(t)
	for range 1005 {
		m := c.next()
		m.Data = nil
		c.inject(m)
	}
	if list, n := c.st.Anomalies(); len(list) != 1000 || n != 1005 {
		t.Errorf("%d listed of %d", len(list), n)
	}
	c.goesOn()
}

func TestClocks(t *testing.T) {
	// write stores a commit of the writer's time, at the server's time.
	write := func(c *chain, writer, server time.Duration) journal.Verdict {
		c.now = epoch.Add(writer)
		m := c.message(c.commit(root, c.info("{}")))
		c.now = epoch.Add(server)
		v, _ := c.inject(m)
		return v
	}
	check := func(t *testing.T, got, want journal.Verdict) {
		t.Helper()
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	t.Run("ahead of the server by what is allowed", func(t *testing.T) {
		check(t, write(newSession(t), journal.MaxAhead, 0), journal.Valid)
	})
	t.Run("ahead of the server by more", func(t *testing.T) {
		check(t, write(newSession(t), journal.MaxAhead+1, 0), journal.VoidMsg)
	})
	t.Run("far behind the server", func(t *testing.T) {
		check(t, write(newSession(t), 0, 1000*hour), journal.VoidMsg)
	})
	t.Run("behind the server by what is allowed", func(t *testing.T) {
		check(t, write(newSession(t), 0, journal.MaxBehind), journal.Valid)
		check(t, write(newSession(t), 0, journal.MaxBehind+1), journal.VoidMsg)
	})
	t.Run("its head's time, long after", func(t *testing.T) {
		c := newSession(t)
		check(t, write(c, hour, hour), journal.Valid)
		check(t, write(c, hour, 2*hour), journal.VoidMsg)
	})
	t.Run("the server's clock set back", func(t *testing.T) {
		c := newSession(t)
		check(t, write(c, hour, hour), journal.Valid)
		check(t, write(c, hour, -2*hour), journal.Valid)
		check(t, write(c, hour+1, -2*hour), journal.VoidMsg)
		check(t, write(c, hour+journal.MaxAhead, hour), journal.Valid)
		check(t, write(c, 0, -2*hour), journal.VoidMsg)
	})
	t.Run("in steps", func(t *testing.T) {
		c := newSession(t)
		check(t, write(c, journal.MaxAhead, 0), journal.Valid)
		check(t, write(c, journal.MaxAhead, 0), journal.Valid)
		check(t, write(c, journal.MaxAhead+1, 0), journal.VoidMsg)
		check(t, write(c, 2*journal.MaxAhead, 0), journal.VoidMsg)
		check(t, write(c, 2*journal.MaxAhead, journal.MaxAhead), journal.Valid)
	})
	t.Run("a head in 2099", func(t *testing.T) {
		c := newSession(t)
		future := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC).Sub(epoch)
		check(t, write(c, future, future), journal.Valid)
		c.now = epoch
		c.add(root, &journal.Ended{})
		if c.st.Time() != at(future) {
			t.Errorf("the next commit's time is %s", c.st.Time())
		}
	})
}

func TestGap(t *testing.T) {
	c := newSession(t)
	call := c.allowedCall()
	n := c.st.N()
	c.lose()
	cond, why := c.st.Condition()
	if cond != journal.Broken || why.Seq != c.st.LastSeq() || !strings.Contains(why.Why, "missing") {
		t.Errorf("%s, %+v", cond, why)
	}
	if c.st.N() != n {
		t.Error("the commit past the gap had an effect")
	}
	start := c.events(c.startBody(call))
	if err := c.writer(bot, c.mem).Append(context.Background(), c.st, journal.At(c.now), start...); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("start in a broken session: %v", err)
	}
	c.want(c.message(c.commit(bot, start...)), journal.NoEffect, "only a repair")
	c.want(c.message(c.commit(root, c.info("{}"))), journal.NoEffect, "only a repair")
	c.want(c.message(c.commit(root, append(start, c.events(&journal.Repair{Missing: []uint64{}})...)...)), journal.NoEffect, "only a repair")
	c.want(newerMessage(c), journal.NoEffect, "unknown")
	c.want(journal.Message{Subject: "journal.s.s.agent.bot"}, journal.NoEffect, "filter")
	if _, n := c.st.Anomalies(); n != 0 {
		t.Errorf("%d anomalies past the break", n)
	}
	c.repair()
	if c.st.N() != n+1 {
		t.Errorf("n is %d after the repair, want %d", c.st.N(), n+1)
	}
	c.wantAttempts(call, "void", "open")
	c.goesOn()
}

func TestRepairGoesOnInItsCommit(t *testing.T) {
	c := newSession(t)
	call := c.call()
	missing := c.lose()
	decision := c.decisionBody(call, journal.Deny, byRule())
	decision.Attempt = 2 // the repair ended the first
	c.add(root, &journal.Repair{Missing: []uint64{missing}}, decision)
	c.wantAttempts(call, "void", "denied")
}

func TestRepairPastASecondGap(t *testing.T) {
	c := newSession(t)
	c.lose()
	missing := c.mem.Inject(c.message(c.commit(root, c.info("{}"))))
	c.mem.Drop(missing)
	repair := c.message(c.commit(root, c.events(&journal.Repair{Missing: []uint64{missing}})...))
	repair.Headers = journal.ExpectHeaders(c.st.Chain(), missing)
	c.want(repair, journal.NoEffect, "missing")
	c.repair(missing)
}

// TestGapComesBeforeTheBody: a commit is missing, whatever the next one says.
func TestGapComesBeforeTheBody(t *testing.T) {
	for name, data := range map[string]string{"newer": `{"v":2}`, "garbage": "{", "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			c := newSession(t)
			m := c.messageOf(bot, []byte(data))
			m.Headers = journal.ExpectHeaders(c.st.Chain(), c.st.LastSeq()+5)
			if v, why := c.inject(m); v != journal.Breaks {
				t.Errorf("%s: %s", v, why)
			}
		})
	}
	t.Run("but not before the headers", func(t *testing.T) {
		c := newSession(t)
		m := c.next()
		m.Headers = journal.ExpectHeaders(c.st.Chain(), c.st.LastSeq()+5)
		m.Headers["X"] = []string{"y"}
		c.want(m, journal.VoidMsg, "no place")
	})
}

func TestAVoidMessageIsNoGap(t *testing.T) {
	c := newSession(t)
	m := c.next()
	m.Headers = nil
	c.want(m, journal.VoidMsg, "filter")
	if c.st.LastSeq() != c.st.Head()+1 {
		t.Errorf("last %d, head %d", c.st.LastSeq(), c.st.Head())
	}
	c.add(bot, c.callBody("r1"))
	old := c.next()
	old.Headers = journal.ExpectHeaders(c.st.Chain(), c.st.LastSeq()-1)
	if v, why := c.inject(old); v != journal.Breaks {
		t.Errorf("a stale expectation that the server would have refused is %s: %s", v, why)
	}
}

// newerMessage is one that only a newer program can have written.
func newerMessage(c *chain) journal.Message { return spoil(c, `"v":1`, `"v":2`) }

// spoil changes the text of a message that would be valid.
func spoil(c *chain, old, new string) journal.Message {
	m := c.next()
	text := strings.Replace(string(m.Data), old, new, 1)
	if text == string(m.Data) {
		c.t.Fatalf("no %s in %s", old, m.Data)
	}
	m.Data = []byte(text)
	return m
}

func TestTooNew(t *testing.T) {
	for _, tt := range []struct{ name, old, new string }{
		{"version", `"v":1`, `"v":2`},
		{"type", `"type":"call"`, `"type":"cell"`},
		{"member", `"tool":"t",`, `"tool":"t","tool2":"t",`},
		{"member of the commit", `"prev":`, `"past":1,"prev":`},
		{"value of a listed enumeration", `"kind":"tool"`, `"kind":"tome"`},
		{"encrypted body", `"events"`, `"enc":"x","events"`},
		{"beside what is void", `"prev":"`, `"past":1,"prev":"x`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newSession(t)
			call := c.allowedCall()
			n := c.st.N()
			if v, why := c.inject(spoil(c, tt.old, tt.new)); v != journal.Newer {
				t.Fatalf("%s: %s", v, why)
			}
			if cond, why := c.st.Condition(); cond != journal.TooNew || why.Seq != c.st.LastSeq() {
				t.Errorf("%s, %+v", cond, why)
			}
			err := c.writer(bot, c.mem).Append(context.Background(), c.st, journal.At(c.now), c.events(c.startBody(call))...)
			if err == nil || !strings.Contains(err.Error(), "too new") {
				t.Errorf("append: %v", err)
			}
			newer := c.st.LastSeq()
			c.want(c.next(), journal.NoEffect, "only a repair")
			c.want(newerMessage(c), journal.NoEffect, "unknown")
			repair := func(by who, missing ...uint64) journal.Message {
				return c.message(c.commit(by, c.events(&journal.Repair{Missing: missing})...))
			}
			c.want(repair(root), journal.NoEffect, "newer program")
			c.want(repair(root, newer+1), journal.NoEffect, "newer program")
			c.want(repair(dec, newer), journal.NoEffect, "may not")
			if c.st.N() != n {
				t.Error("something had an effect")
			}
			c.want(repair(root, newer), journal.Valid, "")
			c.wantAttempts(call, "void", "open")
			if !c.st.Call(call).Last().AfterUnknown {
				t.Error("the newer program may have started the call")
			}
			c.goesOn()
		})
	}
}

func TestInfoOfAnUnknownTypeIsKept(t *testing.T) {
	c := newSession(t)
	n := c.st.N()
	m := c.message(c.commit(bot, c.info(`{"deep":{"a":[1.0]}}`)))
	if v, why := c.inject(m); v != journal.Valid || c.st.N() != n+1 || c.st.Prev() != journal.Digest(m.Data) {
		t.Errorf("%s: %s; n %d, prev %s", v, why, c.st.N(), c.st.Prev())
	}
}

func TestInfoMarkOnAKnownTypeIsVoid(t *testing.T) {
	for _, kind := range journal.Types() {
		t.Run(string(kind), func(t *testing.T) {
			c := newSession(t)
			event, err := journal.InfoEvent(c.id(), string(kind), json.RawMessage(`{"future":1}`))
			if err != nil {
				t.Fatal(err)
			}
			c.void(root, "not informational", event)
		})
	}
}

func TestInfoEventRefuses(t *testing.T) {
	for _, body := range []string{"", "1", "[]", `{"a":1,"a":1}`, `{"id":"x"}`, `{"type":"x"}`, `{"info":true}`} {
		if e, err := journal.InfoEvent(someID, "seen", json.RawMessage(body)); err == nil {
			t.Errorf("body %s makes %s", body, e.Raw)
		}
	}
}

func TestDeliveredAgain(t *testing.T) {
	c := newSession(t)
	c.call()
	m := c.next()
	c.inject(m)
	m.Seq = c.st.LastSeq()
	before := dumpOf(t, c.st)
	if v, _ := c.st.Apply(m); v != journal.NoEffect {
		t.Errorf("the same again is %s", v)
	}
	m.Seq--
	if v, _ := c.st.Apply(m); v != journal.NoEffect {
		t.Errorf("an older one is %s", v)
	}
	c.same(before)
}

func TestMarkHoles(t *testing.T) {
	for _, tt := range []struct {
		name  string
		holes func(head uint64) []uint64
		want  journal.Condition
	}{
		{"none", func(uint64) []uint64 { return nil }, journal.Whole},
		{"before the head", func(h uint64) []uint64 { return []uint64{h - 1} }, journal.Whole},
		{"past the head", func(h uint64) []uint64 { return []uint64{h + 7} }, journal.Broken},
		{"before and past the head", func(h uint64) []uint64 { return []uint64{1, h + 1} }, journal.Broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newSession(t)
			holes := tt.holes(c.st.Head())
			c.st.MarkHoles(holes)
			cond, why := c.st.Condition()
			if cond != tt.want {
				t.Fatalf("%s", cond)
			}
			if cond == journal.Broken {
				if why.Seq <= c.st.Head() {
					t.Errorf("%+v", why)
				}
				c.want(c.next(), journal.NoEffect, "only a repair")
				for range 8 { // the rest of the journal goes on
					c.mem.Inject(journal.Message{Subject: "journal.s.other.agent.a"})
				}
				c.repair(why.Seq)
			}
			c.goesOn()
		})
	}
	t.Run("an ended session", func(t *testing.T) {
		c := newSession(t)
		c.end()
		c.st.MarkHoles([]uint64{c.st.Head() + 1})
		if cond, _ := c.st.Condition(); cond != journal.Whole {
			t.Errorf("%s", cond)
		}
	})
	t.Run("an empty chain", func(t *testing.T) {
		c := newChain(t)
		c.st.MarkHoles([]uint64{1})
		if cond, _ := c.st.Condition(); cond != journal.Whole {
			t.Errorf("%s", cond)
		}
	})
	t.Run("no policy can be read", func(t *testing.T) {
		c := chainOf(t, journal.PolicyChain())
		c.st.MarkHoles([]uint64{1})
		if cond, _ := c.st.Condition(); cond != journal.Broken {
			t.Fatalf("%s", cond)
		}
		c.append(root, c.events(&journal.Repair{Missing: []uint64{1}, Reason: "the store is lost"})...) // it is message 1 itself
		c.add(dec, journal.NewPolicyBytes([]byte("rules: []")))
	})
}

// TestRepairOfAHoleThatIsNotNext: the writer does not know its own sequence,
// and a hole may lie among other sessions' messages.
func TestRepairOfAHoleThatIsNotNext(t *testing.T) {
	c := newSession(t)
	_, grant := c.grantedCall()
	c.mem.Inject(journal.Message{Subject: "journal.s.other.agent.a"})
	lost := c.add(ann, &journal.Revoke{Grant: grant})
	hole := c.st.Head()
	c.mem.Drop(hole)
	c.mem.Inject(journal.Message{Subject: "journal.s.other.agent.a"})
	c.load()
	if cond, why := c.st.Condition(); cond != journal.Broken || why.Seq != hole {
		t.Fatalf("without the revocation %s: %s, %+v", lost, cond, why)
	}
	c.repair(hole)
	c.wantStanding(grant, "repaired")
}

func TestLoadState(t *testing.T) {
	c := newSession(t)
	c.allowedCall()
	st, err := journal.LoadState(context.Background(), c.mem, c.st.Chain())
	if err != nil {
		t.Fatal(err)
	}
	if before, after := dumpOf(t, c.st), dumpOf(t, st); before != after {
		t.Errorf("loaded\n%s\nwas\n%s", after, before)
	}
	if _, err := journal.LoadState(context.Background(), c.mem, journal.SessionChain("a.b")); err == nil {
		t.Error("a chain of no name loads")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := journal.LoadState(ctx, c.mem, c.st.Chain()); err == nil {
		t.Error("loads although cancelled")
	}
}

func TestWords(t *testing.T) {
	distinct := func(words ...string) {
		t.Helper()
		seen := map[string]bool{}
		for _, w := range words {
			if w == "" || seen[w] {
				t.Errorf("%q stands for two things, or nothing: %q", w, words)
			}
			seen[w] = true
		}
	}
	distinct(journal.NoEffect.String(), journal.VoidMsg.String(), journal.Valid.String(), journal.Breaks.String(), journal.Newer.String())
	distinct(journal.Whole.String(), journal.Broken.String(), journal.TooNew.String())
	distinct(journal.Open.String(), journal.Denied.String(), journal.Allowed.String(), journal.Started.String(),
		journal.Finished.String(), journal.Unknown.String(), journal.Void.String())
}
