package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// observer has every kind of parameter.
const observer = `{"roots": {"": "/srv", "sh": "/work"},
 "path-params": {"list": ["files"], "git_*": ["repo"]},
 "command-params": {"Bash": {"line": "command"}, "run_*": {"command": "cmd", "args": "argv"}},
 "advisory-params": {"Bash": ["description"], "b*": ["why", "id"]}}`

func TestFacts(t *testing.T) {
	p := mustParse(t, "o.json", observer)
	for _, tc := range []struct{ tool, args, want string }{
		{"x", `{}`, `{"root":"/srv"}`},
		{"x", ``, `{"root":"/srv","unreadable":true}`},
		{"x", `null`, `{"root":"/srv","unreadable":true}`},
		{"x", `[]`, `{"root":"/srv","unreadable":true}`},
		{"x", `{"path":"a"`, `{"root":"/srv","unreadable":true}`},
		{"x", `{"path":"a","path":"b"}`, `{"root":"/srv","unreadable":true}`},
		{"x", "{\"path\":\"a\xff\"}", `{"root":"/srv","unreadable":true}`},
		{"x", `{"to":"c","path":"a","from":"/b"}`, `{"paths":[{"path":"/srv/a"},{"path":"/b"},{"path":"/srv/c"}],"root":"/srv"}`},
		{"x", `{"path":"a","Path":"/etc"}`, `{"paths":[{"path":"","unknown":"ambiguous"}],"root":"/srv"}`},
		{"x", `{"PATH":"/etc"}`, `{"root":"/srv"}`},
		{"x", `{"path":"\ud800"}`, `{"paths":[{"path":"/srv/�","unknown":"encoding"}],"root":"/srv"}`},
		{"x", `{"path":"~/x","from":"c:/x","to":"c:x"}`, `{"paths":[{"path":"~/x","unknown":"tilde"},{"path":"/srv/c:/x","unknown":"drive"},{"path":"/srv/c:x"}],"root":"/srv"}`},
		{"x", `{"path":["a"]}`, `{"paths":[{"path":"","unknown":"not-text"}],"root":"/srv"}`},
		{"list", `{"files":["a",5,["b"]],"path":"/no"}`, `{"paths":[{"path":"/srv/a"},{"path":"","unknown":"not-text"},{"path":"","unknown":"not-text"}],"root":"/srv"}`},
		{"list", `{"files":[]}`, `{"root":"/srv"}`},
		{"list", `{"files":null}`, `{"paths":[{"path":"","unknown":"not-text"}],"root":"/srv"}`},
		{"git_log", `{"repo":"r"}`, `{"paths":[{"path":"/srv/r"}],"root":"/srv"}`},
		{"x", `{"url":"https://A.b:1/"}`, `{"hosts":[{"host":"a.b"}],"root":"/srv"}`},
		{"x", `{"url":"https://[0:0::1]/"}`, `{"hosts":[{"host":"::1"}],"root":"/srv"}`},
		{"x", `{"url":"https://a.b/x y"}`, `{"hosts":[{"host":"","unknown":"not-a-plain-url"}],"root":"/srv"}`},
		{"x", `{"url":"https://a.b/\u007f"}`, `{"hosts":[{"host":"","unknown":"not-a-plain-url"}],"root":"/srv"}`},
		{"x", `{"url":"https://u@[::1]/"}`, `{"hosts":[{"host":"","unknown":"not-a-plain-url"}],"root":"/srv"}`},
		{"x", `{"url":"https://[::1]@a.b/"}`, `{"hosts":[{"host":"","unknown":"not-a-plain-url"}],"root":"/srv"}`},
		{"x", `{"url":"https://u:80@a.b/"}`, `{"hosts":[{"host":"","unknown":"not-a-plain-url"}],"root":"/srv"}`},
		{"x", `{"url":"https://[::1]80/"}`, `{"hosts":[{"host":"","unknown":"not-a-plain-url"}],"root":"/srv"}`},
		{"x", `{"url":"https://a.b:65536/"}`, `{"hosts":[{"host":"","unknown":"not-a-plain-url"}],"root":"/srv"}`},
		{"x", `{"url":"https://a.b","URL":"https://c.d"}`, `{"hosts":[{"host":"","unknown":"ambiguous"}],"root":"/srv"}`},
		{"x", `{"url":5}`, `{"hosts":[{"host":"","unknown":"not-text"}],"root":"/srv"}`},
		{"Bash", `{"command":"ls"}`, `{"commands":[{"program":"ls","sealed":true,"span":[0,2]}],"root":"/srv"}`},
		{"Bash", `{"command":"ls","Command":"rm"}`, `{"commands":[{"unknown":"ambiguous"}],"root":"/srv"}`},
		{"Bash", `{"command":5}`, `{"commands":[{"unknown":"not-text"}],"root":"/srv"}`},
		{"Bash", `{}`, `{"root":"/srv"}`},
		{"sh", `{"command":"ls"}`, `{"commands":[{"program":"ls","sealed":true}],"root":"/work"}`},
		{"sh", `{"command":"ls","args":["a",7,1.5]}`, `{"commands":[{"args":["a","7","1.5"],"program":"ls","sealed":true}],"root":"/work"}`},
		{"sh", `{"command":"ls","args":["a",1e3,"b"]}`, `{"commands":[{"args":["a"],"program":"ls"}],"root":"/work"}`},
		{"sh", `{"command":"ls","args":"a"}`, `{"commands":[{"program":"ls"}],"root":"/work"}`},
		{"sh", `{"command":"ls","args":null}`, `{"commands":[{"program":"ls"}],"root":"/work"}`},
		{"sh", `{"command":"ls","args":["a"],"Args":["b"]}`, `{"commands":[{"program":"ls"}],"root":"/work"}`},
		{"sh", `{"command":"ls","Command":"rm"}`, `{"commands":[{"unknown":"ambiguous"}],"root":"/work"}`},
		{"sh", `{"command":"ls -l"}`, `{"commands":[{"args":["-l"],"program":"ls","sealed":true,"span":[0,5]}],"root":"/work"}`},
		{"sh", `{"command":"ls -l","args":[]}`, `{"commands":[{"args":["-l"],"program":"ls","sealed":true,"span":[0,5]}],"root":"/work"}`},
		{"sh", `{"command":"ls -l","args":["x"]}`, `{"commands":[{"unknown":"shell-line"}],"root":"/work"}`},
		{"sh", `{"command":"ls > out; X=1 ls >$Y"}`, `{"commands":[{"program":"ls","sealed":true,"span":[0,2],"writes":[{"path":"/work/out"}]},` +
			`{"assigns":["X"],"program":"ls","sealed":true,"span":[10,16],"writes":[{"path":"$Y","unknown":"expansion"}]}],"root":"/work"}`},
		{"sh", `{"command":"l\u0001s"}`, `{"commands":[{"unknown":"control-character"}],"root":"/work"}`},
		{"sh", `{"command":"g\ud800t"}`, `{"commands":[{"unknown":"encoding"}],"root":"/work"}`},
		{"sh", `{"command":"git","args":["a","\ud800"]}`, `{"commands":[{"args":["a"],"program":"git"}],"root":"/work"}`},
		{"sh", `{"command":"C:git"}`, `{"commands":[{"path":"C:git","program":"git","sealed":true,"where":"relative"}],"root":"/work"}`},
		{"sh", `{"command":".exe"}`, `{"commands":[{"program":".exe","sealed":true}],"root":"/work"}`},
		{"sh", `{"command":"//"}`, `{"commands":[{"unknown":"empty"}],"root":"/work"}`},
		{"sh", `{"command":"/usr/bin/git"}`, `{"commands":[{"path":"/usr/bin/git","program":"git","sealed":true}],"root":"/work"}`},
		{"sh", `{"command":"./git"}`, `{"commands":[{"path":"./git","program":"git","sealed":true,"where":"relative"}],"root":"/work"}`},
		{"sh", `{"command":"/srv/bin/git"}`, `{"commands":[{"path":"/srv/bin/git","program":"git","sealed":true,"where":"root"}],"root":"/work"}`},
		{"run_it", `{"cmd":"make","argv":["x"],"command":"no"}`, `{"commands":[{"args":["x"],"program":"make","sealed":true}],"root":"/srv"}`},
		{"sh", `{"command":"ENV.exe","args":["git"]}`, `{"commands":[{"args":["git"],"carrier":true,"path":"ENV.exe","program":"ENV","sealed":true},{"program":"git","sealed":true,"via":["ENV.exe"]}],"root":"/work"}`},
	} {
		f := p.Facts(tc.tool, json.RawMessage(tc.args))
		got, err := json.Marshal(f)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s %s:\n  got  %s %v\n  want %s", tc.tool, tc.args, got, err, tc.want)
		}
		var back Facts
		if err := json.Unmarshal(got, &back); err != nil {
			t.Errorf("%s: facts do not read back: %v", got, err)
		} else if again, _ := json.Marshal(back); string(again) != string(got) {
			t.Errorf("facts change when read back:\n  %s\n  %s", got, again)
		}
	}
}

