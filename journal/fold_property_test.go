package journal_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"decisionjournal/journal"
)

// A draft draws commits for a chain: bodies that refer to what is there, most
// of them valid, some not.
type draft struct {
	*chain
	rt *rapid.T
}

func (d draft) pick(name string, from []string) string {
	return rapid.SampledFrom(append(from, someID)).Draw(d.rt, name)
}

func (d draft) some(name string) bool { return rapid.Bool().Draw(d.rt, name) }

func (d draft) callID() string {
	var ids []string
	for _, c := range d.st.Calls() {
		ids = append(ids, c.Mark.ID)
	}
	return d.pick("call", ids)
}

func (d draft) questionID() string {
	var ids []string
	for _, q := range d.st.Questions() {
		ids = append(ids, q.Mark.ID)
	}
	return d.pick("question", ids)
}

func (d draft) grantID() string {
	var ids []string
	for _, g := range d.st.Grants() {
		ids = append(ids, g.Mark.ID)
	}
	return d.pick("grant", ids)
}

func (d draft) run() string {
	return rapid.SampledFrom([]string{"r1", "r2", "r3", "r4"}).Draw(d.rt, "run")
}

// draw draws a writer and its events.
func (d draft) draw() (who, []journal.Event) {
	call := d.callID()
	if s := d.st.Call(call); s != nil {
		if by, events := d.step(s); events != nil {
			return by, events
		}
	}
	switch rapid.IntRange(0, 8).Draw(d.rt, "kind") {
	case 0:
		options := []func(*journal.Opened){func(b *journal.Opened) { b.Takeover, b.Shared = d.some("takeover"), d.some("shared") }}
		return bot, d.events(opened(rapid.SampledFrom([]string{"main", "other"}).Draw(d.rt, "agent"), d.run(), options...))
	case 1:
		return bot, d.events(&journal.Closed{Agent: "main", Run: d.run()})
	case 2:
		return dec, d.events(&journal.Adopt{Digest: rapid.SampledFrom([]string{policyA, policyB}).Draw(d.rt, "policy")})
	case 3:
		return dec, d.events(imported(func(g *journal.Grant) { g.Uses = rapid.IntRange(0, 2).Draw(d.rt, "uses") }))
	case 4:
		return ann, d.events(&journal.Revoke{Grant: d.grantID()})
	case 5:
		return root, d.events(&journal.Repair{Missing: []uint64{}})
	case 6:
		if rapid.IntRange(0, 9).Draw(d.rt, "end") > 0 {
			return bot, []journal.Event{d.info("{}")}
		}
		return dec, d.events(&journal.Ended{})
	}
	return bot, d.events(d.callBody(d.run(), func(b *journal.Call) {
		if d.some("keyed") {
			b.Key = "k"
		}
	}))
}

// natural is the step that the call is waiting for.
func (d draft) natural(s *journal.CallState) (who, []journal.Event) {
	call := s.Mark.ID
	switch s.Last().Progress {
	case journal.Allowed:
		if d.some("lapses") {
			return dec, d.lapse(s)
		}
		return bot, d.events(d.startBody(call))
	case journal.Started:
		return bot, d.events(d.resultBody(call, journal.StatusOK))
	case journal.Open:
		if s.Last().Question != "" {
			return d.settleStep()
		}
		if s.Kind == journal.CallElicitation || d.some("ask") {
			return dec, d.events(d.questionBody(call))
		}
		return dec, d.events(d.decisionBody(call, journal.Allow, byRule()))
	}
	return bot, d.events(&journal.Attach{Call: call, Run: d.run(), Retry: true})
}

