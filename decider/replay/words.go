package replay

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"decisionjournal/journal"
)

// maxQuote is how much of a free text a line quotes, in bytes.
const maxQuote = 200

// describe says what an event did, in words. It may fill in the line's agent.
func describe(st *journal.State, e journal.Event, l *Line) string {
	switch b := e.Body.(type) {
	case *journal.Opened:
		l.Agent = b.Agent
		return describeOpened(b)
	case *journal.Closed:
		l.Agent = b.Agent
		return fmt.Sprintf("run %s ends", b.Run)
	case *journal.Ended:
		return "the session ends: " + clip(b.Reason)
	case *journal.Adopt:
		l.Agent = b.Agent
		return describeAdopt(b)
	case *journal.Call:
		return describeCall(b)
	case *journal.Attach:
		return fmt.Sprintf("run %s waits for the call%s", b.Run, when(b.Retry, ", which is to be judged again"))
	case *journal.Detach:
		return fmt.Sprintf("run %s no longer waits: %s%s", b.Run, clip(b.Reason), when(b.Withdraw, "; the call is withdrawn"))
	case *journal.Question:
		return describeQuestion(b)
	case *journal.Answer:
		return describeAnswer(st, b)
	case *journal.Decision:
		return describeDecision(st, b)
	case *journal.Grant:
		return describeGrant(b)
	case *journal.Revoke:
		return fmt.Sprintf("grant %s is revoked: %s", b.Grant, clip(b.Reason))
	case *journal.Start:
		return fmt.Sprintf("attempt %d is started by run %s", b.Attempt, b.Run)
	case *journal.Result:
		return describeResult(b)
	case *journal.Lapse:
		return describeLapse(b)
	case *journal.Repair:
		return fmt.Sprintf("the session is taken up again: %s%s", clip(b.Reason), when(len(b.Missing) > 0, fmt.Sprintf("; missing: %d", b.Missing)))
	case *journal.PolicyBytes:
		return fmt.Sprintf("policy %s, %d bytes", b.Digest, len(b.Bytes)/4*3)
	case *journal.Activate:
		return fmt.Sprintf("policy %s becomes %s", b.Name, b.Digest)
	}
	return "informational: " + clip(string(e.Raw))
}

func when(ok bool, s string) string {
	if ok {
		return s
	}
	return ""
}

