package policy

import (
	"slices"
	"strings"
	"unicode/utf8"

	"decisionjournal/decider/policy/shell"
)

// answer is what a narrower says about a call. Its zero value is unknown.
type answer uint8

const (
	unknown answer = iota
	no
	yes
)

// and combines narrowers: one certain no decides.
func (a answer) and(b answer) answer {
	switch {
	case a == no || b == no:
		return no
	case a == unknown || b == unknown:
		return unknown
	}
	return yes
}

// subject is what one rule is held against: a call, or one command of it.
type subject struct {
	tool    string
	alias   string // what else rules may call it, "" for nothing
	facts   *Facts
	command *Command // nil for a call that runs none
	fold    bool     // compare directories of deny and ask rules without case
	safeEnv []string // variables an allowed command may be given
}

// match answers for a whole rule. doubt reports that the tool matched and some
// narrower was unknown, also where another one said no.
func (s *subject) match(r *Rule) (a answer, doubt bool) {
	if !s.named(r) {
		return no, false
	}
	return s.narrow(r)
}

// named reports whether a rule is for the call's tool.
func (s *subject) named(r *Rule) bool {
	return matchPattern(r.Tool, s.tool) || matchAlias(r.Tool, s.alias)
}

// narrow is match for a rule whose tool is the call's.
func (s *subject) narrow(r *Rule) (a answer, doubt bool) {
	a = yes
	if r.Under != "" {
		b := s.underAnswer(r)
		a, doubt = a.and(b), doubt || b == unknown
	}
	if r.Host != "" {
		b := s.hostAnswer(r)
		a, doubt = a.and(b), doubt || b == unknown
	}
	if r.Command != "" || r.Args != nil || r.ArgsAny != nil || r.Exact {
		b := s.commandAnswer(r)
		a, doubt = a.and(b), doubt || b == unknown
	}
	if r.Check != "" {
		b := s.checkAnswer(r.Check)
		a, doubt = a.and(b), doubt || b == unknown
	}
	return a, doubt
}

// checkAnswer says whether the call or the command hit a check. One that this
// engine does not know is never certain.
func (s *subject) checkAnswer(check string) answer {
	switch {
	case slices.Contains(s.facts.Checks, check), s.command != nil && slices.Contains(s.command.Checks, check):
		return yes
	case slices.Contains(checks, check):
		return no
	}
	return unknown
}

// fires reports whether a rule with this answer takes part in the verdict.
func (r *Rule) fires(a answer) bool {
	return a == yes || a == unknown && r.Decision != Allow
}

// decision is Decision, with whatever is none of the three a denial.
func (r *Rule) decision() Decision {
	if r.Decision > Allow {
		return Deny
	}
	return r.Decision
}

// underAnswer holds an allow to every location, and lets a deny or ask fire on
// any. A location that cannot be read is no proof of either.
func (s *subject) underAnswer(r *Rule) answer {
	allow := r.Decision == Allow
	t := tally{empty: len(s.facts.Paths) == 0}
	t.places(s.facts.Paths, s.facts.Root, r.Under, s.fold && !allow)
	if s.command != nil {
		t.places(s.command.Writes, s.facts.Root, r.Under, s.fold && !allow)
		// A command that writes has a location even if no parameter names one;
		// that may satisfy an allow, but must not let a deny step aside.
		t.empty = t.empty && (!allow || len(s.command.Writes) == 0)
	}
	if allow {
		return t.every()
	}
	return t.any()
}

// tally counts the answers for several locations.
type tally struct {
	count [yes + 1]int
	empty bool // there is no location to hold a rule against
}

func (t *tally) places(places []Place, root, dir string, fold bool) {
	for i := range places {
		a := unknown
		if places[i].Unknown == "" {
			a = under(places[i].Path, root, dir, fold)
		}
		t.count[a]++
	}
}

func (t *tally) every() answer {
	switch {
	case t.empty || t.count[unknown] > 0:
		return unknown
	case t.count[no] > 0:
		return no
	}
	return yes
}

func (t *tally) any() answer {
	switch {
	case t.count[yes] > 0:
		return yes
	case t.empty || t.count[unknown] > 0:
		return unknown
	}
	return no
}

func (s *subject) hostAnswer(r *Rule) answer {
	t := tally{empty: len(s.facts.Hosts) == 0}
	for i := range s.facts.Hosts {
		h := &s.facts.Hosts[i]
		switch {
		case h.Unknown != "" || h.Host == "":
			t.count[unknown]++
		case matchHost(r.Host, h.Host):
			t.count[yes]++
		default:
			t.count[no]++
		}
	}
	if r.Decision == Allow {
		return t.every()
	}
	return t.any()
}

