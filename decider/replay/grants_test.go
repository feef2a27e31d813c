package replay_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"decisionjournal/decider/replay"
	"decisionjournal/journal"
)

// standings are a session's grants at a point, as "n outcome standing used".
func (b *bench) standings(session string, at replay.At) string {
	b.t.Helper()
	var list []string
	for _, g := range b.grantReports(session, at) {
		if g.InForce != (g.Standing == "in force") {
			b.t.Errorf("grant %s: in force %v, and standing %q", g.Grant, g.InForce, g.Standing)
		}
		list = append(list, fmt.Sprintf("%d %s %s, used %d", g.N, g.Outcome, g.Standing, g.Used))
	}
	return strings.Join(list, "; ")
}

func TestGrantsAsOf(t *testing.T) {
	b := tour(t)
	given := b.chainState(journal.SessionChain("tour")).Grants()[0]
	revoked := given.EndMark
	for _, c := range []struct {
		name string
		at   replay.At
		want string
	}{
		{"head", replay.At{}, "16 allow revoked, used 2"},
		{"before it", replay.At{N: given.Mark.N - 1}, ""},
		{"when given", replay.At{N: given.Mark.N}, "16 allow in force, used 0"},
		{"before the revocation", replay.At{N: revoked.N - 1}, "16 allow in force, used 2"},
		{"at the revocation", replay.At{N: revoked.N}, "16 allow revoked, used 2"},
		{"the time it was given", replay.At{Time: given.Mark.Time.Time}, "16 allow in force, used 0"},
		{"a moment before", replay.At{Time: given.Mark.Time.Add(-1)}, ""},
		{"a moment before the revocation", replay.At{Time: revoked.Time.Add(-1)}, "16 allow in force, used 2"},
		{"before the session", replay.At{Time: time.Unix(0, 0)}, ""},
		{"long after", replay.At{Time: b.now.Add(time.Hour)}, "16 allow revoked, used 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := b.standings("tour", c.at); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestGrantsSayWhoAndThroughWhat(t *testing.T) {
	b := tour(t)
	g := b.grantReports("tour", replay.At{})[0]
	if g.Session != "tour" || g.Agent != "main" || g.Tool != "fs_write" || g.Call == "" || g.Question == "" ||
		len(g.By) != 1 || g.By[0].By != "alice" || g.By[0].Action != journal.AlwaysAllow {
		t.Errorf("got %+v", g)
	}
	if g.End == nil || g.End.By != "approver.alice" || g.End.Reason != "enough" {
		t.Errorf("ended by %+v", g.End)
	}
}

func TestGrantsThatEndByThemselves(t *testing.T) {
	b := changes(t)
	if got, want := b.standings("changes", replay.At{}), "16 allow used up, used 1; 27 deny expired, used 0"; got != want {
		t.Errorf("at the head: %q, want %q", got, want)
	}
	deny := b.grantReports("changes", replay.At{})[1]
	for offset, want := range map[time.Duration]string{-1: "in force", 0: "expired"} {
		if got := b.standings("changes", replay.At{Time: deny.Expires.Add(offset)}); !strings.Contains(got, "deny "+want) {
			t.Errorf("%d ns from its expiry: %q", offset, got)
		}
	}
	c := books(t)
	at := c.grantReports("following", replay.At{})
	if at[0].Origin == nil || at[0].Standing != "book" || at[1].Standing != "ended" {
		t.Errorf("got %+v", at)
	}
	// Between the revocation in the book and the lapse, the book counts.
	revoked := c.chainState(journal.SessionChain("standing")).Grants()[0].EndMark
	if got := c.standings("following", replay.At{Time: revoked.Time.Time}); !strings.Contains(got, "no longer in force in its book") {
		t.Errorf("after the revocation in the book: %q", got)
	}
	if got := c.standings("following", replay.At{Time: revoked.Time.Add(-1)}); strings.Contains(got, "book") {
		t.Errorf("before the revocation in the book: %q", got)
	}
}

func TestGrantsErrors(t *testing.T) {
	b := tour(t)
	for _, name := range []string{"nobody", "not a name", ""} {
		if _, err := b.load().Grants(t.Context(), name, replay.At{}); !errors.Is(err, replay.ErrNoSession) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := b.load().Grants(t.Context(), "tour", replay.At{N: 999}); !errors.Is(err, replay.ErrNoCommit) {
		t.Errorf("a commit that is not there: %v", err)
	}
}

func TestSessions(t *testing.T) {
	b := books(t)
	list, err := b.load().Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list {
		got = append(got, fmt.Sprintf("%s %s %s %s calls %d questions %d grants %d", s.Session, s.Kind, s.State, s.Condition, s.Calls, s.OpenQuestions, s.Grants))
	}
	want := "following session ended whole calls 3 questions 0 grants 0; standing book open whole calls 1 questions 0 grants 0"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	b.log.Drop(b.chainState(journal.SessionChain("standing")).Head())
	if list, err = b.load().Sessions(t.Context()); err != nil || list[1].Condition != "broken" || list[1].Why == "" {
		t.Errorf("a dropped head: %+v, %v", list, err)
	}
}
