package policy

import (
	"slices"
	"time"
)

// Approval is one entry of a policy's approval list. It matches a call if all
// of its narrowers do; an entry without any matches every call.
type Approval struct {
	// Tool, Session and Agent are exact names or prefixes ending in "*"; "" is
	// any.
	Tool, Session, Agent string
	// Severity is that of the rule that asks, "" for any.
	Severity string
	// Rule holds the members, as JSON, that the rule that asks must have. Nil
	// is any rule or none.
	Rule map[string]string
	// Who may answer, and from when on. Empty: any approver at once.
	Who []Who
	// Need are the stages to be filled. Empty: one answer.
	Need []Stage
	// Deadline is how long the question lives; nil is the policy's setting, 0
	// for ever.
	Deadline *time.Duration
	// Note: an answer must carry a note.
	Note bool
}

// Who names principals that may answer a question.
type Who struct {
	// Of are principals; in a policy groups too. Empty is any approver.
	Of []string
	// From is how long after the question was asked they may.
	From time.Duration
}

// Stage is a number of allows needed.
type Stage struct {
	// Of are principals whose allows count; in a policy groups too. Empty is
	// any that may answer.
	Of []string
	// Count is how many different ones are needed, at least 1.
	Count int
}

// ApprovalCall is what approval entries match.
type ApprovalCall struct {
	Tool string
	// Rule is the rule that asks, nil if none does.
	Rule *Rule
	// Severity is that of the question, usually the rule's.
	Severity string
	Session  string
	Agent    string
}

// Requirement is who must answer a question and how, with groups spelled out
// as principals. Durations count from when it was asked.
type Requirement struct {
	// Who may answer; empty is any approver at once.
	Who []Who
	// Need is never empty.
	Need []Stage
	// Deadline is 0 for none.
	Deadline time.Duration
	// Note: an answer must carry one.
	Note bool
}

// Requirement finds the first approval entry that matches, else asks for any
// one approver within the policy's deadline.
func (p *Policy) Requirement(call ApprovalCall) Requirement {
	r := Requirement{Deadline: p.Settings.Deadline}
	if a := p.approvalFor(call); a != nil {
		r.Note = a.Note
		if a.Deadline != nil {
			r.Deadline = *a.Deadline
		}
		for _, w := range a.Who {
			r.Who = append(r.Who, Who{Of: p.spellOut(w.Of), From: w.From})
		}
		for _, s := range a.Need {
			r.Need = append(r.Need, Stage{Of: p.spellOut(s.Of), Count: s.Count})
		}
	}
	if len(r.Need) == 0 {
		r.Need = []Stage{{Count: 1}}
	}
	return r
}

func (p *Policy) approvalFor(call ApprovalCall) *Approval {
	for i := range p.Approval {
		if a := &p.Approval[i]; a.matches(call, p.CalledAs(call.Tool)) {
			return a
		}
	}
	return nil
}

func (a *Approval) matches(call ApprovalCall, alias string) bool {
	optional := func(pattern, name string) bool { return pattern == "" || matchPattern(pattern, name) }
	return (optional(a.Tool, call.Tool) || matchAlias(a.Tool, alias)) && optional(a.Session, call.Session) && optional(a.Agent, call.Agent) &&
		(a.Severity == "" || a.Severity == call.Severity) && a.matchesRule(call.Rule)
}

func (a *Approval) matchesRule(r *Rule) bool {
	if a.Rule == nil {
		return true
	}
	if r == nil {
		return false
	}
	have := r.members()
	for name, want := range a.Rule {
		if have[name] != want {
			return false
		}
	}
	return true
}

// spellOut replaces groups by their members and drops repetitions.
func (p *Policy) spellOut(names []string) []string {
	var out []string
	for _, name := range names {
		members, group := p.Groups[name]
		if !group {
			members = []string{name}
		}
		for _, m := range members {
			if !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	return out
}

func (d *decoder) approval(n *node, what string) (a Approval) {
	d.mark(what, n)
	d.object(n, what, fields{
		"tool":     func(n *node) { d.onePattern(n, what+": tool", &a.Tool) },
		"session":  func(n *node) { d.onePattern(n, what+": session", &a.Session) },
		"agent":    func(n *node) { d.onePattern(n, what+": agent", &a.Agent) },
		"severity": func(n *node) { d.severity(n, what+": severity", &a.Severity) },
		"rule":     func(n *node) { a.Rule = d.partialRule(n, what+": rule") },
		"who":      func(n *node) { a.Who = decodeList(d, n, what+": who", d.who) },
		"need":     func(n *node) { a.Need = decodeList(d, n, what+": need", d.stage) },
		"deadline": func(n *node) { a.Deadline = new(time.Duration); d.duration(n, what+": deadline", a.Deadline) },
		"note":     func(n *node) { d.boolean(n, what+": note", &a.Note) },
	})
	return a
}

func (d *decoder) onePattern(n *node, what string, to *string) {
	before := len(d.faults)
	d.word(n, what, to)
	if len(d.faults) > before {
		return
	}
	if err := checkPattern(what, *to); err != nil {
		d.fault(n.line, "%v", err)
	}
}

func (d *decoder) severity(n *node, what string, to *string) {
	d.word(n, what, to)
	if *to != "" && *to != SeverityDanger {
		d.fault(n.line, "%s must be %q, not %q", what, SeverityDanger, *to)
	}
}

// partialRule reads any members of a rule, and keeps them as a rule's JSON
// form would have them.
func (d *decoder) partialRule(n *node, what string) map[string]string {
	var r Rule
	seen := d.object(n, what, d.ruleFields(what, &r))
	all := r.members()
	out := map[string]string{}
	for name := range seen {
		// A member that is its zero value is left out of a rule's JSON form;
		// "" then asks for its absence.
		out[name] = all[name]
	}
	return out
}

func (d *decoder) who(n *node, what string) (w Who) {
	d.object(n, what, fields{
		"of":   func(n *node) { d.names(n, what+": of", &w.Of) },
		"from": func(n *node) { d.duration(n, what+": from", &w.From) },
	})
	return w
}

func (d *decoder) stage(n *node, what string) Stage {
	s := Stage{Count: 1}
	d.object(n, what, fields{
		"of":    func(n *node) { d.names(n, what+": of", &s.Of) },
		"count": func(n *node) { d.count(n, what+": count", 1, &s.Count) },
	})
	return s
}

// checkApproval finds entries that nobody could ever answer.
func (d *decoder) checkApproval(p *Policy, a *Approval, what string) {
	for _, w := range a.Who {
		for _, name := range w.Of {
			d.known(p, d.at[what], what+": who", name)
		}
	}
	for _, s := range a.Need {
		for _, name := range s.Of {
			d.known(p, d.at[what], what+": need", name)
		}
		if of := p.spellOut(s.Of); len(of) > 0 && s.Count > len(of) {
			d.fault(d.at[what], "%s: need asks for %d answers of %d principals", what, s.Count, len(of))
		}
	}
}
