// Package schemas holds the JSON Schemas (draft 2020-12) of what a journal
// stores: one file for each event type, and commit.json for the envelope around
// them. They are for those who read or write journals in another program.
//
// A commit outside its schema has no effect on a session. The reverse does not
// hold: most of what makes a commit valid depends on the commits before it,
// lengths are in bytes where a schema can only count characters, and every
// value has one spelling only.
//
// Files refer to each other by their $id, urn:decisionjournal:schema:v1:<name>.
package schemas

import "embed"

// FS holds <type>.json for every event type, and commit.json.
//
//go:embed *.json
var FS embed.FS

const envelope = "commit"

// Event is the schema of the events of a type. The bool is false if version 1
// has no such type. The bytes are the caller's own.
func Event(eventType string) ([]byte, bool) {
	if eventType == envelope {
		return nil, false
	}
	b, err := FS.ReadFile(eventType + ".json")
	return b, err == nil
}

// Commit is the schema of a commit. It refers to those of the events.
func Commit() []byte {
	b, err := FS.ReadFile(envelope + ".json")
	if err != nil {
		panic(err) // embedded above
	}
	return b
}