// step is a step of a call that is there, or nothing.
func (d draft) step(s *journal.CallState) (who, []journal.Event) {
	call := s.Mark.ID
	if d.st.Adopted(s.Agent, s.Layer) == nil {
		return who{}, nil
	}
	if d.some("natural") {
		return d.natural(s)
	}
	switch rapid.IntRange(0, 11).Draw(d.rt, "step") {
	case 0:
		return bot, d.events(&journal.Attach{Call: call, Run: d.run(), Retry: d.some("retry")})
	case 1:
		return bot, d.events(&journal.Detach{Call: call, Run: s.Waiter, Withdraw: d.some("withdraw")})
	case 2:
		return dec, d.events(d.questionBody(call))
	case 3:
		outcome := rapid.SampledFrom([]journal.Outcome{journal.Allow, journal.Deny}).Draw(d.rt, "outcome")
		return dec, d.events(d.decisionBody(call, outcome, byRule()))
	case 4:
		return dec, d.events(d.decisionBody(call, journal.Allow, byID(journal.ByGrant, d.grantID())))
	case 5, 6:
		return bot, d.events(d.startBody(call))
	case 7:
		statuses := []journal.Status{journal.StatusOK, journal.StatusError, journal.StatusNotRun, journal.StatusUnknown}
		b := d.resultBody(call, rapid.SampledFrom(statuses).Draw(d.rt, "status"))
		if d.some("first attempt") {
			b.Attempt, b.Run = 1, s.Attempts[0].StartRun
		}
		return bot, d.events(b)
	case 8:
		return dec, d.lapse(s)
	case 9:
		return bot, d.events(d.callBody(s.Waiter, elicitation(call)))
	}
	return d.settleStep()
}

// lapse ends a question or an allow under another policy, or under the same.
func (d draft) lapse(s *journal.CallState) []journal.Event {
	adopt := &journal.Adopt{Digest: policyA}
	if d.st.Adopted(s.Agent, s.Layer).Digest == policyA && d.some("another policy") {
		adopt.Digest = policyB
	}
	lapse := &journal.Lapse{Decision: s.Last().Decision, Reason: journal.LapsePolicy}
	if lapse.Decision == "" {
		lapse.Question = s.Last().Question
	}
	return d.events(adopt, lapse)
}

// settleStep answers a question, or settles an answered one.
func (d draft) settleStep() (who, []journal.Event) {
	q := d.st.Question(d.questionID())
	if q == nil {
		return who{}, nil
	}
	if len(q.Answers) == 0 {
		by := rapid.SampledFrom([]who{ann, ben}).Draw(d.rt, "approver")
		action := rapid.SampledFrom([]string{journal.AllowOnce, journal.DenyOnce, journal.AlwaysAllow, journal.Accept, "perhaps"}).Draw(d.rt, "action")
		return by, d.events(d.answerBody(q.Mark.ID, by, action))
	}
	answer := q.Answers[0]
	if answer.Action == journal.AlwaysAllow {
		return dec, d.settle(q.Mark.ID, answer.Mark.ID, d.id())
	}
	outcome := journal.Deny
	if q.Allows(answer.Action) {
		outcome = journal.Allow
	}
	return dec, d.events(d.decisionBody(q.Call, outcome, byID(journal.ByAnswer, answer.Mark.ID)))
}

// drawChain draws a session of about n messages, valid and void ones, and
// returns it with its messages. After each one it calls watch, if there is one.
func drawChain(rt *rapid.T, n int, watch func(c *chain, m journal.Message, v journal.Verdict)) (*chain, []journal.Message) {
	c := newSession(rt)
	d := draft{c, rt}
	c.call()
	for range rapid.IntRange(0, n).Draw(rt, "messages") {
		c.now = c.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second)
		by, events := d.draw()
		commit := c.commit(by, events...)
		data, err := commit.Encode()
		if err != nil {
			continue // a draft of nothing
		}
		m := c.messageOf(by, data)
		m.Time = c.now
		m.Seq = c.mem.Inject(m)
		v, _ := c.st.Apply(m)
		if watch != nil {
			watch(c, m, v)
		}
	}
	return c, c.mem.Messages()
}

// fold folds messages from the beginning.
func fold(of journal.Chain, messages []journal.Message) *journal.State {
	st := journal.NewState(of)
	for _, m := range messages {
		st.Apply(m)
	}
	return st
}

