package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Outcome is what the grant's rules do: allow or deny. A grant in the chain
// has rules of one kind only.
func (g *Grant) Outcome() Outcome {
	if len(g.Rules) == 0 {
		return ""
	}
	return ruleOutcome(g.Rules[0])
}

func ruleOutcome(rule json.RawMessage) Outcome {
	c, err := Canonical(rule)
	if err != nil {
		return ""
	}
	members, err := split(c)
	if err != nil {
		return ""
	}
	for _, m := range members {
		if m.key == "decision" {
			s, _ := text(m.value)
			return Outcome(s)
		}
	}
	return ""
}

func (j *judge) grant(id string, b *Grant) error {
	if err := checkOptionalName("layer", b.Layer); err != nil {
		return err
	}
	if (b.Question == "") == (b.Origin == nil) {
		return errors.New("a grant has a question or an origin")
	}
	for _, r := range b.Rules {
		if o := ruleOutcome(r); !o.Known() || o != b.Outcome() {
			return errors.New("a grant's rules all allow, or all deny")
		}
	}
	if len(b.Rules) == 0 {
		return errors.New("a grant has rules")
	}
	check := j.grantOfAnswer
	if b.Origin != nil {
		check = j.grantOfOrigin
	}
	if err := check(id, b); err != nil {
		return err
	}
	put(&j.grants, id, &GrantState{Grant: *b, Mark: j.mark(id)})
	j.newGrant = append(j.newGrant, id)
	return nil
}

func (j *judge) grantOfOrigin(_ string, b *Grant) error {
	o := b.Origin
	book := o.Session != "" && o.Grant != "" && o.Import == ""
	file := o.Session == "" && o.Grant == "" && o.Import != ""
	if !book && !file {
		return errors.New("an origin is a session and its grant, or an import")
	}
	if book {
		if bad := checkID(o.Grant); bad != nil {
			return fmt.Errorf("origin grant: %w", bad)
		}
	}
	return errors.Join(checkOptionalName("origin session", o.Session), checkShort("import", o.Import))
}

// grantOfAnswer holds a grant against the decision it belongs to, which stands
// later in the same commit, and against every answer that decision cites.
func (j *judge) grantOfAnswer(id string, b *Grant) error {
	q := j.findQuest(b.Question)
	if q == nil || q.Over {
		return fmt.Errorf("there is no open question %s", b.Question)
	}
	d := j.decisionAhead(q.Call, q.Attempt)
	if d == nil || !slices.ContainsFunc(d.By, func(c Cause) bool { return c.Kind == ByGrant && c.ID == id }) {
		return errors.New("no decision of the same commit cites it")
	}
	if c := j.findCall(q.Call); c.Layer != b.Layer {
		return fmt.Errorf("the call's layer is %q", c.Layer)
	}
	cited := 0
	for _, v := range q.Answers {
		if !slices.ContainsFunc(d.By, func(c Cause) bool { return c.Kind == ByAnswer && c.ID == v.Mark.ID }) {
			continue
		}
		cited++
		if err := matches(q, &v, b); err != nil {
			return fmt.Errorf("answer %s: %w", v.Mark.ID, err)
		}
	}
	if cited == 0 {
		return errors.New("the decision cites no answer to its question")
	}
	return nil
}

// decisionAhead is the decision about an attempt later in this commit, or nil.
func (j *judge) decisionAhead(call string, attempt int) *Decision {
	for _, e := range j.commit.Events[j.at+1:] {
		if d, ok := e.Body.(*Decision); ok && d.Call == call && d.Attempt == attempt {
			return d
		}
	}
	return nil
}

func matches(q *QuestionState, v *Vote, g *Grant) error {
	rules, err := q.GrantRules(&v.Answer)
	switch {
	case err != nil:
		return err
	case !slices.EqualFunc(rules, g.Rules, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }):
		return errors.New("the grant's rules are not its")
	case v.Expires != g.Expires || v.Uses != g.Uses:
		return errors.New("expiry or uses are not its")
	}
	return nil
}

// GrantRules are the rules an always-answer leaves behind, in canonical form:
// the answer's own, else the question's suggestion, each with its decision
// from the action. It fails if the answer is not an always-answer, names rule
// and rules, or there is nothing to suggest. Whether a policy accepts the
// rules is not looked at.
func (q *Question) GrantRules(a *Answer) ([]json.RawMessage, error) {
	outcome := map[string]Outcome{AlwaysAllow: Allow, AlwaysDeny: Deny}[a.Action]
	rules := q.Suggestion
	switch {
	case outcome == "":
		return nil, fmt.Errorf("the action %q leaves no grant", a.Action)
	case a.Rule != nil && a.Rules != nil:
		return nil, errors.New("it names both rule and rules")
	case a.Rule != nil:
		rules = []json.RawMessage{a.Rule}
	case a.Rules != nil:
		var err error
		if rules, err = rawElements(a.Rules); err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
	}
	if len(rules) == 0 {
		return nil, errors.New("there are no rules to remember")
	}
	decided := make([]json.RawMessage, len(rules))
	for i, r := range rules {
		var err error
		if decided[i], err = withDecision(r, outcome); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return decided, nil
}

func rawElements(raw json.RawMessage) ([]json.RawMessage, error) {
	c, err := Canonical(raw)
	if err != nil {
		return nil, err
	}
	items, err := elements(c)
	if err != nil {
		return nil, err
	}
	list := make([]json.RawMessage, len(items))
	for i, item := range items {
		list[i] = item
	}
	return list, nil
}

func withDecision(rule json.RawMessage, o Outcome) (json.RawMessage, error) {
	c, err := Canonical(rule)
	if err != nil {
		return nil, err
	}
	members, err := split(c)
	if err != nil {
		return nil, err
	}
	members = slices.DeleteFunc(members, func(m member) bool { return m.key == "decision" })
	members = append(members, member{"decision", appendString(nil, string(o))})
	return appendObject(nil, members, &reader{})
}

func (j *judge) revoke(id string, b *Revoke) error {
	g := j.findGrant(b.Grant)
	switch {
	case g == nil:
		return fmt.Errorf("there is no grant %s", b.Grant)
	case !g.InForce(j.now()):
		return fmt.Errorf("the grant is not in force (%s)", g.Standing(j.now()))
	case g.Question != "" && !j.findQuest(g.Question).Entitled(j.commit.Actor, j.now()):
		return fmt.Errorf("%s is not entitled to its question", j.commit.Actor)
	}
	g = j.editGrant(b.Grant)
	g.Ended, g.EndMark = "revoked", j.mark(id)
	return checkText("reason", b.Reason)
}

// Standing says in a word whether the grant is in force at time now, and if
// not, why: "in force", "expired", "used up", or how it ended.
func (g *GrantState) Standing(now Time) string {
	switch {
	case g.Ended != "":
		return g.Ended
	case g.expired(now):
		return "expired"
	case g.usedUp():
		return "used up"
	}
	return "in force"
}
