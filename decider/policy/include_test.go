package policy

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// filesOf reads from a map.
func filesOf(files map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		text, ok := files[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}
}

func TestLoad(t *testing.T) {
	p, err := Load("dir/p.yaml", filesOf(map[string]string{
		"dir/p.yaml":     "# mine\ninclude: [sub/a.yaml, {file: ../b.json, allows: true}]\nroots: {'': /srv}\nsettings: {deadline: 2h}\nrules:\n  - {tool: own, decision: allow}\n",
		"dir/sub/a.yaml": "include: c.yaml\nrules:\n  - {tool: a, decision: deny, note: 'quoted \"x\" <y>'}\n",
		"dir/sub/c.yaml": "rules: [{tool: c, decision: ask, remember: true}]",
		"b.json":         `{"rules": [{"tool": "b", "decision": "allow", "under": "x"}]}`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, r := range p.Rules {
		got = append(got, r.YAML())
		if line := p.RuleLine(i); (i == 0) != (line == 6) {
			t.Errorf("rule %d is on line %d", i, line)
		}
	}
	want := []string{
		`{tool: own, decision: allow}`, `{tool: a, decision: deny, note: "quoted \"x\" <y>"}`, `{tool: c, decision: ask, remember: true}`, `{tool: b, decision: allow, under: x}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("rules\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	again, err := Parse("stored", p.Bytes())
	if err != nil || again.Digest() != p.Digest() || len(again.Rules) != 4 || again.Root("x") != "/srv" {
		t.Errorf("its bytes are %s: %v", p.Bytes(), err)
	}
	plain, err := Load("q.yaml", filesOf(map[string]string{"q.yaml": "rules: [] # as it is\n"}))
	if err != nil || string(plain.Bytes()) != "rules: [] # as it is\n" {
		t.Errorf("without include: %s, %v", plain.Bytes(), err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"an allow":           {map[string]string{"p.yaml": "include: a.yaml", "a.yaml": "rules:\n- {tool: a, decision: allow}"}, "a.yaml:2: rules[0] allows, and an included file may only deny and ask"},
		"an allow below":     {map[string]string{"p.yaml": "include: a.yaml", "a.yaml": "include: {file: b.yaml, allows: true}", "b.yaml": "rules: [{tool: a, decision: allow}]"}, "b.yaml:1: rules[0] allows"},
		"a circle":           {map[string]string{"p.yaml": "include: a.yaml", "a.yaml": "include: p.yaml"}, "a.yaml:1: include: p.yaml > a.yaml > p.yaml includes itself"},
		"not there":          {map[string]string{"p.yaml": "rules: []\ninclude: a.yaml"}, "p.yaml:2: include: open a.yaml: file does not exist"},
		"absolute":           {map[string]string{"p.yaml": "include: /a.yaml"}, `p.yaml:1: include[0]: "/a.yaml" is no relative path`},
		"empty":              {map[string]string{"p.yaml": "include: [{allows: true}]"}, "p.yaml:1: include[0]: name a file"},
		"another member":     {map[string]string{"p.yaml": "include: a.yaml", "a.yaml": "floor: off"}, `a.yaml:1: an included file: unknown member "floor"`},
		"a fault of its own": {map[string]string{"p.yaml": "include: a.yaml\nrulse: []", "a.yaml": "rules: []"}, `p.yaml:2: policy: unknown member "rulse"`},
		"a fault in a rule":  {map[string]string{"p.yaml": "include: a.yaml", "a.yaml": "rules: [{tool: a, decision: deny, ander: x}]"}, `a.yaml:1: rules[0]: unknown member "ander"`},
		"no document":        {map[string]string{"p.yaml": "include: a.yaml", "a.yaml": "rules: ["}, "a.yaml: not YAML"},
		"itself not there":   {map[string]string{}, "open p.yaml"},
	} {
		_, err := Load("p.yaml", filesOf(tc.files))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	many := map[string]string{"p.yaml": "include: [" + strings.Repeat("a.yaml, ", maxIncludes+1) + "]", "a.yaml": ""}
	if _, err := Load("p.yaml", filesOf(many)); err == nil || !strings.Contains(err.Error(), "more than 100 files") {
		t.Errorf("many files: %v", err)
	}
	if _, err := Parse("p.yaml", []byte("include: a.yaml")); err == nil || !strings.Contains(err.Error(), "only a policy file that is read by its name") {
		t.Errorf("bytes that include: %v", err)
	}
	if _, err := Load("p.yaml", filesOf(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
