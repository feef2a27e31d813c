package policy

import (
	"fmt"
	"strings"
	"unicode"
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
	case baseName(s) == "":
		return whyEmpty
	}
	return ""
}

// baseName is the last segment of a program's path on any system, without an
// executable extension.
func baseName(s string) string {
	s = strings.TrimRight(s, `/\`)
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	if drive(s) {
		s = s[2:]
	}
	return dropExtension(s)
}

func dropExtension(s string) string {
	if len(s) <= 4 {
		return s
	}
	for _, ext := range [...]string{".exe", ".bat", ".cmd", ".com"} {
		if strings.EqualFold(s[len(s)-4:], ext) {
			return s[:len(s)-4]
		}
	}
	return s
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
	if !strings.ContainsAny(s, `/\`) && !drive(s) {
		return ""
	}
	path := strings.ReplaceAll(s, `\`, "/")
	if drive(path) {
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

// runsOthers reports whether a command runs another program that its own name
// does not tell: a wrapper, a runner, or a shell given a payload.
func runsOthers(c Command) bool {
	idle := len(c.Args) == 0 && c.Sealed
	switch strings.ToLower(c.Program) {
	case "env", "timeout", "time", "nice", "nohup", "stdbuf", "ionice", "chrt", "taskset", "setsid", "setarch", "flock",
		"exec", "command", "builtin", "coproc", "eval", "trap", "alias", "busybox", "toybox",
		"sudo", "doas", "su", "runuser", "pkexec", "gosu", "xargs", "ssh", "watch", "parallel", "entr",
		"npx", "bunx", "pnpx", "uvx", "pipx", "nsenter", "unshare", "chroot", "bwrap", "firejail", "systemd-run",
		"script", "expect", "unbuffer", "strace", "ltrace", "gdb", "start", "cmd", "powershell", "pwsh", "wsl":
		return !idle
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash":
		return !c.Sealed || anyArg(c.Args, func(s string) bool { return s != "" && strings.ContainsAny(s[:1], "-+") })
	case "find":
		return !c.Sealed || anyArg(c.Args, func(s string) bool { return strings.HasPrefix(s, "-exec") || strings.HasPrefix(s, "-ok") })
	case "docker", "podman", "nerdctl", "kubectl", "oc", "docker-compose", "npm", "pnpm", "yarn", "bun", "uv", "poetry", "pipenv":
		return !c.Sealed || anyArg(c.Args, runningVerb)
	}
	return false
}

func runningVerb(s string) bool {
	switch s {
	case "exec", "run", "x", "dlx", "attach", "debug":
		return true
	}
	return false
}

func anyArg(args []string, f func(string) bool) bool {
	for _, a := range args {
		if f(a) {
			return true
		}
	}
	return false
}
