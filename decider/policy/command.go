package policy

import (
	"fmt"
	"strings"
	"unicode"

	"decisionjournal/decider/policy/shell"
)

// lineBytes are what makes a program word a shell line: it would have to be
// taken apart as a shell does before anything is known about it.
const lineBytes = " \t\n;&|<>()$'\"`"

// checkCommand accepts one program's base name, or a prefix ending in "*".
func checkCommand(s string) error {
	switch {
	case strings.ContainsAny(s, `/\`):
		return fmt.Errorf("command %q holds a path; write the program's base name", s)
	case strings.ContainsAny(s, lineBytes) || strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("command %q is more than a program's name; write its arguments in args", s)
	case strings.Contains(strings.TrimSuffix(s, "*"), "*"):
		return fmt.Errorf("command %q may hold * only as its last character", s)
	}
	return nil
}

// programDoubt says why a program word names no program, "" if it does.
func programDoubt(s string) string {
	switch {
	case strings.ContainsAny(s, lineBytes):
		return whyLine
	case strings.ContainsFunc(s, unicode.IsControl):
		return whyControl
	case strings.ContainsRune(s, unicode.ReplacementChar):
		return whyEncoding
	case shell.Base(s) == "":
		return whyEmpty
	}
	return ""
}

// Where a program given by a path lies, if that makes its name worth little:
// an allow by name never covers it.
const (
	whereRelative  = "relative"  // depends on a working directory
	whereRoot      = "root"      // inside a tool's root, where agents write
	whereTemporary = "temporary" // inside a temporary directory
)

// programPlace says which of the above a program word is, "" for a bare name
// or an absolute path elsewhere.
func programPlace(s string, roots map[string]string) string {
	if !strings.ContainsAny(s, `/\`) && !shell.Drive(s) {
		return ""
	}
	path := strings.ReplaceAll(s, `\`, "/")
	if shell.Drive(path) {
		path = path[2:]
	} else if strings.ContainsRune(s, '\\') {
		return whereRelative
	}
	if !absolute(path) || strings.HasPrefix(path, "//") || strings.HasSuffix(path, "/") {
		return whereRelative
	}
	dirs := split(path)
	if temporary(dirs[:max(len(dirs)-1, 0)]) {
		return whereTemporary
	}
	for _, root := range roots {
		if under(path, "", root, true) != no {
			return whereRoot
		}
	}
	return ""
}

// temporary reports whether directories lead somewhere anyone may write, or
// cannot be followed at all.
func temporary(dirs []string) bool {
	for i, dir := range dirs {
		dir = strings.ToLower(dir)
		switch dir {
		case "..", "tmp", "temp":
			return true
		case "shm", "folders", "user":
			parent := strings.ToLower(dirs[max(i-1, 0)])
			if parent == "dev" || parent == "var" || parent == "run" {
				return true
			}
		}
	}
	return false
}
