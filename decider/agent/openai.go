package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"decisionjournal/journal"
)

// MaxLine is how many bytes one line of a batch may have, its end not counted.
const MaxLine = 8 << 20

// jsonBlanks are the blanks between JSON tokens.
const jsonBlanks = " \t\r\n"

// Line is one tool call of a batch, or what stands in the place of one that
// could not be read.
type Line struct {
	// Number is the line of the input, from 1.
	Number int
	// Group numbers the lines that hold anything, from 1. Calls of one group
	// came in one array and are judged under one policy.
	Group int
	// Call is the call. With Err only its ID may be set, if it could be read.
	Call Call
	// Canonical is the canonical form of the call's arguments; nil with Err.
	Canonical json.RawMessage
	// Err says what could not be read, where, and what to do. It wraps the
	// reader's error if reading failed; then it is the last line.
	Err error
}

// ReadBatch reads tool calls in OpenAI's shape, one JSON value a line: a call
//
//	{"id":"c1","type":"function","function":{"name":"fs_read","arguments":"{\"path\":\"a\"}"}}
//
// with arguments as a string of JSON or as an object, an array of calls, or an
// assistant message with "tool_calls". Blank lines are skipped, and members it
// does not know are ignored. Whatever cannot be read is a Line with Err in its
// place, and reading goes on. The sequence can be used once.
func ReadBatch(r io.Reader) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		b := batch{lines: bufio.NewReaderSize(r, 64<<10), yield: yield}
		for b.next() {
		}
	}
}

// RefuseDuplicates passes lines on; one whose id another line had before is
// replaced by an error in its place. For batches whose ids name their calls.
func RefuseDuplicates(lines iter.Seq[Line]) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		first := map[string]int{}
		for l := range lines {
			id := l.Call.ID
			if was, ok := first[id]; ok && id != "" && l.Err == nil {
				l.Call, l.Canonical = Call{ID: id}, nil
				l.Err = fmt.Errorf("line %d: the id %q was used on line %d already; give each call its own", l.Number, clip(id), was)
			} else if !ok {
				first[id] = l.Number
			}
			if !yield(l) {
				return
			}
		}
	}
}

// batch is one pass over a batch's lines.
type batch struct {
	lines  *bufio.Reader
	yield  func(Line) bool
	number int
	group  int
}

// next reads one line and passes on what it holds. It reports whether to go on.
func (b *batch) next() bool {
	text, long, err := b.line()
	b.number++
	if err != nil && err != io.EOF {
		b.group++
		b.yield(b.fault("", "reading failed: %w; run the batch again", err))
		return false
	}
	if b.number == 1 {
		text = bytes.TrimPrefix(text, []byte("\uFEFF")) // some editors begin a file with it
	}
	text = bytes.Trim(text, jsonBlanks)
	if len(text) == 0 && !long {
		return err == nil
	}
	b.group++
	return b.pass(text, long) && err == nil
}

// line reads up to the end of a line, keeping at most MaxLine bytes.
func (b *batch) line() (text []byte, long bool, err error) {
	for {
		part, err := b.lines.ReadSlice('\n')
		if room := MaxLine + 1 - len(text); len(part) > room {
			part, long = part[:room], true
		}
		text = append(text, part...)
		if err != bufio.ErrBufferFull {
			text = bytes.TrimSuffix(text, []byte("\n"))
			return text, long || len(text) > MaxLine, err
		}
	}
}

// pass takes a line apart.
func (b *batch) pass(text []byte, long bool) bool {
	if long {
		return b.yield(b.fault(salvageID(text), "longer than %d bytes; pass large content some other way", MaxLine))
	}
	elements, array, err := callsOf(text)
	switch {
	case err != nil:
		return b.yield(b.fault(salvageID(text), "%w; write each line as one whole JSON value", err))
	case array && len(elements) == 0:
		return b.yield(b.fault("", "there is no call in it; leave the line out"))
	}
	for i, element := range elements {
		l := b.call(element)
		if l.Err != nil && array {
			l.Err = fmt.Errorf("line %d, call %d: %w", b.number, i+1, l.Err)
		} else if l.Err != nil {
			l.Err = fmt.Errorf("line %d: %w", b.number, l.Err)
		}
		if !b.yield(l) {
			return false
		}
	}
	return true
}

