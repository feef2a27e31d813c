package journal

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Principal is who wrote something: a role and an actor's name.
type Principal struct {
	Role  Role
	Actor string
}

// String is role.actor.
func (p Principal) String() string { return string(p.Role) + "." + p.Actor }

// Mark is where and when an event became true, and who wrote it.
type Mark struct {
	ID   string
	N    uint64 // its commit
	I    int    // its place in the commit, from 0
	Seq  uint64 // its message
	Time Time   // its commit's time
	By   Principal
}

// RunState is a run as the chain leaves it.
type RunState struct {
	Opened
	Mark  Mark
	Live  bool
	Ended string // "closed", "takeover", "ended"; "" while live
}

// Progress is how far an attempt came. The zero Progress is open: undecided.
type Progress uint8

// An attempt is open, then denied or allowed (unspent), then started, and then
// finished or of unknown outcome; or it ends without effect.
const (
	Open     Progress = iota
	Denied            // by its decision
	Allowed           // unspent
	Started           // by a run that lives; no result yet
	Finished          // result ok or error; of an elicitation, accepted
	Unknown           // started, and whether it took effect is not known
	Void              // ended without effect: lapsed, withdrawn, repaired, session ended, or overtaken by a late result
)

// String names the progress.
func (p Progress) String() string {
	return [...]string{"open", "denied", "allowed", "started", "finished", "unknown", "void"}[p]
}

// Attempt is one passage of a call through judging.
type Attempt struct {
	No           int // from 1
	Progress     Progress
	AfterUnknown bool   // an earlier attempt started, or may have, and its outcome is unknown
	Question     string // id, or ""
	Decision     string // id, or ""
	Start        string // id, or ""; empty again after a not-run result
	StartRun     string
	Result       *Result // the last one, or nil
	ResultMark   Mark
	Late         bool // the result came after its run had ended
}

// CallState is a call as the chain leaves it.
type CallState struct {
	Call
	Mark       Mark
	Policy     string // digest adopted in its scope when it was written
	Waiter     string // the run that waits for it, or ""
	LastWaiter string // the last run that waited
	Attempts   []Attempt
	Due        bool // the next attempt opens with the next attach
	Withdrawn  bool
	Received   bool // an outcome reached a waiter
}

// Last is the newest attempt. Every call has one.
func (c *CallState) Last() *Attempt { return &c.Attempts[len(c.Attempts)-1] }

// Result is the attempt whose result is the call's, nil while it has none: the
// newest that was started, those of unknown outcome passed over. A call that was
// done is never run again only because of what is not known of a later attempt.
func (c *CallState) Result() *Attempt {
	for i := len(c.Attempts) - 1; i >= 0; i-- {
		switch a := &c.Attempts[i]; {
		case a.Start == "" || a.Progress == Unknown || a.Progress == Void:
		case a.Progress == Finished:
			return a
		default:
			return nil // it runs
		}
	}
	return nil
}

// Settled reports whether nothing more comes of the call by itself: it is
// finished, denied or withdrawn.
func (c *CallState) Settled() bool {
	p := c.Last().Progress
	return c.Withdrawn || c.Result() != nil || p == Finished || p == Denied
}

// Undecided reports whether a decider owes the call's newest attempt something.
func (c *CallState) Undecided() bool {
	return !c.Withdrawn && c.Last().Progress == Open
}

func (c *CallState) clone() *CallState {
	d := *c
	d.Attempts = slices.Clone(c.Attempts)
	return &d
}

// Vote is an answer with its mark.
type Vote struct {
	Answer
	Mark Mark
}

// QuestionState is a question as the chain leaves it.
type QuestionState struct {
	Question
	Mark    Mark
	Answers []Vote // in chain order; every one of them was valid
	Over    bool   // decided, lapsed or ended: no answer is valid any more
	Lapse   string // id of the lapse that ended it, or ""
}

