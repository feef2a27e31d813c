package policy

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ruleText writes rules as their JSON forms.
func ruleText(t *testing.T, rules []Rule) string {
	t.Helper()
	b, err := json.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestQuestionSuggestion(t *testing.T) {
	p := mustParse(t, "p.yaml", `
roots: {"": /srv}
rules:
  - {tool: sh, decision: allow, command: ls}
  - {tool: sh, decision: ask, command: curl}
  - {tool: sh, decision: ask, command: push, remember: true}
`)
	for _, tc := range []struct{ tool, args, want string }{
		{"w", `{"path":"a/b"}`, `[{"decision":"allow","tool":"w","under":"/srv/a"}]`},
		{"w", `{"path":"../x"}`, `[{"decision":"allow","tool":"w"}]`},
		{"w", `{"path":"a/b","from":5}`, ``}, // the directory would not cover the other location
		{"w", `{"url":"https://a.b/c"}`, `[{"decision":"allow","host":"a.b","tool":"w"}]`},
		{"w", `{}`, `[{"decision":"allow","tool":"w"}]`},
		{"w", `null`, `[{"decision":"allow","tool":"w"}]`},
		{"not.a.rule.tool", `{}`, ``},
		{"star*", `{}`, ``},
		{"sh", `{"command":"git","args":["push","-f"]}`, `[{"args":["push","-f"],"command":"git","decision":"allow","exact":true,"tool":"sh"}]`},
		{"sh", `{"command":"git"}`, `[{"args":[],"command":"git","decision":"allow","exact":true,"tool":"sh"}]`},
		{"sh", `{"command":"/usr/bin/git","path":"/etc"}`, `[{"args":[],"command":"git","decision":"allow","exact":true,"tool":"sh"}]`},
		{"sh", `{"command":"push"}`, `[{"args":[],"command":"push","decision":"allow","exact":true,"tool":"sh"}]`},
		{"sh", `{"command":"curl"}`, ``},  // an ask rule means ask every time
		{"sh", `{"command":"ls"}`, ``},    // nothing asks
		{"sh", `{"command":"./git"}`, ``}, // relative
		{"sh", `{"command":"git log && ls"}`, `[{"args":["log"],"command":"git","decision":"allow","exact":true,"tool":"sh"}]`},
		{"sh", `{"command":"git log > x"}`, ``},         // writes
		{"sh", `{"command":"git","args":[{}]}`, ``},     // not sealed
		{"sh", `{"command":"git","args":["x",""]}`, ``}, // no rule can say ""
		{"sh", `{"command":"git*"}`, ``},                // would be a prefix
		{"sh", `{"command":"env","args":["git"]}`, `[{"args":[],"command":"git","decision":"allow","exact":true,"tool":"sh"}]`},
		{"sh", `{"command":"env","args":["-y"]}`, ``}, // what it runs is unknown
		{"sh", `{"command":"git\u00e9","args":["\u65e5"]}`, `[{"args":["日"],"command":"gité","decision":"allow","exact":true,"tool":"sh"}]`},
	} {
		f := p.Facts(tc.tool, json.RawMessage(tc.args))
		v := p.Judge(tc.tool, f, nil)
		got, ok := p.QuestionSuggestion(tc.tool, f, v)
		if tc.want == "" {
			if ok || got != nil {
				t.Errorf("%s %s: suggests %s, want nothing", tc.tool, tc.args, ruleText(t, got))
			}
			continue
		}
		if !ok || ruleText(t, got) != tc.want {
			t.Errorf("%s %s: suggests %s, %v, want %s", tc.tool, tc.args, ruleText(t, got), ok, tc.want)
		}
	}
}

func TestQuestionSuggestionOnlyForAskingParts(t *testing.T) {
	p := &Policy{Rules: rules(t, `[{"tool":"sh","decision":"allow","command":"ls"}]`)}
	f := commandFacts([]string{"ls"}, []string{"git", "log"}, []string{"git", "log"}, []string{"make"})
	granted := []Grant{grant(t, "m", `[{"tool":"sh","decision":"allow","command":"make"}]`)}
	v := p.Judge("sh", f, granted)
	got, ok := p.QuestionSuggestion("sh", f, v)
	const want = `[{"args":["log"],"command":"git","decision":"allow","exact":true,"tool":"sh"}]`
	if !ok || ruleText(t, got) != want {
		t.Errorf("suggests %s, %v, want %s", ruleText(t, got), ok, want)
	}
	f.Commands[2].Assigns = []string{"LD_PRELOAD"}
	v = p.Judge("sh", f, granted)
	if got, ok := p.QuestionSuggestion("sh", f, v); ok {
		t.Errorf("suggests %s for a part with an assignment", ruleText(t, got))
	}
}

func TestAlternatives(t *testing.T) {
	p := mustParse(t, "p.yaml", `
roots: {"": /srv/work}
rules:
  - {tool: danger, decision: ask, remember: true, severity: danger}
`)
	one := func(members string) string { return `{"decision":"allow",` + members + `}` }
	for _, tc := range []struct {
		tool, args string
		want       []string
	}{
		{"w", `{"path":"a/b/c"}`, []string{
			one(`"tool":"w","under":"/srv/work/a/b/c"`), one(`"tool":"w","under":"/srv/work/a"`),
			one(`"tool":"w","under":"/srv/work"`), one(`"tool":"w"`)}},
		{"w", `{"path":"/mnt/a"}`, []string{one(`"tool":"w","under":"/mnt/a"`), one(`"tool":"w"`)}},
		{"w", `{"path":"/etc/passwd"}`, []string{one(`"tool":"w","under":"/etc/passwd"`)}},
		{"danger", `{"path":"a"}`, []string{one(`"tool":"danger","under":"/srv/work/a"`)}},
		{"w", `{"url":"https://a.b"}`, []string{one(`"tool":"w"`)}},
		{"w", `{}`, nil},
		{"w", `{"path":".."}`, nil},
		{"w", `{"path":"/"}`, []string{one(`"tool":"w"`)}},
		{"sh", `{"command":"git","args":["log"]}`, []string{one(`"args":["log"],"command":"git","tool":"sh"`), one(`"command":"git","tool":"sh"`)}},
		{"sh", `{"command":"git a b c d e"}`, []string{
			one(`"args":["a","b","c","d","e"],"command":"git","tool":"sh"`), one(`"args":["a","b"],"command":"git","tool":"sh"`),
			one(`"args":["a"],"command":"git","tool":"sh"`), one(`"command":"git","tool":"sh"`)}},
		{"sh", `{"command":"git*"}`, nil},
		{"sh", `{"command":"./git"}`, nil},
	} {
		f := p.Facts(tc.tool, json.RawMessage(tc.args))
		v := p.Judge(tc.tool, f, nil)
		var got []string
		for _, set := range p.Alternatives(tc.tool, f, v) {
			text := ruleText(t, set)
			got = append(got, normal(t, text[1:len(text)-1]))
		}
		var want []string
		for _, w := range tc.want {
			want = append(want, normal(t, w))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tc.tool, tc.args, diff)
		}
	}
}

// normal sorts a JSON object's members.
func normal(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
