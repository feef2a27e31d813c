package embedded

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"decisionjournal/journal"
)

func TestDirectoryErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	openDir := t.TempDir() // mode 0777 less umask
	if err := os.WriteFile(filepath.Join(openDir, "something"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ dir, want string }{
		"none":           {"", "no directory named"},
		"missing parent": {filepath.Join(t.TempDir(), "no", "j"), "does not exist: create it"},
		"under a file":   {filepath.Join(file, "j"), "cannot be made"},
		"a file":         {file, "is not a directory"},
		"open to others": {openDir, "chmod 700"},
	}
	if runtime.GOOS == "linux" {
		cases["read-only"] = struct{ dir, want string }{"/sys/decision-journal", "cannot be made"}
		cases["in memory"] = struct{ dir, want string }{filepath.Join(tmpfs(t), "decision-journal-test"), "is on tmpfs"}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h, err := Open(t.Context(), Config{Dir: c.dir, Role: journal.RoleDecider})
			if err == nil {
				h.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if name != "none" && !strings.Contains(err.Error(), filepath.Dir(c.dir)) {
				t.Errorf("%q does not say where", err)
			}
		})
	}
}

// tmpfs is where a tmpfs is mounted that can be written.
func tmpfs(t *testing.T) string {
	t.Helper()
	f, err := os.Open("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || fields[2] != "tmpfs" {
			continue
		}
		probe := filepath.Join(fields[1], "decision-journal-test")
		if err := os.Mkdir(probe, 0o700); err == nil {
			t.Cleanup(func() { os.Remove(probe) })
			return fields[1]
		}
	}
	t.Fatal("this test needs a tmpfs it can write, such as /dev/shm")
	return ""
}

func TestDirectoryIsPrivate(t *testing.T) {
	empty := t.TempDir() // open to others, but empty
	h := open(t, Config{Dir: empty})
	if len(h.Warnings()) > 0 {
		t.Errorf("warnings %q", h.Warnings())
	}
	err := filepath.WalkDir(empty, func(path string, e fs.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(path, dir(empty).store()+"/") {
			return err
		}
		info, err := e.Info()
		if err == nil && path != dir(empty).store() && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWorkingTreeIsWarnedOf(t *testing.T) {
	tree := t.TempDir()
	if err := os.Mkdir(filepath.Join(tree, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := open(t, Config{Dir: filepath.Join(tree, "j")})
	if len(h.Warnings()) != 1 || !strings.Contains(h.Warnings()[0], tree) {
		t.Errorf("warnings %q", h.Warnings())
	}
}

func TestApproverName(t *testing.T) {
	for user, want := range map[string]string{
		"alice":                 "alice",
		`CORP\bob`:              "CORP-bob",
		"agent":                 "agent-approver",
		"admin":                 "admin-approver",
		"":                      "approver",
		"é":                     "-",
		strings.Repeat("x", 99): strings.Repeat("x", 55),
	} {
		if got := approverName(user, initial("")); got != want {
			t.Errorf("%q: got %q, want %q", user, got, want)
		}
	}
}

func TestKeysAreMadeOnce(t *testing.T) {
	path := t.TempDir() + "/j"
	read := func() map[string]string {
		t.Helper()
		seeds := map[string]string{}
		all, err := principals(dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			seed, err := os.ReadFile(filepath.Join(dir(path).keys(), p.file()))
			if err != nil {
				t.Fatal(err)
			}
			seeds[p.file()] = string(seed)
		}
		return seeds
	}
	open(t, Config{Dir: path, User: "alice"}).Close()
	first := read()
	if len(first) != len(roles) {
		t.Errorf("%d keys", len(first))
	}
	h := open(t, Config{Dir: path, User: "bob", Role: journal.RoleApprover})
	if _, actor := h.Principal(); actor != "alice" {
		t.Errorf("the approver is %s", actor)
	}
	h.Close()
	for name, seed := range read() {
		if first[name] != seed {
			t.Errorf("the key %s has changed", name)
		}
	}
	bad := filepath.Join(dir(path).keys(), "agent.agent.seed")
	if err := os.WriteFile(bad, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Dir: path, Role: journal.RoleDecider}); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("a damaged key: %v", err)
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, Config{Dir: path}).Last(t.Context()); err != nil {
		t.Errorf("after the damaged key was removed: %v", err)
	}
	if errors.Is(os.Remove(bad), fs.ErrNotExist) {
		t.Error("no new key was made")
	}
}