// checkState holds what is true of every state, whatever was folded.
func checkState(t rapid.TB, st *journal.State) {
	t.Helper()
	for _, c := range st.Calls() {
		for i, a := range c.Attempts {
			checkAttempt(t, st, c, i, a)
		}
	}
	for _, g := range st.Grants() {
		if g.Used < 0 || g.Uses > 0 && g.Used > g.Uses {
			t.Fatalf("grant %s was used %d times of %d", g.Mark.ID, g.Used, g.Uses)
		}
		if st.Ended() != nil && g.Ended == "" {
			t.Fatalf("grant %s outlives its session", g.Mark.ID)
		}
	}
	if st.Ended() != nil && len(st.OpenCalls()) > 0 {
		t.Fatalf("calls are open past the session's end")
	}
}

func checkAttempt(t rapid.TB, st *journal.State, c *journal.CallState, i int, a journal.Attempt) {
	t.Helper()
	newest := i == len(c.Attempts)-1
	live := a.Progress == journal.Open || a.Progress == journal.Allowed || a.Progress == journal.Started
	switch {
	case a.No != i+1:
		t.Fatalf("attempt %d is called %d", i+1, a.No)
	case live && !newest:
		t.Fatalf("attempt %d of %d is %s", a.No, len(c.Attempts), a.Progress)
	case live && c.Withdrawn:
		t.Fatalf("attempt %d of a withdrawn call is %s", a.No, a.Progress)
	case a.Progress == journal.Started && !st.Run(a.StartRun).Live:
		t.Fatalf("attempt %d is started by a run that ended", a.No)
	case a.Question != "" && !live && !st.Question(a.Question).Over:
		t.Fatalf("the question of attempt %d, which is %s, is not over", a.No, a.Progress)
	}
	if a.Progress == journal.Allowed || a.Progress == journal.Started {
		d := st.Decision(a.Decision)
		if d == nil || d.Outcome != journal.Allow || d.Call != c.Mark.ID || d.Attempt != a.No {
			t.Fatalf("attempt %d is %s by decision %+v", a.No, a.Progress, d)
		}
		if by := d.Mark.By.Role; by != journal.RoleDecider && by != journal.RoleAdmin {
			t.Fatalf("decided by %s", d.Mark.By)
		}
	}
}

