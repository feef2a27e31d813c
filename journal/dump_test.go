package journal_test

import (
	"encoding/json"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"decisionjournal/journal"
)

// dump is everything a state says, but for the last sequence and the
// anomalies, which void messages change.
type dump struct {
	Session   string
	N         uint64
	Prev      string
	Time      journal.Time
	Head      uint64
	Condition string
	Why       journal.Anomaly
	Ended     *journal.Mark
	First     journal.Mark
	Kind      journal.SessionKind
	Label     string
	Follows   string
	Agents    map[string]string
	Runs      []runDump
	Calls     []callDump
	Open      []string // calls
	Questions []*journal.QuestionState
	Decisions []*journal.DecisionState
	Grants    []*journal.GrantState
	Adoptions []*journal.Adoption
	Newest    []uint64 // activations, of the adoptions' names
	Policies  []*journal.PolicyState
	Active    []*journal.Activation
}

type runDump struct {
	Run    *journal.RunState
	Listed bool // among its agent's live runs
}

// callDump spells out a call without what its types leave to numbers.
type callDump struct {
	Call       journal.Call
	Mark       journal.Mark
	Policy     string
	Waiter     string
	LastWaiter string
	Due        bool
	Withdrawn  bool
	Received   bool
	Settled    bool
	Undecided  bool
	ByKey      string // the call that its key names
	ByRef      string // the call that its ref names
	Alike      []string
	Result     int // the attempt that finished it, or 0
	Attempts   []attemptDump
}

type attemptDump struct {
	Progress string
	journal.Attempt
}

// dumpOf is the dump as JSON: a copy, so that a change in place shows.
func dumpOf(t rapid.TB, st *journal.State) string {
	b, err := json.MarshalIndent(takeDump(st), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func takeDump(st *journal.State) dump {
	cond, why := st.Condition()
	d := dump{
		Session: st.Chain().String(), N: st.N(), Prev: st.Prev(), Time: st.Time(), Head: st.Head(),
		Condition: cond.String(), Why: why, Ended: st.Ended(), First: st.First(), Kind: st.Kind(), Label: st.Label(),
		Questions: st.Questions(), Decisions: st.Decisions(), Grants: st.Grants(), Policies: st.Policies(), Active: st.Activations(),
	}
	d.Follows, d.Agents = st.Follows()
	for _, r := range st.Runs() {
		d.Runs = append(d.Runs, runDump{r, slices.Contains(st.LiveRuns(r.Agent), r)})
	}
	for _, c := range st.Calls() {
		d.Calls = append(d.Calls, dumpCall(st, c))
	}
	for _, c := range st.OpenCalls() {
		d.Open = append(d.Open, c.Mark.ID)
	}
	d.Adoptions = slices.SortedFunc(maps.Values(st.Adoptions()), func(a, b *journal.Adoption) int { return int(a.Mark.Seq) - int(b.Mark.Seq) })
	for _, a := range d.Adoptions {
		d.Newest = append(d.Newest, st.NewestAdopted(a.Name))
	}
	return d
}

func dumpCall(st *journal.State, c *journal.CallState) callDump {
	d := callDump{
		Call: c.Call, Mark: c.Mark, Policy: c.Policy, Waiter: c.Waiter, LastWaiter: c.LastWaiter, Due: c.Due,
		Withdrawn: c.Withdrawn, Received: c.Received, Settled: c.Settled(), Undecided: c.Undecided(),
	}
	if named := st.ByKey(c.Agent, c.Layer, c.Key); named != nil {
		d.ByKey = named.Mark.ID
	}
	if named := st.ByRef(c.Agent, c.Layer, c.Ref); named != nil {
		d.ByRef = named.Mark.ID
	}
	for _, other := range st.Alike(c.Agent, c.Layer, c.Tool, c.Digest) {
		d.Alike = append(d.Alike, other.Mark.ID)
	}
	if r := c.Result(); r != nil {
		d.Result = r.No
	}
	for _, a := range c.Attempts {
		d.Attempts = append(d.Attempts, attemptDump{a.Progress.String(), a})
	}
	return d
}
