// Package peers measures the policy engine beside others. It is a module of its
// own, so that the product does not depend on them.
package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/casbin/casbin/v2"
	"github.com/casbin/casbin/v2/model"
	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"decisionjournal/decider/policy"
)

// rule says what a tool may do below a directory.
type rule struct {
	tool, dir string
	deny      bool
}

const tools = 20

// rules are n of them: four allow a directory, the fifth denies one in it.
func rules(n int) []rule {
	list := make([]rule, n)
	for i := range list {
		list[i] = rule{tool(i), fmt.Sprintf("/srv/work/project%d/src", i), false}
		if i%5 == 4 {
			list[i] = rule{tool(i - 1), fmt.Sprintf("/srv/work/project%d/src/secret", i-1), true}
		}
	}
	return list
}

func tool(i int) string { return fmt.Sprintf("t%d", i/5%tools) }

// call is what a tool is to touch.
type call struct{ tool, path string }

// calls are k of them over all of n rules, some of which none covers.
func calls(n, k int) []call {
	list := make([]call, k)
	for i := range list {
		r := i * max(n/k, 1) % n / 5 * 5
		switch i % 4 {
		case 0, 1:
			list[i] = call{tool(r), fmt.Sprintf("/srv/work/project%d/src/a/b.go", r+i%4)}
		case 2: // what a deny covers, of a tool that an allow covers too
			list[i] = call{tool(r + 3), fmt.Sprintf("/srv/work/project%d/src/secret/key", r+3)}
		case 3:
			list[i] = call{tool(r), fmt.Sprintf("/srv/elsewhere%d/x", r)}
		}
	}
	return list
}

// allowed are the calls that an allow covers.
func allowed(n int) []call {
	var list []call
	for i, c := range calls(n, 40) {
		if i%4 < 2 {
			list = append(list, c)
		}
	}
	return list
}

// ancestors are the directories that a path lies in, the deepest first.
func ancestors(path string) (list []string) {
	for at := strings.LastIndexByte(path, '/'); at > 0; at = strings.LastIndexByte(path[:at], '/') {
		list = append(list, path[:at])
	}
	return list
}

// engine prepares a call, and judges it as often as one likes: what is returned
// is allow, deny, or ask where no rule covers it.
type engine func(tb testing.TB, rules []rule) (prepare func(call) (judge func() string))

var engines = map[string]engine{"ours": ours, "ours-from-arguments": fromArguments, "cedar": cedarEngine, "rego": regoEngine, "casbin": casbinEngine}

