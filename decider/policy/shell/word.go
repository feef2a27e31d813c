package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Word is one word of a command.
type Word struct {
	// Text is what the program is given, if Known; else what it begins with, as
	// far as that can be read.
	Text string
	// Known: Text is all of one argument, whatever variables and files there are.
	Known bool
	// Single: it becomes exactly one argument, known or not.
	Single bool
	// Open: it may become arguments of any kind, also such that begin with "-".
	Open bool
	// Source is the word as it stands in the line.
	Source string
}

// reader reads a line that was parsed.
type reader struct {
	*walk
	text string
}

func (r reader) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(r.text) {
		return ""
	}
	return r.text[from:to]
}

func span(n syntax.Node) Span { return Span{int(n.Pos().Offset()), int(n.End().Offset())} }

// word reads a word without expanding it.
func (r reader) word(n *syntax.Word) Word {
	if len(n.Parts) == 1 { // as most are
		if lit, ok := n.Parts[0].(*syntax.Lit); ok && plain(lit.Value) {
			return Word{Text: lit.Value, Known: true, Single: true, Source: lit.Value}
		}
	}
	w := Word{Known: true, Single: true, Source: r.source(n)}
	var b strings.Builder
	for i, part := range n.Parts {
		text, known, single := "", false, false // an expansion, or a glob
		switch part := part.(type) {
		case *syntax.Lit:
			text, known = bare(part.Value, i == 0)
			single = known
		case *syntax.SglQuoted:
			text, known, single = part.Value, true, true
			if part.Dollar {
				text, known = ansi(text)
			}
		case *syntax.DblQuoted:
			text, known, single = doubleQuoted(part)
		}
		if w.Known {
			b.WriteString(text)
		}
		w.Known, w.Single = w.Known && known, w.Single && single
	}
	w.Open = !w.Known && !directory(w.Source) && (b.Len() == 0 || strings.HasPrefix(b.String(), "-") || !w.Single && strings.ContainsAny(w.Source, "$`"))
	w.Text = b.String()
	if strings.ContainsRune(w.Text, 0) { // arguments end there
		w.Known = false
	}
	return w
}

// directory reports whether a word begins with what is always one directory: who
// sets these to something else is seen to.
func directory(source string) bool {
	for _, prefix := range [...]string{"~", "$HOME", "${HOME}", "$PWD", "${PWD}"} {
		rest, ok := strings.CutPrefix(source, prefix)
		if ok && !strings.ContainsAny(rest, "$`") && (prefix == "~" || rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-_./,:%+@", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// doubleQuoted reads what stands in double quotes up to an expansion, and says
// whether that is all, and whether it is one argument.
func doubleQuoted(n *syntax.DblQuoted) (text string, known, single bool) {
	var b strings.Builder
	known, single = !n.Dollar, true // $"..." is translated
	for _, part := range n.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			s := part.Value
			for i := 0; i < len(s) && known; i++ {
				if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
					i++
					if s[i] == '\n' {
						continue
					}
				}
				b.WriteByte(s[i])
			}
		case *syntax.ParamExp:
			known = false
			if part.Param == nil || part.Param.Value == "@" || part.Index != nil || part.Excl {
				single = false
			}
		default:
			known = false
		}
	}
	return b.String(), known, single
}

// bare reads unquoted text up to what the shell would expand, or where it takes
// the other parts of the word to tell: a tilde, braces, a glob.
func bare(s string, first bool) (text string, known bool) {
	known = true
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
			if i == len(s) { // the last byte of the line
				b.WriteByte('\\')
			} else if s[i] != '\n' {
				b.WriteByte(s[i])
			}
			continue
		case '*', '?':
			known = false
		case '[':
			known = known && (s == "[" || s == "[[")
		case '{':
			inside, _, closed := strings.Cut(s[i+1:], "}")
			known = known && closed && !strings.Contains(inside, ",") && !strings.Contains(inside, "..")
		case '~':
			if first && i == 0 || i > 0 && (s[i-1] == '=' || s[i-1] == ':') {
				known = false
			}
		}
		if !known {
			break
		}
		b.WriteByte(s[i])
	}
	return b.String(), known
}

// ansi decodes what stands in $'...'.
func ansi(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if at := strings.IndexByte(`abeEfnrtv\'"?`, c); at >= 0 {
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[at])
			continue
		}
		switch {
		case c >= '0' && c <= '7':
			v, n := digits(s[i:], 8, 3)
			b.WriteByte(byte(v))
			i += n - 1
		case c == 'x' || c == 'u' || c == 'U':
			v, n := digits(s[i+1:], 16, map[byte]int{'x': 2, 'u': 4, 'U': 8}[c])
			if n == 0 {
				b.WriteString(s[i-1 : i+1])
				continue
			}
			i += n
			if c == 'x' {
				b.WriteByte(byte(v))
			} else {
				b.WriteRune(rune(v))
			}
		case c == 'c' && i+1 < len(s) && s[i+1] != '\\':
			i++
			b.WriteByte(s[i] & 0x1f)
		case c == 'c':
			return "", false
		default:
			b.WriteString(s[i-1 : i+1])
		}
	}
	text := b.String()
	return text, utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

func digits(s string, base, most int) (value, n int) {
	for n < len(s) && n < most {
		d := strings.IndexByte("0123456789abcdef", byte(unicode.ToLower(rune(s[n]))))
		if d < 0 || d >= base {
			break
		}
		value = value*base + d
		n++
	}
	return value, n
}
