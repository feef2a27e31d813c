package journal

import (
	"bytes"
	"errors"
)

// members walks the members of a canonical object, in key order.
type members struct {
	reader
	key, value []byte // of the present member, part of the text unless escaped
}

// membersOf begins to walk a text known to be canonical.
func membersOf(b []byte) (members, error) {
	if len(b) < 2 || b[0] != '{' {
		return members{}, errors.New("want an object")
	}
	return members{reader: reader{src: b}}, nil
}

// next goes to the next member, and reports whether there is one.
func (m *members) next() bool {
	if m.src[m.pos] == '}' {
		return false
	}
	if m.pos++; m.src[m.pos] == '}' { // an empty object
		return false
	}
	m.key = m.shortKey()
	m.pos++
	start := m.pos
	m.skip()
	m.value = m.src[start:m.pos]
	return true
}

// shortKey passes a key.
func (m *members) shortKey() []byte {
	start := m.pos
	for m.pos++; m.src[m.pos] != '"'; m.pos++ {
		if m.src[m.pos] == '\\' {
			m.pos = start
			key, _ := m.str() // canonical, so it can be read
			return []byte(key)
		}
	}
	m.pos++
	return m.src[start+1 : m.pos-1]
}

// split takes a canonical object apart into its members, in key order. The
// values are parts of b.
func split(b []byte) ([]member, error) {
	m, err := membersOf(b)
	var list []member
	for err == nil && m.next() {
		list = append(list, member{string(m.key), m.value})
	}
	return list, err
}

// elements takes a canonical array apart.
func elements(b []byte) ([][]byte, error) {
	if len(b) < 2 || b[0] != '[' {
		return nil, errors.New("want an array")
	}
	list := [][]byte{}
	r := reader{src: b, pos: 1}
	for r.peek() != ']' {
		if len(list) > 0 {
			r.pos++
		}
		start := r.pos
		r.skip()
		list = append(list, b[start:r.pos])
	}
	return list, nil
}

// skip passes one value of a text known to be canonical.
func (r *reader) skip() {
	depth := 0
	for r.pos < len(r.src) {
		switch r.src[r.pos] {
		case '"':
			r.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return
			}
			depth--
		case ',':
			if depth == 0 {
				return
			}
		}
		r.pos++
	}
}

func (r *reader) skipString() {
	r.pos++
	end := bytes.IndexByte(r.src[r.pos:], '"')
	if bytes.IndexByte(r.src[r.pos:r.pos+end], '\\') < 0 {
		r.pos += end + 1
		return
	}
	for ; r.src[r.pos] != '"'; r.pos++ {
		if r.src[r.pos] == '\\' {
			r.pos++
		}
	}
	r.pos++
}
