package policy

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rules reads rules from JSON.
func rules(t testing.TB, text string) []Rule {
	t.Helper()
	var out []Rule
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

func grant(t testing.TB, id, text string) Grant {
	t.Helper()
	return Grant{ID: id, Rules: rules(t, text)}
}

// commandFacts are the facts of a call that runs programs, each with its
// arguments.
func commandFacts(argvs ...[]string) Facts {
	var f Facts
	for _, argv := range argvs {
		f.Commands = append(f.Commands, Command{Program: argv[0], Args: argv[1:], Sealed: true})
	}
	return f
}

// outcome is what tests compare of a verdict.
type outcome struct {
	Decision, Static Decision
	Reason           Reason
	Rule             int
	Grants           []string
	Grantable        bool
}

func judged(v Verdict) outcome {
	return outcome{v.Decision, v.Static, v.Reason, v.RuleIndex, v.Grants, v.Grantable}
}

func TestJudgeGrants(t *testing.T) {
	const (
		allowIn  = `[{"tool":"w","decision":"allow","under":"/in"}]`
		denyIn   = `[{"tool":"w","decision":"deny","under":"/in"}]`
		allowOut = `[{"tool":"w","decision":"allow","under":"/out"}]`
		allowAll = `[{"tool":"w","decision":"allow"}]`
		askRule  = `[{"tool":"w","decision":"ask"}]`
		askOnce  = `[{"tool":"w","decision":"ask","remember":true}]`
	)
	in := Facts{Paths: []Place{{Path: "/in/x"}}}
	odd := Facts{Paths: []Place{{Path: "/in/..", Unknown: whyDotDot}}}
	for _, tc := range []struct {
		name   string
		static string
		facts  Facts
		grants []Grant
		want   outcome
	}{
		{"no grant", `[]`, in, nil, outcome{Ask, Ask, ReasonNoMatch, -1, nil, true}},
		{"allow grant", `[]`, in, []Grant{grant(t, "g", allowIn)}, outcome{Allow, Ask, ReasonNoMatch, -1, []string{"g"}, false}},
		{"another directory", `[]`, in, []Grant{grant(t, "g", allowOut)}, outcome{Ask, Ask, ReasonNoMatch, -1, nil, true}},
		{"first that matches", `[]`, in, []Grant{grant(t, "a", allowOut), grant(t, "b", allowIn), grant(t, "c", allowAll)},
			outcome{Allow, Ask, ReasonNoMatch, -1, []string{"b"}, false}},
		{"deny beats allow", `[]`, in, []Grant{grant(t, "a", allowIn), grant(t, "d", denyIn)},
			outcome{Deny, Ask, ReasonNoMatch, -1, []string{"d"}, false}},
		{"deny on unknown", `[]`, odd, []Grant{grant(t, "a", allowAll), grant(t, "d", denyIn)},
			outcome{Deny, Ask, ReasonNoMatch, -1, []string{"d"}, false}},
		{"no allow on unknown", `[]`, odd, []Grant{grant(t, "a", allowIn)}, outcome{Ask, Ask, ReasonNoMatch, -1, nil, true}},
		{"ask rule", askRule, in, []Grant{grant(t, "a", allowIn)}, outcome{Ask, Ask, ReasonRule, 0, nil, false}},
		{"ask rule, deny grant", askRule, in, []Grant{grant(t, "d", denyIn)}, outcome{Ask, Ask, ReasonRule, 0, nil, false}},
		{"ask rule that remembers", askOnce, in, []Grant{grant(t, "a", allowIn)}, outcome{Allow, Ask, ReasonRule, -1, []string{"a"}, false}},
		{"ask rule that remembers, alone", askOnce, in, nil, outcome{Ask, Ask, ReasonRule, 0, nil, true}},
		{"two ask rules, one remembers", `[{"tool":"w","decision":"ask","under":"/in","remember":true},{"tool":"*","decision":"ask"}]`, in,
			[]Grant{grant(t, "a", allowIn)}, outcome{Ask, Ask, ReasonRule, 0, nil, false}},
		{"an ask rule that remembers beside an allow", `[{"tool":"w","decision":"ask","remember":true},{"tool":"w","decision":"allow"}]`, in,
			[]Grant{grant(t, "a", allowIn)}, outcome{Allow, Ask, ReasonRule, -1, []string{"a"}, false}},
		{"two ask rules, one elsewhere", `[{"tool":"w","decision":"ask","remember":true},{"tool":"w","decision":"ask","under":"/out"}]`, in,
			[]Grant{grant(t, "a", allowIn)}, outcome{Allow, Ask, ReasonRule, -1, []string{"a"}, false}},
		{"ask rule on unknown is still a rule", `[{"tool":"w","decision":"ask","under":"/else"}]`, odd, []Grant{grant(t, "a", allowAll)},
			outcome{Ask, Ask, ReasonUnevaluable, 0, nil, false}},
		{"allow rule on unknown names none", allowIn, odd, []Grant{grant(t, "a", allowAll)},
			outcome{Allow, Ask, ReasonUnevaluable, -1, []string{"a"}, false}},
		{"static deny stands", `[{"tool":"w","decision":"deny"}]`, in, []Grant{grant(t, "a", allowAll)}, outcome{Deny, Deny, ReasonRule, 0, nil, false}},
		{"static allow stands", allowAll, in, []Grant{grant(t, "d", denyIn)}, outcome{Allow, Allow, ReasonRule, 0, nil, false}},
		{"ask grant is nothing", `[]`, in, []Grant{grant(t, "g", askRule)}, outcome{Ask, Ask, ReasonNoMatch, -1, nil, true}},
		{"deny among a grant's rules", `[]`, in, []Grant{{ID: "g", Rules: append(rules(t, allowIn), rules(t, denyIn)...)}},
			outcome{Deny, Ask, ReasonNoMatch, -1, []string{"g"}, false}},
	} {
		p := &Policy{Rules: rules(t, tc.static)}
		got := judged(p.Judge("w", tc.facts, tc.grants))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestJudgeParts(t *testing.T) {
	p := &Policy{Rules: rules(t, `[
		{"tool":"sh","decision":"allow","command":"ls"},
		{"tool":"sh","decision":"ask","command":"curl"},
		{"tool":"sh","decision":"ask","command":"push","remember":true},
		{"tool":"sh","decision":"deny","command":"rm"},
		{"tool":"sh","decision":"deny","command":"dd","args":["x"]}]`)}
	ls, git, curl, push, rm := []string{"ls"}, []string{"git"}, []string{"curl"}, []string{"push"}, []string{"rm"}
	allowGit := grant(t, "git", `[{"tool":"sh","decision":"allow","command":"git"}]`)
	allowPush := grant(t, "push", `[{"tool":"sh","decision":"allow","command":"push"}]`)
	allowCurl := grant(t, "curl", `[{"tool":"sh","decision":"allow","command":"curl"}]`)
	denyPush := grant(t, "no", `[{"tool":"sh","decision":"deny","command":"push"}]`)
	for _, tc := range []struct {
		name   string
		facts  Facts
		grants []Grant
		want   outcome
	}{
		{"all allowed", commandFacts(ls, ls), nil, outcome{Allow, Allow, ReasonRule, 0, nil, false}},
		{"one unmatched", commandFacts(ls, git), nil, outcome{Ask, Ask, ReasonNoMatch, -1, nil, true}},
		{"one unmatched, one ruled", commandFacts(git, curl), nil, outcome{Ask, Ask, ReasonRule, 1, nil, false}},
		{"one denied", commandFacts(ls, git, curl, rm), []Grant{allowGit}, outcome{Deny, Deny, ReasonRule, 3, nil, false}},
		{"a grant settles its part", commandFacts(ls, git), []Grant{allowGit}, outcome{Allow, Ask, ReasonNoMatch, -1, []string{"git"}, false}},
		{"two grants settle two parts", commandFacts(git, push), []Grant{allowPush, allowGit},
			outcome{Allow, Ask, ReasonNoMatch, -1, []string{"push", "git"}, false}},
		{"one part is left", commandFacts(git, push), []Grant{allowGit}, outcome{Ask, Ask, ReasonRule, 2, []string{"git"}, true}},
		{"one part is left that no grant answers", commandFacts(git, curl), []Grant{allowGit, allowCurl},
			outcome{Ask, Ask, ReasonRule, 1, []string{"git"}, false}},
		{"a deny grant stands alone", commandFacts(git, push), []Grant{allowGit, denyPush},
			outcome{Deny, Ask, ReasonRule, -1, []string{"no"}, false}},
		{"a deny grant beside an ask rule", commandFacts(curl, push), []Grant{denyPush},
			outcome{Deny, Ask, ReasonRule, -1, []string{"no"}, false}},
		{"unknown command", Facts{Commands: []Command{{Unknown: whyLine}}}, nil, outcome{Deny, Deny, ReasonUnevaluable, 4, nil, false}},
		{"the zero command is unknown", Facts{Commands: []Command{{}}}, nil, outcome{Deny, Deny, ReasonUnevaluable, 4, nil, false}},
		{"no command at all", Facts{}, nil, outcome{Deny, Deny, ReasonUnevaluable, 4, nil, false}},
	} {
		got := judged(p.Judge("sh", tc.facts, tc.grants))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestJudgePartDetails(t *testing.T) {
	p := &Policy{Rules: rules(t, `[{"tool":"sh","decision":"allow","command":"ls"}]`)}
	v := p.Judge("sh", commandFacts([]string{"ls"}, []string{"git"}), []Grant{grant(t, "g", `[{"tool":"sh","decision":"allow","command":"g*"}]`)})
	want := []Part{
		{Command: 0, Decision: Allow, Static: Allow, Reason: ReasonRule, Rule: &p.Rules[0], RuleIndex: 0},
		{Command: 1, Decision: Allow, Static: Ask, Reason: ReasonNoMatch, RuleIndex: -1, Consults: true, Grant: "g"},
	}
	if diff := cmp.Diff(want, v.Parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	if v := p.Judge("other", Facts{}, nil); len(v.Parts) != 1 || v.Parts[0].Command != -1 {
		t.Errorf("a call that runs nothing has parts %+v", v.Parts)
	}
}

// TestMatchCommand pins what the vectors cannot reach: facts that only a
// shell line would give.
func TestMatchCommand(t *testing.T) {
	git := Command{Program: "git", Args: []string{"log", "-3"}, Sealed: true}
	with := func(change func(*Command)) Facts {
		c := git
		change(&c)
		return Facts{Commands: []Command{c}}
	}
	open := func(c *Command) { c.Sealed = false }
	writes := func(places ...Place) func(*Command) { return func(c *Command) { c.Writes = places } }
	for _, tc := range []struct {
		name  string
		rule  string
		facts Facts
		want  answer
	}{
		{"plain", `{"tool":"sh","decision":"allow","command":"git"}`, with(func(*Command) {}), yes},
		{"prefix args", `{"tool":"sh","decision":"allow","command":"git","args":["log"]}`, with(func(*Command) {}), yes},
		{"exact", `{"tool":"sh","decision":"allow","command":"git","args":["log","-3"],"exact":true}`, with(func(*Command) {}), yes},
		{"exact, longer call", `{"tool":"sh","decision":"allow","command":"git","args":["log"],"exact":true}`, with(func(*Command) {}), no},
		{"exact, shorter call", `{"tool":"sh","decision":"allow","command":"git","args":["log","-3","x"],"exact":true}`, with(func(*Command) {}), no},
		{"exact, other call", `{"tool":"sh","decision":"allow","command":"git","args":["log","-4"],"exact":true}`, with(func(*Command) {}), no},
		{"exact, not sealed", `{"tool":"sh","decision":"allow","command":"git","args":["log","-3"],"exact":true}`, with(open), unknown},
		{"exact deny, not sealed", `{"tool":"sh","decision":"deny","command":"git","args":["log","-3","x"],"exact":true}`, with(open), unknown},
		{"exact, none", `{"tool":"sh","decision":"allow","command":"git","args":[],"exact":true}`, with(func(c *Command) { c.Args = nil }), yes},
		{"exact, none, some", `{"tool":"sh","decision":"allow","command":"git","args":[],"exact":true}`, with(func(*Command) {}), no},
		{"any, not sealed", `{"tool":"sh","decision":"allow","command":"git","args-any":["x"]}`, with(open), unknown},
		{"any, visible", `{"tool":"sh","decision":"allow","command":"git","args-any":["x","-3"]}`, with(open), yes},
		{"args no, any unknown", `{"tool":"sh","decision":"deny","command":"git","args":["push"],"args-any":["x"]}`, with(open), no},
		{"assignment", `{"tool":"sh","decision":"allow","command":"git"}`, with(func(c *Command) { c.Assigns = []string{"X"} }), unknown},
		{"assignment, deny", `{"tool":"sh","decision":"deny","command":"git"}`, with(func(c *Command) { c.Assigns = []string{"X"} }), yes},
		{"safe assignment", `{"tool":"sh","decision":"allow","command":"git"}`, with(func(c *Command) { c.Assigns = []string{"NO_COLOR", "MINE"} }), yes},
		{"odd place", `{"tool":"sh","decision":"allow","command":"git"}`, with(func(c *Command) { c.Where = "relative" }), unknown},
		{"odd place, ask", `{"tool":"sh","decision":"ask","command":"git"}`, with(func(c *Command) { c.Where = "relative" }), yes},
		{"odd place, other program", `{"tool":"sh","decision":"allow","command":"ls"}`, with(func(c *Command) { c.Where = "relative" }), no},
		{"write", `{"tool":"sh","decision":"allow","command":"git"}`, with(writes(Place{Path: "/w/x"})), unknown},
		{"write, deny", `{"tool":"sh","decision":"deny","command":"git"}`, with(writes(Place{Path: "/w/x"})), yes},
		{"write inside", `{"tool":"sh","decision":"allow","command":"git","under":"/w"}`, with(writes(Place{Path: "/w/x"})), yes},
		{"write outside", `{"tool":"sh","decision":"allow","command":"git","under":"/w"}`, with(writes(Place{Path: "/w/x"}, Place{Path: "/v"})), no},
		{"write nowhere known", `{"tool":"sh","decision":"allow","command":"git","under":"/w"}`, with(writes(Place{Path: "$x", Unknown: "u"})), unknown},
		{"relative write", `{"tool":"sh","decision":"allow","command":"git"}`, with(writes(Place{Path: "x"})), unknown},
		{"no token ever", `{"tool":"sh","decision":"deny","command":"git","args-any":[]}`, with(open), no},
		{"no token ever, unknown command", `{"tool":"sh","decision":"deny","command":"git","args-any":[]}`, with(func(c *Command) { c.Unknown = "u" }), no},
		{"the zero host", `{"tool":"sh","decision":"deny","host":"a.b"}`, Facts{Commands: []Command{git}, Hosts: []Host{{}}}, unknown},
		{"no host", `{"tool":"sh","decision":"deny","host":"a.b"}`, Facts{Commands: []Command{git}}, unknown},
		{"no name below", `{"tool":"sh","decision":"allow","host":"*.b"}`, Facts{Commands: []Command{git}, Hosts: []Host{{Host: ".b"}}}, no},
		{"two hosts, allow", `{"tool":"sh","decision":"allow","host":"a.b"}`, Facts{Commands: []Command{git}, Hosts: []Host{{Host: "a.b"}, {Host: "c"}}}, no},
		{"two hosts, deny", `{"tool":"sh","decision":"deny","host":"a.b"}`, Facts{Commands: []Command{git}, Hosts: []Host{{Host: "c"}, {Host: "a.b"}}}, yes},
		{"address in another form", `{"tool":"sh","decision":"deny","host":"0:0::1"}`, Facts{Commands: []Command{git}, Hosts: []Host{{Host: "::1"}}}, yes},
		{"no location", `{"tool":"sh","decision":"allow","command":"git","under":"/w"}`, with(func(*Command) {}), unknown},
		{"denied write", `{"tool":"sh","decision":"deny","under":"/w"}`, with(writes(Place{Path: "/w/x"})), yes},
		{"other write, unnamed location", `{"tool":"sh","decision":"deny","under":"/w"}`, with(writes(Place{Path: "/v"})), unknown},
		{"extension in the rule", `{"tool":"sh","decision":"deny","command":"GIT.exe"}`, with(func(*Command) {}), yes},
		{"folding prefix", `{"tool":"sh","decision":"deny","command":"\u212a*"}`, with(func(c *Command) { c.Program = "kill" }), yes},
		{"prefix longer than the name", `{"tool":"sh","decision":"deny","command":"gitk*"}`, with(func(*Command) {}), no},
		{"prefix, allow, other case", `{"tool":"sh","decision":"allow","command":"G*"}`, with(func(*Command) {}), no},
	} {
		r, err := ParseRule([]byte(tc.rule))
		if err != nil {
			t.Fatal(err)
		}
		s := subject{tool: "sh", facts: &tc.facts, command: &tc.facts.Commands[0], fold: true, safeEnv: []string{"MINE"}}
		if got, _ := s.match(&r); got != tc.want {
			t.Errorf("%s: answer %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestMatchInvalidRulesNeverAllow(t *testing.T) {
	f := Facts{Commands: []Command{{Program: "git", Sealed: true}}, Paths: []Place{{Path: "/x"}}, Hosts: []Host{{Host: "a.b"}}}
	for _, r := range []Rule{
		{},
		{Decision: Allow},
		{Decision: Allow, Tool: "**"},
		{Decision: Allow, Tool: "sh", Args: []string{}},
		{Decision: Allow, Tool: "sh", Exact: true},
		{Decision: Allow, Tool: "sh", Command: "git", Exact: true},
		{Decision: Allow, Tool: "sh", ArgsAny: []string{"x"}},
		{Decision: Allow, Tool: "sh", Command: "/bin/git"},
		{Decision: Allow, Tool: "sh", Host: "*"},
		{Decision: Allow, Tool: "sh", Host: "*."},
		{Decision: Allow, Tool: "sh", Under: ".."},
		{Decision: Allow, Tool: "sh", Check: "x"},
		{Decision: 9, Tool: "sh"},
	} {
		if r.Validate() == nil && r.Check == "" {
			t.Errorf("%+v is valid", r)
		}
		p := &Policy{Rules: []Rule{r}}
		if v := p.Judge("sh", f, nil); v.Decision == Allow {
			t.Errorf("%+v allows", r)
		}
		if v := (&Policy{}).Judge("sh", f, []Grant{{ID: "g", Rules: []Rule{r}}}); v.Decision == Allow {
			t.Errorf("%+v allows as a grant", r)
		}
	}
}

func TestFoldPaths(t *testing.T) {
	f := Facts{Paths: []Place{{Path: "/home/u/.SSH/id"}}}
	off := false
	for _, tc := range []struct {
		rule string
		fold *bool
		want Decision
	}{
		{`[{"tool":"r","decision":"deny","under":"/home/u/.ssh"}]`, nil, Deny},
		{`[{"tool":"r","decision":"deny","under":"/home/u/.ssh"}]`, &off, Ask},
		{`[{"tool":"r","decision":"allow","under":"/home/u/.ssh"}]`, nil, Ask},
		{`[{"tool":"r","decision":"allow","under":"/home/u/.SSH"}]`, nil, Allow},
	} {
		p := &Policy{Rules: rules(t, tc.rule), FoldPaths: tc.fold}
		if v := p.Judge("r", f, nil); v.Decision != tc.want {
			t.Errorf("%s: %s, want %s", tc.rule, v.Decision, tc.want)
		}
	}
}

func TestZeroVerdictDenies(t *testing.T) {
	var v Verdict
	if v.Decision != Deny || v.Grantable {
		t.Errorf("the zero verdict is %+v", v)
	}
}

func TestMoreSpecific(t *testing.T) {
	// Each line is more specific than the one after it; the last two tie.
	ordered := rules(t, `[
		{"tool":"abc","decision":"ask"},
		{"tool":"ab","decision":"ask","command":"x"},
		{"tool":"ab","decision":"ask"},
		{"tool":"abcd*","decision":"ask","command":"git","args":["a"],"args-any":["b"],"check":"c"},
		{"tool":"abcd*","decision":"ask","command":"git","args":["a"],"args-any":["b"],"under":"/"},
		{"tool":"abcd*","decision":"ask","command":"git","args":["a","b"]},
		{"tool":"abcd*","decision":"ask","command":"git","args-any":["b"],"check":"c"},
		{"tool":"abcd*","decision":"ask","command":"git","check":"c"},
		{"tool":"abcd*","decision":"ask","command":"git","under":"/a/b/c"},
		{"tool":"abcd*","decision":"ask","command":"git","under":"x/y"},
		{"tool":"abcd*","decision":"ask","command":"git","under":"/"},
		{"tool":"abcd*","decision":"ask","command":"git","host":"abc.de"},
		{"tool":"abcd*","decision":"ask","command":"git","host":"b.de"},
		{"tool":"abcd*","decision":"ask","command":"git","host":"*.abc.de"},
		{"tool":"abcd*","decision":"ask","command":"git","host":"*.de"},
		{"tool":"abcd*","decision":"ask","command":"git"},
		{"tool":"abcd*","decision":"ask","command":"gi"},
		{"tool":"abcd*","decision":"ask","command":"gitgit*"},
		{"tool":"abcd*","decision":"ask","command":"*"},
		{"tool":"abcd*","decision":"ask","check":"c"},
		{"tool":"abcd*","decision":"ask","note":"n","severity":"danger","remember":true},
		{"tool":"abcd*","decision":"ask"}]`)
	for i := range ordered {
		for k := range ordered {
			tie := min(i, k) == len(ordered)-2 && i != k || i == k
			want := i < k && !tie
			if got := moreSpecific(&ordered[i], &ordered[k]); got != want {
				t.Errorf("line %d over line %d: %v, want %v", i, k, got, want)
			}
		}
	}
}

// TestOptionsInWords: a deny by an option fires where the option may stand in a
// word with its value or with others; an allow by one does not.
func TestOptionsInWords(t *testing.T) {
	p := mustParse(t, "p.yaml", `
floor: off
rules:
  - {tool: sh, decision: allow, command: git}
  - {tool: sh, decision: deny, command: git, args-any: ["--output", "-f", "-exec"]}
  - {tool: sh, decision: allow, command: rg, args-any: ["-n"]}
`)
	for line, want := range map[string]Decision{
		"git diff": Allow, "git diff --output x": Deny, "git diff --output=x": Deny, "git clean -f": Deny, "git clean -dfx": Deny, "git x -exec=./y": Deny,
		"git diff --outputs=x": Allow, "git diff x--output=y": Allow, "git log --format=%h": Allow, "git show f": Allow, "git log -n1": Allow, "git log --f": Allow,
		"rg -n x": Allow, "rg -in x": Ask, "rg x": Ask,
	} {
		if got := p.Judge("sh", p.Facts("sh", mustJSON(t, map[string]string{"command": line})), nil).Decision; got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	f := p.Facts("sh", []byte(`{"command":"git diff --output=x"}`))
	if why := p.Explain("sh", []byte(`{"command":"git diff --output=x"}`)).Parts[0].Rules[1].Why; why != `cannot tell: whether the option is in "git diff --output=x" depends on the program` {
		t.Errorf("%+v: %s", f, why)
	}
}
