package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// FuzzGrantsFile reads files of grants: each that is taken decides something,
// says where it came from, and can be stored.
func FuzzGrantsFile(f *testing.F) {
	for _, text := range []string{
		`[]`, `null`, plainGrants, `[{"rules":[{"decision":"allow","tool":"a","under":"b"}],"layer":"l","expires":"2030-01-01T00:00:00.000000000Z","uses":2}]`,
		`[{"rules":[{"decision":"ask","tool":"a"}]}]`, `[{"uses":-1,"rules":[{"decision":"deny","tool":"*"}]}]`, `{"rules":[]}`, `[{"rules":null}]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		grants, err := parseGrants("dir/grants.json", raw)
		if err != nil {
			if exitCode(err) != exitMisuse || bytes.ContainsRune([]byte(err.Error()), '\n') {
				t.Fatalf("it says %q", err)
			}
			return
		}
		for _, g := range grants {
			if len(g.Rules) == 0 || g.Origin == nil || g.Origin.Import != "grants.json" {
				t.Fatalf("%s gives %+v", raw, g)
			}
			for _, r := range g.Rules {
				if rule, err := policy.ParseRule(r); err != nil || rule.Decision == policy.Ask {
					t.Fatalf("%s gives the rule %s: %v", raw, r, err)
				}
			}
			storable(t, &g)
		}
	})
}

var someTime = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// storable holds that a grant that was read is one that a journal takes.
func storable(t *testing.T, g *journal.Grant) {
	t.Helper()
	commit := journal.Commit{Session: "s", N: 1, Role: journal.RoleDecider, Actor: "d", Time: journal.At(someTime),
		Events: []journal.Event{journal.NewEvent("01JDXX5ZQ0F2N6M4T8V1W3Y5Z7", g)}}
	data, err := commit.Encode()
	if err == nil {
		_, err = journal.Decode(data)
	}
	if err != nil {
		text, _ := json.Marshal(g)
		t.Fatalf("%s cannot be stored: %v", text, err)
	}
}
