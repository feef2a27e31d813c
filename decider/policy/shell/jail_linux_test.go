package shell

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// jail is a root directory with bash, the programs that run others, and stubs
// that only write down how they were called.
type jail struct{ dir string }

// stubs are the programs that a jailed line can run.
var stubs = []string{"p", "q", "r", "rm", "git"}

// real are the programs in it that run others.
var real = []string{"bash", "env", "timeout", "nice", "nohup", "setsid", "xargs", "find", "stdbuf"}

// stub writes one record, in one piece: bash flushes what it prints at the end of
// a line, so there is none in it.
const stub = "#!/bin/bash\nlist=(\"${@//$'\\n'/$'\\1'}\")\nprintf '%s\\0' \"$#\" \"${0##*/}\" \"${list[@]}\" >> /log\n"

// ran is one run of a stub.
type ran struct {
	program string
	argv    []string
}

// TestMain removes the jail when all is done.
func TestMain(m *testing.M) {
	code := m.Run()
	if j, err := theJail(); err == nil {
		_ = os.RemoveAll(j.dir) // it lies among temporary files
	}
	os.Exit(code)
}

var theJail = sync.OnceValues(func() (*jail, error) {
	dir, err := os.MkdirTemp("", "jail")
	if err != nil {
		return nil, err
	}
	j := &jail{dir}
	if err := j.build(); err != nil {
		return nil, err
	}
	return j, j.command(context.Background(), "-c", ":").Run()
})

// tb is what the jail needs of a test, or of one check of a property.
type tb interface {
	Helper()
	Fatalf(string, ...any)
	Logf(string, ...any)
	Context() context.Context
}

// newJail is the jail. Where this process may not make one, as that takes root or
// a user namespace, ok is false, and lines are held against the tables alone.
func newJail(t tb) (j *jail, ok bool) {
	t.Helper()
	j, err := theJail()
	switch {
	case errors.Is(err, fs.ErrPermission):
		t.Logf("no line can be run in a jail here: %v", err)
		return nil, false
	case err != nil:
		t.Fatalf("%v", err)
	}
	return j, true
}

func (j *jail) build() error {
	err := os.Chmod(j.dir, 0o755)
	for _, d := range []string{"bin", "dev", "work"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(j.dir, d), 0o777))
	}
	err = errors.Join(err, os.Chmod(filepath.Join(j.dir, "work"), 0o777), os.WriteFile(filepath.Join(j.dir, "dev/null"), nil, 0o666), os.Chmod(filepath.Join(j.dir, "dev/null"), 0o666))
	for _, name := range real {
		path, lookErr := exec.LookPath(name)
		if lookErr != nil {
			return lookErr
		}
		err = errors.Join(err, j.install(path, "/bin/"+name))
	}
	err = errors.Join(err, os.Symlink("bash", filepath.Join(j.dir, "bin/sh")))
	for _, name := range stubs {
		err = errors.Join(err, os.WriteFile(filepath.Join(j.dir, "bin", name), []byte(stub), 0o755))
	}
	return err
}

var library = regexp.MustCompile(`/\S+`)

// install copies a program, and the libraries that it is linked with.
func (j *jail) install(from, to string) error {
	if err := j.copy(from, to); err != nil {
		return err
	}
	out, err := exec.Command("ldd", from).Output()
	if err != nil {
		return nil // it is linked with none
	}
	for _, lib := range library.FindAllString(string(out), -1) {
		err = errors.Join(err, j.copy(lib, lib))
	}
	return err
}

func (j *jail) copy(from, to string) error {
	to = filepath.Join(j.dir, to)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// run runs a line with bash for a while, and returns what it ran, and whether
// bash could read it all.
func (j *jail) run(t tb, line string) (list []ran, parsed bool) {
	t.Helper()
	log := filepath.Join(j.dir, "log")
	if err := errors.Join(os.WriteFile(log, nil, 0o666), os.Chmod(log, 0o666), j.clean()); err != nil {
		t.Fatalf("%v", err)
	}
	parsed = j.bash(t, "-n", "-c", line) == nil
	_ = j.bash(t, "-c", "ulimit -t 1 -f 64 -u 200 2>/dev/null; exec bash -c \"$0\"", line)
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatalf("%v", err)
	}
	fields := strings.Split(strings.ReplaceAll(string(raw), "\x01", "\n"), "\x00")
	for len(fields) > 2 {
		n, err := strconv.Atoi(fields[0])
		switch {
		case err != nil:
			t.Fatalf("the log of %q: %q", line, raw)
		case len(fields) < n+3: // cut off by a limit
			return list, parsed
		}
		list = append(list, ran{fields[1], fields[2 : n+2]})
		fields = fields[n+2:]
	}
	return list, parsed
}

// clean removes what a line before left.
func (j *jail) clean() error {
	work := filepath.Join(j.dir, "work")
	return filepath.WalkDir(work, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != work {
			err = os.RemoveAll(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
}

// nobody is a user who owns nothing.
const nobody = 65534

func (j *jail) bash(t tb, args ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	cmd := j.command(ctx, args...)
	err := cmd.Run()
	if cmd.Process == nil {
		t.Fatalf("bash: %v", err)
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left running
	return err
}

func (j *jail) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/bash", args...)
	cmd.Dir, cmd.Env = "/work", []string{"PATH=/bin"}
	cmd.Stdin = bytes.NewReader(nil)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: j.dir, Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	} else {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}
