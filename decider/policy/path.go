package policy

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"decisionjournal/decider/policy/shell"
)

// Paths are compared as text, segment by segment, and never looked up: what a
// name means on a disk may change between judging and running. Empty and "."
// segments count for nothing; ".." is never resolved, since a link in front
// of it would make it mean something else.

// segments walks a path's segments without allocating.
type segments string

// next returns the next segment that counts, or false at the end.
func (s *segments) next() (string, bool) {
	rest := string(*s)
	for {
		start := 0
		for start < len(rest) && rest[start] == '/' {
			start++
		}
		end := start
		for end < len(rest) && rest[end] != '/' {
			end++
		}
		seg := rest[start:end]
		rest = rest[end:]
		if seg != "." {
			*s = segments(rest)
			return seg, seg != ""
		}
	}
}

func absolute(path string) bool { return strings.HasPrefix(path, "/") }

// under reports whether path is dir or inside it, where a relative dir is
// measured from root. A relative against an absolute one is unknown. With
// fold, letter case does not count.
func under(path, root, dir string, fold bool) answer {
	if absolute(dir) {
		root = ""
	}
	if absolute(path) != (absolute(dir) || absolute(root)) {
		return unknown
	}
	rest := segments(path)
	for _, part := range [...]string{root, dir} {
		want := segments(part)
		for w, ok := want.next(); ok; w, ok = want.next() {
			got, ok := rest.next()
			if !ok || got != w && !(fold && strings.EqualFold(got, w)) {
				return no
			}
		}
	}
	return yes
}

// depth counts the segments of a path.
func depth(path string) int {
	n, s := 0, segments(path)
	for _, ok := s.next(); ok; _, ok = s.next() {
		n++
	}
	return n
}

// split lists a path's segments.
func split(path string) []string {
	out, s := []string{}, segments(path)
	for seg, ok := s.next(); ok; seg, ok = s.next() {
		out = append(out, seg)
	}
	return out
}

// Why a value could not be read as what it should be, as facts record it.
const (
	whyNotText   = "not-text"   // neither a string nor, where allowed, a list of them
	whyDotDot    = "dot-dot"    // holds a ".." segment
	whyNUL       = "nul"        // holds a NUL
	whyBackslash = "backslash"  // a separator on some systems only
	whyTilde     = "tilde"      // a home directory only some programs expand
	whyDrive     = "drive"      // absolute on some systems only
	whyEncoding  = "encoding"   // was not text in any encoding we read
	whyAmbiguous = "ambiguous"  // the same parameter again in other letter case
	whyLine      = "shell-line" // would need a shell's reading
	whyExpansion = "expansion"  // known only when the command runs
	whyEmpty     = "empty"
	whyPatch     = "names-no-file" // a patch's text in no format we read
	whyControl   = "control-character"
	whyURL       = "not-a-plain-url"
)

// pathDoubt says why a path cannot be compared, "" if it can.
func pathDoubt(path string) string {
	switch {
	case strings.ContainsRune(path, 0):
		return whyNUL
	case strings.ContainsRune(path, '\\'):
		return whyBackslash
	case strings.HasPrefix(path, "~"):
		return whyTilde
	case strings.ContainsRune(path, utf8.RuneError):
		return whyEncoding
	case shell.Drive(path) && (len(path) == 2 || path[2] == '/'):
		return whyDrive
	}
	rest := segments(path)
	for seg, ok := rest.next(); ok; seg, ok = rest.next() {
		if seg == ".." {
			return whyDotDot
		}
	}
	return ""
}

// checkDirectory refuses a directory that no path could ever be compared with.
func checkDirectory(what, dir string) error {
	hint := ""
	switch pathDoubt(dir) {
	case "":
		return nil
	case whyTilde:
		hint = "write the home directory out; ~ is not expanded"
	case whyDotDot:
		hint = "write the directory without .."
	case whyBackslash:
		hint = "write / between directories"
	case whyDrive:
		hint = "directories with a drive letter are not compared"
	default:
		hint = "write it as plain UTF-8 text"
	}
	return fmt.Errorf("%s %q cannot be compared: %s", what, dir, hint)
}

// place reads one location value, measured from the tool's root. The display
// is kept as given, so that people see what was asked for.
func place(root, value string) Place {
	p := Place{Path: value, Unknown: pathDoubt(value)}
	switch {
	case absolute(value) || p.Unknown == whyTilde:
	case root != "":
		p.Path = strings.TrimRight(root, "/") + "/" + value
	case value == "":
		p.Unknown = whyEmpty
	}
	return p
}
