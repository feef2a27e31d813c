package journal_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"decisionjournal/journal"
)

func votes(list ...string) []journal.Vote {
	var all []journal.Vote
	for _, v := range list {
		by, action, _ := strings.Cut(v, ":")
		if action == "" {
			action = journal.AllowOnce
		}
		all = append(all, journal.Vote{Answer: journal.Answer{By: by, Action: action}})
	}
	return all
}

func stage(count int, of ...string) journal.Stage { return journal.Stage{Of: of, Count: count} }

func TestTally(t *testing.T) {
	for _, tt := range []struct {
		name            string
		need            []journal.Stage
		votes           []journal.Vote
		filled, refused bool
		counted         string
	}{
		{"nobody yet", []journal.Stage{stage(1)}, nil, false, false, ""},
		{"one of anybody", []journal.Stage{stage(1)}, votes("ann"), true, false, "ann"},
		{"two of anybody", []journal.Stage{stage(2)}, votes("ann", "ben"), true, false, "ann ben"},
		{"one of two", []journal.Stage{stage(2)}, votes("ann"), false, false, "ann"},
		{"somebody else", []journal.Stage{stage(1, "ben")}, votes("ann"), false, false, ""},
		{"somebody else, then the one", []journal.Stage{stage(1, "ben")}, votes("ann", "ben"), true, false, "ben"},
		{"stages in their order", []journal.Stage{stage(1, "ann"), stage(1)}, votes("ann", "ben"), true, false, "ann ben"},
		{"stages in another order", []journal.Stage{stage(1, "ann"), stage(1)}, votes("ben", "ann"), true, false, "ben ann"},
		{"an early one makes room", []journal.Stage{stage(1, "ann", "ben"), stage(1, "ann")}, votes("ann", "ben"), true, false, "ann ben"},
		{"room along a chain", []journal.Stage{stage(1, "ann", "ben"), stage(1, "ben", "cid"), stage(1, "ann")}, votes("ben", "ann", "cid"), true, false, "ben ann cid"},
		{"one person fills one place", []journal.Stage{stage(1, "ann"), stage(1, "ann")}, votes("ann"), false, false, "ann"},
		{"refused", []journal.Stage{stage(2)}, votes("ann", "ben:deny-once"), false, true, "ann"},
		{"refused by what nobody knows", []journal.Stage{stage(1)}, votes("ann:yes"), false, true, ""},
		{"refused by nothing", []journal.Stage{stage(1)}, []journal.Vote{{}}, false, true, ""},
		{"accept is for elicitations", []journal.Stage{stage(1)}, votes("ann:accept"), false, true, ""},
		{"places beyond counting", []journal.Stage{stage(1<<53 - 1), stage(1<<53 - 1)}, votes("ann", "ben"), false, false, "ann ben"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := &journal.Question{Reason: journal.AskRule, Need: tt.need}
			filled, refused := q.Tally(tt.votes)
			if filled != tt.filled || refused != tt.refused {
				t.Errorf("filled %t, refused %t", filled, refused)
			}
			var by []string
			for _, v := range q.Counted(tt.votes) {
				by = append(by, v.By)
			}
			if got := strings.Join(by, " "); got != tt.counted {
				t.Errorf("counted %q, want %q", got, tt.counted)
			}
		})
	}
}

// TestTallyFindsEveryWay holds the tally against trying every way to place people.
func TestTallyFindsEveryWay(t *testing.T) {
	people := []string{"ann", "ben", "cid", "dan"}
	rapid.Check(t, func(rt *rapid.T) {
		q := &journal.Question{Reason: journal.AskRule}
		for range rapid.IntRange(1, 3).Draw(rt, "stages") {
			of := rapid.SliceOfDistinct(rapid.SampledFrom(people), rapid.ID[string]).Draw(rt, "of")
			q.Need = append(q.Need, stage(rapid.IntRange(1, 3).Draw(rt, "count"), of...))
		}
		voters := rapid.SliceOfDistinct(rapid.SampledFrom(people), rapid.ID[string]).Draw(rt, "voters")
		filled, _ := q.Tally(votes(voters...))
		if want := fills(q.Need, voters); filled != want {
			rt.Fatalf("filled %t, want %t", filled, want)
		}
	})
}

// fills reports whether some way to give each voter at most one place fills every stage.
func fills(need []journal.Stage, voters []string) bool {
	if !slices.ContainsFunc(need, func(s journal.Stage) bool { return s.Count > 0 }) {
		return true
	}
	if len(voters) == 0 {
		return false
	}
	for i, s := range need {
		if s.Count > 0 && (len(s.Of) == 0 || slices.Contains(s.Of, voters[0])) {
			left := slices.Clone(need)
			left[i].Count--
			if fills(left, voters[1:]) {
				return true
			}
		}
	}
	return fills(need, voters[1:])
}