func newPolicy(tb testing.TB, rules []rule) *policy.Policy {
	type line map[string]string
	var doc struct {
		Rules []line `json:"rules"`
	}
	for _, r := range rules {
		doc.Rules = append(doc.Rules, line{"tool": r.tool, "decision": decision(r), "under": r.dir})
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		tb.Fatal(err)
	}
	p, err := policy.Parse("p.json", raw)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func decision(r rule) string {
	if r.deny {
		return "deny"
	}
	return "allow"
}

func ours(tb testing.TB, rules []rule) func(call) func() string {
	p := newPolicy(tb, rules)
	return func(c call) func() string {
		f := p.Facts(c.tool, fmt.Appendf(nil, `{"path":%q}`, c.path))
		var v policy.Verdict
		return func() string {
			p.JudgeInto(&v, c.tool, &f, nil, nil)
			return v.Decision.String()
		}
	}
}

func fromArguments(tb testing.TB, rules []rule) func(call) func() string {
	p := newPolicy(tb, rules)
	return func(c call) func() string {
		args := fmt.Appendf(nil, `{"path":%q}`, c.path)
		var v policy.Verdict
		return func() string {
			f := p.Facts(c.tool, args)
			p.JudgeInto(&v, c.tool, &f, nil, nil)
			return v.Decision.String()
		}
	}
}

// cedarEngine: a path is an entity whose parents are its directories.
func cedarEngine(tb testing.TB, rules []rule) func(call) func() string {
	var text strings.Builder
	for _, r := range rules {
		effect := "permit"
		if r.deny {
			effect = "forbid"
		}
		fmt.Fprintf(&text, "%s (principal, action == Action::%q, resource in Dir::%q);\n", effect, r.tool, r.dir)
	}
	set, err := cedar.NewPolicySetFromBytes("p.cedar", []byte(text.String()))
	if err != nil {
		tb.Fatal(err)
	}
	return func(c call) func() string {
		entities := types.EntityMap{}
		child := types.NewEntityUID("File", types.String(c.path))
		file := child
		for _, dir := range ancestors(c.path) {
			parent := types.NewEntityUID("Dir", types.String(dir))
			entities[child] = types.Entity{UID: child, Parents: types.NewEntityUIDSet(parent)}
			child = parent
		}
		entities[child] = types.Entity{UID: child}
		req := cedar.Request{Principal: types.NewEntityUID("Agent", "main"), Action: types.NewEntityUID("Action", types.String(c.tool)), Resource: file, Context: types.NewRecord(nil)}
		return func() string {
			ok, why := cedar.Authorize(set, entities, req)
			switch {
			case bool(ok):
				return "allow"
			case len(why.Reasons) > 0:
				return "deny"
			}
			return "ask"
		}
	}
}

// regoModule looks a call's directories up in objects by tool, which is the way
// that grows least.
const regoModule = `package p
import rego.v1
default verdict := "ask"
denied if { some d in input.ancestors; data.deny[input.tool][d] }
allowed if { some d in input.ancestors; data.allow[input.tool][d] }
verdict := "deny" if denied
verdict := "allow" if { allowed; not denied }
`

func regoEngine(tb testing.TB, rules []rule) func(call) func() string {
	data := map[string]any{"allow": map[string]any{}, "deny": map[string]any{}}
	for _, r := range rules {
		byTool := data[decision(r)].(map[string]any)
		if byTool[r.tool] == nil {
			byTool[r.tool] = map[string]any{}
		}
		byTool[r.tool].(map[string]any)[r.dir] = true
	}
	query, err := rego.New(rego.Query("v = data.p.verdict"), rego.Module("p.rego", regoModule), rego.Store(inmem.NewFromObjectWithOpts(data, inmem.OptReturnASTValuesOnRead(true)))).PrepareForEval(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return func(c call) func() string {
		var dirs []any
		for _, d := range ancestors(c.path) {
			dirs = append(dirs, d)
		}
		input, err := ast.InterfaceToValue(map[string]any{"tool": c.tool, "ancestors": dirs})
		if err != nil {
			tb.Fatal(err)
		}
		ctx := context.Background()
		return func() string {
			got, err := query.Eval(ctx, rego.EvalParsedInput(input))
			if err != nil || len(got) != 1 {
				tb.Fatal(got, err)
			}
			return got[0].Bindings["v"].(string)
		}
	}
}

const casbinModel = `
[request_definition]
r = act, obj
[policy_definition]
p = act, obj, eft
[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))
[matchers]
m = r.act == p.act && keyMatch(r.obj, p.obj)
`

func casbinEngine(tb testing.TB, rules []rule) func(call) func() string {
	m, err := model.NewModelFromString(casbinModel)
	if err != nil {
		tb.Fatal(err)
	}
	e, err := casbin.NewEnforcer(m)
	if err != nil {
		tb.Fatal(err)
	}
	for _, r := range rules {
		if _, err := e.AddPolicy(r.tool, r.dir+"/*", decision(r)); err != nil {
			tb.Fatal(err)
		}
	}
	return func(c call) func() string {
		return func() string {
			ok, why, err := e.EnforceEx(c.tool, c.path)
			switch {
			case err != nil:
				tb.Fatal(err)
			case ok:
				return "allow"
			case len(why) > 0:
				return "deny"
			}
			return "ask"
		}
	}
}

// TestAlike: all engines say the same about the same calls.
func TestAlike(t *testing.T) {
	for _, n := range []int{10, 100, 1000} {
		list := rules(n)
		base := ours(t, list)
		for name, e := range engines {
			prepare := e(t, list)
			seen := map[string]int{}
			for _, c := range calls(n, 200) {
				want, got := base(c)(), prepare(c)()
				if seen[want]++; got != want {
					t.Errorf("%s of %d rules: %s %s is %s, and ours says %s", name, n, c.tool, c.path, got, want)
				}
			}
			if len(seen) != 3 {
				t.Errorf("only %v were seen", seen)
			}
		}
	}
}

// BenchmarkEvaluate judges calls that an allow covers, in turn.
func BenchmarkEvaluate(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		for _, name := range []string{"ours", "ours-from-arguments", "cedar", "rego", "casbin"} {
			if name == "casbin" && n > 1000 {
				continue // a second for each call
			}
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				prepare := engines[name](b, rules(n))
				var judges []func() string
				for _, c := range allowed(n) {
					judges = append(judges, prepare(c))
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if got := judges[i%len(judges)](); got != "allow" {
						b.Fatal(got)
					}
				}
			})
		}
	}
}
