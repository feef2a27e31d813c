package journal

import (
	"errors"
	"fmt"
	"slices"
)

// maxNameText is the longest tool name, key or ref, in bytes.
const maxNameText = 1024

func checkShort(name, s string) error {
	if len(s) > maxNameText {
		return fmt.Errorf("%s is over %d bytes", name, maxNameText)
	}
	return nil
}

func (j *judge) call(id string, b *Call) error {
	r, err := j.liveRun(b.Run)
	if err != nil {
		return err
	}
	if err := errors.Join(checkOptionalName("layer", b.Layer), checkShort("tool", b.Tool), checkShort("key", b.Key),
		checkShort("ref", b.Ref), checkShort("parent", b.Parent), checkText("reason", b.Reason), checkText("cwd", b.CWD)); err != nil {
		return err
	}
	switch {
	case r.Agent != b.Agent:
		return fmt.Errorf("the run %s is of agent %s", b.Run, r.Agent)
	case b.Tool == "":
		return errors.New("a call names a tool")
	case !validDigest(b.Digest):
		return fmt.Errorf("digest %q is malformed", b.Digest)
	case (b.Masked != nil) != (b.Digest[:5] == "hmac:"):
		return errors.New("masked arguments have a keyed digest, and only they")
	case b.Key != "" && j.named("key", b, b.Key) != "":
		return fmt.Errorf("the key %q is used by call %s", b.Key, j.named("key", b, b.Key))
	case b.Ref != "" && j.named("ref", b, b.Ref) != "":
		return fmt.Errorf("the ref %q is used by call %s", b.Ref, j.named("ref", b, b.Ref))
	}
	if err := j.provoked(b); err != nil {
		return err
	}
	c := NewCallState(*b, id, j.adoption(b.Agent, b.Layer))
	c.Mark = j.mark(id)
	put(&j.calls, id, c)
	return nil
}

// NewCallState is a call as it stands right after it was written under the
// adopted policy: its first attempt is open and its run waits.
func NewCallState(b Call, id, policy string) *CallState {
	return &CallState{
		Call: b, Mark: Mark{ID: id}, Policy: policy,
		Waiter: b.Run, LastWaiter: b.Run, Attempts: []Attempt{{No: 1}},
	}
}

// provoked checks the call an elicitation was provoked by.
func (j *judge) provoked(b *Call) error {
	if b.For == "" {
		return nil
	}
	c := j.findCall(b.For)
	if b.Kind != CallElicitation || c == nil || c.Last().Progress != Started {
		return fmt.Errorf("for names call %q, which is not started without a result", b.For)
	}
	return nil
}

// named is the call that holds a key or ref in the agent and layer of b, or "".
func (j *judge) named(kind string, b *Call, name string) string {
	for id, c := range j.calls {
		held := c.Key
		if kind == "ref" {
			held = c.Ref
		}
		if held == name && c.Agent == b.Agent && c.Layer == b.Layer && !c.Withdrawn {
			return id
		}
	}
	id := j.s.keys[scopedKey(kind, b.Agent, b.Layer, name)]
	if id == "" || j.findCall(id).Withdrawn {
		return ""
	}
	return id
}

func (j *judge) attach(_ string, b *Attach) error {
	r, err := j.liveRun(b.Run)
	if err != nil {
		return err
	}
	c := j.findCall(b.Call)
	switch {
	case c == nil:
		return fmt.Errorf("there is no call %s", b.Call)
	case r.Agent != c.Agent:
		return fmt.Errorf("the call is of agent %s, the run of agent %s", c.Agent, r.Agent)
	case c.Withdrawn:
		return errors.New("the call was withdrawn")
	case c.Waiter != "" && !(c.Waiter == b.Run && r.Shared):
		return fmt.Errorf("the run %s waits for the call", c.Waiter)
	}
	c = j.editCall(b.Call)
	c.Waiter, c.LastWaiter = b.Run, b.Run
	switch last := c.Last(); {
	case c.Due:
		j.openNext(c)
	case last.Progress == Denied && b.Retry && !c.acted():
		j.openNext(c)
	case c.Settled():
		c.Received = true
	}
	return nil
}

func (j *judge) detach(_ string, b *Detach) error {
	if _, err := j.liveRun(b.Run); err != nil {
		return err
	}
	c := j.findCall(b.Call)
	switch {
	case c == nil:
		return fmt.Errorf("there is no call %s", b.Call)
	case c.Waiter != b.Run:
		return fmt.Errorf("the run %s does not wait for the call", b.Run)
	case b.Withdraw && c.Begun():
		return errors.New("a call that was started cannot be withdrawn")
	}
	c = j.editCall(b.Call)
	c.Waiter = ""
	if b.Withdraw {
		j.withdraw(c)
	}
	return checkText("reason", b.Reason)
}

