package approver_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"decisionjournal/approver"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/inbox/inboxtest"
	"decisionjournal/journal/journaltest"
)

func TestEightAnswerersRace(t *testing.T) {
	b := newBench(t)
	id := b.ask("s", inboxtest.Spec{})
	const n = 8
	var (
		wg       sync.WaitGroup
		receipts [n]approver.Receipt
		errs     [n]error
	)
	for i := range n {
		w := b.approver(name(i))
		action := []string{journal.AllowOnce, journal.DenyOnce}[i%2]
		wg.Go(func() {
			receipts[i], errs[i] = approver.Answer(t.Context(), w, approver.Ref{Question: id}, approver.Request{Action: action})
		})
	}
	wg.Wait()
	votes := b.votes("s", id)
	if len(votes) != 1 {
		t.Fatalf("%d answers count, want 1", len(votes))
	}
	won := votes[0]
	for i, err := range errs {
		var settled *approver.SettledError
		switch {
		case err == nil:
			if r := receipts[i]; r.By != won.By || r.Answer != won.Mark.ID || !r.Settles || r.By != name(i) {
				t.Errorf("%s has the receipt %+v, the winner is %s", name(i), r, won.By)
			}
		case !errors.As(err, &settled):
			t.Errorf("%s: %v", name(i), err)
		case settled.By != won.By || settled.Action != won.Action || settled.At != won.Mark.Time || settled.How != inbox.Answered:
			t.Errorf("%s was told %+v, the winner is %s at %s", name(i), settled.Settlement, won.By, won.Mark.Time)
		case !strings.Contains(err.Error(), won.By):
			t.Errorf("%q does not name the winner", err)
		}
	}
}

