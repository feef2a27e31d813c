package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lints writes warnings as lines of "LINE: MESSAGE".
func lints(p *Policy) string {
	var out []string
	for _, w := range p.Lint() {
		out = append(out, fmt.Sprintf("%d: %s", w.Line, w.Msg))
	}
	return strings.Join(out, "\n")
}

func TestLint(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"", "1: there are no rules, so everything is asked about"},
		{"settings: {}\n", "1: there are no rules"},
		{"rules: []", "1: there are no rules"},

		// Overruled, whichever comes first.
		{"rules:\n- {tool: fs_read, decision: allow}\n- {tool: fs_*, decision: deny}", "2: rules[0]: this allow never decides: the deny of rules[1] on line 3 fires on every call that it covers"},
		{"rules:\n- {tool: fs_*, decision: ask}\n- {tool: fs_read, decision: allow, under: a}", "3: rules[1]: this allow never decides: the ask of rules[0] on line 2"},
		{"rules:\n- {tool: a, decision: deny}\n- {tool: a, decision: ask}", "3: rules[1]: this ask never decides: the deny of rules[0] on line 2"},
		{"rules:\n- {tool: a, decision: deny, under: /x}\n- {tool: a, decision: allow, under: /x/y}", "3: rules[1]: this allow never decides"},
		{"rules:\n- {tool: a, decision: deny, under: /x}\n- {tool: a, decision: allow, under: /X/y}", "3: rules[1]: this allow never decides"},
		{"rules:\n- {tool: a, decision: deny, host: \"*.b.c\"}\n- {tool: a, decision: allow, host: \"*.a.b.c\"}", "3: rules[1]: this allow never decides"},
		{"rules:\n- {tool: a, decision: deny, command: g*}\n- {tool: a, decision: allow, command: git.exe, args: [x]}", "3: rules[1]: this allow never decides"},
		{"rules:\n- {tool: a, decision: deny, command: git, args: [x]}\n- {tool: a, decision: allow, command: git, args: [x, y], exact: true}", "3: rules[1]: this allow never decides"},
		{"rules:\n- {tool: a, decision: deny, command: rm, args-any: [-r, -R]}\n- {tool: a, decision: allow, command: rm, args: [-f, -r]}", "3: rules[1]: this allow never decides"},
		{"rules:\n- {tool: a, decision: allow, check: gate}", "2: rules[0]: this allow never decides: the danger floor's deny by check gate"},
		{"rules: [{tool: a, decision: allow, check: git-loses}]", "1: rules[0]: this allow never decides: the danger floor's ask by check git-loses"},

		// Not overruled.
		{"rules: [{tool: a*, decision: allow}, {tool: ab, decision: deny}]", ""},
		{"rules: [{tool: a, decision: allow}, {tool: a, decision: deny, under: x}]", ""},
		{"rules: [{tool: a, decision: allow, under: xy}, {tool: a, decision: deny, under: x}]", ""},
		{"rules: [{tool: a, decision: allow, under: X/y}, {tool: a, decision: deny, under: x}]\nfold-paths: false", ""},
		{"rules: [{tool: a, decision: allow, under: x}, {tool: a, decision: deny, under: /x}]", ""},
		{"rules: [{tool: a, decision: allow, host: b.c}, {tool: a, decision: deny, host: \"*.b.c\"}]", ""},
		{"rules: [{tool: a, decision: allow, command: g*}, {tool: a, decision: deny, command: git}]", ""},
		{"rules: [{tool: a, decision: allow, command: git, args: [x]}, {tool: a, decision: deny, command: git, args: [x], exact: true}]", ""},
		{"rules: [{tool: a, decision: allow, command: rm}, {tool: a, decision: deny, command: rm, args-any: [-r]}]", ""},
		{"rules: [{tool: a, decision: allow, check: gate}]\nfloor: off", ""},
		{"rules: [{tool: a, decision: ask}, {tool: a, decision: allow, command: b}, {tool: a, decision: deny, command: b, args-any: []}]",
			"1: rules[1]: this allow never decides: the ask of rules[0] on line 1 fires on every call that it covers; narrow that one, or leave this one out\n" +
				"1: rules[2]: args-any is empty, so this never fires; name the arguments, or leave args-any out"},

		// Twice.
		{"rules:\n- {tool: a, decision: ask, note: x}\n- {tool: b, decision: ask}\n- {tool: a, decision: ask, remember: true}", "4: rules[2]: rules[0] on line 2 covers the same calls and decides the same; leave one of them out"},
		{"rules: [{tool: a, decision: ask, command: b}, {tool: a, decision: ask, command: b, args: [c]}]", ""},

		// Checks.
		{"rules: [{tool: a, decision: deny, check: deletes}]", `1: rules[0]: check "deletes" is unknown, so this deny fires whatever the call does; known are delete-home, `},
		{"rules: [{tool: a, decision: allow, check: deletes}]", `1: rules[0]: check "deletes" is unknown, so this allow never fires`},

		// Narrowers that say nothing.
		{"path-params: {web: []}\nrules: [{tool: web, decision: deny, under: x}]", "2: rules[0]: under says nothing about calls of web, for which path-params names none: this deny fires on them as if it were not there"},
		{"command-params: {Bash: {line: command}}\nrules: [{tool: \"*\", decision: ask, under: x}]", "2: rules[0]: under says nothing about calls of Bash, which are shell lines by command-params: this ask fires"},
		{"command-params: {sh_*: {line: command}}\nrules: [{tool: sh_run, decision: deny, under: x}]", "2: rules[0]: under says nothing about calls of sh_run"},
		{"command-params: {Bash: {line: command}}\nrules: [{tool: Bash, decision: allow, under: x}]", "2: rules[0]: calls of Bash, which are shell lines by command-params, have no location: this allow only fires on commands that write there"},
		{"command-params: {Bash: {line: command}}\nrules: [{tool: Bash, decision: allow, command: tee, under: x}]", ""},
		{"command-params: {Bash: {line: command}}\nrules: [{tool: \"*\", decision: allow, under: x}]", ""},
		{"command-params: {Bash: {line: command}}\npath-params: {Bash: [cwd]}\nrules: [{tool: Bash, decision: deny, under: x}]", ""},
		{"command-params: {run: {command: program}}\nrules: [{tool: run, decision: deny, under: x}]", ""},
		{"path-params: {\"*\": [], fs_*: [path]}\nrules: [{tool: fs_read, decision: deny, under: x}]", ""},
		{"rules: [{tool: web, decision: deny, under: x}]", ""},
		{"path-params: {Read: [file_path]}\nrules: [{tool: Read, decision: deny, host: b.c}]", "2: rules[0]: host says nothing about calls of Read, which have locations by path-params, unless they also have a url: this deny fires"},
		{"path-params: {Read: [file_path]}\nrules: [{tool: Read, decision: allow, host: b.c}]", "this allow does not fire on them; leave it out"},
		{"path-params: {Read: [file_path]}\nrules: [{tool: \"*\", decision: allow, host: b.c}]", ""},
		{"command-params: {Bash: {line: command}}\nrules: [{tool: \"*\", decision: deny, host: b.c}]", "2: rules[0]: host says nothing about calls of Bash, which are shell lines"},
		{"path-params: {Read: [file_path]}\nrules: [{tool: \"*\", decision: deny, command: sudo}]", "2: rules[0]: command says nothing about calls of Read"},
		{"path-params: {edit: [path]}\nrules: [{tool: edit, decision: deny, command: create}]", ""},
	} {
		got := lints(mustParse(t, "f.yaml", tc.in))
		if !strings.Contains(got, tc.want) || tc.want == "" && got != "" || strings.Count(got, "\n") != strings.Count(tc.want, "\n") {
			t.Errorf("%s\n  warns %q\n  want  %q", tc.in, got, tc.want)
		}
	}
}

