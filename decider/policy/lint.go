package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Warning is something in a policy that is valid and surely not meant.
type Warning struct {
	// Line counts from 1; 0 if it is not known.
	Line int
	// Msg says what is odd and what to write instead.
	Msg string
}

// Lint names what is valid in a policy and surely not meant, in the order of its
// lines: rules that never decide, rules that are there twice, narrowers that say
// nothing about the calls of a tool, and no rules at all. It warns of nothing that
// makes a difference to any call, but does not find everything that makes none.
func (p *Policy) Lint() []Warning {
	if len(p.Rules) == 0 {
		return []Warning{{Line: 1, Msg: "there are no rules, so everything is asked about; write some under rules"}}
	}
	l := linter{policy: p, first: map[string]int{}}
	for i := range p.Rules {
		l.rule(i)
	}
	slices.SortStableFunc(l.out, func(a, b Warning) int { return cmp.Compare(a.Line, b.Line) })
	return l.out
}

type linter struct {
	policy *Policy
	out    []Warning
	first  map[string]int // of the rules that narrow alike
}

func (l *linter) warn(i int, format string, args ...any) {
	msg := fmt.Sprintf("rules[%d]: ", i) + fmt.Sprintf(format, args...)
	l.out = append(l.out, Warning{Line: l.policy.RuleLine(i), Msg: msg})
}

// rule says of one rule why it never decides; only of one that may, what in it
// says nothing.
func (l *linter) rule(i int) {
	r := &l.policy.Rules[i]
	by, overruled := l.overruling(r)
	twin, there := l.twin(i)
	switch {
	case never(r):
		l.warn(i, "args-any is empty, so this never fires; name the arguments, or leave args-any out")
	case overruled:
		l.warn(i, "this %s never decides: %s fires on every call that it covers; narrow that one, or leave this one out", r.Decision, by)
	case there:
		l.warn(i, "%s on line %d covers the same calls and decides the same; leave one of them out", at(twin), l.policy.RuleLine(twin))
	default:
		l.check(i, r)
		l.narrowers(i, r)
	}
}

func at(i int) string { return fmt.Sprintf("rules[%d]", i) }

// overruling finds a rule of a stricter decision, of the policy or of the danger
// floor, that fires wherever r does.
func (l *linter) overruling(r *Rule) (by string, ok bool) {
	for i := range l.policy.Rules {
		if by := &l.policy.Rules[i]; by.Decision < r.Decision && covers(by, r, l.policy.foldPaths()) {
			return fmt.Sprintf("the %s of %s on line %d", by.Decision, at(i), l.policy.RuleLine(i)), true
		}
	}
	floor := l.policy.floorRules()
	for i := range floor {
		if by := &floor[i]; by.Decision < r.Decision && covers(by, r, l.policy.foldPaths()) {
			return fmt.Sprintf("the danger floor's %s by check %s", by.Decision, by.Check), true
		}
	}
	return "", false
}

// twin finds an earlier rule that decides the same about the same calls.
func (l *linter) twin(i int) (int, bool) {
	r := l.policy.Rules[i]
	r.Note, r.Severity, r.Remember = "", "", false
	key := fmt.Sprint(r.members())
	if first, ok := l.first[key]; ok {
		return first, true
	}
	l.first[key] = i
	return 0, false
}

// check warns of a check that this engine does not know. It may be one of a newer
// engine, so that Parse takes it.
func (l *linter) check(i int, r *Rule) {
	if r.Check == "" || slices.Contains(checks, r.Check) {
		return
	}
	effect := "fires whatever the call does"
	if r.Decision == Allow {
		effect = "never fires"
	}
	l.warn(i, "check %q is unknown, so this %s %s; known are %s", r.Check, r.Decision, effect, strings.Join(slices.Sorted(slices.Values(checks)), ", "))
}

// narrowers warns of those that are unknown for every call of a tool, as far as the
// policy itself says what the tool's parameters are: a deny or ask then fires as if
// the narrower were not there, and an allow does not.
func (l *linter) narrowers(i int, r *Rule) {
	tools := l.policy.described(r.Tool)
	for _, n := range [...]struct {
		name    string
		present bool
		lacks   func(toolParams) string
	}{
		{"under", r.Under != "", toolParams.noLocation},
		{"host", r.Host != "", toolParams.noHost},
		{"command", r.Command != "" && strings.HasSuffix(r.Tool, "*"), toolParams.noCommand},
	} {
		tool, why := lacking(tools, n.lacks, r.Decision == Allow)
		switch {
		case !n.present || why == "":
		case r.Decision != Allow:
			l.warn(i, "%s says nothing about calls of %s, %s: this %s fires on them as if it were not there; name only tools that it can tell apart",
				n.name, tool, why, r.Decision)
		case n.name == "under" && r.Command == "":
			l.warn(i, "calls of %s, %s, have no location: this allow only fires on commands that write there, whichever these are; name them with command", tool, why)
		case n.name != "under":
			l.warn(i, "%s says nothing about calls of %s, %s: this allow does not fire on them; leave it out", n.name, tool, why)
		}
	}
}

