package journal_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"decisionjournal/journal"
)

const someID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// TestStoredBytes fixes the stored form: the bytes below must stay readable for ever.
func TestStoredBytes(t *testing.T) {
	commit := journal.Commit{
		Session: "s", N: 2, After: 7, Prev: journal.Digest([]byte("x")), Role: journal.RoleAgent, Actor: "bot",
		Time: journal.At(time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))),
		Events: []journal.Event{journal.NewEvent(someID, &journal.Call{
			Agent: "main", Run: "r1", Kind: journal.CallTool, Tool: "fs_read", Arguments: json.RawMessage(`{ "path": "\u0061", "n": 1.0 }`),
			Digest: "sha256:" + strings.Repeat("0", 64), Key: "b/1",
		})},
	}
	const want = `{"actor":"bot","after":7,"events":[{"agent":"main","arguments":{"n":1.0,"path":"a"},` +
		`"digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","id":"01ARZ3NDEKTSV4RRFFQ69G5FAV",` +
		`"key":"b/1","kind":"tool","layer":"","run":"r1","tool":"fs_read","type":"call"}],"n":2,` +
		`"prev":"sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",` +
		`"role":"agent","session":"s","time":"2026-01-02T02:04:05.000000006Z","v":1}`
	got, err := commit.Encode()
	if err != nil || string(got) != want {
		t.Errorf("Encode = %s, %v\nwant %s", got, err, want)
	}
}

func TestEncodeRefuses(t *testing.T) {
	commit := func(body journal.Body) *journal.Commit {
		return &journal.Commit{Session: "s", N: 1, Role: journal.RoleAgent, Actor: "a", Time: at(0), Events: []journal.Event{journal.NewEvent(someID, body)}}
	}
	for _, tt := range []struct {
		name   string
		commit *journal.Commit
	}{
		{"invalid UTF-8", commit(&journal.Ended{Reason: "\xff"})},
		{"raw that is no JSON", commit(&journal.Call{Arguments: json.RawMessage("{")})},
		{"raw with a key twice", commit(&journal.Call{Arguments: json.RawMessage(`{"a":1,"a":1}`)})},
		{"raw missing", commit(&journal.Call{})},
		{"negative number", commit(&journal.Question{Attempt: -1})},
		{"number over 2^53-1", commit(&journal.Result{Size: 1 << 53})},
		{"event without body", &journal.Commit{Time: at(0), Events: []journal.Event{{ID: someID}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if b, err := tt.commit.Encode(); err == nil {
				t.Errorf("Encode = %s", b)
			}
		})
	}
}

func TestDecodeTakesOneSpellingOnly(t *testing.T) {
	const good = `{"actor":"a","after":0,"events":[{"call":"c","id":"` + someID + `","run":"r","type":"attach"}],"n":1,"prev":"","role":"agent","session":"s","time":"2026-01-02T03:04:05.000000000Z","v":1}`
	if _, err := journal.Decode([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, old, new string }{
		{"a blank", `"n":1`, `"n": 1`},
		{"keys out of order", `"call":"c","id":"` + someID + `"`, `"id":"` + someID + `","call":"c"`},
		{"a long escape", `"session":"s"`, `"session":"\u0073"`},
		{"a key twice", `"v":1`, `"v":1,"v":1`},
		{"a number with decimals", `"n":1`, `"n":1.0`},
		{"a number with an exponent", `"n":1`, `"n":1e0`},
		{"minus zero", `"after":0`, `"after":-0`},
		{"an optional member with its zero value", `"run":"r"`, `"retry":false,"run":"r"`},
		{"text after it", `"v":1}`, `"v":1}{}`},
		{"a capital T in lower case", `2026-01-02T`, `2026-01-02t`},
		{"a comma for the point", `05.000000000Z`, `05,000000000Z`},
		{"the time that stands for none", `2026-01-02T03:04:05`, `0001-01-01T00:00:00`},
		{"an id in lower case", someID, strings.ToLower(someID)},
		{"an id out of range", someID, "8" + someID[1:]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := strings.Replace(good, tt.old, tt.new, 1)
			if in == good {
				t.Fatal("nothing was changed")
			}
			if _, err := journal.Decode([]byte(in)); err == nil || journal.IsNewer(err) {
				t.Errorf("Decode: %v", err)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range goldenMessages(f) {
		f.Add([]byte(m.Data))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		commit, err := journal.Decode(in)
		if err != nil {
			return
		}
		out, err := commit.Encode()
		if err != nil || !bytes.Equal(in, out) {
			t.Fatalf("decoded and encoded again: %s, %v\nwas %s", out, err, in)
		}
	})
}

func TestTimeJSON(t *testing.T) {
	want := at(1500 * time.Millisecond)
	b, err := json.Marshal(want)
	if err != nil || string(b) != `"2026-03-01T09:00:01.500000000Z"` {
		t.Fatalf("%s, %v", b, err)
	}
	var got journal.Time
	if err := json.Unmarshal(b, &got); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{`"2026-03-01T09:00:01.5Z"`, `1`, `""`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s is a time", bad)
		}
	}
}
