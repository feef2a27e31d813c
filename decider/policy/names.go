package policy

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed agents.yaml
var agentsYAML []byte

// Name says what a tool is: rules for that name speak of its calls too, and its
// parameters are read as they are named here. The zero value is none.
type Name struct {
	// Tool is the tool's own name, Is what it is called in rules.
	Tool, Is string
	// Paths are the parameters that hold locations: strings, or lists of them.
	Paths []string
	// Patch is a parameter that holds the text of a patch, which names files.
	Patch string
	// Command are the parameters that hold a command.
	Command CommandParams
}

// agentTables are the built-in names by agent. They are read once.
var agentTables = sync.OnceValue(func() map[string][]Name {
	n, err := parseYAML("agents.yaml", agentsYAML)
	if err != nil {
		panic(err) // a test reads it too
	}
	d := decoder{file: "agents.yaml"}
	tables := map[string][]Name{}
	d.members(n, "agents", func(k key, v *node) { tables[k.name] = decodeList(&d, v, k.name, d.toolName) })
	if err := d.err(); err != nil {
		panic(err)
	}
	return tables
})

// AgentNames lists the agents whose tools the built-in tables name, sorted.
func AgentNames() []string { return slices.Sorted(maps.Keys(agentTables())) }

// named are all names of a policy by tool. What several agents call alike has the
// parameters of all of them.
func (p *Policy) named() map[string]Name {
	if len(p.Names)+len(p.Agents) == 0 {
		return nil
	}
	all := map[string]Name{}
	for _, agent := range p.Agents {
		for _, n := range agentTables()[agent] {
			if have, ok := all[n.Tool]; ok && have.Is == n.Is {
				n.Paths = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(have.Paths), n.Paths...))))
				n.Patch = orElse(have.Patch, n.Patch)
			}
			all[n.Tool] = n
		}
	}
	for _, n := range p.Names {
		all[n.Tool] = n
	}
	return all
}

// nameOf is the name of a tool, the zero one if it has none.
func (p *Policy) nameOf(tool string) Name {
	if p.index.of(p) {
		return p.index.names[tool]
	}
	return p.named()[tool]
}

// CalledAs is what rules may call a tool beside its own name, "" for nothing else.
func (p *Policy) CalledAs(tool string) string { return p.nameOf(tool).Is }

func (d *decoder) toolName(n *node, what string) (name Name) {
	seen := d.object(n, what, fields{
		"tool": func(n *node) { d.word(n, what+": tool", &name.Tool) },
		"is":   func(n *node) { d.word(n, what+": is", &name.Is) },
		"paths": func(n *node) {
			name.Paths = []string{}
			d.words(n, what+": paths", &name.Paths)
		},
		"patch":   func(n *node) { d.word(n, what+": patch", &name.Patch) },
		"line":    func(n *node) { d.word(n, what+": line", &name.Command.Line) },
		"argv":    func(n *node) { d.word(n, what+": argv", &name.Command.Argv) },
		"command": func(n *node) { d.word(n, what+": command", &name.Command.Command) },
		"args":    func(n *node) { d.word(n, what+": args", &name.Command.Args) },
	})
	for member, value := range map[string]string{"tool": name.Tool, "is": name.Is} {
		if !seen[member] {
			d.fault(n.line, "%s: member %q is missing", what, member)
		} else if err := checkPattern(what+": "+member, value); err != nil || strings.HasSuffix(value, "*") {
			d.fault(n.line, "%s: %s %q is no name of a tool: letters, digits, _ and -", what, member, value)
		}
	}
	if !name.Command.valid() {
		d.fault(n.line, "%s: a command is a line, an argv, or a command with args; name one of them", what)
	}
	return name
}

func (d *decoder) policyNames(n *node, to *[]Name) {
	*to = decodeList(d, n, "names", d.toolName)
	seen := map[string]bool{}
	for _, name := range *to {
		if seen[name.Tool] {
			d.fault(n.line, "names: the tool %q is named twice", name.Tool)
		}
		seen[name.Tool] = true
	}
}

func (d *decoder) agents(n *node, to *[]string) {
	d.words(n, "agents", to)
	for _, agent := range *to {
		if agentTables()[agent] == nil {
			d.fault(n.line, "agents: there is no table for %q; there are %s", agent, strings.Join(AgentNames(), ", "))
		}
	}
}

// valid reports whether the parameters name a command in one way at most.
func (c CommandParams) valid() bool {
	ways := 0
	for _, given := range []bool{c.Line != "", c.Argv != "", c.Command != "" || c.Args != ""} {
		ways += flag(given)
	}
	return ways < 2
}

// patchPlaces are the files that a patch's text names: those of the format that
// models write (*** Update File: a) and of unified diffs. A text that names none
// cannot be read.
func patchPlaces(raw json.RawMessage, root string) []Place {
	s, ok := text(raw)
	if !ok {
		return []Place{{Unknown: whyNotText}}
	}
	var out []Place
	add := func(path string) {
		if p := place(root, path); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\r\n")
		for _, mark := range [...]string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ", "rename from ", "rename to ", "copy from ", "copy to "} {
			if path, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), mark); ok {
				add(strings.TrimSpace(path))
			}
		}
		for _, mark := range [...]string{"--- ", "+++ "} {
			path, ok := strings.CutPrefix(line, mark)
			if !ok {
				continue
			}
			path, _, _ = strings.Cut(path, "\t")
			if path == "/dev/null" {
				continue
			}
			if cut, ok := strings.CutPrefix(path, string("ab"[flag(mark == "+++ ")])+"/"); ok {
				path = cut
			}
			add(path)
		}
	}
	if len(out) == 0 {
		return []Place{{Unknown: whyPatch}}
	}
	return out
}

// speaksOf says which patterns speak of a tool: those for its own name, and
// those for what it is called.
func (p *Policy) speaksOf(pattern, tool string) bool {
	return matchPattern(pattern, tool) || matchAlias(pattern, p.CalledAs(tool))
}

func matchAlias(pattern, alias string) bool { return alias != "" && matchPattern(pattern, alias) }
