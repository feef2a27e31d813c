package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const explained = `
roots: {web_get: /srv}
command-params: {Bash: {line: command}}
rules:
  - {tool: Bash, decision: allow, command: git, args: [status]}
  - {tool: Bash, decision: deny, command: rm, note: no deletes}
  - {tool: "fs_*", decision: allow, under: scratch}
  - {tool: "web_*", decision: allow, host: "*.example.com"}
  - {tool: "web_*", decision: ask, under: /etc, check: nobody}
  - {tool: Bash, decision: allow, command: make, under: out}
`

// whyOf is what the explanation says about a rule by its number.
func whyOf(e Explanation, part, number int) string {
	for _, r := range e.Parts[part].Rules {
		if r.Number == number {
			return r.Answer + ": " + r.Why
		}
	}
	return ""
}

func TestExplain(t *testing.T) {
	p := mustParse(t, "p.yaml", explained)
	for _, tc := range []struct {
		tool, args   string
		part, number int
		want         string
	}{
		{"Bash", `{"command":"git status"}`, 0, 1, `yes: it is "git status"`},
		{"Bash", `{"command":"git push"}`, 0, 1, `no: its arguments are others: "git push"`},
		{"Bash", `{"command":"git $X"}`, 0, 1, `unknown: cannot tell: its arguments can be read only up to "git …"`},
		{"Bash", `{"command":"X=1 git status"}`, 0, 1, `unknown: cannot tell: the variable X may change what it does; safe-env may name it`},
		{"Bash", `{"command":"./git status"}`, 0, 1, `unknown: cannot tell: which "git" "./git" is depends on where it is run (relative)`},
		{"Bash", `{"command":"git status > x"}`, 0, 1, `unknown: cannot tell: it writes "x", which the rule does not speak of`},
		{"Bash", `{"command":"$X"}`, 0, 2, `unknown: cannot tell: the command cannot be read (which program runs is known only when it runs)`},
		{"Bash", `{}`, 0, 2, `unknown: cannot tell: the call runs no command`},
		{"Bash", `{"command":"env git status"}`, 0, 1, `no: it only runs what follows, which is judged by itself`},
		{"Bash", `{"command":"make > out/x"}`, 0, 6, `yes: "out/x" is in "out"; it is "make > out/x"`},
		{"fs_write", `{"path":"scratch/a"}`, 0, 3, `yes: "scratch/a" is in "scratch"`},
		{"fs_write", `{"path":"a"}`, 0, 3, `no: "a" is not in "scratch"`},
		{"fs_write", `{"path":"../a"}`, 0, 3, `unknown: cannot tell: "../a" cannot be compared (dot-dot)`},
		{"fs_write", `{"path":"/a"}`, 0, 3, `unknown: cannot tell: "/a" and "scratch" are not measured from the same place; give the tool a root`},
		{"fs_write", `{}`, 0, 3, `unknown: cannot tell: the call names no path`},
		{"web_get", `{"url":"https://a.example.com"}`, 0, 4, `yes: "a.example.com" is "*.example.com"`},
		{"web_get", `{"url":"https://b.org"}`, 0, 4, `no: "b.org" is not "*.example.com"`},
		{"web_get", `{"url":5}`, 0, 4, `unknown: cannot tell: the host cannot be read (not-text)`},
		{"web_get", `{}`, 0, 4, `unknown: cannot tell: the call names no host`},
		{"web_get", `{"path":"/etc/x"}`, 0, 5, `unknown: "/etc/x" is in "/etc"; cannot tell: there is no check nobody`},
	} {
		if got := whyOf(p.Explain(tc.tool, json.RawMessage(tc.args)), tc.part, tc.number); got != tc.want {
			t.Errorf("%s %s, rule %d:\n got %s\nwant %s", tc.tool, tc.args, tc.number, got, tc.want)
		}
	}
}

func TestExplainAllow(t *testing.T) {
	p := mustParse(t, "p.yaml", explained)
	for _, tc := range []struct{ tool, args, want string }{
		{"Bash", `{"command":"git status"}`, ``},
		{"Bash", `{"command":"git push && ls -l; git status"}`, `{tool: Bash, decision: allow, command: git, args: ["push"], exact: true} {tool: Bash, decision: allow, command: ls, args: ["-l"], exact: true}`},
		{"Bash", `{"command":"rm x"}`, `! rule 2 says deny, and that is stronger than any allow`},
		{"Bash", `{"command":"sudo ls && rm x"}`, `! rule 2 says deny, and that is stronger than any allow`},
		{"Bash", `{"command":"sudo ls"}`, `! the danger floor (privileges) says ask, and that is stronger than any allow`},
		{"Bash", `{"command":"ls > x"}`, `! it cannot be told exactly by a rule: ls > x`},
		{"fs_write", `{"path":"a/b"}`, `{tool: fs_write, decision: allow, under: a/b}`},
		{"fs_move", `{"from":"a/b","to":"a/c/d"}`, `{tool: fs_move, decision: allow, under: a}`},
		{"fs_write", `{"path":"../b"}`, `{tool: fs_write, decision: allow}`},
		{"x.y", `{}`, `! no rule can name the tool "x.y"`},
	} {
		e := p.Explain(tc.tool, json.RawMessage(tc.args))
		var got []string
		for _, r := range e.Allow {
			got = append(got, r.YAML())
		}
		if e.Stands != "" {
			got = append(got, "! "+e.Stands)
		}
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("%s %s:\n got %s\nwant %s", tc.tool, tc.args, text, tc.want)
		}
	}
}

// TestExplainIsTrue: an explanation is the verdict's, and the rules that it says
// would allow a call do, and read back from YAML as they are.
func TestExplainIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tool, _ := drawCall(t)
		args, err := json.Marshal(map[string]any{"path": genPath.Draw(t, "path"), "command": genProgram.Draw(t, "program"), "args": []string{"p"}})
		if err != nil {
			t.Fatal(err)
		}
		e, v := p.Explain(tool, args), p.Judge(tool, p.Facts(tool, args), nil)
		if e.Decision != v.Decision || e.Reason != v.Reason || e.Number != v.RuleIndex+1 || len(e.Parts) != len(v.Parts) {
			t.Fatalf("%+v is not %+v", e, v)
		}
		if v.Decision == Allow || e.Stands != "" {
			return
		}
		text := "rules:\n"
		for _, r := range e.Allow {
			text += "- " + r.YAML() + "\n"
		}
		more, err := Parse("p.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		q := *p
		q.Rules = append(q.Rules[:len(q.Rules):len(q.Rules)], more.Rules...)
		if got := q.Judge(tool, p.Facts(tool, args), nil); got.Decision != Allow {
			t.Fatalf("%s is not allowed by %s", args, text)
		}
	})
}
