package approver_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"decisionjournal/approver"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/inbox/inboxtest"
)

func TestVisible(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"", ""},
		{"plain text, ünïcode, 日本語, नमस्ते, 👍", "plain text, ünïcode, 日本語, नमस्ते, 👍"},
		{"\x1b[2J\x1b]0;title\a", `\u{1b}[2J\u{1b}]0;title\u{7}`},
		{"a\rb\nc\td\x00e\x7ff", `a\u{d}b\u{a}c\u{9}d\u{0}e\u{7f}f`},
		{"\u009b31m", `\u{9b}31m`},
		{"user\u202etxt.exe\u202c", `user\u{202e}txt.exe\u{202c}`},
		{"\u2066a\u2069\u200e\u200f\u061c", `\u{2066}a\u{2069}\u{200e}\u{200f}\u{61c}`},
		{"zero\u200bwidth\u200c\u200d\u2060\ufeff", `zero\u{200b}width\u{200c}\u{200d}\u{2060}\u{feff}`},
		{"soft\u00adhyphen, no\u00a0break, \u2028\u2029\u3000", `soft\u{ad}hyphen, no\u{a0}break, \u{2028}\u{2029}\u{3000}`},
		{"tags\U000e0041\U000e007f, variants\ufe0f\U000e0100", `tags\u{e0041}\u{e007f}, variants\u{fe0f}\u{e0100}`},
		{"blanks\u2800\u3164\u115f\uffa0\u034f", `blanks\u{2800}\u{3164}\u{115f}\u{ffa0}\u{34f}`},
		{"private\ue000, unassigned\U0003fffe", `private\u{e000}, unassigned\u{3fffe}`},
		{"\u0301 at the beginning", `\u{301} at the beginning`},
		{"bad\xff\xc3(", `bad\x{ff}\x{c3}(`},
		{"�", "�"},
		{`a \u{202e} in words, C:\users\x, \x{41}`, `a \u{5c}u{202e} in words, C:\users\x, \u{5c}x{41}`},
		{"z" + strings.Repeat("\u0301", 6), "z" + strings.Repeat("\u0301", 4) + `\u{301}\u{301}`},
	} {
		if got := approver.Visible(test.in); got != test.want {
			t.Errorf("Visible(%q) = %s, want %s", test.in, got, test.want)
		}
	}
}

var escapes = regexp.MustCompile(`\\(u|x)\{([0-9a-f]+)\}`)

// seen reads back what Visible wrote.
func seen(text string) string {
	return escapes.ReplaceAllStringFunc(text, func(e string) string {
		m := escapes.FindStringSubmatch(e)
		n, err := strconv.ParseUint(m[2], 16, 32)
		if err != nil {
			return e
		}
		if m[1] == "x" {
			return string([]byte{byte(n)})
		}
		return string(rune(n))
	})
}

// FuzzVisible: nothing hidden is left, and nothing is lost: the text can be
// read back.
func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a\x1b[31m", `\u{202e}`, `\\u{5c}`, "\xff\\x{ff}", "e\u0301\u0301\u0301\u0301\u0301\u0301", "\\\u202e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v := approver.Visible(s)
		for _, r := range v {
			if !unicode.IsPrint(r) {
				t.Fatalf("Visible(%q) holds %U", s, r)
			}
		}
		if !utf8.ValidString(v) {
			t.Fatalf("Visible(%q) is not UTF-8", s)
		}
		if back := seen(v); back != s {
			t.Fatalf("Visible(%q) reads back as %q", s, back)
		}
		if again := approver.Line(v); again != v {
			t.Fatalf("Line changes %q to %q", v, again)
		}
	})
}

