package shell

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// foretold reports whether a run of a program is one of the commands that a line
// was taken apart into, or may be one that is unknown.
func foretold(commands []Command, r ran) bool {
	return slices.ContainsFunc(commands, func(c Command) bool {
		if c.Unknown != "" {
			return true
		}
		// A file that is sourced, or run as a script, is what the command is about.
		if sourced := c.Program == "." || c.Program == "source"; sourced && r.program == "bash" || (sourced || Base(c.Program) == "bash" || Base(c.Program) == "sh") && slices.ContainsFunc(c.Argv, func(a string) bool { return Base(a) == r.program }) {
			return true
		}
		if Base(c.Program) != r.program || len(c.Argv) > len(r.argv) || c.Sealed && len(c.Argv) != len(r.argv) {
			return false
		}
		return slices.Equal(c.Argv, r.argv[:len(c.Argv)])
	})
}

// hold runs a line with bash: nothing may run that was not foretold.
func hold(t tb, j *jail, line string) (known bool) {
	t.Helper()
	commands := Commands(line)
	list, parsed := j.run(t, line)
	for _, r := range list {
		if !foretold(commands, r) {
			t.Fatalf("%q\nran %s %q, and was taken apart into %s", line, r.program, r.argv, show(commands))
		}
	}
	known = !slices.ContainsFunc(commands, func(c Command) bool { return c.Unknown != "" })
	if known && !parsed {
		t.Logf("bash cannot read %q", line)
	}
	return known
}

// lines draws shell lines that do no harm.
type lines struct{ depth int }

func pick(t *rapid.T, list ...string) string { return rapid.SampledFrom(list).Draw(t, "one") }

func (l lines) deeper() lines { return lines{l.depth + 1} }

