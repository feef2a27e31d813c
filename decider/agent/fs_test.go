package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// newFS opens a directory with files as its content; a name ending in "/" is
// a directory, content beginning with "-> " a link.
func newFS(t testing.TB, files map[string]string) (*FS, string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		place(t, filepath.Join(dir, name), strings.HasSuffix(name, "/"), content)
	}
	f, err := NewFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, dir
}

func place(t testing.TB, name string, dir bool, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	target, link := strings.CutPrefix(content, "-> ")
	switch {
	case err != nil:
	case dir:
		err = os.MkdirAll(name, 0o755)
	case link:
		err = os.Symlink(target, name)
	default:
		err = errors.Join(os.WriteFile(name, []byte(content), 0o644), os.Chmod(name, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// run makes one call; args is a JSON text, or a value to be written as one.
func run(t testing.TB, f *FS, tool string, args any) Result {
	t.Helper()
	raw, ok := args.(string)
	if !ok {
		raw = string(marshal(args))
	}
	results := Execute(context.Background(), f, []Call{{Tool: tool, Arguments: json.RawMessage(raw)}})
	return results[0]
}

// said is the text of a result, its blocks one after the other.
func said(t testing.TB, r Result) string {
	t.Helper()
	var text string
	if json.Unmarshal(r.Content, &text) == nil {
		return text
	}
	var list []struct{ Type, Text string }
	if err := json.Unmarshal(r.Content, &list); err != nil {
		t.Fatalf("content %s: %v", r.Content, err)
	}
	for _, b := range list {
		text += b.Text
	}
	return text
}

// tree is what is in a directory: content by name, "/" for directories.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, name)
		switch {
		case err != nil || rel == ".":
		case d.IsDir():
			out[rel] = "/"
		case d.Type()&os.ModeSymlink != 0:
			target, _ := os.Readlink(name)
			out[rel] = "-> " + target
		case d.Type().IsRegular():
			var b []byte
			b, err = os.ReadFile(name)
			out[rel] = string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNewFS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	place(t, file, false, "")
	for _, dir := range []string{file, file + "-missing"} {
		if f, err := NewFS(dir); err == nil {
			f.Close()
			t.Errorf("NewFS(%q) did not fail", dir)
		}
	}
}

// wants is what a call is to give.
type wants struct {
	tool, args string
	text       string // of the result, or a part of it after "..."
	outcome    string // ok, error or not-run
}

func (w wants) check(t *testing.T, f *FS) {
	t.Helper()
	r := run(t, f, w.tool, w.args)
	outcome := "ok"
	switch {
	case r.Unknown:
		outcome = "unknown"
	case r.NotRun:
		outcome = "not-run"
	case r.IsError:
		outcome = "error"
	}
	text := said(t, r)
	part, partly := strings.CutPrefix(w.text, "...")
	if outcome != w.outcome || partly && !strings.Contains(text, part) || !partly && text != w.text {
		t.Errorf("%s %s:\n got %s: %q\nwant %s: %q", w.tool, w.args, outcome, text, w.outcome, w.text)
	}
}

func TestFSReading(t *testing.T) {
	f, _ := newFS(t, map[string]string{
		"a.txt": "hello", "empty": "", "euro": "a€b", "nul": "a\x00b", "latin": "caf\xe9",
		"d/two": "22", "d/one": "1", "d/sub/": "", "d/<&>": "", "link": "-> a.txt", "dirlink": "-> d",
	})
	for _, w := range []wants{
		{"fs_read", `{"path":"a.txt"}`, "hello", "ok"},
		{"fs_read", `{"path":"./d/../a.txt"}`, "hello", "ok"},
		{"fs_read", `{"path":"empty"}`, "", "ok"},
		{"fs_read", `{"path":"a.txt","offset":1.0,"encoding":"utf-8"}`, "ello[bytes 1 to 5 of 5]", "ok"},
		{"fs_read", `{"path":"a.txt","limit":4}`, "hell[bytes 0 to 4 of 5; read on with offset 4]", "ok"},
		{"fs_read", `{"path":"a.txt","offset":5}`, "[bytes 5 to 5 of 5]", "ok"},
		{"fs_read", `{"path":"a.txt","offset":6}`, `"a.txt" has 5 bytes; offset 6 is past its end`, "error"},
		{"fs_read", `{"path":"euro","offset":2}`, "b[bytes 4 to 5 of 5]", "ok"},
		{"fs_read", `{"path":"nul"}`, `"nul" is not UTF-8 text (3 bytes); read it with encoding base64`, "error"},
		{"fs_read", `{"path":"latin"}`, `...is not UTF-8 text`, "error"},
		{"fs_read", `{"path":"nul","encoding":"base64"}`, "YQBi", "ok"},
		{"fs_read", `{"path":"none"}`, `"none" does not exist; list the directory to see what does`, "error"},
		{"fs_read", `{"path":"a.txt/b"}`, `"a.txt/b" does not exist: a part of its path is not a directory`, "error"},
		{"fs_read", `{"path":"d"}`, `"d" is a directory; list it with fs_list`, "error"},
		{"fs_read", `{"path":"link"}`, `"link" is a link, and links are not followed; use what it points to, "a.txt"`, "not-run"},
		{"fs_read", `{"path":"dirlink/one"}`, `"dirlink" is a link, and links are not followed; use what it points to, "d"`, "not-run"},
		{"fs_list", `{"path":"d"}`, `{"path":"d","entries":[{"name":"<&>","type":"file","size":0},{"name":"one","type":"file","size":1},` +
			`{"name":"sub","type":"dir"},{"name":"two","type":"file","size":2}]}`, "ok"},
		{"fs_list", `{"path":"d/sub"}`, `{"path":"d/sub","entries":[]}`, "ok"},
		{"fs_list", `{"path":"."}`, `...{"name":"link","type":"link"}`, "ok"},
		{"fs_list", `{"path":"dirlink"}`, `..."dirlink" is a link`, "not-run"},
		{"fs_list", `{"path":"a.txt"}`, `"a.txt" is a file, not a directory; look at it with fs_stat`, "error"},
		{"fs_stat", `{"path":"./a.txt"}`, `...{"path":"a.txt","type":"file","size":5,"mode":"0644","modified":"2`, "ok"},
		{"fs_stat", `{"path":"link"}`, `..."type":"link"`, "ok"},
		{"fs_stat", `{"path":"none"}`, `...does not exist`, "error"},
	} {
		w.check(t, f)
	}
}

func TestFSChanging(t *testing.T) {
	before := map[string]string{
		"a": "A", "b": "B", "d/one": "1", "d/sub/two": "2", "empty/": "", "link": "-> d/one", "dirlink": "-> d",
	}
	for _, c := range []struct {
		w       wants
		changes map[string]string // "" is gone
	}{
		{wants{"fs_write", `{"path":"new","content":"é"}`, "wrote 2 bytes to new", "ok"}, map[string]string{"new": "é"}},
		{wants{"fs_write", `{"path":"a","content":""}`, "wrote 0 bytes to a", "ok"}, map[string]string{"a": ""}},
		{wants{"fs_write", `{"path":"x/y/z","content":"1","create-parents":true}`, "wrote 1 bytes to x/y/z", "ok"},
			map[string]string{"x": "/", "x/y": "/", "x/y/z": "1"}},
		{wants{"fs_write", `{"path":"d/sub/n","content":"1","create-parents":true}`, "wrote 1 bytes to d/sub/n", "ok"},
			map[string]string{"d/sub/n": "1"}},
		{wants{"fs_write", `{"path":"x/y","content":"1"}`, `..."x/y" has no parent directory`, "not-run"}, nil},
		{wants{"fs_write", `{"path":"a/y","content":"1","create-parents":true}`, `...not a directory`, "not-run"}, nil},
		{wants{"fs_write", `{"path":"a/y/z","content":"1","create-parents":true}`, `...not a directory`, "not-run"}, nil},
		{wants{"fs_write", `{"path":"d","content":"1"}`, `"d" is a directory; list it with fs_list`, "not-run"}, nil},
		{wants{"fs_write", `{"path":".","content":"1"}`, `...is a directory`, "not-run"}, nil},
		{wants{"fs_write", `{"path":"link","content":"1"}`, `...is a link`, "not-run"}, nil},
		{wants{"fs_write", `{"path":"dirlink/n","content":"1"}`, `...is a link`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"a","to":"c"}`, "moved a to c", "ok"}, map[string]string{"a": "gone", "c": "A"}},
		{wants{"fs_move", `{"from":"a","to":"b"}`, `"b" exists; set overwrite to replace it`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"a","to":"b","overwrite":true}`, "moved a to b", "ok"}, map[string]string{"a": "gone", "b": "A"}},
		{wants{"fs_move", `{"from":"a","to":"a","overwrite":true}`, `"a" cannot be moved to or into itself`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"d","to":"d/sub/in"}`, `"d" cannot be moved to or into itself`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"d/sub","to":"sub"}`, "moved d/sub to sub", "ok"},
			map[string]string{"d/sub": "gone", "d/sub/two": "gone", "sub": "/", "sub/two": "2"}},
		{wants{"fs_move", `{"from":"d/sub","to":"empty","overwrite":true}`, `"empty" is a directory, which is never replaced; delete it first or name a path inside it`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"empty","to":"d","overwrite":true}`, `...never replaced`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"a","to":"empty","overwrite":true}`, `...never replaced`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"d","to":"a","overwrite":true}`, `"a" is a file, which a directory cannot replace`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"none","to":"c"}`, `..."none" does not exist`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"a","to":"x/c"}`, `..."x/c" has no parent directory`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"a","to":"."}`, `...is the root directory`, "not-run"}, nil},
		{wants{"fs_move", `{"from":".","to":"c"}`, `...is the root directory`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"link","to":"moved"}`, "moved link to moved", "ok"}, map[string]string{"link": "gone", "moved": "-> d/one"}},
		{wants{"fs_move", `{"from":"a","to":"link","overwrite":true}`, `...is a link`, "not-run"}, nil},
		{wants{"fs_move", `{"from":"a","to":"dirlink/a"}`, `...is a link`, "not-run"}, nil},
		{wants{"fs_delete", `{"path":"a"}`, "deleted a", "ok"}, map[string]string{"a": "gone"}},
		{wants{"fs_delete", `{"path":"a","recursive":true}`, "deleted a", "ok"}, map[string]string{"a": "gone"}},
		{wants{"fs_delete", `{"path":"empty"}`, "deleted empty", "ok"}, map[string]string{"empty": "gone"}},
		{wants{"fs_delete", `{"path":"d"}`, `"d" is a directory that is not empty; set recursive to delete all that is in it`, "not-run"}, nil},
		{wants{"fs_delete", `{"path":"d","recursive":true}`, "deleted d", "ok"},
			map[string]string{"d": "gone", "d/one": "gone", "d/sub": "gone", "d/sub/two": "gone"}},
		{wants{"fs_delete", `{"path":"."}`, `...is the root directory`, "not-run"}, nil},
		{wants{"fs_delete", `{"path":"none","recursive":true}`, `..."none" does not exist`, "not-run"}, nil},
		{wants{"fs_delete", `{"path":"dirlink","recursive":true}`, "deleted dirlink", "ok"}, map[string]string{"dirlink": "gone"}},
		{wants{"fs_delete", `{"path":"dirlink/one"}`, `...is a link`, "not-run"}, nil},
	} {
		t.Run(c.w.tool+c.w.args, func(t *testing.T) {
			f, dir := newFS(t, before)
			want := tree(t, dir)
			c.w.check(t, f)
			for name, content := range c.changes {
				if want[name] = content; content == "gone" {
					delete(want, name)
				}
			}
			if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFSModes(t *testing.T) {
	f, dir := newFS(t, map[string]string{"script": "old", "locked": "old"})
	for name, mode := range map[string]os.FileMode{"script": 0o751, "locked": 0o444} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	wants{"fs_write", `{"path":"script","content":"new"}`, "wrote 3 bytes to script", "ok"}.check(t, f)
	wants{"fs_write", `{"path":"locked","content":"new"}`, `"locked" is read-only`, "not-run"}.check(t, f)
	info, err := os.Stat(filepath.Join(dir, "script"))
	if err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode %v, %v; want that of before", info.Mode(), err)
	}
}

func TestFSArguments(t *testing.T) {
	f, dir := newFS(t, map[string]string{"a": "A"})
	for _, w := range []wants{
		{"fs_burn", `{}`, `there is no tool "fs_burn" here; list the tools to see what there is`, ""},
		{"fs_read", ``, `...fs_read: the arguments cannot be read`, ""},
		{"fs_read", `{"path":"a"`, `...fs_read: the arguments cannot be read`, ""},
		{"fs_read", `{"path":"a","path":"b"}`, `...stands twice`, ""},
		{"fs_read", `["a"]`, `fs_read: the arguments must be a JSON object`, ""},
		{"fs_read", `null`, `fs_read: the arguments must be a JSON object`, ""},
		{"fs_read", `{}`, `fs_read: the argument "path" is missing`, ""},
		{"fs_read", `{"file":"a"}`, `fs_read: there is no argument "file"; known are path, offset, limit, encoding`, ""},
		{"fs_read", `{"Path":"a"}`, `...there is no argument "Path"`, ""},
		{"fs_read", `{"path":1}`, `fs_read: the argument "path" must be a string, not the number 1`, ""},
		{"fs_read", `{"path":null}`, `fs_read: the argument "path" must be a string, not null`, ""},
		{"fs_read", `{"path":["a"]}`, `fs_read: the argument "path" must be a string, not an array`, ""},
		{"fs_read", `{"path":"a","offset":"1"}`, `...must be a whole number from 0 to 9007199254740991, not a string`, ""},
		{"fs_read", `{"path":"a","offset":-1}`, `...not the number -1`, ""},
		{"fs_read", `{"path":"a","offset":1.5}`, `...not the number 1.5`, ""},
		{"fs_read", `{"path":"a","offset":99999999999999999999}`, `...must be a whole number`, ""},
		{"fs_read", `{"path":"a","limit":0}`, `...must be a whole number from 4 to 1048576`, ""},
		{"fs_read", `{"path":"a","limit":1048577}`, `...must be a whole number from 4 to 1048576`, ""},
		{"fs_read", `{"path":"a","encoding":"latin1"}`, `...must be one of utf-8, base64, not "latin1"`, ""},
		{"fs_write", `{"path":"a","content":{}}`, `...must be a string, not an object`, ""},
		{"fs_write", `{"path":"a","content":"","create-parents":1}`, `...must be true or false, not the number 1`, ""},
		{"fs_write", `{"path":"a","content":"","create-parents":"true"}`, `...must be true or false, not a string`, ""},
		{"fs_move", `{"from":"a"}`, `fs_move: the argument "to" is missing`, ""},
		{"fs_delete", `{"path":"a","recursive":null}`, `...must be true or false, not null`, ""},
	} {
		w.outcome = "not-run"
		w.check(t, f)
	}
	if diff := cmp.Diff(map[string]string{"a": "A"}, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// TestFSHalfDone has a write fail after it began. It says what is left of it.
func TestFSHalfDone(t *testing.T) {
	f, dir := newFS(t, map[string]string{"d/file": "1"})
	long := strings.Repeat("x", 256)
	wants{"fs_write", `{"path":"new/` + long + `/f","content":"2","create-parents":true}`,
		"...not written, though parent directories were made: ", "error"}.check(t, f)
	wants{"fs_write", `{"path":"new2/` + long + `","content":"2","create-parents":true}`,
		"...not written, what was there is unchanged: ", "error"}.check(t, f)
	r := outcome(nil, f.replace("d", "d", "2", 0, false)) // as if d had become a directory meanwhile
	if text := said(t, r); !r.IsError || r.NotRun || r.Unknown || !strings.HasPrefix(text, "not written, what was there is unchanged") {
		t.Errorf("%+v: %s", r, text)
	}
	want := map[string]string{"d": "/", "d/file": "1", "new": "/", "new2": "/"}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// TestFSLarge reads what does not fit one result, on and on, and gets it all,
// each time as content that a journal keeps.
func TestFSLarge(t *testing.T) {
	plain := strings.Repeat("line of text, and 2 € more\n", 90_000)
	for name, content := range map[string]string{
		"plain":    plain,
		"escapes":  strings.Repeat("\x01\"\\\n", 300_000),
		"exact":    plain[:maxContent-50_000],
		"base64":   plain,
		"surround": strings.Repeat("\U0001F600", 300_000),
	} {
		f, _ := newFS(t, map[string]string{"file": content})
		args := map[string]any{"path": "file", "offset": 0}
		if name == "base64" {
			args["encoding"] = encodingBase64
		}
		got := ""
		for offset := 0; offset < len(content); offset = len(got) {
			args["offset"] = offset
			r := run(t, f, "fs_read", args)
			if r.IsError || len(r.Content) > 1<<20 {
				t.Fatalf("%s at %d: error %v, %d bytes of content", name, offset, r.IsError, len(r.Content))
			}
			text, _, _ := strings.Cut(said(t, r), "[bytes ")
			if name == "base64" {
				raw, err := base64.StdEncoding.DecodeString(text)
				if err != nil {
					t.Fatal(err)
				}
				text = string(raw)
			}
			if text == "" {
				t.Fatalf("%s at %d: no progress: %s", name, offset, r.Content)
			}
			got += text
		}
		if got != content {
			t.Errorf("%s: %d bytes read on do not equal the file's %d", name, len(got), len(content))
		}
	}
}

func TestFSLargeListing(t *testing.T) {
	files := fstest.MapFS{}
	for i := range 4500 {
		files[fmt.Sprintf("%04d%s", i, strings.Repeat("\x01", 40))] = &fstest.MapFile{}
	}
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	r := Result{Content: listing(".", entries)}
	var list struct {
		Entries      []listEntry
		Cut          bool
		Shown, Total int
	}
	if err := json.Unmarshal([]byte(said(t, r)), &list); err != nil {
		t.Fatal(err)
	}
	if len(r.Content) > 1<<20 || !list.Cut || list.Total != 4500 || list.Shown != len(list.Entries) || list.Shown < 2000 {
		t.Errorf("%d bytes, cut %v, shown %d (%d), total %d", len(r.Content), list.Cut, list.Shown, len(list.Entries), list.Total)
	}
}

func TestFSCancelledAndClosed(t *testing.T) {
	f, dir := newFS(t, map[string]string{"a": "A"})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	// Past the wrapper, since a context may also end between two calls.
	r := f.Execute(ctx, []Call{{Tool: "fs_delete", Arguments: json.RawMessage(`{"path":"a"}`)}})[0]
	if !r.NotRun || said(t, r) != "not run: context canceled" {
		t.Errorf("cancelled: %+v", r)
	}
	f.Close()
	wants{"fs_delete", `{"path":"a"}`, `"a" cannot be reached: the file provider is closed`, "not-run"}.check(t, f)
	if diff := cmp.Diff(map[string]string{"a": "A"}, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// TestFSConcurrent has writers, a mover and readers at one file. A reader sees
// one writer's whole content.
func TestFSConcurrent(t *testing.T) {
	f, dir := newFS(t, map[string]string{"f": strings.Repeat("0", 5000)})
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			content := strings.Repeat(string(rune('a'+w)), 5000)
			for range 10 {
				if r := run(t, f, "fs_write", map[string]string{"path": "f", "content": content}); r.IsError {
					t.Errorf("write: %s", r.Content)
				}
			}
		})
		all.Go(func() {
			for range 40 {
				text := said(t, run(t, f, "fs_read", `{"path":"f"}`))
				replaced := strings.Contains(text, "was replaced")
				if !replaced && strings.Count(text, text[:1]) != 5000 {
					t.Errorf("a reader saw a part: %d bytes", len(text))
				}
			}
		})
	}
	all.Wait()
	if names := tree(t, dir); len(names) != 1 {
		t.Errorf("left over: %v", names)
	}
}

func TestFSSchemas(t *testing.T) {
	f, _ := newFS(t, map[string]string{"a": "A"})
	tools, err := f.Tools(context.Background())
	if err != nil || len(tools) != len(fsTools()) {
		t.Fatalf("%d tools, %v", len(tools), err)
	}
	values := []any{nil, true, "", "a", "base64", json.Number("0"), json.Number("7"), json.Number("-1"), json.Number("1.5"),
		json.Number("2.0"), json.Number("1048577"), []any{}, map[string]any{}}
	for i, tool := range tools {
		s := compile(t, tool)
		for _, p := range append(fsTools()[i].params, param{name: "other"}, param{}) {
			for _, v := range values {
				args := required(fsTools()[i])
				if args[p.name] = v; p.name == "" {
					delete(args, "")
					delete(args, fsTools()[i].params[0].name)
				}
				raw := marshal(args)
				_, refusal := decodeArguments(fsTools()[i].params, raw)
				doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
				if err != nil {
					t.Fatal(err)
				}
				if invalid := s.Validate(doc); (invalid == nil) != (refusal == nil) {
					t.Errorf("%s %s: the schema says %v, the tool %v", tool.Name, raw, invalid, refusal)
				}
			}
		}
	}
}

func required(tool fsTool) map[string]any {
	args := map[string]any{}
	for _, p := range tool.params {
		if p.required {
			args[p.name] = "a"
		}
	}
	return args
}

func compile(t *testing.T, tool Tool) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(tool.Parameters))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("tool.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("tool.json")
	if err != nil {
		t.Fatalf("%s: %v", tool.Name, err)
	}
	return s
}