// FuzzRender shows questions whose every text an agent may have written: each
// line is one that Render made, and nothing hidden is in it.
func FuzzRender(f *testing.F) {
	f.Add("tool", "label", `{"a":"b"}`, "ls", "why", 80)
	f.Add("\x1b[2J", "a\nQuestion 01J", `"\u202e"`, "rm -rf \u2066/", "\xff", 0)
	f.Fuzz(func(t *testing.T, tool, label, arguments, command, reason string, width int) {
		item := inbox.Item{Session: "s", ID: "01JDXX5ZQ0F2N6M4T8V1W3Y5Z7", Agent: label, Tool: tool, Note: reason}
		item.View = journal.View{Tool: tool, Label: label, Preview: arguments, Commands: [][]string{{command, reason}}, Model: reason,
			Paths: []string{command}, Hosts: []string{tool}, CWD: command, Before: reason, Rule: json.RawMessage(arguments)}
		if canonical, err := journal.Canonical([]byte(arguments)); err == nil {
			item.View.Arguments = canonical
		}
		for _, all := range []bool{false, true} {
			text := approver.Render(&item, approver.RenderOptions{All: all, Width: width})
			for _, r := range text {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Fatalf("%q holds %U", text, r)
				}
			}
			if !utf8.ValidString(text) || strings.Count(text, "\nQuestion ")+1 != 1 {
				t.Fatalf("%q", text)
			}
		}
		if line := approver.Summary(&item, width); strings.Contains(line, "\n") {
			t.Fatalf("a summary of two lines: %q", line)
		}
	})
}

