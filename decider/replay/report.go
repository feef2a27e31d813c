package replay

import (
	"fmt"
	"strings"
)

// Report is what an audit found. Its order is that of the journal, so that the
// same journal gives the same report.
type Report struct {
	Clean    bool            `json:"clean"` // no fault at all
	Sessions []SessionReport `json:"sessions"`
	// Faults are those of the journal as a whole: sequences that cannot be
	// read and that no repair accounts for, or that stand in no chain.
	// FaultCount counts all of them.
	Faults     []Fault `json:"faults"`
	FaultCount int     `json:"fault_count"`
	// Anomalies are messages that stand in no chain and that an agent's key
	// can store. AnomalyCount counts all of them.
	Anomalies    []Fault `json:"anomalies"`
	AnomalyCount int     `json:"anomaly_count"`
}

func (r *Report) anomaly(f Fault) {
	r.AnomalyCount++
	if len(r.Anomalies) < maxListed {
		r.Anomalies = append(r.Anomalies, f)
	}
}

// fault adds a fault of the journal as a whole.
func (r *Report) fault(f Fault) {
	r.Clean = false
	r.FaultCount++
	if len(r.Faults) < maxListed {
		r.Faults = append(r.Faults, f)
	}
}

// SessionReport is what an audit found in one chain.
type SessionReport struct {
	Session   string `json:"session"`   // "policy chain" for that one, which is no session's name
	Condition string `json:"condition"` // at its head: "whole", "broken", "too new"
	Commits   uint64 `json:"commits"`   // valid ones
	Events    int    `json:"events"`
	// Decisions counts the decisions, questions, grants, lapses and adoptions,
	// Derived those of them that follow from what stood before them.
	Decisions int `json:"decisions"`
	Derived   int `json:"derived"`
	// EngineChanged counts those made by another engine than this program's.
	// Their recorded facts were judged again, their arguments were not.
	EngineChanged int `json:"engine_changed"`
	// Anomalies are messages without effect that say nothing against the
	// chain: a writer tried what it may not. AnomalyCount counts all of them.
	Anomalies    []Fault `json:"anomalies"`
	AnomalyCount int     `json:"anomaly_count"`
	// Faults are what speaks against the record. FaultCount counts all of them.
	Faults     []Fault `json:"faults"`
	FaultCount int     `json:"fault_count"`
}

// maxListed bounds what hostile writers can make a report hold, for each
// session and kind; the counts go on.
const maxListed = 1000

func (r *SessionReport) fault(f Fault) {
	r.FaultCount++
	if len(r.Faults) < maxListed {
		r.Faults = append(r.Faults, f)
	}
}

func (r *SessionReport) anomaly(f Fault) {
	r.AnomalyCount++
	if len(r.Anomalies) < maxListed {
		r.Anomalies = append(r.Anomalies, f)
	}
}

// Fault is one thing that is not as it must be.
type Fault struct {
	Session string `json:"session,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Call    string `json:"call,omitempty"`
	N       uint64 `json:"n"`   // the commit, 0 if it is none
	Seq     uint64 `json:"seq"` // the message
	// Event is the type of the event, or "commit", or "journal".
	Event string `json:"event"`
	ID    string `json:"id,omitempty"` // of the event
	// Field is the member that is wrong, dotted where it stands inside another.
	Field string `json:"field"`
	Want  string `json:"want,omitempty"`
	Got   string `json:"got,omitempty"`
	Text  string `json:"text"`
}

// What Fault.Event is when it is no event's type.
const (
	EventCommit  = "commit"
	EventJournal = "journal"
)

// String is the fault on one line. Parts of it may come from agents.
func (f Fault) String() string {
	var b strings.Builder
	if f.Session != "" {
		fmt.Fprintf(&b, "%s: ", f.Session)
	}
	fmt.Fprintf(&b, "message %d", f.Seq)
	if f.N > 0 {
		fmt.Fprintf(&b, ", n %d", f.N)
	}
	fmt.Fprintf(&b, ", %s", f.Event)
	if f.Call != "" {
		fmt.Fprintf(&b, " about call %s of agent %s", f.Call, f.Agent)
	}
	fmt.Fprintf(&b, ": %s: %s", f.Field, f.Text)
	if f.Want != "" || f.Got != "" {
		fmt.Fprintf(&b, " (want %s, got %s)", orNothing(f.Want), orNothing(f.Got))
	}
	return b.String()
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return clip(s)
}
