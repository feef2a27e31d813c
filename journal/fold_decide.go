package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

func (j *judge) question(id string, b *Question) error {
	c := j.findCall(b.Call)
	if err := j.undecided(c, b.Call, b.Attempt); err != nil {
		return err
	}
	if err := errors.Join(j.judged(c, b.Policy, b.Digest), checkNeed(b.Need), checkWho(b), checkText("note", b.Note)); err != nil {
		return err
	}
	switch shown, err := b.ShownDigest(); {
	case err != nil:
		return err
	case shown != b.Shown:
		return errors.New("shown is not the digest of what is shown")
	case c.Last().Question != "":
		return fmt.Errorf("attempt %d has its question %s", b.Attempt, c.Last().Question)
	case (b.Reason == AskElicitation) != (c.Kind == CallElicitation):
		return errors.New("the reason does not fit the kind of call")
	}
	j.editCall(b.Call).Last().Question = id
	put(&j.quest, id, &QuestionState{Question: *b, Mark: j.mark(id)})
	return nil
}

func (j *judge) undecided(c *CallState, id string, attempt int) error {
	switch {
	case c == nil:
		return fmt.Errorf("there is no call %s", id)
	case !c.Undecided() || c.Last().No != attempt:
		return fmt.Errorf("attempt %d of the call is not undecided", attempt)
	}
	return nil
}

// judged checks what a question or decision says it judged, and by what.
func (j *judge) judged(c *CallState, policy, digest string) error {
	switch adopted := j.adoption(c.Agent, c.Layer); {
	case adopted == "":
		return errors.New("no policy is adopted")
	case policy != adopted:
		return fmt.Errorf("its policy is %s, the adopted one %s", policy, adopted)
	case digest != c.Digest:
		return errors.New("the digest is not the call's")
	}
	return nil
}

func checkNeed(need []Stage) error {
	if len(need) == 0 {
		return errors.New("need names no stage")
	}
	for _, s := range need {
		if s.Count < 1 || len(s.Of) > 0 && s.Count > len(s.Of) {
			return fmt.Errorf("a stage needs %d of %d", s.Count, len(s.Of))
		}
		if err := checkPeople(s.Of); err != nil {
			return err
		}
	}
	return nil
}

func checkPeople(names []string) error {
	for i, n := range names {
		if err := CheckName("principal", n); err != nil {
			return err
		}
		if slices.Contains(names[:i], n) {
			return fmt.Errorf("principal %s stands twice", n)
		}
	}
	return nil
}

func checkWho(b *Question) error {
	for _, w := range b.Who {
		if err := checkPeople(w.Of); err != nil {
			return err
		}
	}
	for _, f := range b.Frontends {
		if err := errors.Join(CheckName("frontend", f.Name), checkPeople(f.For)); err != nil {
			return err
		}
	}
	return nil
}

// Entitled reports whether a person may answer the question at time now.
func (q *Question) Entitled(person string, now Time) bool {
	if len(q.Who) == 0 {
		return true
	}
	return slices.ContainsFunc(q.Who, func(w Entitlement) bool {
		return !now.Before(w.From.Time) && (len(w.Of) == 0 || slices.Contains(w.Of, person))
	})
}

// SpeaksFor reports whether a frontend may answer for a person.
func (q *Question) SpeaksFor(frontend, person string) bool {
	return slices.ContainsFunc(q.Frontends, func(f Frontend) bool {
		return f.Name == frontend && slices.Contains(f.For, person)
	})
}

// Allows reports whether an action is on the side of allowing. Whatever is not
// refuses.
func (q *Question) Allows(action string) bool {
	if q.Reason == AskElicitation {
		return action == Accept
	}
	return action == AllowOnce || action == AlwaysAllow
}

// Tally counts votes in chain order: one refusal refuses, and allows fill the
// places of the stages, each one place.
func (q *Question) Tally(votes []Vote) (filled, refused bool) {
	for _, v := range votes {
		if !q.Allows(v.Action) {
			return false, true
		}
	}
	places := len(q.Counted(votes))
	for _, s := range q.Need {
		if s.Count > places {
			return false, false
		}
		places -= s.Count
	}
	return true, false
}

