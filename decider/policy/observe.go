package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"decisionjournal/decider/policy/shell"
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
	f.Commands = p.commands(tool, args, f.Root)
	if p.checked() {
		f.Checks = p.Floor.callChecks(tool, p.CalledAs(tool), f.Paths)
	}
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
		return nil, errors.New("not JSON in UTF-8")
	}
	b = bytes.TrimSpace(b)
	if b[0] != '{' {
		return nil, errors.New("not an object")
	}
	out := make([]argument, 0, 4)
	for rest := after(b, '{'); rest[0] != '}'; { // it is valid, so nothing can be missing
		name, end := "", stringEnd(rest)
		if err := json.Unmarshal(rest[:end], &name); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(a argument) bool { return a.name == name }) {
			return nil, fmt.Errorf("member %q is there twice", name)
		}
		rest = after(rest[end:], ':')
		end = valueEnd(rest)
		out = append(out, argument{name, json.RawMessage(bytes.TrimRight(rest[:end], " \t\r\n"))})
		if rest = rest[end:]; rest[0] == ',' {
			rest = after(rest, ',')
		}
	}
	return out, nil
}

// after is what follows a byte that comes next, and blanks.
func after(b []byte, c byte) []byte {
	return bytes.TrimLeft(b[bytes.IndexByte(b, c)+1:], " \t\r\n")
}

// stringEnd is the length of the JSON string that valid text begins with.
func stringEnd(b []byte) int {
	for i := 1; ; i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// valueEnd is where the value that valid text of a member begins with is over.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			i += stringEnd(b[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
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
	if name := p.patchParam(tool); name != "" {
		if raw, present, ambiguous := lookup(args, name); ambiguous {
			out = append(out, Place{Unknown: whyAmbiguous})
		} else if present {
			out = append(out, patchPlaces(raw, root)...)
		}
	}
	return out
}

// patchParam is the parameter that holds a patch, "" for none.
func (p *Policy) patchParam(tool string) string {
	if _, listed := lookupPattern(p.PathParams, tool); listed {
		return ""
	}
	return p.nameOf(tool).Patch
}

// pathParams names a tool's location parameters, and says whether the policy
// named them itself.
func (p *Policy) pathParams(tool string) (names []string, listed bool) {
	if named, ok := lookupPattern(p.PathParams, tool); ok {
		return named, true
	}
	if name := p.nameOf(tool); name.Paths != nil || name.Patch != "" {
		return name.Paths, true
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

// CommandNames says which parameters of a tool hold a command. The zero value is
// command and args.
func (p *Policy) CommandNames(tool string) CommandParams {
	if names, ok := lookupPattern(p.CommandParams, tool); ok {
		return names
	}
	return p.nameOf(tool).Command
}

// commands reads the effective commands of a call: none if the parameter that
// names one is missing.
func (p *Policy) commands(tool string, args []argument, root string) []Command {
	names := p.CommandNames(tool)
	switch {
	case names.Line != "":
		return p.lineParam(args, names.Line, root)
	case names.Argv != "":
		return p.argvParam(args, names.Argv, root)
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
	argv, sealed := argvOf(args, orElse(names.Args, "args"))
	if strings.ContainsAny(program, lineBytes) {
		if len(argv) > 0 || !sealed {
			return []Command{{Unknown: whyLine}} // a line, and words after it
		}
		return p.effective(shell.Commands(program), root, true)
	}
	if doubt := programDoubt(program); doubt != "" {
		return []Command{{Unknown: doubt}}
	}
	return p.effective(shell.Argv(append([]string{program}, argv...), sealed), root, false)
}

// lineParam reads a parameter that holds a whole line.
func (p *Policy) lineParam(args []argument, name, root string) []Command {
	raw, present, ambiguous := lookup(args, name)
	if !present {
		return nil
	}
	line, ok := text(raw)
	switch {
	case ambiguous:
		return []Command{{Unknown: whyAmbiguous}}
	case !ok:
		return []Command{{Unknown: whyNotText}}
	}
	return p.effective(shell.Commands(line), root, true)
}

// argvParam reads a parameter that holds a program and its arguments in a list. A
// string is a line.
func (p *Policy) argvParam(args []argument, name, root string) []Command {
	raw, present, ambiguous := lookup(args, name)
	if !present {
		return nil
	}
	if _, line := text(raw); line && !ambiguous {
		return p.lineParam(args, name, root)
	}
	argv, sealed := tokens(raw)
	switch {
	case ambiguous:
		return []Command{{Unknown: whyAmbiguous}}
	case len(argv) == 0:
		return []Command{{Unknown: whyNotText}}
	case programDoubt(argv[0]) != "":
		return []Command{{Unknown: programDoubt(argv[0])}}
	}
	return p.effective(shell.Argv(argv, sealed), root, false)
}

// argvOf reads the argument list of a program. One that is not there is empty.
func argvOf(args []argument, param string) (argv []string, sealed bool) {
	raw, present, ambiguous := lookup(args, param)
	switch {
	case !present:
		return nil, true
	case ambiguous:
		return nil, false
	}
	return tokens(raw)
}

// effective are the commands of a call as facts: what rules can tell about them.
func (p *Policy) effective(commands []shell.Command, root string, line bool) []Command {
	out := make([]Command, len(commands))
	checked := p.checked()
	for i := range commands {
		c := &commands[i]
		f := Command{Assigns: c.Assigns, Unknown: c.Unknown, Via: c.Via}
		if line {
			f.Span = []int{c.Span.Start, c.Span.End}
		}
		for _, r := range c.Redirects {
			target := place(root, r.Target)
			if r.Unknown {
				target = Place{Path: r.Target, Unknown: whyExpansion}
			}
			f.Writes = append(f.Writes, target)
		}
		if f.Unknown == "" {
			f.Unknown = programDoubt(c.Program)
		}
		if checked {
			f.Checks = p.Floor.commandChecks(c, root)
		}
		if f.Unknown == "" {
			f.Program, f.Where = shell.Base(c.Program), programPlace(c.Program, p.Roots)
			f.Args, f.Sealed, f.Carrier = c.Argv, c.Sealed, c.Carrier
			if f.Program != c.Program {
				f.Path = c.Program
			}
		}
		out[i] = f
	}
	return out
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
