package policy

import (
	"slices"
	"strings"
)

// Suggestion is the rule that would cover a call and what lies next to it: the
// deepest directory holding every location, never wider than the tool's root;
// else the one readable host; else the bare tool. Its decision is Allow; a
// listing shows it without.
//
// It may not cover the call itself where part of it cannot be read; see
// [Policy.QuestionSuggestion] for one that does.
func (p *Policy) Suggestion(tool string, f Facts) Rule {
	r := Rule{Tool: tool, Decision: Allow}
	if dir, ok := commonDirectory(f); ok {
		r.Under = dir
	} else if len(f.Hosts) == 1 && f.Hosts[0].Unknown == "" {
		r.Host = f.Hosts[0].Host
	}
	return r
}

// commonDirectory finds the deepest directory that holds every readable
// location of a call.
func commonDirectory(f Facts) (string, bool) {
	var dir []string
	found, abs := false, false
	for _, place := range f.Paths {
		if place.Unknown != "" {
			continue
		}
		parent := split(place.Path)
		parent = parent[:max(len(parent)-1, 0)]
		if !found {
			found, abs, dir = true, absolute(place.Path), parent
			continue
		}
		if abs != absolute(place.Path) {
			return "", false
		}
		dir = dir[:commonPrefix(dir, parent)]
	}
	switch {
	case !found || !abs && len(dir) == 0:
		return "", false
	case !abs:
		return strings.Join(dir, "/"), true
	case len(dir) < depth(f.Root) && insideRoot(f):
		return f.Root, true
	}
	return "/" + strings.Join(dir, "/"), true
}

