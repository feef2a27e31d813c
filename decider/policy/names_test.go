package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const everyAgent = `
agents: [claude-code, codex, gemini-cli, cursor, copilot, mcp-filesystem]
names:
  - {tool: run_it, is: shell, line: script}
  - {tool: put, is: write, paths: [where]}
roots: {"": /srv}
rules:
  - {tool: shell, decision: allow, command: git, args: [status]}
  - {tool: shell, decision: deny, command: rm}
  - {tool: read, decision: allow, under: .}
  - {tool: write, decision: allow, under: scratch}
  - {tool: edit, decision: allow, under: scratch}
  - {tool: move, decision: allow, under: scratch}
  - {tool: delete, decision: deny}
  - {tool: Grep, decision: deny, note: not this one}
  - {tool: "sea*", decision: allow, under: .}
settings: {idempotent: [read]}
`

// TestNames: one rule speaks of every agent's tool of a kind.
func TestNames(t *testing.T) {
	p := mustParse(t, "p.yaml", everyAgent)
	for _, tc := range []struct {
		tool, args string
		want       Decision
	}{
		{"Bash", `{"command":"git status"}`, Allow}, {"Bash", `{"command":"rm x"}`, Deny}, {"Bash", `{"command":"git push"}`, Ask},
		{"run_shell_command", `{"command":"git status && rm x"}`, Deny},
		{"shell", `{"command":["git","status"]}`, Allow}, {"shell", `{"command":["bash","-lc","git status"]}`, Allow}, {"shell", `{"command":["bash","-lc","rm x"]}`, Deny},
		{"shell", `{"command":"git status"}`, Allow}, {"shell", `{"command":[]}`, Deny}, {"shell", `{"command":[{}]}`, Deny}, {"shell", `{"command":["git"],"Command":["rm"]}`, Deny},
		{"exec_command", `{"cmd":"git status"}`, Allow}, {"run_terminal_cmd", `{"command":"git status"}`, Allow}, {"bash", `{"command":"rm"}`, Deny},
		{"run_it", `{"script":"git status"}`, Allow}, {"run_it", `{"command":"git status"}`, Deny}, // no command: a deny by command cannot be ruled out
		{"Read", `{"file_path":"a"}`, Allow}, {"Read", `{"file_path":"/etc/x"}`, Ask}, {"Read", `{"path":"a"}`, Ask},
		{"read_file", `{"file_path":"a"}`, Allow}, {"read_file", `{"target_file":"a"}`, Allow}, {"read_file", `{"absolute_path":"/srv/a"}`, Allow}, {"read_file", `{"path":"a","target_file":"/etc/x"}`, Ask},
		{"read_multiple_files", `{"paths":["a","b"]}`, Allow}, {"read_multiple_files", `{"paths":["a","../b"]}`, Ask}, {"mcp__filesystem__read_file", `{"path":"a"}`, Allow},
		{"Write", `{"file_path":"scratch/a"}`, Allow}, {"Write", `{"file_path":"a"}`, Ask}, {"create", `{"path":"scratch/a"}`, Allow}, {"put", `{"where":"scratch/a"}`, Allow}, {"put", `{"path":"scratch/a"}`, Ask},
		{"NotebookEdit", `{"notebook_path":"scratch/a.ipynb"}`, Allow}, {"replace", `{"file_path":"scratch/a"}`, Allow},
		{"move_file", `{"source":"scratch/a","destination":"scratch/b"}`, Allow}, {"move_file", `{"source":"scratch/a","destination":"b"}`, Ask},
		{"delete_file", `{"target_file":"a"}`, Deny},
		{"Grep", `{"path":"a"}`, Deny}, {"grep", `{"path":"a"}`, Allow}, {"Glob", `{"path":"a"}`, Allow},
		{"apply_patch", `{"input":"*** Begin Patch\n*** Update File: scratch/a\n@@\n-x\n+y\n*** End Patch"}`, Allow},
		{"apply_patch", `{"input":"*** Begin Patch\n*** Update File: scratch/a\n*** Move to: b\n*** End Patch"}`, Ask},
		{"apply_patch", `{"input":"*** Begin Patch\n*** Add File: scratch/../b\n+x\n*** End Patch"}`, Ask},
		{"apply_patch", `{"input":"--- a/scratch/x\t2026\n+++ b/scratch/x\n@@ -1 +1 @@\n"}`, Allow},
		{"apply_patch", `{"input":"--- /dev/null\n+++ b/x\n"}`, Ask}, {"apply_patch", `{"input":"nothing"}`, Ask}, {"apply_patch", `{"input":5}`, Ask},
		{"apply_patch", `{"input":"*** Update File: scratch/a","Input":"*** Update File: b"}`, Ask},
		{"other", `{"command":"git","args":["status"]}`, Ask},
	} {
		if got := p.Judge(tc.tool, p.Facts(tc.tool, json.RawMessage(tc.args)), nil).Decision; got != tc.want {
			t.Errorf("%s %s: %s, want %s", tc.tool, tc.args, got, tc.want)
		}
	}
	if p.CalledAs("Read") != "read" || p.CalledAs("other") != "" || p.CalledAs("put") != "write" {
		t.Error("called otherwise")
	}
	if how := p.Interrupted("Read"); how != InterruptedRetry {
		t.Errorf("idempotent by its name: %s", how)
	}
}

