package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxFaults bounds how many faults one document reports.
const maxFaults = 20

// decoder turns nodes into values and collects what is wrong with them.
type decoder struct {
	file   string
	faults []error
	at     map[string]int // lines of what is checked once all is read
}

// mark remembers where something stands.
func (d *decoder) mark(what string, n *node) {
	if d.at == nil {
		d.at = map[string]int{}
	}
	d.at[what] = n.line
}

func (d *decoder) err() error { return errors.Join(d.faults...) }

func (d *decoder) fault(line int, format string, args ...any) {
	if len(d.faults) < maxFaults {
		d.faults = append(d.faults, &Error{File: d.file, Line: line, Msg: fmt.Sprintf(format, args...)})
	}
}

func (d *decoder) is(n *node, want kind, what string) bool {
	if n.kind == want {
		return true
	}
	hint := ""
	if want == kindString && (n.kind == kindNumber || n.kind == kindBool) {
		hint = "; write it in quotes"
	}
	d.fault(n.line, "%s must be %s, not %s%s", what, want, n.kind, hint)
	return false
}

// fields maps an object's member names to what reads them.
type fields map[string]func(*node)

// object reads an object whose members must be among f, each at most once. It
// reports which were there.
func (d *decoder) object(n *node, what string, f fields) map[string]bool {
	seen := map[string]bool{}
	d.members(n, what, func(k key, v *node) {
		read, ok := f[k.name]
		if !ok {
			d.fault(k.line, "%s: unknown member %q%s", what, k.name, nearest(k.name, f))
			return
		}
		seen[k.name] = true
		read(v)
	})
	return seen
}

// members calls f for each member of an object; repeated ones are faults.
func (d *decoder) members(n *node, what string, f func(key, *node)) {
	if !d.is(n, kindObject, what) {
		return
	}
	seen := map[string]bool{}
	for i, k := range n.keys {
		if seen[k.name] {
			d.fault(k.line, "%s: member %q is there twice", what, k.name)
			continue
		}
		seen[k.name] = true
		f(k, n.items[i])
	}
}

// nearest names the member that was meant: one that differs only in letter case
// or by "_" for "-", or in a letter or two; else lists what is known.
func nearest(name string, f fields) string {
	known := slices.Sorted(maps.Keys(f))
	for _, k := range known {
		if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), k) {
			return fmt.Sprintf("; write %q", k)
		}
	}
	best, closest := maxTypos+1, ""
	for _, k := range known {
		if d := typos(name, k); d < best {
			best, closest = d, k
		}
	}
	if closest != "" {
		return fmt.Sprintf("; did you mean %q?", closest)
	}
	return "; known are " + strings.Join(known, ", ")
}

// maxTypos is how far a member's name may be from the one that was meant.
const maxTypos = 2

