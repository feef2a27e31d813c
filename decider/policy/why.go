package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Why says in words, for people, why a verdict came out as it did: which command of
// the call it is about, if there are several, and what could not be read. The facts
// are those that were judged.
func Why(f *Facts, v *Verdict) string {
	part := v.decisive()
	if part == nil {
		return "it was not judged"
	}
	text := cause(f, v, part)
	if part.Command >= 0 && len(f.Commands) > 1 {
		return fmt.Sprintf("for %q %s", f.Commands[part.Command].display(), text)
	}
	return text
}

// decisive finds the part that a verdict reports.
func (v *Verdict) decisive() *Part {
	for i := range v.Parts {
		p := &v.Parts[i]
		if p.Decision == v.Decision && p.Rule == v.Rule && p.Reason == v.Reason || p.Grant != "" && v.Rule == nil && v.Decision != v.Static {
			return p
		}
	}
	return nil
}

func cause(f *Facts, v *Verdict, p *Part) string {
	doubts := strings.Join(f.doubts(p), ", ")
	switch {
	case v.Decision != v.Static:
		return fmt.Sprintf("no rule settles it, and %s does", strings.Join(v.Grants, " and "))
	case p.Rule != nil && p.Reason == ReasonUnevaluable:
		return "it cannot be told that the rule is not about it: " + orElse(doubts, "the call lacks what the rule narrows by")
	case p.Rule != nil:
		return "all that the rule narrows by holds"
	case p.Decision == Allow:
		return "it only runs others, which are allowed"
	case doubts != "":
		return "no rule settles it: " + doubts
	}
	return "no rule is about it"
}

// display writes a command as far as it is known.
func (c *Command) display() string {
	if !c.known() {
		return "?"
	}
	text := strings.Join(append([]string{orElse(c.Path, c.Program)}, c.Args...), " ")
	if !c.Sealed {
		text += " ..."
	}
	return text
}

// doubts lists what keeps rules from being certain about a part of a call.
func (f *Facts) doubts(p *Part) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if f.Unreadable {
		add("the arguments are no readable object")
	}
	for _, place := range f.Paths {
		if place.Unknown != "" {
			add("the path %q cannot be compared (%s)", place.Path, place.Unknown)
		}
	}
	for _, h := range f.Hosts {
		if h.Unknown != "" {
			add("the url cannot be read (%s)", h.Unknown)
		}
	}
	if p.Command >= 0 {
		out = append(out, f.Commands[p.Command].doubts()...)
	}
	if !f.Unreadable && p.Rule != nil {
		out = slices.Concat(out, f.missing(p))
	}
	return out
}

// missing lists what a rule narrows by that the call does not have.
func (f *Facts) missing(p *Part) (out []string) {
	if p.Rule.Under != "" && len(f.Paths) == 0 {
		out = append(out, "the call has no path")
	}
	if p.Rule.Host != "" && len(f.Hosts) == 0 {
		out = append(out, "the call has no url")
	}
	if p.Rule.Command != "" && p.Command < 0 {
		out = append(out, "the call has no command")
	}
	return out
}

func (c *Command) doubts() (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case c.Unknown != "":
		add("the command cannot be read (%s)", c.Unknown)
	case !c.Sealed:
		add("its argument %d cannot be read", len(c.Args)+1)
	}
	switch c.Where {
	case "":
	case whereRelative:
		add("the program's path is relative")
	case whereRoot:
		add("the program is inside a root")
	default:
		add("the program is in a temporary directory")
	}
	for _, name := range c.Assigns {
		add("the variable %s is set for it", name)
	}
	for _, w := range c.Writes {
		add("it writes %s", w.Path)
	}
	return out
}
