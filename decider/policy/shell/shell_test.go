package shell

import (
	"fmt"
	"strings"
	"testing"
)

// show writes commands for tests: ^ before a carrier, | before what reads a
// pipe, NAME= before what it sees assigned, ~ after arguments that are not all,
// > before what it writes, ?reason for one that is unknown.
func show(commands []Command) string {
	var all []string
	for _, c := range commands {
		var b strings.Builder
		for _, name := range c.Assigns {
			b.WriteString(name + "= ")
		}
		if c.Carrier {
			b.WriteString("^")
		}
		if c.Input {
			b.WriteString("|")
		}
		if c.Unknown != "" {
			b.WriteString("?" + short[c.Unknown])
		}
		b.WriteString(c.Program)
		for _, a := range c.Argv {
			if strings.ContainsAny(a, " \n;>") || a == "" {
				a = fmt.Sprintf("%q", a)
			}
			b.WriteString(" " + a)
		}
		if !c.Sealed && c.Unknown == "" {
			b.WriteString(" ~")
		}
		for _, r := range c.Redirects {
			b.WriteString(" >" + r.Target)
			if r.Unknown {
				b.WriteString("?")
			}
		}
		all = append(all, b.String())
	}
	return strings.Join(all, "; ")
}

var short = map[string]string{
	WhyEmpty: "empty", WhyLong: "long", WhyControl: "control", WhyEncoding: "encoding", WhySyntax: "syntax", WhyDeep: "deep", WhyMany: "many", WhyCrowded: "crowded",
	WhyProgram: "program", WhyPayload: "payload", WhyMissing: "missing", WhyOption: "option", WhyLanguage: "language", WhyIndirect: "indirect",
}