// Counted are the allowing votes that fill a place, in chain order. A vote
// that came early makes room for a later one where its person may fill another
// stage too, so nobody's haste leaves a question that no one can settle.
func (q *Question) Counted(votes []Vote) []Vote {
	placed := make([][]string, len(q.Need)) // people by stage
	var counted []Vote
	for _, v := range votes {
		if q.Allows(v.Action) && q.place(placed, v.By, make([]bool, len(q.Need))) {
			counted = append(counted, v)
		}
	}
	return counted
}

// place finds a place for a person among those placed, moving others to
// further stages where needed. Stages tried before are not tried again.
func (q *Question) place(placed [][]string, person string, tried []bool) bool {
	for i, s := range q.Need {
		if tried[i] || len(s.Of) > 0 && !slices.Contains(s.Of, person) {
			continue
		}
		tried[i] = true
		if len(placed[i]) < s.Count {
			placed[i] = append(placed[i], person)
			return true
		}
		for k, other := range placed[i] {
			if q.place(placed, other, tried) {
				placed[i][k] = person
				return true
			}
		}
	}
	return false
}

// Settled reports whether the votes so far end the question: its need is
// filled or a refusal counted. A settled question takes no more answers.
func (q *QuestionState) Settled() bool {
	filled, refused := q.Tally(q.Answers)
	return filled || refused
}

// Expired reports whether the question's deadline has passed at time now.
func (q *Question) Expired(now Time) bool {
	return !q.Deadline.IsZero() && !now.Before(q.Deadline.Time)
}

func (j *judge) answer(id string, b *Answer) error {
	q := j.findQuest(b.Question)
	switch {
	case q == nil:
		return fmt.Errorf("there is no question %s", b.Question)
	case q.Over || q.Settled():
		return errors.New("the question is settled")
	case q.Expired(j.now()):
		return fmt.Errorf("its deadline was %s", q.Deadline)
	case b.Shown != q.Shown:
		return errors.New("shown is not what the question shows")
	case !q.Grantable && (b.Action == AlwaysAllow || b.Action == AlwaysDeny):
		return errors.New("the question is not grantable")
	case slices.ContainsFunc(q.Answers, func(v Vote) bool { return v.By == b.By }):
		return fmt.Errorf("%s has answered", b.By)
	}
	if err := errors.Join(checkShort("action", b.Action), checkText("note", b.Note), j.mayAnswer(q, b)); err != nil {
		return err
	}
	q = j.editQuest(b.Question)
	q.Answers = append(q.Answers, Vote{Answer: *b, Mark: j.mark(id)})
	put(&j.answers, id, b.Question)
	return nil
}

// mayAnswer checks who answers: a person with their own key, or a frontend
// that the question lists for that person; entitled; and not who asked.
func (j *judge) mayAnswer(q *QuestionState, b *Answer) error {
	actor := j.commit.Actor
	switch {
	case !ValidName(b.By):
		return CheckName("by", b.By)
	case b.By != actor && (b.Via != actor || !q.SpeaksFor(actor, b.By)):
		return fmt.Errorf("%s may not answer for %s", actor, b.By)
	case !q.Entitled(b.By, j.now()):
		return fmt.Errorf("%s is not entitled to answer", b.By)
	}
	c := j.findCall(q.Call)
	for _, own := range []string{c.Mark.By.Actor, j.findRun(c.Run).Mark.By.Actor, j.findRun(c.LastWaiter).Mark.By.Actor} {
		if own == actor || own == b.By {
			return fmt.Errorf("%s asked, and may not answer", own)
		}
	}
	return checkShort("via", b.Via)
}