// typos counts the letters that have to be changed, added, dropped or swapped with
// the next to make one name of the other. It is more than maxTypos unless that can
// be a slip, which leaves more than half of a name alone.
func typos(a, b string) int {
	const far = maxTypos + 1
	if len(a) > len(b)+maxTypos || len(b) > len(a)+maxTypos {
		return far
	}
	var before []int // the row above last
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(last[j]+flag(a[i] != b[j]), last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	if d := last[len(b)]; 2*d < max(len(a), len(b)) {
		return d
	}
	return far
}

func (d *decoder) text(n *node, what string, to *string) {
	if d.is(n, kindString, what) {
		*to = n.text
	}
}

// word reads a string that must not be empty.
func (d *decoder) word(n *node, what string, to *string) {
	if !d.is(n, kindString, what) {
		return
	}
	if n.text == "" {
		d.fault(n.line, "%s may not be empty", what)
	}
	*to = n.text
}

func (d *decoder) boolean(n *node, what string, to *bool) {
	if d.is(n, kindBool, what) {
		*to = strings.EqualFold(n.text, "true")
	}
}

// count reads a whole number from least up to a thousand.
func (d *decoder) count(n *node, what string, least int, to *int) {
	if !d.is(n, kindNumber, what) {
		return
	}
	v, err := strconv.Atoi(n.text)
	if err != nil || v < least || v > 1000 {
		d.fault(n.line, "%s must be a whole number from %d to 1000, not %s", what, least, n.text)
		return
	}
	*to = v
}

func (d *decoder) duration(n *node, what string, to *time.Duration) {
	if !d.is(n, kindString, what) {
		return
	}
	v, err := ParseDuration(n.text)
	if err != nil {
		d.fault(n.line, "%s: %v", what, err)
		return
	}
	*to = v
}

func (d *decoder) list(n *node, what string, f func(i int, item *node)) {
	if !d.is(n, kindList, what) {
		return
	}
	for i, item := range n.items {
		f(i, item)
	}
}

// words reads a list of strings, none empty; the result is never nil.
func (d *decoder) words(n *node, what string, to *[]string) {
	out := []string{}
	d.list(n, what, func(i int, item *node) {
		var s string
		d.word(item, fmt.Sprintf("%s[%d]", what, i), &s)
		out = append(out, s)
	})
	*to = out
}

// patterns reads a list of exact names and prefixes ending in "*".
func (d *decoder) patterns(n *node, what string, to *[]string) {
	d.words(n, what, to)
	for _, s := range *to {
		if err := checkPattern(what, s); err != nil {
			d.fault(n.line, "%v", err)
		}
	}
}

// ruleFields reads a rule's members into r.
func (d *decoder) ruleFields(what string, r *Rule) fields {
	in := func(name string) string { return what + ": " + name }
	return fields{
		"tool":     func(n *node) { d.word(n, in("tool"), &r.Tool) },
		"decision": func(n *node) { d.decision(n, in("decision"), &r.Decision) },
		"under":    func(n *node) { d.word(n, in("under"), &r.Under) },
		"host":     func(n *node) { d.word(n, in("host"), &r.Host) },
		"command":  func(n *node) { d.word(n, in("command"), &r.Command) },
		"args":     func(n *node) { d.words(n, in("args"), &r.Args) },
		"args-any": func(n *node) { d.words(n, in("args-any"), &r.ArgsAny) },
		"check":    func(n *node) { d.word(n, in("check"), &r.Check) },
		"note":     func(n *node) { d.word(n, in("note"), &r.Note) },
		"severity": func(n *node) { d.word(n, in("severity"), &r.Severity) },
		"remember": func(n *node) { d.boolean(n, in("remember"), &r.Remember) },
		"exact":    func(n *node) { d.boolean(n, in("exact"), &r.Exact) },
	}
}

func (d *decoder) decision(n *node, what string, to *Decision) {
	if !d.is(n, kindString, what) {
		return
	}
	if err := to.UnmarshalText([]byte(n.text)); err != nil {
		d.fault(n.line, "%s: %v", what, err)
	}
}

// rule reads a whole rule and validates it.
func (d *decoder) rule(n *node, what string) Rule {
	var r Rule
	before := len(d.faults)
	seen := d.object(n, what, d.ruleFields(what, &r))
	if n.kind != kindObject {
		return r
	}
	for _, name := range []string{"tool", "decision"} {
		if !seen[name] && len(d.faults) == before {
			d.fault(n.line, "%s: member %q is missing", what, name)
		}
	}
	// A value of the wrong type was named already; do not name it again.
	if len(d.faults) > before {
		return r
	}
	for _, fault := range r.faults() {
		d.fault(n.line, "%s: %v", what, fault)
	}
	return r
}

// ParseDuration reads a duration as time.ParseDuration does, with whole days
// in front if wanted ("24h", "7d", "1d12h"). Negative ones are refused; "0"
// means off wherever a policy takes a duration.
func ParseDuration(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		days, rest = "0", s
	} else if rest == "" {
		rest = "0"
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("duration %q is not understood; write for example 30m, 24h or 7d", s)
	}
	v, err := time.ParseDuration(rest)
	if err != nil || v < 0 || strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+") {
		return 0, fmt.Errorf("duration %q is not understood; write for example 30m, 24h or 7d", s)
	}
	const day = 24 * time.Hour
	if v > 10000*day {
		return 0, fmt.Errorf("duration %q is too long", s)
	}
	return time.Duration(n)*day + v, nil
}

// offset reads a byte offset.
func (d *decoder) offset(n *node, what string, to *int) {
	if !d.is(n, kindNumber, what) {
		return
	}
	v, err := strconv.ParseUint(n.text, 10, 31)
	if err != nil {
		d.fault(n.line, "%s must be a byte offset, not %s", what, n.text)
		return
	}
	*to = int(v)
}
