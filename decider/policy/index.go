package policy

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// index finds the rules that a call can make fire, without looking at the rest.
// It is made once and not changed. A rule that it does not find says a certain
// no; one that it finds is still held against the call.
type index struct {
	rules []Rule // of the policy, to tell whether it is still theirs
	floor bool
	names map[string]Name

	exact   map[string]*ruleSet
	prefix  map[string]*ruleSet
	lengths []int // of the prefixes, sorted, each once
}

// ruleSet are the rules of one tool pattern, by decision.
type ruleSet [Allow + 1]ruleList

// ruleList are rules of one pattern and decision. Each is in all, and in one of
// the others, by the narrower that tells calls apart best.
type ruleList struct {
	all  []entry
	free []entry // no narrower that is indexed

	below, above         map[uint64][]entry // by a relative and an absolute directory
	belowAll, aboveAll   []entry
	host                 map[uint64][]entry // by the host, or what follows "*."
	hostAll              []entry
	program, programFrom map[uint64][]entry // by the program, or the prefix of one
	programAll           []entry
	check                []entry

	uses narrowers // of any rule in it
}

// narrowers are kinds of these.
type narrowers struct{ above, below, host, program, oddCheck bool }

// entry is a rule with its rank: the lower, the more specific. A rank is given
// once.
type entry struct {
	rank  int
	index int // in Policy.Rules, -1 for the floor
	rule  *Rule
}

// noRank is worse than any.
const noRank = math.MaxInt

func newIndex(p *Policy) *index {
	floor := p.floorRules()
	entries := make([]entry, 0, len(p.Rules)+len(floor))
	for i := range p.Rules {
		entries = append(entries, entry{index: i, rule: &p.Rules[i]})
	}
	for i := range floor {
		entries = append(entries, entry{index: -1, rule: &floor[i]})
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		switch {
		case moreSpecific(a.rule, b.rule):
			return -1
		case moreSpecific(b.rule, a.rule):
			return 1
		}
		return 0
	})
	x := &index{rules: p.Rules, floor: len(floor) > 0, names: p.named()}
	for rank := range entries {
		entries[rank].rank = rank
		x.add(entries[rank])
	}
	return x
}

// of reports whether the index is that of a policy as it is now.
func (x *index) of(p *Policy) bool {
	return x != nil && len(x.rules) == len(p.Rules) && x.floor != p.Floor.Off && (len(x.rules) == 0 || &x.rules[0] == &p.Rules[0])
}

// indexed is the policy's index, which is made anew for one that was not parsed.
func (p *Policy) indexed() *index {
	if p.index.of(p) {
		return p.index
	}
	return newIndex(p)
}

func (x *index) add(e entry) {
	if x.exact == nil {
		x.exact, x.prefix = map[string]*ruleSet{}, map[string]*ruleSet{}
	}
	sets, key := x.exact, e.rule.Tool
	if prefix, ok := strings.CutSuffix(key, "*"); ok {
		sets, key = x.prefix, prefix
		if at, there := slices.BinarySearch(x.lengths, len(prefix)); !there {
			x.lengths = slices.Insert(x.lengths, at, len(prefix))
		}
	}
	if sets[key] == nil {
		sets[key] = new(ruleSet)
	}
	sets[key][e.rule.decision()].add(e)
}

func (l *ruleList) add(e entry) {
	l.all = append(l.all, e)
	put := func(m *map[uint64][]entry, key uint64, all *[]entry) {
		if *m == nil {
			*m = map[uint64][]entry{}
		}
		(*m)[key] = append((*m)[key], e)
		*all = append(*all, e)
	}
	r := e.rule
	l.uses.above = l.uses.above || r.Under != "" && absolute(r.Under)
	l.uses.below = l.uses.below || r.Under != "" && !absolute(r.Under)
	l.uses.host = l.uses.host || r.Host != ""
	never := r.ArgsAny != nil && len(r.ArgsAny) == 0 // which is certain
	l.uses.program = l.uses.program || !never && (r.Command != "" || r.Args != nil || r.ArgsAny != nil || r.Exact)
	l.uses.oddCheck = l.uses.oddCheck || r.Check != "" && !slices.Contains(checks, r.Check)
	below, wild := strings.CutPrefix(r.Host, "*.")
	prefix, open := strings.CutSuffix(r.Command, "*")
	switch {
	case r.Under != "" && absolute(r.Under):
		put(&l.above, directoryKey(r.Under), &l.aboveAll)
	case r.Under != "":
		put(&l.below, directoryKey(r.Under), &l.belowAll)
	case wild && !strings.Contains(r.Host, ":"):
		put(&l.host, textKey(below), &l.hostAll)
	case r.Host != "" && !strings.Contains(r.Host, ":"):
		put(&l.host, textKey(r.Host), &l.hostAll)
	case open:
		put(&l.programFrom, textKey(prefix), &l.programAll)
	case r.Command != "":
		put(&l.program, textKey(programName(r)), &l.programAll)
	case r.Check != "" && slices.Contains(checks, r.Check):
		l.check = append(l.check, e)
	default:
		l.free = append(l.free, e)
	}
}