func TestRender(t *testing.T) {
	b := newBench(t)
	spec := suggesting()
	spec.Agent, spec.Layer, spec.Note = "writer", "outer", "A note is required with the answer."
	spec.Reason = journal.AskRule
	spec.Need = people(2, "alice", "bob")
	spec.Who = []journal.Entitlement{{Of: []string{"alice"}}, {From: journal.At(day.Add(1))}}
	spec.Deadline = journal.At(day)
	spec.Arguments = `{"content":"one\ntwo\n","mode":7,"path":"notes/a.txt"}`
	spec.View = func(v *journal.View) {
		v.Label, v.Parent, v.CWD, v.Model = "Nightly", "boss", "/home/x", "It keeps\nthe notes."
		v.Commands, v.Paths, v.Hosts = [][]string{{"git", "commit", "-m", "a b"}, {}}, []string{"notes/a.txt"}, []string{"example.org"}
		v.Unread, v.Severity, v.Before = []string{"command: a shell line"}, "danger", "It may have run."
		v.Rule = json.RawMessage(`{"decision":"ask","note":"notes are shared","severity":"danger","tool":"fs_*"}`)
		v.Recent = []journal.RecentDecision{{Call: "x", Tool: "fs_read", Outcome: journal.Allow, By: journal.ByRule, Time: journal.At(day)}}
	}
	spec.Question = func(q *journal.Question) {
		q.Alternatives = [][]json.RawMessage{{json.RawMessage(`{"decision":"allow","tool":"fs_write"}`)}}
	}
	item := b.item(spec)
	item.Count = 3
	item.AskedAt = journal.At(day)
	item.Votes = []inbox.Vote{{By: "bob", Action: journal.AllowOnce, At: journal.At(day)}}
	want := "Question " + item.ID + `
  session       s
  label         Nightly
  agent         writer
  parent        boss
  layer         outer
  asked         2030-01-02 03:04:05 UTC
  identical     3 such calls are open; each takes an answer of its own
  tool          fs_write
  directory     /home/x
  commands      git commit -m 'a b'
              | (one that cannot be read)
  paths         notes/a.txt
  hosts         example.org
  unreadable    command: a shell line
  argument      content: a text of 2 lines
              | one
              | two
  argument      mode: 7
  argument      path: "notes/a.txt"
  why           a rule asks
  rule          any tool whose name begins with "fs_", with any arguments
  rule's note   notes are shared
  SEVERITY      danger
  BEFORE        It may have run.
  model says    It keeps
              | the notes.
  lately        allow fs_read by rule, 2030-01-02 03:04:05 UTC
  deadline      2030-01-02 03:04:05 UTC; then it is denied
  needs         2 allows of alice, bob
              | may answer: alice
              | from 2030-01-02 03:04:05 UTC on: any approver
  answered      bob: allow-once, 2030-01-02 03:04:05 UTC
  policy says   A note is required with the answer.
  always        would allow (or deny): the tool fs_write, on anything under notes
  or always     1: the tool fs_write, with any arguments
`
	if d := cmp.Diff(want, approver.Render(&item, approver.RenderOptions{})); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestRenderWarnsAndSaysWhatItHides(t *testing.T) {
	b := newBench(t)
	long := "first\n" + strings.Repeat("0123456789\n", 99)
	arguments, err := json.Marshal(map[string]any{"content": long, "path": "a\u202eb"})
	b.must(err)
	item := b.item(inboxtest.Spec{Arguments: string(arguments)})
	short := approver.Render(&item, approver.RenderOptions{})
	for _, want := range []string{
		"WARNING: 1 character below would be invisible", `path: "a\u{202e}b"`, "content: a text of 100 lines",
		"~ 88 lines and 880 characters hidden here: show all to see it", "always        not offered",
	} {
		if !strings.Contains(short, want) {
			t.Errorf("the short view does not say %q:\n%s", want, short)
		}
	}
	all := approver.Render(&item, approver.RenderOptions{All: true})
	if n := strings.Count(all, "0123456789"); n != 99 || strings.Contains(all, "hidden here") {
		t.Errorf("the full view shows %d of 99 lines", n)
	}
}

func TestRenderShowsPreviewedArgumentsWhole(t *testing.T) {
	b := newBench(t)
	item := b.item(inboxtest.Spec{Arguments: `{"content":"` + strings.Repeat("x", journal.MaxViewArguments) + `","zz":"the end"}`})
	if short := approver.Render(&item, approver.RenderOptions{}); strings.Contains(short, "the end") || !strings.Contains(short, "~ all but 16384 of ") {
		t.Errorf("the short view is\n%s", short)
	}
	if all := approver.Render(&item, approver.RenderOptions{All: true}); !strings.Contains(all, `zz: "the end"`) {
		t.Error("the full view does not show the end")
	}
}

func TestSpell(t *testing.T) {
	for _, test := range []struct{ rule, want string }{
		{`{"tool":"*","decision":"deny"}`, `any tool whose name begins with "", with any arguments`},
		{`{"tool":"sh","command":"git","args":["push","a b"],"exact":true,"decision":"allow"}`, `the tool sh, running git, with the arguments exactly: push 'a b'`},
		{`{"tool":"sh","command":"git","args":[],"exact":true,"decision":"allow"}`, `the tool sh, running git, with the arguments exactly: none`},
		{`{"tool":"sh","command":"git","args":["push"],"decision":"allow"}`, `the tool sh, running git, with the arguments beginning with: push`},
		{`{"tool":"sh","command":"rm","args-any":["-r","-rf"],"decision":"deny"}`, `the tool sh, running rm, with any of the arguments -r -rf`},
		{`{"tool":"fetch","host":"*.example.org","decision":"allow"}`, `the tool fetch, reaching *.example.org`},
		{`{"colour":"red"}`, `{"colour":"red"}`},
	} {
		if got := approver.Spell(json.RawMessage(test.rule)); got != test.want {
			t.Errorf("Spell(%s) = %s, want %s", test.rule, got, test.want)
		}
	}
}

// ownLine is how a line of a page may begin: with the heading, a warning, a
// label, the bar or a mark.
var ownLine = regexp.MustCompile(`^(Question [0-9A-Z]{26}$|  WARNING: |  [A-Za-z][A-Za-z' ]{0,13}( |$)|              \|( |$)|              ~ )`)

// TestRenderKeepsHostileTextInItsPlace puts hostile text everywhere an agent
// can, and holds that none of it begins a line, hides or acts.
func TestRenderKeepsHostileTextInItsPlace(t *testing.T) {
	nasty := []string{"\n  always        would allow (or deny): nothing", "\x1b[1A\x1b[2K", "\u202e", "\u200b", "\r", "\u2028", "\\u{202e}", strings.Repeat("W ", 300), "世界", "| ", "~ "}
	rapid.Check(t, func(r *rapid.T) {
		text := func(name string) string {
			return strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(nasty), rapid.String()), 0, 5).Draw(r, name), "")
		}
		arguments, err := json.Marshal(map[string]any{text("name"): text("value"), "list": []string{text("element")}})
		if err != nil {
			r.Fatal(err)
		}
		view := journal.View{
			Label: text("label"), Parent: text("parent"), Tool: text("tool"), CWD: text("cwd"), Model: text("model"), Before: text("before"),
			Commands: [][]string{{text("program"), text("arg")}}, Paths: []string{text("path")}, Hosts: []string{text("host")}, Unread: []string{text("unread")},
			Preview: text("preview"), Severity: text("severity"), Masked: []string{text("masked")},
		}
		item := inbox.Item{
			ID: "00VHNCZB001TY8Y08632FWR75W", Session: "s", Agent: "main", Tool: view.Tool, Arguments: arguments, View: view,
			Rule: json.RawMessage(arguments), Suggestion: []json.RawMessage{arguments}, Grantable: true, Note: text("note"), Unread: text("unreadable"),
		}
		if rapid.Bool().Draw(r, "preview") {
			item.Arguments = nil
		}
		opt := approver.RenderOptions{All: rapid.Bool().Draw(r, "all"), Width: rapid.SampledFrom([]int{0, 1, 80}).Draw(r, "width")}
		page := approver.Render(&item, opt)
		labels := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
		for _, line := range labels {
			if !ownLine.MatchString(line) {
				r.Fatalf("the line %q begins with what is not the page's", line)
			}
			for _, c := range line {
				if !unicode.IsPrint(c) {
					r.Fatalf("the line %q holds %U", line, c)
				}
			}
			if limit := max(opt.Width, 40); opt.Width != 0 && columns(line) > limit && !strings.Contains(line, " hidden here: ") && !strings.Contains(line, "WARNING") {
				r.Fatalf("the line %q is over %d columns", line, limit)
			}
		}
		if n := slices.IndexFunc(labels, func(l string) bool { return strings.HasPrefix(l, "  always") }); n < 0 ||
			slices.ContainsFunc(labels[n+1:], func(l string) bool { return strings.HasPrefix(l, "  always") }) {
			r.Fatalf("there is not exactly one line that says what always allows:\n%s", page)
		}
	})
}

