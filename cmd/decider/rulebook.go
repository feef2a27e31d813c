package main

import (
	"fmt"
	"strings"

	"decisionjournal/approver"
	"decisionjournal/decider/policy"
)

// rulebook is a policy and where it came from.
type rulebook struct {
	name   string
	policy *policy.Policy
}

// text says what was decided, by which rule and why.
func (b rulebook) text(f *policy.Facts, v *policy.Verdict) string {
	return fmt.Sprintf("%s by %s: %s", v.Decision, b.by(v), approver.Visible(clipped(policy.Why(f, v))))
}

// by names what is behind a decision.
func (b rulebook) by(v *policy.Verdict) string {
	switch {
	case len(v.Grants) > 0 && v.Rule == nil:
		return strings.Join(v.Grants, " and ")
	case v.Rule == nil:
		return "no rule"
	}
	text := "the danger floor"
	if v.RuleIndex >= 0 {
		text = fmt.Sprintf("rules[%d]", v.RuleIndex)
		if line := b.policy.RuleLine(v.RuleIndex); line > 0 {
			text = fmt.Sprintf("%s:%d", b.name, line)
		}
	}
	if v.Rule.Note != "" {
		text += " (" + approver.Visible(v.Rule.Note) + ")"
	}
	return text
}

// judgedJSON is a verdict as lists print it.
type judgedJSON struct {
	Decision policy.Decision `json:"decision"`
	Reason   policy.Reason   `json:"reason"`
	Rule     *ruleJSON       `json:"rule"` // null for no rule
	Grants   []string        `json:"grants"`
	Why      string          `json:"why"`
}

// ruleJSON tells which rule it was: one of the danger floor has the place -1 and
// the line 0.
type ruleJSON struct {
	Index int    `json:"index"`
	Line  int    `json:"line"`
	Note  string `json:"note"`
}

func (b rulebook) json(f *policy.Facts, v *policy.Verdict) judgedJSON {
	j := judgedJSON{Decision: v.Decision, Reason: v.Reason, Grants: append([]string{}, v.Grants...), Why: policy.Why(f, v)}
	if v.Rule != nil {
		j.Rule = &ruleJSON{v.RuleIndex, b.policy.RuleLine(v.RuleIndex), v.Rule.Note}
	}
	return j
}

// clipWidth is how much of a call's arguments one line shows, in bytes.
const clipWidth = 160

func clipped(s string) string {
	if len(s) <= clipWidth {
		return s
	}
	return strings.ToValidUTF8(s[:clipWidth], "") + "…"
}
