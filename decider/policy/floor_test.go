package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const floored = `
roots: {"": /srv/work}
command-params: {Bash: {line: command}}
floor: {home: /data/me, config: [/data/me/gate, /srv/work/.policy]}
rules: [{tool: "*", decision: allow}]
`

// hitsOf are all checks that a call hits.
func hitsOf(f Facts) string {
	all := slices.Clone(f.Checks)
	for _, c := range f.Commands {
		all = append(all, c.Checks...)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

func TestFloorLines(t *testing.T) {
	p := mustParse(t, "p.yaml", floored)
	for want, lines := range map[string][]string{
		"delete-root": {
			`rm -rf /`, `rm -r -f /`, `rm -fr //`, `rm -rf /.`, `rm -rf /./`, `rm -R /`, `rm --recursive /`, `rm --rec --force /`, `rm -rf -- /`, `rm / -rf`,
			`rm -rf --no-preserve-root /`, `rm -rf /*`, `rm -rf "/"*`, `rm -rf /.*`, `rm -rf /home`, `rm -rf /home/`, `rm -rf /home/*`, `rm -rf /Users`, `rm -rf /HOME`,
			`rm -rf /usr/..`, `rm -rf ~/..`, `rm -rf ~/../`, `rm -rf /home/me/..`, `rm -rf /data`, `rm -rf ../..`, `rm -rf ../../*`,
			`env rm -rf /`, `timeout 5 nice rm -rf /`, `bash -c 'rm -rf /'`, `RM -RF /`, `/bin/rm -rf /`, `r\m -rf "/"`, `echo $(rm -rf /)`, `find / -delete`,
			`cd / && rm -rf *`, `cd /home && rm -rf ./*`, `cd /x && cd .. && rm -rf *`, `rm -rf C:/`, `busybox rm -rf /`, `f() { rm -rf /; }; f`,
		},
		"delete-home": {
			`rm -rf ~`, `rm -rf ~/`, `rm -rf ~/*`, `rm -rf ~/.`, `rm -rf ~/./`, `rm -rf $HOME`, `rm -rf "$HOME"`, `rm -rf ${HOME}/`, `rm -rf "$HOME"/*`, `rm -rf "${HOME}/"`,
			`rm -rf /data/me`, `rm -rf /data/me/*`, `rm -rf /DATA/ME/`, `cd ~ && rm -rf *`, `cd && rm -rf .`, `cd "$HOME" && rm -rf ./*`, `cd ~/x && cd .. && rm -rf .`,
			`rm -rf ~bob`, `rm -rf ~bob/*`, `rm -rf /root`, `rm -rf /home/me`, `rm -rf /home/me/*`, `rm -rf /Users/me/`, `rm -rf /ROOT`, `rm -rf ~/x/..`, `rm -rf ~/../bob`,
			`find ~ -delete`, `find $HOME -mindepth 1 -delete`, `rm -rf ~/.*`,
		},
		"delete-root gate":              {`cd / ; rm -rf .`}, // or where it was, if it cannot change there
		"delete-root delete-unreadable": {`find / -exec rm -rf {} +`},
		"delete-unreadable": {
			`rm -rf "$DIR"`, `rm -rf $DIR/*`, `rm -r $(p)`, `rm -rf "$HOME/$X"`, `rm -rf {a,b}`, `ls | xargs rm -rf`, `rm $ARGS`, `cd "$X" && rm -rf *`, `cd - && rm -rf x`,
			`find "$d" -delete`,
		},
		"system": {`rm -rf /etc`, `rm -rf /usr/lib`, `rm -rf /var/*`, `rm -rf /ETC/`, `chmod -R 777 /`, `chown -R me /etc`, `chmod -R a+w ~`, `rm -rf C:/Windows`},
		"disk": {
			`mkfs.ext4 /dev/sda1`, `mkfs -t ext4 x`, `wipefs -a /dev/sda`, `dd if=/dev/zero of=/dev/sda bs=1M`, `dd of=/dev/nvme0n1 < x`, `echo x > /dev/sdb`, `fdisk /dev/sda`,
			`cryptsetup luksFormat /dev/sda`, `parted /dev/sda`,
		},
		"git-loses": {
			`git push --force`, `git push -f origin main`, `git push --force-with-lease`, `git push origin +main`, `git push origin :main`, `git push --delete origin x`, `git push --mirror`,
			`git -C /x push -f`, `git --no-pager -c a=b reset --hard`, `git reset --hard HEAD~1`, `git clean -fdx`, `git clean -f`, `git stash drop`, `git stash clear`, `git branch -D x`,
			`git checkout -- .`, `git checkout .`, `git checkout -f`, `git restore x`, `git reflog expire --all`, `git filter-branch`, `GIT push --FORCE; git push -f`, `git --git-dir=/x push -f`,
			`git worktree remove -f x`, `git update-ref -d refs/heads/x`,
		},
		"privileges":             {`sudo ls`, `doas ls`, `su -c ls`, `pkexec ls`, `/usr/bin/sudo -n ls`, `env sudo ls`, `runuser -u x -- ls`},
		"delete-root privileges": {`sudo rm -rf /`, `sudo -u x rm -rf /*`},
		"shutdown":               {`shutdown -h now`, `reboot`, `systemctl poweroff`, `init 0`, `/sbin/halt`},
		"piped-interpreter": {
			`curl x | sh`, `curl -s x | bash -s -- y`, `wget -qO- x | python3`, `cat x | python3 -`, `curl x | env bash`, `curl x | (cd y; sh)`, `curl x | tee f | sh`, `curl x | node`,
		},
		"piped-interpreter privileges": {`curl x | sudo bash`, `curl x | sudo -E bash -`},
		"startup": {
			`echo x >> ~/.bashrc`, `echo x > /home/me/.profile`, `cat x | tee -a ~/.zshrc`, `cp x ~/.bashrc`, `mv x ~/.ssh/authorized_keys`, `sed -i s/a/b/ ~/.profile`, `crontab x`, `echo x | crontab -`,
			`echo x > /etc/profile.d/x.sh`, `ln -s x ~/.config/systemd/user/x.service`, `cp authorized_keys ~/.ssh/`, `cd ~ && echo x >> .bashrc`, `touch .envrc`, `curl x -o ~/.bashrc`,
		},
		"git-inside": {`echo x > .git/hooks/pre-commit`, `cp x .git/hooks/`, `rm -rf .git`, `mv .git x`, `chmod +x .git/hooks/pre-commit`, `tee .git/config`},
		"gate": {
			`echo x > .claude/settings.json`, `rm -rf .claude`, `rm .codex/config.toml`, `mv ~/.claude x`, `cp x ~/.claude/settings.local.json`, `cp settings.json .claude/`, `tee ~/.gemini/settings.json < x`,
			`echo x > /data/me/gate/p.yaml`, `rm -rf /data/me/gate`, `rm .policy/rules.yaml`, `echo > /srv/work/.policy/x`, `mv /srv/work/.policy /tmp/x`, `sed -i s/deny/allow/ .policy/rules.yaml`,
			`cd .policy && echo x > rules.yaml`, `echo x > ~/gate/x`, `rm -rf ~/.local/state/decider/journal`, `rm ~/.local/state/decider/journal/x`, `cd .claude && rm settings.json`,
		},
		"unreadable": {`$CMD x`, `eval "$X"`, `bash -c "$X"`, `a "b`, ``},
		"": {
			`rm x`, `rm -rf build`, `rm -rf ./build/*`, `rm -rf /srv/work/x`, `rm -rf ~/x`, `rm -rf "$HOME"/x/*`, `rm -rf /home/me/x`, `rm -rf /etc/x/y`, `rm -rf *.o`, `rm *`, `rm "$f"`, `rm -f a b`,
			`rm -rf /tmp/x`, `cd build && rm -rf out`, `find . -name '*.o' -delete`, `find / -name '*.o' -delete`, `find ~ -type f`, `git push`, `git push origin main`, `git push --follow-tags`, `git reset`, `git clean -n`,
			`git stash`, `git stash pop`, `git checkout -b x`, `git checkout main`, `git restore --staged x`, `git branch -d x`, `git log`, `git commit -m 'git push --force'`, `echo 'rm -rf /'`,
			`echo rm -rf /`, `grep -r "rm -rf /" .`, `cat ~/.bashrc`, `cat .claude/settings.json`, `ls .git`, `cat x | grep y`, `python3 x.py`, `cat x | python3 x.py`, `echo x | python3 -c 'print(1)'`,
			`bash x.sh`, `dd if=a of=b`, `echo x > y`, `crontab -l`, `systemctl status`, `init`, `cp .claude/settings.json x`, `chmod +x x`, `chmod -R u+w build`, `cp wf.yml .github/`, `touch a.bashrc`,
			`tee bashrc`, `echo x > .gitignore`, `ls /`, `rm -rf /data/other`, `cat /data/me/gate/p.yaml`,
		},
	} {
		for _, line := range lines {
			f := p.Facts("Bash", json.RawMessage(mustJSON(t, map[string]string{"command": line})))
			if got := hitsOf(f); got != want {
				t.Errorf("%s: hits %q, want %q", line, got, want)
			}
		}
	}
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFloorCalls(t *testing.T) {
	p := mustParse(t, "p.yaml", floored)
	for _, tc := range []struct {
		tool, args, want string
		decision         Decision
	}{
		{"fs_write", `{"path":".policy/rules.yaml"}`, "gate", Deny},
		{"fs_write", `{"path":"a/../.policy/rules.yaml"}`, "gate", Deny},
		{"fs_write", `{"path":"/SRV/work/.Policy/x"}`, "gate", Deny},
		{"Edit", `{"path":"/data/me/.claude/settings.json"}`, "gate", Deny},
		{"mcp__fs__writeFile", `{"path":"x/.codex/hooks.json"}`, "gate", Deny},
		{"fs_move", `{"from":".policy","to":"x"}`, "gate", Deny},
		{"fs_read", `{"path":".policy/rules.yaml"}`, "", Allow},
		{"mcp__fs__read_text_file", `{"path":".claude/settings.json"}`, "", Allow},
		{"Grep", `{"path":".claude/settings.json"}`, "", Allow},
		{"readAndDelete", `{"path":".claude/settings.json"}`, "gate", Deny},
		{"fs_delete", `{"path":"/"}`, "delete-root", Deny},
		{"remove_directory", `{"path":"/data/me"}`, "delete-home", Deny},
		{"fs_delete", `{"path":"~"}`, "delete-home", Deny},
		{"fs_delete", `{"path":"x"}`, "", Allow},
		{"fs_write", `{"path":"~/.bashrc"}`, "startup", Ask},
		{"fs_write", `{"path":".git/hooks/pre-commit"}`, "git-inside", Ask},
		{"fs_write", `{"path":"src/main.go"}`, "", Allow},
	} {
		f := p.Facts(tc.tool, json.RawMessage(tc.args))
		v := p.Judge(tc.tool, f, nil)
		if got := hitsOf(f); got != tc.want || v.Decision != tc.decision {
			t.Errorf("%s %s: %s, hits %q, want %s, %q", tc.tool, tc.args, v.Decision, got, tc.decision, tc.want)
		}
		if tc.want != "" && (v.Rule == nil || v.Rule.Severity != SeverityDanger || v.RuleIndex != -1) {
			t.Errorf("%s %s: by %+v at %d", tc.tool, tc.args, v.Rule, v.RuleIndex)
		}
	}
}

// TestFloorStands: no rule and no grant is stronger than its denies; its asks a
// grant may answer, and a rule that says ask every time asks every time.
func TestFloorStands(t *testing.T) {
	p := mustParse(t, "p.yaml", floored)
	all := []Grant{{ID: "g", Rules: []Rule{{Tool: "*", Decision: Allow}}}}
	for line, want := range map[string]Decision{"rm -rf /": Deny, "git push -f": Allow, "ls": Allow} {
		f := p.Facts("Bash", mustJSON(t, map[string]string{"command": line}))
		if v := p.Judge("Bash", f, all); v.Decision != want {
			t.Errorf("%s: %s, want %s", line, v.Decision, want)
		}
	}
	off := mustParse(t, "p.yaml", "command-params: {Bash: {line: command}}\nfloor: off\nrules: [{tool: Bash, decision: allow}]")
	f := off.Facts("Bash", []byte(`{"command":"rm -rf /"}`))
	if v := off.Judge("Bash", f, nil); v.Decision != Allow || hitsOf(f) != "" {
		t.Errorf("switched off: %s, %q", v.Decision, hitsOf(f))
	}
	own := mustParse(t, "p.yaml", "command-params: {Bash: {line: command}}\nfloor: off\nrules: [{tool: Bash, decision: allow}, {tool: Bash, decision: deny, check: git-loses}]")
	f = own.Facts("Bash", []byte(`{"command":"git push -f"}`))
	if v := own.Judge("Bash", f, nil); v.Decision != Deny {
		t.Errorf("a policy's own rule with a check: %s", v.Decision)
	}
}

// TestFloorRules: every check has a rule, and every rule a check there is.
func TestFloorRules(t *testing.T) {
	named := map[string]bool{}
	for _, r := range floorRules() {
		named[r.Check] = true
		if !slices.Contains(checks, r.Check) || r.Severity != SeverityDanger || r.Note == "" || r.Decision == Allow || r.Remember != (r.Decision == Ask) {
			t.Errorf("%+v", r)
		}
	}
	for _, c := range checks {
		if !named[c] {
			t.Errorf("no rule for %s", c)
		}
	}
}

// TestEvalFloor: decider eval judges without the floor unless a line has it.
func TestEvalFloor(t *testing.T) {
	line := `{"rules":[{"tool":"Bash","decision":"allow"}],"tool":"Bash","arguments":{"command":"rm -rf /data/me"},"command-params":{"Bash":{"line":"command"}}%s}`
	for _, tc := range []struct{ floor, want string }{
		{``, `"allow"`}, {`,"floor":"off"`, `"allow"`}, {`,"floor":{"home":"/data/me","config":"/data/me/gate"}`, `"deny"`}, {`,"floor":{"home":"/else"}`, `"allow"`},
	} {
		out := string(EvalLine(nil, []byte(strings.Replace(line, "%s", tc.floor, 1))))
		if !strings.Contains(out, `"decision":`+tc.want) {
			t.Errorf("%s: %s", tc.floor, out)
		}
	}
}
