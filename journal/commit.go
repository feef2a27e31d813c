package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/oklog/ulid/v2"
)

// Version is the envelope version this program writes and reads.
const Version = 1

// Commit is one stored message: 1 to m events of one session that become true
// together, or not at all.
type Commit struct {
	Session string
	N       uint64 // counts the session's valid commits from 1
	After   uint64 // stream sequence of the session's previous message, valid or not
	Prev    string // digest of the previous valid commit's bytes; "" for the first
	Role    Role
	Actor   string
	Time    Time
	Events  []Event
}

// Event is one thing that happened. Its id is a ULID, unique in the session.
type Event struct {
	ID   string
	Info bool            // may be of unknown type and never affects permission
	Body Body            // nil for an info event
	Raw  json.RawMessage // the whole event of an info event
	Kind Type
}

// NewEvent makes an event of body. The id is stamped by the appender.
func NewEvent(id string, body Body) Event { return Event{ID: id, Body: body, Kind: body.Type()} }

// envelope is the wire form of a commit.
type envelope struct {
	V       uint64            `json:"v"`
	Session string            `json:"session"`
	N       uint64            `json:"n"`
	After   uint64            `json:"after"`
	Prev    string            `json:"prev"`
	Role    string            `json:"role"`
	Actor   string            `json:"actor"`
	Time    Time              `json:"time"`
	Events  []json.RawMessage `json:"events"`
}

// Encode is the commit in canonical JSON. It fails on what no journal may
// hold: invalid UTF-8, raw members that are not JSON, nesting beyond MaxDepth.
func (c *Commit) Encode() ([]byte, error) {
	e := envelope{Version, c.Session, c.N, c.After, c.Prev, string(c.Role), c.Actor, c.Time, nil}
	for _, ev := range c.Events {
		b, err := ev.encode()
		if err != nil {
			return nil, fmt.Errorf("%s event: %w", ev.Kind, err)
		}
		e.Events = append(e.Events, b)
	}
	b, err := encode(nil, reflect.ValueOf(e))
	if err != nil {
		return nil, err
	}
	if !IsCanonical(b) { // members that nest as deep as they may are too deep in a commit
		return Canonical(b)
	}
	return b, nil
}

func (e Event) encode() ([]byte, error) {
	if e.Info {
		return Canonical(e.Raw)
	}
	if e.Body == nil {
		return nil, errors.New("no body")
	}
	return encodeStruct(nil, reflect.ValueOf(e.Body).Elem(),
		member{"id", appendString(nil, e.ID)},
		member{"type", appendString(nil, string(e.Body.Type()))})
}

// InfoEvent makes an event of a type this program need not know. Body is a
// JSON object; the members id, type and info are added to it.
func InfoEvent(id, kind string, body json.RawMessage) (Event, error) {
	c, err := Canonical(body)
	if err != nil {
		return Event{}, err
	}
	members, err := split(c)
	if err != nil {
		return Event{}, err
	}
	members = append(members, member{"id", appendString(nil, id)},
		member{"info", []byte("true")}, member{"type", appendString(nil, kind)})
	raw, err := appendObject(nil, members, &reader{})
	return Event{ID: id, Info: true, Raw: raw, Kind: Type(kind)}, err
}

// Decode reads a commit's bytes. It accepts exactly what Encode makes; what it
// cannot read, and whether a newer program could, is in the error.
func Decode(b []byte) (*Commit, error) {
	c, bad := decodeCommit(b)
	if bad != nil {
		return nil, bad
	}
	return c, nil
}

// IsNewer reports whether err, from Decode, says that a newer program wrote the bytes.
func IsNewer(err error) bool {
	var m *misfit
	return errors.As(err, &m) && m.newer
}

func decodeCommit(b []byte) (*Commit, *misfit) {
	if !IsCanonical(b) {
		return nil, misfitf("", "not canonical JSON")
	}
	if m := otherVersion(b); m != nil {
		return nil, m
	}
	var e envelope
	bad := decodeStruct(b, reflect.ValueOf(&e).Elem())
	if bad != nil && bad.newer {
		return nil, bad
	}
	events, badEvent := decodeEvents(e.Events)
	if badEvent != nil && badEvent.newer || bad == nil {
		bad = badEvent
	}
	if bad != nil {
		return nil, bad
	}
	return &Commit{e.Session, e.N, e.After, e.Prev, Role(e.Role), e.Actor, e.Time, events}, nil
}

// otherVersion refuses a body that says it is of another version, whatever
// else it holds.
func otherVersion(b []byte) *misfit {
	if bytes.HasSuffix(b, []byte(`,"v":1}`)) { // the last member, as in most commits
		return nil
	}
	m, err := membersOf(b)
	if err != nil {
		return misfitf("", "%v", err)
	}
	for m.next() {
		if string(m.key) == "v" && string(m.value) != "1" {
			return &misfit{path: "v", text: fmt.Sprintf("version %s is unknown to this program", m.value), newer: true}
		}
	}
	return nil
}

func decodeEvents(raw []json.RawMessage) ([]Event, *misfit) {
	if len(raw) == 0 {
		return nil, misfitf("events", "a commit holds at least one event")
	}
	events := make([]Event, len(raw))
	var wrong *misfit
	for i, b := range raw {
		bad := decodeEvent(b, &events[i])
		if bad != nil {
			bad = bad.in(fmt.Sprintf("events[%d]", i))
			if bad.newer {
				return nil, bad
			}
			wrong = first(wrong, bad)
		}
	}
	return events, wrong
}

func decodeEvent(b []byte, e *Event) *misfit {
	m, err := membersOf(b)
	if err != nil {
		return misfitf("", "%v", err)
	}
	var kind string
	var info []byte
	for m.next() {
		switch string(m.key) {
		case "id":
			e.ID, _ = text(m.value)
		case "type":
			kind, _ = text(m.value)
		case "info":
			info = m.value
		}
	}
	e.Kind = Type(kind)
	spec, known := specOf(e.Kind)
	switch {
	case kind == "":
		return misfitf("type", "want a type")
	case !known && string(info) != "true":
		return &misfit{path: "type", text: fmt.Sprintf("%q is unknown to this program", kind), newer: true}
	case info != nil && string(info) != "true":
		return misfitf("info", "want true, or nothing")
	case info != nil && known:
		return misfitf("info", "an event of type %s is not informational", kind)
	case info != nil:
		e.Info, e.Raw = true, json.RawMessage(b)
		return checkID(e.ID)
	}
	e.Body = spec.body()
	if bad := decodeStruct(b, reflect.ValueOf(e.Body).Elem(), "id", "type"); bad != nil {
		return bad
	}
	return checkID(e.ID)
}

func checkID(id string) *misfit {
	if u, err := ulid.ParseStrict(id); err != nil || u.String() != id {
		return misfitf("id", "want a ULID")
	}
	return nil
}
