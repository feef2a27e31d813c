package decider

import (
	"encoding/json"
	"fmt"
	"slices"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// Engine is the name and version of the rules' evaluator, as decisions record it.
const Engine = policy.Engine

// Input is all that a decision depends on.
type Input struct {
	State    *journal.State
	Policies *Policies
	// Books are the books that the session's grants came from, by name. A
	// grant whose book is not here is taken as its session has it.
	Books map[string]*journal.State
	// Now is the time of the commit that the events will be in: the later of
	// the clock and the head's time. It alone settles expiry and deadlines.
	Now journal.Time
	// NewID makes event ids.
	NewID func() string
}

// maxEvents and maxBytes bound one commit. What is left is decided after it.
const (
	maxEvents = 100
	maxBytes  = 1 << 20
)

// Decide turns what is open in a session into events: one commit, to be
// appended as it is and followed by another Decide until there is none. It is
// pure, and the only place that turns calls into decisions: worker, inline
// deciders, the releasing side and audit all call it.
//
// The error says what could not be decided, and why; the events are valid
// beside it.
func Decide(in Input) ([]journal.Event, error) {
	st := in.State
	if cond, why := st.Condition(); cond != journal.Whole {
		return nil, fmt.Errorf("session %s is %s at message %d: %s", st.Chain(), cond, why.Seq, why.Why)
	}
	if st.Ended() != nil {
		return nil, nil
	}
	if events := in.adopt(); len(events) > 0 {
		return events, nil
	}
	if events := in.endGrants(); len(events) > 0 {
		return events, nil
	}
	return in.attempts()
}

// adopt follows newer activations of the names the session and its agents follow.
func (in Input) adopt() []journal.Event {
	session, agents := in.State.Follows()
	var events []journal.Event
	follow := func(name, agent string) {
		a := in.Policies.Active(name)
		if a == nil {
			return
		}
		scope := in.State.Adoptions()[journal.Scope{Agent: agent}]
		if scope != nil && (scope.Name != name || scope.Activation >= a.Mark.Seq) || a.Mark.Seq < in.State.NewestAdopted(name) {
			return
		}
		events = append(events, in.event(&journal.Adopt{Digest: a.Digest, Name: name, Activation: a.Mark.Seq, Agent: agent}))
	}
	if session != "" {
		follow(session, "")
	}
	for _, agent := range sortedKeys(agents) {
		follow(agents[agent], agent)
	}
	return events
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// endGrants lets grants lapse that expired or that their book revoked.
func (in Input) endGrants() []journal.Event {
	var events []journal.Event
	for _, g := range in.State.Grants() {
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
	from := book.Grant(g.Origin.Grant)
	return from == nil || !from.InForce(in.Now)
}

func (in Input) event(body journal.Body) journal.Event { return journal.NewEvent(in.NewID(), body) }

// attempts decides open attempts, oldest first, up to one commit's worth.
func (in Input) attempts() ([]journal.Event, error) {
	var events []journal.Event
	var problems error
	size := 0
	for _, c := range in.State.OpenCalls() {
		if len(events) >= maxEvents || len(events) > 0 && size+len(c.Arguments) > maxBytes {
			break
		}
		more, err := DecideCall(in, c)
		if err != nil && problems == nil {
			problems = fmt.Errorf("call %s: %w", c.Mark.ID, err)
		}
		if len(more) > 0 {
			size += 2*len(c.Arguments) + 2*journal.MaxViewArguments
			events = append(events, more...)
		}
	}
	return events, problems
}

// DecideCall is Decide for one call, which need not be in the state yet: an
// inline decider puts it in the same commit. No events: nothing is to be done,
// or a person is waited for. An error: it cannot be decided here.
func DecideCall(in Input, c *journal.CallState) ([]journal.Event, error) {
	a := c.Last()
	if c.Withdrawn || a.Progress != journal.Open && a.Progress != journal.Allowed {
		return nil, nil
	}
	adopted := in.State.Adopted(c.Agent, c.Layer)
	if adopted == nil {
		_, err := in.Policies.Get("")
		return nil, err
	}
	pol, err := in.Policies.Get(adopted.Digest)
	if err != nil {
		return nil, err
	}
	d := &deciding{Input: in, call: c, attempt: a, policy: pol, digest: adopted.Digest}
	if a.Progress == journal.Allowed {
		return d.unspent()
	}
	return d.open()
}

// deciding is one attempt being decided.
type deciding struct {
	Input
	call    *journal.CallState
	attempt *journal.Attempt
	policy  *policy.Policy
	digest  string // of policy

	facts   policy.Facts
	verdict policy.Verdict

	// made is the decision that is being derived again, nil while deciding:
	// then the state already holds what came with it and after it.
	made *journal.DecisionState
}

// open takes an undecided attempt through the steps.
func (d *deciding) open() ([]journal.Event, error) {
	if why, err := d.step0(); err != nil || why != "" {
		if err != nil {
			return nil, err
		}
		return d.deny(messageError(why), journal.Cause{Kind: journal.ByError}), nil
	}
	if d.call.Kind == journal.CallElicitation {
		return d.elicitation()
	}
	return d.tool()
}

// step0 checks that the call is what its digest says and reads its facts. A
// reason means it must be denied.
func (d *deciding) step0() (why string, err error) {
	c := d.call
	if c.Masked != nil {
		if err := json.Unmarshal(c.Facts, &d.facts); c.Kind == journal.CallTool && err != nil {
			return "its masked arguments come without facts that can be read", nil
		}
		return "", nil
	}
	written := d.policy
	if c.Policy != "" && c.Policy != d.digest { // digested under the policy it was written under
		if written, err = d.Policies.Get(c.Policy); err != nil {
			return "", err
		}
	}
	if c.Policy == "" {
		written = nil
	}
	digest, err := CallDigest(written, c.Tool, c.Arguments)
	if err != nil || digest != c.Digest {
		return "its digest is not that of its arguments", nil
	}
	if c.Kind == journal.CallTool {
		d.facts = d.policy.Facts(c.Tool, c.Arguments)
	}
	return "", nil
}

// CallDigest is a call's digest: over its canonical arguments without the
// tool's advisory parameters. A nil policy names none.
func CallDigest(pol *policy.Policy, tool string, arguments json.RawMessage) (string, error) {
	if pol != nil {
		arguments = pol.DigestArguments(tool, arguments)
	}
	c, err := journal.Canonical(arguments)
	if err != nil {
		return "", err
	}
	return journal.Digest(c), nil
}

// tool decides a tool call: rules that deny, then answers, then the deadline,
// then rules and grants that allow, and at last a person.
func (d *deciding) tool() ([]journal.Event, error) {
	d.verdict = d.policy.Judge(d.call.Tool, d.facts, d.grants())
	if d.verdict.Static == policy.Deny {
		return d.byRule(), nil
	}
	if q := d.question(); q != nil {
		if events := d.answers(q); events != nil {
			return events, nil
		}
		if q.Expired(d.Now) {
			return d.deadline(q), nil
		}
	}
	return d.judged()
}

// judged follows the verdict where no person's word stands yet.
func (d *deciding) judged() ([]journal.Event, error) {
	v := d.verdict
	if v.Decision == policy.Deny {
		return d.byGrants(), nil
	}
	if d.attempt.AfterUnknown {
		switch d.policy.Interrupted(d.call.Tool) {
		case policy.InterruptedRetry: // its ordinary verdict
		case policy.InterruptedFail:
			return d.deny(messageInterrupted(), journal.Cause{Kind: journal.ByInterrupted}), nil
		default:
			return d.ask(d.interrupted())
		}
	}
	switch {
	case v.Static == policy.Allow:
		return d.byRule(), nil
	case v.Decision == policy.Allow:
		return d.byGrants(), nil
	}
	return d.ask(d.asking())
}

// grants are the grants that a verdict may consult: in force, of the call's
// layer, and imported only by those the policy lists as importers.
func (d *deciding) grants() []policy.Grant {
	var list []policy.Grant
	for _, g := range d.State.Grants() {
		if g.Layer != d.call.Layer || !g.InForce(d.Now) || d.revokedInBook(g) {
			continue
		}
		if d.made != nil && g.Mark.N >= d.made.Mark.N {
			continue
		}
		if g.Origin != nil && g.Mark.By.Role != journal.RoleAdmin && !slices.Contains(d.policy.Importers, g.Mark.By.Actor) {
			continue
		}
		if rules, err := parseRules(g.Rules); err == nil {
			list = append(list, policy.Grant{ID: g.Mark.ID, Rules: rules})
		}
	}
	return list
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

// question is the attempt's open question, or nil.
func (d *deciding) question() *journal.QuestionState {
	if d.attempt.Question == "" {
		return nil
	}
	if q := d.State.Question(d.attempt.Question); q != nil && (!q.Over || d.made != nil) {
		return q
	}
	return nil
}

// headless reports whether nobody may be asked: the run that waits, or the
// last that did, said so. A run that is not in the state yet is the caller's.
func (d *deciding) headless() bool {
	run := d.State.Run(d.call.LastWaiter)
	return run != nil && run.Headless
}

// ask puts a question, unless one stands, or nobody can be asked, or people
// denied this call often enough already.
func (d *deciding) ask(q *journal.Question) ([]journal.Event, error) {
	if open := d.question(); open != nil {
		if open.Policy != d.digest && changed(&open.Question, q, open.Mark.Time, d.Now) {
			return []journal.Event{d.event(&journal.Lapse{Question: open.Mark.ID, Reason: journal.LapsePolicy})}, nil
		}
		return nil, nil
	}
	if id, note := d.repeated(); id != "" {
		return d.deny(messageRepeated(note), journal.Cause{Kind: journal.ByAnswer, ID: id}), nil
	}
	if d.headless() {
		return d.deny(messageHeadless(d.verdict.Rule), journal.Cause{Kind: journal.ByHeadless}), nil
	}
	shown, err := q.ShownDigest()
	if err != nil {
		return nil, err
	}
	q.Shown = shown
	return []journal.Event{d.event(q)}, nil
}

// deadline denies an attempt whose question nobody answered in time.
func (d *deciding) deadline(q *journal.QuestionState) []journal.Event {
	lapse := d.event(&journal.Lapse{Question: q.Mark.ID, Reason: journal.LapseDeadline})
	denial := d.deny(messageDeadline(q.Deadline), journal.Cause{Kind: journal.ByLapse, ID: lapse.ID})
	return append([]journal.Event{lapse}, denial...)
}

// repeated is the answer that denies an unkeyed call's repetition: the newest
// of the last deny-repeats denials by a person, all of identical calls in this run.
func (d *deciding) repeated() (answer, note string) {
	c := d.call
	if c.Key != "" || c.Ref != "" {
		return "", ""
	}
	denials := 0
	alike := d.State.Alike(c.Agent, c.Layer, c.Tool, c.Digest)
	for _, old := range slices.Backward(alike) {
		if old.Mark.ID == c.Mark.ID || old.Run != c.Run {
			continue
		}
		for _, vote := range d.refusals(old) {
			if denials++; answer == "" {
				answer, note = vote.Mark.ID, vote.Note
			}
		}
	}
	if denials < d.policy.Settings.Repeats() {
		return "", ""
	}
	return answer, note
}

// refusals are the answers by which people denied attempts of a call.
func (d *deciding) refusals(c *journal.CallState) []journal.Vote {
	var votes []journal.Vote
	for i := range c.Attempts {
		dec := d.State.Decision(c.Attempts[i].Decision)
		q := d.State.Question(c.Attempts[i].Question)
		if dec == nil || q == nil || dec.Outcome != journal.Deny {
			continue
		}
		for _, v := range q.Answers {
			if slices.ContainsFunc(dec.By, func(b journal.Cause) bool { return b.Kind == journal.ByAnswer && b.ID == v.Mark.ID }) {
				votes = append(votes, v)
			}
		}
	}
	return votes
}

// unspent lets an allow lapse that something overtook before its start: a
// denial under a newer policy, a grant revoked or used up, an expiry.
func (d *deciding) unspent() ([]journal.Event, error) {
	dec := d.State.Decision(d.attempt.Decision)
	if why := d.grantGone(dec); why != "" {
		return d.lapse(dec, why), nil
	}
	if !dec.Expires.IsZero() && !d.Now.Before(dec.Expires.Time) {
		return d.lapse(dec, journal.LapseExpired), nil
	}
	if dec.Policy == d.digest {
		return nil, nil
	}
	if why, err := d.step0(); err != nil || why != "" {
		return nil, err
	}
	if d.policy.Judge(d.call.Tool, d.facts, nil).Static == policy.Deny {
		return d.lapse(dec, journal.LapsePolicy), nil
	}
	return nil, nil
}

func (d *deciding) lapse(dec *journal.DecisionState, why journal.LapseReason) []journal.Event {
	return []journal.Event{d.event(&journal.Lapse{Decision: dec.Mark.ID, Reason: why})}
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
