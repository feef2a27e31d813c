// Package invariants checks what must be true of a journal however its
// processes died: that it holds what was acknowledged, that nothing was asked
// or done twice, and that nothing ran without a ground. Use [Check].
//
// It reads stored messages by a simple reading of its own, which knows what
// events say and not how a program decides. The fold is asked only which
// messages count, and is then held against that reading. What needs a policy,
// such as whether a decision is right, is for an audit.
package invariants

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"decisionjournal/journal"
)

// Rule names one thing that must be true.
type Rule string

// The rules.
const (
	Kept            Rule = "kept"             // what was acknowledged is there, and counts
	Chain           Rule = "chain"            // chains are whole, and everything in them counts
	Fold            Rule = "fold"             // the fold makes of a chain what stands in it
	OneRun          Rule = "one-run"          // an agent has one run at a time, and only a live one acts
	OneCall         Rule = "one-call"         // a key names one call
	AskedOnce       Rule = "asked-once"       // nothing is asked twice but after a lapse, a repair, a retry or an unknown outcome
	OneDecision     Rule = "one-decision"     // an attempt is decided once
	Ground          Rule = "ground"           // an allow has a rule, a grant in force or an allowing answer
	OneStart        Rule = "one-start"        // an allow is started once, by who waits
	OneResult       Rule = "one-result"       // a start has one result, of the run that made it
	EffectOnce      Rule = "effect-once"      // no effect twice unless a person let the call run again, or it may be repeated
	EffectStarted   Rule = "effect-started"   // every effect has a start of its own
	ResultEffective Rule = "result-effective" // what is recorded as done took effect
	Said            Rule = "said"             // people's answers are those they gave, to questions that stand in the journal
)

// Rules are all of them.
func Rules() []Rule {
	return []Rule{Kept, Chain, Fold, OneRun, OneCall, AskedOnce, OneDecision, Ground, OneStart, OneResult,
		EffectOnce, EffectStarted, ResultEffective, Said}
}

// Witness is what was seen outside the journal. A nil list was not watched and
// is not checked; an empty one says that there was nothing to see. The zero
// Witness checks the journal alone.
type Witness struct {
	Stored  []Stored // messages whose storing was acknowledged to their writers
	Results []Result // results that were handed to agents as recorded
	Effects []Effect // all effects there were
	Asked   []Asked  // questions as people saw them
	Answers []Answer // all answers people meant to give, stored or not

	// Idempotent reports whether calls of a tool may take effect again unasked
	// when their outcome is unknown. Nil: of no tool.
	Idempotent func(tool string) bool
	// Hostile says that others than this program's writers wrote here too, or
	// that the journal was damaged and repaired, so that messages without effect
	// are nothing to wonder at.
	Hostile bool
}

// Stored is a message that was acknowledged.
type Stored struct {
	Seq    uint64 `json:"seq"`
	Digest string `json:"digest"` // of its bytes
}

// Result is the result of a keyed call that an agent was told.
type Result struct {
	Session string `json:"session"`
	Agent   string `json:"agent"`
	Key     string `json:"key"`
	Digest  string `json:"digest"` // of its content
}

// Effect is one time that something took place.
type Effect struct {
	Session   string          `json:"session"`
	Agent     string          `json:"agent"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // in canonical form
}

// Asked is a question that a person was shown.
type Asked struct {
	Session  string `json:"session"`
	Question string `json:"question"`
	Shown    string `json:"shown"` // digest of what was shown
}

// Answer is an answer that a person meant to give.
type Answer struct {
	Session  string `json:"session"`
	Question string `json:"question"`
	Action   string `json:"action"`
	ID       string `json:"id"` // once it was acknowledged; "" if that is not known
}

// Violation is something that is not as it must be.
type Violation struct {
	Rule    Rule   `json:"rule"`
	Session string `json:"session,omitempty"`
	Seq     uint64 `json:"seq,omitempty"` // the message that shows it, if it is one
	Text    string `json:"text"`
}

// String is the violation on one line.
func (v Violation) String() string {
	text := string(v.Rule) + ": "
	if v.Session != "" {
		text += v.Session + ": "
	}
	if v.Seq != 0 {
		text += fmt.Sprintf("message %d: ", v.Seq)
	}
	return text + v.Text
}

// Tally counts what a journal holds.
type Tally struct {
	Sessions    int `json:"sessions"`
	Messages    int `json:"messages"`
	Void        int `json:"void"` // without effect
	Runs        int `json:"runs"`
	Takeovers   int `json:"takeovers"`
	Calls       int `json:"calls"`
	Questions   int `json:"questions"`
	Interrupted int `json:"interrupted"` // questions about an unknown outcome
	Answers     int `json:"answers"`
	Decisions   int `json:"decisions"`
	Grants      int `json:"grants"`
	Starts      int `json:"starts"`
	Repeated    int `json:"repeated"` // starts of a call that had been started before
	Results     int `json:"results"`
}

// Add adds another journal's counts.
func (t *Tally) Add(o Tally) {
	t.Sessions += o.Sessions
	t.Messages += o.Messages
	t.Void += o.Void
	t.Runs += o.Runs
	t.Takeovers += o.Takeovers
	t.Calls += o.Calls
	t.Questions += o.Questions
	t.Interrupted += o.Interrupted
	t.Answers += o.Answers
	t.Decisions += o.Decisions
	t.Grants += o.Grants
	t.Starts += o.Starts
	t.Repeated += o.Repeated
	t.Results += o.Results
}

// Report is what Check found.
type Report struct {
	Tally      Tally       `json:"tally"`
	Violations []Violation `json:"violations"` // in the journal's order; the first 1000
	Count      int         `json:"count"`      // of all violations
}

// maxListed bounds what a wrecked journal makes a report hold; the count goes on.
const maxListed = 1000

func (r *Report) add(v Violation) {
	r.Count++
	if len(r.Violations) < maxListed {
		r.Violations = append(r.Violations, v)
	}
}

// Check holds a journal against the rules and against what was witnessed. What
// is appended while it reads may or may not count, so let writers rest. The
// error is the Log's, if it could not be read.
func Check(ctx context.Context, log journal.Log, w Witness) (Report, error) {
	return check(ctx, log, w, byFold)
}

// check is Check with the word on which messages count.
func check(ctx context.Context, log journal.Log, w Witness, judge func(journal.Chain) judge) (Report, error) {
	c := &checker{witness: w, stored: map[uint64]stored{}, sessions: map[string]*ledger{}}
	chains, err := log.Chains(ctx)
	if err != nil {
		return Report{}, err
	}
	for _, chain := range chains {
		if err := c.chain(ctx, log, chain, judge(chain)); err != nil {
			return Report{}, err
		}
	}
	holes, err := log.Holes(ctx)
	if err != nil {
		return Report{}, err
	}
	for _, seq := range holes {
		if !slices.Contains(c.accounted, seq) {
			c.report.add(Violation{Rule: Chain, Seq: seq, Text: "cannot be read, and no repair accounts for it"})
		}
	}
	c.outside()
	slices.SortStableFunc(c.report.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Seq, b.Seq))
	})
	return c.report, nil
}

// checker is one pass over a journal.
type checker struct {
	witness   Witness
	report    Report
	stored    map[uint64]stored
	sessions  map[string]*ledger
	accounted []uint64 // sequences that repairs say are missing
}

// stored is what is remembered of every message.
type stored struct {
	digest string
	counts bool
}

func (c *checker) idempotent(tool string) bool {
	return c.witness.Idempotent != nil && c.witness.Idempotent(tool)
}
