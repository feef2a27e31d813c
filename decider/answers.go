package decider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// counting is what the answers to a question come to, in chain order.
type counting struct {
	settled  bool
	outcome  journal.Outcome
	votes    []journal.Vote // that made the outcome
	unusable error          // why the last of votes cannot be followed; then the outcome is a denial
}

// count counts answers. One denial denies, and so does an answer that cannot
// be followed; the stages of need filled by allows allow.
func count(q *journal.QuestionState) counting {
	for i, v := range q.Answers {
		if err := usable(q, &v); err != nil {
			return counting{true, journal.Deny, q.Answers[i : i+1], err}
		}
		if !q.Allows(v.Action) {
			return counting{true, journal.Deny, q.Answers[i : i+1], nil}
		}
		if filled, _ := q.Tally(q.Answers[:i+1]); filled {
			return counting{true, journal.Allow, q.Counted(q.Answers[:i+1]), nil}
		}
	}
	return counting{}
}

// answers settles the attempt by the answers in the chain, or returns nil
// while more are needed. An answer that cannot be followed refuses this call
// and leaves nothing behind.
func (d *deciding) answers(q *journal.QuestionState) []journal.Event {
	c := count(q)
	switch {
	case !c.settled:
		return nil
	case c.unusable != nil:
		v := c.votes[0]
		return d.deny(messageUnusable(v.By, c.unusable), journal.Cause{Kind: journal.ByUnusable, ID: v.Mark.ID})
	case c.outcome == journal.Deny:
		return d.settle(q, c, messageDenied(c.votes[0].By, c.votes[0].Note))
	}
	return d.settle(q, c, messageAllowed(c.votes))
}

// settle decides by counted answers. If all of them are always-answers that
// leave the same grant, it is written in the same commit and cited.
func (d *deciding) settle(q *journal.QuestionState, c counting, message string) []journal.Event {
	var by []journal.Cause
	for _, v := range c.votes {
		by = append(by, journal.Cause{Kind: journal.ByAnswer, ID: v.Mark.ID})
	}
	grant := grantOf(q, c.votes, d.call.Layer, d.Now)
	if grant == nil {
		return d.decision(c.outcome, message, by...)
	}
	event := d.event(grant)
	by = append(by, journal.Cause{Kind: journal.ByGrant, ID: event.ID})
	return append([]journal.Event{event}, d.decision(c.outcome, message, by...)...)
}

// grantOf is the grant that the counted answers leave, or nil. One whose
// expiry has passed by now is not left.
func grantOf(q *journal.QuestionState, votes []journal.Vote, layer string, now journal.Time) *journal.Grant {
	var grant *journal.Grant
	for _, v := range votes {
		rules, err := q.GrantRules(&v.Answer)
		if err != nil || !v.Expires.IsZero() && !now.Before(v.Expires.Time) {
			return nil
		}
		g := &journal.Grant{Question: q.Mark.ID, Rules: rules, Layer: layer, Expires: v.Expires, Uses: v.Uses}
		if grant != nil && !sameGrant(grant, g) {
			return nil
		}
		grant = g
	}
	return grant
}

