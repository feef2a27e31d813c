// Package inboxtest writes sessions with questions in them, for tests of what
// shows and answers questions. It judges nothing: an Asker writes what it is
// told, as a decider that asks about everything.
package inboxtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"decisionjournal/journal"
)

// Policy is the digest that an Asker's sessions follow. No journal holds its
// bytes.
var Policy = journal.Digest([]byte("inboxtest"))

// Asker writes as one decider. Its methods are for one goroutine.
type Asker struct {
	w      *journal.Writer
	states map[string]*journal.State
}

// New makes an Asker that writes through w, whose role is decider or admin.
func New(w *journal.Writer) *Asker {
	return &Asker{w: w, states: map[string]*journal.State{}}
}

// Spec is a call and what is asked about it. The zero value asks about
// {"path":"notes/a.txt"} of fs_write by the agent main, answerable by any one
// approver, not grantable.
type Spec struct {
	Agent     string
	Tool      string
	Layer     string
	Arguments string // JSON
	Kind      journal.CallKind
	For       string // of an elicitation
	Key       string

	Reason     journal.AskReason
	Grantable  bool
	Suggestion []string // rules as JSON
	Need       []journal.Stage
	Who        []journal.Entitlement
	Frontends  []journal.Frontend
	Note       string
	Deadline   journal.Time
	View       func(*journal.View)     // changes the view; nil: not
	Question   func(*journal.Question) // changes the question before it is digested; nil: not
}

func (s Spec) withDefaults() Spec {
	s.Agent = cmp.Or(s.Agent, "main")
	s.Tool = cmp.Or(s.Tool, "fs_write")
	s.Arguments = cmp.Or(s.Arguments, `{"path":"notes/a.txt"}`)
	s.Kind = cmp.Or(s.Kind, journal.CallTool)
	if s.Kind == journal.CallElicitation {
		s.Reason = journal.AskElicitation
	}
	s.Reason = cmp.Or(s.Reason, journal.AskNoMatch)
	if s.Need == nil {
		s.Need = []journal.Stage{{Of: []string{}, Count: 1}}
	}
	return s
}

// State is the session as it is now.
func (a *Asker) State(ctx context.Context, session string) (*journal.State, error) {
	st := a.states[session]
	if st == nil {
		st = journal.NewState(journal.SessionChain(session))
		a.states[session] = st
	}
	return st, journal.Refresh(ctx, a.w.Log(), st)
}

// Do appends the events that make returns for the session as it is, again
// after each conflict.
func (a *Asker) Do(ctx context.Context, session string, make func(*journal.State) []journal.Body) error {
	for {
		st, err := a.State(ctx, session)
		if err != nil {
			return err
		}
		var events []journal.Event
		for _, body := range make(st) {
			events = append(events, a.w.Event(body))
		}
		if err := a.w.Append(ctx, st, a.w.Now(st), events...); !errors.Is(err, journal.ErrConflict) {
			return err
		}
	}
}

// Run is the live run of an agent of a session, which is begun, with its
// policy, if there is none.
func (a *Asker) Run(ctx context.Context, session, agent string) (string, error) {
	st, err := a.State(ctx, session)
	if err != nil {
		return "", err
	}
	if live := st.LiveRuns(agent); len(live) > 0 {
		return live[0].Run, nil
	}
	run := a.w.NewID()
	return run, a.Do(ctx, session, func(st *journal.State) []journal.Body {
		bodies := []journal.Body{&journal.Opened{Agent: agent, Run: run, Kind: journal.KindSession}}
		if st.N() == 0 {
			bodies = append(bodies, &journal.Adopt{Digest: Policy})
		}
		return bodies
	})
}

// Ask writes a call and a question about it, and returns the question's id.
func (a *Asker) Ask(ctx context.Context, session string, s Spec) (string, error) {
	s = s.withDefaults()
	run, err := a.Run(ctx, session, s.Agent)
	if err != nil {
		return "", err
	}
	arguments, err := journal.Canonical([]byte(s.Arguments))
	if err != nil {
		return "", fmt.Errorf("arguments: %w", err)
	}
	call := &journal.Call{
		Agent: s.Agent, Run: run, Layer: s.Layer, Kind: s.Kind, Tool: s.Tool, Arguments: arguments,
		Digest: journal.Digest(arguments), For: s.For, Key: s.Key,
	}
	for {
		st, err := a.State(ctx, session)
		if err != nil {
			return "", err
		}
		event := a.w.Event(call)
		question, err := s.question(session, event.ID, 1, call)
		if err != nil {
			return "", err
		}
		asked := a.w.Event(question)
		if err := a.w.Append(ctx, st, a.w.Now(st), event, asked); !errors.Is(err, journal.ErrConflict) {
			return asked.ID, err
		}
	}
}

