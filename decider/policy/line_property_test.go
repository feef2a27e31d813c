package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lineOf is a call of a tool that takes a shell line.
func lineOf(t interface{ Fatal(...any) }, line string) json.RawMessage {
	raw, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func linePolicy(t *rapid.T) *Policy {
	rules := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Rule {
		r := Rule{Tool: rapid.SampledFrom([]string{"Bash", "*", "B*"}).Draw(t, "tool"), Decision: rapid.SampledFrom([]Decision{Deny, Ask, Allow, Allow}).Draw(t, "decision")}
		if rapid.IntRange(0, 5).Draw(t, "any command") > 0 {
			r.Command = rapid.SampledFrom([]string{"git", "g*", "rm", "GIT", "ls"}).Draw(t, "command")
			if rapid.Bool().Draw(t, "has args") {
				r.Args = rapid.SliceOfN(genWord, 0, 2).Draw(t, "args")
				r.Exact = rapid.Bool().Draw(t, "exact")
			}
		}
		return r
	}), 1, 5).Draw(t, "rules")
	return &Policy{Rules: rules, CommandParams: map[string]CommandParams{"Bash": {Line: "command"}}, Floor: Floor{Off: rapid.Bool().Draw(t, "floor off")}}
}

var (
	genWord    = rapid.SampledFrom([]string{"p", "-f", "a b", "$x", "it's", `q"`, "*", "~", "é", "a\nb", "--x=y", ";"})
	genPlainly = rapid.SampledFrom([]string{"git", "rm", "ls", "gitk", "make"})
)