// lacking finds a tool that lacks something and says why; for an allow only if all
// do, since it may be meant for the others alone.
func lacking(tools []toolParams, lacks func(toolParams) string, all bool) (tool, why string) {
	for _, t := range tools {
		switch reason := lacks(t); {
		case reason == "" && all:
			return "", ""
		case reason != "" && why == "":
			tool, why = t.pattern, reason
		}
	}
	return tool, why
}

// toolParams are the parameters that a policy names for the tools of a pattern.
type toolParams struct {
	pattern string
	paths   []string
	listed  bool // paths were named, be it none
	command CommandParams
	named   bool // command was named
}

func (t toolParams) noLocation() string {
	switch {
	case t.listed && len(t.paths) == 0:
		return "for which path-params names none"
	case !t.listed && t.command.Line != "":
		return "which are shell lines by command-params"
	}
	return ""
}

func (t toolParams) noHost() string {
	switch {
	case t.command.Line != "":
		return "which are shell lines by command-params"
	case len(t.paths) > 0:
		return "which have locations by path-params, unless they also have a url"
	}
	return ""
}

func (t toolParams) noCommand() string {
	if len(t.paths) > 0 && !t.named {
		return "which have locations by path-params, unless they also have a command"
	}
	return ""
}

// described lists what the policy says of the parameters of tools that a pattern
// covers: of all of them, and of those that it names apart.
func (p *Policy) described(pattern string) []toolParams {
	patterns := slices.Concat([]string{pattern}, slices.Sorted(maps.Keys(p.PathParams)), slices.Sorted(maps.Keys(p.CommandParams)))
	var out []toolParams
	for i, named := range patterns {
		if slices.Contains(patterns[:i], named) || !patternCovers(pattern, named) {
			continue
		}
		// What is said of the shortest name of a pattern is said of all that it
		// covers, but for those that are named apart.
		name := strings.TrimSuffix(named, "*")
		t := toolParams{pattern: named}
		t.paths, t.listed = lookupPattern(p.PathParams, name)
		t.command, t.named = lookupPattern(p.CommandParams, name)
		out = append(out, t)
	}
	return out
}

// never reports whether a rule is certain to fire on nothing.
func never(r *Rule) bool { return r.ArgsAny != nil && len(r.ArgsAny) == 0 }

// covers reports whether a deny or ask is certain to fire wherever another rule
// does. It compares narrower by narrower, and is false where one of by's narrowers
// is not implied by the same one of r.
//
// An allow fires where all its narrowers are yes, any other rule where none is no.
// So it is enough that each narrower of by is not no where that of r is yes, and
// also where that of r is unknown, which holds for all of them here: what makes one
// unknown, such as a path that cannot be read, makes the wider one unknown or yes.
func covers(by, r *Rule, fold bool) bool {
	return !never(by) && patternCovers(by.Tool, r.Tool) &&
		(by.Under == "" || r.Under != "" && under(r.Under, "", by.Under, fold) == yes) &&
		(by.Host == "" || r.Host != "" && hostCovers(by.Host, r.Host)) &&
		(by.Command == "" || r.Command != "" && commandCovers(by, r)) &&
		(by.Check == "" || by.Check == r.Check)
}

// patternCovers reports whether all names that b covers are covered by a.
func patternCovers(a, b string) bool {
	prefix, open := strings.CutSuffix(a, "*")
	if !open {
		return a == b
	}
	return strings.HasPrefix(b, prefix)
}

func hostCovers(a, b string) bool {
	below, open := strings.CutPrefix(b, "*.")
	if !open {
		return matchHost(a, b)
	}
	return strings.EqualFold(a, b) || strings.HasPrefix(a, "*.") && matchHost(a, below)
}

// commandCovers compares program and arguments, which mean nothing apart.
func commandCovers(by, r *Rule) bool {
	prefix, open := strings.CutSuffix(r.Command, "*")
	program := programName(r)
	if open {
		// All programs that begin so are by's only if by is open too.
		program = prefix
		if !strings.HasSuffix(by.Command, "*") {
			return false
		}
	}
	return matchProgram(by, program) && argsCover(by, r) && anyCovers(by, r)
}

func argsCover(by, r *Rule) bool {
	if by.Exact {
		return r.Exact && slices.Equal(by.Args, r.Args)
	}
	return len(by.Args) <= len(r.Args) && slices.Equal(by.Args, r.Args[:len(by.Args)])
}

// anyCovers: the arguments that r asks for hold one of those by asks for.
func anyCovers(by, r *Rule) bool {
	wanted := func(token string) bool { return slices.Contains(by.ArgsAny, token) }
	other := func(token string) bool { return !wanted(token) }
	return by.ArgsAny == nil || slices.ContainsFunc(r.Args, wanted) ||
		len(r.ArgsAny) > 0 && !slices.ContainsFunc(r.ArgsAny, other)
}