func TestRefusals(t *testing.T) {
	elicitation := inboxtest.Spec{Kind: journal.CallElicitation}
	rule := func(texts ...string) []json.RawMessage {
		var list []json.RawMessage
		for _, text := range texts {
			list = append(list, json.RawMessage(text))
		}
		return list
	}
	for _, test := range []struct {
		name string
		spec inboxtest.Spec
		by   string // "" is alice
		req  approver.Request
		want string // part of the error
		is   error  // nil: *NotOfferedError
	}{
		{"nothing", inboxtest.Spec{}, "", approver.Request{}, "it takes allow-once", nil},
		{"unknown action", inboxtest.Spec{}, "", approver.Request{Action: "maybe"}, "it takes allow-once", nil},
		{"accept of a tool call", inboxtest.Spec{}, "", approver.Request{Action: journal.Accept}, "it takes allow-once", nil},
		{"allow of an elicitation", elicitation, "", approver.Request{Action: journal.AllowOnce}, "it takes accept", nil},
		{"always where not grantable", inboxtest.Spec{}, "", approver.Request{Action: journal.AlwaysAllow}, "asked every time", nil},
		{"never where not grantable", inboxtest.Spec{}, "", approver.Request{Action: journal.AlwaysDeny, Rules: rule(`{"tool":"x"}`)}, "asked every time", nil},
		{"nothing to suggest", inboxtest.Spec{Grantable: true}, "", approver.Request{Action: journal.AlwaysAllow}, "nothing to suggest", nil},
		{"empty rules", suggesting(), "", approver.Request{Action: journal.AlwaysAllow, RulesGiven: true}, "an empty list", nil},
		{"a rule that is none", suggesting(), "", approver.Request{Action: journal.AlwaysAllow, Rules: rule(`{"tool":"x","colour":"red"}`)}, "rule 1 cannot be used", nil},
		{"a second rule that is none", suggesting(), "", approver.Request{Action: journal.AlwaysAllow, Rules: rule(`{"tool":"x"}`, `{}`)}, "rule 2 cannot be used", nil},
		{"a rule that is no object", suggesting(), "", approver.Request{Action: journal.AlwaysAllow, Rules: rule(`[1]`)}, "not a JSON object", nil},
		{"a rule with a member twice", suggesting(), "", approver.Request{Action: journal.AlwaysAllow, Rules: rule(`{"tool":"x","tool":"y"}`)}, "take this answer", nil},
		{"a rule that says otherwise", suggesting(), "", approver.Request{Action: journal.AlwaysAllow, Rules: rule(`{"tool":"x","decision":"deny"}`)}, `says "deny"`, nil},
		{"rules once", suggesting(), "", approver.Request{Action: journal.AllowOnce, Rules: rule(`{"tool":"x"}`)}, "rules go with", nil},
		{"uses once", suggesting(), "", approver.Request{Action: journal.AllowOnce, Uses: 2}, "expiry and uses go with", nil},
		{"expiry once", suggesting(), "", approver.Request{Action: journal.DenyOnce, Expires: time.Now().Add(time.Hour)}, "expiry and uses go with", nil},
		{"negative uses", suggesting(), "", approver.Request{Action: journal.AlwaysAllow, Uses: -1}, "-1 uses", nil},
		{"expired already", suggesting(), "", approver.Request{Action: journal.AlwaysAllow, Expires: time.Now().Add(-time.Hour)}, "would have expired", nil},
		{"content of a tool call", suggesting(), "", approver.Request{Action: journal.AlwaysAllow, Content: json.RawMessage("{}")}, "content goes with", nil},
		{"content of a refusal", elicitation, "", approver.Request{Action: journal.Decline, Content: json.RawMessage("{}")}, "content goes with", nil},
		{"content that is not JSON", elicitation, "", approver.Request{Action: journal.Accept, Content: json.RawMessage("{")}, "not JSON", nil},
		{"another display", inboxtest.Spec{}, "", approver.Request{Action: journal.AllowOnce, Shown: journal.Digest(nil)}, "something else", nil},
		{"a note is missing", inboxtest.Spec{Note: "say why"}, "", approver.Request{Action: journal.AllowOnce, Note: "  "}, "asks for a note", nil},
		{"a note is too long", inboxtest.Spec{}, "", approver.Request{Action: journal.DenyOnce, Note: strings.Repeat("x", 16<<10+1)}, "shorten it", nil},
		{"a note is not UTF-8", inboxtest.Spec{}, "", approver.Request{Action: journal.DenyOnce, Note: "\xff"}, "not UTF-8", nil},
		{"not among those asked", inboxtest.Spec{Who: []journal.Entitlement{{Of: []string{"bob", "carol"}}}}, "", approver.Request{Action: journal.AllowOnce}, "not among those it asks: bob, carol", approver.ErrNotEntitled},
		{"not yet", inboxtest.Spec{Who: []journal.Entitlement{{Of: []string{"bob"}}, {Of: []string{"alice"}, From: ahead(time.Hour)}}}, "", approver.Request{Action: journal.AllowOnce}, "alice may answer from", approver.ErrNotEntitled},
		{"who asked", inboxtest.Spec{}, "decider", approver.Request{Action: journal.AllowOnce}, "decider asked", approver.ErrNotEntitled},
		{"for who asked", inboxtest.Spec{Frontends: []journal.Frontend{{Name: "chat", For: []string{"decider"}}}}, "chat", approver.Request{Action: journal.AllowOnce, By: "decider"}, "decider asked", approver.ErrNotEntitled},
		{"for somebody else", inboxtest.Spec{Frontends: []journal.Frontend{{Name: "chat", For: []string{"bob"}}}}, "chat", approver.Request{Action: journal.AllowOnce, By: "carol"}, "chat may not answer for carol", approver.ErrNotEntitled},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			id := b.ask("s", test.spec)
			by := "alice"
			if test.by != "" {
				by = test.by
			}
			_, err := approver.Answer(t.Context(), b.approver(by), approver.Ref{Question: id}, test.req)
			var notOffered *approver.NotOfferedError
			if test.is != nil && !errors.Is(err, test.is) || test.is == nil && !errors.As(err, &notOffered) {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q does not say %q on one line", err, test.want)
			}
			if n := len(b.votes("s", id)); n != 0 {
				t.Errorf("%d answers were written", n)
			}
		})
	}
}

func TestAnotherRoleAnswersNothing(t *testing.T) {
	b := newBench(t)
	id := b.ask("s", inboxtest.Spec{})
	for _, role := range []journal.Role{journal.RoleAgent, journal.RoleDecider, journal.RoleAuditor} {
		_, err := approver.Answer(t.Context(), b.writer(b.log, role, "x"), approver.Ref{Question: id}, approver.Request{Action: journal.AllowOnce})
		if !errors.Is(err, approver.ErrNotEntitled) {
			t.Errorf("%s: %v", role, err)
		}
	}
}

