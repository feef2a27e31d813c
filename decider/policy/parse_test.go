package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const fullYAML = `# everything a policy may hold
rules:
  - tool: fs_*
    decision: allow
    under: scratch
  - {tool: sh_run, decision: ask, command: git, args: [push], remember: true}
roots: {"": /srv, fs: /srv/work}
path-params: {git_*: [repo], git_log: file}
command-params: {Bash: {line: command}, sh_*: {command: cmd, args: argv}}
advisory-params: {Bash: [description]}
safe-env: [CI]
fold-paths: false
floor: off
settings: {interrupted: fail, idempotent: [fs_read, "web_*"], decision-ttl: 24h, deadline: 7d, deny-repeats: 3}
approval:
  - {severity: danger, who: [{of: [ops]}, {of: [boss], from: 1d12h}], need: [{of: [ops], count: 2}, {}], deadline: 0s, note: true}
  - {tool: fs_*, rule: {command: git}, session: "batch-*", agent: main}
principals: {anna: {key: UABC, role: approver}, bob: {}, boss: {role: admin}}
groups: {ops: [anna, bob]}
importers: [cell]
frontends: [web]
`

const fullJSON = `{
 "rules": [{"tool":"fs_*","decision":"allow","under":"scratch"},
  {"tool":"sh_run","decision":"ask","command":"git","args":["push"],"remember":true}],
 "roots": {"":"/srv","fs":"/srv/work"},
 "path-params": {"git_*":["repo"],"git_log":["file"]},
 "command-params": {"Bash":{"line":"command"},"sh_*":{"command":"cmd","args":"argv"}},
 "advisory-params": {"Bash":["description"]},
 "safe-env": ["CI"], "fold-paths": false, "floor": false,
 "settings": {"interrupted":"fail","idempotent":["fs_read","web_*"],"decision-ttl":"24h","deadline":"168h","deny-repeats":3},
 "approval": [
  {"severity":"danger","who":[{"of":["ops"]},{"of":["boss"],"from":"36h"}],"need":[{"of":["ops"],"count":2},{"count":1}],"deadline":"0","note":true},
  {"tool":"fs_*","rule":{"command":"git"},"session":"batch-*","agent":"main"}],
 "principals": {"anna":{"key":"UABC","role":"approver"},"bob":{},"boss":{"role":"admin"}},
 "groups": {"ops":["anna","bob"]}, "importers": ["cell"], "frontends": ["web"]
}`

func TestParseReadsBothFormsAlike(t *testing.T) {
	y := mustParse(t, "p.yaml", fullYAML)
	for _, name := range []string{"p.json", "p"} {
		j := mustParse(t, name, fullJSON)
		j.source = y.source
		if diff := cmp.Diff(y, j, cmp.AllowUnexported(Policy{}), cmpopts.IgnoreFields(Policy{}, "index", "lines")); diff != "" {
			t.Errorf("%s: JSON and YAML differ:\n%s", name, diff)
		}
	}
	if y.FoldPaths == nil || *y.FoldPaths || !y.Floor.Off || y.Settings.Deadline != 7*24*time.Hour ||
		y.Approval[0].Who[1].From != 36*time.Hour || len(y.Rules) != 2 || y.PathParams["git_log"][0] != "file" {
		t.Errorf("not all was read: %+v", y)
	}
}

