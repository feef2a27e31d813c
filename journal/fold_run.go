package journal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// maxText is the longest free text of an event outside content, arguments and
// views, in bytes.
const maxText = 16 << 10

func checkText(name, s string) error {
	if len(s) > maxText {
		return fmt.Errorf("%s is over %d bytes", name, maxText)
	}
	return nil
}

func (j *judge) opened(id string, b *Opened) error {
	if err := errors.Join(CheckName("agent", b.Agent), CheckName("run", b.Run), checkOptionalName("parent", b.Parent),
		checkOptionalName("policy name", b.Follows), checkText("label", b.Label)); err != nil {
		return err
	}
	if j.findRun(b.Run) != nil {
		return fmt.Errorf("the run id %s is used already", b.Run)
	}
	if err := j.mayOpen(b); err != nil {
		return err
	}
	first := !j.begun()
	kind := j.s.kind
	if j.begin != nil {
		kind = j.begin.Kind
	}
	if !first && b.Kind != kind {
		return fmt.Errorf("the session is of kind %s, not %s", kind, b.Kind)
	}
	for _, old := range j.liveRuns(b.Agent) {
		switch {
		case b.Takeover:
			j.endRun(old, "takeover")
		case !b.Shared || !j.findRun(old).Shared:
			return fmt.Errorf("the run %s of agent %s lives", old, b.Agent)
		}
	}
	put(&j.runs, b.Run, &RunState{Opened: *b, Mark: j.mark(id), Live: true})
	if _, owned := look(j.owners, j.s.owners, b.Agent); !owned {
		put(&j.owners, b.Agent, j.by())
	}
	switch {
	case first:
		j.begin = b
	case b.Follows != "":
		put(&j.agents, b.Agent, b.Follows)
	}
	return nil
}

// DefaultPolicyName is the policy name that a session follows unless a decider
// says otherwise.
const DefaultPolicyName = "default"

// mayOpen holds an agent's own key to what is its own: an agent's name belongs
// to the actor that first opened it, and which policy judges it is not the
// agent's to say.
func (j *judge) mayOpen(b *Opened) error {
	if j.commit.Role != RoleAgent {
		return nil
	}
	if owner, owned := look(j.owners, j.s.owners, b.Agent); owned && owner != j.by() {
		return fmt.Errorf("the agent %s belongs to %s", b.Agent, owner)
	}
	if b.Follows != "" && (j.begun() || b.Follows != DefaultPolicyName) {
		return errors.New("follows is a decider's to say: an agent's key begins sessions under the policy named default")
	}
	return nil
}

func checkOptionalName(kind, s string) error {
	if s == "" {
		return nil
	}
	return CheckName(kind, s)
}

// liveRuns are an agent's live runs, in the order they began.
func (j *judge) liveRuns(agent string) []string {
	var runs []*RunState
	for id := range j.s.live[agent] {
		if r := j.findRun(id); r.Live {
			runs = append(runs, r)
		}
	}
	for id, r := range j.runs {
		if _, old := j.s.live[agent][id]; !old && r.Agent == agent && r.Live {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *RunState) int { return compareMarks(a.Mark, b.Mark) })
	var ids []string
	for _, r := range runs {
		ids = append(ids, r.Run)
	}
	return ids
}

// liveAgents are the agents that may have a live run, sorted.
func (j *judge) liveAgents() []string {
	agents := slices.Collect(maps.Keys(j.s.live))
	for _, r := range j.runs {
		agents = append(agents, r.Agent)
	}
	slices.Sort(agents)
	return slices.Compact(agents)
}

// liveRun is the run called id if it lives and the writer may act for it: a
// run belongs to the actor that opened it, and deciders and admins act for any.
func (j *judge) liveRun(id string) (*RunState, error) {
	r, err := j.ownRun(id)
	if err == nil && !r.Live {
		err = fmt.Errorf("the run %s has ended (%s)", id, r.Ended)
	}
	return r, err
}

func (j *judge) ownRun(id string) (*RunState, error) {
	r := j.findRun(id)
	if r == nil {
		return nil, fmt.Errorf("there is no run %s", id)
	}
	if j.commit.Role == RoleAgent && r.Mark.By != j.by() {
		return nil, fmt.Errorf("the run %s belongs to %s", id, r.Mark.By)
	}
	return r, nil
}

