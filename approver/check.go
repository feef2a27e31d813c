package approver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
)

// check holds an answer against its question, as every fold and every decider
// will: what they would void or could not use is never written.
type check struct {
	st  *journal.State
	q   *journal.QuestionState
	who journal.Principal
	now journal.Time
	req Request
}

// by is the person who answers.
func (c *check) by() string {
	if c.req.By != "" {
		return c.req.By
	}
	return c.who.Actor
}

func (c *check) refuse(format string, args ...any) error {
	return &NotOfferedError{c.q.Mark.ID, c.req.Action, fmt.Sprintf(format, args...)}
}

// open reports whether the question takes an answer of this person at all.
func (c *check) open(ctx context.Context, log journal.Log) error {
	if cond, _ := c.st.Condition(); cond != journal.Whole {
		return unfit(c.st)
	}
	id := c.q.Mark.ID
	switch mine := c.mine(); {
	case !inbox.Open(c.st, c.q):
		return settled(ctx, log, c.st, id)
	case mine != nil:
		return &SettledError{id, inbox.Settlement{How: inbox.Answered, By: mine.By, Action: mine.Action, At: mine.Mark.Time,
			Why: "one person answers a question once; it waits for others"}}
	case c.q.Expired(c.now):
		return &SettledError{id, lapsed(c.q.Deadline)}
	}
	return c.entitled()
}

// lapsed is how a question closes whose deadline passed, before a decider
// wrote so.
func lapsed(deadline journal.Time) inbox.Settlement {
	return inbox.Settlement{How: inbox.Lapsed, At: deadline, Action: string(journal.Deny),
		Why: "its deadline passed, and it is denied as soon as a decider runs"}
}

func (c *check) mine() *journal.Vote {
	for i := range c.q.Answers {
		if c.q.Answers[i].By == c.by() {
			return &c.q.Answers[i]
		}
	}
	return nil
}

func (c *check) entitled() error {
	id, by, actor := c.q.Mark.ID, c.by(), c.who.Actor
	switch {
	case !journal.MayWrite(c.who.Role, journal.TypeAnswer):
		return notEntitled(id, fmt.Sprintf("the role %s answers nothing: use an approver's key", c.who.Role))
	case by != actor && !c.q.SpeaksFor(actor, by):
		return notEntitled(id, fmt.Sprintf("%s may not answer for %s: the policy lists who may, under frontends", actor, Visible(by)))
	}
	for _, asker := range inbox.Askers(c.st, c.q) {
		if asker == actor || asker == by {
			return notEntitled(id, fmt.Sprintf("%s asked, and may not answer: someone else has to", asker))
		}
	}
	if c.q.Entitled(by, c.now) {
		return nil
	}
	for _, w := range c.q.Who {
		if len(w.Of) == 0 || slices.Contains(w.Of, by) {
			return notEntitled(id, fmt.Sprintf("%s may answer from %s on", by, w.From))
		}
	}
	return notEntitled(id, fmt.Sprintf("%s is not among those it asks: %s", by, strings.Join(asked(c.q), ", ")))
}

// asked are the people that the question asks, in its order.
func asked(q *journal.QuestionState) []string {
	var people []string
	for _, w := range q.Who {
		for _, p := range w.Of {
			if !slices.Contains(people, p) {
				people = append(people, p)
			}
		}
	}
	return people
}

// answer is the body to write, or why the question does not take it.
func (c *check) answer() (*journal.Answer, error) {
	req := c.req
	if req.Shown != "" && req.Shown != c.q.Shown {
		return nil, c.refuse("it shows something else than what was displayed: look at it again")
	}
	if err := cmp.Or(c.action(), c.sizes()); err != nil {
		return nil, err
	}
	body := &journal.Answer{
		Question: c.q.Mark.ID, Action: req.Action, Content: req.Content, Note: req.Note, Uses: req.Uses,
		Shown: c.q.Shown, By: c.by(), Via: req.Via, Proof: req.Proof,
	}
	if body.By != c.who.Actor {
		body.Via = c.who.Actor
	}
	if !req.Expires.IsZero() {
		body.Expires = journal.At(req.Expires)
	}
	if c.always() {
		return body, c.rules(body)
	}
	return body, c.once()
}

func (c *check) always() bool {
	return c.req.Action == journal.AlwaysAllow || c.req.Action == journal.AlwaysDeny
}