func (l lines) word(t *rapid.T) string {
	plain := []string{"a", "b c", "-x", "x=1", "$HOME", "p", "rm", "*", "~", "{}", "\\", "'", "a\nb", "", "é", ";", "&&", "#", "--", "{a,b}"}
	s := pick(t, plain...)
	switch rapid.IntRange(0, 11).Draw(t, "quoting") {
	case 0:
		return quoteSingle(s)
	case 1:
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`).Replace(s) + `"`
	case 2:
		var b strings.Builder
		for _, r := range s {
			if r == '\n' {
				b.WriteString("$'\\n'")
			} else {
				b.WriteString(`\` + string(r))
			}
		}
		return b.String() + "''"
	case 3:
		return "$'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "a", `\x61`, "p", `\160`).Replace(s) + "'"
	case 4:
		if l.depth < 3 {
			return `"$(` + l.deeper().line(t) + `)"`
		}
	case 5:
		if l.depth < 3 {
			return "`" + strings.NewReplacer("`", "\\`", `\`, `\\`).Replace(l.deeper().simple(t)) + "`"
		}
	case 6:
		return pick(t, `$x`, `"$x"`, `${x:-b}`, `"${x:-$(p d)}"`, `$((1+2))`, `"$@"`, `<(q)`, `$(<f)`, `${#x}`, `a$x`, `"a"b'c'`, `[`, `a?`, `{1..2}`, `r''m`)
	}
	return pick(t, "a", "b", "-x", "--y=z", "f", "3", "x=1", "./d")
}

func quoteSingle(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (l lines) words(t *rapid.T) string {
	var all []string
	for range rapid.IntRange(0, 3).Draw(t, "words") {
		all = append(all, l.word(t))
	}
	return strings.Join(all, " ")
}

func (l lines) program(t *rapid.T) string {
	return pick(t, "p", "q", "r", "rm", "git", "/bin/p", `"p"`, `r\m`, `'q'`, `r''m`, `$'\x70'`, "$x", "echo", ":", "true", "p")
}

func (l lines) simple(t *rapid.T) string {
	s := l.program(t) + " " + l.words(t)
	if rapid.IntRange(0, 7).Draw(t, "redirect") == 0 {
		s += pick(t, " > f", " 2>&1", " >> f", " < /dev/null", " > /dev/null", " >&2", " &> f", " > >(q)", " <<< 'p x'")
	}
	if rapid.IntRange(0, 7).Draw(t, "assign") == 0 {
		s = pick(t, "X=1 ", "x=2 ", "A=$(q) ") + s
	}
	return s
}

func (l lines) line(t *rapid.T) string {
	if l.depth > 4 {
		return l.simple(t)
	}
	d := l.deeper()
	switch rapid.IntRange(0, 27).Draw(t, "construct") {
	case 0:
		return d.line(t) + pick(t, " && ", " || ", " ; ", " | ", "\n", " & ", " |& ") + d.line(t)
	case 1:
		return "( " + d.line(t) + " )"
	case 2:
		return "{ " + d.line(t) + "\n}"
	case 3:
		return "if " + d.line(t) + "\nthen " + d.line(t) + "\nelse " + d.line(t) + "\nfi"
	case 4:
		return "for i in " + d.words(t) + "\ndo " + d.line(t) + "\ndone"
	case 5:
		return "while " + d.line(t) + "\ndo " + d.line(t) + "; break\ndone"
	case 6:
		return "case " + d.word(t) + " in a) " + d.line(t) + "\n;; *) " + d.line(t) + "\n;; esac"
	case 7:
		return pick(t, "fun", "p", "git") + "() { " + d.line(t) + "\n}; " + pick(t, "fun", "p", "git") + " " + d.words(t)
	case 8:
		return pick(t, "bash -c ", "sh -c ", "bash -ec ", "bash -o pipefail -c ", "eval ", "bash --norc -c ") + quoteSingle(d.line(t))
	case 9:
		return "trap " + quoteSingle(d.line(t)) + " EXIT; " + d.line(t)
	case 10:
		return pick(t, "env ", "env -i PATH=/bin ", "env -u X Y=1 ", "timeout 5 ", "timeout -k 1 5 ", "nice -n 1 ", "nohup ", "setsid -w ", "command ", "exec ",
			"exec -a git ", "builtin ", "time -p ", "stdbuf -oL ", "env -S 'p x' ", "command -p ", "env -C . ") + d.simple(t)
	case 11:
		return "echo " + d.words(t) + " | xargs " + pick(t, "", "-n 1 ", "-I {} ", "-0 ") + d.simple(t)
	case 12:
		return "find . -maxdepth 0 -exec " + d.simple(t) + " \\;"
	case 13:
		return "cat() { :; }; p <<E\n" + pick(t, "$(q)", "x", "`r`", "$x") + "\nE\n" + d.line(t)
	case 14:
		return "bash <<'E'\n" + d.line(t) + "\nE"
	case 15:
		return "[[ -n " + d.word(t) + " ]] && " + d.line(t)
	case 16:
		return "x=" + d.word(t) + "; " + d.line(t)
	case 17:
		return "(( $(" + d.line(t) + "\n) + 1 ))"
	case 18:
		return "alias p=" + quoteSingle(d.line(t)) + "\nshopt -s expand_aliases\np"
	case 19:
		return "x=(" + d.words(t) + "); \"${x[@]}\" " + d.words(t)
	case 20:
		return "coproc { " + d.line(t) + "\n}; wait"
	case 21:
		return "! " + d.line(t)
	}
	return d.simple(t)
}

// TestBash holds lines against bash, in a jail of programs that do nothing: none
// may run but those that were foretold.
func TestBash(t *testing.T) {
	j, ok := newJail(t)
	if !ok {
		return
	}
	tried, known := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		line := lines{}.line(rt)
		tried++
		if hold(rt, j, line) {
			known++
		}
	})
	t.Logf("%d lines, %d of them known as a whole", tried, known)
	if known*4 < tried {
		t.Errorf("of %d lines only %d were known as a whole", tried, known)
	}
}

// vectorLines are the lines of the conformance vectors.
func vectorLines(t testing.TB) (list []string) {
	for _, file := range []string{"shell", "reported"} {
		f, err := os.Open(fmt.Sprintf("../../../testdata/conformance/%s.jsonl", file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			var v struct{ Arguments map[string]any }
			if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
			if line, ok := v.Arguments["command"].(string); ok && len(line) < 4096 {
				list = append(list, line)
			}
		}
	}
	return list
}

// TestBashVectors holds the lines of the vectors against bash.
func TestBashVectors(t *testing.T) {
	j, ok := newJail(t)
	if !ok {
		return
	}
	for _, line := range vectorLines(t) {
		if !strings.Contains(line, "\x00") {
			hold(t, j, line)
		}
	}
}

// FuzzBash holds any line against bash.
func FuzzBash(f *testing.F) {
	for _, line := range vectorLines(f) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if len(line) > 2000 || strings.Contains(line, "\x00") {
			return
		}
		if j, ok := newJail(t); ok {
			hold(t, j, line)
		}
	})
}

// FuzzBashDrawn holds lines that are drawn as TestBash does.
func FuzzBashDrawn(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(drawing(seed))
	}
	f.Fuzz(rapid.MakeFuzz(func(rt *rapid.T) { holdDrawn(rt) }))
}

func drawing(seed uint64) []byte {
	b := make([]byte, 4096)
	for i := range b {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[i] = byte(seed >> 56)
	}
	return b
}

func holdDrawn(rt *rapid.T) {
	if j, ok := newJail(rt); ok {
		hold(rt, j, lines{}.line(rt))
	}
}
