package invariants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"decisionjournal/journal"
)

// ledger is what stands in one chain, read event by event.
type ledger struct {
	c       *checker
	session string

	seq, last uint64 // the message at hand and the one before
	n         uint64 // the last commit that counts
	prev      string
	time      time.Time

	ended     bool
	runs      map[string]*run
	calls     map[string]*call
	keys      map[[3]string]*call // by agent, layer and key
	questions map[string]*question
	answers   map[string]*answer
	decisions map[string]*decision
	grants    map[string]*grant
	results   []event
}

type run struct {
	agent  string
	shared bool
	live   bool
}

type call struct {
	event
	waiter    string
	attempts  map[int]*attempt
	begun     int // newest attempt that was started
	starts    int // that may have had an effect
	retries   int // allows by a person that let it run again
	finished  bool
	withdrawn bool
}

// attempt is one passage of a call. Its end is why the next one may come.
type attempt struct {
	question *question
	decision *decision
	run      string // that started it
	started  int    // starts, those with result not-run included
	notRun   int    // results not-run
	status   string // of the last result; "" while there is none
	end      string
}

type question struct {
	event
	over bool
}

type answer struct {
	event
	by string
}

type decision struct {
	event
	causes []cause
}

type cause struct {
	Kind string          `json:"kind"`
	ID   string          `json:"id"`
	Rule json.RawMessage `json:"rule"`
}

type grant struct {
	event
	used int
	over bool
}

func newLedger(c *checker, session string) *ledger {
	return &ledger{c: c, session: session, runs: map[string]*run{}, calls: map[string]*call{}, keys: map[[3]string]*call{},
		questions: map[string]*question{}, answers: map[string]*answer{}, decisions: map[string]*decision{}, grants: map[string]*grant{}}
}

func (l *ledger) fault(r Rule, format string, args ...any) {
	l.c.report.add(Violation{Rule: r, Session: l.session, Seq: l.seq, Text: fmt.Sprintf(format, args...)})
}

// event reads one event. Those of types that it does not name have no bearing
// on the rules.
func (l *ledger) event(e event) {
	switch journal.Type(e.Type) {
	case journal.TypeOpened:
		l.opened(e)
	case journal.TypeClosed:
		l.endRun(e.Run)
	case journal.TypeEnded:
		l.end()
	case journal.TypeCall:
		l.called(e)
	case journal.TypeAttach:
		l.attached(e)
	case journal.TypeDetach:
		l.detached(e)
	case journal.TypeQuestion:
		l.asked(e)
	case journal.TypeAnswer:
		l.answered(e)
	case journal.TypeDecision:
		l.decided(e)
	case journal.TypeGrant:
		l.c.report.Tally.Grants++
		l.grants[e.ID] = &grant{event: e}
	case journal.TypeRevoke:
		l.endGrant(e.Grant)
	case journal.TypeStart:
		l.started(e)
	case journal.TypeResult:
		l.resulted(e)
	case journal.TypeLapse:
		l.lapsed(e)
	case journal.TypeRepair:
		l.repaired(e)
	}
}

func (l *ledger) opened(e event) {
	l.c.report.Tally.Runs++
	if l.runs[e.Run] != nil {
		l.fault(OneRun, "run %s is opened a second time", e.Run)
	}
	for id, r := range l.runs {
		switch {
		case r.agent != e.Agent || !r.live:
		case e.Takeover:
			l.c.report.Tally.Takeovers++
			l.endRun(id)
		case !r.shared || !e.Shared:
			l.fault(OneRun, "run %s of agent %s begins beside run %s", e.Run, e.Agent, id)
		}
	}
	l.runs[e.Run] = &run{agent: e.Agent, shared: e.Shared, live: true}
}

func (l *ledger) endRun(id string) {
	if r := l.runs[id]; r != nil {
		r.live = false
	}
	for _, c := range l.calls {
		if c.waiter == id {
			c.waiter = ""
		}
	}
}

