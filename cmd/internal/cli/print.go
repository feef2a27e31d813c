package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Notice says something beside the results, in a line of its own.
func (a *App) Notice(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Errs, a.name+": "+format+"\n", args...) // nowhere else to say so
}

// Printf prints a result for people.
func (a *App) Printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.Out, format, args...)
	return err
}

// PrintJSON prints v as one line of JSON. Characters that a screen would hide
// or act on are written as escapes, which mean the same.
func (a *App) PrintJSON(v any) error { return a.printJSON(v, "") }

// PrintDocument is PrintJSON with an indented line for each member.
func (a *App) PrintDocument(v any) error { return a.printJSON(v, "  ") }

func (a *App) printJSON(v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.Out.Write(escaped(b.Bytes()))
	return err
}

func escaped(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	for len(doc) > 0 {
		r, size := utf8.DecodeRune(doc)
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			out = append(out, doc[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		doc = doc[size:]
	}
	return out
}