// Keys are hashes of text in which letters that fold together are the same. Two
// texts with one key only cost time.
const (
	keySeed  = 14695981039346656037
	keyPrime = 1099511628211
)

func addRune(key uint64, r rune) uint64 { return (key ^ uint64(folded(r))) * keyPrime }

func folded(r rune) rune {
	switch {
	case r >= utf8.RuneSelf:
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		r = least
	case r >= 'a' && r <= 'z':
		return r - 'a' + 'A' // the least of its orbit
	}
	return r
}

func addText(key uint64, s string) uint64 {
	for _, r := range s {
		key = addRune(key, r)
	}
	return key
}

func textKey(s string) uint64 { return addText(keySeed, s) }

func addSegment(key uint64, s string) uint64 { return addRune(addText(key, s), '/') }

func directoryKey(dir string) uint64 {
	key, rest := uint64(keySeed), segments(dir)
	for s, ok := rest.next(); ok; s, ok = rest.next() {
		key = addSegment(key, s)
	}
	return key
}

// search holds a call, or a command of one, against an index.
type search struct {
	subject
	decision Decision
	best     entry
	answer   answer
	remember bool // every ask rule that fired lets grants answer

	accept func(index int) bool // nil: any rule
}

// in looks for the rules of one decision.
func (f *search) in(x *index, d Decision) {
	f.decision, f.best, f.remember = d, entry{rank: noRank}, true
	x.sets(f.tool, f.alias, func(set *ruleSet) { f.list(&set[d]) })
}

// sets visits the rules of every pattern that a tool or its alias matches.
func (x *index) sets(tool, alias string, visit func(*ruleSet)) {
	if set := x.exact[tool]; set != nil {
		visit(set)
	}
	if set := x.exact[alias]; set != nil && alias != "" && alias != tool {
		visit(set)
	}
	for _, n := range x.lengths {
		var own *ruleSet
		if n <= len(tool) {
			if own = x.prefix[tool[:n]]; own != nil {
				visit(own)
			}
		}
		if n > 0 && n <= len(alias) {
			if set := x.prefix[alias[:n]]; set != nil && set != own {
				visit(set)
			}
		}
	}
}

// try holds rules against the call, the most specific first.
func (f *search) try(list []entry) {
	for i := range list {
		e := &list[i]
		if e.rank >= f.best.rank && f.decision != Ask { // all asks that fire are needed
			return
		}
		a, _ := f.narrow(e.rule)
		if !e.rule.fires(a) || f.accept != nil && !f.accept(e.index) {
			continue
		}
		f.remember = f.remember && e.rule.Remember
		if e.rank < f.best.rank {
			f.best, f.answer = *e, a
		}
	}
}

func (f *search) list(l *ruleList) {
	f.try(l.free)
	if len(l.check) > 0 && (len(f.facts.Checks) > 0 || f.command != nil && len(f.command.Checks) > 0) {
		f.try(l.check)
	}
	if len(l.aboveAll)+len(l.belowAll) > 0 {
		f.byDirectory(l)
	}
	if len(l.hostAll) > 0 {
		f.byHost(l)
	}
	if len(l.programAll) > 0 {
		f.byProgram(l)
	}
}

func (f *search) byDirectory(l *ruleList) {
	allow, found := f.decision == Allow, false
	for i := range f.facts.Paths {
		if found = true; !f.byPlace(l, &f.facts.Paths[i]) || allow { // an allow holds for every one of them
			return
		}
	}
	if !found && !allow { // the call names none
		f.try(l.aboveAll)
		f.try(l.belowAll)
		return
	}
	if f.command != nil {
		for i := range f.command.Writes {
			if !f.byPlace(l, &f.command.Writes[i]) || allow {
				return
			}
		}
	}
}