func (l *ledger) end() {
	l.ended = true
	for id := range l.runs {
		l.endRun(id)
	}
	for _, g := range l.grants {
		g.over = true
	}
}

// acts holds that a run that does something lives.
func (l *ledger) acts(what, id string) {
	if r := l.runs[id]; l.ended || r == nil || !r.live {
		l.fault(OneRun, "a %s by run %q, which does not live", what, id)
	}
}

func (l *ledger) called(e event) {
	l.c.report.Tally.Calls++
	l.acts("call", e.Run)
	if e.Key != "" {
		key := [3]string{e.Agent, e.Layer, e.Key}
		if before := l.keys[key]; before != nil && !before.withdrawn {
			l.fault(OneCall, "call %s has the key %q of call %s", e.ID, e.Key, before.ID)
		}
		defer func() { l.keys[key] = l.calls[e.ID] }()
	}
	if before, rule := l.alike(e); before != nil {
		l.fault(rule, "call %s is made anew while call %s is open and waits for no run", e.ID, before.ID)
	}
	l.calls[e.ID] = &call{event: e, waiter: e.Run, attempts: map[int]*attempt{}}
}

// alike is a call that an unnamed one had to join, and what is broken if it did
// not: the same call, which has not ended and which nobody waits for.
func (l *ledger) alike(e event) (*call, Rule) {
	if e.Key != "" || e.Ref != "" || e.Kind != string(journal.CallTool) {
		return nil, ""
	}
	for _, c := range l.calls {
		if c.Key != "" || c.Ref != "" || c.waiter != "" || c.withdrawn || c.finished || !c.sameAs(e) {
			continue
		}
		if rule := c.newest().leaves(); rule != "" {
			return c, rule
		}
	}
	return nil, ""
}

// leaves is the rule that is broken if an attempt's call is made anew: it would
// be asked about twice, or have its effect twice. It is "" of an attempt that
// leaves nothing open, or that may have been told of its end.
func (a *attempt) leaves() Rule {
	switch {
	case a == nil || a.end != "" || a.status != "" || a.denied():
		return ""
	case a.started > 0:
		return EffectOnce
	case a.question != nil:
		return AskedOnce
	}
	return ""
}

func (c *call) sameAs(e event) bool {
	return c.Agent == e.Agent && c.Layer == e.Layer && c.Tool == e.Tool && c.Digest == e.Digest
}

func (c *call) newest() *attempt {
	var newest *attempt
	no := 0
	for n, a := range c.attempts {
		if n > no {
			no, newest = n, a
		}
	}
	return newest
}

func (c *call) attempt(no int) *attempt {
	a := c.attempts[no]
	if a == nil {
		a = &attempt{}
		c.attempts[no] = a
	}
	return a
}

// of is the call and attempt an event speaks of. It is nil, and a fault, if
// there is no such call.
func (l *ledger) of(r Rule, e event) (*call, *attempt) {
	c := l.calls[e.Call]
	if c == nil {
		l.fault(r, "a %s of call %q, which is not there", e.Type, e.Call)
		return nil, nil
	}
	return c, c.attempt(e.Attempt)
}

func (l *ledger) attached(e event) {
	l.acts("attach", e.Run)
	c := l.calls[e.Call]
	if c == nil {
		return
	}
	c.waiter = e.Run
	if a := c.newest(); a != nil && e.Retry && a.denied() {
		a.end = "retry"
	}
}

func (a *attempt) denied() bool {
	return a.decision != nil && a.decision.Outcome == string(journal.Deny)
}

func (l *ledger) detached(e event) {
	if c := l.calls[e.Call]; c != nil {
		c.waiter = ""
		c.withdrawn = c.withdrawn || e.Withdraw
	}
}

func (l *ledger) asked(e event) {
	q := &question{event: e}
	l.questions[e.ID] = q
	l.c.report.Tally.Questions++
	if e.Reason == string(journal.AskInterrupted) {
		l.c.report.Tally.Interrupted++
	}
	c, a := l.of(AskedOnce, e)
	if c == nil {
		return
	}
	if a.question != nil || a.decision != nil || c.withdrawn || c.finished {
		l.fault(AskedOnce, "question %s about attempt %d of call %s, which needs none", e.ID, e.Attempt, e.Call)
	}
	l.follows(AskedOnce, c, e)
	a.question = q
}

