// Package approver is the people's side of a decision journal: answering
// questions, frontends that ask for answers, and showing a question so that
// what it holds cannot pass for something else.
//
// Use [Answer] to answer one question, [Serve] to put questions to a person as
// they come, and [Render] to show one as text.
package approver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
)

// Request is what a person answers. The zero Request is refused.
type Request struct {
	Action string // one of Actions

	// Rules are what an always-answer leaves behind; each takes its decision
	// from the action. RulesGiven tells an empty list, which is refused, from
	// none, which means the question's suggestion.
	Rules      []json.RawMessage
	RulesGiven bool
	Expires    time.Time // of the grant; zero: the session's end
	Uses       int       // of the grant; 0: no limit

	Content json.RawMessage // of an accepted elicitation
	Note    string          // for the agent, if it is a denial

	// Shown is the digest of what was displayed. If the question shows
	// anything else, the answer is refused. "" answers what is read now.
	Shown string

	By    string // the person; "" is the writer's own actor
	Via   string // what the person used; a frontend that answers for others is its own
	Proof json.RawMessage
}

// Actions are the answers there are: those to a tool call, then those to an
// elicitation.
func Actions() []string {
	return []string{journal.AllowOnce, journal.DenyOnce, journal.AlwaysAllow, journal.AlwaysDeny,
		journal.Accept, journal.Decline, journal.Cancel}
}

// Receipt says what was written.
type Receipt struct {
	Session  string       `json:"session"`
	Question string       `json:"question"`
	Call     string       `json:"call"`
	Agent    string       `json:"agent"`
	Tool     string       `json:"tool"`
	Answer   string       `json:"answer"` // the answer's id
	Action   string       `json:"action"`
	By       string       `json:"by"`
	At       journal.Time `json:"at"`
	// Settles reports whether this answer settled the question. If not, it
	// needs more answers.
	Settles bool `json:"settles"`
	// Remembers are the rules that the answer asks to be remembered for the
	// rest of the session; nil if it answers once.
	Remembers []json.RawMessage `json:"remembers,omitempty"`
}

// answerBudget is how long Answer competes with other writers of a session.
const answerBudget = 30 * time.Second

// Answer writes one person's answer to a question. It reads the session from
// the journal, refuses what the fold would void or Decide could not use, and
// tries again when another commit comes first, until the answer is in the
// chain or the question is settled. Exactly one settling answer wins; everyone
// else gets a *SettledError that names it.
//
// Errors, after which nothing was written: ErrNoQuestion, *AmbiguousError,
// *SettledError, *NotOfferedError, ErrNotEntitled, ErrUnfit,
// journal.ErrRefused, journal.ErrUnavailable and journal.ErrConflict (others
// kept coming first). After journal.ErrUnknown it may have been written: show
// the question to find out.
func Answer(ctx context.Context, w *journal.Writer, ref Ref, req Request) (Receipt, error) {
	st, id, err := Find(ctx, w.Log(), ref)
	if err != nil {
		return Receipt{}, err
	}
	var receipt Receipt
	err = backoff.Retry(func() error {
		receipt, err = answerOnce(ctx, w, st, id, req)
		if !errors.Is(err, journal.ErrConflict) {
			return permanent(err)
		}
		if refreshErr := journal.Refresh(ctx, w.Log(), st); refreshErr != nil {
			return permanent(refreshErr)
		}
		return err
	}, backoff.WithContext(contention(), ctx))
	return receipt, err
}

func permanent(err error) error {
	if err == nil {
		return nil
	}
	return backoff.Permanent(err)
}

// contention spreads writers that race: a commit takes well under a
// millisecond, so waits start there and stay short.
func contention() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(500*time.Microsecond),
		backoff.WithMaxInterval(250*time.Millisecond),
		backoff.WithMaxElapsedTime(answerBudget))
}

// answerOnce judges the answer on the state as it is and appends it.
func answerOnce(ctx context.Context, w *journal.Writer, st *journal.State, id string, req Request) (Receipt, error) {
	now := w.Now(st)
	c := &check{st: st, q: st.Question(id), who: w.Principal(), now: now, req: req}
	if err := c.open(ctx, w.Log()); err != nil {
		return Receipt{}, err
	}
	body, err := c.answer()
	if err != nil {
		return Receipt{}, err
	}
	event := w.Event(body)
	if err := w.Append(ctx, st, now, event); err != nil {
		return Receipt{}, explain(id, req.Action, err)
	}
	q := st.Question(id)
	call := st.Call(q.Call)
	remembers, err := q.GrantRules(body)
	if err != nil {
		remembers = nil // an answer for once
	}
	return Receipt{
		Session: st.Chain().Session(), Question: id, Call: q.Call, Agent: call.Agent, Tool: call.Tool,
		Answer: event.ID, Action: body.Action, By: body.By, At: now, Settles: q.Settled(), Remembers: remembers,
	}, nil
}

// explain puts an error of appending in terms of the question.
func explain(id, action string, err error) error {
	if errors.Is(err, journal.ErrUnknown) {
		return fmt.Errorf("whether the answer to %s was stored is not known (%w): run `approver show %s` to find out", id, err, id)
	}
	return err
}

// settled is the error for a question that closed, with what the chain says
// about how.
func settled(ctx context.Context, log journal.Log, st *journal.State, id string) error {
	s, err := inbox.Settled(ctx, log, st.Chain(), id)
	if err != nil {
		return err
	}
	return &SettledError{id, s}
}
