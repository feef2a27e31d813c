package journal_test

import (
	"encoding/json"
	"testing"

	"decisionjournal/journal"
)

// BenchmarkDecode reads a commit of an agent that decides inline: a call, its
// decision and its start.
func BenchmarkDecode(b *testing.B) {
	data := speedCommit(b)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := journal.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode writes the same commit.
func BenchmarkEncode(b *testing.B) {
	commit, err := journal.Decode(speedCommit(b))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := commit.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

func speedCommit(b *testing.B) []byte {
	digest := journal.Digest([]byte("x"))
	commit := journal.Commit{
		Session: "batch-0a1b2c3d", N: 17, After: 4711, Prev: digest, Role: journal.RoleDecider, Actor: "decider", Time: at(0),
		Events: []journal.Event{
			journal.NewEvent(someID, &journal.Call{Agent: "main", Run: someID, Kind: journal.CallTool, Tool: "fs_read",
				Arguments: json.RawMessage(`{"path":"notes/17.txt"}`), Digest: digest, Key: "batch/17"}),
			journal.NewEvent(someID, &journal.Decision{Call: someID, Attempt: 1, Outcome: journal.Allow, Policy: digest, Engine: "rules/1", Digest: digest,
				By:    []journal.Cause{{Kind: journal.ByRule, Rule: json.RawMessage(`{"decision":"allow","tool":"fs_read"}`)}},
				Facts: json.RawMessage(`{"paths":[{"param":"path","path":"notes/17.txt"}],"root":""}`), Message: "Allowed by a rule."}),
			journal.NewEvent(someID, &journal.Start{Call: someID, Attempt: 1, Run: someID, Decision: someID, Digest: digest}),
		},
	}
	data, err := commit.Encode()
	if err != nil {
		b.Fatal(err)
	}
	return data
}
