// Package replay reads a journal after the fact: what happened ([Journal.Timeline]),
// who granted what ([Journal.Grants]), and whether the record is whole and
// every decision in it follows from what stood before it ([Journal.Audit]).
//
// It only reads, so an auditor's key is enough, and it believes nothing that a
// commit says about itself: chains are folded again and decisions are made
// again by the same functions that made them.
package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"decisionjournal/decider"
	"decisionjournal/journal"
)

// ErrNoSession: the journal holds no such session.
var ErrNoSession = errors.New("no such session")

// ErrNoCommit: the session has no commit with this number.
var ErrNoCommit = errors.New("no such commit")

// Journal is a journal being read, with the policies that its sessions were
// judged by. Make one with [Load]. Its methods may run concurrently.
type Journal struct {
	// Now is the clock that says what has expired at a session's head; nil is
	// time.Now. Set it before the first use.
	Now func() time.Time

	log         journal.Log
	policies    decider.Policies
	chain       *journal.State // of policies
	activations map[activation]struct{}
}

// activation is one activate event on the policy chain.
type activation struct {
	seq          uint64
	name, digest string
}

// Load folds the policy chain of a journal and gives access to its sessions.
// Errors are those of the Log.
func Load(ctx context.Context, log journal.Log) (*Journal, error) {
	j := &Journal{log: log, activations: map[activation]struct{}{}}
	var err error
	j.chain, err = j.walk(ctx, journal.PolicyChain(), math.MaxUint64, func(s *step) bool {
		for _, e := range s.events() {
			if a, ok := e.Body.(*journal.Activate); ok {
				j.activations[activation{s.msg.Seq, a.Name, a.Digest}] = struct{}{}
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	j.policies.Update(j.chain)
	return j, nil
}

func (j *Journal) clock() time.Time {
	if j.Now != nil {
		return j.Now()
	}
	return time.Now()
}

// step is one message of a chain and what the fold made of it.
type step struct {
	msg     journal.Message
	verdict journal.Verdict
	why     string          // if it is not valid
	commit  *journal.Commit // nil if the bytes cannot be read
	badData error           // why they cannot
	after   *journal.State  // the fold with the message
}

// events are the events that the message made true, if any.
func (s *step) events() []journal.Event {
	if s.verdict != journal.Valid {
		return nil
	}
	return s.commit.Events
}

// walk folds a chain message by message, up to the sequence last or until
// visit returns false, and returns the fold so far.
func (j *Journal) walk(ctx context.Context, chain journal.Chain, last uint64, visit func(*step) bool) (*journal.State, error) {
	st := journal.NewState(chain)
	for m, err := range j.log.Load(ctx, chain, 0) {
		if err != nil {
			return nil, err
		}
		if m.Seq > last {
			break
		}
		s := &step{msg: m, after: st}
		s.verdict, s.why = st.Apply(m)
		s.commit, s.badData = journal.Decode(m.Data)
		if !visit(s) {
			break
		}
	}
	return st, nil
}

// walkSession walks a session to its head. It fails if there is none.
func (j *Journal) walkSession(ctx context.Context, session string, visit func(*step) bool) (*journal.State, error) {
	chain := journal.SessionChain(session)
	if !chain.Valid() {
		return nil, fmt.Errorf("%w: %w", ErrNoSession, journal.CheckName("session", session))
	}
	st, err := j.walk(ctx, chain, math.MaxUint64, visit)
	if err == nil && st.LastSeq() == 0 {
		err = fmt.Errorf("%w: %s; replay sessions lists those there are", ErrNoSession, session)
	}
	return st, err
}

// SessionInfo is one session in a list.
type SessionInfo struct {
	Session       string              `json:"session"`
	Kind          journal.SessionKind `json:"kind"`
	Label         string              `json:"label,omitempty"`
	State         string              `json:"state"`     // "open", "ended", or "empty" if nothing in it is valid
	Condition     string              `json:"condition"` // "whole", "broken", "too new"
	Why           string              `json:"why,omitempty"`
	WhySeq        uint64              `json:"why_seq,omitempty"` // the message that is missing, or too new
	First         journal.Time        `json:"first,omitzero"`
	Last          journal.Time        `json:"last,omitzero"`
	Commits       uint64              `json:"commits"`
	Calls         int                 `json:"calls"`
	OpenQuestions int                 `json:"open_questions"`
	Grants        int                 `json:"grants_in_force"`
	Void          int                 `json:"void_messages"`
}

// Sessions lists every session of the journal by name. Never nil.
func (j *Journal) Sessions(ctx context.Context) ([]SessionInfo, error) {
	chains, err := j.log.Chains(ctx)
	if err != nil {
		return nil, err
	}
	holes, err := j.log.Holes(ctx)
	if err != nil {
		return nil, err
	}
	list := []SessionInfo{}
	for _, chain := range chains {
		if chain.IsPolicy() {
			continue
		}
		st, err := j.walk(ctx, chain, math.MaxUint64, func(*step) bool { return true })
		if err != nil {
			return nil, err
		}
		st.MarkHoles(holes)
		list = append(list, j.info(st))
	}
	return list, nil
}

// Policies is the condition of the policy chain, and what is missing from it or
// too new. While it is not whole, nothing is decided.
func (j *Journal) Policies(ctx context.Context) (journal.Condition, journal.Anomaly, error) {
	st, err := journal.LoadState(ctx, j.log, journal.PolicyChain())
	if err != nil {
		return journal.Broken, journal.Anomaly{}, err
	}
	cond, why := st.Condition()
	return cond, why, nil
}

func (j *Journal) info(st *journal.State) SessionInfo {
	cond, why := st.Condition()
	_, void := st.Anomalies()
	info := SessionInfo{
		Session: st.Chain().Session(), Kind: st.Kind(), Label: st.Label(), State: stateOf(st),
		Condition: cond.String(), Why: why.Why, WhySeq: why.Seq, First: st.First().Time, Last: st.Time(),
		Commits: st.N(), Calls: len(st.Calls()), Void: void,
	}
	for _, q := range st.Questions() {
		if !q.Over {
			info.OpenQuestions++
		}
	}
	now := j.headTime(st)
	for _, g := range st.Grants() {
		if cond == journal.Whole && g.InForce(now) {
			info.Grants++
		}
	}
	return info
}

func stateOf(st *journal.State) string {
	switch {
	case st.N() == 0:
		return "empty"
	case st.Ended() != nil:
		return "ended"
	}
	return "open"
}

// headTime is the present, as a commit made now would have it.
func (j *Journal) headTime(st *journal.State) journal.Time {
	now := journal.At(j.clock())
	if now.Before(st.Time().Time) {
		return st.Time()
	}
	return now
}
