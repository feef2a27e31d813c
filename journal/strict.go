package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Time is an instant as journals write it: RFC 3339 in UTC with nine decimals.
// The zero Time stands for an absent one.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000000000Z"

// At is t as a journal time.
func At(t time.Time) Time { return Time{t.UTC().Round(0)} }

// String is the time as journals write it.
func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalJSON writes the time as journals do.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON reads what MarshalJSON writes and nothing else.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	at, err := parseTime(s)
	*t = at
	return err
}

func parseTime(s string) (Time, error) {
	at, err := time.Parse(timeLayout, s)
	if err != nil || at.Format(timeLayout) != s || at.IsZero() {
		return Time{}, fmt.Errorf("%q is not a time with nine decimals in UTC", s)
	}
	return Time{at}, nil
}

// listed is a string with a closed list of values. A value off the list was
// written by a newer program.
type listed interface{ Known() bool }

// A misfit says why bytes are not what a schema asks for. newer marks what
// only a newer program can have meant: an unknown member, type or listed value.
type misfit struct {
	path  string
	text  string
	newer bool
}

func (m *misfit) Error() string {
	if m.path == "" {
		return m.text
	}
	return m.path + ": " + m.text
}

func misfitf(path, format string, args ...any) *misfit {
	return &misfit{path: path, text: fmt.Sprintf(format, args...)}
}

// The Go types of this package are the schema: a member is a field with a json
// tag, optional if the tag says omitzero. Optional members are never present
// with their zero value, so every value has one spelling.
type field struct {
	name     string
	index    int
	optional bool
	listed   bool // its type has a closed list of values
}

var fieldCache sync.Map // reflect.Type -> []field, a pure function of the type

func fieldsOf(t reflect.Type) []field {
	if f, ok := fieldCache.Load(t); ok {
		return f.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		fields = append(fields, field{name, i, options == "omitzero", t.Field(i).Type.Implements(listedType)})
	}
	sort.Slice(fields, func(i, j int) bool { return fields[i].name < fields[j].name })
	fieldCache.Store(t, fields)
	return fields
}

var (
	rawType    = reflect.TypeFor[json.RawMessage]()
	timeType   = reflect.TypeFor[Time]()
	listedType = reflect.TypeFor[listed]()
)

// decode fills v from canonical JSON, strictly. Paths of misfits begin at v.
func decode(b []byte, v reflect.Value) *misfit {
	t := v.Type()
	switch {
	case t == rawType:
		v.SetBytes(bytes.Clone(b))
		return nil
	case t == timeType:
		return decodeTime(b, v)
	}
	switch t.Kind() {
	case reflect.String:
		return decodeString(b, v)
	case reflect.Bool:
		return decodeBool(b, v)
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return decodeInteger(b, v)
	case reflect.Slice:
		return decodeList(b, v)
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		return decode(b, v.Elem())
	case reflect.Struct:
		return decodeStruct(b, v)
	}
	return misfitf("", "no decoder for %s", t)
}

func decodeTime(b []byte, v reflect.Value) *misfit {
	s, ok := text(b)
	if !ok {
		return misfitf("", "want a time")
	}
	at, err := parseTime(s)
	if err != nil {
		return misfitf("", "%v", err)
	}
	*v.Addr().Interface().(*Time) = at
	return nil
}

func text(b []byte) (string, bool) {
	if len(b) == 0 || b[0] != '"' {
		return "", false
	}
	r := reader{src: b}
	s, err := r.str()
	return s, err == nil
}

func decodeString(b []byte, v reflect.Value) *misfit {
	s, ok := text(b)
	if !ok {
		return misfitf("", "want a string")
	}
	v.SetString(s)
	return nil
}

// listedMisfit says that a value is on no list of this program, if so.
func listedMisfit(v reflect.Value) *misfit {
	if v.Interface().(listed).Known() {
		return nil
	}
	return &misfit{text: fmt.Sprintf("%q is unknown to this program", v.String()), newer: true}
}

func decodeBool(b []byte, v reflect.Value) *misfit {
	switch string(b) {
	case "true":
		v.SetBool(true)
	case "false":
		v.SetBool(false)
	default:
		return misfitf("", "want true or false")
	}
	return nil
}

// maxInteger is 2^53 - 1, so that every reader of JSON reads the same number.
const maxInteger = 1<<53 - 1

func decodeInteger(b []byte, v reflect.Value) *misfit {
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil || n > maxInteger {
		return misfitf("", "want a whole number from 0 to 2^53-1")
	}
	if v.CanUint() {
		v.SetUint(n)
	} else {
		v.SetInt(int64(n))
	}
	return nil
}

func decodeList(b []byte, v reflect.Value) *misfit {
	items, err := elements(b)
	if err != nil {
		return misfitf("", "%v", err)
	}
	list := reflect.MakeSlice(v.Type(), len(items), len(items))
	listed := v.Type().Elem().Implements(listedType)
	var wrong *misfit
	for i, item := range items {
		bad := decodeMember(item, list.Index(i), listed)
		if bad == nil {
			continue
		}
		bad = bad.in("[" + strconv.Itoa(i) + "]")
		if bad.newer {
			return bad
		}
		wrong = first(wrong, bad)
	}
	v.Set(list)
	return wrong
}

