package journal

import "encoding/json"

// MaxViewArguments is how much of a call's arguments a question's view holds,
// in bytes; the whole arguments stand in the call.
const MaxViewArguments = 16 << 10

// View is the form of a question's view: all that a frontend needs to show
// one. Everything in it but the rule comes from the agent or its call and is
// not to be trusted on a screen.
type View struct {
	Session   string           `json:"session"`
	Label     string           `json:"label,omitzero"`
	Agent     string           `json:"agent"`
	Parent    string           `json:"parent,omitzero"`
	Layer     string           `json:"layer,omitzero"`
	Tool      string           `json:"tool"`
	Arguments json.RawMessage  `json:"arguments,omitzero"` // whole, if they have at most MaxViewArguments bytes
	Preview   string           `json:"preview,omitzero"`   // else the beginning of their canonical text
	Size      int              `json:"size"`               // bytes of the whole canonical arguments
	Masked    []string         `json:"masked,omitzero"`
	Commands  [][]string       `json:"commands,omitzero"` // effective commands, each an argv; an unreadable one is empty
	Paths     []string         `json:"paths,omitzero"`
	Hosts     []string         `json:"hosts,omitzero"`
	Unread    []string         `json:"unread,omitzero"` // what the policy could not read, and why
	Reason    AskReason        `json:"reason"`
	Rule      json.RawMessage  `json:"rule,omitzero"` // the rule that asks, with its note and severity
	Severity  string           `json:"severity,omitzero"`
	Model     string           `json:"model,omitzero"` // the model's own reason
	CWD       string           `json:"cwd,omitzero"`
	Attempt   int              `json:"attempt"`
	Before    string           `json:"before,omitzero"` // what an earlier attempt may have done
	Recent    []RecentDecision `json:"recent,omitzero"` // the session's last decisions, newest first
}

// RecentDecision is a line of a session's history in a view.
type RecentDecision struct {
	Call    string    `json:"call"`
	Tool    string    `json:"tool"`
	Outcome Outcome   `json:"outcome"`
	By      CauseKind `json:"by"`
	Time    Time      `json:"time"`
}

// ReadView reads a question's view. Members it does not know are passed over:
// a view is shown, never judged by.
func (q *Question) ReadView() (View, error) {
	var v View
	err := json.Unmarshal(q.View, &v)
	return v, err
}

// NewView makes the raw form of a view.
func NewView(v View) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return Canonical(raw)
}