func TestSettledBefore(t *testing.T) {
	for _, test := range []struct {
		name   string
		spec   inboxtest.Spec
		settle func(b *bench, id string)
		want   inbox.Settlement
	}{
		{"answered", inboxtest.Spec{}, func(b *bench, id string) { b.answer(id, "bob", journal.DenyOnce) },
			inbox.Settlement{How: inbox.Answered, By: "bob", Action: journal.DenyOnce}},
		{"decided", inboxtest.Spec{}, func(b *bench, id string) {
			b.must(b.Decide(b.Context(), "s", id, journal.Deny, inboxtest.Rule()))
		}, inbox.Settlement{How: inbox.Decided, By: "decider", Action: "deny"}},
		{"withdrawn", inboxtest.Spec{}, func(b *bench, id string) { b.must(b.Withdraw(b.Context(), "s", id)) },
			inbox.Settlement{How: inbox.Withdrawn, By: "decider"}},
		{"ended", inboxtest.Spec{}, func(b *bench, id string) { b.must(b.End(b.Context(), "s")) },
			inbox.Settlement{How: inbox.Ended, By: "decider"}},
		{"lapsed", inboxtest.Spec{Deadline: ahead(-time.Hour)}, func(b *bench, id string) { b.must(b.Lapse(b.Context(), "s", id)) },
			inbox.Settlement{How: inbox.Lapsed, By: "decider", Action: "deny"}},
		{"past its deadline", inboxtest.Spec{Deadline: ahead(-time.Hour)}, func(*bench, string) {},
			inbox.Settlement{How: inbox.Lapsed, Action: "deny"}},
		{"by oneself", inboxtest.Spec{Need: people(2)}, func(b *bench, id string) { b.answer(id, "alice", journal.AllowOnce) },
			inbox.Settlement{How: inbox.Answered, By: "alice", Action: journal.AllowOnce}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			id := b.ask("s", test.spec)
			test.settle(b, id)
			before := len(b.votes("s", id))
			_, err := approver.Answer(t.Context(), b.approver("alice"), approver.Ref{Question: id}, approver.Request{Action: journal.AllowOnce})
			var settled *approver.SettledError
			if !errors.As(err, &settled) {
				t.Fatalf("got %v", err)
			}
			got := settled.Settlement
			if got.How != test.want.How || got.By != test.want.By || got.Action != test.want.Action || got.At.IsZero() || got.Why == "" {
				t.Errorf("told %+v, want %+v", got, test.want)
			}
			if after := len(b.votes("s", id)); after != before {
				t.Errorf("%d answers were written", after-before)
			}
		})
	}
}

func TestAnswersThatCount(t *testing.T) {
	for _, test := range []struct {
		name string
		spec inboxtest.Spec
		by   string
		req  approver.Request
		want func(v journal.Vote) bool
	}{
		{"always as suggested", suggesting(), "alice", approver.Request{Action: journal.AlwaysAllow, Uses: 3, Via: "test"},
			func(v journal.Vote) bool { return v.Rules == nil && v.Uses == 3 && v.Via == "test" }},
		{"always by rules of one's own", suggesting(), "alice", approver.Request{Action: journal.AlwaysDeny, Rules: []json.RawMessage{json.RawMessage(`{ "tool" : "x" }`)}},
			func(v journal.Vote) bool { return string(v.Rules) == `[{"tool":"x"}]` }},
		{"always where there is nothing to suggest", inboxtest.Spec{Grantable: true}, "alice", approver.Request{Action: journal.AlwaysAllow, RulesGiven: true, Rules: []json.RawMessage{json.RawMessage(`{"decision":"allow","tool":"x"}`)}},
			func(v journal.Vote) bool { return len(v.Rules) > 0 }},
		{"a denial with a note", inboxtest.Spec{}, "alice", approver.Request{Action: journal.DenyOnce, Note: "use scratch"},
			func(v journal.Vote) bool { return v.Note == "use scratch" && v.By == "alice" }},
		{"for another", inboxtest.Spec{Frontends: []journal.Frontend{{Name: "chat", For: []string{"bob"}}}}, "chat", approver.Request{Action: journal.AllowOnce, By: "bob", Via: "x"},
			func(v journal.Vote) bool { return v.By == "bob" && v.Via == "chat" && v.Mark.By.Actor == "chat" }},
		{"an elicitation", inboxtest.Spec{Kind: journal.CallElicitation}, "alice", approver.Request{Action: journal.Accept, Content: json.RawMessage(`{"a": 1}`)},
			func(v journal.Vote) bool { return string(v.Content) == `{"a":1}` }},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			id := b.ask("s", test.spec)
			r, err := approver.Answer(t.Context(), b.approver(test.by), approver.Ref{Session: "s", Question: id}, test.req)
			b.must(err)
			votes := b.votes("s", id)
			if len(votes) != 1 || !test.want(votes[0]) || votes[0].Mark.ID != r.Answer {
				t.Errorf("the chain holds %+v, the receipt is %+v", votes, r)
			}
		})
	}
}

func TestTwoAllowsFillTheNeed(t *testing.T) {
	b := newBench(t)
	id := b.ask("s", inboxtest.Spec{Need: people(2, "alice", "bob")})
	if r := b.answer(id, "alice", journal.AllowOnce); r.Settles {
		t.Error("one of two settles")
	}
	if r := b.answer(id, "bob", journal.AllowOnce); !r.Settles {
		t.Error("two of two do not settle")
	}
}

