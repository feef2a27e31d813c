package journal

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
)

// Type names what an event says.
type Type string

// The event types of version 1.
const (
	TypeOpened   Type = "opened"
	TypeClosed   Type = "closed"
	TypeEnded    Type = "ended"
	TypeAdopt    Type = "adopt"
	TypeCall     Type = "call"
	TypeAttach   Type = "attach"
	TypeDetach   Type = "detach"
	TypeQuestion Type = "question"
	TypeAnswer   Type = "answer"
	TypeDecision Type = "decision"
	TypeGrant    Type = "grant"
	TypeRevoke   Type = "revoke"
	TypeStart    Type = "start"
	TypeResult   Type = "result"
	TypeLapse    Type = "lapse"
	TypeRepair   Type = "repair"
	TypePolicy   Type = "policy"
	TypeActivate Type = "activate"
)

// Body is the part of an event that its type defines. Members marked omitzero
// may be absent, all others are always there.
type Body interface{ Type() Type }

// SessionKind is what a session is for.
type SessionKind string

// The kinds of session.
const (
	KindSession SessionKind = "session"
	KindBook    SessionKind = "book" // holds standing grants
)

// Known reports whether this program knows the kind.
func (k SessionKind) Known() bool { return k == KindSession || k == KindBook }

// CallKind tells a tool call from a question a server put to people.
type CallKind string

// The kinds of call.
const (
	CallTool        CallKind = "tool"
	CallElicitation CallKind = "elicitation" // asked, never started
)

// Known reports whether this program knows the kind.
func (k CallKind) Known() bool { return k == CallTool || k == CallElicitation }

// Outcome is how an attempt was decided. The zero Outcome is not an allow.
type Outcome string

// The outcomes.
const (
	Allow Outcome = "allow"
	Deny  Outcome = "deny"
)

// Known reports whether this program knows the outcome.
func (o Outcome) Known() bool { return o == Allow || o == Deny }

// CauseKind is a kind of thing that made a decision.
type CauseKind string

// What can make a decision.
const (
	ByRule        CauseKind = "rule"        // a static rule
	ByGrant       CauseKind = "grant"       // a grant in force
	ByAnswer      CauseKind = "answer"      // what a person said
	ByLapse       CauseKind = "lapse"       // the question's deadline
	ByHeadless    CauseKind = "headless"    // nobody to ask
	ByInterrupted CauseKind = "interrupted" // outcome unknown, and the policy says fail
	ByUnusable    CauseKind = "unusable"    // an answer that cannot be followed
	ByError       CauseKind = "error"       // a call that cannot be judged
)

// Known reports whether this program knows the kind.
func (k CauseKind) Known() bool {
	switch k {
	case ByRule, ByGrant, ByAnswer, ByLapse, ByHeadless, ByInterrupted, ByUnusable, ByError:
		return true
	}
	return false
}

// Cause is one thing that made a decision: an event's id, or a rule.
type Cause struct {
	Kind CauseKind       `json:"kind"`
	ID   string          `json:"id,omitzero"`
	Rule json.RawMessage `json:"rule,omitzero"`
}

// Status is how an execution ended.
type Status string

// The statuses of a result.
const (
	StatusOK      Status = "ok"
	StatusError   Status = "error"
	StatusNotRun  Status = "not-run" // provably nothing happened
	StatusUnknown Status = "unknown" // it may have happened
)

// Known reports whether this program knows the status.
func (s Status) Known() bool {
	return s == StatusOK || s == StatusError || s == StatusNotRun || s == StatusUnknown
}

// LapseReason is why something ended by itself.
type LapseReason string

// Why a question, an unspent allow or a grant ended by itself.
const (
	LapseDeadline  LapseReason = "deadline"  // a question
	LapsePolicy    LapseReason = "policy"    // a question to be asked anew, or an allow a newer policy denies
	LapseRevoked   LapseReason = "revoked"   // an allow whose grant was revoked
	LapseExpired   LapseReason = "expired"   // an allow or a grant
	LapseOvertaken LapseReason = "overtaken" // an allow whose grant was used up
	LapseBook      LapseReason = "book"      // a grant revoked in the book it came from
)

// Known reports whether this program knows the reason.
func (r LapseReason) Known() bool {
	switch r {
	case LapseDeadline, LapsePolicy, LapseRevoked, LapseExpired, LapseOvertaken, LapseBook:
		return true
	}
	return false
}

// AskReason is why a question is asked.
type AskReason string

// Why people are asked.
const (
	AskRule        AskReason = "rule"
	AskNoMatch     AskReason = "no-match"
	AskUnevaluable AskReason = "unevaluable-path"
	AskInterrupted AskReason = "interrupted"
	AskElicitation AskReason = "elicitation"
)

// Known reports whether this program knows the reason.
func (r AskReason) Known() bool {
	switch r {
	case AskRule, AskNoMatch, AskUnevaluable, AskInterrupted, AskElicitation:
		return true
	}
	return false
}

