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
	p.index = newIndex(p)
	return p
}

func benchmarkJudge(b *testing.B, tool, arguments string) {
	p := twenty()
	f := p.Facts(tool, json.RawMessage(arguments))
	var v Verdict
	b.ReportAllocs()
	for b.Loop() {
		p.JudgeInto(&v, tool, &f, nil, nil)
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

// manyRules is a policy of n rules as a large one may be: most are for tools of
// their own, the others tell directories, hosts and programs apart.
func manyRules(n int) *Policy {
	p := &Policy{Roots: map[string]string{"": "/srv/work"}, CommandParams: map[string]CommandParams{"Bash": {Line: "command"}}}
	for i := range n {
		r := Rule{Tool: fmt.Sprintf("mcp__server%d__do_%d", i%7, i), Decision: Decision(i / 6 % 3)}
		switch i % 6 {
		case 0:
			r = Rule{Tool: "fs_*", Decision: Allow, Under: fmt.Sprintf("project%d/src", i)}
		case 1:
			r = Rule{Tool: "*", Decision: Deny, Under: fmt.Sprintf("/srv/work/project%d/secrets", i)}
		case 2:
			r = Rule{Tool: "web_*", Decision: Allow, Host: fmt.Sprintf("*.host%d.example", i)}
		case 3:
			r = Rule{Tool: "Bash", Decision: Allow, Command: fmt.Sprintf("tool%d", i), Args: []string{"run"}}
		}
		p.Rules = append(p.Rules, r)
	}
	p.Rules = append(p.Rules, Rule{Tool: "Bash", Decision: Allow, Command: "git"}, Rule{Tool: "Bash", Decision: Allow, Command: "go"},
		Rule{Tool: "Bash", Decision: Allow, Command: "head"}, Rule{Tool: "Bash", Decision: Deny, Command: "rm"})
	p.index = newIndex(p)
	return p
}

// BenchmarkEvaluate judges a call by its facts.
func BenchmarkEvaluate(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		p := manyRules(n)
		for name, call := range map[string]struct{ tool, args string }{
			"path":    {"fs_write", fmt.Sprintf(`{"path":"project%d/src/a/b.go"}`, n/2/6*6)},
			"host":    {"web_get", fmt.Sprintf(`{"url":"https://www.host%d.example/x"}`, n/2/6*6+2)},
			"command": {"Bash", fmt.Sprintf(`{"command":"tool%d run x","path":"a"}`, n/2/6*6+3)},
			"ask":     {"fs_write", `{"path":"elsewhere/b.go"}`},
		} {
			f := p.Facts(call.tool, json.RawMessage(call.args))
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				var v Verdict
				b.ReportAllocs()
				for b.Loop() {
					p.JudgeInto(&v, call.tool, &f, nil, nil)
				}
			})
		}
	}
}

// BenchmarkCall judges a call from its arguments.
func BenchmarkCall(b *testing.B) {
	p := manyRules(1000)
	for name, call := range map[string]struct{ tool, args string }{
		"path": {"fs_write", `{"path":"project498/src/a/b.go","content":"some text"}`},
		"line": {"Bash", `{"command":"git status --short && go test ./pkg/... | head -20 2>&1"}`}, // of 60 bytes
	} {
		b.Run(name, func(b *testing.B) {
			args := json.RawMessage(call.args)
			var v Verdict
			b.ReportAllocs()
			for b.Loop() {
				f := p.Facts(call.tool, args)
				p.JudgeInto(&v, call.tool, &f, nil, nil)
			}
		})
	}
}
