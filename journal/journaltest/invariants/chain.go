package invariants

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"decisionjournal/journal"
)

// commit is a stored message as this package reads it: what the members say,
// and nothing about whether it is well-formed.
type commit struct {
	V       int       `json:"v"`
	Session string    `json:"session"`
	N       uint64    `json:"n"`
	After   uint64    `json:"after"`
	Prev    string    `json:"prev"`
	Role    string    `json:"role"`
	Actor   string    `json:"actor"`
	Time    time.Time `json:"time"`
	Events  []event   `json:"events"`
}

// event has the members of all types that the rules speak of.
type event struct {
	ID   string `json:"id"`
	Type string `json:"type"`

	Agent     string          `json:"agent"`
	Run       string          `json:"run"`
	Layer     string          `json:"layer"`
	Kind      string          `json:"kind"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Key       string          `json:"key"`
	Ref       string          `json:"ref"`
	Digest    string          `json:"digest"`
	Shared    bool            `json:"shared"`
	Takeover  bool            `json:"takeover"`
	Retry     bool            `json:"retry"`
	Withdraw  bool            `json:"withdraw"`

	Call     string            `json:"call"`
	Attempt  int               `json:"attempt"`
	Question string            `json:"question"`
	Decision string            `json:"decision"`
	Grant    string            `json:"grant"`
	Reason   string            `json:"reason"`
	Shown    string            `json:"shown"`
	Action   string            `json:"action"`
	Outcome  string            `json:"outcome"`
	By       json.RawMessage   `json:"by"` // of an answer a name, of a decision its causes
	Rules    []json.RawMessage `json:"rules"`
	Expires  time.Time         `json:"expires"`
	Uses     int               `json:"uses"`
	Status   string            `json:"status"`
	Missing  []uint64          `json:"missing"`
}

// judge says which messages of one chain count, and what it makes of the chain
// in the end.
type judge interface {
	counts(journal.Message) (bool, string)
	// differs says what it has otherwise than the chain's ledger, or "".
	differs(*ledger) string
}

// foldJudge is the fold's word.
type foldJudge struct{ st *journal.State }

func byFold(chain journal.Chain) judge { return foldJudge{journal.NewState(chain)} }

func (f foldJudge) counts(m journal.Message) (bool, string) {
	v, why := f.st.Apply(m)
	return v == journal.Valid, why
}

func (f foldJudge) differs(l *ledger) string {
	if cond, why := f.st.Condition(); cond != journal.Whole {
		return fmt.Sprintf("the chain is %s at message %d: %s", cond, why.Seq, why.Why)
	}
	for _, c := range []struct {
		what      string
		fold, own int
	}{
		{"commits", int(f.st.N()), int(l.n)},
		{"runs", len(f.st.Runs()), len(l.runs)},
		{"calls", len(f.st.Calls()), len(l.calls)},
		{"questions", len(f.st.Questions()), len(l.questions)},
		{"decisions", len(f.st.Decisions()), len(l.decisions)},
		{"grants", len(f.st.Grants()), len(l.grants)},
	} {
		if c.fold != c.own {
			return fmt.Sprintf("the fold has %d %s, and %d stand in the chain", c.fold, c.what, c.own)
		}
	}
	return l.otherwise(f.st)
}

// chain reads one chain.
func (c *checker) chain(ctx context.Context, log journal.Log, chain journal.Chain, j judge) error {
	l := newLedger(c, chain.Session())
	if !chain.IsPolicy() {
		c.sessions[chain.Session()] = l
		c.report.Tally.Sessions++
	}
	for m, err := range log.Load(ctx, chain, 0) {
		if err != nil {
			return err
		}
		c.report.Tally.Messages++
		ok, why := j.counts(m)
		c.stored[m.Seq] = stored{journal.Digest(m.Data), ok}
		l.seq = m.Seq
		if ok {
			l.take(m, chain)
		} else {
			c.report.Tally.Void++
			l.without(why)
		}
		l.last = m.Seq
	}
	l.seq = l.last
	if text := j.differs(l); text != "" {
		l.fault(Fold, "%s", text)
	}
	return nil
}

// without notes a message that does not count.
func (l *ledger) without(why string) {
	if !l.c.witness.Hostile {
		l.fault(Chain, "has no effect: %s", why)
	}
}

// take reads a message that counts.
func (l *ledger) take(m journal.Message, chain journal.Chain) {
	var body commit
	if err := json.Unmarshal(m.Data, &body); err != nil {
		l.fault(Chain, "counts, and cannot be read: %v", err)
		return
	}
	if text := l.misplaced(m, body, chain); text != "" {
		l.fault(Chain, "counts, and %s", text)
	}
	l.n, l.prev, l.time = body.N, journal.Digest(m.Data), body.Time
	for _, e := range body.Events {
		l.event(e)
	}
}

// misplaced says where a message does not fit its place, or "".
func (l *ledger) misplaced(m journal.Message, body commit, chain journal.Chain) string {
	sub := journal.Subject{Chain: chain, Role: journal.Role(body.Role), Actor: body.Actor}
	want := strconv.FormatUint(l.last, 10)
	expected, filter := m.Headers[journal.HeaderExpected], m.Headers[journal.HeaderExpectedFilter]
	switch {
	case m.Subject != sub.String() || body.Session != chain.Session():
		return "says it is another's: " + body.Session + "." + body.Role + "." + body.Actor
	case len(expected) != 1 || expected[0] != want || len(filter) != 1 || filter[0] != chain.Filter():
		return fmt.Sprintf("was not stored on condition that message %s is the chain's last", want)
	case body.V != 1 || body.After != l.last:
		return fmt.Sprintf("goes after message %d, the last is %d", body.After, l.last)
	case body.N != l.n+1 || body.Prev != l.prev:
		return fmt.Sprintf("is commit %d after %q, and commit %d after %q comes next", body.N, body.Prev, l.n+1, l.prev)
	case body.Time.Before(l.time):
		return "its time is before that of the commit before it"
	}
	return ""
}
