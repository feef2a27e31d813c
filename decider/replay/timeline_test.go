package replay_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"decisionjournal/decider/replay"
	"decisionjournal/journal"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (run with -update to write it anew):\n%s", path, diff)
	}
}

// lined are lines as text, with everything in them.
func lined(lines []replay.Line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%d/%d %s %s %s agent=%s call=%s: %s\n", l.N, l.Seq, l.Time, l.Who, l.Event, l.Agent, l.Call, l.Text)
	}
	return b.String()
}

func (b *bench) timeline(session string) []replay.Line {
	b.t.Helper()
	lines, err := b.load().Timeline(b.t.Context(), session)
	if err != nil {
		b.t.Fatal(err)
	}
	return lines
}

func TestTimelines(t *testing.T) {
	for _, c := range []struct {
		name    string
		session string
		build   func(*testing.T) *bench
	}{
		{"tour", "tour", tour}, {"changes", "changes", changes}, {"restarts", "restarts", restarts},
		{"books", "following", books}, {"repaired", "repaired", repaired},
	} {
		t.Run(c.name, func(t *testing.T) { golden(t, c.name+".timeline", lined(c.build(t).timeline(c.session))) })
	}
}

func TestTimelineShowsWhatIsWrong(t *testing.T) {
	b := tour(t)
	b.log.Inject(journal.Message{Subject: "journal.s.tour.agent.agent", Data: []byte("hello")})
	b.log.Inject(journal.Message{Subject: "journal.s.tour.agent.agent", Headers: journal.ExpectHeaders(journal.SessionChain("tour"), 3), Data: []byte("x")})
	b.log.Drop(b.log.Inject(journal.Message{Subject: "journal.s.tour.agent.agent"}))
	lines := b.timeline("tour")
	var got []string
	for _, l := range lines[len(lines)-2:] {
		got = append(got, l.Event)
	}
	if fmt.Sprint(got) != "[void broken]" {
		t.Errorf("the last lines are %q", got)
	}
}

// Whatever concerns a call says which.
func TestTimelineNamesTheCall(t *testing.T) {
	for name, build := range histories() {
		b := build(t)
		for _, session := range sessionsOf()[name] {
			for _, l := range b.timeline(session) {
				concerns := map[string]bool{"call": true, "question": true, "answer": true, "decision": true, "start": true, "result": true, "attach": true}[l.Event]
				if concerns && (l.Session == "" || l.Agent == "" || l.Call == "") {
					t.Errorf("%s: no session, agent or call: %+v", name, l)
				}
			}
		}
	}
}