func (j *judge) decision(id string, b *Decision) error {
	c := j.findCall(b.Call)
	if err := j.undecided(c, b.Call, b.Attempt); err != nil {
		return err
	}
	if err := errors.Join(j.judged(c, b.Policy, b.Digest), checkText("message", b.Message)); err != nil {
		return err
	}
	if len(b.By) == 0 {
		return errors.New("it names nothing that made it")
	}
	for _, cause := range b.By {
		if err := j.cause(c, b, cause); err != nil {
			return fmt.Errorf("by %s %s: %w", cause.Kind, cause.ID, err)
		}
	}
	a := c.Last()
	if err := j.overAnswers(c, a, b); err != nil {
		return err
	}
	c = j.editCall(b.Call)
	a = c.Last()
	a.Decision, a.Progress = id, Denied
	switch {
	case b.Outcome == Allow && c.Kind == CallElicitation:
		a.Progress, c.Received = Finished, c.Waiter != ""
	case b.Outcome == Allow:
		a.Progress = Allowed
	default:
		c.Received = c.Waiter != ""
	}
	if a.Question != "" {
		j.editQuest(a.Question).Over = true
	}
	put(&j.decs, id, &DecisionState{Decision: *b, Mark: j.mark(id)})
	j.newDec = append(j.newDec, id)
	return nil
}

// overAnswers holds a decision against the answers in the chain: they are
// settled before anything else, and an elicitation is accepted by one alone.
func (j *judge) overAnswers(c *CallState, a *Attempt, b *Decision) error {
	if b.Outcome != Allow {
		return nil
	}
	cited := slices.ContainsFunc(b.By, func(c Cause) bool { return c.Kind == ByAnswer })
	if c.Kind == CallElicitation && !cited {
		return errors.New("an elicitation is accepted by an answer")
	}
	if a.Question == "" {
		return nil
	}
	q := j.findQuest(a.Question)
	if _, refused := q.Tally(q.Answers); refused {
		return errors.New("the question was refused")
	}
	return nil
}

// cause checks one thing a decision cites: it exists, and it holds.
func (j *judge) cause(c *CallState, b *Decision, cause Cause) error {
	if b.Outcome == Allow && cause.Kind != ByRule && cause.Kind != ByGrant && cause.Kind != ByAnswer {
		return errors.New("it cannot allow")
	}
	hasID, hasRule := cause.ID != "", cause.Rule != nil
	wantID := cause.Kind == ByGrant || cause.Kind == ByAnswer || cause.Kind == ByLapse || cause.Kind == ByUnusable
	if hasID != wantID || hasRule != (cause.Kind == ByRule) {
		return errors.New("it names a rule, or an event, as its kind asks")
	}
	a := c.Last()
	switch cause.Kind {
	case ByGrant:
		return j.causeGrant(c, b, cause.ID)
	case ByAnswer:
		return j.causeAnswer(c, a, b, cause.ID)
	case ByUnusable:
		if q := j.answered(cause.ID); q == "" || q != a.Question {
			return errors.New("no such answer to the attempt's question")
		}
	case ByLapse:
		if a.Question == "" || j.findQuest(a.Question).Lapse != cause.ID {
			return errors.New("no such lapse of the attempt's question")
		}
	case ByHeadless:
		if a.Question != "" {
			return errors.New("the attempt has a question")
		}
	}
	return nil
}

func (j *judge) causeGrant(c *CallState, b *Decision, id string) error {
	g := j.findGrant(id)
	switch {
	case g == nil:
		return errors.New("no such grant")
	case !g.InForce(j.now()):
		return errors.New("it is not in force")
	case g.Layer != c.Layer:
		return fmt.Errorf("it holds in layer %q", g.Layer)
	case g.Outcome() != b.Outcome:
		return fmt.Errorf("it is a grant to %s", g.Outcome())
	}
	return nil
}

func (j *judge) answered(id string) string { q, _ := look(j.answers, j.s.answers, id); return q }

func (j *judge) causeAnswer(c *CallState, a *Attempt, b *Decision, id string) error {
	qid := j.answered(id)
	if qid == "" {
		return errors.New("no such answer")
	}
	q := j.findQuest(qid)
	at := slices.IndexFunc(q.Answers, func(v Vote) bool { return v.Mark.ID == id })
	allows := q.Allows(q.Answers[at].Action)
	switch {
	case allows != (b.Outcome == Allow):
		return fmt.Errorf("it says %s", q.Answers[at].Action)
	case allows && qid != a.Question:
		return errors.New("it answers another question")
	case allows:
		if filled, _ := q.Tally(q.Answers); !filled {
			return errors.New("the question needs more answers")
		}
	case qid != a.Question && !identical(c, j.findCall(q.Call)):
		return errors.New("it answers a question about another call")
	}
	return nil
}

