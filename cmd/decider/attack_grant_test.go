package main

import (
	"encoding/json"
	"fmt"

	"decisionjournal/approver"
	"decisionjournal/decider"
	"decisionjournal/journal"
)

// lent is the tool that a person allows in these attacks, for a while or once.
const lent = "lent"

// lend has a person answer a call of lent. It returns the call, which is decided
// and not started, and the grant that the answer left.
func (th *thief) lend(path string, req approver.Request) (call, grant string) {
	th.t.Helper()
	call = th.call(lent, fmt.Sprintf(`{"path":%q}`, path))
	th.settle()
	ref := approver.Ref{Session: th.session, Question: th.st.Call(call).Last().Question}
	if _, err := approver.Answer(th.t.Context(), th.ann, ref, req); err != nil {
		th.t.Fatal(err)
	}
	th.settle()
	for _, g := range th.st.Grants() {
		grant = g.Mark.ID
	}
	return call, grant
}

func (th *thief) always(uses int) approver.Request {
	return approver.Request{Action: journal.AlwaysAllow, Uses: uses}
}

func (th *thief) revoke(grant string) {
	th.t.Helper()
	if _, err := approver.Revoke(th.t.Context(), th.ann, th.session, grant, "no more"); err != nil {
		th.t.Fatal(err)
	}
	th.refresh()
}

// begin starts a call by its newest decision, if it can.
func (th *thief) begin(call string) {
	th.t.Helper()
	th.say(th.start(call, th.st.Call(call).Last().Decision))
}

// wantStarts fails unless calls were started this often, all together.
func (th *thief) wantStarts(want int, calls ...string) {
	th.t.Helper()
	got := 0
	_, all := th.startsOf(th.st.Chain())
	for _, s := range all {
		for _, call := range calls {
			if s.call == call {
				got++
			}
		}
	}
	if got != want {
		th.t.Errorf("started %d times, want %d", got, want)
	}
}

// wantAsked fails unless a call of lent that b makes waits for a person.
func (th *thief) wantAsked(b *journal.Call) {
	th.t.Helper()
	call := th.must(b)
	th.settle()
	if a := th.st.Call(call).Last(); a.Progress != journal.Open || a.Question == "" {
		th.t.Errorf("%s %s is %s", b.Tool, b.Arguments, a.Progress)
	}
	th.begin(call)
	th.wantStarts(0, call)
}