func TestFactsAreStrict(t *testing.T) {
	for in, want := range map[string]string{
		`{"Root":"/"}`:                              `unknown member "Root"; write "root"`,
		`{"root":"/","root":"/"}`:                   "there twice",
		`{"paths":[{"path":"a","x":1}]}`:            `paths[0]: unknown member "x"`,
		`{"hosts":[{"host":1}]}`:                    "hosts[0]: host must be a string",
		`{"commands":[{"program":""}]}`:             "may not be empty",
		`{"commands":[{"sealed":"true"}]}`:          "must be a boolean",
		`{"commands":[{"span":[-1,2]}]}`:            "byte offset",
		`{"commands":[{"writes":[{"unknown":7}]}]}`: "must be a string",
		`[]`:   "must be an object",
		`{} x`: "not JSON",
	} {
		f := Facts{Root: "before"}
		err := f.UnmarshalJSON([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", in, err, want)
		}
		if diff := cmp.Diff(Facts{}, f); diff != "" {
			t.Errorf("%s: facts beside the error:\n%s", in, diff)
		}
	}
}

func TestFactsReadEveryMember(t *testing.T) {
	want := Facts{
		Commands: []Command{{Args: []string{"", "a"}, Assigns: []string{"A"}, Path: "/bin/x", Program: "x", Sealed: true,
			Span: []int{0, 7}, Unknown: "u", Where: "root", Writes: []Place{{Path: "/w", Unknown: "nul"}}}},
		Hosts: []Host{{Host: "h", Unknown: "u"}}, Paths: []Place{{Path: "/p", Unknown: "u"}}, Root: "/", Unreadable: true,
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Facts
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts differ when read back:\n%s", diff)
	}
}

func TestProgramPlace(t *testing.T) {
	roots := map[string]string{"": "/srv/work"}
	for in, want := range map[string]string{
		"git": "", "git.exe": "", "/usr/bin/git": "", `C:\bin\git.EXE`: "", "C:/bin/git": "",
		"./git": "relative", "bin/git": "relative", "git/": "relative", "~/bin/git": "relative", `bin\git`: "relative",
		`\bin\git`: "relative", `\\host\share\git`: "relative", "//host/git": "relative", "C:git": "relative", `/usr/x\git`: "relative",
		"/tmp/git": "temporary", "/TMP/git": "temporary", "/var/tmp/x/git": "temporary", "/dev/shm/git": "temporary",
		"/private/var/folders/a/git": "temporary", "/run/user/1/git": "temporary", `C:\Windows\Temp\git`: "temporary",
		"/usr/../tmp/git": "temporary", "/usr/bin/../../home/git": "temporary",
		"/srv/work/git": "root", "/SRV/Work/bin/git": "root", "/srv/worker/git": "", "/usr/tmpfiles/git": "",
	} {
		if got := programPlace(in, roots); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
	if got := programPlace("/usr/bin/git", map[string]string{"": "work"}); got != whereRoot {
		t.Errorf("a program that may lie in a relative root: %q, want %q", got, whereRoot)
	}
}

func TestPlainNumber(t *testing.T) {
	for in, want := range map[string]bool{
		"0": true, "7": true, "-7": true, "1.5": true, "-0.5": true, "123456789012345": true,
		"-0": false, "1.50": false, "1.0": false, "1e3": false, "1E3": false, "1234567890123456": false, "0.0000001": false,
		"true": false, "null": false, "{}": false, "[]": false, "": false, "-": false,
	} {
		if got := plainNumber(in); got != want {
			t.Errorf("%s: %v, want %v", in, got, want)
		}
	}
}

func TestDigestArguments(t *testing.T) {
	p := mustParse(t, "o.json", observer)
	for _, tc := range []struct{ tool, in, want string }{
		{"Bash", `{"command":"ls","description":"list"}`, `{"command":"ls"}`},
		{"Bash", `{ "command" : "ls" }`, `{ "command" : "ls" }`},
		{"Bash", `{"description":"list"}`, `{}`},
		{"Bash", `{"description":"a","Description":"b","n":1.50, "o":{"description":1}}`, `{"Description":"b","n":1.50,"o":{"description":1}}`},
		{"other", `{"description":"list"}`, `{"description":"list"}`},
		{"bee", `{"id":1,"a":1,"why":2,"b":2}`, `{"a":1,"b":2}`},
		{"Bash", `null`, `null`},
		{"Bash", `{"description":1,"description":2}`, `{"description":1,"description":2}`},
		{"Bash", `[1]`, `[1]`},
		{"Bash", ``, ``},
	} {
		if got := string(p.DigestArguments(tc.tool, json.RawMessage(tc.in))); got != tc.want {
			t.Errorf("%s %s: %s, want %s", tc.tool, tc.in, got, tc.want)
		}
	}
}
