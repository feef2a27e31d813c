package policy

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"decisionjournal/decider/policy/shell"
)

//go:embed floor.yaml
var floorYAML []byte

// floorRules are the rules of the danger floor. They are read once.
var floorRules = sync.OnceValue(func() []Rule {
	p, err := parse("floor.yaml", floorYAML)
	if err != nil {
		panic(err) // a test reads it too
	}
	return p.Rules
})

// FloorYAML is the danger floor as a policy file.
func FloorYAML() []byte { return slices.Clone(floorYAML) }

// floorRules are the rules that stand beside the policy's own.
func (p *Policy) floorRules() []Rule {
	if p.Floor.Off {
		return nil
	}
	return floorRules()
}

// checked reports whether any rule asks for checks.
func (p *Policy) checked() bool {
	return !p.Floor.Off || slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Check != "" })
}

// The checks.
const (
	checkRoot       = "delete-root"
	checkHome       = "delete-home"
	checkGate       = "gate"
	checkUnreadable = "delete-unreadable"
	checkSystem     = "system"
	checkDisk       = "disk"
	checkGit        = "git-loses"
	checkPrivileges = "privileges"
	checkShutdown   = "shutdown"
	checkPiped      = "piped-interpreter"
	checkStartup    = "startup"
	checkGitInside  = "git-inside"
	checkUnread     = "unreadable"
)

var checks = []string{
	checkRoot, checkHome, checkGate, checkUnreadable, checkSystem, checkDisk, checkGit, checkPrivileges, checkShutdown, checkPiped, checkStartup, checkGitInside, checkUnread,
}

// hits are names of checks, sorted, each once.
type hits []string

func (h *hits) add(name string) {
	if at, there := slices.BinarySearch(*h, name); name != "" && !there {
		*h = slices.Insert(*h, at, name)
	}
}

// commandChecks are the checks that a command hits. Its relative paths are
// measured from root, or where the line has gone to.
func (f Floor) commandChecks(c *shell.Command, root string) []string {
	var h hits
	if c.Unknown != "" {
		h.add(checkUnread)
	}
	for _, from := range workingDirs(c, root) {
		for _, r := range c.Redirects {
			f.written(&h, shell.Word{Text: r.Target, Known: !r.Unknown || c.Dirs != nil, Single: true, Source: r.Target}, from)
			if disk(r.Target) {
				h.add(checkDisk)
			}
		}
		if c.Unknown == "" {
			f.program(&h, strings.ToLower(shell.Base(c.Program)), c, from)
		}
	}
	return h
}

// workingDirs are those that a command may run in. One that cannot be read has a
// "$" in it.
func workingDirs(c *shell.Command, root string) []string {
	all, dirs := root, []string{root}
	for _, source := range c.Dirs {
		dir, ok := spelled(shell.Word{Source: source})
		if !ok {
			dir = "$"
		}
		if all = joined(all, dir); !c.Away {
			dirs = append(dirs, joined(root, dir), all)
		}
	}
	if c.Away {
		return []string{all}
	}
	return dirs
}

func joined(dir, path string) string {
	if dir == "" || strings.HasPrefix(path, "/") || strings.HasPrefix(path, "~") || path == "$" {
		return path
	}
	return dir + "/" + path
}

// callChecks are the checks that a call hits by its locations: the tool changes
// what is there, unless its name says that it reads.
func (f Floor) callChecks(tool, alias string, places []Place) []string {
	words := nameWords(orElse(alias, tool))
	if len(places) == 0 || reads(words) {
		return nil
	}
	var h hits
	for _, p := range places {
		f.written(&h, exactly(p.Path), "")
		if deletes(words) {
			f.deleted(&h, exactly(p.Path), "")
		}
	}
	return h
}

// nameWords are the words of a tool's name, in lower case: fs_readFile is fs,
// read and file.
func nameWords(tool string) []string {
	var words []string
	start := 0
	flush := func(end int) {
		if end > start {
			words = append(words, strings.ToLower(tool[start:end]))
		}
		start = end
	}
	for i := range len(tool) {
		switch c := tool[i]; {
		case c == '_' || c == '-' || c == '.' || c == '/':
			flush(i)
			start = i + 1
		case c >= 'A' && c <= 'Z' && i > start && (tool[i-1] < 'A' || tool[i-1] > 'Z'):
			flush(i)
		}
	}
	flush(len(tool))
	return words
}

func reads(words []string) bool {
	return hasAny(words, "read", "get", "list", "ls", "search", "find", "grep", "glob", "view", "stat", "show", "tree", "cat", "head", "tail", "open", "info", "exists", "count", "describe", "fetch") &&
		!hasAny(words, "write", "edit", "create", "delete", "remove", "move", "rename", "copy", "append", "replace", "update", "set", "put", "patch", "insert", "save", "upload", "install", "apply", "run", "exec", "execute")
}

func deletes(words []string) bool {
	return hasAny(words, "delete", "remove", "rm", "rmdir", "unlink", "trash", "purge", "clear", "erase")
}

func hasAny(words []string, any ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(any, w) })
}
