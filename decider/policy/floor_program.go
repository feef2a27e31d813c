package policy

import (
	"slices"
	"strings"

	"decisionjournal/decider/policy/shell"
)

// program adds the checks that a program with its arguments hits.
func (f Floor) program(h *hits, name string, c *shell.Command, root string) {
	args := arguments(c.Words)
	switch {
	case name == "rm" || name == "unlink" || name == "rmdir" || name == "shred" || name == "srm" || name == "del" || name == "rd":
		f.remove(h, args, c, root)
	case name == "find" || name == "gfind" || name == "bfs":
		f.find(h, c, root)
	case name == "chmod" || name == "chown" || name == "chgrp" || name == "setfacl":
		f.change(h, args, root)
	case name == "git":
		f.git(h, c)
	case name == "dd":
		for _, w := range args.operands {
			if file, ok := strings.CutPrefix(w.Text, "of="); ok {
				f.written(h, shell.Word{Text: file, Known: w.Known, Single: true, Source: file}, root)
				if disk(file) || !w.Known {
					h.add(checkDisk)
				}
			}
		}
	case strings.HasPrefix(name, "mkfs") || slices.Contains(diskPrograms, name):
		h.add(checkDisk)
	case slices.Contains([]string{"sudo", "doas", "su", "pkexec", "runuser", "run0", "sudoedit", "gosu", "su-exec"}, name):
		h.add(checkPrivileges)
	case slices.Contains([]string{"shutdown", "reboot", "halt", "poweroff"}, name),
		(name == "init" || name == "telinit") && args.operand("0", "6"),
		name == "systemctl" && args.operand("poweroff", "reboot", "halt", "kexec", "suspend", "hibernate", "rescue", "emergency"):
		h.add(checkShutdown)
	case name == "crontab" && len(c.Words) > 0 && !args.flag('l', "list"):
		h.add(checkStartup)
	}
	f.writer(h, name, args, root)
	if c.Input && interpreter(name, args) {
		h.add(checkPiped)
	}
}

