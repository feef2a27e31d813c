package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wanted is what a vector wants, and what eval prints of it.
type wanted struct {
	Error      bool   `json:"error"`
	Decision   string `json:"decision"`
	Reason     string `json:"reason"`
	Rule       any    `json:"rule"`
	Paths      []any  `json:"paths"`
	Suggestion any    `json:"suggestion"`
}

// exactFiles hold vectors with a whole verdict; the others want a decision
// alone, for calls that need a shell line taken apart.
var exactFiles = []string{"check", "command", "host", "path", "specificity", "suggestion", "tool", "unreadable", "validate"}

// TestEvalPrintsTheVectors puts whole files of vectors through the command.
func TestEvalPrintsTheVectors(t *testing.T) {
	for _, name := range exactFiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vectors, verdicts := evaluate(t, name)
			if len(verdicts) != len(vectors) || len(vectors) == 0 {
				t.Fatalf("%d lines printed for %d", len(verdicts), len(vectors))
			}
			for i, line := range vectors {
				if diff := cmp.Diff(wantOf(t, line), printed(t, verdicts[i])); diff != "" {
					t.Errorf("line %d (-want +printed):\n%s\n%s", i+1, diff, line)
				}
			}
		})
	}
}

// TestEvalIsNeverMorePermissive holds the other files to that.
func TestEvalIsNeverMorePermissive(t *testing.T) {
	strictness := map[string]int{"allow": 0, "ask": 1, "deny": 2}
	for _, name := range []string{"shell", "reported"} {
		vectors, verdicts := evaluate(t, name)
		if len(verdicts) != len(vectors) || len(vectors) == 0 {
			t.Fatalf("%s: %d lines printed for %d", name, len(verdicts), len(vectors))
		}
		for i, line := range vectors {
			got, known := strictness[printed(t, verdicts[i]).Decision]
			if !known || got < strictness[wantOf(t, line).Decision] {
				t.Errorf("%s, line %d: %s for\n%s", name, i+1, verdicts[i], line)
			}
		}
	}
}

func evaluate(t *testing.T, name string) (vectors, verdicts [][]byte) {
	t.Helper()
	file := filepath.Join("../../testdata/conformance", name+".jsonl")
	in, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("decider", "eval", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return lines(in), lines(out)
}

func lines(text []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
}

func wantOf(t *testing.T, line []byte) wanted {
	t.Helper()
	var vector struct{ Want wanted }
	if err := json.Unmarshal(line, &vector); err != nil {
		t.Fatal(err)
	}
	return vector.Want
}

func printed(t *testing.T, line []byte) wanted {
	t.Helper()
	var fault struct{ Error string }
	if json.Unmarshal(line, &fault) == nil && fault.Error != "" {
		return wanted{Error: true}
	}
	var w wanted
	if err := json.Unmarshal(line, &w); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return w
}
