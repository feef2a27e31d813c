package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how many objects and arrays may stand inside each other. It keeps
// hostile input from exhausting the stack.
const MaxDepth = 512

// DigestPrefix begins every digest of bytes; the rest is lower-case hex.
const DigestPrefix = "sha256:"

// Digest is the SHA-256 of b as "sha256:<hex>".
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return DigestPrefix + hex.EncodeToString(sum[:])
}

// validDigest reports whether s has the form of a digest: sha256:<64 hex> or,
// of masked arguments, hmac:<key id>:<64 hex>.
func validDigest(s string) bool {
	if rest, ok := cutPrefix(s, DigestPrefix); ok {
		return hexDigest(rest)
	}
	rest, ok := cutPrefix(s, "hmac:")
	if !ok {
		return false
	}
	i := bytes.IndexByte([]byte(rest), ':')
	return i > 0 && ValidName(rest[:i]) && hexDigest(rest[i+1:])
}

func cutPrefix(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && s[:len(prefix)] == prefix {
		return s[len(prefix):], true
	}
	return s, false
}

func hexDigest(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

// Canonical returns the one canonical form of a JSON text: keys sorted by
// bytes, shortest escapes, no blanks, number tokens verbatim. It refuses what
// is not one JSON value, invalid UTF-8, lone surrogates, duplicate keys and
// nesting beyond MaxDepth. Two texts that differ in a number's spelling stay
// different: digests are over what was said.
func Canonical(src []byte) ([]byte, error) {
	if IsCanonical(src) {
		return bytes.Clone(src), nil
	}
	r := reader{src: src}
	r.blanks()
	out, err := r.value(make([]byte, 0, len(src)), 0)
	if err != nil {
		return nil, err
	}
	if r.blanks(); r.pos != len(src) {
		return nil, r.errorf("more text after the value")
	}
	return out, nil
}

// reader walks one JSON text.
type reader struct {
	src []byte
	pos int
}

func (r *reader) errorf(format string, args ...any) error {
	return fmt.Errorf("JSON at byte %d: %s", r.pos, fmt.Sprintf(format, args...))
}

func (r *reader) blanks() {
	for r.pos < len(r.src) {
		switch r.src[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

func (r *reader) peek() byte {
	if r.pos < len(r.src) {
		return r.src[r.pos]
	}
	return 0
}

func (r *reader) value(out []byte, depth int) ([]byte, error) {
	switch c := r.peek(); {
	case (c == '{' || c == '[') && depth == MaxDepth:
		return nil, r.errorf("nested deeper than %d levels", MaxDepth)
	case c == '{':
		return r.object(out, depth)
	case c == '[':
		return r.array(out, depth)
	case c == '"':
		s, err := r.str()
		if err != nil {
			return nil, err
		}
		return appendString(out, s), nil
	case c == '-' || c >= '0' && c <= '9':
		return r.number(out)
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(r.src[r.pos:], []byte(word)) {
			r.pos += len(word)
			return append(out, word...), nil
		}
	}
	if r.pos == len(r.src) {
		return nil, r.errorf("the text ends early")
	}
	return nil, r.errorf("no value begins with %q", r.src[r.pos])
}

type member struct {
	key   string
	value []byte
}

func (r *reader) object(out []byte, depth int) ([]byte, error) {
	r.pos++
	var members []member
	for r.blanks(); r.peek() != '}'; r.blanks() {
		if len(members) > 0 {
			if r.peek() != ',' {
				return nil, r.errorf("want , or } in an object")
			}
			r.pos++
			r.blanks()
		}
		if r.peek() != '"' {
			return nil, r.errorf("want a key in quotes")
		}
		key, err := r.str()
		if err != nil {
			return nil, err
		}
		if r.blanks(); r.peek() != ':' {
			return nil, r.errorf("want : after the key %q", key)
		}
		r.pos++
		r.blanks()
		value, err := r.value(nil, depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{key, value})
	}
	r.pos++
	return appendObject(out, members, r)
}

func appendObject(out []byte, members []member, r *reader) ([]byte, error) {
	sort.Slice(members, func(i, j int) bool { return members[i].key < members[j].key })
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			if m.key == members[i-1].key {
				return nil, r.errorf("the key %q stands twice in one object", m.key)
			}
			out = append(out, ',')
		}
		out = appendString(out, m.key)
		out = append(out, ':')
		out = append(out, m.value...)
	}
	return append(out, '}'), nil
}

func (r *reader) array(out []byte, depth int) ([]byte, error) {
	r.pos++
	out = append(out, '[')
	first := true
	for r.blanks(); r.peek() != ']'; r.blanks() {
		if !first {
			if r.peek() != ',' {
				return nil, r.errorf("want , or ] in an array")
			}
			r.pos++
			r.blanks()
			out = append(out, ',')
		}
		first = false
		var err error
		if out, err = r.value(out, depth+1); err != nil {
			return nil, err
		}
	}
	r.pos++
	return append(out, ']'), nil
}

func (r *reader) number(out []byte) ([]byte, error) {
	start := r.pos
	if err := r.passNumber(); err != nil {
		return nil, err
	}
	return append(out, r.src[start:r.pos]...), nil
}

func (r *reader) passNumber() error {
	if r.peek() == '-' {
		r.pos++
	}
	whole := r.digits()
	if whole == 0 || whole > 1 && r.src[r.pos-whole] == '0' {
		return r.errorf("malformed number")
	}
	if r.peek() == '.' {
		if r.pos++; r.digits() == 0 {
			return r.errorf("malformed number")
		}
	}
	if c := r.peek(); c == 'e' || c == 'E' {
		r.pos++
		if c := r.peek(); c == '+' || c == '-' {
			r.pos++
		}
		if r.digits() == 0 {
			return r.errorf("malformed number")
		}
	}
	return nil
}

func (r *reader) digits() int {
	start := r.pos
	for c := r.peek(); c >= '0' && c <= '9'; c = r.peek() {
		r.pos++
	}
	return r.pos - start
}

// str reads a string token and returns what it says.
func (r *reader) str() (string, error) {
	r.pos++
	start := r.pos
	for r.pos < len(r.src) { // the common case has no escape
		c := r.src[r.pos]
		if c == '"' {
			s := r.src[start:r.pos]
			if !utf8.Valid(s) {
				return "", r.errorf("invalid UTF-8 in a string")
			}
			r.pos++
			return string(s), nil
		}
		if c == '\\' {
			return r.escaped(start)
		}
		if c < 0x20 {
			return "", r.errorf("control character in a string")
		}
		r.pos++
	}
	return "", r.errorf("the text ends in a string")
}

func (r *reader) escaped(start int) (string, error) {
	b := append([]byte(nil), r.src[start:r.pos]...)
	for r.pos < len(r.src) {
		switch c := r.src[r.pos]; {
		case c == '"':
			if !utf8.Valid(b) {
				return "", r.errorf("invalid UTF-8 in a string")
			}
			r.pos++
			return string(b), nil
		case c < 0x20:
			return "", r.errorf("control character in a string")
		case c != '\\':
			b = append(b, c)
			r.pos++
		default:
			char, err := r.escape()
			if err != nil {
				return "", err
			}
			b = utf8.AppendRune(b, char)
		}
	}
	return "", r.errorf("the text ends in a string")
}

var errSurrogate = errors.New("lone surrogate in a string")

func (r *reader) escape() (rune, error) {
	r.pos++
	c := r.peek()
	r.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return r.unicode()
	}
	return 0, r.errorf("unknown escape")
}

func (r *reader) unicode() (rune, error) {
	first, err := r.hex4()
	if err != nil || !utf16.IsSurrogate(first) {
		return first, err
	}
	if r.peek() != '\\' || r.pos+1 >= len(r.src) || r.src[r.pos+1] != 'u' {
		return 0, r.errorf("%v", errSurrogate)
	}
	r.pos += 2
	second, err := r.hex4()
	if err != nil {
		return 0, err
	}
	char := utf16.DecodeRune(first, second)
	if char == utf8.RuneError {
		return 0, r.errorf("%v", errSurrogate)
	}
	return char, nil
}

func (r *reader) hex4() (rune, error) {
	if r.pos+4 > len(r.src) {
		return 0, r.errorf("the text ends in an escape")
	}
	n, err := strconv.ParseUint(string(r.src[r.pos:r.pos+4]), 16, 16)
	if err != nil {
		return 0, r.errorf("malformed \\u escape")
	}
	r.pos += 4
	return rune(n), nil
}

const hexDigits = "0123456789abcdef"

// appendString appends s, which is valid UTF-8, with the shortest escapes.
func appendString(out []byte, s string) []byte {
	out = append(out, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		out = append(out, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\b':
			out = append(out, '\\', 'b')
		case '\f':
			out = append(out, '\\', 'f')
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	out = append(out, s[from:]...)
	return append(out, '"')
}