// fault is the line that stands for a whole line.
func (b *batch) fault(id, format string, args ...any) Line {
	err := fmt.Errorf("line %d: "+format, append([]any{b.number}, args...)...)
	return Line{Number: b.number, Group: b.group, Call: Call{ID: id}, Err: err}
}

// call reads one call.
func (b *batch) call(text []byte) Line {
	l := Line{Number: b.number, Group: b.group}
	l.Call, l.Canonical, l.Err = parseCall(text)
	if l.Err != nil {
		l.Call, l.Canonical = Call{ID: salvageID(text)}, nil
	}
	return l
}

// callsOf finds the calls in a line, each as its bytes. Only what surrounds
// them is read strictly, so that a fault in one leaves the others alone.
func callsOf(text []byte) (calls []json.RawMessage, array bool, err error) {
	if text[0] == '[' {
		return elementsOf(text)
	}
	ms, err := membersOf(text)
	if err != nil {
		return nil, false, err
	}
	i := slices.IndexFunc(ms, func(m jsonMember) bool { return m.key == "tool_calls" })
	if i < 0 {
		return []json.RawMessage{text}, false, nil
	}
	for j, m := range ms {
		if j == i {
			continue
		}
		if m.key == "tool_calls" {
			return nil, false, errors.New(`the key "tool_calls" stands twice in one object`)
		}
		if _, err := journal.Canonical(m.value); err != nil {
			return nil, false, fmt.Errorf("%q: %w", clip(m.key), err)
		}
	}
	if !bytes.HasPrefix(ms[i].value, []byte("[")) {
		return nil, false, errors.New(`"tool_calls" must be an array of calls`)
	}
	return elementsOf(ms[i].value)
}

func elementsOf(text []byte) (elements []json.RawMessage, array bool, err error) {
	if err := json.Unmarshal(text, &elements); err != nil {
		return nil, true, err
	}
	return elements, true, nil
}

type jsonMember struct {
	key   string
	value json.RawMessage
}

// membersOf lists an object's members in order, repeated ones too. With an
// error it lists those before it.
func membersOf(text []byte) (ms []jsonMember, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("want a JSON object or array")
	}
	for dec.More() {
		m, err := nextMember(dec)
		if err != nil {
			return ms, early(err)
		}
		ms = append(ms, m)
	}
	if _, err := dec.Token(); err != nil {
		return ms, early(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return ms, errors.New("more text after the value")
	}
	return ms, nil
}

func nextMember(dec *json.Decoder) (m jsonMember, err error) {
	key, err := dec.Token()
	if err != nil {
		return m, err
	}
	m.key, _ = key.(string) // the decoder takes no other key
	return m, dec.Decode(&m.value)
}

// early puts the end of a text in words: it is not the end of the batch.
func early(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the text ends early")
	}
	return err
}

// salvageID reads the id of a call that is otherwise unreadable, "" if it has
// none, or two.
func salvageID(text []byte) string {
	ms, _ := membersOf(text)
	id := ""
	for _, m := range ms {
		if m.key != "id" {
			continue
		}
		s, err := stringOf("id", m.value)
		if err != nil || id != "" {
			return ""
		}
		id = s
	}
	return id
}