// What an answer's action may be. Any other text is an answer too, and refuses.
const (
	AllowOnce   = "allow-once"
	DenyOnce    = "deny-once"
	AlwaysAllow = "always-allow"
	AlwaysDeny  = "always-deny"
	Accept      = "accept"  // elicitations only
	Decline     = "decline" // elicitations only
	Cancel      = "cancel"  // elicitations only
)

// Opened begins a run of an agent; the first one of a session begins the session.
type Opened struct {
	Agent    string      `json:"agent"`
	Run      string      `json:"run"`
	Kind     SessionKind `json:"kind"`
	Label    string      `json:"label,omitzero"`
	Parent   string      `json:"parent,omitzero"` // the agent that spawned this one
	Headless bool        `json:"headless"`
	Shared   bool        `json:"shared"` // the run has no process of its own
	Takeover bool        `json:"takeover"`
	Follows  string      `json:"follows,omitzero"` // policy name
}

// Closed ends a run.
type Closed struct {
	Agent string `json:"agent"`
	Run   string `json:"run"`
}

// Ended ends the session for good.
type Ended struct {
	Reason string `json:"reason"`
}

// Adopt puts calls in its scope (agent and layer, agent, layer, or all) under a policy.
type Adopt struct {
	Digest     string `json:"digest"`
	Name       string `json:"name,omitzero"`
	Activation uint64 `json:"activation,omitzero"` // stream sequence of the activate
	Agent      string `json:"agent,omitzero"`
	Layer      string `json:"layer,omitzero"`
}

