package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// MaxBytes bounds a policy file. Policies travel inside journal messages of
// 8 MiB as base64, beside their digest.
const MaxBytes = 1 << 20

// Parse reads a policy from JSON or YAML and checks all of it. The name is
// only for errors and for its ending, .json or .yaml; without either, bytes
// that are a JSON object are read as JSON.
//
// All faults found are reported together; each is an [*Error] with the line
// to look at. A policy with a fault is never returned.
func Parse(name string, b []byte) (*Policy, error) {
	p, err := parse(name, b)
	if err != nil {
		return nil, err
	}
	p.index = newIndex(p)
	return p, nil
}

func parse(name string, b []byte) (*Policy, error) {
	n, err := document(name, b)
	if err != nil {
		return nil, err
	}
	d := decoder{file: name}
	p := &Policy{source: slices.Clone(b)}
	if n.kind != kindNull {
		d.object(n, "policy", d.policyFields(p))
	}
	d.crossCheck(p)
	if err := d.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// document reads a file as what its name or its bytes say that it is.
func document(name string, b []byte) (*node, error) {
	if len(b) > MaxBytes {
		return nil, &Error{File: name, Msg: fmt.Sprintf("longer than %d bytes; split it over several files", MaxBytes)}
	}
	if isJSON(name, b) {
		return parseJSON(name, b)
	}
	return parseYAML(name, b)
}

func isJSON(name string, b []byte) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".json":
		return true
	case ".yaml", ".yml":
		return false
	}
	return bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) && json.Valid(b)
}

func (d *decoder) policyFields(p *Policy) fields {
	f := d.judgingFields(p)
	f["advisory-params"] = func(n *node) { d.params(n, "advisory-params", &p.AdvisoryParams) }
	f["include"] = func(n *node) {
		d.fault(n.line, "include: only a policy file that is read by its name can include others")
	}
	f["safe-env"] = func(n *node) { d.words(n, "safe-env", &p.SafeEnv) }
	f["fold-paths"] = func(n *node) { p.FoldPaths = new(bool); d.boolean(n, "fold-paths", p.FoldPaths) }
	f["settings"] = func(n *node) { d.settings(n, &p.Settings) }
	f["approval"] = func(n *node) { p.Approval = decodeList(d, n, "approval", d.approval) }
	f["principals"] = func(n *node) { d.principals(n, &p.Principals) }
	f["groups"] = func(n *node) { d.groups(n, &p.Groups) }
	f["importers"] = func(n *node) { d.names(n, "importers", &p.Importers) }
	f["frontends"] = func(n *node) { d.names(n, "frontends", &p.Frontends) }
	return f
}

// judgingFields are the members a vector line has in common with a policy.
func (d *decoder) judgingFields(p *Policy) fields {
	return fields{
		"rules":          func(n *node) { p.Rules, p.lines = decodeList(d, n, "rules", d.rule), linesOf(n.items) },
		"roots":          func(n *node) { d.roots(n, &p.Roots) },
		"path-params":    func(n *node) { d.params(n, "path-params", &p.PathParams) },
		"command-params": func(n *node) { d.commandParams(n, &p.CommandParams) },
		"agents":         func(n *node) { d.agents(n, &p.Agents) },
		"names":          func(n *node) { d.policyNames(n, &p.Names) },
		"floor":          func(n *node) { d.floor(n, &p.Floor) },
	}
}

func linesOf(items []*node) []int {
	lines := make([]int, len(items))
	for i, n := range items {
		lines[i] = n.line
	}
	return lines
}

func (d *decoder) roots(n *node, to *map[string]string) {
	*to = map[string]string{}
	d.members(n, "roots", func(k key, v *node) {
		if !nameBytes(k.name) {
			d.fault(k.line, "roots: %q is no prefix of a tool name; write it without *, and \"\" for every tool", k.name)
		}
		var dir string
		d.word(v, fmt.Sprintf("roots: %q", k.name), &dir)
		if err := checkDirectory("roots: directory", dir); err != nil {
			d.fault(v.line, "%v", err)
		}
		(*to)[k.name] = dir
	})
}

