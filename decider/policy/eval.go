package policy

import (
	"encoding/json"
	"strings"
)

// evaluation is the line that EvalLine prints.
type evaluation struct {
	Decision   Decision  `json:"decision"`
	Reason     Reason    `json:"reason"`
	Rule       *Rule     `json:"rule,omitempty"`
	Paths      []string  `json:"paths"`
	Suggestion RuleScope `json:"suggestion"`
}

// RuleScope is a rule without its decision, as listings show a suggestion.
type RuleScope Rule

// MarshalJSON writes the rule's members but decision.
func (s RuleScope) MarshalJSON() ([]byte, error) {
	raw := map[string]json.RawMessage{}
	for name, value := range Rule(s).members() {
		if name != "decision" {
			raw[name] = json.RawMessage(value)
		}
	}
	return json.Marshal(raw)
}

// EvalLine judges one line of a vector file and returns one line of JSON
// without a newline: decision, reason, rule (if one is reported), paths and
// suggestion; or error, for a line that cannot be read or rules that are
// refused.
//
// A line holds rules, tool and arguments, and may hold roots, path-params,
// command-params and floor. What it does not hold is taken from base, which
// may be nil; with a base, rules may be missing too. Without one the danger floor
// is off, unless the line has it. Members name, why, want
// and now are skipped. Grants play no part.
func EvalLine(base *Policy, line []byte) []byte {
	v, err := evalLine(base, line)
	if err != nil {
		v = map[string]string{"error": strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	out, err := json.Marshal(v)
	if err != nil {
		return []byte(`{"error":"the verdict has no JSON form"}`)
	}
	return out
}

func evalLine(base *Policy, line []byte) (any, error) {
	n, err := parseJSON("", line)
	if err != nil {
		return nil, err
	}
	p := Policy{Floor: Floor{Off: true}}
	if base != nil {
		p = *base
	}
	d := decoder{}
	tool := ""
	f := d.judgingFields(&p)
	f["tool"] = func(n *node) { d.word(n, "tool", &tool) }
	for _, skipped := range []string{"arguments", "name", "why", "want", "now"} {
		f[skipped] = func(*node) {}
	}
	seen := d.object(n, "line", f)
	for _, name := range []string{"tool", "arguments", "rules"} {
		if !seen[name] && len(d.faults) == 0 && (name != "rules" || base == nil) {
			d.fault(n.line, "line: member %q is missing", name)
		}
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return p.evaluate(tool, rawMember(line, "arguments")), nil
}

// rawMember returns the bytes of one member of a line that was read already.
func rawMember(line []byte, name string) json.RawMessage {
	members, err := readArguments(line)
	if err != nil {
		return nil
	}
	raw, _, _ := lookup(members, name)
	return raw
}

func (p *Policy) evaluate(tool string, arguments json.RawMessage) evaluation {
	f := p.Facts(tool, arguments)
	v := p.Judge(tool, f, nil)
	return evaluation{
		Decision:   v.Decision,
		Reason:     v.Reason,
		Rule:       v.Rule,
		Paths:      f.Displayed(),
		Suggestion: RuleScope(p.Suggestion(tool, f)),
	}
}