func sameGrant(a, b *journal.Grant) bool {
	return a.Expires == b.Expires && a.Uses == b.Uses &&
		slices.EqualFunc(a.Rules, b.Rules, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
}

// usable says why an answer cannot be followed, or nil. The words reach the model.
func usable(q *journal.QuestionState, v *journal.Vote) error {
	if q.Note != "" && strings.TrimSpace(v.Note) == "" {
		return errors.New("the policy asks for a note, and it has none")
	}
	elicits := q.Reason == journal.AskElicitation
	switch v.Action {
	case journal.AlwaysAllow, journal.AlwaysDeny:
		return usableAlways(q, v)
	case journal.AllowOnce, journal.DenyOnce:
		if elicits {
			return errors.New("that action answers a tool call, not a tool's own question")
		}
	case journal.Accept, journal.Decline, journal.Cancel:
		if !elicits {
			return errors.New("that action answers a tool's own question, not a tool call")
		}
	default:
		return fmt.Errorf("the action %q is not one of %s", clip(v.Action, 80), offeredActions(elicits))
	}
	if v.Rule != nil || v.Rules != nil {
		return errors.New("it answers once and yet holds rules to remember")
	}
	return nil
}

func offeredActions(elicits bool) string {
	if elicits {
		return "accept, decline, cancel"
	}
	return "allow-once, deny-once, always-allow, always-deny"
}

func usableAlways(q *journal.QuestionState, v *journal.Vote) error {
	rules, err := q.GrantRules(&v.Answer)
	if err != nil {
		return err
	}
	if _, err := parseRules(rules); err != nil {
		return fmt.Errorf("a rule of it cannot be used: %w", err)
	}
	if !v.Expires.IsZero() && !v.Mark.Time.Before(v.Expires.Time) {
		return errors.New("its expiry lies before it was given")
	}
	return nil
}

// elicitation decides a question a server put to people: asked, never
// started; accepting is an allow that is spent at once.
func (d *deciding) elicitation() ([]journal.Event, error) {
	if q := d.question(); q != nil {
		if events := d.answers(q); events != nil {
			return events, nil
		}
		if q.Expired(d.Now) {
			return d.deadline(q), nil
		}
	}
	return d.ask(d.eliciting)
}

// deny and decision write the decision that ends the attempt.
func (d *deciding) deny(message string, by ...journal.Cause) []journal.Event {
	return d.decision(journal.Deny, message, by...)
}

func (d *deciding) decision(outcome journal.Outcome, message string, by ...journal.Cause) []journal.Event {
	dec := &journal.Decision{
		Call: d.call.Mark.ID, Attempt: d.attempt.No, Outcome: outcome, By: by,
		Policy: d.digest, Engine: Engine, Digest: d.call.Digest, Facts: mustJSON(d.facts), Message: clip(message, maxMessage),
	}
	if ttl := d.policy.Settings.DecisionTTL; ttl > 0 && outcome == journal.Allow && d.call.Kind == journal.CallTool {
		dec.Expires = journal.At(d.Now.Add(ttl))
	}
	return []journal.Event{d.event(dec)}
}

// maxMessage is the longest message the journal takes, in bytes.
const maxMessage = 16 << 10

// byRule follows the static rules: a denial or an allow names every rule that
// made a part's verdict, the reported one first.
func (d *deciding) byRule() []journal.Event {
	v := d.verdict
	outcome, message := journal.Deny, messageRule(v.Rule, d.uncertain())
	if v.Static == policy.Allow {
		outcome, message = journal.Allow, "allowed by rule"
	}
	by := []journal.Cause{ruleCause(v.Rule)}
	for _, p := range v.Parts {
		if p.Rule != nil && p.Static == v.Static && !p.Rule.Equal(*v.Rule) && !cites(by, ruleCause(p.Rule)) {
			by = append(by, ruleCause(p.Rule))
		}
	}
	return d.decision(outcome, message, by...)
}

func ruleCause(r *policy.Rule) journal.Cause {
	return journal.Cause{Kind: journal.ByRule, Rule: mustJSON(*r)}
}

func cites(by []journal.Cause, c journal.Cause) bool {
	return slices.ContainsFunc(by, func(b journal.Cause) bool {
		return b.Kind == c.Kind && b.ID == c.ID && bytes.Equal(b.Rule, c.Rule)
	})
}

// byGrants follows the grants that settled what the rules ask about, and the
// rules that allow the other parts.
func (d *deciding) byGrants() []journal.Event {
	v := d.verdict
	var by []journal.Cause
	for _, id := range v.Grants {
		by = append(by, journal.Cause{Kind: journal.ByGrant, ID: id})
	}
	if v.Decision == policy.Deny {
		return d.deny(messageGrant(d.State.Grant(v.Grants[0])), by...)
	}
	for _, p := range v.Parts {
		if p.Static == policy.Allow && p.Rule != nil && !cites(by, ruleCause(p.Rule)) {
			by = append(by, ruleCause(p.Rule))
		}
	}
	return d.decision(journal.Allow, "allowed by a grant of this session", by...)
}

// mustJSON is v as canonical JSON. The values given to it are this program's
// own plain data, which always encode.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err == nil {
		raw, err = journal.Canonical(raw)
	}
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
