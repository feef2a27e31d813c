package journal

import (
	"bytes"
	"unicode/utf8"
)

// IsCanonical reports whether b is its own canonical form: whether Canonical
// takes it and returns the same bytes. It builds nothing.
func IsCanonical(b []byte) bool {
	v := verifier{reader{src: b}}
	return v.value(0) && v.pos == len(b)
}

// verifier walks one JSON text that may have no other spelling.
type verifier struct{ reader }

func (v *verifier) value(depth int) bool {
	switch c := v.peek(); {
	case c == '{':
		return depth < MaxDepth && v.object(depth)
	case c == '[':
		return depth < MaxDepth && v.array(depth)
	case c == '"':
		_, ok := v.str()
		return ok
	case c == 't':
		return v.word("true")
	case c == 'f':
		return v.word("false")
	case c == 'n':
		return v.word("null")
	}
	return v.passNumber() == nil
}

func (v *verifier) word(s string) bool {
	if len(v.src)-v.pos < len(s) || string(v.src[v.pos:v.pos+len(s)]) != s {
		return false
	}
	v.pos += len(s)
	return true
}

func (v *verifier) object(depth int) bool {
	v.pos++
	var last token
	for first := true; v.peek() != '}'; first = false {
		if !first && !v.word(",") || v.peek() != '"' {
			return false
		}
		key, ok := v.str()
		if !ok || !first && !last.before(key) || !v.word(":") || !v.value(depth+1) {
			return false
		}
		last = key
	}
	v.pos++
	return true
}

func (v *verifier) array(depth int) bool {
	v.pos++
	for first := true; v.peek() != ']'; first = false {
		if !first && !v.word(",") || !v.value(depth+1) {
			return false
		}
	}
	v.pos++
	return true
}

// token is a string token in shortest form, in its quotes.
type token struct {
	raw     []byte
	escaped bool
}

// before reports whether a's string is less than b's, by bytes.
func (a token) before(b token) bool {
	if !a.escaped && !b.escaped {
		return bytes.Compare(a.raw[1:len(a.raw)-1], b.raw[1:len(b.raw)-1]) < 0
	}
	return a.says() < b.says()
}

func (a token) says() string {
	r := reader{src: a.raw}
	s, _ := r.str() // it was read before
	return s
}

// str passes a string token and reports whether it is in shortest form.
func (v *verifier) str() (token, bool) {
	start := v.pos
	escaped, ascii := false, true
	for v.pos++; v.pos < len(v.src); v.pos++ {
		switch c := v.src[v.pos]; {
		case c == '"':
			v.pos++
			raw := v.src[start:v.pos]
			return token{raw, escaped}, ascii || utf8.Valid(raw)
		case c == '\\':
			escaped = true
			if !v.shortest() {
				return token{}, false
			}
		case c < 0x20:
			return token{}, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return token{}, false
}

// shortest passes an escape up to its last byte, if appendString writes it so.
func (v *verifier) shortest() bool {
	v.pos++
	switch v.peek() {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		start := v.pos - 1
		v.pos++
		char, err := v.hex4()
		if err != nil || char >= 0x20 {
			return false
		}
		var want [8]byte
		quoted := appendString(want[:0], string(char))
		v.pos--
		return bytes.Equal(v.src[start:v.pos+1], quoted[1:len(quoted)-1])
	}
	return false
}
