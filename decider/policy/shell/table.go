package shell

import "sync"

// programs are those that run other programs by their arguments, by base name in
// lower case. The options are those of --help of GNU coreutils 9.1,
// findutils 4.9 and util-linux 2.38, and for the rest those of the programs'
// documentation. An option that is not listed makes unknown what is run.
func programs() map[string]verb {
	table.once.Do(func() { table.verbs = newTable() })
	return table.verbs
}

// table is made when it is first used, since the verbs refer to it. It never
// changes.
var table struct {
	once  sync.Once
	verbs map[string]verb
}

func newTable() map[string]verb {
	dockerExec := runner(options{
		flags: "dit", values: "euw", long: []string{"detach", "interactive", "tty", "privileged", "index"},
		valued: []string{"env", "env-file", "user", "workdir", "detach-keys"},
	}, 1)
	dockerRun := runner(options{
		flags: "ditPq", values: "acehlmpuvw", rest: true,
		long: []string{"detach", "interactive", "tty", "rm", "publish-all", "privileged", "read-only", "init", "no-healthcheck", "oom-kill-disable", "sig-proxy", "disable-content-trust", "quiet", "help", "replace", "no-hosts"},
	}, 1)
	composeExec := runner(options{
		flags: "dTit", values: "euwvp", long: []string{"detach", "no-TTY", "privileged", "rm", "no-deps", "build", "quiet", "interactive", "tty", "use-aliases", "service-ports"},
		valued: []string{"env", "user", "workdir", "index", "name", "entrypoint", "volume", "publish", "label"},
	}, 1)
	compose := verbs(options{
		flags: "D", values: "fp", long: []string{"compatibility", "dry-run", "all-resources"},
		valued: []string{"file", "project-name", "profile", "env-file", "project-directory", "ansi", "progress", "parallel"},
	}, map[string]verb{"exec": composeExec, "run": composeExec})
	docker := verbs(options{
		flags: "D", values: "cHl", long: []string{"debug", "tls", "tlsverify", "remote"}, valued: []string{"config", "context", "host", "log-level", "tlscacert", "tlscert", "tlskey", "url", "connection"},
	}, map[string]verb{
		"exec": dockerExec, "run": dockerRun, "create": dockerRun,
		"container": verbs(options{}, map[string]verb{"exec": dockerExec, "run": dockerRun, "create": dockerRun}),
		"compose":   compose,
	})
	kubernetes := map[string]verb{"exec": dashed, "run": dashed, "debug": dashed, "rsh": runner(options{flags: "tT", values: "c"}, 1)}
	return map[string]verb{
		// Wrappers: they do nothing of their own.
		"env": env, "genv": env,
		"timeout":  wrapper(timeoutOptions, 1),
		"gtimeout": wrapper(timeoutOptions, 1),
		"time":     wrapper(options{flags: "apqvV", values: "fo", writes: []string{"o", "output"}, long: []string{"append", "portability", "quiet", "verbose", "version"}, valued: []string{"format", "output"}}, 0),
		"nice":     wrapper(options{flags: "0123456789", values: "n", valued: []string{"adjustment"}}, 0),
		"nohup":    wrapper(options{}, 0),
		"stdbuf":   wrapper(options{values: "ioe", valued: []string{"input", "output", "error"}}, 0),
		"ionice":   wrapper(options{flags: "t", values: "cnpPu", long: []string{"ignore"}, valued: []string{"class", "classdata", "pid", "pgid", "uid"}}, 0),
		"setsid":   wrapper(options{flags: "cfw", long: []string{"ctty", "fork", "wait"}}, 0),
		"exec":     wrapper(options{flags: "cl", values: "a"}, 0),
		"command":  command,
		"builtin":  wrapper(options{}, 0),
		// Of zsh, which may be the shell that reads a line.
		"noglob": wrapper(options{}, 0), "nocorrect": wrapper(options{}, 0), "-": wrapper(options{}, 0), "repeat": wrapper(options{}, 1),
		"busybox": multi, "toybox": multi,
		"eval": eval, "trap": trap, "alias": alias,

		// Shells.
		"sh": shell, "bash": shell, "dash": shell, "zsh": shell, "ksh": shell, "mksh": shell, "ash": shell, "rbash": shell,
		"fish": opaque(oneOf("-c", "--command", "-ic", "-lc")), "csh": opaque(dashes), "tcsh": opaque(dashes), "nu": opaque(oneOf("-c", "--commands")),
		"cmd": opaque(anything), "powershell": opaque(anything), "pwsh": opaque(anything), "wsl": opaque(anything), "start": opaque(anything),

		// Runners: they count as themselves too.
		"sudo": sudo(options{
			flags: "AbBEeHiKklNnPSsVv", values: "CDghpRrTtUua", dirs: []string{"D", "chdir"},
			long:   []string{"askpass", "background", "bell", "preserve-env", "edit", "set-home", "login", "remove-timestamp", "reset-timestamp", "list", "no-update", "non-interactive", "preserve-groups", "stdin", "shell", "version", "validate"},
			valued: []string{"close-from", "chdir", "group", "host", "prompt", "chroot", "role", "command-timeout", "type", "other-user", "user", "auth-type"},
		}),
		"doas": sudo(options{flags: "Lns", values: "aCu"}),
		"su":   su, "runuser": su,
		"pkexec": runner(options{long: []string{"disable-internal-agent", "keep-cwd"}, valued: []string{"user"}}, 0),
		"gosu":   runner(options{}, 1), "su-exec": runner(options{}, 1), "s6-setuidgid": runner(options{}, 1), "setuidgid": runner(options{}, 1),
		"setpriv": runner(options{}, 0),
		"xargs":   xargs, "gxargs": xargs,
		"find": find, "gfind": find, "bfs": find,
		"fd": opaque(oneOf("-x", "-X", "--exec", "--exec-batch")), "fdfind": opaque(oneOf("-x", "-X", "--exec", "--exec-batch")),
		"ssh": ssh, "sshpass": runner(options{flags: "evV", values: "pfdP"}, 0),
		"watch":    lineRunner(options{flags: "bcdegprtwxhv", values: "nqs", attach: "C", long: []string{"beep", "color", "no-color", "differences", "errexit", "chgexit", "precise", "no-rerun", "no-title", "no-wrap", "exec"}, valued: []string{"interval", "equexit", "shotsdir"}}, 0, "x", "exec"),
		"parallel": parallel,
		"entr":     runner(options{flags: "acdnprsxz"}, 0),
		"docker":   docker, "podman": docker, "nerdctl": docker,
		"docker-compose": compose,
		"kubectl":        verbs(options{rest: true, values: "nsv"}, kubernetes), "oc": verbs(options{rest: true, values: "nsv"}, kubernetes),
		"npx": packaged(npmExec), "pnpx": packaged(npmExec), "bunx": packaged(npmExec), "uvx": packaged(options{flags: "qv", values: "pw", valued: []string{"from", "with", "python"}}),
		"npm":    verbs(options{rest: false}, map[string]verb{"exec": packaged(npmExec), "x": packaged(npmExec), "explore": dashed}),
		"pnpm":   verbs(options{values: "C", valued: []string{"filter", "dir"}, long: []string{"recursive"}, flags: "rw"}, map[string]verb{"exec": runner(options{flags: "rcw"}, 0), "dlx": packaged(npmExec)}),
		"yarn":   verbs(options{valued: []string{"cwd"}}, map[string]verb{"exec": runner(options{}, 0), "dlx": packaged(npmExec)}),
		"bun":    verbs(options{}, map[string]verb{"x": packaged(npmExec)}),
		"uv":     verbs(options{flags: "qvn", valued: []string{"directory", "project"}}, map[string]verb{"run": runner(options{flags: "qv", valued: []string{"with", "python", "extra", "group"}, values: "p"}, 0), "tool": verbs(options{}, map[string]verb{"run": packaged(options{valued: []string{"from", "with"}})})}),
		"pipx":   verbs(options{}, map[string]verb{"run": packaged(options{valued: []string{"spec", "python"}})}),
		"poetry": running("run"), "pipenv": running("run"), "hatch": running("run"), "pdm": running("run"), "rye": running("run"),
		"bundle": running("exec"), "rbenv": running("exec"), "pyenv": running("exec"), "nodenv": running("exec"), "asdf": running("exec"), "mise": running("exec", "x"),
		"conda": running("run"), "mamba": running("run"), "micromamba": running("run"), "op": running("run"), "doppler": running("run"),
		"direnv":    verbs(options{}, map[string]verb{"exec": runner(options{}, 1)}),
		"aws-vault": verbs(options{}, map[string]verb{"exec": dashed}),
		"nsenter":   runner(options{flags: "aFZVh", values: "tSG", attach: "muinpCUTrw", long: []string{"all", "mount", "uts", "ipc", "net", "pid", "cgroup", "user", "time", "root", "wd", "no-fork", "preserve-credentials", "follow-context"}, valued: []string{"target", "setuid", "setgid"}}, 0),
		"unshare":   runner(options{flags: "fcrVh", values: "SGRw", attach: "muinpCUT", long: []string{"fork", "mount", "uts", "ipc", "net", "pid", "cgroup", "user", "time", "map-root-user", "map-current-user", "mount-proc", "kill-child", "keep-caps"}, valued: []string{"propagation", "setgroups", "root", "wd", "setuid", "setgid", "map-user", "map-group"}}, 0),
		"chroot":    runner(options{long: []string{"userspec", "groups", "skip-chdir"}}, 1),
		"bwrap":     opaque(anything), "firejail": opaque(anything), "proot": opaque(anything), "setarch": opaque(anything), "expect": opaque(oneOf("-c")), "gdb": opaque(oneOf("--args", "-args", "-ex", "--ex", "-x", "-p", "--command")),
		"systemd-run": runner(options{flags: "dqrtPGS", values: "uEpHM", long: []string{"user", "system", "scope", "wait", "pty", "pipe", "quiet", "collect", "shell", "no-block", "remain-after-exit", "send-sighup", "same-dir"}, valued: []string{"unit", "property", "description", "slice", "service-type", "uid", "gid", "nice", "working-directory", "setenv", "host", "machine"}}, 0),
		"script":      runner(options{flags: "aefqr", values: "cIOBEmoT", attach: "t", lines: []string{"c", "command"}, long: []string{"append", "return", "flush", "force", "quiet"}, valued: []string{"command", "log-in", "log-out", "log-io", "log-timing", "echo", "logging-format", "output-limit"}}, 1),
		"unbuffer":    runner(options{flags: "p"}, 0),
		"strace":      runner(options{flags: "cCdfFhiknNqrtTvVwxyzZ", values: "abeEIoOpPsSuUX", writes: []string{"o", "output"}, valued: []string{"output", "trace", "env", "user"}, long: []string{"follow-forks", "summary-only"}}, 0),
		"ltrace":      runner(options{flags: "bcCfhiLrStTV", values: "aAeFlnopsuwxX", writes: []string{"o", "output"}}, 0),
		"flock":       flock,
		"chrt":        runner(options{flags: "abdfioRrm", values: "TPD", long: []string{"batch", "deadline", "fifo", "idle", "other", "rr", "reset-on-fork"}, valued: []string{"sched-runtime", "sched-period", "sched-deadline"}}, 1),
		"taskset":     runner(options{flags: "acp", long: []string{"all-tasks", "cpu-list", "pid"}}, 1),
		"numactl":     runner(options{}, 0), "prlimit": runner(options{}, 0), "cgexec": runner(options{values: "g"}, 0),
		"perf":       verbs(options{}, map[string]verb{"stat": runner(options{flags: "adv", values: "eorp"}, 0), "record": runner(options{flags: "agv", values: "eFopc"}, 0)}),
		"valgrind":   runner(options{}, 0),
		"hyperfine":  opaque(anything),
		"watchexec":  opaque(anything),
		"nodemon":    opaque(oneOf("-x", "--exec")),
		"cross-env":  sudo(options{}),
		"caffeinate": runner(options{flags: "disum", values: "tw"}, 0),
		"tini":       runner(options{flags: "gsvw", values: "pe"}, 0), "dumb-init": runner(options{flags: "csv"}, 0),
		"fakeroot": runner(options{}, 0), "eatmydata": runner(options{}, 0), "rlwrap": runner(options{}, 0), "torsocks": runner(options{}, 0), "proxychains": runner(options{flags: "q", values: "f"}, 0), "proxychains4": runner(options{flags: "q", values: "f"}, 0),
		"xvfb-run": runner(options{flags: "al"}, 0), "dbus-run-session": runner(options{}, 0),
		"linux32": runner(options{}, 0), "linux64": runner(options{}, 0),
		"tmux": opaque(tmux), "screen": opaque(oneOf("-dm", "-dms", "-d", "-x", "-s")),

		// Builtins of the shell that change what later commands see.
		"export": setting(all), "declare": setting(all), "typeset": setting(all), "readonly": setting(all), "local": setting(all), "unset": setting(all),
		"read": setting(all), "mapfile": mapfile, "readarray": mapfile, "getopts": setting(all), "let": setting(all),
		"printf": setting(after("-v")), "wait": setting(after("-p")), "test": setting(after("-v")), "[": setting(after("-v")),
		"compgen": opaque(anything), "complete": opaque(anything), "bind": opaque(anything), "jobs": jobs,
		"hash": spoils, "enable": spoils, "shopt": spoils, "set": set,
		"cd": moves, "pushd": moves, "popd": moves,
	}
}

func dashes(argv []string) bool { return len(argv) > 0 && argv[0] != "" && argv[0][0] == '-' }

var timeoutOptions = options{
	flags: "fpv", values: "ks", long: []string{"foreground", "preserve-status", "verbose"}, valued: []string{"kill-after", "signal"},
}

var npmExec = options{
	flags: "yq", values: "pcw", lines: []string{"c", "call"}, long: []string{"yes", "no", "quiet", "silent", "no-install", "bun"},
	valued: []string{"package", "call", "workspace"},
}

// running runs what stands after one of its subcommands.
func running(names ...string) verb {
	known := map[string]verb{}
	for _, name := range names {
		known[name] = runner(options{values: "nop", flags: "q", valued: []string{"name", "prefix", "env", "env-file"}}, 0)
	}
	return verbs(options{}, known)
}
