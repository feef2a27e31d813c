package shell

import "testing"

func TestPrograms(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		// Wrappers.
		{`env a b`, `^env a b; a b`},
		{`env`, `env`},
		{`env -i -u TMP A=1 a`, `^env -i -u TMP A=1 a; A= a`},
		{`env --unset=X -0 a`, `^env --unset=X -0 a; a`},
		{`env A="$x" a`, `^env ~; A= a`},
		{`env "$x" a`, `^env ~; ?option`},
		{`env - a`, `^env - a; a`},
		{`env -S 'rm -r x' y`, `^env -S "rm -r x" y; rm -r x y`},
		{`env -S '-i A=1 rm' y`, `^env -S "-i A=1 rm" y; A= rm y`},
		{`env -S 'rm $X'`, `^env -S "rm $X"; ?payload`},
		{`env --split-string='a b'`, `^env "--split-string=a b"; a b`},
		{`env --weird a`, `^env --weird a; ?option`},
		{`timeout 5 a`, `^timeout 5 a; a`},
		{`timeout -k 5 --signal=KILL 10s a b`, `^timeout -k 5 --signal=KILL 10s a b; a b`},
		{`timeout --kill-after 5 10 a`, `^timeout --kill-after 5 10 a; a`},
		{`timeout -sKILL 1 a`, `^timeout -sKILL 1 a; a`},
		{`timeout 5`, `timeout 5`},
		{`timeout -Z 5 a`, `^timeout -Z 5 a; ?option`},
		{`timeout $T a`, `^timeout ~; ?option`},
		{`timeout 5 $x`, `^timeout 5 ~; ?program`},
		{`timeout -k 5 60 nice -n 10 env -u TMP A=1 command rm -r x`, `^timeout -k 5 60 nice -n 10 env -u TMP A=1 command rm -r x; ` +
			`^nice -n 10 env -u TMP A=1 command rm -r x; ^env -u TMP A=1 command rm -r x; A= ^command rm -r x; A= rm -r x`},
		{`nice -5 a`, `^nice -5 a; a`},
		{`nice`, `nice`},
		{`nohup setsid -w stdbuf -oL -e 0 a`, `^nohup setsid -w stdbuf -oL -e 0 a; ^setsid -w stdbuf -oL -e 0 a; ^stdbuf -oL -e 0 a; a`},
		{`ionice -c2 -n 7 a`, `^ionice -c2 -n 7 a; a`},
		{`/usr/bin/time -o /etc/x a`, `^/usr/bin/time -o /etc/x a; a >/etc/x`},
		{`exec -a git rm x`, `^exec -a git rm x; rm x`},
		{`command -p a`, `^command -p a; a`},
		{`command -v a`, `command -v a`},
		{`builtin cd x`, `^builtin cd x; cd x`},
		{`busybox sh -c 'a; b'`, `^busybox sh -c "a; b"; ^sh -c "a; b"; a; b`},
		{`busybox --list`, `busybox --list`},
		{`ENV A=1 a`, `^ENV A=1 a; A= a`},
		{`/usr/bin/env a`, `^/usr/bin/env a; a`},
		// Lines in lines.
		{`bash -c 'a && b' c d`, `^bash -c "a && b" c d; a; b`},
		{`bash -lc a`, `^bash -lc a; a`},
		{`bash -ce a b`, `^bash -ce a b; a`},
		{`bash -eo pipefail -c a`, `^bash -eo pipefail -c a; a`},
		{`bash -o pipefail -O extglob -c a`, `^bash -o pipefail -O extglob -c a; a`},
		{`bash --norc -c a`, `^bash --norc -c a; a`},
		{`bash --rcfile x -c a`, `^bash --rcfile x -c a; ?payload; a`},
		{`bash -c`, `^bash -c; ?missing`},
		{`bash -c "$x"`, `^bash -c ~; ?payload`},
		{`bash -c "a $x"`, `^bash -c ~; ?payload`},
		{`bash -c 'a $1' x`, `^bash -c "a $1" x; a ~`},
		{`bash -c '$0' rm`, `^bash -c $0 rm; ?program`},
		{`bash -c '"$@"' _ rm`, `^bash -c "$@" _ rm; ?program`},
		{`bash -c ''`, `^bash -c ""; ?empty`},
		{`bash x.sh -c a`, `bash x.sh -c a`},
		{`bash "$x"`, `bash ~`},
		{`bash $x`, `^bash ~; ?payload`},
		{`bash "$x" a`, `^bash ~; ?payload`},
		{`bash -Z a`, `^bash -Z a; ?option`},
		{`bash`, `bash`},
		{`a | bash`, `a; |bash`},
		{`sh -c 'sh -c "sh -c a"'`, `^sh -c "sh -c \"sh -c a\""; ^sh -c "sh -c a"; ^sh -c a; a`},
		{`sh -c 'a "unfinished'`, `^sh -c "a \"unfinished"; ?syntax`},
		{`fish -c 'a'`, `fish -c a; ?language`},
		{`pwsh -Command a`, `pwsh -Command a; ?language`},
		{`eval a '&&' b`, `^eval a && b; a; b`},
		{`eval "a $x"`, `^eval ~; ?payload`},
		{`eval`, `eval`},
		{`trap 'a; b' EXIT`, `^trap "a; b" EXIT; a; b`},
		{`trap - EXIT`, `trap - EXIT`}, {`trap "" INT`, `trap "" INT`}, {`trap -p`, `trap -p`},
		{`trap "$x" EXIT`, `^trap ~; ?payload`},
		{`alias l='a b' m=c`, `^alias "l=a b" m=c; a b ~; c ~`},
		{`alias s=sudo; s rm x`, `^alias s=sudo; sudo ~; ?missing; s rm x`},
		{`alias`, `alias`},
		// Runners.
		{`sudo -u root -n A=1 a`, `sudo -u root -n A=1 a; A= a`},
		{`sudo --user=root a`, `sudo --user=root a; a`},
		{`sudo --user root a`, `sudo --user root a; a`},
		{`sudo -i`, `sudo -i`}, {`sudo -l`, `sudo -l`},
		{`sudo --weird a`, `sudo --weird a; ?option`},
		{`sudo bash -c 'a'`, `sudo bash -c a; ^bash -c a; a`},
		{`doas -u root a`, `doas -u root a; a`},
		{`su - root -c 'a b'`, `su - root -c "a b"; a b`},
		{`su -c a`, `su -c a; a`},
		{`su root`, `su root`},
		{`runuser -u x -- a b`, `runuser -u x -- a b; a b`},
		{`xargs rm < f`, `xargs rm; rm ~`},
		{`a | xargs -0 -n 1 rm -f`, `a; |xargs -0 -n 1 rm -f; |rm -f ~`},
		{`xargs -I {} rm {}/x y`, `xargs -I {} rm {}/x y; rm ~`},
		{`xargs -I@ sh -c 'a @'`, `xargs -I@ sh -c "a @"; ^sh -c ~; ?payload`},
		{`xargs -i sh -c 'a'`, `xargs -i sh -c a; ^sh -c a; a`},
		{`xargs sh -c 'a' _`, `xargs sh -c a _; ^sh -c a _ ~; a`},
		{`xargs find .`, `xargs find .; find . ~; ?payload`}, {`xargs -I{} find {} rm x`, `xargs -I{} find {} rm x; find ~; rm x ~`},
		{`xargs env`, `xargs env; ^env ~; ?missing`},
		{`xargs sh`, `xargs sh; ^sh ~; ?payload`},
		{`xargs`, `xargs`},
		{`xargs -I{} {}`, `xargs -I{} {}; ?program`},
		{`find . -name '*.o' -exec rm {} +`, `find . -name *.o -exec rm {} +; rm ~`},
		{`find . -exec a \; -exec b {} \;`, `find . -exec a ";" -exec b {} ";"; a; b ~`},
		{`find . -exec sh -c 'a {}' \;`, `find . -exec sh -c "a {}" ";"; ^sh -c ~; ?payload`},
		{`find . -exec sh -c 'a "$1"' _ {} \;`, `find . -exec sh -c "a \"$1\"" _ {} ";"; ^sh -c "a \"$1\"" _ ~; a ~`},
		{`find . -exec {} \;`, `find . -exec {} ";"; ?program`},
		{`find . -fprint f -delete`, `find . -fprint f -delete >f`},
		{`find "$d" -exec a \;`, `find ~; a`},
		{`find $d -name x`, `find ~; ?payload`}, {`find "$d" -name x`, `find ~`}, {`find "$d" rm {} +`, `find ~; rm {} + ~`}, {`find ./$d x`, `find ~; ?payload`}, {`find ./*.go -print`, `find ~`},
		{`find *.go`, `find ~; ?payload`}, {`x='-exec rm {} +'; find . $x`, `find . ~; ?payload`},
		{`mapfile -C 'rm x' -c 1 a < f`, `mapfile -C "rm x" -c 1 a; rm x ~`}, {`mapfile -t PATH; c`, `mapfile -t PATH; PATH= c`}, {`jobs -x rm x`, `jobs -x rm x; rm x`}, {`jobs -l`, `jobs -l`},
		{`compgen -C 'rm x'`, `compgen -C "rm x"; ?language`},
		{`noglob rm x`, `^noglob rm x; rm x`}, {`repeat 3 rm x`, `^repeat 3 rm x; rm x`}, {`- rm x`, `^- rm x; rm x`}, {`path=(/x); c`, `path= c`}, {`ls *(e:'rm x':)`, `?indirect; ls ~`},
		{`ssh -p 22 h a b`, `ssh -p 22 h a b; a b`},
		{`ssh h -p 22 'a; b'`, `ssh h -p 22 "a; b"; a; b`},
		{`ssh h`, `ssh h`},
		{`ssh -o ProxyCommand='rm x' h`, `ssh -o "ProxyCommand=rm x" h; rm x`},
		{`ssh "$h" a`, `ssh ~; ?option`},
		{`watch -n 1 a b`, `watch -n 1 a b; a b`},
		{`watch -d 'a | b'`, `watch -d "a | b"; a; |b`},
		{`watch -x a 'b c'`, `watch -x a "b c"; a "b c"`},
		{`parallel rm ::: a b`, `parallel rm ::: a b; rm ~`},
		{`parallel -j 4 'gzip {}; rm {}' ::: a`, `parallel -j 4 "gzip {}; rm {}" ::: a; ?program`},
		{`parallel ::: 'rm a'`, `parallel ::: "rm a"; ?payload`},
		{`docker exec -it c a b`, `docker exec -it c a b; a b`},
		{`docker -H x --context y exec --user root c a`, `docker -H x --context y exec --user root c a; a`},
		{`docker run --rm -v /:/x --network none img a`, `docker run --rm -v /:/x --network none img a; a`},
		{`docker run img`, `docker run img`}, {`docker ps -a`, `docker ps -a`}, {`docker build .`, `docker build .`},
		{`docker --weird exec c a`, `docker --weird exec c a; ?option`},
		{`docker compose -f x exec web a`, `docker compose -f x exec web a; a`},
		{`docker-compose run --rm web a`, `docker-compose run --rm web a; a`},
		{`podman container exec c a`, `podman container exec c a; a`},
		{`kubectl -n x exec p -c c -- a b`, `kubectl -n x exec p -c c -- a b; a b`},
		{`kubectl exec p a`, `kubectl exec p a; ?option`}, {`kubectl get pods`, `kubectl get pods`},
		{`npx -y rm@1.2 x`, `npx -y rm@1.2 x; rm x`}, {`npx @s/rm@1 x`, `npx @s/rm@1 x; @s/rm x`},
		{`npx -c 'rm x'`, `npx -c "rm x"; rm x`},
		{`npm exec -- rm x`, `npm exec -- rm x; rm x`}, {`npm install x`, `npm install x`}, {`npm run build`, `npm run build`},
		{`pnpm dlx rm x`, `pnpm dlx rm x; rm x`}, {`yarn dlx rm`, `yarn dlx rm; rm`}, {`uv run a b`, `uv run a b; a b`}, {`uvx rm x`, `uvx rm x; rm x`},
		{`poetry run a`, `poetry run a; a`}, {`bundle exec a`, `bundle exec a; a`}, {`direnv exec . a`, `direnv exec . a; a`},
		{`nsenter -t 1 -m rm x`, `nsenter -t 1 -m rm x; rm x`},
		{`chroot /x a`, `chroot /x a; a`}, {`chroot /x`, `chroot /x`},
		{`flock -n f a`, `flock -n f a; a`}, {`flock f -c 'a; b'`, `flock f -c "a; b"; a; b`},
		{`script -t -c a f`, `script -t -c a f; a`},
		{`script -q -c 'a b' f`, `script -q -c "a b" f; a b`}, {`strace -f -o f a`, `strace -f -o f a; a >f`},
		{`systemd-run --user -p X=1 a`, `systemd-run --user -p X=1 a; a`},
		{`taskset -c 0 a`, `taskset -c 0 a; a`}, {`bwrap --bind / / a`, `bwrap --bind / / a; ?language`},
		{`tmux ls`, `tmux ls`}, {`tmux new 'rm x'`, `tmux new "rm x"; ?language`},
		{`sudo xargs env bash -c 'rm x'`, `sudo xargs env bash -c "rm x"; xargs env bash -c "rm x"; ^env bash -c "rm x" ~; ^bash -c "rm x" ~; rm x`},
	} {
		if got := show(Commands(tc.line)); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.line, got, tc.want)
		}
	}
}