// kindsOf are the types of a message's events.
func kindsOf(t rapid.TB, m journal.Message) []journal.Type {
	commit, err := journal.Decode(m.Data)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []journal.Type
	for _, e := range commit.Events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// statesHold draws a chain and holds every state on the way. It counts the valid
// events by type.
func statesHold(valid map[journal.Type]int) func(*rapid.T) {
	return func(rt *rapid.T) {
		c, _ := drawChain(rt, 60, func(c *chain, m journal.Message, v journal.Verdict) {
			checkState(rt, c.st)
			if v == journal.Valid {
				for _, kind := range kindsOf(rt, m) {
					valid[kind]++
				}
			}
		})
		checkState(rt, c.st)
	}
}

func TestStatesHold(t *testing.T) {
	valid := map[journal.Type]int{}
	rapid.Check(t, statesHold(valid))
	for _, kind := range []journal.Type{journal.TypeOpened, journal.TypeCall, journal.TypeAttach, journal.TypeDetach, journal.TypeQuestion, journal.TypeAnswer,
		journal.TypeDecision, journal.TypeGrant, journal.TypeRevoke, journal.TypeStart, journal.TypeResult, journal.TypeLapse, journal.TypeEnded} {
		if valid[kind] == 0 {
			t.Errorf("no valid %s was drawn: the property says nothing of it", kind)
		}
	}
}

func TestAllowsWereDecided(t *testing.T) { rapid.Check(t, allowsWereDecided) }

// allowsWereDecided folds chains whose messages were changed, moved and repeated:
// nothing is allowed, started or granted that no message of the unchanged chain
// decided or granted.
func allowsWereDecided(rt *rapid.T) {
	c, messages := drawChain(rt, 40, nil)
	decided, granted := map[string]bool{}, map[string]bool{}
	for _, d := range c.st.Decisions() {
		decided[d.Mark.ID] = true
	}
	for _, g := range c.st.Grants() {
		granted[g.Mark.ID] = true
	}
	st := journal.NewState(c.st.Chain())
	for range rapid.IntRange(0, 2*len(messages)).Draw(rt, "deliveries") {
		m := mangle(rt, rapid.SampledFrom(messages).Draw(rt, "message"))
		st.Apply(m)
		checkState(rt, st)
	}
	for _, d := range st.Decisions() {
		if !decided[d.Mark.ID] {
			rt.Fatalf("decision %s", d.Mark.ID)
		}
	}
	for _, g := range st.Grants() {
		if !granted[g.Mark.ID] {
			rt.Fatalf("grant %s", g.Mark.ID)
		}
	}
}

// mangle changes a message, or leaves it.
func mangle(rt *rapid.T, m journal.Message) journal.Message {
	switch rapid.IntRange(0, 7).Draw(rt, "mangle") {
	case 0:
		m.Data = slices.Clone(m.Data)
		at := rapid.IntRange(0, len(m.Data)-1).Draw(rt, "byte")
		m.Data[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
	case 1:
		m.Data = m.Data[:rapid.IntRange(0, len(m.Data)).Draw(rt, "cut")]
	case 2:
		m.Seq += uint64(rapid.IntRange(0, 5).Draw(rt, "shift"))
	case 3:
		m.Headers = maps.Clone(m.Headers)
		m.Headers[journal.HeaderExpected] = []string{strconv.Itoa(rapid.IntRange(0, 50).Draw(rt, "expected"))}
	case 4:
		m.Subject = rapid.SampledFrom([]string{"", "journal.s.s.admin.root", "journal.s.s.decider.dec", "journal.s.other.agent.bot", "journal.policy.admin.root"}).Draw(rt, "subject")
	}
	return m
}

func TestDeliveringTwiceChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, messages := drawChain(rt, 40, nil)
		st := journal.NewState(c.st.Chain())
		for i, m := range messages {
			st.Apply(m)
			for range rapid.IntRange(0, 2).Draw(rt, "again") {
				if v, _ := st.Apply(messages[rapid.IntRange(0, i).Draw(rt, "which")]); v != journal.NoEffect {
					rt.Fatalf("again: %s", v)
				}
			}
		}
		sameFold(rt, c.st, st)
	})
}

func sameFold(t rapid.TB, want, got *journal.State) {
	t.Helper()
	if a, b := dumpOf(t, want), dumpOf(t, got); a != b || want.LastSeq() != got.LastSeq() {
		t.Fatalf("one fold (last %d):\n%s\nthe other (last %d):\n%s", want.LastSeq(), a, got.LastSeq(), b)
	}
	wantList, wantN := want.Anomalies()
	gotList, gotN := got.Anomalies()
	if wantN != gotN || !slices.Equal(wantList, gotList) {
		t.Fatalf("anomalies %v, and %v", wantList, gotList)
	}
}

func TestFoldingInStepsIsFoldingAtOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, messages := drawChain(rt, 40, nil)
		sameFold(rt, c.st, fold(c.st.Chain(), messages))
	})
}

func TestVoidCommitsChangeNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		before := ""
		drawChain(rt, 40, func(c *chain, _ journal.Message, v journal.Verdict) {
			after := dumpOf(rt, c.st)
			if v == journal.VoidMsg && before != "" && before != after {
				rt.Fatalf("before\n%s\nafter\n%s", before, after)
			}
			before = after
		})
	})
}

// TestEntitiesAreNeverChangedInPlace keeps what a state once handed out.
func TestEntitiesAreNeverChangedInPlace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type kept struct {
			entity any
			was    string
		}
		var all []kept
		keep := func(entity any) {
			b, err := json.Marshal(entity)
			if err != nil {
				rt.Fatal(err)
			}
			all = append(all, kept{entity, string(b)})
		}
		drawChain(rt, 20, func(c *chain, _ journal.Message, _ journal.Verdict) {
			keep(c.st.Calls())
			keep(c.st.Questions())
			keep(c.st.Grants())
			keep(c.st.Runs())
			keep(c.st.Decisions())
		})
		for _, k := range all {
			if b, err := json.Marshal(k.entity); err != nil || string(b) != k.was {
				rt.Fatalf("was\n%s\nis\n%s", k.was, b)
			}
		}
	})
}