func (q *QuestionState) clone() *QuestionState {
	d := *q
	d.Answers = slices.Clone(q.Answers)
	return &d
}

// DecisionState is a decision with its mark.
type DecisionState struct {
	Decision
	Mark Mark
}

// GrantState is a grant as the chain leaves it.
type GrantState struct {
	Grant
	Mark    Mark
	Used    int
	Ended   string // "revoked", a lapse's reason, "ended", "repaired"; "" while not ended
	EndMark Mark
}

// InForce reports whether the grant may settle calls at time now.
func (g *GrantState) InForce(now Time) bool {
	return g.Ended == "" && !g.expired(now) && !g.usedUp()
}

func (g *GrantState) expired(now Time) bool {
	return !g.Expires.IsZero() && !now.Before(g.Expires.Time)
}
func (g *GrantState) usedUp() bool { return g.Uses > 0 && g.Used >= g.Uses }

// Adoption is the policy that calls in a scope follow.
type Adoption struct {
	Adopt
	Mark Mark
}

// Scope is where an adoption applies; empty members mean every agent or layer.
type Scope struct{ Agent, Layer string }

// PolicyState is a policy's bytes on the policy chain.
type PolicyState struct {
	PolicyBytes
	Mark Mark
}

// Activation is a name's digest on the policy chain.
type Activation struct {
	Activate
	Mark Mark
}

// Anomaly is a message without effect, or what makes a session unfit.
type Anomaly struct {
	Seq     uint64
	Subject string
	Why     string
}

// Condition says whether a chain may be trusted and appended to.
type Condition uint8

// The conditions of a chain. Only a Whole one is ever appended to, but for a
// repair.
const (
	Whole  Condition = iota
	Broken           // a commit is missing: nothing is allowed or started
	TooNew           // a newer program wrote here: shown only
)

// String names the condition.
func (c Condition) String() string { return [...]string{"whole", "broken", "too new"}[c] }

// maxAnomalies bounds what hostile writers can make a state remember; the
// count goes on.
const maxAnomalies = 1000

// State is the fold of one chain: everything that is true of a session, or of
// the policy chain. It is built by Apply alone. Entities reached through it
// are never changed in place: a later commit puts a new one. Reading may run
// concurrently; Apply needs the State to itself.
type State struct {
	chain Chain

	n        uint64
	prev     string
	time     Time
	head     uint64 // sequence of the last valid commit
	last     uint64 // sequence of the last message, valid or not
	size     int    // bytes of all messages
	cond     Condition
	why      Anomaly
	ended    *Mark
	repaired uint64 // the last repair's commit, 0 if there is none
	first    Mark
	kind     SessionKind
	label    string
	follows  string
	ids      map[string]struct{}
	anomaly  []Anomaly
	voids    int
	runs     map[string]*RunState
	live     map[string]map[string]struct{} // agent -> live runs
	agents   map[string]string              // agent -> policy name it follows
	owners   map[string]Principal           // agent -> who first opened a run of it
	calls    map[string]*CallState
	keys     map[string]string // scoped key or ref -> call
	alike    map[string][]string
	held     map[string]map[string]struct{} // run -> calls it waits for or has started
	openSet  map[string]struct{}            // calls with something undecided or unspent
	quest    map[string]*QuestionState
	answers  map[string]string // answer id -> question id
	decs     map[string]*DecisionState
	decIDs   []string // in chain order
	grants   map[string]*GrantState
	grantIDs []string // in chain order
	limited  []string // grants that have an expiry or an origin, in chain order
	memoing  sync.Mutex
	memo     any
	adopted  map[Scope]*Adoption
	newest   map[string]uint64 // policy name -> activation last adopted
	policies map[string]*PolicyState
	active   map[string]*Activation
}