// quoted writes a word for a shell in one of many ways that mean the same.
func quoted(t *rapid.T, word string) string {
	switch rapid.IntRange(0, 4).Draw(t, "quoting") {
	case 0:
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	case 1:
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`).Replace(word) + `"`
	case 2:
		return "$'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "a", `\x61`, "p", `\160`).Replace(word) + "'"
	case 3: // each letter by itself
		var b strings.Builder
		for _, r := range word {
			if r == '\n' {
				b.WriteString("$'\\n'")
			} else {
				b.WriteString(`\` + string(r))
			}
		}
		return b.String() + "''"
	}
	half := len(word) / 2
	for half > 0 && word[half]&0xc0 == 0x80 {
		half--
	}
	return quoted(t, word[:half]) + `""` + quoted(t, word[half:])
}

// TestQuotingMeansNothing: the same words are judged alike however they are
// quoted.
func TestQuotingMeansNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := linePolicy(t)
		words := append([]string{genPlainly.Draw(t, "program")}, rapid.SliceOfN(genWord, 0, 3).Draw(t, "words")...)
		var one, other []string
		for _, w := range words {
			one, other = append(one, quoted(t, w)), append(other, quoted(t, w))
		}
		a, b := strings.Join(one, " "), strings.Join(other, "  ")
		va, vb := p.Judge("Bash", p.Facts("Bash", lineOf(t, a)), nil), p.Judge("Bash", p.Facts("Bash", lineOf(t, b)), nil)
		if va.Decision != vb.Decision || va.RuleIndex != vb.RuleIndex {
			t.Fatalf("%s is %s, %s is %s", a, va.Decision, b, vb.Decision)
		}
	})
}

// wrappers are commands that run another, which is %s, and are one themselves.
var wrappers = []string{
	"env %s", "env -i -u X %s", "env -- %s", "env X=1 %s", "timeout 5 %s", "timeout -k 1 --signal=KILL 5s %s", "nice -n 5 %s", "nice %s", "nohup %s", "stdbuf -oL -e0 %s", "ionice -c 2 %s", "setsid -w %s",
	"exec %s", "exec -a x %s", "command %s", "command -p -- %s", "builtin %s", "busybox %s", "/usr/bin/time -p %s", "/usr/bin/env %s", "ENV %s",
	"sudo %s", "sudo -u root -n %s", "doas %s", "xargs %s", "xargs -0 -n 1 %s", "find . -exec %s \\;", "ssh host %s", "watch -n 1 %s", "parallel %s ::: a", "docker exec -it c %s", "npx %s", "nsenter -t 1 -m %s",
}

// wrappings are lines that run another: %s is the line, %q the line in quotes.
var wrappings = []string{
	"sh -c %q", "bash -lc %q", "bash -o pipefail -ec %q", "eval %q", "trap %q EXIT", "alias x=%q", "time %s", "time -p %s", "coproc { %s; }",
	"( %s )", "{ %s; }", "! %s", "%s &", "echo $( %s )", "echo \"$( %s )\"", "cat <( %s )", "if true; then %s; fi", "for i in 1; do %s; done", "f() { %s; }; f", "case a in a) %s;; esac",
	"true && %s", "true | %s", "%s; true", "%s > out", "cat <<E\n$( %s )\nE", "bash <<'E'\n%s\nE", "timeout 5 nice env X=1 sudo sh -c %q",
}

// TestWrappingPermitsNothing: what is denied or asked about stays so behind
// anything that runs it.
func TestWrappingPermitsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := linePolicy(t)
		words := []string{genPlainly.Draw(t, "program")}
		for _, w := range rapid.SliceOfN(genWord, 0, 2).Draw(t, "words") {
			words = append(words, quoted(t, w))
		}
		line := strings.Join(words, " ")
		plain := p.Judge("Bash", p.Facts("Bash", lineOf(t, line)), nil)
		wrapped := line
		for i, n := 0, rapid.IntRange(0, 3).Draw(t, "wrappers"); i < n; i++ {
			wrapped = strings.ReplaceAll(rapid.SampledFrom(wrappers).Draw(t, "wrapper"), "%s", wrapped)
		}
		for range rapid.IntRange(0, 3).Draw(t, "wrappings") {
			w := rapid.SampledFrom(wrappings).Draw(t, "wrapping")
			wrapped = strings.NewReplacer("%s", wrapped, "%q", "'"+strings.ReplaceAll(wrapped, "'", `'\''`)+"'").Replace(w)
		}
		got := p.Judge("Bash", p.Facts("Bash", lineOf(t, wrapped)), nil)
		if plain.Decision != Allow && got.Decision == Allow {
			t.Fatalf("%q is %s, and %q is allowed", line, plain.Decision, wrapped)
		}
		if plain.Decision == Deny && got.Decision != Deny {
			t.Fatalf("%q is denied, and %q is %s", line, wrapped, got.Decision)
		}
	})
}

// FuzzLine judges any line: it is taken apart into something, an allow by
// command covers no line that holds an unknown part, and facts read back.
func FuzzLine(f *testing.F) {
	for _, w := range append(wrappings, wrappers...) {
		f.Add(strings.NewReplacer("%s", "git status", "%q", "'rm -rf /'").Replace(w))
	}
	p := &Policy{Rules: []Rule{{Tool: "Bash", Decision: Allow, Command: "*"}}, CommandParams: map[string]CommandParams{"Bash": {Line: "command"}}}
	p.index = newIndex(p)
	f.Fuzz(func(t *testing.T, line string) {
		line = strings.ToValidUTF8(line, "\ufffd") // as JSON has it
		facts := p.Facts("Bash", lineOf(t, line))
		if len(facts.Commands) == 0 {
			t.Fatalf("%q runs nothing", line)
		}
		v := p.Judge("Bash", facts, nil)
		for _, c := range facts.Commands {
			if c.Unknown != "" && v.Decision == Allow {
				t.Fatalf("%q is allowed with %s in it", line, c)
			}
			if len(c.Span) == 2 && (c.Span[0] > c.Span[1] || c.Span[1] > len(line)) {
				t.Fatalf("%q: the span %v", line, c.Span)
			}
		}
		raw, err := json.Marshal(facts)
		if err != nil {
			t.Fatal(err)
		}
		var back Facts
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if again := p.Judge("Bash", back, nil); fmt.Sprint(again.Decision, again.RuleIndex) != fmt.Sprint(v.Decision, v.RuleIndex) {
			t.Fatalf("%q is judged %s, and by its facts %s", line, v.Decision, again.Decision)
		}
	})
}
