package policy

import (
	"encoding/json"
	"strings"
	"testing"
)

const suiteYAML = `policy: p.yaml
roots: {"": /r}
cases:
  - {name: inside, tool: fs_read, arguments: {path: /r/a}, want: allow, rule: 0}
  - {tool: fs_read, arguments: {path: ../a, n: [1, -2.5, true, null, "x"]}, want: deny, rule: off limits}
  - {tool: fs_read, arguments: null, want: deny}
  - {tool: fs_read, arguments: '{"path": "a", "path": "b"}', want: deny}
  - tool: fs_write
    arguments: {path: b}
    want: allow
    rule: null
    grants: [[{tool: other, decision: allow}], [{tool: fs_write, decision: allow}]]
`

func TestSuite(t *testing.T) {
	s, err := ParseSuite("s.yaml", []byte(suiteYAML))
	if err != nil {
		t.Fatal(err)
	}
	if s.Policy != "p.yaml" || len(s.Cases) != 5 || s.Cases[0].Line != 4 || s.Cases[4].Line != 8 {
		t.Errorf("read %+v", s)
	}
	if got, want := string(s.Cases[1].Arguments), `{"path":"../a","n":[1,-2.5,true,null,"x"]}`; got != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
	p := mustParse(t, "p.yaml", `rules: [{tool: fs_read, decision: allow, under: .}, {tool: fs_*, decision: deny, under: secret, note: off limits}]`)
	for i, r := range s.Run(p) {
		if r.Missed {
			t.Errorf("case %d missed: %s by %v, %s", i, r.Verdict.Decision, r.Verdict.Rule, Why(&r.Facts, &r.Verdict))
		}
	}
	if p.Roots != nil {
		t.Error("the policy was changed")
	}
	if got := s.Run(p)[4].Verdict.Grants; len(got) != 1 || got[0] != "grants[1]" {
		t.Errorf("by grants %v", got)
	}

	for _, miss := range []string{"want: deny", "want: allow, rule: 1", "want: allow, rule: null", "want: allow, rule: other", "want: allow, rule: 9"} {
		s, err := ParseSuite("s.yaml", []byte("cases: [{tool: fs_read, arguments: {path: a}, "+miss+"}]"))
		if err != nil {
			t.Fatal(err)
		}
		if !s.Run(p)[0].Missed {
			t.Errorf("%s is not missed", miss)
		}
	}
}

func TestParseSuiteRefuses(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"", "s.yaml:1: suite must be an object, not null"},
		{"cases: []", "s.yaml:1: suite: there are no cases; write a list of"},
		{"polcy: x\ncases: [{tool: a, arguments: {}, want: ask}]", `s.yaml:1: suite: unknown member "polcy"; did you mean "policy"?`},
		{"cases:\n- {tool: a, arguments: {}}", `s.yaml:2: cases[0]: member "want" is missing`},
		{"cases:\n- {tool: a, want: ask}", `s.yaml:2: cases[0]: member "arguments" is missing`},
		{"cases:\n- {arguments: {}, want: ask}", `s.yaml:2: cases[0]: member "tool" is missing`},
		{"cases:\n- {tool: a, arguments: {}, want: yes}", `s.yaml:2: cases[0]: want: decision "yes" is none of`},
		{"cases:\n- {tool: a, argument: {}, want: ask}", `did you mean "arguments"?`},
		{"cases:\n- {tool: a, arguments: {x: 1, x: 2}, want: ask}", `s.yaml:2: cases[0]: arguments: member "x" is there twice`},
		{"cases:\n- {tool: a, arguments: {x: 0x10}, want: ask}", `s.yaml:2: cases[0]: arguments: x: 0x10 is no number in JSON`},
		{"cases:\n- {tool: a, arguments: {}, want: ask, rule: [1]}", `s.yaml:2: cases[0]: rule must be a rule's place`},
		{"cases:\n- {tool: a, arguments: {}, want: ask, rule: -1}", `s.yaml:2: cases[0]: rule must be a rule's place, from 0 on, not -1`},
		{"cases:\n- {tool: a, arguments: {}, want: ask, grants: [[{tool: a}]]}", `s.yaml:2: cases[0]: grants[0][0]: member "decision" is missing`},
		{"roots: {a: ../b}\ncases: [{tool: a, arguments: {}, want: ask}]", `s.yaml:1: roots: directory "../b" cannot be compared`},
		{"cases: [", "s.yaml: not YAML"},
	} {
		if _, err := ParseSuite("s.yaml", []byte(tc.in)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q:\n  error %v\n  want  %s", tc.in, err, tc.want)
		}
	}
}