func TestFind(t *testing.T) {
	b := newBench(t)
	id := b.ask("s", inboxtest.Spec{})
	other := b.ask("t", inboxtest.Spec{})
	// Another session holds a question of the same id.
	st, err := b.State(t.Context(), "s")
	b.must(err)
	call, q := *st.Call(st.Question(id).Call), st.Question(id).Question
	_, err = b.Asker.Run(t.Context(), "u", "main")
	b.must(err)
	u, err := b.State(t.Context(), "u")
	b.must(err)
	c := call.Call
	c.Run = u.LiveRuns("main")[0].Run
	w := b.writer(b.log, journal.RoleDecider, "decider")
	b.must(w.Append(t.Context(), u, w.Now(u), journal.NewEvent(call.Mark.ID, &c), journal.NewEvent(id, &q)))
	for _, test := range []struct {
		ref  string
		want string // session, or an error's text
	}{
		{other, "t"},
		{strings.ToLower(other), "t"},
		{"t/" + other[:10], "t"},
		{"s/" + id, "s"},
		{"u/" + id, "u"},
		{id, "fits several questions"},
		{other[:7], "at least 8 characters"},
		{"nobody/" + id, "no such question"},
		{"no.body/" + id, "no such question"},
		{"00000000000000000000000000", "no such question"},
		{"", "no such question"},
	} {
		st, got, err := approver.Find(t.Context(), b.log, approver.ParseRef(test.ref))
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %s", test.ref, err, test.want)
			}
		case st.Chain().Session() != test.want || st.Question(got) == nil:
			t.Errorf("%s is %s in %s, want session %s", test.ref, got, st.Chain(), test.want)
		}
	}
	_, _, err = approver.Find(t.Context(), b.log, approver.Ref{Question: id})
	var ambiguous *approver.AmbiguousError
	if !errors.As(err, &ambiguous) || len(ambiguous.Matches) != 2 {
		t.Errorf("a shared id gives %v", err)
	}
}

func TestABrokenSessionTakesNoAnswer(t *testing.T) {
	b := newBench(t)
	id := b.ask("s", inboxtest.Spec{})
	b.ask("t", inboxtest.Spec{})
	b.log.Drop(uint64(len(b.log.Messages())))
	_, err := approver.Answer(t.Context(), b.approver("alice"), approver.Ref{Question: id}, approver.Request{Action: journal.AllowOnce})
	if !errors.Is(err, approver.ErrUnfit) || !strings.Contains(err.Error(), "decider repair s") {
		t.Errorf("got %v", err)
	}
}

// TestFaults answers while the journal fails in every way at every step. An
// accepted answer is in the chain once; one that failed is not there unless it
// said that it does not know.
func TestFaults(t *testing.T) {
	journaltest.EachStep(t, func(t *testing.T, log journal.Log, mem *journaltest.Memory) {
		b := newBench(t)
		b.log = mem
		b.Asker = inboxtest.New(b.writer(mem, journal.RoleDecider, "decider"))
		id := b.ask("s", inboxtest.Spec{})
		r, err := approver.Answer(t.Context(), b.writer(log, journal.RoleApprover, "alice"), approver.Ref{Question: id}, approver.Request{Action: journal.AllowOnce})
		st, loadErr := journal.LoadState(t.Context(), mem, journal.SessionChain("s"))
		b.must(loadErr)
		votes := st.Question(id).Answers
		switch {
		case err == nil && (len(votes) != 1 || votes[0].Mark.ID != r.Answer):
			t.Errorf("accepted %s, the chain holds %v", r.Answer, votes)
		case err != nil && !errors.Is(err, journal.ErrUnknown) && len(votes) != 0:
			t.Errorf("%v, and yet the chain holds %v", err, votes)
		case err != nil && !errors.Is(err, journal.ErrUnknown) && !errors.Is(err, journal.ErrUnavailable):
			t.Errorf("a fault of the journal gives %v", err)
		}
	})
}

// TestLosingARaceToAFault: another commit comes first each time, and the last
// of them settles the question.
func TestLosingARace(t *testing.T) {
	b := newBench(t)
	id := b.ask("s", inboxtest.Spec{})
	first := true
	log := &journaltest.Faulty{Log: b.log}
	log.Plan = func(_ int, op string) journaltest.Fault {
		if op == journaltest.OpPublish && first {
			first = false
			b.ask("s", inboxtest.Spec{Tool: "other"})
			b.answer(id, "bob", journal.DenyOnce)
		}
		return journaltest.Fault{}
	}
	_, err := approver.Answer(t.Context(), b.writer(log, journal.RoleApprover, "alice"), approver.Ref{Question: id}, approver.Request{Action: journal.AllowOnce})
	var settled *approver.SettledError
	if !errors.As(err, &settled) || settled.By != "bob" || len(b.votes("s", id)) != 1 {
		t.Errorf("got %v", err)
	}
}
