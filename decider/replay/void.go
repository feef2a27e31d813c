package replay

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"decisionjournal/journal"
)

// void lists a message without effect: as a fault if it does not fit its
// chain or its bytes are no commit, or if one that decides wrote what it never
// would; else, and whatever an agent stored, as an anomaly. A message of an
// agent that fits but for the bytes it followed is a fault still: it may be the
// only witness that those were changed.
func (a *audit) void(s *step) {
	if a.follows(s) {
		a.adrift.add(s.msg)
		return
	}
	faults := a.misfits(s)
	witness := len(faults) == 1 && faults[0].Field == "prev"
	for _, f := range faults {
		if ofAgent(s.msg.Subject) && !witness {
			a.report.anomaly(f)
		} else {
			a.report.fault(f)
		}
	}
	if len(faults) > 0 {
		return
	}
	f := a.refused(s)
	if s.commit.Role != journal.RoleDecider && s.commit.Role != journal.RoleAdmin {
		a.report.anomaly(f)
		return
	}
	a.report.fault(f)
	// The fold stops at the first thing that does not hold, which may be what
	// came with a changed decision. Deriving says what was changed.
	for _, m := range a.madeIn(s) {
		for _, g := range a.made(s, m) {
			if g.Event != f.Event || g.Field != f.Field {
				a.report.fault(g)
			}
		}
	}
}

// follows reports whether a message is void only because the one before it is:
// it fits that one in every respect.
func (a *audit) follows(s *step) bool {
	prev := a.last
	return !prev.fit && prev.commit != nil && s.commit != nil && goodHeaders(a.chain, s.msg) &&
		s.commit.After == prev.seq && s.commit.N == prev.commit.N+1 && s.commit.Prev == prev.digest
}

// misfits are the ways in which a message does not fit where it stands.
func (a *audit) misfits(s *step) []Fault {
	switch {
	case !goodHeaders(a.chain, s.msg):
		return []Fault{a.fault(s, "headers", s.why)}
	case s.commit == nil:
		return []Fault{a.fault(s, fieldOf(s.badData), s.why)}
	}
	var faults []Fault
	add := func(field, want, got, text string) {
		if want != got {
			f := a.fault(s, field, text)
			f.Want, f.Got = want, got
			faults = append(faults, f)
		}
	}
	c := s.commit
	sub, err := journal.ParseSubject(s.msg.Subject)
	if err != nil {
		add("subject", "", s.msg.Subject, err.Error())
	} else {
		add("session", sub.Chain.Session(), c.Session, "the commit and its subject name different sessions")
		add("role", string(sub.Role), string(c.Role), "the commit and its subject name different roles")
		add("actor", sub.Actor, c.Actor, "the commit and its subject name different actors")
	}
	add("after", number(a.before.LastSeq()), number(c.After), "it was not appended after the session's previous message")
	n, prev := a.before.N()+1, a.before.Prev()
	if l := a.last; !l.fit && l.commit != nil && c.N == l.commit.N+1 {
		n, prev = c.N, l.digest // it counts on from the void message before it
	}
	add("n", number(n), number(c.N), "it is not the next commit")
	add("prev", prev, c.Prev, fmt.Sprintf("the commit before it, message %d, is not what it was appended after: that one was changed, or another stood there", a.last.seq))
	return append(faults, a.mistimed(s)...)
}

// mistimed checks what the fold asks of a commit's time.
func (a *audit) mistimed(s *step) []Fault {
	f := a.fault(s, "time", "")
	f.Got = s.commit.Time.String()
	switch {
	case s.commit.Time.Before(a.before.Time().Time):
		f.Text, f.Want = "it lies before its head's time", a.before.Time().String()+" or later"
	case s.commit.Time != a.before.Time() && s.commit.Time.Sub(s.msg.Time) > journal.MaxAhead:
		f.Text, f.Want = "it lies ahead of the journal's clock", journal.At(s.msg.Time.Add(journal.MaxAhead)).String()+" or earlier"
	case s.msg.Time.Sub(s.commit.Time.Time) > journal.MaxBehind:
		f.Text, f.Want = "it lies behind the journal's clock", journal.At(s.msg.Time.Add(-journal.MaxBehind)).String()+" or later"
	default:
		return nil
	}
	return []Fault{f}
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

// refused is a message that fits its chain and says what it may not.
func (a *audit) refused(s *step) Fault {
	f := a.fault(s, "body", s.why)
	for i, e := range s.commit.Events {
		prefix := fmt.Sprintf("events[%d] (%s): ", i, e.Kind)
		if why, ok := strings.CutPrefix(s.why, prefix); ok {
			f.Event, f.ID, f.Call, f.Text = string(e.Kind), e.ID, callOf(a.before, e), why
			f.Field = mentioned(e, why)
		}
	}
	if c := written(s, f.Call); c != nil {
		f.Agent = c.Agent
	}
	return f
}

// mentioned is the member of an event that the fold's reason names first, as
// in "its policy is …", else "body".
func mentioned(e journal.Event, why string) string {
	if e.Info {
		return "body"
	}
	members, err := membersOf(e.Body)
	if err != nil {
		return "body"
	}
	known := slices.Collect(maps.Keys(members))
	for _, word := range strings.FieldsFunc(why, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }) {
		if slices.Contains(known, word) {
			return word
		}
	}
	return "body"
}

// fieldOf is the member that undecodable bytes stumble over.
func fieldOf(err error) string {
	path, _, ok := strings.Cut(err.Error(), ": ")
	if !ok || strings.ContainsRune(path, ' ') {
		return "data"
	}
	return path
}

// goodHeaders reports whether a message carries exactly the headers of an
// append to its chain.
func goodHeaders(chain journal.Chain, m journal.Message) bool {
	seq, ok := expectedSeq(m.Headers)
	if !ok {
		return false
	}
	want := journal.ExpectHeaders(chain, seq)
	got := maps.Clone(m.Headers)
	if len(got[journal.HeaderMsgID]) == 1 {
		delete(got, journal.HeaderMsgID)
	}
	return maps.EqualFunc(want, got, slices.Equal[[]string])
}

// expectedSeq is the sequence that a message says it was appended after.
func expectedSeq(headers map[string][]string) (uint64, bool) {
	values := headers[journal.HeaderExpected]
	if len(values) != 1 {
		return 0, false
	}
	seq, err := strconv.ParseUint(values[0], 10, 64)
	return seq, err == nil
}
