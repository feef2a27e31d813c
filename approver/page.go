package approver

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// page writes labelled text. Nothing an agent wrote can begin a line of its
// own or act on the terminal: every value goes through visible, is wrapped
// below its label, and continues behind a bar.
type page struct {
	out    strings.Builder
	width  int  // columns
	all    bool // hide nothing
	hidden int  // characters written out so far
}

const (
	labelWidth   = 14
	defaultWidth = 100
	minWidth     = 40

	// What is shown of one text unless all is wanted.
	maxLines   = 12
	maxColumns = 400
	maxEntries = 24 // of a list, and of arguments
)

// field writes a text that should be one line.
func (p *page) field(label, text string) {
	shown, n := visible(text)
	p.hidden += n
	p.clipped(label, []string{shown})
}

// block writes a text that may have many lines.
func (p *page) block(label, text string) {
	shown, n := lines(text)
	p.hidden += n
	p.clipped(label, shown)
}

// list writes one text an entry.
func (p *page) list(label string, entries []string) {
	for i, e := range entries {
		if i == maxEntries && !p.all {
			p.mark(count(len(entries)-i, "more entry", "more entries"))
			return
		}
		p.field(label, e)
		label = ""
	}
}

// clipped writes visible lines, and says by how much they were shortened.
func (p *page) clipped(label string, text []string) {
	if p.all {
		p.put(label, text)
		return
	}
	kept, cut := text[:min(len(text), maxLines)], 0
	for _, l := range text[len(kept):] {
		cut += utf8.RuneCountInString(l)
	}
	short := make([]string, len(kept))
	for i, l := range kept {
		runes := []rune(l)
		short[i] = string(runes[:min(len(runes), maxColumns)])
		cut += max(len(runes)-maxColumns, 0)
	}
	p.put(label, short)
	if hidden := len(text) - len(kept); hidden > 0 || cut > 0 {
		p.mark(fmt.Sprintf("%s and %s", count(hidden, "line", "lines"), count(cut, "character", "characters")))
	}
}

// mark says what is hidden at this place.
func (p *page) mark(what string) {
	fmt.Fprintf(&p.out, "  %*s~ %s hidden here: show all to see it\n", labelWidth-2, "", what)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// put writes a label and visible lines beside it. Whatever stands at the
// beginning of a line is the page's own: a label, or the bar.
func (p *page) put(label string, text []string) {
	bar := strings.Repeat(" ", labelWidth) + "| "
	head := fmt.Sprintf("  %-*s  ", labelWidth-2, label)
	if label == "" {
		head = bar
	}
	for _, line := range text {
		for _, piece := range wrap(line, p.width-len(bar)) {
			p.out.WriteString(strings.TrimRight(head+piece, " ") + "\n")
			head = bar
		}
	}
}

// wrap breaks a visible line into pieces of at most width columns.
func wrap(line string, width int) []string {
	var pieces []string
	start, used := 0, 0
	for i, r := range line {
		if w := columns(r); used+w > width {
			pieces = append(pieces, line[start:i])
			start, used = i, w
		} else {
			used += w
		}
	}
	return append(pieces, line[start:])
}

// columns is how wide a character may be on a screen, rather too much.
func columns(r rune) int {
	switch {
	case unicode.Is(unicode.M, r):
		return 0
	case r >= 0x1100:
		return 2
	}
	return 1
}
