package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

const (
	// MaxRead is how many bytes one fs_read returns at most.
	MaxRead = 1 << 20
	// maxContent is how many bytes of JSON a result's content may have here,
	// below the 1 MiB up to which a journal keeps contents, so that a call
	// that is run again gets its recorded result.
	maxContent = 1<<20 - 1024
	// maxOffset is the largest offset, the largest number every JSON reader
	// keeps exact.
	maxOffset = 1<<53 - 1

	encodingText   = "utf-8"
	encodingBase64 = "base64"
)

func (f *FS) read(a arguments) (json.RawMessage, error) {
	given := a.text("path")
	file, size, err := f.openFile(given)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	offset, limit := a.count("offset", 0), a.count("limit", MaxRead)
	if offset > size {
		return nil, failed("%q has %d bytes; offset %d is past its end", clip(given), size, offset)
	}
	data, err := io.ReadAll(io.NewSectionReader(file, offset, limit))
	if err != nil {
		return nil, plain(given, err)
	}
	piece := piece{offset: offset, size: max(size, offset+int64(len(data)))}
	if a.text("encoding") == encodingBase64 {
		return piece.base64(data), nil
	}
	return piece.text(given, data)
}

// openFile opens a regular file that is no link, and tells its size.
func (f *FS) openFile(given string) (*os.File, int64, error) {
	name, seen, err := f.existing(given)
	if err != nil {
		return nil, 0, err
	}
	if err := f.notLink(name); err != nil {
		return nil, 0, err
	}
	if why := noFile(seen.Mode()); why != "" {
		return nil, 0, failed("%q %s", clip(given), why)
	}
	// Should a fifo have taken the file's place, opening it must not wait.
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, plain(given, err)
	}
	info, err := file.Stat()
	if err != nil || !os.SameFile(seen, info) {
		file.Close()
		return nil, 0, failed("%q was replaced while it was opened; read it again", clip(given))
	}
	return file, info.Size(), nil
}

// noFile says why an entry cannot be read or replaced as a file, "" if it can.
func noFile(mode fs.FileMode) string {
	switch kind(mode) {
	case "file":
		return ""
	case "dir":
		return "is a directory; list it with fs_list"
	case "link":
		return "is a link, and links are not followed"
	}
	return "is a device, pipe or socket, not a file"
}

// piece is the part of a file that one read returns.
type piece struct{ offset, size int64 }

// text returns as much of data as is whole characters and fits. A piece that
// is not the whole file says so in a block of its own, apart from the text.
func (p piece) text(given string, data []byte) (json.RawMessage, error) {
	if p.offset > 0 {
		n := continuation(data)
		p.offset, data = p.offset+int64(n), data[n:]
	}
	if p.offset+int64(len(data)) < p.size {
		data = wholeRunes(data)
	}
	if !utf8.Valid(data) || strings.ContainsRune(string(data), 0) {
		return nil, failed("%q is not UTF-8 text (%d bytes); read it with encoding base64", clip(given), p.size)
	}
	data = data[:fitting(data, maxContent)]
	return p.content(string(data), len(data)), nil
}

func (p piece) base64(data []byte) json.RawMessage {
	data = data[:min(len(data), maxContent/4*3)]
	return p.content(base64.StdEncoding.EncodeToString(data), len(data))
}

// content is the text, with a note if its n bytes are not the whole file.
func (p piece) content(text string, n int) json.RawMessage {
	end := p.offset + int64(n)
	if p.offset == 0 && end == p.size {
		return Text(text)
	}
	note := fmt.Sprintf("[bytes %d to %d of %d", p.offset, end, p.size)
	if end < p.size {
		note += fmt.Sprintf("; read on with offset %d", end)
	}
	return blocks(text, note+"]")
}

// blocks makes content of several text blocks.
func blocks(texts ...string) json.RawMessage {
	out := []byte{'['}
	for i, text := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"type":"text","text":`...)
		out = append(append(out, Text(text)...), '}')
	}
	return append(out, ']')
}

// continuation counts the bytes at the start that belong to the character
// before, at most three.
func continuation(b []byte) int {
	n := 0
	for n < len(b) && n < utf8.UTFMax-1 && !utf8.RuneStart(b[n]) {
		n++
	}
	return n
}

// wholeRunes drops a character at the end of which bytes are missing.
func wholeRunes(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax+1; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// fitting is how many bytes of b, which is UTF-8, make at most most bytes of
// JSON string. It never ends inside a character.
func fitting(b []byte, most int) int {
	for i := 0; i < len(b); {
		_, n := utf8.DecodeRune(b[i:])
		if most -= max(n, escapedLen(b[i])); most < 0 {
			return i
		}
		i += n
	}
	return len(b)
}

// escapedLen is how many bytes of a JSON string the byte c takes.
func escapedLen(c byte) int {
	switch {
	case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
		return 2
	case c < 0x20:
		return 6
	}
	return 1
}

// listEntry is one entry of a listing.
type listEntry struct {
	Name string `json:"name"`
	Type string `json:"type"` // file, dir, link or special
	Size *int64 `json:"size,omitempty"`
}

func (f *FS) list(a arguments) (json.RawMessage, error) {
	given := a.text("path")
	name, info, err := f.existing(given)
	if err != nil {
		return nil, err
	}
	if err := f.notLink(name); err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, failed("%q is a %s, not a directory; look at it with fs_stat", clip(given), kind(info.Mode()))
	}
	entries, err := fs.ReadDir(f.root.FS(), display(name)) // sorted by name
	if err != nil {
		return nil, plain(given, err)
	}
	return listing(display(name), entries), nil
}

// listing writes as many entries as fit, and how many there are if not all do.
func listing(name string, entries []fs.DirEntry) json.RawMessage {
	out := []byte(fmt.Sprintf(`{"path":%s,"entries":[`, marshal(name)))
	left := maxContent - len(Text(string(out)))
	for i, e := range entries {
		item := append(marshal(describe(e)), ',')
		if left -= len(Text(string(item))); left < 0 {
			return Text(fmt.Sprintf(`%s],"cut":true,"shown":%d,"total":%d}`, bytes.TrimSuffix(out, []byte(",")), i, len(entries)))
		}
		out = append(out, item...)
	}
	return Text(string(bytes.TrimSuffix(out, []byte(","))) + "]}")
}

func describe(e fs.DirEntry) listEntry {
	out := listEntry{Name: e.Name(), Type: kind(e.Type())}
	// What vanished since has no size.
	if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
		size := info.Size()
		out.Size = &size
	}
	return out
}

func (f *FS) stat(a arguments) (json.RawMessage, error) {
	name, info, err := f.existing(a.text("path"))
	if err != nil {
		return nil, err
	}
	return Text(string(marshal(struct {
		Path     string `json:"path"`
		Type     string `json:"type"`
		Size     int64  `json:"size"`
		Mode     string `json:"mode"`
		Modified string `json:"modified"`
	}{
		display(name), kind(info.Mode()), info.Size(),
		fmt.Sprintf("%04o", info.Mode().Perm()), info.ModTime().UTC().Format(time.RFC3339Nano),
	}))), nil
}
