package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFSEscapes tries every tool on every way out of the directory. Nothing
// outside may be read, changed or named.
func TestFSEscapes(t *testing.T) {
	top := t.TempDir()
	secret := filepath.Join(top, "outside", "secret")
	place(t, secret, false, "the secret")
	dir := filepath.Join(top, "root")
	for name, content := range map[string]string{
		"a": "A", "abs": "-> " + secret, "rel": "-> ../outside/secret", "up": "-> ..", "out": "-> ../outside",
		"loop": "-> loop", "slash": "-> /", "deep/up": "-> ../..", "here": "-> " + dir,
	} {
		place(t, filepath.Join(dir, name), false, content)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := NewFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := tree(t, top)
	for _, bad := range []string{
		"", "..", "../outside/secret", "a/../../outside/secret", "deep/../../outside", "/", "/etc/passwd", secret,
		dir + "/../outside/secret", dir + "-not", "abs/x", "rel/x", "up/outside/secret", "out/secret", "loop/x", "slash/etc/passwd",
		"deep/up/outside/secret", "here/a", "~", "~/x", "a\x00b", strings.Repeat("x", 256), strings.Repeat("x/", 3000), "a/b", "fifo/x",
	} {
		for _, tool := range fsTools() {
			for name, args := range pathsIn(tool, bad, "a") {
				r := run(t, f, tool.name, args)
				text := said(t, r)
				if !r.IsError || r.Unknown || tool.changes && !r.NotRun {
					t.Errorf("%s with %s %q: %+v", tool.name, name, bad, r)
				}
				if strings.Contains(text, "the secret") || strings.Contains(strings.ReplaceAll(text, clip(bad), ""), top) {
					t.Errorf("%s with %s %q says too much: %s", tool.name, name, bad, text)
				}
			}
		}
	}
	for _, link := range []string{"abs", "rel", "up", "out", "loop", "slash", "fifo"} {
		for _, tool := range []string{"fs_read", "fs_list", "fs_write"} {
			args := map[string]any{"path": link}
			if tool == "fs_write" {
				args["content"] = "x"
			}
			if r := run(t, f, tool, args); !r.IsError || strings.Contains(said(t, r), top) {
				t.Errorf("%s of %q: %s", tool, link, r.Content)
			}
		}
	}
	if diff := cmp.Diff(before, tree(t, top)); diff != "" {
		t.Error(diff)
	}
}

// pathsIn makes arguments for a tool, with bad for each of its paths in turn
// and good for the others.
func pathsIn(tool fsTool, bad, good string) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, p := range tool.params {
		if !slices.Contains([]string{"path", "from", "to"}, p.name) {
			continue
		}
		args := map[string]any{}
		for _, other := range tool.params {
			if other.required {
				args[other.name] = good
			}
		}
		args[p.name] = bad
		out[p.name] = args
	}
	return out
}

// TestFSSwappedLink has a directory replaced by a link out of the root, and
// back, while calls go through it. Some calls fail; none gets out.
func TestFSSwappedLink(t *testing.T) {
	top := t.TempDir()
	dir, outside := filepath.Join(top, "root"), filepath.Join(top, "outside")
	place(t, filepath.Join(outside, "file"), false, "the secret")
	place(t, filepath.Join(dir, "d", "file"), false, "mine")
	place(t, filepath.Join(dir, "link"), false, "-> ../outside")
	f, err := NewFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		swap(dir, stop)
	}()
	for range 300 {
		if text := said(t, run(t, f, "fs_read", `{"path":"d/file"}`)); strings.Contains(text, "secret") {
			t.Errorf("read outside: %q", text)
		}
		run(t, f, "fs_write", `{"path":"d/file","content":"mine"}`)
		run(t, f, "fs_move", `{"from":"d/file","to":"d/moved"}`)
		run(t, f, "fs_delete", `{"path":"d/moved"}`)
	}
	close(stop)
	<-stopped
	if diff := cmp.Diff(map[string]string{"file": "the secret"}, tree(t, outside)); diff != "" {
		t.Error(diff)
	}
}

// swap exchanges d and link until it is told to stop.
func swap(dir string, stop <-chan struct{}) {
	d, link, aside := filepath.Join(dir, "d"), filepath.Join(dir, "link"), filepath.Join(dir, "aside")
	for {
		select {
		case <-stop:
			return
		default:
		}
		os.Rename(d, aside)
		os.Rename(link, d)
		os.Rename(aside, link)
	}
}

func TestFSAbsoluteInside(t *testing.T) {
	top := t.TempDir()
	place(t, filepath.Join(top, "real", "a"), false, "A")
	place(t, filepath.Join(top, "alias"), false, "-> real")
	f, err := NewFS(filepath.Join(top, "alias"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, path := range []string{"alias/a", "real/a", "real/./b/../a"} {
		if r := run(t, f, "fs_read", map[string]string{"path": top + "/" + path}); said(t, r) != "A" {
			t.Errorf("%s: %s", path, r.Content)
		}
	}
	if r := run(t, f, "fs_list", map[string]string{"path": top + "/real"}); r.IsError {
		t.Errorf("the root by its real name: %s", r.Content)
	}
}

func TestFSDevice(t *testing.T) {
	f, err := NewFS("/dev")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	wants{"fs_read", `{"path":"zero"}`, `"zero" is a device, pipe or socket, not a file`, "error"}.check(t, f)
	wants{"fs_write", `{"path":"null","content":"x"}`, `"null" is a device, pipe or socket, not a file`, "not-run"}.check(t, f)
	wants{"fs_stat", `{"path":"null"}`, `..."type":"special"`, "ok"}.check(t, f)
}
