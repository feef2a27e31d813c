package approver

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible is s on one line with every character written out that a screen
// would hide, act on or let reorder the text: controls and escapes, line
// breaks, bidi marks, zero-width and other invisible characters, blanks that
// are not the space, unassigned ones, and bytes that are not UTF-8. They
// become \u{…} and \x{…}; a backslash that could pass for one becomes \u{5c}.
func Visible(s string) string {
	text, _ := visible(s)
	return text
}

// Line is Visible for a text that holds some that went through Visible
// already, such as an error: backslashes stay as they are.
func Line(s string) string {
	text, _ := escape(s, false)
	return text
}

// maxMarks is how many combining marks in a row a character may carry. Real
// scripts use up to about four; more pile up over neighbouring lines.
const maxMarks = 4

// visible is Visible, and how many characters were written out for being
// hidden or acting, line ends and tabs aside.
func visible(s string) (string, int) { return escape(s, true) }

func escape(s string, backslash bool) (string, int) {
	var b strings.Builder
	hidden, marks := 0, maxMarks // one at the beginning would sit on what is not the text's
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if unicode.Is(unicode.M, r) {
			marks++
		} else {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x{%02x}`, s[i])
			hidden++
		case backslash && r == '\\' && (strings.HasPrefix(s[i+1:], "u{") || strings.HasPrefix(s[i+1:], "x{")):
			b.WriteString(`\u{5c}`)
		case !shows(r) || marks > maxMarks:
			fmt.Fprintf(&b, `\u{%x}`, r)
			if r != '\n' && r != '\t' { // every text has them, and warnings about them would hide the others
				hidden++
			}
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String(), hidden
}

// shows reports whether a character is on a screen what it is in the text.
func shows(r rune) bool {
	switch r {
	case '\u2800', '\u115f', '\u1160', '\u3164', '\uffa0', '\u17b4', '\u17b5', '\u034f':
		return false // letters and symbols by category, and blank
	}
	return unicode.IsPrint(r) &&
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// lines splits a text into lines, each visible; a tab is four blanks. How a
// line ends, \n or \r\n, makes no difference.
func lines(s string) (list []string, hidden int) {
	for _, line := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
		line = strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    ")
		text, n := visible(line)
		list = append(list, text)
		hidden += n
	}
	return list, hidden
}
