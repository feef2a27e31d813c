package packs

import (
	"os"
	"slices"
	"strings"
	"testing"

	"decisionjournal/decider/policy"
)

// leastCases is how many each pack is held to.
const leastCases = 25

func TestPacks(t *testing.T) {
	var names []string
	for _, pack := range All() {
		names = append(names, pack.Name)
		t.Run(pack.Name, func(t *testing.T) {
			p := parse(t, pack.Name, pack.YAML)
			for _, w := range p.Lint() {
				t.Errorf("line %d: %s", w.Line, w.Msg)
			}
			if len(p.Roots) > 0 || pack.About == "" || len(pack.About) > 100 || strings.HasPrefix(pack.About, "#") {
				t.Errorf("roots %v, about %q", p.Roots, pack.About)
			}
			s := suite(t, pack.Name)
			if len(s.Cases) < leastCases || s.Policy != pack.Name+".yaml" {
				t.Errorf("%d cases, of %s", len(s.Cases), s.Policy)
			}
			for _, r := range s.Run(p) {
				if r.Missed {
					t.Errorf("line %d: %s: %s by %+v: %s", r.Case.Line, r.Case.Name, r.Verdict.Decision, r.Verdict.Rule, policy.Why(&r.Facts, &r.Verdict))
				}
			}
			// Without the root, absolute paths cannot be compared: that may cost an
			// allow, and never gives one.
			s.Roots = nil
			for _, r := range s.Run(p) {
				if r.Verdict.Decision > r.Case.Want {
					t.Errorf("line %d: without a root %s is more than %s", r.Case.Line, r.Verdict.Decision, r.Case.Want)
				}
			}
		})
	}
	if want := []string{"ci", "coding", "database", "readonly", "web-research"}; !slices.Equal(names, want) {
		t.Errorf("packs %v, want %v", names, want)
	}
}

// TestRooted: the file with a root is the pack, but for the root.
func TestRooted(t *testing.T) {
	const dir = `/srv/it's "my" : work #1`
	for _, pack := range All() {
		raw, err := pack.Rooted(dir)
		if err != nil {
			t.Fatal(err)
		}
		p, plain := parse(t, pack.Name, raw), parse(t, pack.Name, pack.YAML)
		if p.Roots[""] != dir || len(p.Roots) != 1 || !slices.EqualFunc(p.Rules, plain.Rules, policy.Rule.Equal) {
			t.Errorf("%s: roots %v", pack.Name, p.Roots)
		}
	}
	if _, err := (Pack{Name: "x"}).Rooted(dir); err == nil {
		t.Error("a pack without a line for its root was given one")
	}
}

func TestFind(t *testing.T) {
	if p, ok := Find("coding"); !ok || p.Name != "coding" || len(p.YAML) == 0 {
		t.Errorf("found %q, %v", p.Name, ok)
	}
	for _, name := range []string{"", "coding.yaml", "../policy", "coding.test"} {
		if p, ok := Find(name); ok {
			t.Errorf("%q found %q", name, p.Name)
		}
	}
}

func parse(t *testing.T, name string, raw []byte) *policy.Policy {
	t.Helper()
	p, err := policy.Parse(name+".yaml", raw)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func suite(t *testing.T, name string) *policy.Suite {
	t.Helper()
	file := name + ".test.yaml"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := policy.ParseSuite(file, raw)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