// identical reports whether two calls without key are of one identity.
func identical(a, b *CallState) bool {
	return a.Key == "" && b.Key == "" && a.Agent == b.Agent && a.Layer == b.Layer && a.Tool == b.Tool && a.Digest == b.Digest
}

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

func (j *judge) lapse(id string, b *Lapse) error {
	targets := 0
	for _, t := range []string{b.Question, b.Decision, b.Grant} {
		if t != "" {
			targets++
		}
	}
	switch {
	case targets != 1:
		return errors.New("a lapse names one question, decision or grant")
	case b.Question != "":
		return j.lapseQuestion(id, b)
	case b.Decision != "":
		return j.lapseDecision(b)
	}
	return j.lapseGrant(id, b)
}

func (j *judge) lapseQuestion(id string, b *Lapse) error {
	q := j.findQuest(b.Question)
	if q == nil || q.Over {
		return fmt.Errorf("there is no open question %s", b.Question)
	}
	c := j.findCall(q.Call)
	switch b.Reason {
	case LapseDeadline:
		d := j.decisionAhead(q.Call, q.Attempt)
		denies := d != nil && d.Outcome == Deny && slices.ContainsFunc(d.By, func(c Cause) bool { return reflect.DeepEqual(c, Cause{Kind: ByLapse, ID: id}) })
		if !q.Expired(j.now()) || !denies {
			return errors.New("its deadline has not passed, or no decision of the same commit denies by it")
		}
		j.editQuest(b.Question).Lapse = id
		return nil
	case LapsePolicy:
		if q.Policy == j.adoption(c.Agent, c.Layer) {
			return errors.New("the question was asked under the adopted policy")
		}
		j.editQuest(b.Question).Lapse = id
		c = j.editCall(q.Call)
		j.endAttempt(c.Last())
		j.due(c)
		return nil
	}
	return fmt.Errorf("a question does not lapse by %s", b.Reason)
}

func (j *judge) lapseDecision(b *Lapse) error {
	d := j.findDec(b.Decision)
	if d == nil {
		return fmt.Errorf("there is no decision %s", b.Decision)
	}
	c := j.findCall(d.Call)
	if a := c.Last(); c.Withdrawn || a.Decision != b.Decision || a.Progress != Allowed {
		return errors.New("the decision is not an unspent allow")
	}
	if !j.overtaken(c, d, b.Reason) {
		return fmt.Errorf("the reason %s does not hold", b.Reason)
	}
	c = j.editCall(d.Call)
	j.endAttempt(c.Last())
	j.due(c)
	return nil
}

// overtaken reports whether an unspent allow may lapse for a reason.
func (j *judge) overtaken(c *CallState, d *DecisionState, why LapseReason) bool {
	some := func(ok func(*GrantState) bool) bool {
		return slices.ContainsFunc(d.cited(ByGrant), func(id string) bool { return ok(j.findGrant(id)) })
	}
	switch why {
	case LapsePolicy:
		return d.Policy != j.adoption(c.Agent, c.Layer)
	case LapseRevoked:
		return some(func(g *GrantState) bool { return g.Ended != "" })
	case LapseExpired:
		return !d.Expires.IsZero() && !j.now().Before(d.Expires.Time) ||
			some(func(g *GrantState) bool { return g.expired(j.now()) })
	case LapseOvertaken:
		return some((*GrantState).usedUp)
	}
	return false
}

func (j *judge) lapseGrant(id string, b *Lapse) error {
	g := j.findGrant(b.Grant)
	if g == nil || g.Ended != "" {
		return fmt.Errorf("there is no grant %s that has not ended", b.Grant)
	}
	holds := b.Reason == LapseExpired && g.expired(j.now()) ||
		b.Reason == LapseBook && g.Origin != nil && g.Origin.Session != ""
	if !holds {
		return fmt.Errorf("the reason %s does not hold", b.Reason)
	}
	g = j.editGrant(b.Grant)
	g.Ended, g.EndMark = string(b.Reason), j.mark(id)
	return nil
}
