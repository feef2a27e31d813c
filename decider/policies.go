package decider

import (
	"fmt"
	"maps"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// Policies are the policies a decider has, by digest, and which of them is
// active under a name. Reading may run concurrently; Update and Add need it to
// themselves. The zero Policies has none, and with none nothing is decided.
type Policies struct {
	parsed map[string]*policy.Policy
	failed map[string]error
	active map[string]*journal.Activation
}

// Update takes over what the policy chain holds. Policies are parsed once.
func (p *Policies) Update(st *journal.State) {
	p.init()
	for _, have := range st.Policies() {
		if p.parsed[have.Digest] != nil || p.failed[have.Digest] != nil {
			continue
		}
		raw, err := have.Decode()
		if err == nil {
			p.parsed[have.Digest], err = policy.Parse(have.Digest[:19], raw)
		}
		if err != nil {
			p.failed[have.Digest] = err
			delete(p.parsed, have.Digest)
		}
	}
	for _, a := range st.Activations() {
		p.active[a.Name] = a
	}
}

// Add makes a policy known that may not be on the policy chain.
func (p *Policies) Add(pol *policy.Policy) {
	p.init()
	p.parsed[pol.Digest()] = pol
}

func (p *Policies) init() {
	if p.parsed == nil {
		p.parsed, p.failed, p.active = map[string]*policy.Policy{}, map[string]error{}, map[string]*journal.Activation{}
	}
}

// Get is the policy with this digest. The error says why there is none.
func (p *Policies) Get(digest string) (*policy.Policy, error) {
	switch pol := p.parsed[digest]; {
	case digest == "":
		return nil, fmt.Errorf("no policy is adopted: adopt one with decider run --policy FILE")
	case pol != nil:
		return pol, nil
	case p.failed[digest] != nil:
		return nil, fmt.Errorf("policy %s cannot be read by this program: %w", digest, p.failed[digest])
	}
	return nil, fmt.Errorf("policy %s is not in the journal: activate it with decider policy activate", digest)
}

// Active is what is active under a name, or nil.
func (p *Policies) Active(name string) *journal.Activation { return p.active[name] }

// founded refuses an adoption that no activation stands behind. One that names
// an activation yet to come would keep its session from every one before that.
func (p *Policies) founded(a *journal.Adoption) error {
	if a.Name == "" {
		return nil
	}
	newest := p.active[a.Name]
	if newest == nil || a.Activation > newest.Mark.Seq || a.Activation == newest.Mark.Seq && a.Digest != newest.Digest {
		return fmt.Errorf("%s adopted activation %d of policy %s, which the policy chain does not have: nothing is decided under it; use another session", a.Mark.By, a.Activation, a.Name)
	}
	return nil
}

// clone is a copy that later Updates do not change. Policies themselves never change.
func (p *Policies) clone() *Policies {
	return &Policies{maps.Clone(p.parsed), maps.Clone(p.failed), maps.Clone(p.active)}
}