func parseCall(text []byte) (Call, json.RawMessage, error) {
	m, err := objectOf("a call", text)
	if err != nil {
		return Call{}, nil, err
	}
	id, err := stringOf("id", m["id"])
	if err != nil {
		return Call{}, nil, err
	}
	if raw, ok := m["type"]; ok {
		if kind, err := stringOf("type", raw); err != nil || kind != "function" {
			return Call{}, nil, fmt.Errorf(`"type" must be "function", not %s`, clip(string(raw)))
		}
	}
	function, err := objectOf(`"function"`, m["function"])
	if err != nil {
		return Call{}, nil, err
	}
	name, err := stringOf("name", function["name"])
	if err != nil {
		return Call{}, nil, err
	}
	verbatim, canonical, err := argumentsOf(function["arguments"])
	return Call{ID: id, Tool: name, Arguments: verbatim}, canonical, err
}

// objectOf reads an object strictly; its members keep their bytes.
func objectOf(what string, text []byte) (m map[string]json.RawMessage, err error) {
	if len(text) == 0 {
		return nil, fmt.Errorf(`%s is missing; write {"id":...,"function":{"name":...,"arguments":{...}}}`, what)
	}
	canonical, err := journal.Canonical(text)
	if err != nil {
		return nil, err
	}
	if canonical[0] != '{' {
		return nil, fmt.Errorf("%s must be an object, not %s", what, jsonKind(canonical))
	}
	// What has a canonical form can be read.
	return m, json.Unmarshal(text, &m)
}

// stringOf reads a string that may not be empty.
func stringOf(name string, text []byte) (s string, err error) {
	if len(text) == 0 {
		return "", fmt.Errorf("%q is missing; give the call one", name)
	}
	canonical, err := journal.Canonical(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("%q: %w", name, err)
	case canonical[0] != '"':
		return "", fmt.Errorf("%q must be a string, not %s", name, jsonKind(canonical))
	}
	if err := json.Unmarshal(canonical, &s); err != nil || s == "" {
		return "", fmt.Errorf("%q may not be empty", name)
	}
	return s, nil
}

// argumentsOf reads arguments given as an object, or as a string that holds
// one: the JSON text as it was written, and its canonical form.
func argumentsOf(text []byte) (verbatim, canonical json.RawMessage, err error) {
	const want = `"arguments" must be a JSON object`
	if len(text) == 0 {
		return nil, nil, errors.New(`"arguments" is missing; write {} for none`)
	}
	if text[0] == '"' {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, nil, err
		}
		text = []byte(s)
		if len(bytes.Trim(text, jsonBlanks)) == 0 {
			return nil, nil, errors.New(`"arguments" is an empty string, which is no JSON; write {} for none`)
		}
	}
	canonical, err = journal.Canonical(text)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf(want+": %w", err)
	case canonical[0] != '{':
		return nil, nil, fmt.Errorf(want+", not %s", jsonKind(canonical))
	}
	return text, canonical, nil
}

// ToolMessage is what is said of one call, as a message of OpenAI's shape.
// is_error and pending are additions: take them out before sending it on.
type ToolMessage struct {
	// Role is written as "tool", whatever it is.
	Role string `json:"role"`
	// ToolCallID is the call's id, "" if it could not be read.
	ToolCallID string `json:"tool_call_id"`
	// Content is a JSON string or an array of content blocks.
	Content json.RawMessage `json:"content"`
	// IsError says that the call failed or has no result yet.
	IsError bool `json:"is_error"`
	// Pending names the question the call waits for; "" if it does not.
	Pending string `json:"pending,omitempty"`
}

// WriteResult writes m as one line of JSON, its members always in the same
// order. Content that cannot be read is replaced by an error that says so. The
// line is written in one piece.
func WriteResult(w io.Writer, m ToolMessage) error {
	m.Role = "tool"
	if why := contentFault(m.Content); why != "" {
		m.Content, m.IsError = Text("the result cannot be read: "+why), true
	}
	if _, err := w.Write(append(marshal(m), '\n')); err != nil {
		return fmt.Errorf("writing the result of %q: %w", clip(m.ToolCallID), err)
	}
	return nil
}