// action reports whether the question offers the action.
func (c *check) action() error {
	offered := Actions()[:4]
	if c.q.Reason == journal.AskElicitation {
		offered = Actions()[4:]
	}
	switch {
	case !slices.Contains(offered, c.req.Action):
		return c.refuse("it takes %s", strings.Join(offered, ", "))
	case c.always() && !c.q.Grantable:
		return c.refuse("it is asked every time and nothing about it is remembered: answer %s or %s", journal.AllowOnce, journal.DenyOnce)
	case c.q.Note != "" && strings.TrimSpace(c.req.Note) == "":
		return c.refuse("the policy asks for a note with the answer: give one")
	}
	return nil
}

// Longest note and via that a journal takes, in bytes.
const (
	maxNote = 16 << 10
	maxVia  = 1 << 10
)

// sizes refuses what no journal would take.
func (c *check) sizes() error {
	switch {
	case len(c.req.Note) > maxNote:
		return c.refuse("its note has %d bytes, a journal takes %d: shorten it", len(c.req.Note), maxNote)
	case len(c.req.Via) > maxVia:
		return c.refuse("via has %d bytes, a journal takes %d: shorten it", len(c.req.Via), maxVia)
	case !utf8.ValidString(c.req.Note) || !utf8.ValidString(c.req.Via):
		return c.refuse("its note is not UTF-8: write it anew")
	}
	for name, raw := range map[string]json.RawMessage{"content": c.req.Content, "proof": c.req.Proof} {
		if raw == nil {
			continue
		}
		if _, err := journal.Canonical(raw); err != nil {
			return c.refuse("its %s is not JSON that a journal takes: %s", name, Visible(err.Error()))
		}
	}
	return nil
}

// once refuses what only an always-answer can carry.
func (c *check) once() error {
	switch {
	case c.req.RulesGiven || len(c.req.Rules) > 0:
		return c.refuse("rules go with %s or %s: leave them out, or answer that", journal.AlwaysAllow, journal.AlwaysDeny)
	case !c.req.Expires.IsZero() || c.req.Uses != 0:
		return c.refuse("expiry and uses go with %s or %s: leave them out, or answer that", journal.AlwaysAllow, journal.AlwaysDeny)
	case c.req.Content != nil && c.req.Action != journal.Accept:
		return c.refuse("content goes with %s: leave it out", journal.Accept)
	}
	return nil
}

// rules puts the rules of an always-answer into the body, and checks that
// they, or what the question suggests, can be remembered.
func (c *check) rules(body *journal.Answer) error {
	switch req := c.req; {
	case req.Content != nil:
		return c.refuse("content goes with %s: leave it out", journal.Accept)
	case req.Uses < 0:
		return c.refuse("a grant has %d uses: give 1 or more, or 0 for no limit", req.Uses)
	case !req.Expires.IsZero() && !c.now.Before(req.Expires):
		return c.refuse("the grant would have expired at %s: give a later time", body.Expires)
	case !req.RulesGiven && len(req.Rules) == 0 && len(c.q.Suggestion) == 0:
		return c.refuse("there is nothing to suggest for it: give rules of your own, or answer %s", journal.AllowOnce)
	case req.RulesGiven && len(req.Rules) == 0:
		return c.refuse("an empty list of rules remembers nothing: give a rule, or none at all for the suggestion")
	case len(req.Rules) > 0:
		if err := c.own(body); err != nil {
			return err
		}
	}
	rules, err := c.q.GrantRules(body)
	if err != nil {
		return c.refuse("%s", Visible(err.Error()))
	}
	for i, r := range rules {
		if _, err := policy.ParseRule(r); err != nil {
			return c.refuse("rule %d cannot be used: %s", i+1, Visible(err.Error()))
		}
	}
	return nil
}

// own takes the request's rules. One whose own decision says something else
// than the action was not meant so.
func (c *check) own(body *journal.Answer) error {
	want := map[string]string{journal.AlwaysAllow: "allow", journal.AlwaysDeny: "deny"}[c.req.Action]
	for i, r := range c.req.Rules {
		var said struct{ Decision *string }
		if err := json.Unmarshal(r, &said); err != nil {
			return c.refuse("rule %d is not a JSON object: %s", i+1, Visible(err.Error()))
		}
		if said.Decision != nil && *said.Decision != want {
			return c.refuse("rule %d says %q where the answer says %s: leave its decision out", i+1, *said.Decision, want)
		}
	}
	raw, err := json.Marshal(c.req.Rules)
	if err != nil {
		return c.refuse("the rules are not JSON: %v", err)
	}
	body.Rules = raw
	return nil
}
