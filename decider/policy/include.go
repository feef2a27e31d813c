package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxIncludes bounds how many files a policy is made of.
const maxIncludes = 100

// Load reads a policy file and the files that it includes, and makes one policy of
// them: its bytes are those of all, without include. read is given each file's
// path; of an included one, its path from the file that includes it, joined to
// that one's directory. All faults are reported together, by file and line.
//
// An included file holds rules, and may include others. It may deny and ask. Its
// allows are faults, unless the including file says that it may allow.
func Load(name string, read func(file string) ([]byte, error)) (*Policy, error) {
	b, err := read(name)
	if err != nil {
		return nil, err
	}
	n, err := readNode(name, b)
	if err != nil {
		return nil, err
	}
	at := memberOf(n, "include")
	if at < 0 {
		return Parse(name, b)
	}
	own := *n
	own.keys, own.items = slices.Delete(slices.Clone(n.keys), at, at+1), slices.Delete(slices.Clone(n.items), at, at+1)
	l := loader{read: read, reading: []string{name}}
	l.include(name, n.items[at], true)
	d := decoder{file: name}
	main := &Policy{}
	d.object(&own, "policy", d.policyFields(main))
	d.crossCheck(main)
	l.faults = append(l.faults, d.faults...)
	if err := l.err(); err != nil {
		return nil, err
	}
	rules := &node{kind: kindList}
	if at := memberOf(&own, "rules"); at >= 0 {
		rules.items = own.items[at].items
		own.items[at] = rules
	} else {
		own.keys, own.items = append(own.keys, key{name: "rules"}), append(own.items, rules)
	}
	rules.items = append(slices.Clone(rules.items), l.rules...)
	var out bytes.Buffer
	writeNode(&out, &own, 2)
	out.WriteByte('\n')
	p, err := Parse(strings.TrimSuffix(name, path.Ext(name))+".json", out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s with what it includes: %w", name, err)
	}
	p.lines = append(slices.Clone(main.lines), make([]int, len(l.rules))...) // in the file; of others none
	return p, nil
}

func readNode(name string, b []byte) (*node, error) {
	if len(b) > MaxBytes {
		return nil, &Error{File: name, Msg: fmt.Sprintf("longer than %d bytes; split the rules over several policies", MaxBytes)}
	}
	if isJSON(name, b) {
		return parseJSON(name, b)
	}
	return parseYAML(name, b)
}

// memberOf is the place of an object's member, -1 if it has none.
func memberOf(n *node, name string) int {
	if n.kind != kindObject {
		return -1
	}
	return slices.IndexFunc(n.keys, func(k key) bool { return k.name == name })
}

type loader struct {
	decoder
	read    func(string) ([]byte, error)
	reading []string // files, from the first to the one being read
	rules   []*node
	files   int
}

// include reads an include member of a file that may allow or not.
func (l *loader) include(from string, n *node, mayAllow bool) {
	l.file = from
	if n.kind != kindList {
		n = &node{kind: kindList, line: n.line, items: []*node{n}}
	}
	for i, item := range n.items {
		file, allows, what := "", false, fmt.Sprintf("include[%d]", i)
		l.file = from
		if item.kind == kindString {
			l.word(item, what, &file)
		} else {
			l.object(item, what, fields{
				"file":   func(n *node) { l.word(n, what+": file", &file) },
				"allows": func(n *node) { l.boolean(n, what+": allows", &allows) },
			})
		}
		switch {
		case file == "":
			l.fault(item.line, "%s: name a file, by its path from this one's directory", what)
			continue
		case path.IsAbs(file) || filepath.IsAbs(file) || strings.Contains(file, `\`):
			l.fault(item.line, "%s: %q is no relative path; write it from this file's directory, with /", what, file)
			continue
		}
		l.included(path.Join(path.Dir(filepath.ToSlash(from)), file), item.line, allows && mayAllow)
	}
}

// included reads an included file.
func (l *loader) included(file string, line int, mayAllow bool) {
	if slices.Contains(l.reading, file) {
		l.fault(line, "include: %s includes itself", strings.Join(append(slices.Clone(l.reading), file), " > "))
		return
	}
	if l.files++; l.files > maxIncludes {
		l.fault(line, "include: more than %d files", maxIncludes)
		return
	}
	b, err := l.read(file)
	if err != nil {
		l.fault(line, "include: %v", err)
		return
	}
	n, err := readNode(file, b)
	if err != nil {
		l.faults = append(l.faults, err)
		return
	}
	from := l.file
	l.file, l.reading = file, append(l.reading, file)
	if n.kind != kindNull {
		var rules, include *node
		l.object(n, "an included file", fields{"rules": func(n *node) { rules = n }, "include": func(n *node) { include = n }})
		if rules != nil {
			l.list(rules, "rules", func(i int, item *node) {
				r := l.rule(item, fmt.Sprintf("rules[%d]", i))
				if r.Decision == Allow && r.Tool != "" && !mayAllow {
					l.fault(item.line, "rules[%d] allows, and an included file may only deny and ask; where it is included say allows: true, if it may", i)
				}
				l.rules = append(l.rules, item)
			})
		}
		if include != nil {
			l.include(file, include, mayAllow)
		}
	}
	l.file, l.reading = from, l.reading[:len(l.reading)-1]
}

// writeNode writes a document as JSON, the first levels of it with a line for
// each member or item.
func writeNode(b *bytes.Buffer, n *node, lines int) {
	open, shut := byte('['), byte(']')
	switch n.kind {
	case kindObject:
		open, shut = '{', '}'
	case kindList:
	case kindString:
		b.Write(quoteJSON(n.text))
		return
	case kindNull:
		b.WriteString("null")
		return
	default:
		b.WriteString(n.text)
		return
	}
	b.WriteByte(open)
	for i, item := range n.items {
		if i > 0 {
			b.WriteByte(',')
		}
		if lines > 0 {
			b.WriteByte('\n')
		}
		if n.kind == kindObject {
			b.Write(quoteJSON(n.keys[i].name))
			b.WriteByte(':')
		}
		writeNode(b, item, lines-1)
	}
	b.WriteByte(shut)
}

func quoteJSON[T string | []string](v T) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a string always has a form, and a buffer takes it
	return bytes.TrimRight(b.Bytes(), "\n")
}