func mustParse(t testing.TB, name, text string) *Policy {
	t.Helper()
	p, err := Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"rules:\n  - {tool: a, decision: allow, Under: /x}", `f.yaml:2: rules[0]: unknown member "Under"; write "under"`},
		{"rules:\n  - tool: a\n    decision: allow\n    under: ~/x", `f.yaml:2: rules[0]: under "~/x" cannot be compared: write the home directory out`},
		{"rules: []\nrules: []", `f.yaml:2: policy: member "rules" is there twice`},
		{"rule: []", `f.yaml:1: policy: unknown member "rule"; did you mean "rules"?`},
		{"rules:\n  - {tool: a, decison: allow}", `f.yaml:2: rules[0]: unknown member "decison"; did you mean "decision"?`},
		{"rules: [{tool: a, decision: allow, udner: x}]", `unknown member "udner"; did you mean "under"?`},
		{"rules: [{tool: a, decision: allow, path: x}]", `unknown member "path"; known are args, args-any, check, command`},
		{"settings: {deny-repeat: 1}", `settings: unknown member "deny-repeat"; did you mean "deny-repeats"?`},
		{"command-params: {a: {lnie: x}}", `command-params: "a": unknown member "lnie"; did you mean "line"?`},
		{"approval: [{need: [{fo: [a]}]}]", `approval[0]: need[0]: unknown member "fo"; known are count, of`},
		{"rules:\n  - {tool: a, decision: allow, note: 2020-01-01}", "f.yaml:2: \"2020-01-01\" is read as !!timestamp; write it in quotes"},
		{"rules:\n  - {tool: a, decision: allow, host: 7}", "f.yaml:2: rules[0]: host must be a string, not a number; write it in quotes"},
		{"a: &x 1\nb: *x", "f.yaml:1: anchors and aliases are not read"},
		{"1: x", "f.yaml:1: key \"1\" is not a string"},
		{"<<: {rules: []}", "f.yaml:1: key \"<<\" is not a string"},
		{"rules: !!set {}", "f.yaml:1: tags are not read"},
		{"rules: !x []", "f.yaml:1: tags are not read"},
		{"rules: []\n---\nrules: []", "more than one YAML document"},
		{"rules: [", "f.yaml: not YAML"},
		{strings.Repeat("[", 200) + strings.Repeat("]", 200), "f.yaml:1: nested deeper than 100"},
		{"[]", "f.yaml:1: policy must be an object, not a list"},
		{"roots: {fs_*: /x}", `"fs_*" is no prefix of a tool name; write it without *`},
		{"roots: {fs: ~}", "must be a string, not null"},
		{"roots: {fs: ../x}", "without .."},
		{"path-params: {\"\": [a]}", "path-params: tool is missing or empty"},
		{"path-params: {a: [\"\"]}", "may not be empty"},
		{"command-params: {a: {line: x, args: y}}", "line stands alone"},
		{"advisory-params:\n  a: [url]", `f.yaml:2: advisory-params: "a": "url" holds a location, command or host`},
		{"advisory-params: {a: [Repo]}\npath-params: {b: [repo]}", `"Repo" holds a location`},
		{"advisory-params: {a: [cmd]}\ncommand-params: {b: {line: cmd}}", `"cmd" holds a location`},
		{"fold-paths: \"no\"", "fold-paths must be a boolean"},
		{"floor: never", "floor must be on or off"},
		{"floor: {x: off}", "floor: unknown member \"x\"; known are config, home"},
		{"floor: {home: me}", "floor: home \"me\" is no absolute directory below the root"},
		{"floor: {home: /}", "floor: home \"/\" is no absolute directory below the root"},
		{"floor: {config: [/a, ~/b]}", "floor: config \"~/b\" cannot be compared"},
		{"settings: {interrupted: maybe}", "must be ask, retry or fail"},
		{"settings: {idempotent: [a b]}", "neither a name"},
		{"settings: {deadline: 7}", "must be a string, not a number; write it in quotes"},
		{"settings: {deadline: -1h}", "not understood; write for example 30m"},
		{"settings: {decision-ttl: 10ms}", "must be 0 or at least 1s"},
		{"settings: {deny-repeats: 0}", "whole number from 1"},
		{"settings: {deny-repeats: 1.5}", "whole number from 1"},
		{"approval:\n  - {}\n  - {need: [{of: [a], count: 2}]}", "f.yaml:3: approval[1]: need asks for 2 answers of 1 principals"},
		{"principals: {a: {}}\napproval: [{who: [{of: [b]}]}]", `approval[0]: who: "b" is neither in principals nor in groups`},
		{"principals: {a: {}}\napproval: [{need: [{of: [b]}]}]", `approval[0]: need: "b" is neither`},
		{"principals: {a: {role: boss}}", "role must be agent"},
		{"principals: {a b: {}}", "is no name"},
		{"groups: {g: []}", "has no members"},
		{"groups: {g: [h], h: [a]}", `"h" is a group; list its principals`},
		{"principals: {a: {}}\ngroups: {g: [b]}", `groups: "g": "b" is neither`},
		{"importers: [a.b]", "is no name"},
		{"approval: [{severity: high}]", "severity must be"},
		{"approval: [{tool: \"**\"}]", "neither a name"},
		{"approval: [{rule: {Command: git}}]", `unknown member "Command"`},
	} {
		p, err := Parse("f.yaml", []byte(tc.in))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q:\n  error %v\n  want  %s", tc.in, err, tc.want)
		}
		if p != nil {
			t.Errorf("%q: gave a policy beside the error", tc.in)
		}
		var fault *Error
		if err != nil && (!errors.As(err, &fault) || fault.File != "f.yaml") {
			t.Errorf("%q: error %T is no *Error with the file's name", tc.in, err)
		}
	}
}

func TestParseJSONErrorsHaveLines(t *testing.T) {
	for in, want := range map[string]string{
		"{\n\"rules\": [\n{\"tool\":\"a\",\"decision\":\"no\"}]}": "f.json:3: rules[0]: decision",
		"{\n\"rules\": [\n}":              "f.json:3: not JSON",
		"{\"rules\": [],\n\"rules\": []}": `f.json:2: policy: member "rules" is there twice`,
		"":                                "f.json:1: not JSON",
	} {
		if _, err := Parse("f.json", []byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", in, err, want)
		}
	}
}

