package decider

import (
	"encoding/json"
	"slices"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// endGrants lets grants lapse that expired or that their book revoked.
func (in Input) endGrants() []journal.Event {
	var events []journal.Event
	for _, g := range in.State.LimitedGrants() {
		if g.Ended != "" || len(events) == maxEvents {
			continue
		}
		switch {
		case !g.Expires.IsZero() && !in.Now.Before(g.Expires.Time):
			events = append(events, in.event(&journal.Lapse{Grant: g.Mark.ID, Reason: journal.LapseExpired}))
		case in.revokedInBook(g):
			events = append(events, in.event(&journal.Lapse{Grant: g.Mark.ID, Reason: journal.LapseBook}))
		}
	}
	return events
}

func (in Input) revokedInBook(g *journal.GrantState) bool {
	if g.Origin == nil || g.Origin.Session == "" {
		return false
	}
	book := in.Books[g.Origin.Session]
	if book == nil {
		return false
	}
	if cond, _ := book.Condition(); cond != journal.Whole {
		return false // what it lost may have been anything; see unsureBook
	}
	from := book.Grant(g.Origin.Grant)
	return from == nil || !from.InForce(in.Now)
}

// unsureBook reports whether a grant came from a book that cannot be trusted
// now: then it still denies, and allows nothing.
func (in Input) unsureBook(g *journal.GrantState) bool {
	if g.Origin == nil || in.Books[g.Origin.Session] == nil {
		return false
	}
	cond, _ := in.Books[g.Origin.Session].Condition()
	return cond != journal.Whole
}

// judge holds the call against the rules and the session's grants.
func (d *deciding) judge() {
	d.policy.JudgeInto(&d.verdict, d.call.Tool, &d.facts, compiledGrants(d.State), d.consulted)
}

// consulted reports whether a verdict may consult a grant: it is in force, of the
// call's layer, and counts.
func (d *deciding) consulted(id string) bool {
	g := d.State.Grant(id)
	return g.Layer == d.call.Layer && g.InForce(d.Now) && !d.revokedInBook(g) && d.counts(g)
}

// compiledGrants are all grants of a state, compiled once: the set stays with the
// state, and only what came since is added to it.
func compiledGrants(st *journal.State) *policy.GrantSet {
	return st.Memo(func(kept any) any {
		set, _ := kept.(*policy.GrantSet)
		if set == nil {
			set = &policy.GrantSet{}
		}
		for _, g := range st.GrantsFrom(set.Len()) {
			rules, err := parseRules(g.Rules)
			if err != nil {
				rules = nil // it settles nothing
			}
			set.Add(policy.Grant{ID: g.Mark.ID, Rules: rules})
		}
		return set
	}).(*policy.GrantSet)
}

// counts reports whether a grant in force may be consulted: it came about as
// it should, and its book, if it has one, is whole. A decision that is derived
// again had only the grants before it, and needed only those it cites.
func (d *deciding) counts(g *journal.GrantState) bool {
	allows := g.Outcome() == journal.Allow
	switch {
	case d.made != nil && g.Mark.N >= d.made.Mark.N:
		return false
	case d.made != nil && allows && !slices.Contains(d.made.Grants(), g.Mark.ID):
		return false
	case g.Origin == nil:
		return d.earned(g)
	case allows && d.unsureBook(g):
		return false
	}
	return g.Mark.By.Role == journal.RoleAdmin || slices.Contains(d.policy.Importers, g.Mark.By.Actor)
}

// earned reports whether the answers to a grant's question leave that grant.
func (d *deciding) earned(g *journal.GrantState) bool {
	q := d.State.Question(g.Question)
	if q == nil || !d.genuine(q) {
		return false
	}
	c := count(q)
	left := grantOf(q, c.votes, g.Layer, g.Mark.Time)
	return c.settled && c.unusable == nil && left != nil && sameGrant(left, &g.Grant)
}

func parseRules(raw []json.RawMessage) ([]policy.Rule, error) {
	rules := make([]policy.Rule, len(raw))
	for i, r := range raw {
		rule, err := policy.ParseRule(r)
		if err != nil {
			return nil, err
		}
		rules[i] = rule
	}
	return rules, nil
}

// grantGone says why a grant that a decision cites no longer holds, or "".
func (d *deciding) grantGone(dec *journal.DecisionState) journal.LapseReason {
	for _, cause := range dec.By {
		if cause.Kind != journal.ByGrant {
			continue
		}
		g := d.State.Grant(cause.ID)
		switch standing := g.Standing(d.Now); {
		case standing == "in force":
		case standing == "expired":
			return journal.LapseExpired
		case standing == "used up":
			return journal.LapseOvertaken
		default:
			return journal.LapseRevoked
		}
	}
	return ""
}
