package policy

import "slices"

// Verdict is what the policy says about a call. The zero value denies.
type Verdict struct {
	// Decision is the strictest of the parts', grants included.
	Decision Decision
	// Reason belongs to the rule reported; without one it is why the parts ask,
	// or asked before grants settled them.
	Reason Reason
	// Rule is the most specific rule behind the decision; nil for no match and
	// for a decision made by grants. It points into the policy: do not change it.
	Rule *Rule
	// RuleIndex is the place of Rule in Policy.Rules, -1 for nil and for a rule of
	// the danger floor.
	RuleIndex int
	// Static is the decision of the static rules alone.
	Static Decision
	// Grants are the ids of the grants that settled asking parts, in the order
	// the grants were given, each once. A deny grant stands alone.
	Grants []string
	// Parts are the effective commands, or one part for a call that runs none.
	Parts []Part
	// Grantable: the decision is Ask, and every part that asks would let a
	// grant answer.
	Grantable bool
}

// Part is the verdict on one effective command, or on a call that runs none.
type Part struct {
	// Command is the index in Facts.Commands, -1 for a call that runs none.
	Command int
	// Decision of this part, grants included; Static without them.
	Decision, Static Decision
	// Reason is why the static rules decided so.
	Reason Reason
	// Rule and RuleIndex are as in Verdict, of the static rules.
	Rule      *Rule
	RuleIndex int
	// Consults: the part asks and lets grants answer. A part that asks by a
	// rule does not, unless every ask rule that fired says remember.
	Consults bool
	// Grant is the id of the grant that settled the part, "" if none did.
	Grant string
}

// Judge holds a call's facts against the static rules, and the parts that ask
// against the grants. It is a function of its arguments and the rules, reads
// no clock and no file, and may run concurrently.
//
// A static deny or allow is final: grants are consulted only for an ask.
func (p *Policy) Judge(tool string, f Facts, grants []Grant) Verdict {
	var v Verdict
	var set GrantSet
	for _, g := range grants {
		set.Add(g)
	}
	p.JudgeInto(&v, tool, &f, &set, nil)
	return v
}

// JudgeInto is [Policy.Judge] with compiled grants, nil for none, of which counts
// says whether one that matches may be consulted; a nil counts is any. It writes
// the verdict over one that was used before, whose Parts it takes over.
func (p *Policy) JudgeInto(v *Verdict, tool string, f *Facts, grants *GrantSet, counts func(id string) bool) {
	j := p.judging(tool, f)
	n := max(1, len(f.Commands))
	*v = Verdict{Static: Allow, Parts: slices.Grow(v.Parts[:0], n)[:n]}
	for i := range v.Parts {
		v.Parts[i] = j.part(i)
		v.Static = min(v.Static, v.Parts[i].Static)
	}
	if v.Static == Ask && grants.Len() > 0 {
		j.consult(v, grants, counts)
	}
	v.Decision = Allow
	for i := range v.Parts {
		v.Decision = min(v.Decision, v.Parts[i].Decision)
	}
	v.report()
}

type judging struct {
	policy *Policy
	index  *index
	tool   string
	alias  string
	facts  *Facts
}

func (p *Policy) judging(tool string, f *Facts) judging {
	x := p.indexed()
	return judging{policy: p, index: x, tool: tool, alias: x.names[tool].Is, facts: f}
}

func (j *judging) subject(command int) subject {
	s := subject{tool: j.tool, alias: j.alias, facts: j.facts, fold: j.policy.foldPaths(), safeEnv: j.policy.SafeEnv}
	if command >= 0 {
		s.command = &j.facts.Commands[command]
	}
	return s
}

// part judges one effective command by every static rule.
func (j *judging) part(i int) Part {
	if len(j.facts.Commands) == 0 {
		i = -1
	}
	s := search{subject: j.subject(i)}
	carrier := s.command != nil && s.command.Carrier && s.command.Where == "" && s.command.known()
	last := Allow
	if carrier {
		last = Ask
	}
	for d := Deny; d <= last; d++ {
		if s.in(j.index, d); s.best.rule != nil {
			part := ruled(i, d, s.answer, s.best.rule, s.best.index)
			// One rule that means every time is not softened by another that
			// remembers.
			part.Consults = d == Ask && s.remember
			return part
		}
	}
	if carrier {
		return Part{Command: i, Decision: Allow, Static: Allow, Reason: ReasonNoMatch, RuleIndex: -1}
	}
	return unmatched(i, j.doubt(&s))
}

// doubt reports whether any rule for the tool could not be certain.
func (j *judging) doubt(s *search) bool {
	if doubt, sure := s.doubt(j.index); sure {
		return doubt
	}
	for _, rules := range [...][]Rule{j.policy.Rules, j.policy.floorRules()} {
		for k := range rules {
			if _, unsure := s.match(&rules[k]); unsure {
				return true
			}
		}
	}
	return false
}

func ruled(i int, d Decision, a answer, r *Rule, index int) Part {
	p := Part{Command: i, Decision: d, Static: d, Reason: ReasonRule, Rule: r, RuleIndex: index}
	if a != yes {
		p.Reason = ReasonUnevaluable
	}
	return p
}

func unmatched(i int, doubt bool) Part {
	p := Part{Command: i, Decision: Ask, Static: Ask, Reason: ReasonNoMatch, RuleIndex: -1, Consults: true}
	if doubt {
		p.Reason = ReasonUnevaluable
	}
	return p
}

// settles reports whether one of the grant's rules with this decision fires.
func (j *judging) settles(g *Grant, d Decision, part *Part) bool {
	s := j.subject(part.Command)
	for i := range g.Rules {
		if r := &g.Rules[i]; r.Decision == d {
			if a, _ := s.match(r); r.fires(a) {
				return true
			}
		}
	}
	return false
}

// report names the rule behind the decision, and whether grants may answer.
func (v *Verdict) report() {
	v.RuleIndex, v.Reason = -1, ReasonNoMatch
	v.Grantable = v.Decision == Ask
	for i := range v.Parts {
		p := &v.Parts[i]
		switch {
		case p.Decision != v.Decision:
			continue
		case v.Decision != v.Static:
			// Grants made the decision; say why the part they settled asked.
			if p.Grant != "" {
				v.Reason = p.Reason
				return
			}
			continue
		}
		v.Grantable = v.Grantable && p.Consults
		v.adopt(p)
	}
}

// adopt takes over a part's rule and reason if they say more than those so far.
func (v *Verdict) adopt(p *Part) {
	switch {
	case p.Rule == nil && v.Rule == nil && p.Reason == ReasonUnevaluable:
		v.Reason = p.Reason
	case p.Rule != nil && (v.Rule == nil || moreSpecific(p.Rule, v.Rule)):
		v.Rule, v.RuleIndex, v.Reason = p.Rule, p.RuleIndex, p.Reason
	}
}
