package decider_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// maxArguments is the largest arguments a call may have, in bytes.
const maxArguments = (journaltest.MaxPayload - 64<<10) / 2

func TestBigCalls(t *testing.T) {
	fill := func(before, after, unit string) string {
		n := (maxArguments - len(before) - len(after)) / len(unit)
		return before + strings.Repeat(unit, n) + after
	}
	const policyText = "rules: [{tool: no, decision: deny}]\nroots: {x: /srv/some/where}"
	shapes := map[string]string{
		"content":       fill(`{"content":"`, `","path":"docs/a"}`, "x"),
		"escapes":       fill(`{"content":"`, `"}`, `\u0001`),
		"path":          fill(`{"path":"a/`, `"}`, "x"),
		"deep path":     fill(`{"path":"`, `a"}`, "d/"),
		"unknown path":  fill(`{"path":"~`, `"}`, "y"),
		"escaped path":  fill(`{"path":"`, `"}`, `\u0001`),
		"two paths":     fill(`{"from":"b","to":"`, `"}`, "z"),
		"host":          fill(`{"url":"https://`, `"}`, "h"),
		"line":          fill(`{"command":"echo `, `"}`, "; a"),
		"program":       fill(`{"command":"`, `"}`, "p"),
		"argv":          fill(`{"args":["`, `"],"command":"ls"}`, "q"),
		"many args":     fill(`{"args":["a"`, `],"command":"ls"}`, `,"b"`),
		"not an object": fill(`"`, `"`, "n"),
	}
	for name, args := range shapes {
		if raceDetector && name != "content" && name != "many args" {
			continue // they differ in data, not in what runs together, and cost minutes
		}
		t.Run(name, func(t *testing.T) {
			b := newBench(t, policyText)
			c := b.call("r1", "x", args)
			st := b.settle()
			if q := st.Question(st.Call(c).Last().Question); q != nil && len(q.View) > 8*journal.MaxViewArguments {
				t.Fatalf("a view of %d bytes", len(q.View)) // escapes take up to seven times the room of their bytes
			}
			switch a := st.Call(c).Last(); {
			case a.Progress == journal.Denied: // its facts are more than a commit holds
				if name != "program" && name != "many args" {
					t.Fatal(b.decision(c).Message)
				}
			case a.Question == "":
				t.Fatal(a.Progress)
			}
		})
	}
	for _, name := range []string{"path", "many args"} {
		b := newBench(t, policyText)
		b.want(b.call("r1", "no", shapes[name]), "denied rule")
	}
}

// The largest content is judged by its rule and nothing else.
func TestBigContentIsAllowed(t *testing.T) {
	b := newBench(t, scratchPolicy)
	args := `{"content":"` + strings.Repeat("x", maxArguments-40) + `","path":"scratch/a"}`
	c := b.call("r1", "fs_write", args)
	b.want(c, "allowed rule")
	if err := b.releasable(c); err != nil {
		t.Fatal(err)
	}
}

func TestBigViewSaysSo(t *testing.T) {
	b := newBench(t, scratchPolicy)
	small := `{"content":"` + strings.Repeat("x", journal.MaxViewArguments-14) + `"}`
	big := strings.Replace(small, "x", "é", 1)
	c, d := b.call("r1", "x", small), b.call("r1", "x", big)
	b.settle()
	v, err := b.question(c).ReadView()
	if err != nil || string(v.Arguments) != small || v.Preview != "" || v.Size != len(small) {
		t.Fatalf("%v: arguments of %d bytes, preview of %d", err, len(v.Arguments), len(v.Preview))
	}
	v, err = b.question(d).ReadView()
	if err != nil || v.Arguments != nil || !strings.HasPrefix(big, v.Preview) || len(v.Preview) != journal.MaxViewArguments || v.Size != len(big) {
		t.Fatalf("%v: arguments of %d bytes, preview of %d", err, len(v.Arguments), len(v.Preview))
	}
}

// Facts that outgrow a commit deny their call, and hold up no other.
func TestFactsThatFitNowhere(t *testing.T) {
	b := newBench(t, "rules: [{tool: ok, decision: allow}]\nroots: {list: /"+strings.Repeat("r", 200)+"}\npath-params: {list: [paths]}")
	paths, err := json.Marshal(strings.Split(strings.Repeat("a", 200_000), ""))
	if err != nil {
		t.Fatal(err)
	}
	c, ok := b.call("r1", "list", fmt.Sprintf(`{"paths":%s}`, paths)), b.call("r1", "ok", `{}`)
	b.want(c, "denied error")
	b.want(ok, "allowed rule")
}

// Many big questions are asked in as many commits as they need.
func TestManyBigQuestions(t *testing.T) {
	b := newBench(t, scratchPolicy)
	var calls []string
	for i := range 3 {
		var bodies []journal.Body
		for k := range 3 {
			bodies = append(bodies, b.body("r1", "x", fmt.Sprintf(`{"path":"%d/%d/%s"}`, i, k, strings.Repeat("p", 1<<20))))
		}
		calls = append(calls, b.must(journal.RoleAgent, "agent", bodies...)...)
	}
	st := b.settle()
	for _, c := range calls {
		if st.Call(c).Last().Question == "" {
			t.Fatalf("call %s is not asked about", c)
		}
	}
}

// A path with very many directories above it offers what fits.
func TestDeepPathOffersWhatFits(t *testing.T) {
	for _, depth := range []int{100, 2000, 4000, 100_000} {
		b := newBench(t, "rules: []\nroots: {'': /}")
		c := b.call("r1", "x", `{"path":"/`+strings.Repeat("d/", depth)+`f"}`)
		b.want(c, "asked")
		size := 0
		for _, rules := range b.question(c).Alternatives {
			for _, r := range rules {
				size += len(r)
			}
		}
		if size > 8<<10 {
			t.Fatalf("%d bytes of alternatives", size)
		}
	}
}

// Arguments may nest as deep as a commit takes them.
func TestDeepArguments(t *testing.T) {
	for _, depth := range []int{10, 255, 256, 257, 500, journal.MaxDepth - 4} {
		b := newBench(t, scratchPolicy)
		args := `{"a":` + strings.Repeat("[", depth) + `"]}[{"` + strings.Repeat("]", depth) + `}`
		c := b.call("r1", "x", args)
		b.want(c, "asked")
		b.answer("alice", c, journal.AllowOnce)
		b.want(c, "allowed answer")
	}
}