// Begun reports whether any attempt of the call was started, or, of an
// elicitation, answered.
func (c *CallState) Begun() bool {
	return slices.ContainsFunc(c.Attempts, func(a Attempt) bool { return a.Start != "" || a.Progress == Finished })
}

// acted reports whether any attempt ended in ok or error, also one that came
// too late to finish the call.
func (c *CallState) acted() bool {
	return slices.ContainsFunc(c.Attempts, func(a Attempt) bool { return a.Start != "" && a.Progress == Finished })
}

func (j *judge) start(id string, b *Start) error {
	if _, err := j.liveRun(b.Run); err != nil {
		return err
	}
	c := j.findCall(b.Call)
	if c == nil {
		return fmt.Errorf("there is no call %s", b.Call)
	}
	a := c.Last()
	switch {
	case c.Waiter != b.Run:
		return fmt.Errorf("the run %s does not wait for the call", b.Run)
	case c.Withdrawn || a.No != b.Attempt || a.Progress != Allowed || a.Decision != b.Decision:
		return fmt.Errorf("attempt %d holds no unspent allow %s", b.Attempt, b.Decision)
	case b.Digest != c.Digest:
		return errors.New("the digest is not the call's")
	case c.acted():
		return errors.New("the call has a result")
	}
	d := j.findDec(b.Decision)
	if !d.Expires.IsZero() && !j.now().Before(d.Expires.Time) {
		return fmt.Errorf("the decision expired at %s", d.Expires)
	}
	for _, grant := range d.cited(ByGrant) {
		if !j.findGrant(grant).InForce(j.now()) {
			return fmt.Errorf("the grant %s is not in force", grant)
		}
	}
	a = j.editCall(b.Call).Last()
	a.Progress, a.Start, a.StartRun = Started, id, b.Run
	j.use(d, 1)
	return nil
}

// use counts a use of every grant the decision cites, or takes it back.
func (j *judge) use(d *DecisionState, by int) {
	for _, grant := range d.cited(ByGrant) {
		g := j.editGrant(grant)
		g.Used += by
	}
}

// Grants are the ids of the grants the decision cites, each once.
func (d *DecisionState) Grants() []string { return d.cited(ByGrant) }

// cited are the ids of one kind that made the decision, each once.
func (d *DecisionState) cited(kind CauseKind) []string {
	var ids []string
	for _, c := range d.By {
		if c.Kind == kind && !slices.Contains(ids, c.ID) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func (j *judge) result(id string, b *Result) error {
	r, err := j.ownRun(b.Run)
	if err != nil {
		return err
	}
	c := j.findCall(b.Call)
	switch {
	case c == nil:
		return fmt.Errorf("there is no call %s", b.Call)
	case b.Attempt < 1 || b.Attempt > len(c.Attempts):
		return fmt.Errorf("the call has no attempt %d", b.Attempt)
	case !validDigest(b.Digest):
		return fmt.Errorf("digest %q is malformed", b.Digest)
	}
	switch a := c.Attempts[b.Attempt-1]; {
	case a.Start == "" || a.Result != nil:
		return fmt.Errorf("attempt %d is not started without a result", b.Attempt)
	case a.StartRun != b.Run:
		return fmt.Errorf("the run %s started it", a.StartRun)
	}
	c = j.editCall(b.Call)
	a := &c.Attempts[b.Attempt-1]
	a.Result, a.ResultMark, a.Late = b, j.mark(id), !r.Live
	switch b.Status {
	case StatusOK, StatusError:
		j.finish(c, a)
	case StatusNotRun:
		j.notRun(c, a)
	case StatusUnknown:
		if a.Progress == Started {
			a.Progress = Unknown
			j.due(c)
		}
	}
	j.endElicitations(b.Call)
	return nil
}

// finish records an outcome. Unless a later attempt runs or has its own, it is
// the call's, and what a later one asked or was allowed is gone.
func (j *judge) finish(c *CallState, a *Attempt) {
	a.Progress = Finished
	if c.Result() == a {
		j.conclude(c, a)
	}
}

func (j *judge) conclude(c *CallState, a *Attempt) {
	c.Due, c.Received = false, !a.Late
	if last := c.Last(); last.No > a.No {
		j.endAttempt(last)
	}
}

// notRun makes the attempt one that was never started. It gives back decision
// and uses while the attempt is the newest, and there is a session to use them in.
func (j *judge) notRun(c *CallState, a *Attempt) {
	a.Progress, a.Start, a.StartRun = Void, "", ""
	// A repair ended every allow from before it, those that were started too.
	if d := j.findDec(a.Decision); c.Last() == a && !j.isEnded() && d.Mark.N > j.s.repaired {
		a.Progress, a.Result, a.Late, c.Due = Allowed, nil, false, false
		j.use(j.findDec(a.Decision), -1)
	}
	if done := c.Result(); done != nil {
		j.conclude(c, done)
	}
}
