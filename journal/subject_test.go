package journal_test

import (
	"slices"
	"strings"
	"testing"

	"decisionjournal/journal"
)

func TestParseSubject(t *testing.T) {
	for _, text := range []string{"journal.s.s-1.agent.bot", "journal.s.policy.decider.d", "journal.policy.admin.root", "journal.s.s.auditor.a"} {
		sub, err := journal.ParseSubject(text)
		if err != nil || sub.String() != text {
			t.Errorf("%s: %s, %v", text, sub, err)
		}
	}
	for _, text := range []string{
		"", "journal", "journal.s.s.agent", "journal.s.s.agent.a.b", "journal.s..agent.a", "journal.s.s.agent.", "journal.s.s.king.a",
		"journal.s.*.agent.a", "journal.s.s.agent.>", "journal.s.ä.agent.a", "journal.policy.agent", "journal.policy.x.admin.a",
		"journal.checkpoint.admin.a", "other.s.s.agent.a", "journal.t.s.agent.a", "journal.s.s. agent.a", "Journal.s.s.agent.a",
		"journal.s." + strings.Repeat("s", 65) + ".agent.a",
	} {
		if sub, err := journal.ParseSubject(text); err == nil {
			t.Errorf("%q is %+v", text, sub)
		}
	}
}

func FuzzParseSubject(f *testing.F) {
	f.Add("journal.s.s.agent.bot")
	f.Add("journal.policy.admin.root")
	f.Fuzz(func(t *testing.T, text string) {
		if sub, err := journal.ParseSubject(text); err == nil && sub.String() != text {
			t.Errorf("%q is %s", text, sub)
		}
	})
}

func TestChains(t *testing.T) {
	session, policy := journal.SessionChain("policy"), journal.PolicyChain()
	if session == policy || session.Filter() != "journal.s.policy.>" || policy.Filter() != "journal.policy.>" || policy.Session() != "policy" {
		t.Errorf("%+v and %+v", session, policy)
	}
	if zero := journal.SessionChain("a.b"); zero.Valid() || zero != (journal.Chain{}) {
		t.Errorf("%+v", zero)
	}
}

func TestPublishSubjects(t *testing.T) {
	for _, tt := range []struct {
		role  journal.Role
		actor string
		want  []string
	}{
		{journal.RoleAgent, "a", []string{"journal.s.*.agent.a"}},
		{journal.RoleApprover, "a", []string{"journal.s.*.approver.a"}},
		{journal.RoleDecider, "a", []string{"journal.s.*.decider.a", "journal.policy.decider.a"}},
		{journal.RoleAdmin, "a", []string{"journal.s.*.admin.a", "journal.policy.admin.a"}},
		{journal.RoleAuditor, "a", nil},
		{"king", "a", nil},
		{journal.RoleAdmin, "*", nil},
		{journal.RoleAdmin, ">", nil},
	} {
		if got := journal.PublishSubjects(tt.role, tt.actor); !slices.Equal(got, tt.want) {
			t.Errorf("%s.%s: %q", tt.role, tt.actor, got)
		}
	}
}

func TestNameFrom(t *testing.T) {
	for _, tt := range []struct {
		in   string
		max  int
		want string
	}{{"batch.jsonl", 64, "batch-jsonl"}, {"a b/c", 64, "a-b-c"}, {"é\xff_9", 64, "--_9"}, {"abcdef", 3, "abc"}, {"", 64, ""}} {
		if got := journal.NameFrom(tt.in, tt.max); got != tt.want || got != "" && !journal.ValidName(got) {
			t.Errorf("NameFrom(%q, %d) = %q", tt.in, tt.max, got)
		}
	}
}

func TestPresenceSubject(t *testing.T) {
	s := journal.Subject{Chain: journal.SessionChain("s"), Role: journal.RoleApprover, Actor: "ann"}
	if got := journal.PresenceSubject(s); got != "presence.s.approver.ann" {
		t.Error(got)
	}
	if got := journal.PresenceSubject(journal.Subject{Role: journal.RoleApprover}); got != "presence.*.approver" {
		t.Error(got)
	}
}