func TestParseCall(t *testing.T) {
	tool, args, err := ParseCall([]byte(`{"name":"x","tool":"a","arguments":{"p": 1, "p":2}}`))
	if err != nil || tool != "a" || string(args) != `{"p": 1, "p":2}` {
		t.Errorf("%s %s %v", tool, args, err)
	}
	for in, want := range map[string]string{
		`{"tool":"a"}`:                  `member "arguments" is missing`,
		`{"arguments":1}`:               `member "tool" is missing`,
		`{"tool":"","arguments":1}`:     "tool may not be empty",
		`{"tool":"a","args":{}}`:        `unknown member "args"`,
		`{"tool":"a","arguments":1} {}`: "not JSON",
	} {
		if _, _, err := ParseCall([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func TestWhy(t *testing.T) {
	p := mustParse(t, "p.yaml", `
command-params: {Bash: {line: line}}
rules:
- {tool: Bash, decision: allow, command: ls}
- {tool: Bash, decision: deny, command: rm, args-any: [-rf]}
- {tool: fs, decision: deny, under: secret}
- {tool: web, decision: deny, host: a.b}
- {tool: run, decision: ask, command: x}
floor: off
`)
	grants := []Grant{{ID: "G", Rules: []Rule{{Tool: "Bash", Decision: Allow, Command: "go"}}}}
	for _, tc := range []struct{ tool, arguments, want string }{
		{"Bash", `{"line":"ls"}`, "all that the rule narrows by holds"},
		{"Bash", `{"line":"ls && make x"}`, `for "make x" no rule is about it`},
		{"Bash", `{"line":"ls; A=1 ls > x"}`, `for "ls" no rule settles it: the variable A is set for it, it writes x`},
		{"Bash", `{"line":"./ls"}`, "no rule settles it: the program's path is relative"},
		{"Bash", `{"line":"rm $X"}`, "it cannot be told that the rule is not about it: its argument 1 cannot be read"},
		{"Bash", `{"line":"go test"}`, "no rule settles it, and G does"},
		{"Bash", `{"line":"$X"}`, "it cannot be told that the rule is not about it: the command cannot be read (which program runs is known only when it runs)"},
		{"fs", `{"path":"a/../b"}`, `it cannot be told that the rule is not about it: the path "a/../b" cannot be compared (dot-dot)`},
		{"fs", `{}`, "it cannot be told that the rule is not about it: the call has no path"},
		{"fs", `7`, "it cannot be told that the rule is not about it: the arguments are no readable object"},
		{"web", `{}`, "it cannot be told that the rule is not about it: the call has no url"},
		{"web", `{"url":"ftp://x"}`, "it cannot be told that the rule is not about it: the url cannot be read (not-a-plain-url)"},
		{"run", `{}`, "it cannot be told that the rule is not about it: the call has no command"},
		{"other", `{}`, "no rule is about it"},
	} {
		f := p.Facts(tc.tool, json.RawMessage(tc.arguments))
		v := p.Judge(tc.tool, f, grants)
		if got := Why(&f, &v); got != tc.want {
			t.Errorf("%s %s: %s\n  %q, want\n  %q", tc.tool, tc.arguments, v.Decision, got, tc.want)
		}
	}
	if got := Why(&Facts{}, &Verdict{}); got != "it was not judged" {
		t.Errorf("the zero verdict: %s", got)
	}
}