// TestLintSaysNothing about the policies that are in use.
func TestLintSaysNothing(t *testing.T) {
	tour, err := os.ReadFile("../../testdata/policies/tour.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Policy{Default(), mustParse(t, "tour.yaml", string(tour))} {
		if got := lints(p); got != "" {
			t.Errorf("warns: %s", got)
		}
	}
}

// TestCoversIsSound: where a rule fires that is covered, so does what covers it.
func TestCoversIsSound(t *testing.T) {
	covered := 0
	rapid.Check(t, func(t *rapid.T) {
		by, r := genRule(Deny, Ask).Draw(t, "by"), genRule(Ask, Allow).Draw(t, "rule")
		fold := rapid.Bool().Draw(t, "fold")
		p := &Policy{Rules: []Rule{by, r}, FoldPaths: &fold, Roots: map[string]string{"": rapid.SampledFrom([]string{"", "/x", "y"}).Draw(t, "root")}}
		if !covers(&by, &r, fold) {
			return
		}
		covered++
		for range 20 {
			tool := genTool.Draw(t, "tool")
			f := genFacts(p, tool).Draw(t, "facts")
			s := subject{tool: tool, facts: &f, fold: fold}
			for i := -1; i < len(f.Commands); i++ {
				if s.command = nil; i >= 0 {
					s.command = &f.Commands[i]
				}
				a, _ := s.match(&r)
				if b, _ := s.match(&by); r.fires(a) && !by.fires(b) {
					t.Fatalf("%+v fires (%d), and %+v, which covers it, does not\n%s %+v", r, a, by, tool, f)
				}
			}
		}
	})
	if covered == 0 {
		t.Error("no rule covered another")
	}
	t.Logf("%d pairs covered", covered)
}

// TestWhatLintNamesDecidesNothing: without the rules that are said never to decide,
// every call is decided as with them.
func TestWhatLintNamesDecidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Policy{Rules: genRules(Deny, Ask, Allow).Draw(t, "rules")}
		l := linter{policy: p, first: map[string]int{}}
		q := &Policy{}
		for i := range p.Rules {
			if _, overruled := l.overruling(&p.Rules[i]); !overruled && !never(&p.Rules[i]) {
				q.Rules = append(q.Rules, p.Rules[i])
			}
		}
		tool := genTool.Draw(t, "tool")
		f := genFacts(p, tool).Draw(t, "facts")
		if with, without := p.Judge(tool, f, nil), q.Judge(tool, f, nil); with.Decision != without.Decision {
			t.Fatalf("%s with them, %s without\n%+v\n%+v", with.Decision, without.Decision, p.Rules, f)
		}
	})
}