// permissions are what a state lets happen: unspent allows and grants in force.
func permissions(st *journal.State) map[string]bool {
	may := map[string]bool{}
	if cond, _ := st.Condition(); cond != journal.Whole {
		return may
	}
	for _, c := range st.Calls() {
		if a := c.Last(); a.Progress == journal.Allowed {
			may["allow "+a.Decision] = true
		}
	}
	for _, g := range st.Grants() {
		if g.InForce(st.Time()) {
			may["grant "+g.Mark.ID] = true
		}
	}
	return may
}

func TestRemovingAMessagePermitsNothing(t *testing.T) { rapid.Check(t, removingPermitsNothing) }

// removingPermitsNothing takes one message out of a chain. From the next message
// on, nothing may happen that could not happen in the whole chain.
func removingPermitsNothing(rt *rapid.T) {
	c, messages := drawChain(rt, 40, nil)
	gone := rapid.IntRange(0, len(messages)-1).Draw(rt, "gone")
	whole, less := fold(c.st.Chain(), messages[:gone]), fold(c.st.Chain(), messages[:gone])
	whole.Apply(messages[gone])
	repaired := false
	for _, m := range messages[gone+1:] {
		whole.Apply(m)
		if v, _ := less.Apply(m); v == journal.Valid && kindsOf(rt, m)[0] != journal.TypeRepair && !repaired {
			rt.Fatalf("without message %d, message %d is valid", messages[gone].Seq, m.Seq)
		} else if v == journal.Valid {
			repaired = true // a repair that was void while nothing was missing
		}
		might := permissions(whole)
		for p := range permissions(less) {
			if !might[p] {
				rt.Fatalf("without message %d, %s at message %d", messages[gone].Seq, p, m.Seq)
			}
		}
	}
}

// TestHolesPermitNothing loses a session's last message: with the hole known,
// nothing may happen at all.
func TestHolesPermitNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, messages := drawChain(rt, 40, nil)
		last := messages[len(messages)-1]
		st := fold(c.st.Chain(), messages[:len(messages)-1])
		st.MarkHoles([]uint64{last.Seq})
		if may := permissions(st); len(may) > 0 {
			rt.Fatalf("%v", may)
		}
	})
}

func FuzzApply(f *testing.F) {
	messages := goldenSession(f)
	for _, m := range messages {
		f.Add(m.Subject, m.Headers[journal.HeaderExpected][0], m.Data)
	}
	f.Add("journal.s.golden.admin.root", "1", []byte("{}"))
	before := dumpOf(f, fold(goldenChain, messages[:len(messages)/2]))
	f.Fuzz(func(t *testing.T, subject, expected string, data []byte) {
		st := fold(goldenChain, messages[:len(messages)/2])
		m := journal.Message{Seq: st.LastSeq() + 1, Time: st.Time().Time, Subject: subject, Headers: journal.ExpectHeaders(goldenChain, 0), Data: data}
		m.Headers[journal.HeaderExpected] = []string{expected}
		v, why := st.Apply(m)
		checkState(t, st)
		switch {
		case v == journal.Valid:
			if c, err := journal.Decode(data); err != nil || c.N != st.N() {
				t.Fatalf("valid, but %v", err)
			}
		case why == "":
			t.Fatalf("%s for no reason", v)
		case v == journal.VoidMsg || v == journal.NoEffect:
			if after := dumpOf(t, st); after != before {
				t.Fatalf("%s, but\n%s\nbecame\n%s", v, before, after)
			}
		}
		st.Apply(messages[len(messages)/2])
		checkState(t, st)
	})
}