// params reads lists of parameter names by tool pattern; one name may stand
// for a list of it.
func (d *decoder) params(n *node, what string, to *map[string][]string) {
	*to = map[string][]string{}
	d.mark(what, n)
	d.members(n, what, func(k key, v *node) {
		d.pattern(k, what)
		names := []string{}
		if v.kind == kindString {
			v = &node{kind: kindList, line: v.line, items: []*node{v}}
		}
		d.words(v, fmt.Sprintf("%s: %q", what, k.name), &names)
		(*to)[k.name] = names
	})
}

func (d *decoder) pattern(k key, what string) {
	if err := checkPattern(what+": tool", k.name); err != nil {
		d.fault(k.line, "%v", err)
	}
}

func (d *decoder) commandParams(n *node, to *map[string]CommandParams) {
	*to = map[string]CommandParams{}
	d.members(n, "command-params", func(k key, v *node) {
		d.pattern(k, "command-params")
		what := fmt.Sprintf("command-params: %q", k.name)
		var c CommandParams
		d.object(v, what, fields{
			"command": func(n *node) { d.word(n, what+": command", &c.Command) },
			"args":    func(n *node) { d.word(n, what+": args", &c.Args) },
			"line":    func(n *node) { d.word(n, what+": line", &c.Line) },
			"argv":    func(n *node) { d.word(n, what+": argv", &c.Argv) },
		})
		if !c.valid() {
			d.fault(v.line, "%s: line stands alone, and so does argv; a parameter is a shell line, a list of a program and its arguments, or a program with args", what)
		}
		(*to)[k.name] = c
	})
}

func (d *decoder) floor(n *node, to *Floor) {
	switch {
	case n.kind == kindBool:
		on := true
		d.boolean(n, "floor", &on)
		to.Off = !on
	case n.kind == kindString && (n.text == "on" || n.text == "off"):
		to.Off = n.text == "off"
	case n.kind == kindObject:
		*to = Floor{}
		d.object(n, "floor", fields{
			"home": func(n *node) {
				d.word(n, "floor: home", &to.Home)
				d.guarded(n, "floor: home", to.Home)
			},
			"config": func(n *node) {
				if n.kind == kindString {
					n = &node{kind: kindList, line: n.line, items: []*node{n}}
				}
				d.words(n, "floor: config", &to.Config)
				for _, dir := range to.Config {
					d.guarded(n, "floor: config", dir)
				}
			},
		})
	default:
		d.fault(n.line, "floor must be on or off, or say which home and config it guards")
	}
}

// guarded refuses a directory that the floor could not tell.
func (d *decoder) guarded(n *node, what, dir string) {
	if err := checkDirectory(what, dir); err != nil {
		d.fault(n.line, "%v", err)
	} else if !absolute(dir) || depth(dir) == 0 {
		d.fault(n.line, "%s %q is no absolute directory below the root", what, dir)
	}
}

func (d *decoder) settings(n *node, s *Settings) {
	d.object(n, "settings", fields{
		"interrupted":  func(n *node) { d.interrupted(n, &s.Interrupted) },
		"idempotent":   func(n *node) { d.patterns(n, "settings: idempotent", &s.Idempotent) },
		"decision-ttl": func(n *node) { d.decisionTTL(n, &s.DecisionTTL) },
		"deadline":     func(n *node) { d.duration(n, "settings: deadline", &s.Deadline) },
		"deny-repeats": func(n *node) { d.count(n, "settings: deny-repeats", 1, &s.DenyRepeats) },
	})
}

// decisionTTL refuses an allow that would be over before it can be started.
func (d *decoder) decisionTTL(n *node, to *time.Duration) {
	d.duration(n, "settings: decision-ttl", to)
	if *to > 0 && *to < MinDecisionTTL {
		d.fault(n.line, "settings: decision-ttl must be 0 or at least %s", MinDecisionTTL)
	}
}

