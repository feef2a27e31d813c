package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Facts reads a call's arguments: its locations, hosts and commands, and what
// of them could not be read. Arguments that are nil, JSON null, not an object,
// not UTF-8 or hold a member twice are unreadable as a whole.
func (p *Policy) Facts(tool string, arguments json.RawMessage) Facts {
	f := Facts{Root: p.Root(tool)}
	args, err := readArguments(arguments)
	if err != nil {
		f.Unreadable = true
		return f
	}
	f.Paths = p.paths(tool, args, f.Root)
	f.Hosts = hosts(args)
	f.Commands = p.commands(tool, args)
	return f
}

// Root returns the root of a tool: that of the longest prefix of its name in
// Roots, "" if there is none.
func (p *Policy) Root(tool string) string {
	best, root := -1, ""
	for prefix, dir := range p.Roots {
		if strings.HasPrefix(tool, prefix) && len(prefix) > best {
			best, root = len(prefix), dir
		}
	}
	return root
}

// argument is one member of an arguments object.
type argument struct {
	name string
	raw  json.RawMessage
}

// readArguments lists an object's members in order.
func readArguments(b []byte) ([]argument, error) {
	if !utf8.Valid(b) || !json.Valid(b) {
		return nil, fmt.Errorf("not JSON in UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("not an object")
	}
	var out []argument
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		a := argument{name: fmt.Sprint(t)}
		if err := dec.Decode(&a.raw); err != nil {
			return nil, err
		}
		if seen[a.name] {
			return nil, fmt.Errorf("member %q is there twice", a.name)
		}
		seen[a.name] = true
		out = append(out, a)
	}
	return out, nil
}

// lookup finds a parameter. A provider may well match names without letter
// case, so a second spelling makes the value ambiguous.
func lookup(args []argument, name string) (raw json.RawMessage, present, ambiguous bool) {
	for _, a := range args {
		if a.name == name {
			raw, present = a.raw, true
		} else if strings.EqualFold(a.name, name) {
			ambiguous = true
		}
	}
	return raw, present, ambiguous && present
}

// text reads a JSON string.
func text(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	return s, json.Unmarshal(raw, &s) == nil
}

func (p *Policy) paths(tool string, args []argument, root string) []Place {
	params, listed := p.pathParams(tool)
	var out []Place
	for _, name := range params {
		raw, present, ambiguous := lookup(args, name)
		switch {
		case !present:
		case ambiguous:
			out = append(out, Place{Unknown: whyAmbiguous})
		default:
			out = append(out, places(raw, root, listed)...)
		}
	}
	return out
}

// pathParams names a tool's location parameters, and says whether the policy
// named them itself.
func (p *Policy) pathParams(tool string) (names []string, listed bool) {
	if named, ok := lookupPattern(p.PathParams, tool); ok {
		return named, true
	}
	return []string{"path", "from", "to"}, false
}

// places reads one location value; with listed, a list of strings is several.
func places(raw json.RawMessage, root string, listed bool) []Place {
	if s, ok := text(raw); ok {
		return []Place{place(root, s)}
	}
	var items []json.RawMessage
	if !listed || json.Unmarshal(raw, &items) != nil || items == nil {
		return []Place{{Unknown: whyNotText}}
	}
	out := []Place{}
	for _, item := range items {
		out = append(out, places(item, root, false)...)
	}
	return out
}

func hosts(args []argument) []Host {
	raw, present, ambiguous := lookup(args, "url")
	if !present {
		return nil
	}
	s, ok := text(raw)
	switch {
	case ambiguous:
		return []Host{{Unknown: whyAmbiguous}}
	case !ok:
		return []Host{{Unknown: whyNotText}}
	}
	name, ok := host(s)
	if !ok {
		return []Host{{Unknown: whyURL}}
	}
	return []Host{{Host: name}}
}