func TestArgv(t *testing.T) {
	for _, tc := range []struct {
		argv   []string
		sealed bool
		want   string
	}{
		{nil, true, `?missing`},
		{[]string{"git", "status"}, true, `git status`},
		{[]string{"git", "a"}, false, `git a ~`},
		{[]string{"bash", "-c", "a && b"}, true, `^bash -c "a && b"; a; b`},
		{[]string{"env", "-S", "rm x"}, true, `^env -S "rm x"; rm x`},
		{[]string{"echo", "$(a)", "*", "~"}, true, `echo $(a) * ~`},
		{[]string{"env"}, false, `^env ~; ?missing`},
		{[]string{""}, true, `?program`},
		{[]string{"sudo"}, false, `sudo ~; ?missing`},
	} {
		if got := show(Argv(tc.argv, tc.sealed)); got != tc.want {
			t.Errorf("%q: got %s, want %s", tc.argv, got, tc.want)
		}
	}
}

func TestSpans(t *testing.T) {
	line := `a b && env c "d $(e f)" | sh -c 'g h'`
	want := []string{"a b", "e f", `env c "d $(e f)"`, `env c "d $(e f)"`, `sh -c 'g h'`, `sh -c 'g h'`}
	for i, c := range Commands(line) {
		if got := line[c.Span.Start:c.Span.End]; got != want[i] {
			t.Errorf("%d: %q, want %q", i, got, want[i])
		}
	}
}

func TestVia(t *testing.T) {
	list := Commands(`sudo timeout 5 bash -c 'git status'`)
	last := list[len(list)-1]
	if len(last.Via) != 3 || last.Via[0] != "sudo" || last.Via[1] != "timeout" || last.Via[2] != "bash" {
		t.Errorf("%v", last.Via)
	}
}