func TestParseReportsAllFaults(t *testing.T) {
	_, err := Parse("f.yaml", []byte("rules:\n  - {tool: a b, decision: no}\n  - {tool: a, decision: ask, host: \"*\"}\nroots: {fs: 5}"))
	if got := strings.Count(fmt.Sprint(err), "f.yaml:"); got != 3 {
		t.Errorf("%d faults reported, want 3:\n%v", got, err)
	}
	many := "rules:\n" + strings.Repeat("  - {tool: a}\n", 100)
	_, err = Parse("f.yaml", []byte(many))
	if got := strings.Count(fmt.Sprint(err), "f.yaml:"); got != maxFaults {
		t.Errorf("%d faults reported, want %d", got, maxFaults)
	}
	if _, err := Parse("f.yaml", make([]byte, MaxBytes+1)); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a policy past the limit: %v", err)
	}
}

func TestParseEmpty(t *testing.T) {
	for _, in := range []string{"", "# nothing\n", "{}"} {
		p := mustParse(t, "f.yaml", in)
		if v := p.Judge("any", Facts{}, nil); v.Decision != Ask || v.Reason != ReasonNoMatch || !v.Grantable {
			t.Errorf("%q: %+v, want an ask that grants may answer", in, v)
		}
	}
}

func TestBytesAndDigest(t *testing.T) {
	in := []byte("rules: [] # as written\n")
	p := mustParse(t, "f.yaml", string(in))
	if string(p.Bytes()) != string(in) {
		t.Errorf("bytes are %q", p.Bytes())
	}
	const want = "sha256:4ce713193f184ef20e01657c5b6f60538da194b12defbc445ad071711c6ca181"
	if d := p.Digest(); d != want {
		t.Errorf("digest %s, want %s", d, want)
	}
	p.Bytes()[0] = 'X'
	if string(p.Bytes()) != string(in) {
		t.Error("the policy's bytes can be changed from outside")
	}
	if p.Digest() == mustParse(t, "f.yaml", "rules: []").Digest() {
		t.Error("other bytes, same digest")
	}
}

func TestInterrupted(t *testing.T) {
	for setting, want := range map[string][2]string{
		"":      {"ask", "retry"},
		"ask":   {"ask", "retry"},
		"retry": {"retry", "retry"},
		"fail":  {"fail", "fail"},
		"what":  {"ask", "retry"},
	} {
		p := &Policy{Settings: Settings{Interrupted: setting, Idempotent: []string{"fs_r*"}}}
		if got := [2]string{p.Interrupted("fs_write"), p.Interrupted("fs_read")}; got != want {
			t.Errorf("%q: %v, want %v", setting, got, want)
		}
	}
}

func TestDefaultPolicy(t *testing.T) {
	p := Default()
	for tool, want := range map[string]Decision{
		"fs_read": Allow, "fs_list": Allow, "fs_stat": Allow, "Read": Allow, "Glob": Allow, "Grep": Allow, "LS": Allow,
		"NotebookRead": Allow, "read_file": Allow, "list_directory": Allow, "AskUserQuestion": Allow, "ask_user": Allow,
		"fs_write": Ask, "fs_move": Ask, "fs_delete": Ask, "Bash": Ask, "Write": Ask, "Edit": Ask, "WebFetch": Ask,
		"read_file_and_run": Ask, "": Ask, "fs_": Ask,
	} {
		v := p.Judge(tool, p.Facts(tool, json.RawMessage(`{"path":"x","command":"ls"}`)), nil)
		if v.Decision != want {
			t.Errorf("%q: %s, want %s", tool, v.Decision, want)
		}
	}
	for _, tool := range []string{"fs_read", "Read", "list_directory"} {
		if got := p.Interrupted(tool); got != InterruptedRetry {
			t.Errorf("%s: interrupted means %s", tool, got)
		}
	}
	for _, tool := range []string{"fs_write", "Bash", "AskUserQuestion"} {
		if got := p.Interrupted(tool); got != InterruptedAsk {
			t.Errorf("%s: interrupted means %s", tool, got)
		}
	}
	if p.Settings.Repeats() != DefaultDenyRepeats || p.Settings.DecisionTTL != 0 || p.Settings.Deadline != 0 {
		t.Errorf("settings are %+v", p.Settings)
	}
}

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "30m": 30 * time.Minute, "24h": 24 * time.Hour, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour,
		"65535d": 65535 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(in); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "d", "-1d", "1d-1h", "-1h", "+1h", "1.5d", "7", "65536d", "1d1d", "9000000h", "1 h"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("%q: read as %v", in, got)
		}
	}
}
