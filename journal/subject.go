package journal

import (
	"fmt"
	"strings"
)

// Role is what a writer may write; the table of events says which types. The
// zero Role may write nothing.
type Role string

// The roles, as they stand in subjects.
const (
	RoleAgent    Role = "agent"
	RoleDecider  Role = "decider"
	RoleApprover Role = "approver"
	RoleAdmin    Role = "admin"
	RoleAuditor  Role = "auditor" // reads only
)

// Known reports whether r is one of the roles above.
func (r Role) Known() bool {
	switch r {
	case RoleAgent, RoleDecider, RoleApprover, RoleAdmin, RoleAuditor:
		return true
	}
	return false
}

// MaxNameLen is the longest session, agent, actor, layer or policy name, in bytes.
const MaxNameLen = 64

// ValidName reports whether s may name a session, an agent, an actor or a
// policy: 1 to 64 of [A-Za-z0-9_-].
func ValidName(s string) bool {
	if s == "" || len(s) > MaxNameLen {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !nameByte(s[i]) {
			return false
		}
	}
	return true
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// CheckName returns nil if s is a valid name, else an error that says what
// (kind) is wrong with it.
func CheckName(kind, s string) error {
	if ValidName(s) {
		return nil
	}
	return fmt.Errorf("%s %q: use 1 to %d of A-Z a-z 0-9 _ -", kind, s, MaxNameLen)
}

// NameFrom makes a name of free text, such as a file's base name: every other
// character becomes "-", and the result is cut to max bytes. It is "" only if
// s is.
func NameFrom(s string, max int) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() == max {
			break
		}
		if r < 128 && nameByte(byte(r)) {
			b.WriteByte(byte(r))
		} else {
			b.WriteByte('-')
		}
	}
	return b.String()
}

// Subject grammar: journal.s.<session>.<role>.<actor> and
// journal.policy.<role>.<actor>. journal.checkpoint.… is reserved.
const (
	subjectRoot   = "journal"
	sessionPrefix = subjectRoot + ".s."
	policyPrefix  = subjectRoot + ".policy"

	// AllSubjects matches every message of a journal.
	AllSubjects = subjectRoot + ".>"
	// AllSessions matches every message of every session.
	AllSessions = sessionPrefix + ">"
	// PolicySession is the session name in commits of the policy chain.
	PolicySession = "policy"
)

// Chain names one hash chain: a session's, or the policy chain. The zero Chain
// is neither and matches nothing.
type Chain struct {
	session string
	policy  bool
}

// SessionChain is the chain of the session called name. A name that is not
// valid gives the zero Chain, which no Log accepts.
func SessionChain(name string) Chain {
	if !ValidName(name) {
		return Chain{}
	}
	return Chain{session: name}
}

// PolicyChain is the chain of policies and activations.
func PolicyChain() Chain { return Chain{session: PolicySession, policy: true} }

// Valid reports whether c names a chain.
func (c Chain) Valid() bool { return c.session != "" }

// Session is the name that commits of the chain carry.
func (c Chain) Session() string { return c.session }

// IsPolicy reports whether c is the policy chain.
func (c Chain) IsPolicy() bool { return c.policy }

// Filter is the subject filter of the chain; appends are compare-and-swap on it.
func (c Chain) Filter() string { return c.prefix() + ">" }

func (c Chain) prefix() string {
	if c.policy {
		return policyPrefix + "."
	}
	return sessionPrefix + c.session + "."
}

// String is the session's name, or "policy chain".
func (c Chain) String() string {
	if c.policy {
		return "policy chain"
	}
	return c.session
}

// Subject is where one writer appends to one chain.
type Subject struct {
	Chain Chain
	Role  Role
	Actor string
}

// String is the subject as the broker sees it.
func (s Subject) String() string {
	return s.Chain.prefix() + string(s.Role) + "." + s.Actor
}

// ParseSubject reads a subject. It fails on anything that String would not
// have made, unknown roles included.
func ParseSubject(text string) (Subject, error) {
	bad := func() (Subject, error) { return Subject{}, fmt.Errorf("subject %q is not of a journal", text) }
	parts := strings.Split(text, ".")
	if len(parts) < 4 || parts[0] != subjectRoot {
		return bad()
	}
	s := Subject{Role: Role(parts[len(parts)-2]), Actor: parts[len(parts)-1]}
	switch {
	case parts[1] == "s" && len(parts) == 5:
		s.Chain = SessionChain(parts[2])
	case parts[1] == "policy" && len(parts) == 4:
		s.Chain = PolicyChain()
	}
	if !s.Chain.Valid() || !s.Role.Known() || !ValidName(s.Actor) {
		return bad()
	}
	return s, nil
}

// PublishSubjects are the subjects that the principal role.actor may publish
// to: its own in every session, and in the policy chain where its role writes
// there. An auditor has none.
func PublishSubjects(role Role, actor string) []string {
	if role == RoleAuditor || !role.Known() || !ValidName(actor) {
		return nil
	}
	own := []string{sessionPrefix + "*." + string(role) + "." + actor}
	if role == RoleDecider || role == RoleAdmin {
		own = append(own, policyPrefix+"."+string(role)+"."+actor)
	}
	return own
}

// PresenceSubject is where a live run or a connected frontend answers pings:
// presence.<session>.<role>.<actor>; with a zero Chain in every session, with
// Actor "" whoever has the role (presence.<session>.<role>).
func PresenceSubject(s Subject) string {
	session := s.Chain.session
	if session == "" {
		session = "*"
	}
	subject := "presence." + session + "." + string(s.Role)
	if s.Actor != "" {
		subject += "." + s.Actor
	}
	return subject
}
