package policy

import (
	"slices"
	"strings"
	"sync"

	"decisionjournal/decider/policy/shell"
)

// target is a location as the floor sees it.
type target struct {
	// segments of the path, in lower case and cleaned; below a home, from there.
	segments []string
	absolute bool
	home     bool   // segments are below somebody's home
	holds    string // the check that deleting all of it hits, "" for none
}

// target reads a location. What cannot be read is checkUnreadable, unless where
// it begins tells enough.
func (f Floor) target(w shell.Word, root string) target {
	path, ok := spelled(w)
	if !ok {
		return target{holds: checkUnreadable}
	}
	t := target{}
	if !shell.Drive(path) {
		path = joined(root, path)
	}
	if strings.HasPrefix(path, "$") { // where the line has gone to
		return target{holds: checkUnreadable}
	}
	path = strings.ToLower(strings.ReplaceAll(path, `\`, "/"))
	if shell.Drive(path) {
		path = "/" + path[2:]
	}
	switch {
	case strings.HasPrefix(path, "~"):
		t.home, t.absolute = true, true
		_, path, _ = strings.Cut(path, "/")
	case strings.HasPrefix(path, "/"):
		t.absolute = true
	}
	up := 0 // how far above where it began
	for _, s := range strings.Split(path, "/") {
		switch {
		case s == "" || s == ".":
		case s != "..":
			t.segments = append(t.segments, s)
		case len(t.segments) > 0:
			t.segments = t.segments[:len(t.segments)-1]
		default:
			up++
		}
	}
	switch {
	case t.home && up == 1 && len(t.segments) > 0 && !slices.Contains(systemDirs, t.segments[0]):
		t.segments = t.segments[1:] // another home
	case t.home && up > 0:
		t.home = false
	}
	if !t.home && t.absolute {
		if n := f.homeDepth(t.segments); n > 0 {
			t.home, t.segments = true, t.segments[n:]
		}
	}
	t.holds = f.held(t)
	return t
}

// within reports whether a location is another one or lies in it.
func (t target) within(dir target) bool {
	return t.absolute && dir.absolute && t.home == dir.home && len(t.segments) >= len(dir.segments) && slices.Equal(t.segments[:len(dir.segments)], dir.segments)
}

// held says what deleting a whole directory means.
func (f Floor) held(t target) string {
	switch {
	case t.home && len(t.segments) == 0:
		return checkHome
	case !t.absolute || t.home:
		return ""
	case len(t.segments) == 0:
		return checkRoot
	case len(t.segments) == 1 && slices.Contains([]string{"home", "users"}, t.segments[0]):
		return checkRoot
	case f.Home != "" && prefixed(split(strings.ToLower(f.Home)), t.segments):
		return checkRoot
	case len(t.segments) == 1 && slices.Contains(systemDirs, t.segments[0]),
		len(t.segments) == 2 && t.segments[0] == "usr" && slices.Contains([]string{"bin", "lib", "lib64", "sbin", "local", "share"}, t.segments[1]),
		len(t.segments) == 2 && t.segments[0] == "var" && slices.Contains([]string{"lib", "log"}, t.segments[1]):
		return checkSystem
	}
	return ""
}

var systemDirs = []string{
	"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "mnt", "media", "opt", "proc", "run", "sbin", "srv", "sys", "usr", "var",
	"applications", "library", "system", "volumes", "private", "windows", "program files", "programdata",
}

// homeDepth is how many segments of a path are those of a home, 0 for none.
func (f Floor) homeDepth(segments []string) int {
	if home := split(strings.ToLower(f.Home)); len(home) > 0 && prefixed(segments, home) {
		return len(home)
	}
	switch {
	case len(segments) >= 1 && segments[0] == "root":
		return 1
	case len(segments) >= 2 && (segments[0] == "home" || segments[0] == "users") && segments[1] != "shared":
		return 2
	case len(segments) >= 2 && segments[0] == "var" && segments[1] == "root":
		return 2
	}
	return 0
}

func prefixed(segments, by []string) bool {
	return len(by) > 0 && len(segments) >= len(by) && slices.Equal(segments[:len(by)], by)
}

// spelled reads how a word spells a location: quotes and the variable HOME are
// read, and a last segment that takes all that is there is dropped.
func spelled(w shell.Word) (path string, ok bool) {
	path = w.Text
	if !w.Known {
		path = strings.NewReplacer(`"`, "", `'`, "", "${HOME}", "$HOME").Replace(w.Source)
		if rest, home := strings.CutPrefix(path, "$HOME"); home && (rest == "" || rest[0] == '/') {
			path = "~" + rest
		}
		if strings.ContainsAny(path, "$`{(\\") {
			return "", false
		}
		if at := strings.IndexAny(path, "*?["); at >= 0 {
			dir := path[:strings.LastIndexByte(path[:at], '/')+1]
			last := path[len(dir):]
			if strings.Trim(last, "*.?/") != "" { // some of what is there
				return dir + "x", true
			}
			return dir, true
		}
	}
	return path, true
}

// deleted adds what deleting all of a location hits.
func (f Floor) deleted(h *hits, w shell.Word, root string) {
	t := f.target(w, root)
	h.add(t.holds)
	if t.holds == checkUnreadable || t.holds == checkRoot || t.holds == checkHome { // which hold all else
		return
	}
	for _, dir := range f.Config {
		if d := f.target(exactly(dir), ""); d.within(t) {
			h.add(checkGate)
		}
	}
	for _, g := range gates { // .claude, with all that is in it
		if dir, _, ok := strings.Cut(g, "/"); ok && strings.HasPrefix(dir, ".") && len(t.segments) > 0 && t.segments[len(t.segments)-1] == dir {
			h.add(checkGate)
		}
	}
	f.written(h, w, root)
}

// written adds what changing a location hits.
func (f Floor) written(h *hits, w shell.Word, root string) {
	t := f.target(w, root)
	if t.holds == checkUnreadable {
		return
	}
	for _, dir := range f.Config {
		if t.within(f.target(exactly(dir), "")) {
			h.add(checkGate)
		}
	}
	for i := range t.segments {
		rest := t.segments[i:]
		for _, g := range guards()[rest[0]] {
			if prefixed(rest, g.path) {
				h.add(g.check)
			}
		}
		if rest[0] == ".git" && (len(rest) == 1 || slices.Contains([]string{"hooks", "config", "info", "modules", "worktrees"}, rest[1])) {
			h.add(checkGitInside)
		}
	}
}

func exactly(path string) shell.Word {
	return shell.Word{Text: path, Known: true, Single: true, Source: path}
}

// gates are what decides about agents, wherever it lies: the files and
// directories in which they keep hooks and permissions, and a decider's journal.
var gates = []string{
	".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".claude.json",
	".codex/config.toml", ".codex/hooks.json", ".codex/hooks", ".codex/requirements.toml",
	".gemini/settings.json", ".gemini/hooks", ".gemini/trustedfolders.json",
	".cursor/hooks.json", ".cursor/hooks", ".cursor/mcp.json", ".cursor/cli.json",
	".copilot/config.json", ".copilot/hooks", ".github/hooks", "github-copilot/policy.d",
	".clinerules/hooks", ".mcp.json",
	"decider/journal",
}

// guard is a path below any directory that is guarded by a check.
type guard struct {
	path  []string
	check string
}

// guards are all of these by their first segment. They are made once.
var guards = sync.OnceValue(func() map[string][]guard {
	m := map[string][]guard{}
	for check, list := range map[string][]string{checkGate: gates, checkStartup: startups} {
		for _, g := range list {
			path := strings.Split(g, "/")
			m[path[0]] = append(m[path[0]], guard{path, check})
		}
	}
	return m
})

// startups are what is run by itself.
var startups = []string{
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login",
	".inputrc", ".xinitrc", ".xprofile", ".xsession", ".envrc", ".gitconfig", ".config/git/config", ".config/fish", ".config/autostart", ".config/systemd", ".ssh/authorized_keys", ".ssh/rc", ".ssh/config",
	"etc/profile", "etc/profile.d", "etc/bash.bashrc", "etc/environment", "etc/crontab", "etc/cron.d", "etc/cron.daily", "etc/cron.hourly", "etc/cron.weekly", "etc/init.d", "etc/rc.local", "etc/systemd",
	"etc/sudoers", "etc/sudoers.d", "etc/ld.so.preload", "etc/passwd", "etc/shadow", "var/spool/cron", "library/launchagents", "library/launchdaemons",
}