// byPlace tries the rules for a location. It reports false if these were all.
func (f *search) byPlace(l *ruleList, p *Place) bool {
	if p.Unknown != "" {
		if f.decision != Allow {
			f.try(l.aboveAll)
			f.try(l.belowAll)
		}
		return false
	}
	if absolute(p.Path) {
		f.chain(l.above, segments(p.Path))
	} else if f.decision != Allow {
		f.try(l.aboveAll)
	}
	if len(l.belowAll) == 0 {
		return true
	}
	rest, root := segments(p.Path), segments(f.facts.Root)
	if absolute(p.Path) != absolute(f.facts.Root) {
		if f.decision != Allow {
			f.try(l.belowAll)
		}
		return true
	}
	for want, ok := root.next(); ok; want, ok = root.next() {
		if got, ok := rest.next(); !ok || !strings.EqualFold(got, want) {
			return true // outside
		}
	}
	f.chain(l.below, rest)
	return true
}

// chain tries the rules of a directory and of all that it lies in.
func (f *search) chain(m map[uint64][]entry, rest segments) {
	if len(m) == 0 {
		return
	}
	key := uint64(keySeed)
	f.try(m[key])
	for s, ok := rest.next(); ok; s, ok = rest.next() {
		key = addSegment(key, s)
		f.try(m[key])
	}
}

func (f *search) byHost(l *ruleList) {
	if len(f.facts.Hosts) == 0 && f.decision != Allow {
		f.try(l.hostAll)
	}
	for i := range f.facts.Hosts {
		h := &f.facts.Hosts[i]
		if h.Unknown != "" || h.Host == "" {
			if f.decision != Allow {
				f.try(l.hostAll)
			}
			return
		}
		for rest := h.Host; ; {
			f.try(l.host[textKey(rest)])
			_, below, ok := strings.Cut(rest, ".")
			if !ok {
				break
			}
			rest = below
		}
		if f.decision == Allow {
			return
		}
	}
}

func (f *search) byProgram(l *ruleList) {
	if f.command == nil || !f.command.known() {
		if f.decision != Allow {
			f.try(l.programAll)
		}
		return
	}
	f.try(l.program[textKey(f.command.Program)])
	if len(l.programFrom) == 0 {
		return
	}
	key := uint64(keySeed)
	f.try(l.programFrom[key])
	for _, r := range f.command.Program {
		key = addRune(key, r)
		f.try(l.programFrom[key])
	}
}

// doubt reports whether any rule for the tool could not be certain, as far as
// that can be told without looking at them. sure is false if it cannot.
func (f *search) doubt(x *index) (doubt, sure bool) {
	sure = true
	x.sets(f.tool, f.alias, func(set *ruleSet) {
		for d := range set {
			one, certain := f.doubtIn(set[d].uses)
			doubt, sure = doubt || one, sure && certain
		}
	})
	return doubt, doubt || sure
}

func (f *search) doubtIn(uses narrowers) (doubt, sure bool) {
	doubt, sure = uses.oddCheck, true
	if c := f.command; uses.program {
		switch {
		case c == nil || !c.known():
			doubt = true
		case !c.Sealed || c.Where != "" || len(c.Assigns)+len(c.Writes) > 0:
			sure = false
		}
	}
	if uses.host {
		unknown := len(f.facts.Hosts) == 0
		for _, h := range f.facts.Hosts {
			unknown = unknown || h.Unknown != "" || h.Host == ""
		}
		doubt = doubt || unknown && len(f.facts.Hosts) < 2
		sure = sure && (!unknown || len(f.facts.Hosts) < 2)
	}
	if uses.above || uses.below {
		unknown := len(f.facts.Paths) == 0
		for i := range f.facts.Paths {
			p := &f.facts.Paths[i]
			unknown = unknown || p.Unknown != "" || uses.above && !absolute(p.Path) || uses.below && absolute(p.Path) != absolute(f.facts.Root)
		}
		few := len(f.facts.Paths) < 2 && (f.command == nil || len(f.command.Writes) == 0)
		doubt = doubt || unknown && few
		sure = sure && (few || !unknown && (f.command == nil || len(f.command.Writes) == 0))
	}
	return doubt, sure
}
