package policy

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzParse holds that any bytes give a policy or an error, the same every
// time, and that a policy's bytes parse to the same policy.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{fullYAML, fullJSON, defaultBytes, observer, "", "{", "a: &b [*b]", "? [x]\n: y", "%YAML 9\n---\n", "\ufeffrules: []"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range []string{"p", "p.json", "p.yaml"} {
			p, err := Parse(name, b)
			if err != nil {
				if p != nil || err.Error() == "" {
					t.Fatalf("policy %v beside error %q", p, err)
				}
				continue
			}
			again, err := Parse(name, p.Bytes())
			if err != nil {
				t.Fatalf("its own bytes do not parse: %v", err)
			}
			if diff := cmp.Diff(p, again, cmp.AllowUnexported(Policy{}), cmpopts.IgnoreFields(Policy{}, "index")); diff != "" {
				t.Fatalf("its own bytes parse to another policy:\n%s", diff)
			}
			for _, w := range p.Lint() {
				if w.Line < 1 || w.Msg == "" {
					t.Fatalf("a warning without a line or a text: %+v", w)
				}
			}
			for _, r := range p.Rules {
				if err := r.Validate(); err != nil {
					t.Fatalf("an invalid rule was let in: %v", err)
				}
			}
		}
	})
}

// FuzzParseRule holds that a rule that parses is valid and survives its JSON
// form byte for byte.
func FuzzParseRule(f *testing.F) {
	f.Add([]byte(`{"tool":"a","decision":"allow","args":[],"command":"git","exact":true}`))
	f.Add([]byte(`{"tool":"a*","decision":"deny","host":"*.b","under":"x","note":"<&>\u2028"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRule(b)
		if err != nil {
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatalf("parsed but not valid: %v", err)
		}
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseRule(out)
		if err != nil || !back.Equal(r) {
			t.Fatalf("%s came back as %+v, %v", out, back, err)
		}
		again, err := json.Marshal(back)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("%s is written again as %s", out, again)
		}
	})
}

// FuzzJudge holds that no arguments and no facts make judging fail, that
// recorded facts are judged as the call was, and that what cannot be read is
// never allowed by a narrowed rule.
func FuzzJudge(f *testing.F) {
	f.Add("fs_read", []byte(`{"path":"a","from":"../b","to":"~","url":"https://a.b:1/c"}`))
	f.Add("Bash", []byte(`{"command":"ls | rm"}`))
	f.Add("sh_x", []byte(`{"cmd":"/tmp/git.exe","argv":["a",1,1.5,null]}`))
	f.Add("x", []byte(`null`))
	p, err := Parse("p.yaml", []byte(fullYAML))
	if err != nil {
		f.Fatal(err)
	}
	p.Rules = append(p.Rules,
		Rule{Tool: "*", Decision: Deny, Command: "rm"}, Rule{Tool: "*", Decision: Allow, Host: "*.b"},
		Rule{Tool: "*", Decision: Allow, Command: "g*", ArgsAny: []string{"a"}})
	grants := []Grant{{ID: "g", Rules: []Rule{{Tool: "*", Decision: Allow, Under: "/srv"}}}}
	f.Fuzz(func(t *testing.T, tool string, arguments []byte) {
		facts := p.Facts(tool, arguments)
		v := p.Judge(tool, facts, grants)
		if facts.Unreadable && v.Decision == Allow {
			t.Fatal("unreadable arguments were allowed by a narrowed rule")
		}
		b, err := json.Marshal(facts)
		if err != nil {
			t.Fatal(err)
		}
		var back Facts
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("facts do not read back: %v\n%s", err, b)
		}
		if diff := cmp.Diff(v, p.Judge(tool, back, grants)); diff != "" {
			t.Fatalf("recorded facts are judged otherwise:\n%s", diff)
		}
		p.Alternatives(tool, facts, v)
		p.DigestArguments(tool, arguments)
	})
}

// FuzzEvalLine holds that any line gives one line of JSON.
func FuzzEvalLine(f *testing.F) {
	for _, v := range readVectors(f, "validate.jsonl") {
		f.Add(v.line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		out := EvalLine(nil, line)
		if !json.Valid(out) || bytes.ContainsRune(out, '\n') {
			t.Fatalf("not one line of JSON: %q", out)
		}
	})
}

// FuzzFacts holds that facts that decode can be judged and encode to what
// decodes the same.
func FuzzFacts(f *testing.F) {
	f.Add([]byte(`{"commands":[{"program":"git","args":["a"],"writes":[{"path":"/x"}],"assigns":["A"]}],"root":"/"}`))
	p := &Policy{Rules: []Rule{{Tool: "*", Decision: Allow, Command: "git", Under: "x"}, {Tool: "*", Decision: Deny, Under: "y"}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		var facts, back Facts
		if json.Unmarshal(b, &facts) != nil {
			return
		}
		out, err := json.Marshal(facts)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%s does not read back: %v", out, err)
		}
		v := p.Judge("t", facts, nil)
		if diff := cmp.Diff(v, p.Judge("t", back, nil)); diff != "" {
			t.Fatalf("judged otherwise when read back:\n%s", diff)
		}
		p.QuestionSuggestion("t", facts, v)
	})
}