func TestCommands(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		// Words.
		{`git status`, `git status`},
		{`r\m -r''f "/tm"p/x`, `rm -rf /tmp/x`},
		{`"r"'m' $'\x2d\162' a\ b`, `rm -r "a b"`},
		{`$'\x72\x6d' x`, `rm x`},
		{`echo $'a\u00e9\e[0m\cA\'' $'\xff' x`, "echo aé\x1b[0m\x01' ~"},
		{`echo $'a\0b'`, `echo ~`},
		{`echo $"hello"`, `echo ~`},
		{`echo "a\$b\"c\\d\e"`, `echo a$b"c\d\e`},
		{"echo a\\\nb", `echo ab`},
		{"echo \"a\\\nb\"", `echo ab`},
		{`echo a \`, `echo a \`}, {`echo a\`, `echo a\`},
		{`echo $HOME x`, `echo ~`},
		{`echo a "$x" b`, `echo a ~`},
		{`echo *.go`, `echo ~`},
		{`echo a?b`, `echo ~`},
		{`echo \*.go '*' "?"`, `echo *.go * ?`},
		{`echo [ab]`, `echo ~`},
		{`[ -f x ]`, `[ -f x ]`},
		{`echo ~ x`, `echo ~`},
		{`echo HEAD~1 a=~/x`, `echo HEAD~1 ~`},
		{`echo '~' "~"`, `echo ~ ~`},
		{`echo {} HEAD@{1} {a}`, `echo {} HEAD@{1} {a}`},
		{`echo {a,b}`, `echo ~`},
		{`echo {1..3}`, `echo ~`},
		{`{rm,-rf,/}`, `?program`},
		{`rm{,x} y`, `?program`},
		{`gi? status`, `?program`},
		{`$CMD x`, `?program`},
		{`"" x`, `?program`},
		{`+(a|b) x`, `?indirect; ?program`},
		{`echo ""`, `echo ""`},
		// Lists and compounds.
		{`a && b || c; d & e`, `a; b; c; d; e`},
		{`a | b |& c`, `a; |b; |c`},
		{`(a; b) | { c; d; }`, `a; b; |c; |d`},
		{`! a`, `a`},
		{`time -p a`, `a`},
		{`coproc a b`, `a b`}, {`coproc alias x=y`, `?syntax`}, {`coproc a b=$(c)`, `c; ?syntax`},
		{`if a; then b; elif c; then d; else e; fi`, `a; b; c; d; e`},
		{`while a; do b; done; until c; do d; done`, `a; b; c; d`},
		{`for f in $(a) b; do c "$f"; done`, `a; c ~`},
		{`for ((i=0;i<$(a);i++)); do b; done`, `a; b`},
		{`select x in a; do b; done`, `b`},
		{`case $(a) in b) c;; $(d)) e;; esac`, `a; c; d; e`},
		{`f() { a; }; f b`, `a; f b`},
		{`function f { a; }`, `a`},
		{`[[ -f $(a) && x =~ $(b) ]]`, `a; b`},
		{`((x = $(a) + 1))`, `a`},
		{`let "x = 1"`, `:`},
		{`echo $(a $(b)) "$(c)" ` + "`d`", `b; a ~; c; d; echo ~`},
		{"echo `a \\`b\\` $'\\\\x70'`", `b; a ~; echo ~`},
		{"`$'\\\\x70' \\$x`", `p ~; ?program`},
		{"\"`a \\\"b\\\"`\"", `?payload; ?program`},
		{`echo ${x:-$(a)} ${y/$(b)/$(c)} ${z:$(d):1} ${#w}`, `a; b; c; d; echo ~`},
		{`echo $((1 + $(a)))`, `a; echo ~`},
		{`a <(b) >(c)`, `b; c; a ~`},
		{`x=$(a) b`, `a; x= b`},
		{`x=$(a)`, `a`},
		{`x=(a $(b))`, `b`},
		{`declare -x A=$(a) b`, `A= a`},
		// Redirections.
		{`a > f >> g 2> h &> i >| j <> k`, `a >f >g >h >i >j >k`},
		{`a >/dev/null 2>&1 <f >&- 2>/dev/stderr >/dev/fd/3`, `a`},
		{`a > $X > "b$Y" > ~/x`, `a >$X? >"b$Y"? >~/x?`},
		{`a >& f`, `a >f`},
		{`cat < /dev/tcp/h/80`, `cat >/dev/tcp/h/80`}, {`cat < "/dev/tcp/$h/80"`, `cat >/dev/tcp/?`},
		{`a > /dev/tcp/h/80`, `a >/dev/tcp/h/80`},
		{`{ a; b > f; } > g`, `a >g; b >g >f`},
		{`(a) > g | b`, `a >g; |b`},
		{`> f`, `: >f`},
		{`A=1`, `A= :`},
		{`a=1`, `:`},
		{`echo $(<f)`, `echo ~`},
		{`exec > f; a`, `exec >f; a`},
		{`exec 3<>/dev/tcp/h/80`, `exec >/dev/tcp/h/80`},
		{`cd x && a > f && b > /g`, `cd x; a >f?; b >/g`},
		{`a > f; cd x`, `a >f; cd x`},
		{`for d in x; do a > f; cd $d; done`, `a >f?; cd ~`},
		{`env -C x a > f`, `^env -C x a >f; a >f?`},
		// Here-documents.
		{"cat <<'E'\nrm $(x)\nE", `cat`},
		{"cat <<E\n$(a)\nE", `a; cat`},
		{"cat <<E; b\nx\nE\nc", `cat; b; c`},
		{"bash <<'E'\na && b\nE", `^bash; a; b`},
		{"bash <<E\na $x\nE", `bash`},
		{"bash -s <<E\na\nE", `^bash -s; a`},
		{"bash <<< 'a b'", `^bash; a b`},
		{"bash f <<< 'a b'", `bash f`},
		{"bash -c 'bash' <<< 'a b'", `^bash -c bash; bash`},
		{"python3 - <<'E'\nimport os\nE", `python3 -`},
		// Assignments that commands may see.
		{`A=1 b=2 c`, `A= b= c`},
		{`A=1; c`, `A= c`},
		{`c; A=1`, `c`},
		{`for A in 1; do c; done`, `A= c`},
		{`for a in 1; do c; done`, `c`},
		{`while x; do c; A=1; done`, `A= x; A= c`},
		{`export a=1; c`, `a= c`},
		{`http_proxy=x; c`, `http_proxy= c`},
		{`export $x; c`, `*= c`},
		{`: ${A:=1}; c`, `A= : ~; A= c`},
		{`read A; c`, `read A; A= c`},
		{`read a; c`, `read a; c`},
		{`read $a; c`, `read ~; *= c`},
		{`printf -v PATH x; c`, `printf -v PATH x; PATH= c`},
		{`printf %s PATH; c`, `printf %s PATH; c`},
		{`set -a; c`, `set -a; *= c`},
		{`set -eu; c`, `set -eu; c`},
		{`hash -p /x git; git`, `hash -p /x git; *= git`},
		{`A=1 bash -c 'c'`, `A= ^bash -c c; A= c`},
		// What is evaluated again.
		{`x='a[$(rm y)]'; echo $((x))`, `echo ~; ?indirect`},
		{`echo '$(a)'`, `echo $(a)`},
		{`echo $((x))`, `echo ~`},
		{`echo ${!x}`, `?indirect; echo ~`},
		{`echo ${x@P} ${x@Q}`, `?indirect; echo ~`},
		{`echo ${!x*}`, `echo ~`},
		{`[[ -v 'a[$(b)]' ]]`, `:; ?indirect`},
		{`test -v 'a[$(b)]'`, `test -v a[$(b)]; ?indirect`},
		// What cannot be read.
		{``, `?empty`}, {"  \n\t", `?empty`}, {`# a`, `?empty`},
		{`a "b`, `?syntax`}, {`a $(b`, `?syntax`}, {`a; ; b`, `?syntax`}, {`if`, `?syntax`}, {`a )`, `?syntax`},
		{"a \x00", `?control`}, {"a\rb", `?control`}, {"a \x1b[0m", `?control`}, {"a \u0085", `?control`}, {"a \x7f", `?control`},
		{"a \xff", `?encoding`}, {"a \ufffd", `?encoding`},
		{strings.Repeat("a", MaxBytes+1), `?long`},
		{strings.Repeat("a;", MaxCommands+1), `?many`},
		{"echo " + strings.Repeat("$(", 300) + strings.Repeat(")", 300), `?deep`},
		{"a" + strings.Repeat(" >f", MaxTogether+1), `?crowded`}, {strings.Repeat("A=1 ", MaxTogether+1) + "a", `?crowded`}, {strings.Repeat("A=1; ", 2*MaxTogether) + "a", `A= a`},
		{"env " + strings.Repeat("A=1 ", MaxTogether+2) + "a", `?crowded`}, {strings.Repeat("(", 3*MaxDepth), `?deep`}, {"echo '" + strings.Repeat("f()", 3*MaxDepth) + "'", "echo " + strings.Repeat("f()", 3*MaxDepth)},
		{strings.Repeat("a && ", 300) + "a", strings.Repeat("a; ", 300) + "a"},
	} {
		if got := show(Commands(tc.line)); got != tc.want {
			t.Errorf("%.100q:\n got %.300s\nwant %.300s", tc.line, got, tc.want)
		}
	}
}
