package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"decisionjournal/journal"
)

// paramKind is the type of a parameter.
type paramKind uint8

const (
	aString paramKind = iota
	aBool
	aCount // a whole number
)

// param is one parameter of a file tool. Schema and decoder are both made
// from it, so that they cannot disagree.
type param struct {
	name, doc string
	kind      paramKind
	required  bool
	values    []string // the strings allowed; empty: any
	min, max  int64    // of a count
}

// arguments are a call's decoded arguments; what was left out is missing.
type arguments map[string]any

func (a arguments) text(name string) string { s, _ := a[name].(string); return s }
func (a arguments) flag(name string) bool   { b, _ := a[name].(bool); return b }

func (a arguments) count(name string, otherwise int64) int64 {
	if n, ok := a[name].(int64); ok {
		return n
	}
	return otherwise
}

// schema is the JSON Schema of an arguments object with these parameters.
func schema(params []param) json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for _, p := range params {
		properties[p.name] = p.schema()
		if p.required {
			required = append(required, p.name)
		}
	}
	return marshal(map[string]any{
		"type":                 "object",
		"properties":           properties,
		"required":             required,
		"additionalProperties": false,
	})
}

func (p param) schema() map[string]any {
	s := map[string]any{"description": p.doc}
	switch p.kind {
	case aBool:
		s["type"] = "boolean"
	case aCount:
		s["type"], s["minimum"], s["maximum"] = "integer", p.min, p.max
	default:
		s["type"] = "string"
		if p.values != nil {
			s["enum"] = p.values
		}
	}
	return s
}

// decodeArguments reads an arguments object strictly: every member known, of
// the right type and there once, every required one present.
func decodeArguments(params []param, raw json.RawMessage) (arguments, error) {
	canonical, err := journal.Canonical(raw)
	if err != nil {
		return nil, fmt.Errorf("the arguments cannot be read: %w", err)
	}
	var members map[string]json.RawMessage
	if canonical[0] != '{' || json.Unmarshal(canonical, &members) != nil {
		return nil, errors.New("the arguments must be a JSON object")
	}
	if err := checkNames(params, members); err != nil {
		return nil, err
	}
	out := arguments{}
	for _, p := range params {
		value, ok := members[p.name]
		if !ok {
			continue
		}
		if out[p.name], err = p.decode(value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// checkNames refuses unknown and missing members by name.
func checkNames(params []param, members map[string]json.RawMessage) error {
	var known, unknown []string
	for _, p := range params {
		known = append(known, p.name)
	}
	for name := range members {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("there is no argument %q; known are %s", clip(slices.Min(unknown)), strings.Join(known, ", "))
	}
	for _, p := range params {
		if _, ok := members[p.name]; p.required && !ok {
			return fmt.Errorf("the argument %q is missing", p.name)
		}
	}
	return nil
}

// decode reads one canonical value.
func (p param) decode(value json.RawMessage) (any, error) {
	switch p.kind {
	case aBool:
		if t := string(value); t != "true" && t != "false" {
			return nil, p.wrong("true or false", value)
		}
		return value[0] == 't', nil
	case aCount:
		return p.decodeCount(value)
	}
	if value[0] != '"' {
		return nil, p.wrong("a string", value)
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return nil, p.wrong("a string", value)
	}
	if p.values != nil && !slices.Contains(p.values, s) {
		return nil, fmt.Errorf("the argument %q must be one of %s, not %q", p.name, strings.Join(p.values, ", "), clip(s))
	}
	return s, nil
}

// decodeCount reads a whole number, written in digits; a fraction of zeros
// does not make it another number.
func (p param) decodeCount(value json.RawMessage) (any, error) {
	digits, fraction, _ := strings.Cut(string(value), ".")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || strings.Trim(fraction, "0") != "" || n < p.min || n > p.max {
		return nil, p.wrong(fmt.Sprintf("a whole number from %d to %d", p.min, p.max), value)
	}
	return n, nil
}

func (p param) wrong(want string, value json.RawMessage) error {
	return fmt.Errorf("the argument %q must be %s, not %s", p.name, want, jsonKind(value))
}

// jsonKind names a canonical value's type, and a number itself.
func jsonKind(value json.RawMessage) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	}
	return "the number " + clip(string(value))
}
