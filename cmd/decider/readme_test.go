package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"decisionjournal/decider/policy"
)

// blocks are the README's fenced blocks of a language, in order.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		found = append(found, m[1])
	}
	return found
}

// TestReadmeCommands runs every line of the README's shell blocks, in order,
// in a copy of the repository's files, as somebody who follows it would.
func TestReadmeCommands(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("../../testdata")); err != nil {
		t.Fatal(err)
	}
	// A tour taken in the checkout itself left these there.
	os.Remove(filepath.Join(dir, "testdata/tour/scratch/summary.txt"))
	os.Remove(filepath.Join(dir, "testdata/tour/notes/plan.txt"))
	r := &reader{t: t, dir: dir, env: append(os.Environ(), "DECIDER_JOURNAL="+filepath.Join(dir, "journal"))}
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "decider")); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(strings.Join(blocks(t, "sh"), "")), "\n")
	for _, line := range lines {
		r.follow(line)
	}
	if r.ran != len(lines)-2 { // the tests and go install are not run again from here
		t.Errorf("of %d lines %d ran", len(lines), r.ran)
	}
	for file, want := range map[string]string{"notes/plan.txt": "Monday: milk. Tuesday: plumber.\n", "scratch/summary.txt": "Buy milk, call the plumber.\n"} {
		got, err := os.ReadFile(filepath.Join(dir, "testdata/tour", file))
		if err != nil || string(got) != want {
			t.Errorf("%s holds %q: %v", file, got, err)
		}
	}
}

// reader follows the README.
type reader struct {
	t                 *testing.T
	dir               string
	env               []string
	question, session string
	ran               int
}

// readmeExits are the codes that lines end with, where it is not 0.
var readmeExits = map[string]int{"go run ./cmd/decider run": exitPending}

func (r *reader) follow(line string) {
	r.t.Helper()
	switch {
	case line == "go test -race ./..." || line == "go install ./cmd/decider ./cmd/approver ./cmd/replay":
		return
	case strings.HasPrefix(line, "go run ./cmd/decider "), strings.HasPrefix(line, "decider "),
		strings.HasPrefix(line, "approver "), strings.HasPrefix(line, "replay "):
	default:
		r.t.Fatalf("the README has a line that nothing tests: %s", line)
	}
	want := 0
	for prefix, code := range readmeExits {
		if strings.HasPrefix(line, prefix) {
			want = code
		}
	}
	words := strings.Fields(strings.TrimPrefix(line, "go run ./cmd/"))
	for i, w := range words {
		words[i] = strings.NewReplacer("QUESTION", r.question, "SESSION", r.session).Replace(w)
	}
	out := r.run(want, words...)
	r.ran++
	if words[0] == "replay" && words[1] == "audit" && !strings.Contains(out, "Clean.") {
		r.t.Errorf("audit says %s", out)
	}
	if r.question == "" {
		r.learn()
	}
}

// learn finds what stands for QUESTION and SESSION.
func (r *reader) learn() {
	r.t.Helper()
	var open []struct{ ID, Session string }
	if err := json.Unmarshal([]byte(r.run(0, "approver", "list", "--json")), &open); err != nil || len(open) != 1 {
		r.t.Fatalf("open questions: %v, %v", open, err)
	}
	r.question, r.session = open[0].ID, open[0].Session
}

func (r *reader) run(want int, words ...string) string {
	r.t.Helper()
	name := words[0]
	if name == "decider" {
		name = filepath.Join(r.dir, "decider")
	}
	cmd := exec.Command(name, words[1:]...)
	cmd.Dir, cmd.Env = r.dir, r.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says it
	if code := cmd.ProcessState.ExitCode(); code != want {
		r.t.Fatalf("%s: exit code %d, want %d\n%s%s", strings.Join(words, " "), code, want, out.String(), errs.String())
	}
	return out.String()
}

// TestReadmePolicies holds the README's sample policies against what they are
// said to do.
func TestReadmePolicies(t *testing.T) {
	type call struct {
		tool, arguments string
		want            policy.Decision
	}
	samples, calls := blocks(t, "yaml"), [][]call{
		{
			{"fs_read", `{"path":"docs/a"}`, policy.Allow},
			{"fs_read", `{"path":"/home/me/.ssh/id"}`, policy.Deny},
			{"fs_read", `{"path":"../outside"}`, policy.Deny},
			{"fs_write", `{"path":"scratch/a","content":""}`, policy.Allow},
			{"fs_write", `{"path":"src/a","content":""}`, policy.Ask},
			{"shell", `{"command":"git","args":["status"]}`, policy.Allow},
			{"shell", `{"command":"git","args":["push"]}`, policy.Ask},
			{"shell", `{"command":"git status; rm x"}`, policy.Ask},
			{"shell", `{"command":"cd / && rm -rf *"}`, policy.Deny},
			{"ask_user", `{"question":"?"}`, policy.Ask},
		},
		{
			{"Bash", `{"command":"timeout 5 git status"}`, policy.Allow},
			{"Bash", `{"command":"git push"}`, policy.Ask},
			{"shell", `{"command":["bash","-lc","git status && git status"]}`, policy.Allow},
			{"run_it", `{"script":"git status"}`, policy.Allow},
			{"Read", `{"file_path":"a"}`, policy.Allow},
			{"Read", `{"file_path":"/etc/x"}`, policy.Ask},
		},
	}
	if len(samples) != len(calls) {
		t.Fatalf("the README has %d sample policies", len(samples))
	}
	for i, sample := range samples {
		pol, err := policy.Parse("README.yaml", []byte(sample))
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range calls[i] {
			got := pol.Judge(test.tool, pol.Facts(test.tool, json.RawMessage(test.arguments)), nil)
			if got.Decision != test.want {
				t.Errorf("%s %s: %s (%s), want %s", test.tool, test.arguments, got.Decision, got.Reason, test.want)
			}
		}
	}
}