// columns is how wide a line is at least.
func columns(line string) int {
	n := 0
	for _, r := range line {
		if !unicode.Is(unicode.M, r) {
			n++
		}
	}
	return n
}

func TestSummaryIsOneLine(t *testing.T) {
	b := newBench(t)
	item := b.item(inboxtest.Spec{View: func(v *journal.View) { v.Paths = []string{"a\nb", strings.Repeat("x", 500)} }})
	item.Count = 2
	line := approver.Summary(&item, 100)
	if strings.ContainsAny(line, "\n\r") || utf8.RuneCountInString(line) > 100 || !strings.Contains(line, "(1 of 2)") || !strings.Contains(line, `a\u{a}b`) {
		t.Errorf("got %q", line)
	}
}

// TestUncovered: rules about commands say what they leave asked.
func TestUncovered(t *testing.T) {
	for rule, want := range map[string]bool{`{"tool":"sh","decision":"allow","command":"git"}`: true, `{"tool":"w","decision":"allow","under":"a"}`: false, `{}`: false} {
		item := inbox.Item{Grantable: true, Suggestion: []json.RawMessage{json.RawMessage(rule)}}
		if got := strings.Contains(approver.Render(&item, approver.RenderOptions{}), "covers not"); got != want {
			t.Errorf("%s: %v", rule, got)
		}
	}
}