// Call is one tool call an agent wants made. Its id is its event's.
type Call struct {
	Agent     string          `json:"agent"`
	Run       string          `json:"run"`
	Layer     string          `json:"layer"`
	Kind      CallKind        `json:"kind"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Masked    []string        `json:"masked,omitzero"` // JSON pointers
	Digest    string          `json:"digest"`
	Key       string          `json:"key,omitzero"`
	Ref       string          `json:"ref,omitzero"`
	For       string          `json:"for,omitzero"`    // the call that provoked an elicitation
	Parent    string          `json:"parent,omitzero"` // the call this one is a part of
	Reason    string          `json:"reason,omitzero"` // the model's own
	CWD       string          `json:"cwd,omitzero"`
	Facts     json.RawMessage `json:"facts,omitzero"` // claimed, with masked arguments
}

// Attach makes a run wait for a call.
type Attach struct {
	Call  string `json:"call"`
	Run   string `json:"run"`
	Retry bool   `json:"retry,omitzero"` // judge a denied call again
}

// Detach ends the waiting.
type Detach struct {
	Call     string `json:"call"`
	Run      string `json:"run"`
	Reason   string `json:"reason"`
	Withdraw bool   `json:"withdraw,omitzero"`
}

// Stage is a part of what a question needs: count allows, by distinct people of
// the list, or of anybody entitled if it is empty.
type Stage struct {
	Of    []string `json:"of"`
	Count int      `json:"count"`
}

// Entitlement names who may answer, from when on. An empty list means any approver.
type Entitlement struct {
	Of   []string `json:"of"`
	From Time     `json:"from,omitzero"`
}

// Frontend is a principal that answers for the people it lists, and for nobody else.
type Frontend struct {
	Name string   `json:"name"`
	For  []string `json:"for"`
}

// Question is what people are asked about one attempt. Its id is its event's.
type Question struct {
	Call         string              `json:"call"`
	Attempt      int                 `json:"attempt"`
	Reason       AskReason           `json:"reason"`
	Verdict      json.RawMessage     `json:"verdict"`
	Policy       string              `json:"policy"`
	Engine       string              `json:"engine"`
	Digest       string              `json:"digest"`
	Facts        json.RawMessage     `json:"facts"`
	Grantable    bool                `json:"grantable"`
	Suggestion   []json.RawMessage   `json:"suggestion"`   // rules; empty: nothing to suggest
	Alternatives [][]json.RawMessage `json:"alternatives"` // lists of rules, narrow to wide
	Need         []Stage             `json:"need"`
	Who          []Entitlement       `json:"who"` // empty: any approver
	Frontends    []Frontend          `json:"frontends"`
	Note         string              `json:"note,omitzero"` // what the policy says to approvers
	Deadline     Time                `json:"deadline,omitzero"`
	View         json.RawMessage     `json:"view"`  // all a frontend shows
	Shown        string              `json:"shown"` // digest of this body without shown
}

// ShownDigest is the digest of the canonical body without shown: what an
// answer says it saw.
func (q *Question) ShownDigest() (string, error) {
	body, err := encodeStruct(nil, reflect.ValueOf(*q))
	if err != nil {
		return "", err
	}
	members, err := split(body)
	if err != nil {
		return "", err
	}
	kept := members[:0]
	for _, m := range members {
		if m.key != "shown" {
			kept = append(kept, m)
		}
	}
	b, err := appendObject(nil, kept, &reader{})
	return Digest(b), err
}

// Answer is what one person said to a question.
type Answer struct {
	Question string          `json:"question"`
	Action   string          `json:"action"`
	Rule     json.RawMessage `json:"rule,omitzero"`
	Rules    json.RawMessage `json:"rules,omitzero"`
	Content  json.RawMessage `json:"content,omitzero"` // elicitations
	Note     string          `json:"note,omitzero"`
	Expires  Time            `json:"expires,omitzero"`
	Uses     int             `json:"uses,omitzero"`
	Shown    string          `json:"shown"`
	By       string          `json:"by"`
	Via      string          `json:"via,omitzero"`
	Proof    json.RawMessage `json:"proof,omitzero"`
}

// Decision ends an attempt. The zero Decision does not allow.
type Decision struct {
	Call    string          `json:"call"`
	Attempt int             `json:"attempt"`
	Outcome Outcome         `json:"outcome"`
	By      []Cause         `json:"by"`
	Policy  string          `json:"policy"`
	Engine  string          `json:"engine"`
	Digest  string          `json:"digest"`
	Facts   json.RawMessage `json:"facts"`
	Message string          `json:"message"`
	Expires Time            `json:"expires,omitzero"`
}

// Origin says where a grant without a question came from: a book's grant, or an import.
type Origin struct {
	Session string `json:"session,omitzero"`
	Grant   string `json:"grant,omitzero"`
	Import  string `json:"import,omitzero"`
}

// Grant is the rules an always-answer left for the rest of the session.
type Grant struct {
	Question string            `json:"question,omitzero"`
	Rules    []json.RawMessage `json:"rules"`
	Layer    string            `json:"layer"`
	Expires  Time              `json:"expires,omitzero"`
	Uses     int               `json:"uses,omitzero"` // 0: no limit
	Origin   *Origin           `json:"origin,omitzero"`
}

// Revoke puts a grant out of force.
type Revoke struct {
	Grant  string `json:"grant"`
	Reason string `json:"reason"`
}

// Start is appended before the provider sees the call.
type Start struct {
	Call     string `json:"call"`
	Attempt  int    `json:"attempt"`
	Run      string `json:"run"`
	Decision string `json:"decision"`
	Digest   string `json:"digest"`
}

// Result is how a started attempt went. Digest is of the whole content, size
// its bytes; content itself is kept up to 1 MiB.
type Result struct {
	Call    string          `json:"call"`
	Attempt int             `json:"attempt"`
	Run     string          `json:"run"`
	Status  Status          `json:"status"`
	Content json.RawMessage `json:"content,omitzero"`
	Size    uint64          `json:"size"`
	Digest  string          `json:"digest"`
}

// Lapse ends a question, an unspent allow (named by its decision) or a grant by itself.
type Lapse struct {
	Question string      `json:"question,omitzero"`
	Decision string      `json:"decision,omitzero"`
	Grant    string      `json:"grant,omitzero"`
	Reason   LapseReason `json:"reason"`
}

// Repair takes a broken session up again from its last valid commit before the break.
type Repair struct {
	Missing []uint64 `json:"missing"`
	Reason  string   `json:"reason"`
}

// PolicyBytes puts a policy's bytes on the policy chain.
type PolicyBytes struct {
	Bytes  string `json:"bytes"` // standard base64
	Digest string `json:"digest"`
}

// Activate makes a digest the current one of a policy name.
type Activate struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// Type of each body.
func (*Opened) Type() Type      { return TypeOpened }
func (*Closed) Type() Type      { return TypeClosed }
func (*Ended) Type() Type       { return TypeEnded }
func (*Adopt) Type() Type       { return TypeAdopt }
func (*Call) Type() Type        { return TypeCall }
func (*Attach) Type() Type      { return TypeAttach }
func (*Detach) Type() Type      { return TypeDetach }
func (*Question) Type() Type    { return TypeQuestion }
func (*Answer) Type() Type      { return TypeAnswer }
func (*Decision) Type() Type    { return TypeDecision }
func (*Grant) Type() Type       { return TypeGrant }
func (*Revoke) Type() Type      { return TypeRevoke }
func (*Start) Type() Type       { return TypeStart }
func (*Result) Type() Type      { return TypeResult }
func (*Lapse) Type() Type       { return TypeLapse }
func (*Repair) Type() Type      { return TypeRepair }
func (*PolicyBytes) Type() Type { return TypePolicy }
func (*Activate) Type() Type    { return TypeActivate }

// NewPolicyBytes is the event that puts raw policy bytes on the policy chain.
func NewPolicyBytes(raw []byte) *PolicyBytes {
	return &PolicyBytes{Bytes: base64.StdEncoding.EncodeToString(raw), Digest: Digest(raw)}
}
