package replay

import (
	"fmt"
	"slices"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

// derive makes everything again that a decider made in a commit, and compares.
// Whoever wrote it: what an admin decided must follow just as well.
func (a *audit) derive(s *step) {
	for _, e := range s.commit.Events {
		switch b := e.Body.(type) {
		case *journal.Adopt:
			a.tally(a.adopt(s, e, b))
		case *journal.Grant:
			if b.Origin != nil {
				a.tally(a.imported(s, e, b))
			}
		case *journal.Lapse:
			if b.Grant != "" {
				a.tally(a.grantLapse(s, e, b))
			}
		case *journal.Call:
			a.digest(s, e, b)
		case *journal.Result:
			a.content(s, e, b)
		}
	}
	for _, m := range a.madeIn(s) {
		a.tally(a.made(s, m))
	}
	for _, e := range s.commit.Events {
		if b, ok := e.Body.(*journal.Start); ok {
			a.start(s, e, b)
		}
	}
}

// tally counts one thing derived again, and its faults.
func (a *audit) tally(faults []Fault) {
	a.report.Decisions++
	for _, f := range faults {
		a.report.fault(f)
	}
	if len(faults) == 0 {
		a.report.Derived++
	}
}

// eventFault is a fault of one event.
func (a *audit) eventFault(s *step, e journal.Event, field, text string) Fault {
	f := a.fault(s, field, text)
	f.Event, f.ID, f.Call = string(e.Kind), e.ID, callOf(s.after, e)
	if c := written(s, f.Call); c != nil {
		f.Agent = c.Agent
	}
	return f
}

// written is a call as it stands with the commit, also if the commit brings it
// and the fold did not take it; nil if there is none.
func written(s *step, call string) *journal.CallState {
	if c := s.after.Call(call); c != nil {
		return c
	}
	for _, e := range s.commit.Events {
		b, ok := e.Body.(*journal.Call)
		if !ok || e.ID != call {
			continue
		}
		policy := ""
		if adopted := s.after.Adopted(b.Agent, b.Layer); adopted != nil {
			policy = adopted.Digest
		}
		return journal.NewCallState(*b, e.ID, policy)
	}
	return nil
}

// making is what one commit says about one attempt of a call: what one
// deriving gives.
type making struct {
	call    string
	attempt int
	events  []journal.Event
}

// madeIn groups the derivable events of a commit, in their order.
func (a *audit) madeIn(s *step) []*making {
	var list []*making
	for _, e := range s.commit.Events {
		call, attempt := a.subjectOf(s, e)
		if call == "" {
			continue
		}
		at := slices.IndexFunc(list, func(m *making) bool { return m.call == call && m.attempt == attempt })
		if at < 0 {
			list = append(list, &making{call: call, attempt: attempt})
			at = len(list) - 1
		}
		list[at].events = append(list[at].events, e)
	}
	return list
}

// subjectOf is the attempt that a derivable event is about; "" if it is none.
func (a *audit) subjectOf(s *step, e journal.Event) (call string, attempt int) {
	ofQuestion := func(id string) (string, int) {
		if q := s.after.Question(id); q != nil {
			return q.Call, q.Attempt
		}
		return "", 0
	}
	switch b := e.Body.(type) {
	case *journal.Question:
		return b.Call, b.Attempt
	case *journal.Decision:
		return b.Call, b.Attempt
	case *journal.Grant:
		return ofQuestion(b.Question)
	case *journal.Lapse:
		if d := s.after.Decision(b.Decision); d != nil {
			return d.Call, d.Attempt
		}
		return ofQuestion(b.Question)
	}
	return "", 0
}

// made derives one making again.
func (a *audit) made(s *step, m *making) []Fault {
	if faults := a.policyOnRecord(s, m); len(faults) > 0 {
		return faults
	}
	var found []Fault
	for i, books := range a.booksFor(s) {
		faults := a.remake(s, m, books)
		if len(faults) == 0 {
			found = nil
			break
		}
		if i == 0 {
			found = faults
		}
	}
	for _, e := range m.events {
		if _, ok := e.Body.(*journal.Decision); ok {
			a.derived[e.ID] = len(found) == 0
		}
	}
	return found
}

// policyOnRecord checks that the bytes of the policy were in the journal
// before the commit that judged by them.
func (a *audit) policyOnRecord(s *step, m *making) []Fault {
	for _, e := range m.events {
		var digest string
		switch b := e.Body.(type) {
		case *journal.Question:
			digest = b.Policy
		case *journal.Decision:
			digest = b.Policy
		default:
			continue
		}
		if p := a.j.chain.Policy(digest); p == nil || p.Mark.Seq > s.msg.Seq {
			f := a.eventFault(s, e, "policy", "the bytes of the policy it names were not in the journal, so that it cannot be derived")
			f.Got = digest
			return []Fault{f}
		}
	}
	return nil
}

// remake decides the attempt again as it stood before the commit.
func (a *audit) remake(s *step, m *making, books map[string]*journal.State) []Fault {
	c, field := a.stood(s, m)
	if c == nil {
		return []Fault{a.eventFault(s, m.events[len(m.events)-1], field, "there is no such call or attempt")}
	}
	other := otherEngine(m)
	if other != nil {
		c = onRecordedFacts(c, other)
	}
	ids := 0
	in := decider.Input{
		State: a.before, Policies: &a.j.policies, Books: books, Now: s.commit.Time,
		// What is made again gets the ids of what stands there, in order.
		NewID: func() string {
			if ids++; ids <= len(m.events) {
				return m.events[ids-1].ID
			}
			return fmt.Sprintf("(new %d)", ids)
		},
	}
	want, err := decider.DecideCall(in, c)
	if err != nil {
		return []Fault{a.eventFault(s, m.events[len(m.events)-1], "policy", "it cannot be derived: "+err.Error())}
	}
	return a.match(s, m.events, want, other != nil)
}

// stood is the call as it stood before what the commit made of the attempt.
// What the same commit says of the call itself (that it was made, who waits)
// comes first there. Without such a call or attempt it is nil, and the field
// is the one that names it.
func (a *audit) stood(s *step, m *making) (c *journal.CallState, field string) {
	now := written(s, m.call)
	switch {
	case now == nil:
		return nil, "call"
	case m.attempt < 1 || m.attempt > len(now.Attempts):
		return nil, "attempt"
	}
	d := *now
	d.Withdrawn = false
	old := a.before.Call(m.call)
	if old != nil && len(old.Attempts) >= m.attempt {
		d.Attempts = slices.Clone(old.Attempts[:m.attempt])
		return &d, ""
	}
	d.Attempts = slices.Clone(d.Attempts[:m.attempt])
	d.Attempts[m.attempt-1] = journal.Attempt{No: m.attempt, AfterUnknown: d.Last().AfterUnknown}
	return &d, ""
}

// recorded is what an event of another engine recorded.
type recorded struct {
	facts  []byte
	failed bool // the call could not be judged at all
}

// otherEngine is what was recorded under another engine than this program's,
// or nil.
func otherEngine(m *making) *recorded {
	for _, e := range m.events {
		switch b := e.Body.(type) {
		case *journal.Question:
			if b.Engine != decider.Engine {
				return &recorded{facts: b.Facts}
			}
		case *journal.Decision:
			if b.Engine != decider.Engine {
				return &recorded{b.Facts, b.By[0].Kind == journal.ByError}
			}
		}
	}
	return nil
}

// onRecordedFacts is the call to be judged by recorded facts, not by its
// arguments: facts are claimed where arguments are masked.
func onRecordedFacts(c *journal.CallState, r *recorded) *journal.CallState {
	if r.failed {
		return c
	}
	d := *c
	d.Masked, d.Facts = []string{""}, r.facts
	return &d
}

// engineFields are what another engine, or the program around it, may word or
// see otherwise. The verdict is not among them.
func engineFields() []string {
	return []string{"engine", "facts", "message", "view", "suggestion", "alternatives", "shown"}
}

// match compares what stands with what follows, type by type.
func (a *audit) match(s *step, got, want []journal.Event, engineChanged bool) []Fault {
	var faults []Fault
	if engineChanged {
		a.report.EngineChanged++
	}
	for _, e := range got {
		at := slices.IndexFunc(want, func(w journal.Event) bool { return w.Kind == e.Kind })
		if at < 0 {
			faults = append(faults, a.unfounded(s, e, want))
			continue
		}
		var skip []string
		if engineChanged {
			skip = engineFields()
		}
		faults = append(faults, a.differ(s, e, want[at].Body, skip)...)
		want = slices.Delete(slices.Clone(want), at, at+1)
	}
	for _, w := range want {
		if len(faults) == 0 { // else they say it already
			f := a.eventFault(s, got[len(got)-1], string(w.Kind), "what follows from the state before it is missing from its commit")
			f.Want = summary([]journal.Event{w})
			faults = append(faults, f)
		}
	}
	return faults
}

func (a *audit) differ(s *step, e journal.Event, want journal.Body, skip []string) []Fault {
	diffs, err := compare(want, e.Body, skip...)
	if err != nil {
		return []Fault{a.eventFault(s, e, "body", err.Error())}
	}
	var faults []Fault
	for _, d := range diffs {
		if d.field == "shown" && len(diffs) > 1 {
			continue // the digest of the members that differ
		}
		f := a.eventFault(s, e, d.field, "it is not what follows from the state before it")
		f.Want, f.Got = d.want, d.got
		faults = append(faults, f)
	}
	return faults
}

// unfounded is an event of which nothing of its kind follows.
func (a *audit) unfounded(s *step, e journal.Event, want []journal.Event) Fault {
	field := string(e.Kind)
	if e.Kind == journal.TypeDecision {
		field = "outcome"
	}
	f := a.eventFault(s, e, field, "nothing of the kind follows from the state before it")
	f.Want, f.Got = summary(want), summary([]journal.Event{e})
	return f
}

// summary says in a few words what events are.
func summary(events []journal.Event) string {
	if len(events) == 0 {
		return "nothing yet"
	}
	e := events[len(events)-1]
	switch b := e.Body.(type) {
	case *journal.Decision:
		return fmt.Sprintf("%s by %s", b.Outcome, b.By[0].Kind)
	case *journal.Question:
		return fmt.Sprintf("question (%s)", b.Reason)
	case *journal.Lapse:
		return fmt.Sprintf("lapse (%s)", b.Reason)
	}
	return string(e.Kind)
}