// TestNamesOverridden: what a policy says of a tool's parameters itself counts.
func TestNamesOverridden(t *testing.T) {
	p := mustParse(t, "p.yaml", "agents: [claude-code]\npath-params: {Read: [p]}\ncommand-params: {Bash: {line: l}}\nrules: []")
	if f := p.Facts("Read", []byte(`{"p":"a","file_path":"b"}`)); len(f.Paths) != 1 || f.Paths[0].Path != "a" {
		t.Errorf("%+v", f.Paths)
	}
	if f := p.Facts("Bash", []byte(`{"l":"a","command":"b"}`)); len(f.Commands) != 1 || f.Commands[0].Program != "a" {
		t.Errorf("%+v", f.Commands)
	}
	none := mustParse(t, "p.yaml", "rules: []")
	if f := none.Facts("Read", []byte(`{"file_path":"b"}`)); len(f.Paths) != 0 {
		t.Errorf("without tables: %+v", f.Paths)
	}
}

func TestNamesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"agents: [emacs]":                             `agents: there is no table for "emacs"; there are claude-code, codex, copilot, cursor, gemini-cli, mcp-filesystem`,
		"names: [{tool: a}]":                          `names[0]: member "is" is missing`,
		"names: [{is: a}]":                            `names[0]: member "tool" is missing`,
		"names: [{tool: 'a*', is: b}]":                `names[0]: tool "a*" is no name of a tool`,
		"names: [{tool: a, is: b, line: c, argv: d}]": `names[0]: a command is a line, an argv, or a command with args`,
		"names: [{tool: a, is: b}, {tool: a, is: c}]": `names: the tool "a" is named twice`,
		"names: [{tool: a, is: b, path: c}]":          `unknown member "path"`,
		"command-params: {a: {argv: x, args: y}}":     `line stands alone, and so does argv`,
	} {
		_, err := Parse("p.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestAgentTables: every table is read, and what agents call alike is alike.
func TestAgentTables(t *testing.T) {
	is := map[string]string{}
	for agent, list := range agentTables() {
		if len(list) == 0 {
			t.Errorf("%s is empty", agent)
		}
		for _, n := range list {
			if have := is[n.Tool]; have != "" && have != n.Is {
				t.Errorf("%s: %s is %s here and %s elsewhere", agent, n.Tool, n.Is, have)
			}
			is[n.Tool] = n.Is
		}
	}
	if got := AgentNames(); len(got) != 6 || !slices.IsSorted(got) {
		t.Errorf("%v", got)
	}
}
