package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Explanation says why a call is judged as it is. Its JSON form is stable.
type Explanation struct {
	Tool     string   `json:"tool"`
	Decision Decision `json:"decision"`
	Reason   Reason   `json:"reason"`
	// Rule is the one reported, and Number its place, from 1; 0 for one of the
	// danger floor.
	Rule   *Rule `json:"rule,omitempty"`
	Number int   `json:"number,omitempty"`
	Facts  Facts `json:"facts"`
	// Parts are the effective commands, or one for a call that runs none.
	Parts []ExplainedPart `json:"parts"`
	// Others counts the rules that are for other tools.
	Others int `json:"others"`
	// Grant are the rules that a grant would need to settle all that asks. Empty
	// if nothing asks, or no grant may.
	Grant []Rule `json:"grant,omitempty"`
	// Allow are rules that, added to the policy, allow exactly this. Empty if
	// it is allowed, or Stands is not.
	Allow []Rule `json:"allow,omitempty"`
	// Stands says why no rule that is added can allow it.
	Stands string `json:"stands,omitempty"`
}

// ExplainedPart is one effective command with every rule for the tool.
type ExplainedPart struct {
	Command  string          `json:"command,omitempty"` // as a line
	Span     []int           `json:"span,omitempty"`
	Decision Decision        `json:"decision"`
	Reason   Reason          `json:"reason"`
	Number   int             `json:"number,omitempty"`
	Rules    []ExplainedRule `json:"rules"`
}

// ExplainedRule is what one rule says about a part.
type ExplainedRule struct {
	Number int    `json:"number"`         // from 1; 0 for one of the danger floor
	Line   int    `json:"line,omitempty"` // in the policy file, if it is known
	Rule   Rule   `json:"rule"`
	Answer string `json:"answer"` // yes, no or unknown
	Why    string `json:"why"`
	Fires  bool   `json:"fires"`
}

// Explain judges a call without grants and says how that comes about. It may run
// concurrently.
func (p *Policy) Explain(tool string, arguments json.RawMessage) Explanation {
	f := p.Facts(tool, arguments)
	v := p.Judge(tool, f, nil)
	e := Explanation{Tool: tool, Decision: v.Decision, Reason: v.Reason, Rule: v.Rule, Facts: f, Number: v.RuleIndex + 1}
	j := p.judging(tool, &f)
	for _, part := range v.Parts {
		one := ExplainedPart{Decision: part.Decision, Reason: part.Reason, Number: part.RuleIndex + 1, Rules: []ExplainedRule{}}
		if part.Command >= 0 {
			one.Command, one.Span = f.Commands[part.Command].String(), f.Commands[part.Command].Span
		}
		s := j.subject(part.Command)
		for k := range p.Rules {
			one.explain(&s, &p.Rules[k], k+1, p.RuleLine(k))
		}
		for k, floor := 0, p.floorRules(); k < len(floor); k++ {
			if a, _ := s.match(&floor[k]); a != no { // the rest only says that nothing is wrong
				one.explain(&s, &floor[k], 0, 0)
			}
		}
		e.Parts = append(e.Parts, one)
	}
	for k := range p.Rules {
		if !p.speaksOf(p.Rules[k].Tool, tool) {
			e.Others++
		}
	}
	e.Grant, _ = p.QuestionSuggestion(tool, f, v)
	e.Allow, e.Stands = p.allowing(tool, f, v)
	return e
}

func (part *ExplainedPart) explain(s *subject, r *Rule, number, line int) {
	if !s.named(r) {
		return
	}
	a, _ := s.match(r)
	carried := s.command != nil && s.command.Carrier && s.command.Where == "" && r.Decision == Allow
	one := ExplainedRule{Number: number, Line: line, Rule: *r, Answer: a.String(), Why: strings.Join(s.why(r), "; "), Fires: r.fires(a) && !carried}
	if carried {
		one.Why = "it only runs what follows, which is judged by itself"
	}
	part.Rules = append(part.Rules, one)
}