func decodeMember(b []byte, v reflect.Value, listed bool) *misfit {
	bad := decode(b, v)
	if bad == nil && listed {
		return listedMisfit(v)
	}
	return bad
}

// decodeStruct fills a struct from a canonical object. Members called as one of
// others are the caller's.
func decodeStruct(b []byte, v reflect.Value, others ...string) *misfit {
	c, err := membersOf(b)
	if err != nil {
		return misfitf("", "%v", err)
	}
	fields := fieldsOf(v.Type())
	var wrong *misfit // what is wrong counts only if nothing is newer
	for c.next() {
		for len(fields) > 0 && fields[0].name < string(c.key) {
			wrong = first(wrong, absent(fields[0]))
			fields = fields[1:]
		}
		if len(fields) == 0 || fields[0].name != string(c.key) {
			if slices.Contains(others, string(c.key)) {
				continue
			}
			return &misfit{path: string(c.key), text: "member unknown to this program", newer: true}
		}
		bad := decodeField(c.value, v, fields[0])
		if bad != nil && bad.newer {
			return bad
		}
		wrong = first(wrong, bad)
		fields = fields[1:]
	}
	for _, f := range fields {
		wrong = first(wrong, absent(f))
	}
	return wrong
}

func decodeField(b []byte, v reflect.Value, f field) *misfit {
	fv := v.Field(f.index)
	bad := decodeMember(b, fv, f.listed)
	if bad == nil && f.optional && fv.IsZero() {
		bad = misfitf("", "an empty optional member is left out")
	}
	if bad != nil {
		return bad.in(f.name)
	}
	return nil
}

func first(a, b *misfit) *misfit {
	if a != nil {
		return a
	}
	return b
}

func absent(f field) *misfit {
	if f.optional {
		return nil
	}
	return misfitf(f.name, "missing")
}

// in is the misfit with its path under a member or an item.
func (m *misfit) in(outer string) *misfit {
	switch {
	case m.path == "":
		m.path = outer
	case m.path[0] == '[':
		m.path = outer + m.path
	default:
		m.path = outer + "." + m.path
	}
	return m
}

// encode appends v in canonical form. It refuses invalid UTF-8, numbers beyond
// 2^53-1 and raw values that are not JSON.
func encode(out []byte, v reflect.Value) ([]byte, error) {
	switch t := v.Type(); {
	case t == rawType:
		if IsCanonical(v.Bytes()) {
			return append(out, v.Bytes()...), nil
		}
		c, err := Canonical(v.Bytes())
		return append(out, c...), err
	case t == timeType:
		return appendString(out, v.Interface().(Time).String()), nil
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return nil, fmt.Errorf("invalid UTF-8 in %q", v.String())
		}
		return appendString(out, v.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(out, v.Bool()), nil
	case reflect.Int, reflect.Int64:
		if v.Int() < 0 || v.Int() > maxInteger {
			return nil, fmt.Errorf("the number %d is not from 0 to 2^53-1", v.Int())
		}
		return strconv.AppendInt(out, v.Int(), 10), nil
	case reflect.Uint64:
		if v.Uint() > maxInteger {
			return nil, fmt.Errorf("the number %d is over 2^53-1", v.Uint())
		}
		return strconv.AppendUint(out, v.Uint(), 10), nil
	case reflect.Slice:
		return encodeList(out, v)
	case reflect.Pointer:
		return encode(out, v.Elem())
	case reflect.Struct:
		return encodeStruct(out, v)
	}
	return nil, fmt.Errorf("no encoder for %s", v.Type())
}

func encodeList(out []byte, v reflect.Value) ([]byte, error) {
	out = append(out, '[')
	for i := range v.Len() {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = encode(out, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

// encodeStruct appends a struct's members and others, which are already
// encoded and in order, in the order of their names.
func encodeStruct(out []byte, v reflect.Value, others ...member) ([]byte, error) {
	out = append(out, '{')
	open := len(out)
	other := func(before string) {
		for len(others) > 0 && (before == "" || others[0].key < before) {
			out = append(appendKey(out, open, others[0].key), others[0].value...)
			others = others[1:]
		}
	}
	for _, f := range fieldsOf(v.Type()) {
		fv := v.Field(f.index)
		if f.optional && fv.IsZero() {
			continue
		}
		other(f.name)
		var err error
		if out, err = encode(appendKey(out, open, f.name), fv); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	other("")
	return append(out, '}'), nil
}

// appendKey appends a member's name to an object that opened at a length.
func appendKey(out []byte, open int, name string) []byte {
	if len(out) > open {
		out = append(out, ',')
	}
	return append(appendString(out, name), ':')
}