// NewState is the empty state of a chain.
func NewState(chain Chain) *State {
	return &State{
		chain: chain,
		ids:   map[string]struct{}{}, runs: map[string]*RunState{}, live: map[string]map[string]struct{}{},
		agents: map[string]string{}, owners: map[string]Principal{}, calls: map[string]*CallState{}, keys: map[string]string{}, alike: map[string][]string{},
		held: map[string]map[string]struct{}{}, openSet: map[string]struct{}{}, quest: map[string]*QuestionState{},
		answers: map[string]string{}, decs: map[string]*DecisionState{}, grants: map[string]*GrantState{},
		adopted: map[Scope]*Adoption{}, newest: map[string]uint64{},
		policies: map[string]*PolicyState{}, active: map[string]*Activation{},
	}
}

// Chain is the chain this is the state of.
func (s *State) Chain() Chain { return s.chain }

// N is how many valid commits the chain has.
func (s *State) N() uint64 { return s.n }

// Prev is the digest of the last valid commit's bytes, "" if there is none.
func (s *State) Prev() string { return s.prev }

// Time is the last valid commit's time.
func (s *State) Time() Time { return s.time }

// Head is the stream sequence of the last valid commit.
func (s *State) Head() uint64 { return s.head }

// LastSeq is the stream sequence of the last message, valid or not: what the
// next append expects.
func (s *State) LastSeq() uint64 { return s.last }

// Size is how many bytes the messages had that were folded, valid or not.
func (s *State) Size() int { return s.size }

// Condition says whether the chain may be trusted, and if not, why.
func (s *State) Condition() (Condition, Anomaly) { return s.cond, s.why }

// Anomalies are the first 1000 void messages, and how many there were in all.
func (s *State) Anomalies() ([]Anomaly, int) { return s.anomaly, s.voids }

// Ended is the mark of the event that ended the session, or nil.
func (s *State) Ended() *Mark { return s.ended }

// First is the mark of the event that began the session.
func (s *State) First() Mark { return s.first }

// Kind is what the session is for; "" before its first run.
func (s *State) Kind() SessionKind { return s.kind }

// Label is what the first run called the session.
func (s *State) Label() string { return s.label }

// Run is the run called id, or nil.
func (s *State) Run(id string) *RunState { return s.runs[id] }

// Runs are all runs, oldest first.
func (s *State) Runs() []*RunState {
	return sorted(s.runs, func(r *RunState) Mark { return r.Mark })
}

// LiveRuns are the live runs of an agent, oldest first.
func (s *State) LiveRuns(agent string) []*RunState {
	var list []*RunState
	for id := range s.live[agent] {
		list = append(list, s.runs[id])
	}
	slices.SortFunc(list, func(a, b *RunState) int { return compareMarks(a.Mark, b.Mark) })
	return list
}

// Call is the call with this id, or nil.
func (s *State) Call(id string) *CallState { return s.calls[id] }

// Calls are all calls, oldest first.
func (s *State) Calls() []*CallState {
	return sorted(s.calls, func(c *CallState) Mark { return c.Mark })
}

// OpenCalls are the calls with an undecided attempt, an unspent allow or a
// start without result, oldest first.
func (s *State) OpenCalls() []*CallState {
	list := make([]*CallState, 0, len(s.openSet))
	for id := range s.openSet {
		list = append(list, s.calls[id])
	}
	slices.SortFunc(list, func(a, b *CallState) int { return compareMarks(a.Mark, b.Mark) })
	return list
}

// ByKey is the call a key names in agent and layer, or nil.
func (s *State) ByKey(agent, layer, key string) *CallState {
	return s.calls[s.keys[scopedKey("key", agent, layer, key)]]
}

// ByRef is the call a host's own id names in agent and layer, or nil.
func (s *State) ByRef(agent, layer, ref string) *CallState {
	return s.calls[s.keys[scopedKey("ref", agent, layer, ref)]]
}

// Alike are the calls without key or ref of one identity, oldest first.
func (s *State) Alike(agent, layer, tool, digest string) []*CallState {
	var list []*CallState
	for _, id := range s.alike[scopedKey(agent, layer, tool, digest)] {
		list = append(list, s.calls[id])
	}
	return list
}

