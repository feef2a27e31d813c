package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRequirement(t *testing.T) {
	p := mustParse(t, "p.yaml", `
settings: {deadline: 1h}
groups: {ops: [anna, bob], all: [bob, cleo]}
approval:
  - {severity: danger, who: [{of: [ops]}, {of: [all, dora], from: 30m}], need: [{of: [ops, all], count: 3}, {}], note: true}
  - {rule: {command: git, args: [push]}, deadline: 0s}
  - {rule: {note: careful}, need: [{count: 2}]}
  - {tool: "fs_*", session: "batch-*", agent: main, deadline: 2d}
  - {rule: {remember: false, tool: once}, deadline: 5m}
`)
	git := &Rule{Tool: "sh", Decision: Ask, Command: "git", Args: []string{"push"}}
	plain := Requirement{Need: []Stage{{Count: 1}}, Deadline: time.Hour}
	for _, tc := range []struct {
		name string
		call ApprovalCall
		want Requirement
	}{
		{"default", ApprovalCall{Tool: "x"}, plain},
		{"severity", ApprovalCall{Tool: "x", Severity: "danger"}, Requirement{
			Who:  []Who{{Of: []string{"anna", "bob"}}, {Of: []string{"bob", "cleo", "dora"}, From: 30 * time.Minute}},
			Need: []Stage{{Of: []string{"anna", "bob", "cleo"}, Count: 3}, {Count: 1}}, Deadline: time.Hour, Note: true}},
		{"rule", ApprovalCall{Tool: "x", Rule: git}, Requirement{Need: []Stage{{Count: 1}}}},
		{"another rule", ApprovalCall{Tool: "x", Rule: &Rule{Tool: "sh", Decision: Ask, Command: "git", Args: []string{"push", "x"}}}, plain},
		{"rule by note", ApprovalCall{Tool: "x", Rule: &Rule{Tool: "sh", Decision: Ask, Note: "careful"}},
			Requirement{Need: []Stage{{Count: 2}}, Deadline: time.Hour}},
		{"all patterns", ApprovalCall{Tool: "fs_x", Session: "batch-1", Agent: "main"},
			Requirement{Need: []Stage{{Count: 1}}, Deadline: 48 * time.Hour}},
		{"other tool", ApprovalCall{Tool: "x", Session: "batch-1", Agent: "main"}, plain},
		{"other session", ApprovalCall{Tool: "fs_x", Session: "chat", Agent: "main"}, plain},
		{"other agent", ApprovalCall{Tool: "fs_x", Session: "batch-1", Agent: "side"}, plain},
		{"absent member", ApprovalCall{Tool: "x", Rule: &Rule{Tool: "once", Decision: Ask}},
			Requirement{Need: []Stage{{Count: 1}}, Deadline: 5 * time.Minute}},
		{"absent member is there", ApprovalCall{Tool: "x", Rule: &Rule{Tool: "once", Decision: Ask, Remember: true}}, plain},
	} {
		if diff := cmp.Diff(tc.want, p.Requirement(tc.call)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	if diff := cmp.Diff(Requirement{Need: []Stage{{Count: 1}}}, (&Policy{}).Requirement(ApprovalCall{})); diff != "" {
		t.Errorf("zero policy (-want +got):\n%s", diff)
	}
}