func (j *judge) closed(_ string, b *Closed) error {
	r, err := j.liveRun(b.Run)
	if err != nil {
		return err
	}
	if r.Agent != b.Agent {
		return fmt.Errorf("the run %s is of agent %s", b.Run, r.Agent)
	}
	j.endRun(b.Run, "closed")
	return nil
}

// endRun ends a run: its calls lose their waiter, what it started without a
// result is of unknown outcome, and elicitations for its calls end.
func (j *judge) endRun(id, how string) {
	r := j.editRun(id)
	r.Live, r.Ended = false, how
	for _, callID := range j.heldBy(id) {
		c := j.editCall(callID)
		if c.Waiter == id {
			c.Waiter = ""
			if how == "takeover" && c.Last().Progress == Denied {
				c.Received = false // its process may have died before it read the denial
			}
		}
		for i := range c.Attempts {
			if a := &c.Attempts[i]; a.Progress == Started && a.StartRun == id {
				a.Progress = Unknown
				j.due(c)
			}
		}
		j.endElicitations(callID)
	}
}

// heldBy are the calls that a run waits for or has started, oldest first.
func (j *judge) heldBy(run string) []string {
	return j.callsWhere(j.s.held[run], func(c *CallState) bool { return slices.Contains(holders(c), run) })
}

// callsWhere are the calls of the set, and those of the overlay, for which ok
// holds now, oldest first.
func (j *judge) callsWhere(set map[string]struct{}, ok func(*CallState) bool) []string {
	var list []*CallState
	for id := range set {
		if c := j.findCall(id); ok(c) {
			list = append(list, c)
		}
	}
	for id, c := range j.calls {
		if _, seen := set[id]; !seen && ok(c) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *CallState) int { return compareMarks(a.Mark, b.Mark) })
	ids := make([]string, len(list))
	for i, c := range list {
		ids[i] = c.Mark.ID
	}
	return ids
}

// endElicitations withdraws what was asked for the sake of a call.
func (j *judge) endElicitations(call string) {
	for _, id := range j.callsWhere(j.s.openSet, func(c *CallState) bool { return c.For == call && c.Undecided() }) {
		j.withdraw(j.editCall(id))
	}
}

// withdraw ends an unstarted call: its question and unspent allow are gone and
// its key is free.
func (j *judge) withdraw(c *CallState) {
	c.Withdrawn, c.Due, c.Waiter = true, false, ""
	j.endAttempt(c.Last())
}

// endAttempt ends an open or allowed attempt without effect.
func (j *judge) endAttempt(a *Attempt) {
	if a.Question != "" && !j.findQuest(a.Question).Over {
		j.editQuest(a.Question).Over = true
	}
	if a.Progress == Open || a.Progress == Allowed {
		a.Progress = Void
	}
}

// due opens the call's next attempt if a run waits, else with the next attach.
func (j *judge) due(c *CallState) {
	if done := c.Result(); done != nil {
		j.conclude(c, done)
		return
	}
	if c.Due = c.Waiter == ""; !c.Due {
		j.openNext(c)
	}
}

func (j *judge) openNext(c *CallState) {
	repaired := j.s.repaired
	if j.repaired {
		repaired = j.commit.N
	}
	// What a repair passed over may have started a call from before it.
	next := Attempt{No: len(c.Attempts) + 1, AfterUnknown: c.Mark.N < repaired}
	for i := range c.Attempts {
		next.AfterUnknown = next.AfterUnknown || c.Attempts[i].Progress == Unknown
	}
	c.Attempts = append(c.Attempts, next)
	c.Due, c.Received = false, false
}

func (j *judge) ended(id string, b *Ended) error {
	if err := checkText("reason", b.Reason); err != nil {
		return err
	}
	for _, agent := range j.liveAgents() {
		for _, run := range j.liveRuns(agent) {
			j.endRun(run, "ended")
		}
	}
	for _, call := range j.callsWhere(j.s.openSet, func(c *CallState) bool { return !c.Withdrawn }) {
		c := j.editCall(call)
		j.endAttempt(c.Last())
	}
	j.endGrants(id, "ended")
	m := j.mark(id)
	j.endMark = &m
	return nil
}