var diskPrograms = []string{"wipefs", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted", "mke2fs", "mkswap", "blkdiscard", "hdparm", "badblocks", "cryptsetup", "pvcreate", "vgremove", "lvremove", "diskutil", "format", "diskpart", "newfs"}

// disk reports whether a path is that of a disk or of a part of one.
func disk(path string) bool {
	name, ok := strings.CutPrefix(path, "/dev/")
	if !ok {
		return false
	}
	for _, prefix := range []string{"sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "md", "dm-", "mapper/", "loop", "mem", "kmem"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// argList is a program's arguments as most programs read them: options may stand
// anywhere before --.
type argList struct {
	options  []string
	operands []shell.Word
	loose    bool // there may be options that cannot be read
}

func arguments(words []shell.Word) (a argList) {
	for i, w := range words {
		switch {
		case w.Known && w.Text == "--":
			a.operands = append(a.operands, words[i+1:]...)
			return a
		case w.Known && len(w.Text) > 1 && w.Text[0] == '-':
			a.options = append(a.options, w.Text)
		default:
			a.loose = a.loose || !w.Known && !w.Single && strings.ContainsAny(w.Source, "$`")
			a.operands = append(a.operands, w)
		}
	}
	return a
}

// flag reports whether a letter is among the options, or a long name, which may
// be cut short.
func (a argList) flag(letter byte, long string) bool {
	return slices.ContainsFunc(a.options, func(o string) bool {
		if name, ok := strings.CutPrefix(o, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			return long != "" && len(name) >= 3 && strings.HasPrefix(long, name)
		}
		return strings.IndexByte(o[1:], letter) >= 0
	})
}

func (a argList) operand(any ...string) bool {
	return slices.ContainsFunc(a.operands, func(w shell.Word) bool { return slices.Contains(any, w.Text) })
}

// remove looks at what a program deletes.
func (f Floor) remove(h *hits, a argList, c *shell.Command, root string) {
	recursive := a.flag('r', "recursive") || a.flag('R', "") || slices.ContainsFunc(a.options, func(o string) bool { return strings.EqualFold(o, "/s") }) ||
		a.operand("/s", "/S")
	for _, w := range a.operands {
		if recursive || a.loose {
			f.deleted(h, w, root)
		}
		f.written(h, w, root)
	}
	if open := !c.Sealed && len(c.Argv) == len(c.Words); recursive && open || a.loose && !recursive { // xargs rm -r; rm $ARGS
		h.add(checkUnreadable)
	}
}

// find looks at where find deletes.
func (f Floor) find(h *hits, c *shell.Command, root string) {
	deletes := slices.ContainsFunc(c.Words, func(w shell.Word) bool {
		switch shell.Base(w.Text) {
		case "-delete", "rm", "unlink", "shred":
			return true
		}
		return false
	})
	if !deletes {
		return
	}
	narrowed := slices.ContainsFunc(c.Words, func(w shell.Word) bool {
		switch w.Text {
		case "-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-newer", "-mtime", "-mmin", "-size", "-empty", "-user", "-perm":
			return true
		}
		return false
	})
	for _, w := range c.Words {
		if strings.HasPrefix(w.Text, "-") && len(w.Text) > 2 || w.Text == "(" || w.Text == "!" {
			return
		}
		if strings.HasPrefix(w.Text, "-") {
			continue
		}
		if narrowed && f.target(w, root).holds != checkUnreadable {
			continue // some of what is there
		}
		f.deleted(h, w, root)
	}
}

// change looks at whose mode or owner a program changes.
func (f Floor) change(h *hits, a argList, root string) {
	if !a.flag('R', "recursive") {
		for _, w := range a.operands[min(1, len(a.operands)):] {
			f.written(h, w, root)
		}
		return
	}
	for _, w := range a.operands[min(1, len(a.operands)):] {
		if holds := f.target(w, root).holds; holds != "" && holds != checkUnreadable {
			h.add(checkSystem)
		}
		f.written(h, w, root)
	}
}

// git looks for what forgets work.
func (f Floor) git(h *hits, c *shell.Command) {
	words := c.Words
	for len(words) > 0 { // past the options before the subcommand
		w := words[0]
		if !w.Known || !strings.HasPrefix(w.Text, "-") {
			break
		}
		words = words[1:]
		switch w.Text {
		case "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env", "--attr-source":
			words = words[min(1, len(words)):]
		}
	}
	if len(words) == 0 || !words[0].Known {
		return
	}
	a := arguments(words[1:])
	first := ""
	if len(a.operands) > 0 {
		first = a.operands[0].Text
	}
	loses := false
	switch words[0].Text {
	case "push":
		loses = a.flag('f', "force") || a.flag('d', "delete") || a.flag(0, "mirror") || a.flag(0, "prune") || a.flag(0, "force-with-lease") || a.flag(0, "force-if-includes") ||
			slices.ContainsFunc(a.operands, func(w shell.Word) bool { return strings.HasPrefix(w.Text, "+") || strings.HasPrefix(w.Text, ":") })
	case "reset":
		loses = a.flag(0, "hard") || a.flag(0, "merge")
	case "clean":
		loses = a.flag('f', "force") && !a.flag('n', "dry-run")
	case "stash":
		loses = first == "drop" || first == "clear"
	case "branch":
		loses = slices.ContainsFunc(a.options, func(o string) bool { return !strings.HasPrefix(o, "--") && strings.Contains(o, "D") }) ||
			(a.flag('d', "delete") && a.flag('f', "force"))
	case "checkout":
		loses = a.flag('f', "force") || slices.ContainsFunc(words, func(w shell.Word) bool { return w.Known && w.Text == "--" }) || first == "."
	case "restore":
		loses = !a.flag('S', "staged") || a.flag('W', "worktree")
	case "switch":
		loses = a.flag('f', "force") || a.flag(0, "discard-changes")
	case "reflog":
		loses = first == "expire" || first == "delete"
	case "update-ref":
		loses = a.flag('d', "")
	case "tag":
		loses = a.flag('d', "delete") || a.flag('f', "force")
	case "worktree":
		loses = first == "remove" && a.flag('f', "force")
	case "filter-branch", "filter-repo", "gc":
		loses = words[0].Text != "gc" || a.flag(0, "prune")
	}
	if loses {
		h.add(checkGit)
	}
}

// writer looks at the files that programs are known to write.
func (f Floor) writer(h *hits, name string, a argList, root string) {
	files := a.operands
	switch name {
	case "tee", "touch", "truncate", "ed", "ex", "vi", "vim", "nano", "emacs", "patch":
	case "cp", "ln", "install", "rsync", "scp", "mv":
		if len(files) == 0 {
			return
		}
		to := files[len(files)-1]
		for _, from := range files[:len(files)-1] { // which may go into it
			dir, ok := spelled(to)
			if file, known := spelled(from); ok && known {
				f.written(h, exactly(strings.TrimRight(dir, "/")+"/"+shell.Base(file)), root)
			}
			if name == "mv" {
				f.deleted(h, from, root)
			}
		}
		files = files[len(files)-1:]
	case "sed", "gsed", "perl", "ruby":
		if !a.flag('i', "in-place") {
			return
		}
	case "curl", "wget":
		if !a.flag('o', "output") && !a.flag('O', "output-document") {
			return
		}
	default:
		return
	}
	for _, w := range files {
		f.written(h, w, root)
	}
}

// interpreter reports whether a program runs what it reads.
func interpreter(name string, a argList) bool {
	name = strings.TrimRight(name, "0123456789.")
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "pwsh", "powershell":
		return len(a.operands) == 0 || a.flag('s', "") || a.operands[0].Text == "-"
	case "python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "tclsh", "rscript", "osascript":
		return len(a.operands) == 0 && !a.flag('c', "command") && !a.flag('e', "eval") && !a.flag('m', "") && !a.flag('V', "version") && !a.flag('v', "version") && !a.flag('h', "help") ||
			a.operand("-")
	case "parallel", "xargs":
		return false
	}
	return false
}