// commandAnswer answers for command, args and args-any together: the arguments
// of another program mean nothing.
func (s *subject) commandAnswer(r *Rule) answer {
	c := s.command
	switch {
	case r.ArgsAny != nil && len(r.ArgsAny) == 0:
		return no
	case r.Command == "" || c == nil || !c.known():
		return unknown
	case !matchProgram(r, c.Program):
		return no
	}
	a := argsAnswer(r, c).and(anyAnswer(r, c))
	if r.Decision == Allow && !s.plain(r, c) {
		a = a.and(unknown)
	}
	return a
}

// matchProgram compares base names: deny and ask without letter case, allow
// exactly.
func matchProgram(r *Rule, program string) bool {
	fold := r.Decision != Allow
	if prefix, ok := strings.CutSuffix(r.Command, "*"); ok {
		return hasPrefix(program, prefix, fold)
	}
	want := programName(r)
	return program == want || fold && strings.EqualFold(program, want)
}

// programName is the program of a rule that names one.
func programName(r *Rule) string { return shell.DropExtension(r.Command) }

func hasPrefix(s, prefix string, fold bool) bool {
	if !fold {
		return strings.HasPrefix(s, prefix)
	}
	// Letters that fold together may differ in bytes, so runes are counted.
	end := 0
	for range utf8.RuneCountInString(prefix) {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return strings.EqualFold(s[:end], prefix)
}

// argsAnswer compares the leading arguments, or all of them.
func argsAnswer(r *Rule, c *Command) answer {
	if r.Args == nil && !r.Exact {
		return yes
	}
	n := min(len(r.Args), len(c.Args))
	switch {
	case !slices.Equal(r.Args[:n], c.Args[:n]):
		return no
	case r.Exact && len(c.Args) > len(r.Args):
		return no
	case len(c.Args) < len(r.Args):
		return unlessSealed(c)
	case r.Exact && (!c.Sealed || r.Args == nil):
		return unknown
	}
	return yes
}

// anyAnswer looks for one of the tokens among the visible arguments. An option
// may stand in a word with its value, or with others: whether it does depends on
// the program, so that is unknown.
func anyAnswer(r *Rule, c *Command) answer {
	if r.ArgsAny == nil {
		return yes
	}
	for _, a := range c.Args {
		if slices.Contains(r.ArgsAny, a) {
			return yes
		}
	}
	for _, a := range c.Args {
		for _, token := range r.ArgsAny {
			if holdsOption(a, token) {
				return unknown
			}
		}
	}
	return unlessSealed(c)
}

// holdsOption reports whether a word may be an option with its value, as in
// --output=x and -ox, or a letter among others, as -r is in -fr.
func holdsOption(word, option string) bool {
	if len(option) < 2 || option[0] != '-' || len(word) <= len(option) || word[0] != '-' {
		return false
	}
	if strings.HasPrefix(word, option) && word[len(option)] == '=' {
		return true
	}
	return len(option) == 2 && option[1] != '-' && word[1] != '-' && strings.IndexByte(word[1:], option[1]) >= 0
}

// unlessSealed answers for tokens that are not among the visible arguments.
func unlessSealed(c *Command) answer {
	if c.Sealed {
		return no
	}
	return unknown
}

// plain reports whether an allow may believe that the command is its program
// and nothing more: found under its own name, with no variable that could
// change it, and writing nowhere but under the rule's directory.
func (s *subject) plain(r *Rule, c *Command) bool {
	if c.Where != "" {
		return false
	}
	for _, name := range c.Assigns {
		if !safeVariable(s.safeEnv, name) {
			return false
		}
	}
	// With a directory to keep to, underAnswer holds the writes to it.
	return len(c.Writes) == 0 || r.Under != ""
}

// safeVariable reports whether a variable only changes how output looks. The
// built-in list is extended by the policy's safe-env.
func safeVariable(more []string, name string) bool {
	switch name {
	case "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "LANG", "LANGUAGE",
		"LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME":
		return true
	}
	return slices.Contains(more, name)
}

// moreSpecific orders the rules of one decision: which of two that fired is
// the one to report. False on a tie, so that the first stays.
func moreSpecific(a, b *Rule) bool {
	for _, d := range [...]int{
		morePrecise(a.Tool, b.Tool),
		specificity(a.Command, b.Command, morePrecise),
		len(a.Args) + len(a.ArgsAny) - len(b.Args) - len(b.ArgsAny),
		flag(a.Check != "") - flag(b.Check != ""),
		specificity(a.Under, b.Under, deeper),
		specificity(a.Host, b.Host, closerHost),
	} {
		if d != 0 {
			return d > 0
		}
	}
	return false
}

// specificity orders two optional narrowers: a present one over none.
func specificity(a, b string, compare func(a, b string) int) int {
	if a == "" || b == "" {
		return flag(a != "") - flag(b != "")
	}
	return compare(a, b)
}

func deeper(a, b string) int { return depth(a) - depth(b) }

func closerHost(a, b string) int {
	if d := flag(!strings.HasPrefix(a, "*.")) - flag(!strings.HasPrefix(b, "*.")); d != 0 {
		return d
	}
	return len(a) - len(b)
}