func (j *judge) endGrants(id, how string) {
	for _, grant := range append(slices.Clone(j.s.grantIDs), j.newGrant...) {
		if j.findGrant(grant).Ended == "" {
			g := j.editGrant(grant)
			g.Ended, g.EndMark = how, j.mark(id)
		}
	}
}

func (j *judge) adopt(id string, b *Adopt) error {
	if err := errors.Join(checkOptionalName("policy name", b.Name), checkOptionalName("agent", b.Agent),
		checkOptionalName("layer", b.Layer)); err != nil {
		return err
	}
	if hash, ok := cutPrefix(b.Digest, DigestPrefix); !ok || !hexDigest(hash) {
		return fmt.Errorf("digest %q is malformed", b.Digest)
	}
	if (b.Name == "") != (b.Activation == 0) {
		return errors.New("a name comes with its activation, and an activation with its name")
	}
	if b.Name != "" {
		if last, _ := look(j.newest, j.s.newest, b.Name); b.Activation < last {
			return fmt.Errorf("activation %d of %s lies before %d, which was adopted already", b.Activation, b.Name, last)
		}
		put(&j.newest, b.Name, b.Activation)
	}
	put(&j.adopted, Scope{b.Agent, b.Layer}, &Adoption{Adopt: *b, Mark: j.mark(id)})
	return nil
}

// repair takes the chain up again from the last valid commit before the break,
// or before what a newer program wrote. What the commits passed over may have
// ended ends here, and what they may have started is of unknown outcome.
func (j *judge) repair(id string, b *Repair) error {
	if err := checkText("reason", b.Reason); err != nil {
		return err
	}
	for i, seq := range b.Missing {
		// Its own may be among them: a store that lost its end gives it again.
		if seq <= j.s.head || seq > j.seq || i > 0 && seq <= b.Missing[i-1] {
			return fmt.Errorf("missing sequence %d does not lie past the head and up to here, in order", seq)
		}
	}
	switch {
	case j.s.cond == Whole && len(b.Missing) == 0:
		return errors.New("the session is not broken and nothing is said to be missing")
	case j.s.cond == TooNew && !slices.Contains(b.Missing, j.s.why.Seq):
		return fmt.Errorf("it does not name message %d, which a newer program wrote", j.s.why.Seq)
	}
	j.repaired = true
	j.endGrants(id, "repaired")
	for _, call := range j.callsWhere(j.s.openSet, func(c *CallState) bool { return !c.Withdrawn }) {
		c := j.editCall(call)
		if a := c.Last(); a.Progress == Started {
			a.Progress = Unknown
		} else {
			j.endAttempt(a)
		}
		j.due(c)
	}
	return nil
}

func (j *judge) policyBytes(id string, b *PolicyBytes) error {
	raw, err := b.Decode()
	if err != nil {
		return fmt.Errorf("bytes: %w", err)
	}
	if base64.StdEncoding.EncodeToString(raw) != b.Bytes { // the decoder passes over line ends
		return errors.New("bytes: not plain base64")
	}
	if d := Digest(raw); d != b.Digest {
		return fmt.Errorf("digest is %s, the bytes' is %s", b.Digest, d)
	}
	if _, known := look(j.policies, j.s.policies, b.Digest); !known {
		put(&j.policies, b.Digest, &PolicyState{PolicyBytes: *b, Mark: j.mark(id)})
	}
	return nil
}

// Decode returns the policy's bytes; the fold has checked them.
func (p *PolicyBytes) Decode() ([]byte, error) {
	return base64.StdEncoding.Strict().DecodeString(p.Bytes)
}

func (j *judge) activate(id string, b *Activate) error {
	if err := CheckName("policy name", b.Name); err != nil {
		return err
	}
	if _, known := look(j.policies, j.s.policies, b.Digest); !known {
		return fmt.Errorf("no policy %s is on the chain", b.Digest)
	}
	put(&j.active, b.Name, &Activation{Activate: *b, Mark: j.mark(id)})
	return nil
}
