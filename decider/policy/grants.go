package policy

import "slices"

// Grant is what an always-answer left behind: rules that answer asks.
type Grant struct {
	// ID names the grant in verdicts.
	ID string
	// Rules are matched as static rules are. Ask rules have no effect.
	Rules []Rule
}

// GrantSet are the grants of a session in their order, compiled one by one as
// they come. The zero value is empty. It may be read concurrently while nothing
// is added.
type GrantSet struct {
	ids   []string
	index index
	rules int
}

// Len is the number of grants, 0 for nil.
func (s *GrantSet) Len() int {
	if s == nil {
		return 0
	}
	return len(s.ids)
}

// Last is the id of the last grant, "" if there is none.
func (s *GrantSet) Last() string {
	if len(s.ids) == 0 {
		return ""
	}
	return s.ids[len(s.ids)-1]
}

// Add puts a grant behind the others.
func (s *GrantSet) Add(g Grant) {
	for i := range g.Rules {
		s.index.add(entry{rank: s.rules, index: len(s.ids), rule: &g.Rules[i]})
		s.rules++
	}
	s.ids = append(s.ids, g.ID)
}

// consult lets grants settle the parts that ask and let them: the first deny
// grant that matches any of them, else for each the first allow grant. counts
// says whether a grant that matches may be consulted; nil is any.
func (j *judging) consult(v *Verdict, set *GrantSet, counts func(id string) bool) {
	var accept func(int) bool
	if counts != nil {
		accept = func(i int) bool { return counts(set.ids[i]) }
	}
	first, denied := entry{rank: noRank}, -1
	for i := range v.Parts {
		if found := j.granted(set, &v.Parts[i], Deny, accept); found.rank < first.rank {
			first, denied = found, i
		}
	}
	if denied >= 0 {
		id := set.ids[first.index]
		v.Parts[denied].Decision, v.Parts[denied].Grant = Deny, id
		v.Grants = []string{id}
		return
	}
	var used []int
	for i := range v.Parts {
		part := &v.Parts[i]
		if found := j.granted(set, part, Allow, accept); found.rule != nil {
			part.Decision, part.Grant = Allow, set.ids[found.index]
			used = append(used, found.index)
		}
	}
	slices.Sort(used)
	for _, i := range slices.Compact(used) {
		v.Grants = append(v.Grants, set.ids[i])
	}
}

// granted is the first rule of a grant that fires for a part that asks.
func (j *judging) granted(set *GrantSet, part *Part, d Decision, accept func(int) bool) entry {
	if !part.Consults || part.Decision != Ask {
		return entry{rank: noRank}
	}
	s := search{subject: j.subject(part.Command), accept: accept}
	s.in(&set.index, d)
	return s.best
}