func (s Spec) question(session, id string, attempt int, call *journal.Call) (*journal.Question, error) {
	view := journal.View{Session: session, Agent: s.Agent, Tool: s.Tool, Reason: s.Reason, Attempt: attempt, Size: len(call.Arguments)}
	if view.Size <= journal.MaxViewArguments {
		view.Arguments = call.Arguments
	} else {
		view.Preview = string(call.Arguments[:journal.MaxViewArguments])
	}
	if s.View != nil {
		s.View(&view)
	}
	raw, err := journal.NewView(view)
	if err != nil {
		return nil, err
	}
	q := &journal.Question{
		Call: id, Attempt: attempt, Reason: s.Reason, Verdict: json.RawMessage(`{"decision":"ask"}`),
		Policy: Policy, Engine: "inboxtest", Digest: call.Digest, Facts: json.RawMessage("{}"),
		Grantable: s.Grantable, Suggestion: rules(s.Suggestion), Alternatives: [][]json.RawMessage{},
		Need: s.Need, Who: append([]journal.Entitlement{}, s.Who...), Frontends: append([]journal.Frontend{}, s.Frontends...),
		Note: s.Note, Deadline: s.Deadline, View: raw,
	}
	if s.Question != nil {
		s.Question(q)
	}
	q.Shown, err = q.ShownDigest()
	return q, err
}

func rules(texts []string) []json.RawMessage {
	list := make([]json.RawMessage, len(texts))
	for i, t := range texts {
		list[i] = json.RawMessage(t)
	}
	return list
}

// Decide settles a question's call by what a decider would cite.
func (a *Asker) Decide(ctx context.Context, session, question string, outcome journal.Outcome, by ...journal.Cause) error {
	return a.Do(ctx, session, func(st *journal.State) []journal.Body {
		return []journal.Body{decision(st, question, outcome, by...)}
	})
}

func decision(st *journal.State, question string, outcome journal.Outcome, by ...journal.Cause) *journal.Decision {
	q := st.Question(question)
	return &journal.Decision{
		Call: q.Call, Attempt: q.Attempt, Outcome: outcome, By: by, Policy: Policy, Engine: "inboxtest",
		Digest: q.Digest, Facts: json.RawMessage("{}"), Message: "as asked",
	}
}

// Rule is the cause of a decision by a static rule.
func Rule() journal.Cause {
	return journal.Cause{Kind: journal.ByRule, Rule: json.RawMessage(`{"decision":"deny","tool":"*"}`)}
}

// Lapse writes that a question's deadline passed, with the denial that
// belongs to it.
func (a *Asker) Lapse(ctx context.Context, session, question string) error {
	st, err := a.State(ctx, session)
	if err != nil {
		return err
	}
	lapse := a.w.Event(&journal.Lapse{Question: question, Reason: journal.LapseDeadline})
	denial := a.w.Event(decision(st, question, journal.Deny, journal.Cause{Kind: journal.ByLapse, ID: lapse.ID}))
	return a.w.Append(ctx, st, a.w.Now(st), lapse, denial)
}

// Withdraw withdraws a question's call.
func (a *Asker) Withdraw(ctx context.Context, session, question string) error {
	return a.Do(ctx, session, func(st *journal.State) []journal.Body {
		c := st.Call(st.Question(question).Call)
		return []journal.Body{&journal.Detach{Call: c.Mark.ID, Run: c.Waiter, Reason: "changed its mind", Withdraw: true}}
	})
}

// End ends a session.
func (a *Asker) End(ctx context.Context, session string) error {
	return a.Do(ctx, session, func(*journal.State) []journal.Body { return []journal.Body{&journal.Ended{Reason: "done"}} })
}
