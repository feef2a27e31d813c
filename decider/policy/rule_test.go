package policy

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseRule(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{`{"tool":"a","decision":"allow"}`, `{"decision":"allow","tool":"a"}`},
		{`{"decision":"deny","tool":"a*","under":"/x/","host":"*.B.com"}`, `{"decision":"deny","host":"*.B.com","tool":"a*","under":"/x/"}`},
		{`{"tool":"a","decision":"ask","command":"git","args":[],"args-any":[],"exact":true,"remember":true}`,
			`{"args":[],"args-any":[],"command":"git","decision":"ask","exact":true,"remember":true,"tool":"a"}`},
		{`{"tool":"a","decision":"ask","check":"c","note":"n","severity":"danger"}`,
			`{"check":"c","decision":"ask","note":"n","severity":"danger","tool":"a"}`},
		{`{"tool":"a","decision":"ask","remember":false}`, `{"decision":"ask","tool":"a"}`},
		{`{"tool":"*","decision":"ask","host":"::1"}`, `{"decision":"ask","host":"::1","tool":"*"}`},
		{`{"tool":"a","decision":"deny","command":"["}`, `{"command":"[","decision":"deny","tool":"a"}`},
	} {
		r, err := ParseRule([]byte(tc.in))
		if err != nil {
			t.Errorf("%s: %v", tc.in, err)
			continue
		}
		out, err := json.Marshal(r)
		if err != nil || string(out) != tc.want {
			t.Errorf("%s: wrote %s, %v, want %s", tc.in, out, err, tc.want)
		}
		again, err := ParseRule(out)
		if err != nil || !again.Equal(r) {
			t.Errorf("%s: read back as %+v, %v", out, again, err)
		}
	}
}

func TestParseRuleRefuses(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{``, "not JSON"},
		{`null`, "must be an object"},
		{`{"tool":"a"}`, `"decision" is missing`},
		{`{"decision":"allow"}`, `"tool" is missing`},
		{`{"tool":"a","decision":"Allow"}`, "none of deny, ask, allow"},
		{`{"tool":"a","decision":"allow","Under":"/x"}`, `unknown member "Under"; write "under"`},
		{`{"tool":"a","decision":"allow","args_any":["x"]}`, `write "args-any"`},
		{`{"tool":"a","decision":"allow","where":"x"}`, `unknown member "where"; known are args`},
		{`{"tool":"a","decision":"allow","tool":"b"}`, `"tool" is there twice`},
		{`{"tool":"a","decision":"allow","under":"~/x"}`, "~ is not expanded"},
		{`{"tool":"a","decision":"allow","under":"../x"}`, "without .."},
		{`{"tool":"a","decision":"allow","under":"a\\b"}`, "write / between"},
		{`{"tool":"a","decision":"allow","under":"C:/b"}`, "drive letter"},
		{`{"tool":"a","decision":"allow","under":"/a\u0000"}`, "UTF-8 text"},
		{`{"tool":"a","decision":"allow","host":"fe80::1%eth0"}`, "host"},
		{`{"tool":"a","decision":"allow","command":"git push"}`, "write its arguments in args"},
		{`{"tool":"a","decision":"allow","command":"/bin/git"}`, "base name"},
		{`{"tool":"a","decision":"allow","command":"g*t"}`, "last character"},
		{`{"tool":"a","decision":"allow","command":"git","exact":true}`, "exact needs args"},
		{`{"tool":"a","decision":"allow","args":["x"]}`, "need a command"},
		{`{"tool":"a","decision":"allow","command":"git","args":[7]}`, "args[0] must be a string, not a number; write it in quotes"},
		{`{"tool":"a","decision":"allow","severity":"high"}`, "severity"},
		{`{"tool":"a","decision":"allow","remember":"yes"}`, "remember must be a boolean"},
		{`{"tool":"a","decision":"allow"} {}`, "not JSON"},
		{"{\"tool\":\"a\xff\",\"decision\":\"allow\"}", "UTF-8"},
		{strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested deeper"},
	} {
		r, err := ParseRule([]byte(tc.in))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.80s: error %v, want %q", tc.in, err, tc.want)
		}
		if !r.Equal(Rule{}) {
			t.Errorf("%s: gave %+v beside the error", tc.in, r)
		}
	}
}

func TestRuleEqual(t *testing.T) {
	full := Rule{Tool: "a", Decision: Ask, Under: "/u", Host: "h", Command: "c", Args: []string{"x"}, ArgsAny: []string{"y"},
		Check: "k", Note: "n", Severity: "danger", Remember: true, Exact: true}
	if !full.Equal(full) {
		t.Error("a rule differs from itself")
	}
	for name, change := range map[string]func(*Rule){
		"tool":     func(r *Rule) { r.Tool = "b" },
		"decision": func(r *Rule) { r.Decision = Deny },
		"under":    func(r *Rule) { r.Under = "" },
		"host":     func(r *Rule) { r.Host = "" },
		"command":  func(r *Rule) { r.Command = "" },
		"args":     func(r *Rule) { r.Args = []string{} },
		"args-nil": func(r *Rule) { r.Args = nil },
		"args-any": func(r *Rule) { r.ArgsAny = nil },
		"check":    func(r *Rule) { r.Check = "" },
		"note":     func(r *Rule) { r.Note = "" },
		"severity": func(r *Rule) { r.Severity = "" },
		"remember": func(r *Rule) { r.Remember = false },
		"exact":    func(r *Rule) { r.Exact = false },
	} {
		other := full
		change(&other)
		if full.Equal(other) || other.Equal(full) {
			t.Errorf("rules that differ in %s are equal", name)
		}
	}
	if (Rule{Args: nil}).Equal(Rule{Args: []string{}}) {
		t.Error("no args equal an empty list of them")
	}
}

func TestDecisionText(t *testing.T) {
	for _, d := range []Decision{Deny, Ask, Allow} {
		text, err := d.MarshalText()
		var back Decision
		if err != nil || back.UnmarshalText(text) != nil || back != d {
			t.Errorf("%s does not survive its text", d)
		}
	}
	for _, bad := range []string{"", "Deny", "allow ", "yes"} {
		d := Allow
		if err := d.UnmarshalText([]byte(bad)); err == nil || d != Deny {
			t.Errorf("%q: read as %s, error %v, want deny and an error", bad, d, err)
		}
	}
	if _, err := Decision(9).MarshalText(); err == nil {
		t.Error("decision 9 has a text")
	}
	var zero Decision
	if zero != Deny || zero.String() != "deny" {
		t.Errorf("the zero decision is %s", zero)
	}
}