// follows holds that an attempt comes after earlier ones have ended. What comes
// late of those changes nothing about that.
func (l *ledger) follows(r Rule, c *call, e event) {
	for no, a := range c.attempts {
		switch {
		case no >= e.Attempt || a.end != "":
		case l.unsure(a):
			a.end = "unknown"
		default:
			l.fault(r, "a %s about attempt %d of call %s, whose attempt %d has not ended", e.Type, e.Attempt, e.Call, no)
		}
	}
}

// unsure reports whether an attempt was started and left in the dark.
func (l *ledger) unsure(a *attempt) bool {
	switch journal.Status(a.status) {
	case journal.StatusOK, journal.StatusError:
		return false
	case journal.StatusUnknown:
		return true
	}
	r := l.runs[a.run]
	return a.started > 0 && (r == nil || !r.live)
}

func (l *ledger) answered(e event) {
	a := &answer{event: e}
	l.c.report.Tally.Answers++
	if err := json.Unmarshal(e.By, &a.by); err != nil {
		l.fault(Said, "answer %s is by nobody: %v", e.ID, err)
	}
	switch q := l.questions[e.Question]; {
	case q == nil || q.over:
		l.fault(Said, "answer %s to question %q, which takes none", e.ID, e.Question)
	case q.Shown != e.Shown:
		l.fault(Said, "answer %s is to something else than question %s shows", e.ID, e.Question)
	}
	for _, other := range l.answers {
		if other.Question == e.Question && other.by == a.by {
			l.fault(Said, "%s answers question %s a second time", a.by, e.Question)
		}
	}
	l.answers[e.ID] = a
}

func (l *ledger) lapsed(e event) {
	if e.Grant != "" {
		l.endGrant(e.Grant)
	}
	if q := l.questions[e.Question]; q != nil {
		q.over = true
		l.endAttempt(q.event, e)
	}
	if d := l.decisions[e.Decision]; d != nil {
		l.endAttempt(d.event, e)
	}
}

// endAttempt ends what a lapse ends; at its deadline a question is denied.
func (l *ledger) endAttempt(of, lapse event) {
	if c := l.calls[of.Call]; c != nil && lapse.Reason != string(journal.LapseDeadline) {
		c.attempt(of.Attempt).end = "lapse"
	}
}

func (l *ledger) endGrant(id string) {
	if g := l.grants[id]; g != nil {
		g.over = true
	}
}

// repaired ends what was open before: what was lost may have ended it.
func (l *ledger) repaired(e event) {
	l.c.accounted = append(l.c.accounted, e.Missing...)
	for _, g := range l.grants {
		g.over = true
	}
	for _, c := range l.calls {
		for _, a := range c.attempts {
			if a.status == "" && !a.denied() {
				a.end = "repair"
				if a.question != nil {
					a.question.over = true
				}
			}
		}
	}
}

// otherwise says what the fold has otherwise than stands here, or "".
func (l *ledger) otherwise(st *journal.State) string {
	if st.Prev() != l.prev {
		return "the fold's last commit is not the chain's"
	}
	for _, c := range st.Calls() {
		own := l.calls[c.Mark.ID]
		switch {
		case own == nil:
			return fmt.Sprintf("the fold has a call %s that does not stand in the chain", c.Mark.ID)
		case c.Waiter != own.waiter || c.Withdrawn != own.withdrawn:
			return fmt.Sprintf("call %s waits for run %q in the fold, and for %q in the chain", c.Mark.ID, c.Waiter, own.waiter)
		case !bytes.Equal(c.Arguments, own.Arguments):
			return fmt.Sprintf("the fold has other arguments of call %s than the chain", c.Mark.ID)
		}
	}
	return ""
}
