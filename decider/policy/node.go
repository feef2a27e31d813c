package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Error is one fault in a policy file, a rule or facts.
type Error struct {
	// File is the name given to Parse, "" if there was none.
	File string
	// Line counts from 1; 0 if it is not known.
	Line int
	// Msg says what is wrong and what to write instead.
	Msg string
}

// Error writes "file:line: message", without the parts that are not known.
func (e *Error) Error() string {
	switch {
	case e.File == "":
		return e.Msg
	case e.Line == 0:
		return e.File + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindList
	kindObject
)

func (k kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "an object"}[k]
}

// node is a value of a JSON or YAML document that still knows its line and
// its repeated members.
type node struct {
	kind  kind
	line  int
	text  string // a string's value, a number's token, "true" or "false"
	items []*node
	keys  []key // an object's members, beside items
}

type key struct {
	name string
	line int
}

// maxDepth bounds the nesting of a document; no policy needs a tenth of it.
const maxDepth = 100

var errDepth = fmt.Errorf("nested deeper than %d", maxDepth)

// parseJSON reads one JSON document. Errors carry file and a line.
func parseJSON(file string, b []byte) (*node, error) {
	if !utf8.Valid(b) {
		return nil, &Error{File: file, Msg: "not UTF-8 text"}
	}
	var probe json.RawMessage
	if err := json.Unmarshal(b, &probe); err != nil {
		return nil, &Error{File: file, Line: errorLine(b, err), Msg: "not JSON: " + err.Error()}
	}
	r := jsonReader{b: b, dec: json.NewDecoder(bytes.NewReader(b)), line: 1}
	r.dec.UseNumber()
	n, err := r.value(0)
	if err != nil {
		return nil, &Error{File: file, Line: r.line, Msg: err.Error()}
	}
	return n, nil
}

func errorLine(b []byte, err error) int {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return 1
	}
	end := min(max(int(syntax.Offset), 0), len(b))
	return 1 + bytes.Count(b[:end], []byte("\n"))
}

type jsonReader struct {
	b    []byte
	dec  *json.Decoder
	at   int64
	line int
}

func (r *jsonReader) token() (json.Token, error) {
	t, err := r.dec.Token()
	end := r.dec.InputOffset()
	r.line += bytes.Count(r.b[r.at:end], []byte("\n"))
	r.at = end
	return t, err
}

func (r *jsonReader) value(depth int) (*node, error) {
	t, err := r.token()
	if err != nil {
		return nil, err
	}
	n := &node{line: r.line}
	switch t := t.(type) {
	case json.Delim:
		return n, r.nested(n, t, depth+1)
	case string:
		n.kind, n.text = kindString, t
	case json.Number:
		n.kind, n.text = kindNumber, t.String()
	case bool:
		n.kind, n.text = kindBool, fmt.Sprint(t)
	}
	return n, nil
}

func (r *jsonReader) nested(n *node, open json.Delim, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	n.kind = kindList
	if open == '{' {
		n.kind = kindObject
	}
	for r.dec.More() {
		if n.kind == kindObject {
			name, err := r.token()
			if err != nil {
				return err
			}
			n.keys = append(n.keys, key{name: fmt.Sprint(name), line: r.line})
		}
		item, err := r.value(depth)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := r.token()
	return err
}

// parseYAML reads one YAML document of plain data: no anchors, aliases, merge
// keys or tags, and only strings as keys.
func parseYAML(file string, b []byte) (n *node, err error) {
	defer func() {
		// The YAML reader is not ours; whatever it stumbles over is a fault of
		// this one document.
		if r := recover(); r != nil {
			n, err = nil, &Error{File: file, Msg: fmt.Sprintf("not YAML: %v", r)}
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil && err != io.EOF {
		return nil, &Error{File: file, Msg: "not YAML: " + err.Error()}
	}
	if err := dec.Decode(&more); err != io.EOF {
		return nil, &Error{File: file, Msg: "more than one YAML document; write one"}
	}
	if len(doc.Content) == 0 {
		return &node{line: 1}, nil
	}
	return fromYAML(file, doc.Content[0], 0)
}

func fromYAML(file string, y *yaml.Node, depth int) (*node, error) {
	fail := func(msg string) (*node, error) { return nil, &Error{File: file, Line: y.Line, Msg: msg} }
	switch {
	case depth > maxDepth:
		return fail(errDepth.Error())
	case y.Kind == yaml.AliasNode || y.Anchor != "":
		return fail("anchors and aliases are not read; write the value out")
	}
	n := &node{line: y.Line, text: y.Value}
	switch y.Kind {
	case yaml.MappingNode:
		return n, yamlObject(file, n, y, depth+1)
	case yaml.SequenceNode:
		return n, yamlList(file, n, y, depth+1)
	}
	switch y.ShortTag() {
	case "!!null":
		n.kind = kindNull
	case "!!bool":
		n.kind = kindBool
	case "!!int", "!!float":
		n.kind = kindNumber
	case "!!str":
		n.kind = kindString
	default:
		return fail(fmt.Sprintf("%q is read as %s; write it in quotes", y.Value, y.ShortTag()))
	}
	return n, nil
}

func yamlList(file string, n *node, y *yaml.Node, depth int) error {
	if y.ShortTag() != "!!seq" {
		return &Error{File: file, Line: y.Line, Msg: "tags are not read; write a plain list"}
	}
	n.kind = kindList
	for _, c := range y.Content {
		item, err := fromYAML(file, c, depth)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	return nil
}

func yamlObject(file string, n *node, y *yaml.Node, depth int) error {
	if y.ShortTag() != "!!map" {
		return &Error{File: file, Line: y.Line, Msg: "tags are not read; write a plain object"}
	}
	n.kind = kindObject
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		if k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" || k.Anchor != "" {
			return &Error{File: file, Line: k.Line, Msg: fmt.Sprintf("key %q is not a string; write it in quotes", k.Value)}
		}
		item, err := fromYAML(file, y.Content[i+1], depth)
		if err != nil {
			return err
		}
		n.keys = append(n.keys, key{name: k.Value, line: k.Line})
		n.items = append(n.items, item)
	}
	return nil
}