func scopedKey(parts ...string) string {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
		b = append(b, 0)
	}
	return string(b)
}

// Question is the question with this id, or nil.
func (s *State) Question(id string) *QuestionState { return s.quest[id] }

// Questions are all questions, oldest first.
func (s *State) Questions() []*QuestionState {
	return sorted(s.quest, func(q *QuestionState) Mark { return q.Mark })
}

// Decision is the decision with this id, or nil.
func (s *State) Decision(id string) *DecisionState { return s.decs[id] }

// RecentDecisions are the last n decisions, newest first.
func (s *State) RecentDecisions(n int) []*DecisionState {
	var list []*DecisionState
	for i := len(s.decIDs) - 1; i >= 0 && len(list) < n; i-- {
		list = append(list, s.decs[s.decIDs[i]])
	}
	return list
}

// Decisions are all decisions, in chain order.
func (s *State) Decisions() []*DecisionState {
	list := s.RecentDecisions(len(s.decIDs))
	slices.Reverse(list)
	return list
}

// Adopted is the policy that calls of agent in layer follow: the adoption for
// agent and layer, for the agent, for the layer, or for the session, the first
// there is; nil if there is none.
func (s *State) Adopted(agent, layer string) *Adoption {
	for _, scope := range Scopes(agent, layer) {
		if a := s.adopted[scope]; a != nil {
			return a
		}
	}
	return nil
}

// Scopes are the scopes a call of agent in layer may be in, narrowest first:
// the first that has an adoption is the one it follows.
func Scopes(agent, layer string) [4]Scope {
	return [4]Scope{{agent, layer}, {agent, ""}, {"", layer}, {"", ""}}
}

// Adoptions are the adoptions in force, by scope.
func (s *State) Adoptions() map[Scope]*Adoption { return maps.Clone(s.adopted) }

// Follows is the policy name the session follows, and those that single agents do.
func (s *State) Follows() (session string, agents map[string]string) {
	return s.follows, maps.Clone(s.agents)
}

// NewestAdopted is the activation last adopted under a policy name, 0 if none.
func (s *State) NewestAdopted(name string) uint64 { return s.newest[name] }

// Policy is the policy with this digest on the policy chain, or nil.
func (s *State) Policy(digest string) *PolicyState { return s.policies[digest] }

// Policies are all policies of the policy chain, oldest first.
func (s *State) Policies() []*PolicyState {
	return sorted(s.policies, func(p *PolicyState) Mark { return p.Mark })
}

// Active is the newest activation of a policy name, or nil.
func (s *State) Active(name string) *Activation { return s.active[name] }

// Activations are the newest activation of every name, oldest first.
func (s *State) Activations() []*Activation {
	return sorted(s.active, func(a *Activation) Mark { return a.Mark })
}

// MarkHoles tells an open session which sequences of the journal cannot be
// read. If its head lies before one, the lost commit may have been its own,
// and the session is broken. So is a policy chain of which nothing can be read;
// a session of which nothing can be read is one that is not there yet.
func (s *State) MarkHoles(holes []uint64) {
	if s.cond != Whole || s.n == 0 && !s.chain.policy || s.ended != nil {
		return
	}
	for _, h := range holes {
		if h > s.head {
			s.cond = Broken
			s.why = Anomaly{Seq: h, Why: "this sequence cannot be read, and may have held a commit of the session"}
			return
		}
	}
}

func sorted[T any](m map[string]T, mark func(T) Mark) []T {
	list := slices.Collect(maps.Values(m))
	slices.SortFunc(list, func(a, b T) int { return compareMarks(mark(a), mark(b)) })
	return list
}

func compareMarks(a, b Mark) int { return cmp.Or(cmp.Compare(a.N, b.N), cmp.Compare(a.I, b.I)) }
