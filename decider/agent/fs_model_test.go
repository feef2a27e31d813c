package agent

import (
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// model is what the file tools should do, on a map: content by name, "/" for
// a directory. The root is not in it.
type model map[string]string

func (m model) dir(name string) bool { return name == "." || m[name] == "/" }

func (m model) file(name string) bool {
	content, ok := m[name]
	return ok && content != "/"
}

func (m model) there(name string) bool { return m.dir(name) || m.file(name) }

// below lists what is in a directory, at any depth.
func (m model) below(name string) (names []string) {
	for n := range m {
		if strings.HasPrefix(n, name+"/") {
			names = append(names, n)
		}
	}
	return names
}

func (m model) write(name, content string, parents bool) bool {
	if m.dir(name) {
		return false
	}
	var missing []string
	for dir := path.Dir(name); !m.dir(dir); dir = path.Dir(dir) {
		if m.file(dir) || !parents {
			return false
		}
		missing = append(missing, dir)
	}
	for _, dir := range missing {
		m[dir] = "/"
	}
	m[name] = content
	return true
}

func (m model) move(from, to string, overwrite bool) bool {
	switch {
	case from == "." || !m.there(from) || m.dir(to) || !m.dir(path.Dir(to)):
		return false
	case to == from || strings.HasPrefix(to, from+"/"):
		return false
	case m.file(to) && (!overwrite || m.dir(from)):
		return false
	}
	for _, n := range append(m.below(from), from) {
		m[to+strings.TrimPrefix(n, from)] = m[n]
		delete(m, n)
	}
	return true
}

func (m model) delete(name string, recursive bool) bool {
	below := m.below(name)
	if name == "." || !m.there(name) || len(below) > 0 && !recursive {
		return false
	}
	for _, n := range append(below, name) {
		delete(m, n)
	}
	return true
}

// TestFSModel holds random calls against the model: what succeeds, what is
// then in the directory, and that a change that failed changed nothing.
func TestFSModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		f, err := NewFS(dir)
		if err != nil {
			rt.Fatal(err)
		}
		defer f.Close()
		m := model{}
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			step(t, rt, f, m)
			if diff := cmp.Diff(map[string]string(m), tree(t, dir)); diff != "" {
				rt.Fatal(diff)
			}
		}
	})
}

func step(t *testing.T, rt *rapid.T, f *FS, m model) {
	names := []string{"a", "b", "a/a", "a/b", "b/a", "a/a/b", "."}
	draw := func(what string) string { return rapid.SampledFrom(names).Draw(rt, what) }
	flag := rapid.Bool().Draw(rt, "flag")
	tool := rapid.SampledFrom([]string{"fs_write", "fs_write", "fs_move", "fs_delete", "fs_read", "fs_list", "fs_stat"}).Draw(rt, "tool")
	name := draw("path")
	args, want := map[string]any{"path": name}, false
	switch tool {
	case "fs_write":
		content := rapid.StringMatching(`[a-zé]{0,4}`).Draw(rt, "content")
		args["content"], args["create-parents"] = content, flag
		want = m.write(name, content, flag)
	case "fs_move":
		to := draw("to")
		args = map[string]any{"from": name, "to": to, "overwrite": flag}
		want = m.move(name, to, flag)
	case "fs_delete":
		args["recursive"] = flag
		want = m.delete(name, flag)
	case "fs_read":
		want = m.file(name)
	case "fs_list":
		want = m.dir(name)
	case "fs_stat":
		want = m.there(name)
	}
	r := run(t, f, tool, args)
	if r.IsError == want || r.Unknown {
		rt.Fatalf("%s %v with %v: want success %v, got %+v: %s", tool, args, slices.Sorted(maps.Keys(m)), want, r, r.Content)
	}
	if tool == "fs_read" && want && said(t, r) != m[name] {
		rt.Fatalf("read %q of %s, want %q", said(t, r), name, m[name])
	}
}
