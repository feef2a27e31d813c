package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"decisionjournal/journal"
)

// Item is one open question with what a frontend needs to show it. Texts in it
// come from agents and are not to be put on a screen as they are. It is a
// copy: nothing changes in it when the question does.
type Item struct {
	ID        string           `json:"id"`
	Session   string           `json:"session"`
	Agent     string           `json:"agent"`
	Call      string           `json:"call"`
	Attempt   int              `json:"attempt"`
	Layer     string           `json:"layer"`
	Kind      journal.CallKind `json:"kind"`
	Tool      string           `json:"tool"`
	Arguments json.RawMessage  `json:"arguments"` // null if the view holds only their beginning

	Reason       journal.AskReason   `json:"reason"`
	Rule         json.RawMessage     `json:"rule"`       // the rule that asks; null if none does
	Suggestion   []json.RawMessage   `json:"suggestion"` // rules an always-answer leaves; may be empty
	Alternatives [][]json.RawMessage `json:"alternatives"`
	Grantable    bool                `json:"grantable"` // always-answers are offered

	AskedAt   journal.Time          `json:"asked_at"`
	Deadline  journal.Time          `json:"deadline,omitzero"` // from then on no answer is valid
	Need      []journal.Stage       `json:"need"`
	Votes     []Vote                `json:"votes"` // so far, in chain order
	Who       []journal.Entitlement `json:"who"`   // empty: any approver
	Frontends []journal.Frontend    `json:"frontends"`
	Askers    []string              `json:"askers"` // actors that made the call: they may not answer
	Note      string                `json:"note,omitzero"`
	Waiting   bool                  `json:"waiting"` // a run waits for the call now
	Shown     string                `json:"shown"`   // digest an answer cites

	// Group is the same for identical calls of one agent: same session, agent,
	// layer, tool and arguments. Count is how many of them are open; each takes
	// an answer of its own.
	Group string `json:"group"`
	Count int    `json:"count"`

	// View is what the question shows, as far as it can be read; Unread says
	// what could not be.
	View   journal.View `json:"view"`
	Unread string       `json:"unread,omitzero"`

	// Whole are the call's whole arguments, also where the view holds only
	// their beginning. It is shared: do not change it.
	Whole json.RawMessage `json:"-"`

	seq uint64 // of the message that asked
	at  int    // place in its commit
}

// Vote is one answer to a question that needs more.
type Vote struct {
	By     string       `json:"by"`
	Action string       `json:"action"`
	At     journal.Time `json:"at"`
	Note   string       `json:"note,omitzero"`
}

// Expired reports whether the question's deadline has passed at time now. It
// stays in an inbox until a decider writes its lapse.
func (i *Item) Expired(now journal.Time) bool {
	return !i.Deadline.IsZero() && !now.Before(i.Deadline.Time)
}

// Answered is the vote that person has given, or nil.
func (i *Item) Answered(person string) *Vote {
	for n := range i.Votes {
		if i.Votes[n].By == person {
			return &i.Votes[n]
		}
	}
	return nil
}

// From is the time from which on a person may answer with their own key, and
// false if they may not: they asked, have answered, or are not among those it
// asks.
func (i *Item) From(person string) (journal.Time, bool) {
	if slices.Contains(i.Askers, person) || i.Answered(person) != nil {
		return journal.Time{}, false
	}
	if len(i.Who) == 0 {
		return journal.Time{}, true
	}
	var from journal.Time
	found := false
	for _, w := range i.Who {
		if (len(w.Of) == 0 || slices.Contains(w.Of, person)) && (!found || w.From.Before(from.Time)) {
			from, found = w.From, true
		}
	}
	return from, found
}

// NewItem is the item of a question in a state, open or not, with Count 1. It
// reports false if the state has no such question.
func NewItem(st *journal.State, question string) (Item, bool) {
	q := st.Question(question)
	if q == nil {
		return Item{}, false
	}
	c := st.Call(q.Call)
	item := newItem(st.Chain().Session(), q, c, Askers(st, q))
	item.Group, item.Count = group(item.Session, c), 1
	return item, true
}

// newItem is an item without its group.
func newItem(session string, q *journal.QuestionState, c *journal.CallState, askers []string) Item {
	view, err := q.ReadView()
	item := Item{
		ID: q.Mark.ID, Session: session, Agent: c.Agent, Call: q.Call, Attempt: q.Attempt,
		Layer: c.Layer, Kind: c.Kind, Tool: c.Tool, Arguments: view.Arguments,
		Reason: q.Reason, Rule: view.Rule, Suggestion: q.Suggestion, Alternatives: q.Alternatives, Grantable: q.Grantable,
		AskedAt: q.Mark.Time, Deadline: q.Deadline, Need: q.Need, Votes: votes(q), Who: q.Who, Frontends: q.Frontends,
		Askers: askers, Note: q.Note, Waiting: c.Waiter != "", Shown: q.Shown,
		View: view, Whole: c.Arguments,
		seq: q.Mark.Seq, at: q.Mark.I,
	}
	if err != nil {
		item.Unread = fmt.Sprintf("part of what the question shows cannot be read: %v", err)
	}
	return item
}

// Identical is how many open questions of the state are in a group.
func Identical(st *journal.State, name string) int {
	n := 0
	for _, c := range st.OpenCalls() {
		q := st.Question(c.Last().Question)
		if q != nil && Open(st, q) && group(st.Chain().Session(), c) == name {
			n++
		}
	}
	return n
}

func votes(q *journal.QuestionState) []Vote {
	list := make([]Vote, len(q.Answers))
	for i, v := range q.Answers {
		list[i] = Vote{v.By, v.Action, v.Mark.Time, v.Note}
	}
	return list
}

// Askers are the actors behind a question's call: who wrote it and who opened
// the runs that wrote it and last waited for it. None of them may answer.
func Askers(st *journal.State, q *journal.QuestionState) []string {
	c := st.Call(q.Call)
	list := []string{c.Mark.By.Actor}
	for _, id := range []string{c.Run, c.LastWaiter} {
		if run := st.Run(id); run != nil && !slices.Contains(list, run.Mark.By.Actor) {
			list = append(list, run.Mark.By.Actor)
		}
	}
	return list
}

// group names what makes two questions the same to a person.
func group(session string, c *journal.CallState) string {
	h := sha256.New()
	for _, part := range []string{session, c.Agent, c.Layer, c.Tool, c.Digest} {
		_, _ = io.WriteString(h, part+"\x00") // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
