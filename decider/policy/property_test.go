package policy

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Small alphabets, so that rules and calls often meet.
var (
	genTool    = rapid.SampledFrom([]string{"a", "ab", "abc", "b"})
	genPattern = rapid.SampledFrom([]string{"a", "ab", "a*", "*", "b", "abc"})
	genDir     = rapid.SampledFrom([]string{"/", "/x", "/x/y", "x", ".", "/X", "y/"})
	genPath    = rapid.SampledFrom([]string{"/", "/x", "/x/y/z", "x/y", "", "..", "~", "/x/../y", "/X/Y", `a\b`})
	genHost    = rapid.SampledFrom([]string{"a.b", "*.b", "b", "A.B", "::1"})
	genURL     = rapid.SampledFrom([]string{"https://a.b", "https://c.b/x", "http://b", "ftp://a.b", "https://[::1]/"})
	genProgram = rapid.SampledFrom([]string{"git", "GIT", "git.exe", "/tmp/git", "./git", "rm", "env", "git x", ""})
	genCommand = rapid.SampledFrom([]string{"git", "g*", "GIT", "rm", "*", "env"})
	genToken   = rapid.SampledFrom([]string{"p", "q", "-f"})
)

// genRule draws a valid rule.
func genRule(decisions ...Decision) *rapid.Generator[Rule] {
	return rapid.Custom(func(t *rapid.T) Rule {
		r := Rule{Tool: genPattern.Draw(t, "tool"), Decision: rapid.SampledFrom(decisions).Draw(t, "decision")}
		maybe := func(what string) bool { return rapid.IntRange(0, 2).Draw(t, what) == 0 }
		if maybe("has under") {
			r.Under = genDir.Draw(t, "under")
		}
		if maybe("has host") {
			r.Host = genHost.Draw(t, "host")
		}
		if maybe("has command") {
			r.Command = genCommand.Draw(t, "command")
			if maybe("has args") {
				r.Args = rapid.SliceOfN(genToken, 0, 2).Draw(t, "args")
				r.Exact = rapid.Bool().Draw(t, "exact")
			}
			if maybe("has args-any") {
				r.ArgsAny = rapid.SliceOfN(genToken, 0, 2).Draw(t, "args-any")
			}
		}
		if maybe("has check") && maybe("really") {
			r.Check = "c"
		}
		r.Remember = r.Decision == Ask && rapid.Bool().Draw(t, "remember")
		return r
	})
}

func genRules(decisions ...Decision) *rapid.Generator[[]Rule] {
	return rapid.SliceOfN(genRule(decisions...), 0, 5)
}

func genGrants(decisions ...Decision) *rapid.Generator[[]Grant] {
	return rapid.Custom(func(t *rapid.T) []Grant {
		var out []Grant
		for i, rules := range rapid.SliceOfN(genRules(decisions...), 0, 4).Draw(t, "grants") {
			out = append(out, Grant{ID: string(rune('A' + i)), Rules: rules})
		}
		return out
	})
}

// genFacts draws the facts of a call, sometimes with several commands, as a
// shell line would give.
func genFacts(p *Policy, tool string) *rapid.Generator[Facts] {
	return rapid.Custom(func(t *rapid.T) Facts {
		args := map[string]any{}
		if rapid.Bool().Draw(t, "path?") {
			args["path"] = genPath.Draw(t, "path")
		}
		if rapid.Bool().Draw(t, "to?") {
			args["to"] = genPath.Draw(t, "to")
		}
		if rapid.Bool().Draw(t, "url?") {
			args["url"] = genURL.Draw(t, "url")
		}
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		f := p.Facts(tool, raw)
		for range rapid.IntRange(0, 3).Draw(t, "commands") {
			call := map[string]any{"command": genProgram.Draw(t, "program")}
			call["args"] = rapid.SliceOfN(genToken, 0, 3).Draw(t, "args")
			raw, err := json.Marshal(call)
			if err != nil {
				t.Fatal(err)
			}
			f.Commands = append(f.Commands, p.Facts(tool, raw).Commands...)
		}
		return f
	})
}

