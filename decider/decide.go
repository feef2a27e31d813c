package decider

import (
	"cmp"
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

	known map[string]bool // questions found genuine or not, for one evaluation
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
	in.known = map[string]bool{}
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
		switch scope := in.State.Adoptions()[journal.Scope{Agent: agent}]; {
		case a.Mark.Seq < in.State.NewestAdopted(name):
			return
		case scope != nil && scope.Name == name && a.Mark.Seq <= scope.Activation:
			return
		case scope != nil && scope.Name != name && a.Mark.Seq <= scope.Mark.Seq:
			return // a policy named by hand stays until a later activation
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

func (in Input) event(body journal.Body) journal.Event { return journal.NewEvent(in.NewID(), body) }

// attempts decides open attempts, oldest first, up to one commit's worth.
// Answered ones go first and alone, since others are judged by the grants and
// denials they leave: nobody is asked what was just answered.
func (in Input) attempts() ([]journal.Event, error) {
	var answered, rest []*journal.CallState
	for _, c := range in.State.OpenCalls() {
		if q := in.State.Question(c.Last().Question); q != nil && !q.Over && len(q.Answers) > 0 {
			answered = append(answered, c)
		} else {
			rest = append(rest, c)
		}
	}
	events, problem := in.commit(answered)
	if len(events) > 0 {
		return events, problem
	}
	events, other := in.commit(rest)
	return events, cmp.Or(problem, other)
}

// commit decides calls up to one commit's worth.
func (in Input) commit(calls []*journal.CallState) ([]journal.Event, error) {
	var events []journal.Event
	var problem error
	size := 0
	for _, c := range calls {
		more, err := DecideCall(in, c)
		if err != nil && problem == nil {
			problem = fmt.Errorf("call %s: %w", c.Mark.ID, err)
		}
		if len(more) == 0 {
			continue
		}
		if size += weight(more); len(events) > 0 && size > maxBytes {
			break
		}
		if events = append(events, more...); len(events) >= maxEvents {
			break
		}
	}
	return events, problem
}

// weight is about how many bytes events take in a commit.
func weight(events []journal.Event) int {
	n := 0
	for _, e := range events {
		switch b := e.Body.(type) {
		case *journal.Question:
			n += len(b.Facts) + len(b.View) + len(b.Verdict) + 2*maxOffer
		case *journal.Decision:
			n += len(b.Facts) + len(b.Message)
			for _, cause := range b.By {
				n += len(cause.Rule)
			}
		case *journal.Grant:
			for _, r := range b.Rules {
				n += len(r)
			}
		}
	}
	return n + 1<<10*len(events)
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
	if err := in.Policies.founded(adopted); err != nil {
		return nil, err
	}
	pol, err := in.Policies.Get(adopted.Digest)
	if err != nil {
		return nil, err
	}
	d := &deciding{Input: in, call: c, attempt: a, policy: pol, digest: adopted.Digest}
	if a.Progress == journal.Allowed {
		return d.unspent(), nil
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
		return d.readFacts(), nil
	}
	return "", nil
}

// maxFacts is the most that facts may take as JSON, in bytes: what a commit of
// 8 MiB holds beside a view and the rules cited.
const maxFacts = 4 << 20

// readFacts reads what the call touches. A reason means it is more than any
// commit can hold.
func (d *deciding) readFacts() (why string) {
	d.facts = d.policy.Facts(d.call.Tool, d.call.Arguments)
	if size := len(mustJSON(d.facts)); size > maxFacts {
		d.facts = policy.Facts{}
		return fmt.Sprintf("what it touches takes %d bytes to write down, and %d are taken", size, maxFacts)
	}
	return ""
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
	d.judge()
	if d.verdict.Static == policy.Deny {
		return d.byRule(), nil
	}
	if d.failsInterrupted() {
		return d.deny(messageInterrupted(), journal.Cause{Kind: journal.ByInterrupted}), nil
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
	if d.attempt.AfterUnknown && d.policy.Interrupted(d.call.Tool) != policy.InterruptedRetry {
		return d.ask(d.interrupted)
	}
	switch {
	case v.Static == policy.Allow:
		return d.byRule(), nil
	case v.Decision == policy.Allow:
		return d.byGrants(), nil
	}
	return d.ask(d.asking)
}

// failsInterrupted reports whether the policy lets nobody run the call again
// after an earlier attempt of unknown outcome.
func (d *deciding) failsInterrupted() bool {
	return d.attempt.AfterUnknown && d.policy.Interrupted(d.call.Tool) == policy.InterruptedFail
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
func (d *deciding) ask(build func() *journal.Question) ([]journal.Event, error) {
	if open := d.question(); open != nil {
		if open.Policy != d.digest && changed(&open.Question, build(), open.Mark.Time, d.Now) {
			return []journal.Event{d.event(&journal.Lapse{Question: open.Mark.ID, Reason: journal.LapsePolicy})}, nil
		}
		return nil, nil
	}
	if id, note := d.repeated(); id != "" {
		return d.deny(messageRepeated(note), journal.Cause{Kind: journal.ByAnswer, ID: id}), nil
	}
	q := build()
	if d.headless() {
		return d.deny(messageHeadless(q.Reason, d.verdict.Rule), journal.Cause{Kind: journal.ByHeadless}), nil
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
func (d *deciding) unspent() []journal.Event {
	dec := d.State.Decision(d.attempt.Decision)
	if why := d.grantGone(dec); why != "" {
		return d.lapse(dec, why)
	}
	if !dec.Expires.IsZero() && !d.Now.Before(dec.Expires.Time) {
		return d.lapse(dec, journal.LapseExpired)
	}
	if dec.Policy != d.digest && d.policyDenies() {
		return d.lapse(dec, journal.LapsePolicy)
	}
	return nil
}

// policyDenies reports whether the policy denies the call whatever people and
// grants say.
func (d *deciding) policyDenies() bool {
	if d.call.Masked != nil {
		if json.Unmarshal(d.call.Facts, &d.facts) != nil {
			return true
		}
	} else if d.readFacts() != "" {
		return true
	}
	return d.failsInterrupted() || d.policy.Judge(d.call.Tool, d.facts, nil).Static == policy.Deny
}

func (d *deciding) lapse(dec *journal.DecisionState, why journal.LapseReason) []journal.Event {
	return []journal.Event{d.event(&journal.Lapse{Decision: dec.Mark.ID, Reason: why})}
}
