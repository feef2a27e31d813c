package approver

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// Earlier says which questions of a session, asked before one, rules would have
// answered with an allow had they been granted then.
type Earlier struct {
	// Asked is how many calls were asked about before.
	Asked int `json:"asked"`
	// Suggestion and Alternatives are the questions that each set of rules that
	// is offered would have let through, by id, oldest first.
	Suggestion   []string   `json:"suggestion"`
	Alternatives [][]string `json:"alternatives"`
}

// LookBack holds the rules that a question offers against what was asked before
// it in its session. A question whose policy or facts cannot be read is let
// through by none. It returns an error if the policies cannot be read.
func LookBack(ctx context.Context, log journal.Log, st *journal.State, question string) (Earlier, error) {
	q := st.Question(question)
	policies, err := journal.LoadState(ctx, log, journal.PolicyChain())
	if q == nil || err != nil {
		return Earlier{}, err
	}
	e := Earlier{Suggestion: []string{}, Alternatives: make([][]string, len(q.Alternatives))}
	suggested, alternatives := grantOf(q.Suggestion), make([][]policy.Grant, len(q.Alternatives))
	for i, rules := range q.Alternatives {
		e.Alternatives[i], alternatives[i] = []string{}, grantOf(rules)
	}
	parsed := map[string]*policy.Policy{}
	for _, before := range st.Questions() {
		call := st.Call(before.Call)
		if before.Mark.N >= q.Mark.N || call.Kind != journal.CallTool || call.Layer != st.Call(q.Call).Layer {
			continue
		}
		e.Asked++
		pol, read := parsed[before.Policy]
		if !read {
			pol = parsePolicy(policies.Policy(before.Policy))
			parsed[before.Policy] = pol
		}
		var facts policy.Facts
		if pol == nil || json.Unmarshal(before.Facts, &facts) != nil {
			continue
		}
		lets := func(grants []policy.Grant) bool {
			return before.Grantable && len(grants) > 0 && pol.Judge(call.Tool, facts, grants).Decision == policy.Allow
		}
		if lets(suggested) {
			e.Suggestion = append(e.Suggestion, before.Mark.ID)
		}
		for i := range alternatives {
			if lets(alternatives[i]) {
				e.Alternatives[i] = append(e.Alternatives[i], before.Mark.ID)
			}
		}
	}
	return e, nil
}

func parsePolicy(stored *journal.PolicyState) *policy.Policy {
	if stored == nil {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(stored.Bytes)
	if err != nil {
		return nil
	}
	pol, err := policy.Parse(stored.Digest, raw)
	if err != nil {
		return nil
	}
	return pol
}

// grantOf is what rules are once they are granted, nil if they are none.
func grantOf(raw []json.RawMessage) []policy.Grant {
	var g policy.Grant
	for _, r := range raw {
		rule, err := policy.ParseRule(r)
		if err != nil {
			return nil
		}
		rule.Decision = policy.Allow
		g.Rules = append(g.Rules, rule)
	}
	if len(g.Rules) == 0 {
		return nil
	}
	return []policy.Grant{g}
}