var genRoots = rapid.SampledFrom([]map[string]string{nil, {"": "/x"}, {"a": "/x/y", "": "x"}})

func drawCall(t *rapid.T) (*Policy, string, Facts) {
	p := &Policy{Rules: genRules(Deny, Ask, Allow).Draw(t, "rules"), Roots: genRoots.Draw(t, "roots")}
	tool := genTool.Draw(t, "tool")
	return p, tool, genFacts(p, tool).Draw(t, "facts")
}

func TestADenyRuleNeverPermitsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tool, f := drawCall(t)
		grants := genGrants(Deny, Allow).Draw(t, "grants")
		before := p.Judge(tool, f, grants)
		at := rapid.IntRange(0, len(p.Rules)).Draw(t, "at")
		more := &Policy{Rules: slices.Insert(slices.Clone(p.Rules), at, genRule(Deny).Draw(t, "deny")), Roots: p.Roots}
		if after := more.Judge(tool, f, grants); after.Decision > before.Decision || after.Static > before.Static {
			t.Fatalf("a deny turned %s into %s", before.Decision, after.Decision)
		}
	})
}

func TestAnAllowRuleNeverRefusesMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tool, f := drawCall(t)
		before := p.Judge(tool, f, nil)
		more := &Policy{Rules: append(slices.Clone(p.Rules), genRule(Allow).Draw(t, "allow")), Roots: p.Roots}
		after := more.Judge(tool, f, nil)
		if after.Decision < before.Decision || before.Decision == Deny && after.Decision != Deny {
			t.Fatalf("an allow turned %s into %s", before.Decision, after.Decision)
		}
	})
}

func TestRuleOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tool, f := drawCall(t)
		grants := genGrants(Deny, Allow).Draw(t, "grants")
		other := &Policy{Rules: rapid.Permutation(p.Rules).Draw(t, "order"), Roots: p.Roots}
		a, b := p.Judge(tool, f, grants), other.Judge(tool, f, grants)
		if a.Decision != b.Decision || a.Static != b.Static || a.Grantable != b.Grantable || !slices.Equal(a.Grants, b.Grants) {
			t.Fatalf("one order gives %+v, another %+v", a, b)
		}
	})
}

func TestDenyGrantsBeatAllowGrants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tool, f := drawCall(t)
		allows, denies := genGrants(Allow).Draw(t, "allows"), genGrants(Deny).Draw(t, "denies")
		onlyDenies := p.Judge(tool, f, denies)
		both := p.Judge(tool, f, append(slices.Clone(allows), denies...))
		if onlyDenies.Decision == Deny && both.Decision != Deny {
			t.Fatalf("allow grants turned a denial into %s", both.Decision)
		}
		static := p.Judge(tool, f, nil)
		if static.Decision != Ask && both.Decision != static.Decision {
			t.Fatalf("grants turned a static %s into %s", static.Decision, both.Decision)
		}
		if both.Static != static.Decision {
			t.Fatalf("static is %s with grants, %s without", both.Static, static.Decision)
		}
	})
}

func TestSuggestionsSettle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tool, f := drawCall(t)
		v := p.Judge(tool, f, nil)
		sets := p.Alternatives(tool, f, v)
		rules, ok := p.QuestionSuggestion(tool, f, v)
		if ok {
			sets = append(sets, rules)
		}
		if len(sets) > 0 && !v.Grantable {
			t.Fatalf("suggests %v for a verdict that no grant may answer", sets)
		}
		for _, set := range sets {
			after := p.Judge(tool, f, []Grant{{ID: "g", Rules: set}})
			if after.Decision != Allow || !slices.Equal(after.Grants, []string{"g"}) {
				t.Fatalf("%v leaves %s", set, after.Decision)
			}
			deny := slices.Clone(set)
			for i := range deny {
				deny[i].Decision = Deny
			}
			if after := p.Judge(tool, f, []Grant{{ID: "g", Rules: deny}}); after.Decision != Deny {
				t.Fatalf("denying %v leaves %s", set, after.Decision)
			}
		}
	})
}