// String is yes, no or unknown.
func (a answer) String() string {
	switch a {
	case yes:
		return "yes"
	case no:
		return "no"
	}
	return "unknown"
}

// why says of each narrower of a rule what it found.
func (s *subject) why(r *Rule) (list []string) {
	add := func(a answer, text string) {
		if a == unknown {
			text = "cannot tell: " + text
		}
		list = append(list, text)
	}
	if r.Under != "" {
		a := s.underAnswer(r)
		add(a, s.whyUnder(r, a))
	}
	if r.Host != "" {
		a := s.hostAnswer(r)
		add(a, s.whyHost(r, a))
	}
	if r.Command != "" || r.Args != nil || r.ArgsAny != nil || r.Exact {
		a := s.commandAnswer(r)
		add(a, s.whyCommand(r, a))
	}
	if r.Check != "" {
		switch a := s.checkAnswer(r.Check); a {
		case yes:
			add(a, "it is what "+r.Check+" looks for")
		case no:
			add(a, "it is not what "+r.Check+" looks for")
		default:
			add(a, "there is no check "+r.Check)
		}
	}
	if len(list) == 0 {
		list = []string{"it covers every call of the tool"}
	}
	return list
}

func (s *subject) whyUnder(r *Rule, a answer) string {
	all := slices.Clone(s.facts.Paths)
	if s.command != nil {
		all = append(all, s.command.Writes...)
	}
	if len(all) == 0 {
		return "the call names no path"
	}
	fold := s.fold && r.Decision != Allow
	for _, p := range all {
		one := unknown
		if p.Unknown == "" {
			one = under(p.Path, s.facts.Root, r.Under, fold)
		}
		switch {
		case one == unknown && a == unknown && p.Unknown != "":
			return fmt.Sprintf("%q cannot be compared (%s)", p.Path, p.Unknown)
		case one == unknown && a == unknown:
			return fmt.Sprintf("%q and %q are not measured from the same place; give the tool a root", p.Path, r.Under)
		case one == a && a == yes:
			return fmt.Sprintf("%q is in %q", p.Path, r.Under)
		case one == a:
			return fmt.Sprintf("%q is not in %q", p.Path, r.Under)
		}
	}
	return "not every path is in it"
}

func (s *subject) whyHost(r *Rule, a answer) string {
	if len(s.facts.Hosts) == 0 {
		return "the call names no host"
	}
	h := s.facts.Hosts[0]
	switch {
	case a == unknown:
		return "the host cannot be read (" + orElse(h.Unknown, "of another url") + ")"
	case a == yes:
		return fmt.Sprintf("%q is %q", h.Host, r.Host)
	}
	return fmt.Sprintf("%q is not %q", h.Host, r.Host)
}

func (s *subject) whyCommand(r *Rule, a answer) string {
	c := s.command
	switch {
	case c == nil:
		return "the call runs no command"
	case !c.known():
		return "the command cannot be read (" + orElse(c.Unknown, "no program") + ")"
	case !matchProgram(r, c.Program):
		return fmt.Sprintf("%q is not %q", c.Program, r.Command)
	case a == yes:
		return fmt.Sprintf("it is %q", c.String())
	case a == no:
		return fmt.Sprintf("its arguments are others: %q", c.String())
	case c.Where != "" && r.Decision == Allow:
		return fmt.Sprintf("which %q %q is depends on where it is run (%s)", c.Program, c.Path, c.Where)
	case len(c.Writes) > 0 && r.Under == "" && r.Decision == Allow:
		return fmt.Sprintf("it writes %q, which the rule does not speak of", c.Writes[0].Path)
	}
	for _, name := range c.Assigns {
		if r.Decision == Allow && !safeVariable(s.safeEnv, name) {
			return fmt.Sprintf("the variable %s may change what it does; safe-env may name it", name)
		}
	}
	if c.Sealed {
		return fmt.Sprintf("whether the option is in %q depends on the program", c.String())
	}
	return fmt.Sprintf("its arguments can be read only up to %q", c.String())
}