// clip cuts a text to what a line has room for.
func clip(s string) string {
	if len(s) <= maxQuote {
		return s
	}
	n := maxQuote
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func describeOpened(b *journal.Opened) string {
	var with []string
	for _, w := range []struct {
		ok   bool
		text string
	}{
		{b.Kind == journal.KindBook, "in a book of standing grants"},
		{b.Label != "", fmt.Sprintf("label %q", clip(b.Label))},
		{b.Parent != "", "spawned by " + b.Parent},
		{b.Headless, "headless"}, {b.Shared, "shared"}, {b.Takeover, "taking over"},
		{b.Follows != "", "following policy " + b.Follows},
	} {
		if w.ok {
			with = append(with, w.text)
		}
	}
	return fmt.Sprintf("run %s of agent %s begins%s", b.Run, b.Agent, when(len(with) > 0, ", "+strings.Join(with, ", ")))
}

func describeAdopt(b *journal.Adopt) string {
	text := "policy " + b.Digest + " is adopted"
	if b.Name != "" {
		text += fmt.Sprintf(" as activation %d of %s", b.Activation, b.Name)
	}
	if b.Agent != "" {
		text += ", for agent " + b.Agent
	}
	if b.Layer != "" {
		text += ", for layer " + b.Layer
	}
	return text
}

func describeCall(b *journal.Call) string {
	text := fmt.Sprintf("wants %s %s", b.Tool, clip(string(b.Arguments)))
	if b.Kind == journal.CallElicitation {
		text = fmt.Sprintf("%s asks a person %s", b.Tool, clip(string(b.Arguments)))
	}
	if b.Key != "" {
		text += fmt.Sprintf(", key %q", clip(b.Key))
	}
	if b.Layer != "" {
		text += ", layer " + b.Layer
	}
	return text + when(b.Masked != nil, ", masked")
}

func describeQuestion(b *journal.Question) string {
	why := map[journal.AskReason]string{
		journal.AskRule: "a rule asks", journal.AskNoMatch: "no rule matches", journal.AskUnevaluable: "part of it cannot be read",
		journal.AskInterrupted: "an earlier attempt's outcome is unknown", journal.AskElicitation: "a tool asks",
	}[b.Reason]
	text := fmt.Sprintf("people are asked about attempt %d: %s", b.Attempt, why)
	if !b.Deadline.IsZero() {
		text += ", until " + b.Deadline.String()
	}
	return text
}

func describeAnswer(st *journal.State, b *journal.Answer) string {
	text := fmt.Sprintf("%s answers %s", b.By, clip(b.Action))
	if q := st.Question(b.Question); q != nil {
		if c := st.Call(q.Call); c != nil {
			text += fmt.Sprintf(" to %s %s (question %s)", c.Tool, clip(string(c.Arguments)), b.Question)
		}
	}
	if b.Via != "" {
		text += " through " + clip(b.Via)
	}
	if b.Note != "" {
		text += fmt.Sprintf(", writing %q", clip(b.Note))
	}
	return text
}

func describeDecision(st *journal.State, b *journal.Decision) string {
	var by []string
	for _, c := range b.By {
		by = append(by, describeCause(st, b.Call, c))
	}
	text := fmt.Sprintf("attempt %d: %s by %s", b.Attempt, b.Outcome, strings.Join(by, ", "))
	if !b.Expires.IsZero() {
		text += ", until " + b.Expires.String()
	}
	return text
}

func describeCause(st *journal.State, call string, c journal.Cause) string {
	switch c.Kind {
	case journal.ByRule:
		return "rule " + clip(string(c.Rule))
	case journal.ByAnswer, journal.ByUnusable:
		if v := findAnswer(st, call, c.ID); v != nil {
			return string(c.Kind) + " of " + v.By
		}
	case journal.ByLapse:
		return "its deadline"
	}
	if c.ID == "" {
		return string(c.Kind)
	}
	return string(c.Kind) + " " + c.ID
}

// findAnswer is an answer by its id. It nearly always stands at a question of
// the decision's own call, which is looked at first.
func findAnswer(st *journal.State, call, id string) *journal.Vote {
	if c := st.Call(call); c != nil {
		for i := range c.Attempts {
			if v := voteOf(st.Question(c.Attempts[i].Question), id); v != nil {
				return v
			}
		}
	}
	for _, q := range st.Questions() {
		if v := voteOf(q, id); v != nil {
			return v
		}
	}
	return nil
}

func voteOf(q *journal.QuestionState, id string) *journal.Vote {
	if q == nil {
		return nil
	}
	for i := range q.Answers {
		if q.Answers[i].Mark.ID == id {
			return &q.Answers[i]
		}
	}
	return nil
}

func describeGrant(b *journal.Grant) string {
	text := fmt.Sprintf("from now on: %s", joinRules(b.Rules))
	if !b.Expires.IsZero() {
		text += ", until " + b.Expires.String()
	}
	if b.Uses > 0 {
		text += fmt.Sprintf(", %d times", b.Uses)
	}
	switch {
	case b.Origin == nil:
	case b.Origin.Session != "":
		text += fmt.Sprintf(", from grant %s of book %s", b.Origin.Grant, b.Origin.Session)
	default:
		text += ", imported from " + clip(b.Origin.Import)
	}
	return text
}

func joinRules(rules []json.RawMessage) string {
	list := make([]string, len(rules))
	for i, r := range rules {
		list[i] = clip(string(r))
	}
	return strings.Join(list, " ")
}

func describeResult(b *journal.Result) string {
	text := fmt.Sprintf("attempt %d: %s, %d bytes", b.Attempt, b.Status, b.Size)
	if b.Content != nil {
		text += ": " + clip(string(b.Content))
	}
	return text
}

func describeLapse(b *journal.Lapse) string {
	why := map[journal.LapseReason]string{
		journal.LapseDeadline: "its deadline passed", journal.LapsePolicy: "the policy changed", journal.LapseRevoked: "its grant was revoked",
		journal.LapseExpired: "it expired", journal.LapseOvertaken: "its grant was used up", journal.LapseBook: "it was revoked in its book",
	}[b.Reason]
	switch {
	case b.Question != "":
		return fmt.Sprintf("question %s lapses: %s", b.Question, why)
	case b.Decision != "":
		return fmt.Sprintf("the unspent allow %s lapses: %s", b.Decision, why)
	}
	return fmt.Sprintf("grant %s lapses: %s", b.Grant, why)
}