func TestAllowIsNarrowerThanDeny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tool, f := drawCall(t)
		allow := genRule(Allow).Draw(t, "rule")
		deny := allow
		deny.Decision = Deny
		for i := range max(1, len(f.Commands)) {
			j := judging{policy: p, tool: tool, facts: &f}
			part := Part{Command: min(i, len(f.Commands)-1)}
			if j.settles(&Grant{Rules: []Rule{allow}}, Allow, &part) && !j.settles(&Grant{Rules: []Rule{deny}}, Deny, &part) {
				t.Fatalf("%+v allows what it would not deny", allow)
			}
		}
	})
}

func TestFactsDecideAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tool, f := drawCall(t)
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var back Facts
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		// Facts hold all a verdict needs: the policy's parameters and roots may
		// be gone.
		bare := &Policy{Rules: p.Rules}
		if diff := cmp.Diff(p.Judge(tool, f, nil), bare.Judge(tool, back, nil)); diff != "" {
			t.Fatalf("recorded facts are judged otherwise:\n%s", diff)
		}
	})
}

func TestRulesSurviveJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genRule(Deny, Ask, Allow).Draw(t, "rule")
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseRule(b)
		if (r.Validate() == nil) != (err == nil) {
			t.Fatalf("%s: valid %v, but reading gives %v", b, r.Validate(), err)
		}
		if err == nil && !back.Equal(r) {
			t.Fatalf("%+v came back as %+v", r, back)
		}
	})
}

// slowPart judges one part by looking at every rule, as the documents say it.
func slowPart(p *Policy, tool string, f *Facts, command int) Part {
	s := subject{tool: tool, facts: f, fold: p.foldPaths(), safeEnv: p.SafeEnv}
	if len(f.Commands) == 0 {
		command = -1
	} else {
		s.command = &f.Commands[command]
	}
	carrier := s.command != nil && s.command.Carrier && s.command.Where == "" && s.command.known()
	var best [Allow + 1]struct {
		rule  *Rule
		index int
		a     answer
	}
	doubt, remember := false, true
	for floor, rules := range [][]Rule{p.Rules, p.floorRules()} {
		for k := range rules {
			r := &rules[k]
			a, unsure := s.match(r)
			if carrier && r.Decision == Allow {
				continue
			}
			doubt = doubt || unsure
			if !r.fires(a) {
				continue
			}
			remember = remember && (r.Decision != Ask || r.Remember)
			if b := &best[r.Decision]; b.rule == nil || moreSpecific(r, b.rule) {
				b.rule, b.index, b.a = r, k, a
				if floor > 0 {
					b.index = -1
				}
			}
		}
	}
	for d := Deny; d <= Allow; d++ {
		if b := best[d]; b.rule != nil {
			part := ruled(command, d, b.a, b.rule, b.index)
			part.Consults = d == Ask && remember
			return part
		}
	}
	if carrier {
		return Part{Command: command, Decision: Allow, Static: Allow, Reason: ReasonNoMatch, RuleIndex: -1}
	}
	return unmatched(command, doubt)
}

// TestIndexFindsAll: what the index finds is what looking at every rule finds.
func TestIndexFindsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, tool, f := drawCall(t)
		p.Rules = append(p.Rules, rapid.SliceOfN(genRule(Deny, Ask, Allow), 0, 20).Draw(t, "more rules")...)
		p.Floor.Off = rapid.Bool().Draw(t, "floor off")
		for i := range f.Commands {
			if rapid.IntRange(0, 4).Draw(t, "writes") == 0 {
				f.Commands[i].Writes = append(f.Commands[i].Writes, place(f.Root, genPath.Draw(t, "file")))
			}
			if rapid.IntRange(0, 4).Draw(t, "unknown") == 0 {
				f.Commands[i] = Command{Unknown: "x"}
			}
		}
		v := p.Judge(tool, f, nil)
		for i, got := range v.Parts {
			if diff := cmp.Diff(slowPart(p, tool, &f, i), got); diff != "" {
				t.Fatalf("part %d (-every rule, +index):\n%s", i, diff)
			}
		}
	})
}