func commonPrefix(a, b []string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// insideRoot reports whether every location is certain to be in an absolute
// root.
func insideRoot(f Facts) bool {
	return absolute(f.Root) && !slices.ContainsFunc(f.Paths, func(p Place) bool {
		return p.Unknown != "" || under(p.Path, "", f.Root, false) != yes
	})
}

// QuestionSuggestion is what a question offers to always-answers: for a call
// that runs commands one exact rule for each part that asks, else the
// [Policy.Suggestion]. The rules carry the decision Allow, and together settle
// every part that asks as a grant would. If there are none that do, ok is
// false, and an always-answer needs rules of its own.
func (p *Policy) QuestionSuggestion(tool string, f Facts, v Verdict) (rules []Rule, ok bool) {
	if len(f.Commands) == 0 {
		rules = []Rule{p.Suggestion(tool, f)}
	} else {
		rules = exactRules(tool, f, v)
	}
	if !p.allSettle(tool, f, v, rules) {
		return nil, false
	}
	return rules, true
}

// exactRules names each asking part's program with its whole argument list.
func exactRules(tool string, f Facts, v Verdict) []Rule {
	var out []Rule
	for _, part := range v.Parts {
		if part.Decision != Ask || part.Command < 0 || part.Command >= len(f.Commands) {
			continue
		}
		c := f.Commands[part.Command]
		args := append([]string{}, c.Args...)
		r := Rule{Tool: tool, Decision: Allow, Command: c.Program, Args: args, Exact: true}
		if !slices.ContainsFunc(out, r.Equal) {
			out = append(out, r)
		}
	}
	return out
}

// allSettle reports whether rules are valid, ask for no more than one program
// each, and given as a grant would leave nothing of the verdict asking.
func (p *Policy) allSettle(tool string, f Facts, v Verdict, rules []Rule) bool {
	for _, r := range rules {
		if r.Validate() != nil || strings.HasSuffix(r.Tool, "*") || r.Exact && strings.HasSuffix(r.Command, "*") {
			return false
		}
	}
	return len(rules) > 0 && p.settled(tool, f, v, rules)
}

// settled reports whether grants may answer the verdict and one of these
// rules would allow every part that asks.
func (p *Policy) settled(tool string, f Facts, v Verdict, rules []Rule) bool {
	j := p.judging(tool, &f)
	g := Grant{Rules: rules}
	return v.Grantable && !slices.ContainsFunc(v.Parts, func(part Part) bool {
		return part.Decision == Ask && (part.Command >= len(f.Commands) || !j.settles(&g, Allow, &part))
	})
}

// maxAlternatives is how many further sets of rules a question offers: more than
// a few nobody compares.
const maxAlternatives = 4

// Alternatives lists further sets of rules a question may offer, from narrow to
// wide: the one location, the directories above the suggested one down from
// the tool's root, the bare tool; for commands, the programs of the parts that
// ask with fewer and fewer of their leading arguments. Each settles the call. A
// call that asks by a dangerous rule is not offered the widest.
func (p *Policy) Alternatives(tool string, f Facts, v Verdict) [][]Rule {
	var candidates [][]Rule
	if len(f.Commands) > 0 {
		candidates = leadingRules(tool, f, v)
	} else {
		candidates = p.widenings(tool, f)
	}
	offered, _ := p.QuestionSuggestion(tool, f, v)
	var out [][]Rule
	for _, rules := range candidates {
		known := func(have []Rule) bool { return slices.EqualFunc(have, rules, Rule.Equal) }
		if !known(offered) && !slices.ContainsFunc(out, known) && p.allSettle(tool, f, v, rules) {
			out = append(out, rules)
		}
	}
	if v.Rule != nil && v.Rule.Severity == SeverityDanger && len(out) > 0 {
		out = out[:len(out)-1]
	}
	if len(out) > maxAlternatives { // the narrowest, and the widest
		out = append(out[:maxAlternatives-1:maxAlternatives-1], out[len(out)-1])
	}
	return out
}

// leadingRules name the programs of the asking parts with all leading arguments,
// whatever follows, and then with two, one and none of them: there are verbs.
func leadingRules(tool string, f Facts, v Verdict) [][]Rule {
	exact, most := exactRules(tool, f, v), 0
	for _, r := range exact {
		if strings.HasSuffix(r.Command, "*") {
			return nil
		}
		most = max(most, len(r.Args))
	}
	var sets [][]Rule
	for _, keep := range [...]int{most, 2, 1, 0} {
		if keep > most {
			continue
		}
		var set []Rule
		for _, r := range exact {
			r.Exact, r.Args = false, r.Args[:min(keep, len(r.Args))]
			if len(r.Args) == 0 {
				r.Args = nil
			}
			if !slices.ContainsFunc(set, r.Equal) {
				set = append(set, r)
			}
		}
		sets = append(sets, set)
	}
	return sets
}

// widenings lists one-rule sets around the suggestion of a call without
// commands.
func (p *Policy) widenings(tool string, f Facts) [][]Rule {
	var out [][]Rule
	add := func(r Rule) { out = append(out, []Rule{r}) }
	bare := Rule{Tool: tool, Decision: Allow}
	suggested := p.Suggestion(tool, f)
	if suggested.Under != "" {
		for _, dir := range directoriesAround(f, suggested.Under) {
			r := bare
			r.Under = dir
			add(r)
		}
	}
	if suggested.Host != "" && suggested.Under == "" {
		add(suggested)
	}
	add(bare)
	return out
}

// directoriesAround lists, from narrow to wide: the location itself if there
// is only one, the suggested directory, and those above it within the root.
func directoriesAround(f Facts, dir string) []string {
	var out []string
	if len(f.Paths) == 1 && depth(f.Paths[0].Path) > 0 {
		out = append(out, strings.TrimRight(f.Paths[0].Path, "/"))
	}
	out = append(out, dir)
	if !insideRoot(f) {
		return out
	}
	parts := split(dir)
	for n := len(parts) - 1; n >= max(depth(f.Root), 1); n-- {
		out = append(out, "/"+strings.Join(parts[:n], "/"))
	}
	return out
}
