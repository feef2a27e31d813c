package policy

import "fmt"

// Facts are what the policy saw in a call. A verdict is a function of tool,
// facts, rules and grants and of nothing else, so facts are recorded with
// every decision and can be judged again without the arguments.
//
// The JSON form is strict both ways: members sorted, no floating point, what
// is empty left out, what is not known refused. The zero Facts are those of a
// call with no location, host or command: narrowed allows do not fire on it,
// narrowed denies do.
type Facts struct {
	// Checks are those of the danger floor that the call hits by its locations.
	Checks []string `json:"checks,omitempty"`
	// Commands are the effective commands of the call, in order. Empty if the
	// call runs none.
	Commands []Command `json:"commands,omitempty"`
	// Hosts are the hosts the call reaches.
	Hosts []Host `json:"hosts,omitempty"`
	// Paths are the locations of the call, in the order of its parameters.
	Paths []Place `json:"paths,omitempty"`
	// Root is the root the tool had, "" for none. A rule's relative directory
	// is measured from it.
	Root string `json:"root,omitempty"`
	// Unreadable: the arguments were no object that could be read.
	Unreadable bool `json:"unreadable,omitempty"`
}

// Place is one location.
type Place struct {
	// Path is the location as given, behind the root it was measured from.
	Path string `json:"path"`
	// Unknown says why the location cannot be compared, "" if it can.
	Unknown string `json:"unknown,omitempty"`
}

// Host is one host.
type Host struct {
	// Host is in lower case, without port. Empty if Unknown.
	Host string `json:"host"`
	// Unknown says why the host could not be read, "" if it could.
	Unknown string `json:"unknown,omitempty"`
}

// Command is one effective command. The zero Command is unknown.
type Command struct {
	// Args are the argument tokens up to the first that could not be read.
	Args []string `json:"args,omitempty"`
	// Assigns names the variables assigned for this command.
	Assigns []string `json:"assigns,omitempty"`
	// Carrier: it does nothing of its own but run the commands after it, as env
	// does. Allow rules need not name it; deny and ask rules that do fire.
	Carrier bool `json:"carrier,omitempty"`
	// Checks are those of the danger floor that the command hits.
	Checks []string `json:"checks,omitempty"`
	// Path is the program as given, if it was more than Program.
	Path string `json:"path,omitempty"`
	// Program is the base name without executable extension. Empty if Unknown.
	Program string `json:"program,omitempty"`
	// Sealed: Args are all arguments.
	Sealed bool `json:"sealed,omitempty"`
	// Span is where the command stands in a shell line, as two byte offsets.
	// Nil for a call that is no line.
	Span []int `json:"span,omitempty"`
	// Unknown says why the command could not be read, "" if it could.
	Unknown string `json:"unknown,omitempty"`
	// Via are the programs that run it, outermost first, as written.
	Via []string `json:"via,omitempty"`
	// Where says why the program's name does not say which program it is:
	// "relative", "root" or "temporary"; "" if it does.
	Where string `json:"where,omitempty"`
	// Writes are the files its redirections write.
	Writes []Place `json:"writes,omitempty"`
}

func (c Command) known() bool { return c.Unknown == "" && c.Program != "" }

// Displayed lists the locations as people are shown them: all that were text,
// readable or not. Never nil.
func (f Facts) Displayed() []string {
	out := []string{}
	for _, p := range f.Paths {
		if p.Unknown != whyNotText && p.Unknown != whyAmbiguous {
			out = append(out, p.Path)
		}
	}
	return out
}

// UnmarshalJSON reads facts strictly: unknown, repeated or differently cased
// members and values of another type are errors, and leave the facts zero.
func (f *Facts) UnmarshalJSON(b []byte) error {
	*f = Facts{}
	n, err := parseJSON("", b)
	if err != nil {
		return err
	}
	d := decoder{}
	var got Facts
	text := func(n *node, what string) (s string) { d.word(n, what, &s); return s }
	d.object(n, "facts", fields{
		"checks":     func(n *node) { got.Checks = decodeList(&d, n, "facts: checks", text) },
		"commands":   func(n *node) { got.Commands = decodeList(&d, n, "facts: commands", d.command) },
		"hosts":      func(n *node) { got.Hosts = decodeList(&d, n, "facts: hosts", d.host) },
		"paths":      func(n *node) { got.Paths = decodeList(&d, n, "facts: paths", d.place) },
		"root":       func(n *node) { d.text(n, "facts: root", &got.Root) },
		"unreadable": func(n *node) { d.boolean(n, "facts: unreadable", &got.Unreadable) },
	})
	if err := d.err(); err != nil {
		return err
	}
	*f = got
	return nil
}

// decodeList reads a list; an empty one comes back nil, as it was written.
func decodeList[T any](d *decoder, n *node, what string, read func(*node, string) T) []T {
	var out []T
	d.list(n, what, func(i int, item *node) { out = append(out, read(item, fmt.Sprintf("%s[%d]", what, i))) })
	return out
}

func (d *decoder) place(n *node, what string) (p Place) {
	d.object(n, what, fields{
		"path":    func(n *node) { d.text(n, what+": path", &p.Path) },
		"unknown": func(n *node) { d.word(n, what+": unknown", &p.Unknown) },
	})
	return p
}

func (d *decoder) host(n *node, what string) (h Host) {
	d.object(n, what, fields{
		"host":    func(n *node) { d.text(n, what+": host", &h.Host) },
		"unknown": func(n *node) { d.word(n, what+": unknown", &h.Unknown) },
	})
	return h
}

func (d *decoder) command(n *node, what string) (c Command) {
	text := func(n *node, what string) (s string) { d.text(n, what, &s); return s }
	offset := func(n *node, what string) (v int) { d.offset(n, what, &v); return v }
	d.object(n, what, fields{
		"args":    func(n *node) { c.Args = decodeList(d, n, what+": args", text) },
		"assigns": func(n *node) { c.Assigns = decodeList(d, n, what+": assigns", text) },
		"carrier": func(n *node) { d.boolean(n, what+": carrier", &c.Carrier) },
		"checks":  func(n *node) { c.Checks = decodeList(d, n, what+": checks", text) },
		"path":    func(n *node) { d.word(n, what+": path", &c.Path) },
		"program": func(n *node) { d.word(n, what+": program", &c.Program) },
		"sealed":  func(n *node) { d.boolean(n, what+": sealed", &c.Sealed) },
		"span":    func(n *node) { c.Span = decodeList(d, n, what+": span", offset) },
		"unknown": func(n *node) { d.word(n, what+": unknown", &c.Unknown) },
		"via":     func(n *node) { c.Via = decodeList(d, n, what+": via", text) },
		"where":   func(n *node) { d.word(n, what+": where", &c.Where) },
		"writes":  func(n *node) { c.Writes = decodeList(d, n, what+": writes", d.place) },
	})
	return c
}
