package journal

// A spec is one row of the table of events: its body, who may write it, on
// which chain it stands, and its fold. The schema is the body's Go type, and
// the same as text in package schemas; a test holds the two against each other.
type spec struct {
	kind   Type
	roles  []Role
	policy bool // stands on the policy chain, else on a session's
	both   bool // stands on either
	body   func() Body
	fold   func(*judge, Event) error
}

// row builds a spec whose fold takes the typed body.
func row[B any, P interface {
	*B
	Body
}](policy bool, fold func(*judge, string, P) error, roles ...Role) spec {
	var zero P
	return spec{
		kind:   zero.Type(),
		roles:  append(roles, RoleAdmin),
		policy: policy,
		body:   func() Body { return P(new(B)) },
		fold:   func(j *judge, e Event) error { return fold(j, e.ID, e.Body.(P)) },
	}
}

func onBoth(s spec) spec {
	s.both = true
	return s
}

// table is the table of events. A decider may write all that an agent may,
// for a run it names; an admin may write all.
func table() []spec {
	return []spec{
		row(false, (*judge).opened, RoleAgent, RoleDecider),
		row(false, (*judge).closed, RoleAgent, RoleDecider),
		row(false, (*judge).ended, RoleDecider),
		row(false, (*judge).adopt, RoleDecider),
		row(false, (*judge).call, RoleAgent, RoleDecider),
		row(false, (*judge).attach, RoleAgent, RoleDecider),
		row(false, (*judge).detach, RoleAgent, RoleDecider),
		row(false, (*judge).question, RoleDecider),
		row(false, (*judge).answer, RoleApprover),
		row(false, (*judge).decision, RoleDecider),
		row(false, (*judge).grant, RoleDecider),
		row(false, (*judge).revoke, RoleApprover),
		row(false, (*judge).start, RoleAgent, RoleDecider),
		row(false, (*judge).result, RoleAgent, RoleDecider),
		row(false, (*judge).lapse, RoleDecider),
		onBoth(row(false, (*judge).repair)),
		row(true, (*judge).policyBytes, RoleDecider),
		row(true, (*judge).activate, RoleDecider),
	}
}

var specs = func() map[Type]spec {
	m := map[Type]spec{}
	for _, s := range table() {
		m[s.kind] = s
	}
	return m
}()

func specOf(t Type) (spec, bool) {
	s, ok := specs[t]
	return s, ok
}

// Types lists the event types of version 1, in the order of the table.
func Types() []Type {
	var list []Type
	for _, s := range table() {
		list = append(list, s.kind)
	}
	return list
}

// MayWrite reports whether role may write events of type t.
func MayWrite(role Role, t Type) bool {
	s, _ := specOf(t)
	return s.allows(role)
}

// NewBody returns an empty body of type t, or nil if t is unknown.
func NewBody(t Type) Body {
	if s, ok := specOf(t); ok {
		return s.body()
	}
	return nil
}

func (s spec) allows(role Role) bool {
	for _, r := range s.roles {
		if r == role {
			return true
		}
	}
	return false
}