func (d *decoder) interrupted(n *node, to *string) {
	d.word(n, "settings: interrupted", to)
	switch *to {
	case "", InterruptedAsk, InterruptedRetry, InterruptedFail:
	default:
		d.fault(n.line, "settings: interrupted must be ask, retry or fail, not %q", *to)
	}
}

func (d *decoder) principals(n *node, to *map[string]Principal) {
	*to = map[string]Principal{}
	d.members(n, "principals", func(k key, v *node) {
		what := fmt.Sprintf("principals: %q", k.name)
		d.name(k.line, "principals", k.name)
		var p Principal
		d.object(v, what, fields{
			"key":  func(n *node) { d.word(n, what+": key", &p.Key) },
			"role": func(n *node) { d.role(n, what+": role", &p.Role) },
		})
		(*to)[k.name] = p
	})
}

func (d *decoder) role(n *node, what string, to *string) {
	d.word(n, what, to)
	switch *to {
	case "", "agent", "decider", "approver", "admin", "auditor":
	default:
		d.fault(n.line, "%s must be agent, decider, approver, admin or auditor, not %q", what, *to)
	}
}

func (d *decoder) groups(n *node, to *map[string][]string) {
	*to = map[string][]string{}
	d.mark("groups", n)
	d.members(n, "groups", func(k key, v *node) {
		d.name(k.line, "groups", k.name)
		var names []string
		d.names(v, fmt.Sprintf("groups: %q", k.name), &names)
		if len(names) == 0 {
			d.fault(v.line, "groups: %q has no members; nobody could answer", k.name)
		}
		(*to)[k.name] = names
	})
}

// names reads a list of principals' names.
func (d *decoder) names(n *node, what string, to *[]string) {
	d.words(n, what, to)
	for _, s := range *to {
		d.name(n.line, what, s)
	}
}

// maxName bounds names that become part of a subject.
const maxName = 64

func (d *decoder) name(line int, what, s string) {
	if s == "" || len(s) > maxName || !nameBytes(s) {
		d.fault(line, "%s: %q is no name; use 1 to %d letters, digits, _ and -", what, s, maxName)
	}
}

// crossCheck finds what only the whole policy shows to be wrong.
func (d *decoder) crossCheck(p *Policy) {
	taken := p.judgedParams()
	for pattern, names := range p.AdvisoryParams {
		for _, name := range names {
			if taken[strings.ToLower(name)] {
				d.fault(d.at["advisory-params"], "advisory-params: %q: %q holds a location, command or host and belongs to the call", pattern, name)
			}
		}
	}
	for group, members := range p.Groups {
		for _, name := range members {
			if _, nested := p.Groups[name]; nested {
				d.fault(d.at["groups"], "groups: %q: %q is a group; list its principals instead", group, name)
			} else {
				d.known(p, d.at["groups"], fmt.Sprintf("groups: %q", group), name)
			}
		}
	}
	for i := range p.Approval {
		d.checkApproval(p, &p.Approval[i], fmt.Sprintf("approval[%d]", i))
	}
}

// judgedParams lists, in lower case, every parameter name that judging reads
// for some tool.
func (p *Policy) judgedParams() map[string]bool {
	taken := map[string]bool{"path": true, "from": true, "to": true, "url": true, "command": true, "args": true}
	for _, names := range p.PathParams {
		for _, name := range names {
			taken[strings.ToLower(name)] = true
		}
	}
	for _, c := range p.CommandParams {
		for _, name := range []string{c.Command, c.Args, c.Line} {
			taken[strings.ToLower(name)] = true
		}
	}
	return taken
}

// known reports a name that is neither a principal nor a group, where the
// policy lists its principals.
func (d *decoder) known(p *Policy, line int, what, name string) {
	_, principal := p.Principals[name]
	_, group := p.Groups[name]
	if len(p.Principals) > 0 && !principal && !group {
		d.fault(line, "%s: %q is neither in principals nor in groups", what, name)
	}
}
