package policy

import (
	"encoding/json"
	"fmt"
	"testing"
)

// twenty is a policy of twenty rules of every kind, of which most apply to
// the tool that is judged.
func twenty() *Policy {
	p := &Policy{Roots: map[string]string{"": "/srv/work"}}
	for i := range 5 {
		p.Rules = append(p.Rules,
			Rule{Tool: "fs_*", Decision: Allow, Under: fmt.Sprintf("scratch/%d", i)},
			Rule{Tool: "*", Decision: Deny, Under: fmt.Sprintf("/srv/secret/%d", i)},
			Rule{Tool: "web_*", Decision: Allow, Host: fmt.Sprintf("*.h%d.example", i)},
			Rule{Tool: "sh_run", Decision: Ask, Command: "git", Args: []string{"push", fmt.Sprint(i)}},
		)
	}
	return p
}

func benchmarkJudge(b *testing.B, tool, arguments string) {
	p := twenty()
	f := p.Facts(tool, json.RawMessage(arguments))
	b.ReportAllocs()
	for b.Loop() {
		p.Judge(tool, f, nil)
	}
}

func BenchmarkJudgePath(b *testing.B) {
	benchmarkJudge(b, "fs_write", `{"path":"scratch/4/notes/today.md"}`)
}

func BenchmarkJudgeCommand(b *testing.B) {
	benchmarkJudge(b, "sh_run", `{"command":"git","args":["push","origin"],"path":"src"}`)
}

func BenchmarkFacts(b *testing.B) {
	p := twenty()
	args := json.RawMessage(`{"path":"scratch/4/notes/today.md","content":"some text"}`)
	b.ReportAllocs()
	for b.Loop() {
		p.Facts("fs_write", args)
	}
}

func BenchmarkParseDefault(b *testing.B) {
	for b.Loop() {
		Default()
	}
}
