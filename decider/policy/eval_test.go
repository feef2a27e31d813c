package policy

import "testing"

func TestEvalLine(t *testing.T) {
	base := mustParse(t, "p.yaml", `{roots: {"": /srv}, rules: [{tool: a, decision: deny, under: x}]}`)
	const denied = `{"decision":"deny","reason":"rule","rule":{"decision":"deny","tool":"a","under":"x"},"paths":["/srv/x"],"suggestion":{"tool":"a","under":"/srv"}}`
	for _, tc := range []struct {
		base       *Policy
		line, want string
	}{
		{base, `{"tool":"a","arguments":{"path":"x"}}`, denied},
		{base, `{"name":"n","why":1,"want":{},"now":[],"tool":"a","arguments":{"path":"x"},"floor":"off"}`, denied},
		{base, `{"tool":"a","arguments":{"path":"x"},"rules":[]}`, `{"decision":"ask","reason":"no-match","paths":["/srv/x"],"suggestion":{"tool":"a","under":"/srv"}}`},
		{base, `{"tool":"a","arguments":{"path":"x"},"roots":{}}`, `{"decision":"deny","reason":"rule","rule":{"decision":"deny","tool":"a","under":"x"},"paths":["x"],"suggestion":{"tool":"a"}}`},
		{nil, `{"tool":"a","arguments":null,"rules":[]}`, `{"decision":"ask","reason":"no-match","paths":[],"suggestion":{"tool":"a"}}`},
		{nil, `{"tool":"a","arguments":{}}`, `{"error":"line: member \"rules\" is missing"}`},
		{nil, `{"tool":"a","rules":[]}`, `{"error":"line: member \"arguments\" is missing"}`},
		{nil, `{"arguments":{},"rules":[]}`, `{"error":"line: member \"tool\" is missing"}`},
		{nil, `{"tool":"","arguments":{},"rules":[]}`, `{"error":"tool may not be empty"}`},
		{nil, `{"tool":"a","arguments":{},"rules":[],"arguments":{}}`, `{"error":"line: member \"arguments\" is there twice"}`},
		{nil, `[]`, `{"error":"line must be an object, not a list"}`},
		{nil, ``, `{"error":"not JSON: unexpected end of JSON input"}`},
		{nil, `{"tool":"a","arguments":{},"rules":[{"tool":"a"},{"tool":"b"}]}`, `{"error":"rules[0]: member \"decision\" is missing; rules[1]: member \"decision\" is missing"}`},
	} {
		if got := string(EvalLine(tc.base, []byte(tc.line))); got != tc.want {
			t.Errorf("%s:\n  got  %s\n  want %s", tc.line, got, tc.want)
		}
	}
	if len(base.Rules) != 1 || base.Roots[""] != "/srv" {
		t.Errorf("lines changed the base policy: %+v", base)
	}
}
