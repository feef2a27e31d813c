package invariants

import (
	"encoding/json"
	"slices"
	"testing"

	"decisionjournal/journal"
)

// keyed fits the call with a key, and what is about it is found by its id.
func keyed(t *testing.T, ta *tale, key string) string {
	i, k := find(t, ta, 0, func(c *journal.Call) bool { return c.Key == key })
	return ta.commits[i].Events[k].ID
}

func start(call string) func(*journal.Start) bool {
	return func(b *journal.Start) bool { return b.Call == call }
}
func about(call string) func(*journal.Question) bool {
	return func(b *journal.Question) bool { return b.Call == call }
}
func decisionOn(call string) func(*journal.Decision) bool {
	return func(b *journal.Decision) bool { return b.Call == call }
}

// breaks are the ways to break each rule.
var breaks = map[Rule]map[string]func(*testing.T, *tale){
	OneRun: {
		"run opened twice": func(t *testing.T, ta *tale) { again(t, ta, 0, every[*journal.Opened]) },
		"no takeover": func(t *testing.T, ta *tale) {
			change(t, ta, 1, every[*journal.Opened], func(o *journal.Opened) { o.Takeover = false })
		},
		"a call after the end": func(t *testing.T, ta *tale) {
			change(t, ta, 0, func(c *journal.Call) bool { return c.Key == "denied" }, func(c *journal.Call) { c.Run = "r1" })
		},
		"a start after the end": func(t *testing.T, ta *tale) {
			change(t, ta, 1, start(keyed(t, ta, "again")), func(s *journal.Start) { s.Run = "r1" })
		},
		"an attach after the end": func(t *testing.T, ta *tale) {
			change(t, ta, 0, every[*journal.Attach], func(a *journal.Attach) { a.Run = "r1" })
		},
	},
	OneCall: {
		"the key again": func(t *testing.T, ta *tale) {
			again(t, ta, 0, func(c *journal.Call) bool { return c.Key == "plain" })
		},
	},
	AskedOnce: {
		"asked twice": func(t *testing.T, ta *tale) { again(t, ta, 0, about(keyed(t, ta, "first"))) },
		"asked under another attempt": func(t *testing.T, ta *tale) {
			again(t, ta, 0, about(keyed(t, ta, "first")))
			change(t, ta, 1, about(keyed(t, ta, "first")), func(q *journal.Question) { q.Attempt = 2 })
		},
		"asked when it is done": func(t *testing.T, ta *tale) {
			change(t, ta, 0, about(keyed(t, ta, "revoked")), func(q *journal.Question) { q.Call = keyed(t, ta, "plain") })
		},
		"asked without the lapse": func(t *testing.T, ta *tale) { drop(t, ta, 0, every[*journal.Lapse]) },
		"asked again without a retry": func(t *testing.T, ta *tale) {
			drop(t, ta, 0, func(a *journal.Attach) bool { return a.Retry })
		},
		"asked about an interruption that was none": func(t *testing.T, ta *tale) {
			drop(t, ta, 0, start(keyed(t, ta, "again")))
		},
		"made anew instead of joined": func(t *testing.T, ta *tale) {
			i, k := find(t, ta, 0, func(c *journal.Call) bool { return c.Key == "" })
			open := ta.commits[i].Events[k].ID
			again(t, ta, 0, func(c *journal.Call) bool { return c.Key == "" })
			to, _ := find(t, ta, 0, func(a *journal.Attach) bool { return a.Call == open })
			change(t, ta, 1, func(c *journal.Call) bool { return c.Key == "" }, func(c *journal.Call) { c.Run = "r2" })
			ta.commits = moved(ta.commits, i+1, to-1)
		},
	},
	OneDecision: {
		"decided twice": func(t *testing.T, ta *tale) { again(t, ta, 0, decisionOn(keyed(t, ta, "plain"))) },
		"decided under another attempt": func(t *testing.T, ta *tale) {
			again(t, ta, 0, decisionOn(keyed(t, ta, "plain")))
			change(t, ta, 1, decisionOn(keyed(t, ta, "plain")), func(d *journal.Decision) { d.Attempt = 2 })
		},
		"of no call": func(t *testing.T, ta *tale) {
			change(t, ta, 0, decisionOn(keyed(t, ta, "plain")), func(d *journal.Decision) { d.Call = ta.commits[0].Events[0].ID })
		},
	},
	Ground: {
		"by nothing": func(t *testing.T, ta *tale) {
			change(t, ta, 0, every[*journal.Decision], func(d *journal.Decision) { d.By = []journal.Cause{} })
		},
		"by an error": func(t *testing.T, ta *tale) {
			change(t, ta, 0, every[*journal.Decision], func(d *journal.Decision) { d.By = []journal.Cause{{Kind: journal.ByError}} })
		},
		"by a rule that denies": func(t *testing.T, ta *tale) {
			change(t, ta, 0, every[*journal.Decision], func(d *journal.Decision) {
				d.By = []journal.Cause{{Kind: journal.ByRule, Rule: rule("deny")}}
			})
		},
		"by an outcome of its own": func(t *testing.T, ta *tale) {
			change(t, ta, 0, func(d *journal.Decision) bool { return d.Outcome == journal.Deny }, func(d *journal.Decision) { d.Outcome = journal.Allow })
		},
		"by an answer that denies": func(t *testing.T, ta *tale) {
			change(t, ta, 0, every[*journal.Answer], func(a *journal.Answer) { a.Action = journal.DenyOnce })
			ta.witness.Answers[0].Action = journal.DenyOnce
		},
		"by no answer": func(t *testing.T, ta *tale) {
			ta.witness.Answers = ta.witness.Answers[1:]
			drop(t, ta, 0, every[*journal.Answer])
		},
		"by another's answer": func(t *testing.T, ta *tale) {
			i, k := find(t, ta, 2, every[*journal.Answer])
			other := ta.commits[i].Events[k].ID
			change(t, ta, 1, decisionOn(keyed(t, ta, "again")), func(d *journal.Decision) { d.By = []journal.Cause{byAnswer(other)} })
		},
		"by no grant": func(t *testing.T, ta *tale) { drop(t, ta, 0, every[*journal.Grant]) },
		"by a grant that denies": func(t *testing.T, ta *tale) {
			change(t, ta, 0, every[*journal.Grant], func(g *journal.Grant) { g.Rules = []json.RawMessage{rule("deny")} })
		},
		"by an expired grant": func(t *testing.T, ta *tale) {
			change(t, ta, 0, every[*journal.Grant], func(g *journal.Grant) { g.Expires = ta.commits[0].Time })
		},
		"by a grant used up": func(t *testing.T, ta *tale) {
			change(t, ta, 0, every[*journal.Grant], func(g *journal.Grant) { g.Uses = 1 })
		},
		"by a revoked grant": func(t *testing.T, ta *tale) {
			from, _ := find(t, ta, 0, every[*journal.Revoke])
			to, _ := find(t, ta, 0, start(keyed(t, ta, "again")))
			ta.commits = moved(ta.commits, from, to)
		},
	},
	OneStart: {
		"started twice": func(t *testing.T, ta *tale) { again(t, ta, 0, start(keyed(t, ta, "plain"))) },
		"started on a denial": func(t *testing.T, ta *tale) {
			change(t, ta, 0, decisionOn(keyed(t, ta, "plain")), func(d *journal.Decision) { d.Outcome = journal.Deny })
		},
		"started on nothing": func(t *testing.T, ta *tale) { drop(t, ta, 0, decisionOn(keyed(t, ta, "plain"))) },
		"started on another's allow": func(t *testing.T, ta *tale) {
			i, k := find(t, ta, 0, decisionOn(keyed(t, ta, "plain")))
			other := ta.commits[i].Events[k].ID
			change(t, ta, 0, start(keyed(t, ta, "first")), func(s *journal.Start) { s.Decision = other })
		},
		"started with other arguments": func(t *testing.T, ta *tale) {
			change(t, ta, 0, start(keyed(t, ta, "plain")), func(s *journal.Start) { s.Digest = policyID })
		},
		"started by who does not wait": func(t *testing.T, ta *tale) {
			drop(t, ta, 0, func(a *journal.Attach) bool { return a.Call == keyed(t, ta, "again") })
		},
		"started when it has its result": func(t *testing.T, ta *tale) {
			from, _ := find(t, ta, 1, func(r *journal.Result) bool { return r.Call == keyed(t, ta, "again") })
			to, _ := find(t, ta, 1, start(keyed(t, ta, "again")))
			ta.commits = moved(ta.commits, from, to)
		},
		"started after the lapse": func(t *testing.T, ta *tale) {
			call := keyed(t, ta, "revoked")
			i, k := find(t, ta, 0, decisionOn(call))
			dec, _ := find(t, ta, 0, every[*journal.Lapse])
			ta.commits = slices.Insert(slices.Clone(ta.commits), dec+1, journal.Commit{Session: session, Role: journal.RoleDecider, Actor: "decider",
				Time: ta.commits[dec].Time, Events: []journal.Event{journal.NewEvent("01ARZ3NDEKTSV4RRFFQ69G5FAV",
					&journal.Start{Call: call, Attempt: 1, Run: "r2", Decision: ta.commits[i].Events[k].ID, Digest: ta.commits[i].Events[k].Body.(*journal.Decision).Digest})}})
		},
	},
	OneResult: {
		"two results": func(t *testing.T, ta *tale) { again(t, ta, 0, every[*journal.Result]) },
		"of another run": func(t *testing.T, ta *tale) {
			change(t, ta, 0, every[*journal.Result], func(r *journal.Result) { r.Run = "r2" })
		},
		"of no start": func(t *testing.T, ta *tale) { drop(t, ta, 0, start(keyed(t, ta, "plain"))) },
	},
	EffectOnce: {
		"run again unasked": func(t *testing.T, ta *tale) {
			change(t, ta, 1, decisionOn(keyed(t, ta, "again")), func(d *journal.Decision) { d.By = []journal.Cause{byRule()} })
		},
		"run again on an answer to something else": func(t *testing.T, ta *tale) {
			change(t, ta, 0, func(q *journal.Question) bool { return q.Reason == journal.AskInterrupted }, func(q *journal.Question) { q.Reason = journal.AskNoMatch })
		},
		"run again, though not idempotent": func(_ *testing.T, ta *tale) { ta.witness.Idempotent = nil },
		"twice": func(_ *testing.T, ta *tale) {
			ta.witness.Effects = append(ta.witness.Effects, ta.witness.Effects[0])
		},
	},
	EffectStarted: {
		"no call": func(_ *testing.T, ta *tale) {
			ta.witness.Effects = append(ta.witness.Effects, Effect{session, "main", "free", json.RawMessage(`{"n":9}`)})
		},
		"no session": func(_ *testing.T, ta *tale) {
			ta.witness.Effects = append(ta.witness.Effects, Effect{"s2", "main", "free", json.RawMessage(`{"n":1}`)})
		},
		"another agent's": func(_ *testing.T, ta *tale) { ta.witness.Effects[0].Agent = "other" },
		"once more than started": func(_ *testing.T, ta *tale) {
			ta.witness.Effects = append(ta.witness.Effects, Effect{session, "main", "redo", json.RawMessage(`{"n":4}`)})
		},
		"not run": func(t *testing.T, ta *tale) {
			change(t, ta, 0, func(r *journal.Result) bool { return r.Call == keyed(t, ta, "plain") }, func(r *journal.Result) { r.Status = journal.StatusNotRun })
		},
	},
	ResultEffective: {
		"nothing took place": func(_ *testing.T, ta *tale) { ta.witness.Effects = ta.witness.Effects[1:] },
		"nothing at all":     func(_ *testing.T, ta *tale) { ta.witness.Effects = []Effect{} },
	},
	Said: {
		"asked of nobody's": func(_ *testing.T, ta *tale) { ta.witness.Asked[0].Question = "none" },
		"shown otherwise":   func(_ *testing.T, ta *tale) { ta.witness.Asked[0].Shown = policyID },
		"never said":        func(_ *testing.T, ta *tale) { ta.witness.Answers = ta.witness.Answers[1:] },
		"nobody said anything": func(_ *testing.T, ta *tale) {
			ta.witness.Answers = []Answer{}
		},
		"answered twice": func(t *testing.T, ta *tale) { again(t, ta, 0, every[*journal.Answer]) },
		"answered to something else": func(t *testing.T, ta *tale) {
			change(t, ta, 0, every[*journal.Answer], func(a *journal.Answer) { a.Shown = policyID })
		},
		"answered when it is over": func(t *testing.T, ta *tale) {
			again(t, ta, 0, every[*journal.Answer])
			i, _ := find(t, ta, 1, every[*journal.Answer])
			change(t, ta, 1, every[*journal.Answer], func(a *journal.Answer) { a.By = "another" })
			to, _ := find(t, ta, 0, decisionOn(keyed(t, ta, "first")))
			ta.commits = moved(ta.commits, i, to)
		},
	},
	Kept: {
		"an answer lost":  func(_ *testing.T, ta *tale) { ta.witness.Answers[0].ID = "lost" },
		"a result lost":   func(_ *testing.T, ta *tale) { ta.witness.Results[0].Digest = policyID },
		"another's":       func(_ *testing.T, ta *tale) { ta.witness.Results[0].Agent = "other" },
		"its key unknown": func(_ *testing.T, ta *tale) { ta.witness.Results[0].Key = "first" },
	},
}

// moved is a list with one element at another's place.
func moved(list []journal.Commit, from, to int) []journal.Commit {
	list = slices.Clone(list)
	c := list[from]
	return slices.Insert(slices.Delete(list, from, from+1), to, c)
}
