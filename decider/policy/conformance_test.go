package policy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const vectorDir = "../../testdata/conformance"

// vector is one line of a conformance file.
type vector struct {
	line []byte
	Name string `json:"name"`
	Want struct {
		Error      bool            `json:"error"`
		Decision   *Decision       `json:"decision"`
		Reason     *Reason         `json:"reason"`
		Rule       json.RawMessage `json:"rule"`
		Paths      *[]string       `json:"paths"`
		Suggestion json.RawMessage `json:"suggestion"`
	} `json:"want"`
}

type verdictLine struct {
	Error      string          `json:"error"`
	Decision   Decision        `json:"decision"`
	Reason     Reason          `json:"reason"`
	Rule       json.RawMessage `json:"rule"`
	Paths      []string        `json:"paths"`
	Suggestion json.RawMessage `json:"suggestion"`
}

func readVectors(t testing.TB, file string) []vector {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectorDir, file))
	if err != nil {
		t.Fatal(err)
	}
	var out []vector
	for sc := newLineScanner(b); sc.Scan(); {
		v := vector{line: bytes.Clone(sc.Bytes())}
		if err := json.Unmarshal(v.line, &v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, v)
	}
	return out
}

func newLineScanner(b []byte) *bufio.Scanner {
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 1<<20)
	return sc
}

func evalVector(t *testing.T, v vector) verdictLine {
	t.Helper()
	out := EvalLine(nil, v.line)
	var got verdictLine
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: output is not one JSON line: %v\n%s", v.Name, err, out)
	}
	if bytes.ContainsRune(out, '\n') {
		t.Errorf("%s: output holds a newline", v.Name)
	}
	return got
}

// sameJSON compares two JSON texts as values; nil is the absent one.
func sameJSON(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	var x, y any
	for _, p := range []struct {
		raw json.RawMessage
		to  *any
	}{{a, &x}, {b, &y}} {
		if p.raw != nil && json.Unmarshal(p.raw, p.to) != nil {
			t.Fatalf("not JSON: %s", p.raw)
		}
	}
	return cmp.Equal(x, y)
}

func checkVector(t *testing.T, v vector) {
	t.Helper()
	got := evalVector(t, v)
	if (got.Error != "") != v.Want.Error {
		t.Errorf("%s: error %q, want one: %v", v.Name, got.Error, v.Want.Error)
	}
	if v.Want.Error || got.Error != "" {
		return
	}
	fail := func(what string, got, want any) { t.Errorf("%s: %s %s, want %s\n%s", v.Name, what, got, want, v.line) }
	if got.Decision != *v.Want.Decision {
		fail("decision", got.Decision, v.Want.Decision)
	}
	if got.Reason != *v.Want.Reason {
		fail("reason", got.Reason, *v.Want.Reason)
	}
	if !slices.Equal(got.Paths, *v.Want.Paths) || got.Paths == nil {
		fail("paths", got.Paths, *v.Want.Paths)
	}
	if !sameJSON(t, got.Rule, v.Want.Rule) {
		fail("rule", got.Rule, v.Want.Rule)
	}
	if !sameJSON(t, got.Suggestion, v.Want.Suggestion) {
		fail("suggestion", got.Suggestion, v.Want.Suggestion)
	}
}

// vectorCounts pins how many lines each file holds, so that none goes missing.
var vectorCounts = map[string]int{
	"check.jsonl": 2, "command.jsonl": 214, "host.jsonl": 147, "path.jsonl": 267, "specificity.jsonl": 86,
	"suggestion.jsonl": 77, "tool.jsonl": 34, "unreadable.jsonl": 28, "validate.jsonl": 45,
}

func TestConformance(t *testing.T) {
	for file, count := range vectorCounts {
		t.Run(file, func(t *testing.T) {
			vectors := readVectors(t, file)
			if len(vectors) != count {
				t.Errorf("%d lines, want %d", len(vectors), count)
			}
			for _, v := range vectors {
				checkVector(t, v)
			}
		})
	}
}

// TestShellConformance holds the decisions on lines that are taken apart.
func TestShellConformance(t *testing.T) {
	for file, count := range map[string]int{"shell.jsonl": 145, "reported.jsonl": 35} {
		vectors := readVectors(t, file)
		if len(vectors) != count {
			t.Errorf("%s: %d lines, want %d", file, len(vectors), count)
		}
		for _, v := range vectors {
			if got := evalVector(t, v); got.Error != "" || got.Decision != *v.Want.Decision {
				t.Errorf("%s: %s %s, want %s\n%.600s", v.Name, got.Decision, got.Error, v.Want.Decision, v.line)
			}
		}
	}
}