// commands reads the effective commands of a call: none if the parameter that
// names one is missing.
func (p *Policy) commands(tool string, args []argument) []Command {
	names, _ := lookupPattern(p.CommandParams, tool)
	if names.Line != "" {
		return lineCommands(args, names.Line)
	}
	raw, present, ambiguous := lookup(args, orElse(names.Command, "command"))
	if !present {
		return nil
	}
	program, ok := text(raw)
	switch {
	case ambiguous:
		return []Command{{Unknown: whyAmbiguous}}
	case !ok:
		return []Command{{Unknown: whyNotText}}
	}
	if doubt := programDoubt(program); doubt != "" {
		return []Command{{Unknown: doubt}}
	}
	return p.argv(program, args, orElse(names.Args, "args"))
}

func lineCommands(args []argument, name string) []Command {
	raw, present, _ := lookup(args, name)
	if !present {
		return nil
	}
	if _, ok := text(raw); !ok {
		return []Command{{Unknown: whyNotText}}
	}
	return []Command{{Unknown: whyLine}}
}

// argv reads a program with its argument list, and what it may run in turn.
func (p *Policy) argv(program string, args []argument, param string) []Command {
	c := Command{Program: baseName(program), Where: programPlace(program, p.Roots)}
	if c.Program != program {
		c.Path = program
	}
	raw, present, ambiguous := lookup(args, param)
	switch {
	case !present:
		c.Sealed = true
	case !ambiguous:
		c.Args, c.Sealed = tokens(raw)
	}
	if runsOthers(c) {
		return []Command{c, {Unknown: whyBehind}}
	}
	return []Command{c}
}

// tokens reads an argument list up to the first element that cannot be read.
func tokens(raw json.RawMessage) (argv []string, sealed bool) {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil || items == nil {
		return nil, false
	}
	for _, item := range items {
		s, ok := token(item)
		if !ok {
			return argv, false
		}
		argv = append(argv, s)
	}
	return argv, true
}

// token reads a string, or a number whose digits are the one way to print it.
func token(raw json.RawMessage) (string, bool) {
	if s, ok := text(raw); ok {
		return s, !strings.ContainsRune(s, utf8.RuneError)
	}
	return string(raw), plainNumber(string(raw))
}

// plainNumber accepts a decimal number every printer writes alike: no
// exponent, no trailing zero after the point, at most 15 digits, not -0.
func plainNumber(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	for _, part := range []string{whole, fraction} {
		if strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	if point && (len(fraction) > 6 || strings.HasSuffix(fraction, "0")) {
		return false
	}
	return whole != "" && len(whole)+len(fraction) <= 15 && s != "-0"
}

// lookupPattern finds the most precise pattern of m that covers name.
func lookupPattern[T any](m map[string]T, name string) (value T, ok bool) {
	best := ""
	for pattern, v := range m {
		if matchPattern(pattern, name) && (!ok || morePrecise(pattern, best) > 0) {
			best, value, ok = pattern, v, true
		}
	}
	return value, ok
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// DigestArguments returns the arguments object without the tool's advisory
// parameters, for the caller to canonicalise and digest. The members left are
// verbatim and in order. Arguments that are no readable object, and those
// with nothing advisory, come back as they are.
func (p *Policy) DigestArguments(tool string, arguments json.RawMessage) json.RawMessage {
	advisory, ok := lookupPattern(p.AdvisoryParams, tool)
	args, err := readArguments(arguments)
	if !ok || err != nil {
		return arguments
	}
	kept := slices.DeleteFunc(slices.Clone(args), func(a argument) bool { return slices.Contains(advisory, a.name) })
	if len(kept) == len(args) {
		return arguments
	}
	return writeObject(kept)
}

func writeObject(args []argument) json.RawMessage {
	out := []byte{'{'}
	for i, a := range args {
		if i > 0 {
			out = append(out, ',')
		}
		// A name is a valid string already, so it always has a JSON form.
		name, _ := json.Marshal(a.name)
		out = append(append(append(out, name...), ':'), a.raw...)
	}
	return append(out, '}')
}
