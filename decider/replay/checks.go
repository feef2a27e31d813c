package replay

import (
	"bytes"
	"encoding/json"
	"slices"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

// adopt checks that what is adopted was on the policy chain before: the bytes,
// and under a name the activation it says.
func (a *audit) adopt(s *step, e journal.Event, b *journal.Adopt) []Fault {
	if p := a.j.chain.Policy(b.Digest); p == nil || p.Mark.Seq > s.msg.Seq {
		f := a.eventFault(s, e, "digest", "the bytes of the policy were not in the journal")
		f.Got = b.Digest
		return []Fault{f}
	}
	if b.Name == "" {
		return nil
	}
	if _, ok := a.j.activations[activation{b.Activation, b.Name, b.Digest}]; ok && b.Activation < s.msg.Seq {
		return nil
	}
	f := a.eventFault(s, e, "activation", "no such activation of this name with this digest stands before it on the policy chain")
	f.Got = number(b.Activation)
	return []Fault{f}
}

// imported checks a grant that came from elsewhere. From a book, the book must
// have it. By a decider whom no policy of the session lets import, it settles
// nothing, which is worth knowing and no fault.
func (a *audit) imported(s *step, e journal.Event, b *journal.Grant) []Fault {
	if len(s.after.Adoptions()) > 0 && s.commit.Role == journal.RoleDecider && !a.importer(s) {
		f := a.eventFault(s, e, "origin", "its writer is not among the importers of any policy the session follows, so that it settles nothing")
		f.Got = writer(s)
		a.report.anomaly(f)
	}
	if b.Origin.Session == "" {
		return nil
	}
	for _, books := range a.booksFor(s, b.Origin.Session) {
		if book := books[b.Origin.Session]; book != nil && holds(book.Grant(b.Origin.Grant), b, s.commit.Time) {
			return nil
		}
	}
	return []Fault{a.eventFault(s, e, "origin", "its book has no such grant in force with these rules")}
}

// holds reports whether a book's grant is in force and has the rules of the
// one imported from it.
func holds(from *journal.GrantState, b *journal.Grant, now journal.Time) bool {
	return from != nil && from.InForce(now) &&
		slices.EqualFunc(from.Rules, b.Rules, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
}

func (a *audit) importer(s *step) bool {
	for _, adopted := range s.after.Adoptions() {
		pol, err := a.j.policies.Get(adopted.Digest)
		if err == nil && slices.Contains(pol.Importers, s.commit.Actor) {
			return true
		}
	}
	return false
}

// grantLapse checks a grant that ended by itself. The fold has checked an
// expiry; what a book revoked stands in the book.
func (a *audit) grantLapse(s *step, e journal.Event, b *journal.Lapse) []Fault {
	g := a.before.Grant(b.Grant)
	if b.Reason != journal.LapseBook || g == nil {
		return nil
	}
	for _, books := range a.booksFor(s) {
		if goneInBook(books, g, s.commit.Time) {
			return nil
		}
	}
	return []Fault{a.eventFault(s, e, "reason", "its book still has the grant in force")}
}

// digest checks that a call is what its digest says. One that is not is denied;
// it is a false record all the same.
func (a *audit) digest(s *step, e journal.Event, b *journal.Call) {
	if b.Masked != nil {
		return
	}
	pol, err := a.j.policies.Get(written(s, e.ID).Policy)
	if err != nil {
		pol = nil
	}
	want, err := decider.CallDigest(pol, b.Tool, b.Arguments)
	if err == nil && want == b.Digest {
		return
	}
	f := a.eventFault(s, e, "digest", "it is not that of the call's arguments")
	f.Want, f.Got = want, b.Digest
	a.report.fault(f)
}

// content checks a result that was kept whole against its digest and size.
func (a *audit) content(s *step, e journal.Event, b *journal.Result) {
	if b.Content == nil {
		return
	}
	if size := uint64(len(b.Content)); size != b.Size {
		f := a.eventFault(s, e, "size", "it is not that of the content")
		f.Want, f.Got = number(size), number(b.Size)
		a.report.fault(f)
	}
	if want := journal.Digest(b.Content); want != b.Digest {
		f := a.eventFault(s, e, "digest", "it is not that of the content")
		f.Want, f.Got = want, b.Digest
		a.report.fault(f)
	}
}

// start checks that what was started was allowed by a decision that follows,
// and that nothing had overtaken it.
func (a *audit) start(s *step, e journal.Event, b *journal.Start) {
	if !a.derived[b.Decision] {
		f := a.eventFault(s, e, "decision", "it starts what no decision allowed that can be derived")
		f.Got = b.Decision
		a.report.fault(f)
		return
	}
	c := a.before.Call(b.Call)
	if c == nil || c.Last().Progress != journal.Allowed {
		return // decided in the same commit
	}
	in := decider.Input{State: a.before, Policies: &a.j.policies, Now: s.commit.Time, NewID: func() string { return "" }}
	overtaken, err := decider.DecideCall(in, c)
	switch {
	case err != nil:
		a.report.fault(a.eventFault(s, e, "decision", "whether something overtook it cannot be derived: "+err.Error()))
	case len(overtaken) > 0:
		f := a.eventFault(s, e, "decision", "the allow was overtaken before it was started")
		f.Want, f.Got = summary(overtaken), "start"
		a.report.fault(f)
	}
	a.revokedBefore(s, e, b)
}

// revokedBefore checks the books of the grants that a start spends. Who starts
// reads them after the session, so what they held at its head counts.
func (a *audit) revokedBefore(s *step, e journal.Event, b *journal.Start) {
	early := a.booksFor(s)
	books := early[len(early)-1]
	for _, id := range a.before.Decision(b.Decision).Grants() {
		if g := a.before.Grant(id); goneInBook(books, g, s.commit.Time) {
			f := a.eventFault(s, e, "decision", "a grant that it spends was out of force in its book already")
			f.Got = id
			a.report.fault(f)
		}
	}
}
