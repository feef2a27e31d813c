package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// Suite is a file of calls with what a policy should decide about each. Make one
// with [ParseSuite].
type Suite struct {
	// Policy is the path of the policy file, relative to that of the suite; "" if
	// the suite names none.
	Policy string
	// Roots stand in place of the policy's; nil: they do not.
	Roots map[string]string
	// Cases are never empty.
	Cases []Case
}

// Case is one call and what is wanted.
type Case struct {
	// Line is where the case begins in the file.
	Line int
	// Name says what the case is about, "" if it does not say.
	Name string
	// Tool is called with Arguments.
	Tool string
	// Arguments are as a call has them. They need not be an object, nor JSON.
	Arguments json.RawMessage
	// Want is the decision.
	Want Decision
	// Rule is the rule that should be behind it; nil: any or none.
	Rule *RuleRef
	// Grants stand when the call is judged. Their ids are grants[0] and on.
	Grants []Grant
}

// RuleRef tells a rule of a policy by its note or its place.
type RuleRef struct {
	// Note is that of the rule, one of the danger floor included; "": Index counts.
	Note string
	// Index is the place in Policy.Rules, -1 for no rule.
	Index int
}

// String writes what a suite says.
func (r RuleRef) String() string {
	switch {
	case r.Note != "":
		return strconv.Quote(r.Note)
	case r.Index < 0:
		return "no rule"
	}
	return at(r.Index)
}

func (r RuleRef) is(v Verdict) bool {
	if r.Note != "" {
		return v.Rule != nil && v.Rule.Note == r.Note
	}
	return v.RuleIndex == r.Index && (v.Rule == nil) == (r.Index < 0)
}

// ParseSuite reads a suite from JSON or YAML as strictly as [Parse] reads a policy,
// and reports faults as it does.
func ParseSuite(name string, b []byte) (*Suite, error) {
	n, err := document(name, b)
	if err != nil {
		return nil, err
	}
	d := decoder{file: name}
	s := &Suite{}
	d.object(n, "suite", fields{
		"policy": func(n *node) { d.word(n, "policy", &s.Policy) },
		"roots":  func(n *node) { d.roots(n, &s.Roots) },
		"cases":  func(n *node) { s.Cases = decodeList(&d, n, "cases", d.testCase) },
	})
	if len(s.Cases) == 0 {
		d.fault(n.line, "suite: there are no cases; write a list of {tool, arguments, want} under cases")
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) testCase(n *node, what string) Case {
	c := Case{Line: n.line}
	in := func(name string) string { return what + ": " + name }
	before := len(d.faults)
	seen := d.object(n, what, fields{
		"name":      func(n *node) { d.word(n, in("name"), &c.Name) },
		"tool":      func(n *node) { d.word(n, in("tool"), &c.Tool) },
		"arguments": func(n *node) { c.Arguments = d.arguments(n, in("arguments")) },
		"want":      func(n *node) { d.decision(n, in("want"), &c.Want) },
		"rule":      func(n *node) { c.Rule = d.ruleRef(n, in("rule")) },
		"grants":    func(n *node) { c.Grants = decodeList(d, n, in("grants"), d.grant) },
	})
	for _, name := range []string{"tool", "arguments", "want"} {
		if !seen[name] && len(d.faults) == before {
			d.fault(n.line, "%s: member %q is missing", what, name)
		}
	}
	for i := range c.Grants {
		c.Grants[i].ID = fmt.Sprintf("grants[%d]", i)
	}
	return c
}

func (d *decoder) grant(n *node, what string) Grant {
	return Grant{Rules: decodeList(d, n, what, d.rule)}
}

func (d *decoder) ruleRef(n *node, what string) *RuleRef {
	r := RuleRef{Index: -1}
	switch n.kind {
	case kindNull:
	case kindNumber:
		at, err := strconv.ParseUint(n.text, 10, 31)
		if err != nil {
			d.fault(n.line, "%s must be a rule's place, from 0 on, not %s", what, n.text)
		}
		r.Index = int(at)
	case kindString:
		d.word(n, what, &r.Note)
	default:
		d.fault(n.line, "%s must be a rule's place, its note, or null for no rule, not %s", what, n.kind)
	}
	return &r
}

// arguments are a value as JSON; a string stands for its own text, so that what is
// no JSON can be written too.
func (d *decoder) arguments(n *node, what string) json.RawMessage {
	if n.kind == kindString {
		return json.RawMessage(n.text)
	}
	return d.json(n, what)
}

func (d *decoder) json(n *node, what string) []byte {
	switch n.kind {
	case kindNull:
		return []byte("null")
	case kindBool:
		return []byte(strings.ToLower(n.text))
	case kindNumber:
		if !json.Valid([]byte(n.text)) {
			d.fault(n.line, "%s: %s is no number in JSON; write it in digits, or in quotes", what, n.text)
		}
		return []byte(n.text)
	case kindString:
		// What was read as text has a JSON form.
		text, _ := json.Marshal(n.text)
		return text
	case kindList:
		var items []string
		d.list(n, what, func(i int, item *node) { items = append(items, string(d.json(item, fmt.Sprintf("%s[%d]", what, i)))) })
		return []byte("[" + strings.Join(items, ",") + "]")
	}
	var args []argument
	d.members(n, what, func(k key, v *node) {
		args = append(args, argument{k.name, d.json(v, what+": "+k.name)})
	})
	return writeObject(args)
}

// CaseResult is how a policy decided a case.
type CaseResult struct {
	Case    *Case
	Facts   Facts
	Verdict Verdict
	// Missed: the decision is not the one that was wanted, or not by the rule.
	Missed bool
}

// Run judges every case by a policy, in order.
func (s *Suite) Run(p *Policy) []CaseResult {
	q := *p
	if s.Roots != nil {
		q.Roots = maps.Clone(s.Roots)
	}
	out := make([]CaseResult, len(s.Cases))
	for i := range s.Cases {
		c := &s.Cases[i]
		f := q.Facts(c.Tool, c.Arguments)
		v := q.Judge(c.Tool, f, c.Grants)
		out[i] = CaseResult{Case: c, Facts: f, Verdict: v, Missed: v.Decision != c.Want || c.Rule != nil && !c.Rule.is(v)}
	}
	return out
}

// ParseCall reads a call that is written as {"tool": ..., "arguments": ...}, with a
// name if wanted. The arguments keep their bytes, and may be anything.
func ParseCall(line []byte) (tool string, arguments json.RawMessage, err error) {
	n, err := parseJSON("", line)
	if err != nil {
		return "", nil, err
	}
	d := decoder{}
	skipped := func(*node) {}
	seen := d.object(n, "call", fields{
		"tool":      func(n *node) { d.word(n, "tool", &tool) },
		"arguments": skipped, "name": skipped,
	})
	for _, name := range []string{"tool", "arguments"} {
		if !seen[name] && len(d.faults) == 0 {
			d.fault(n.line, "call: member %q is missing", name)
		}
	}
	if err := d.err(); err != nil {
		return "", nil, err
	}
	return tool, rawMember(line, "arguments"), nil
}