// String is a command as a line for people. It is not for a shell.
func (c Command) String() string {
	if !c.known() {
		return "? (" + orElse(c.Unknown, "no program") + ")"
	}
	var b strings.Builder
	for _, name := range c.Assigns {
		b.WriteString(name + "=… ")
	}
	b.WriteString(orElse(c.Path, c.Program))
	for _, a := range c.Args {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`;&|<>()*?[]{}~#") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		b.WriteString(" " + a)
	}
	if !c.Sealed {
		b.WriteString(" …")
	}
	for _, w := range c.Writes {
		b.WriteString(" > " + w.Path)
	}
	return b.String()
}

// allowing finds rules that allow exactly a call, or says what stands in the way.
func (p *Policy) allowing(tool string, f Facts, v Verdict) (rules []Rule, stands string) {
	if v.Decision == Allow {
		return nil, ""
	}
	for _, part := range slices.SortedStableFunc(slices.Values(v.Parts), func(a, b Part) int { return int(a.Decision) - int(b.Decision) }) {
		if part.Rule == nil || part.Decision == Allow {
			continue
		}
		where := fmt.Sprintf("rule %d", part.RuleIndex+1)
		if part.RuleIndex < 0 {
			where = "the danger floor (" + part.Rule.Check + ")"
		}
		return nil, fmt.Sprintf("%s says %s, and that is stronger than any allow", where, part.Decision)
	}
	if !checkableTool(tool) {
		return nil, fmt.Sprintf("no rule can name the tool %q", tool)
	}
	if len(f.Commands) == 0 {
		r := p.Suggestion(tool, f)
		if len(f.Paths) == 1 && f.Paths[0].Unknown == "" && depth(f.Paths[0].Path) > 0 {
			r.Under = strings.TrimRight(f.Paths[0].Path, "/")
		}
		rules = []Rule{r}
	} else {
		rules = exactRules(tool, f, v)
	}
	more := *p
	more.Rules, more.index = append(slices.Clone(p.Rules), rules...), nil
	if got := more.Judge(tool, f, nil); got.Decision != Allow {
		return nil, "it cannot be told exactly by a rule: " + got.unclear(f)
	}
	return rules, ""
}

// unclear says what of a call rules cannot be certain about.
func (v Verdict) unclear(f Facts) string {
	for _, part := range v.Parts {
		if part.Decision != Allow && part.Command >= 0 {
			return f.Commands[part.Command].String()
		}
	}
	return "a path, host or argument that cannot be read"
}

func checkableTool(tool string) bool {
	return checkPattern("tool", tool) == nil && !strings.HasSuffix(tool, "*")
}

// YAML is a rule as one writes it in a policy file.
func (r Rule) YAML() string {
	members := r.members()
	var parts []string
	for _, name := range [...]string{"tool", "decision", "under", "host", "command", "args", "exact", "args-any", "check", "remember", "severity", "note"} {
		raw, ok := members[name]
		if !ok {
			continue
		}
		text := raw
		var s string
		var list []string
		switch {
		case json.Unmarshal([]byte(raw), &s) == nil && bareYAML(s):
			text = s
		case json.Unmarshal([]byte(raw), &s) == nil:
			text = string(quoteJSON(s))
		case json.Unmarshal([]byte(raw), &list) == nil:
			text = string(quoteJSON(list))
		}
		parts = append(parts, name+": "+text)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// bareYAML reports whether a string means itself without quotes.
func bareYAML(s string) bool {
	switch s {
	case "", "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '/' || i > 0 && (c >= '0' && c <= '9' || c == '-' || c == '.')) {
			return false
		}
	}
	return true
}