// attacksOnGrants are ways to get more out of an answer than a person gave.
func attacksOnGrants() map[string]func(th *thief) {
	return map[string]func(th *thief){
		"start-after-the-revoke": func(th *thief) {
			call, grant := th.lend("/w/x", th.always(0))
			allow := th.st.Call(call).Last().Decision
			th.revoke(grant)
			th.say(th.start(call, allow))
			th.settle()
			th.say(th.start(call, allow))
			th.wantStarts(0, call)
		},
		"start-again-after-the-revoke": func(th *thief) {
			call, grant := th.lend("/w/x", th.always(0))
			allow := th.st.Call(call).Last().Decision
			th.begin(call)
			th.revoke(grant)
			th.say(&journal.Result{Call: call, Attempt: 1, Run: "r1", Status: journal.StatusNotRun, Digest: journal.Digest(nil)})
			th.say(th.start(call, allow))
			th.settle()
			th.say(th.start(call, allow))
			th.wantStarts(1, call)
		},
		"two-starts-of-one-use": func(th *thief) {
			first, _ := th.lend("/w/x", th.always(1))
			second := th.call(lent, `{"path":"/w/y"}`)
			th.settle()
			th.say(th.start(first, th.st.Call(first).Last().Decision), th.start(second, th.st.Call(second).Last().Decision))
			th.begin(first)
			th.begin(second)
			th.settle()
			th.begin(second)
			th.wantStarts(1, first, second)
		},
		"an-answer-for-one-of-two": func(th *thief) {
			second := th.call(lent, `{"path":"/w/x"}`)
			first, _ := th.lend("/w/x", approver.Request{Action: journal.AllowOnce})
			th.say(th.start(second, th.st.Call(first).Last().Decision))
			th.say(th.start(second, th.st.Call(first).Last().Question))
			th.wantStarts(0, second)
		},
		"a-denial-tried-again": func(th *thief) {
			call, _ := th.lend("/w/x", approver.Request{Action: journal.DenyOnce})
			th.begin(call)
			th.say(&journal.Detach{Call: call, Run: "r1", Reason: "x"}, &journal.Attach{Call: call, Run: "r1", Retry: true})
			th.settle()
			th.begin(call)
			th.wantStarts(0, call)
		},
		"a-grant-in-another-layer": func(th *thief) {
			th.lend("/w/x", th.always(0))
			b := th.body(lent, `{"path":"/w/x"}`)
			b.Layer = "inner"
			th.wantAsked(b)
		},
		"a-grant-outside-its-directory": func(th *thief) {
			th.lend("/w/deep/x", th.always(0))
			for _, path := range []string{"/w/x", "/w/deep/../x", "/w/deeper/x", "/w/DEEP/x", "w/deep/x", "deep/../../x"} {
				th.wantAsked(th.body(lent, fmt.Sprintf(`{"path":%q}`, path)))
			}
		},
		"a-grant-for-other-tools": func(th *thief) {
			th.lend("/w/x", th.always(0))
			for _, tool := range []string{"lent2", "len", "Lent", "lent*"} {
				th.wantAsked(th.body(tool, `{"path":"/w/x"}`))
			}
		},
		"a-grant-in-another-session": func(th *thief) {
			th.lend("/w/x", th.always(0))
			th.siege.thief(th.t, th.session+"-2").wantAsked(th.body(lent, `{"path":"/w/x"}`))
		},
		"a-grant-behind-false-facts": func(th *thief) {
			th.lend("/w/x", th.always(0))
			b := th.body(lent, `{"path":"/etc/x"}`)
			b.Facts = json.RawMessage(`{"paths":[{"path":"/w/x"}],"tool":"lent"}`)
			th.say(b)
			th.settle()
			for _, c := range th.st.Calls() {
				if string(c.Arguments) == string(b.Arguments) && c.Last().Progress == journal.Allowed {
					th.t.Error("believed")
				}
			}
		},
		"a-grant-behind-a-false-digest": func(th *thief) {
			call, _ := th.lend("/w/x", th.always(0))
			b := th.body(lent, `{"path":"/etc/x"}`)
			b.Digest = th.st.Call(call).Digest
			th.say(b)
			th.settle()
			for _, c := range th.st.Calls() {
				if string(c.Arguments) == string(b.Arguments) && c.Last().Progress == journal.Allowed {
					th.t.Error("believed")
				}
			}
		},
		"an-answers-bytes-again": func(th *thief) {
			th.lend("/w/x", approver.Request{Action: journal.AllowOnce})
			data := th.last(journal.RoleApprover).Data
			call := th.call(lent, `{"path":"/w/x"}`)
			th.settle()
			th.bytes(data)
			th.begin(call)
			th.wantStarts(0, call)
		},
		"the-grant-of-a-run-that-ended": func(th *thief) {
			call, _ := th.lend("/w/x", th.always(0))
			allow := th.st.Call(call).Last().Decision
			th.must(&journal.Closed{Agent: "main", Run: "r1"})
			th.say(th.start(call, allow))
			th.wantStarts(0, call)
		},
		"a-rule-in-the-words-of-a-grant": func(th *thief) {
			th.lend("/w/x", th.always(0))
			d := th.decision(journal.Cause{Kind: journal.ByGrant, ID: th.st.Grants()[0].Mark.ID})
			d.Engine = decider.Engine
			th.say(d)
		},
	}
}
