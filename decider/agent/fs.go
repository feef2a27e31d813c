package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unicode/utf8"
)

// FS is the built-in file provider: it reads and changes files in one
// directory and nowhere else.
//
// Confinement is [os.Root]'s: no path, link or race leads outside. Within the
// directory links are not followed either, since rules judge a path as it is
// written: a link would lead past a rule that forbids its target. That check
// is made just before the operation, so a process that swaps links meanwhile
// can defeat it, but not the confinement.
//
// All methods may be called concurrently. Calls that change something run one
// at a time; those of other processes are not held off.
type FS struct {
	root *os.Root
	// names are the absolute names the directory is known by.
	names []string
	// changing is held by calls that change something.
	changing sync.Mutex
}

// NewFS opens dir, which must be a directory, for the file tools. Close it
// when done.
func NewFS(dir string) (*FS, error) {
	given, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("file provider: %w", err)
	}
	names := []string{given}
	if real, err := filepath.EvalSymlinks(given); err == nil && real != given {
		names = append(names, real)
	}
	root, err := os.OpenRoot(given)
	if err != nil {
		return nil, fmt.Errorf("file provider: %w; name a directory that exists", err)
	}
	return &FS{root: root, names: names}, nil
}

// Close gives the directory up. Later calls fail without effect.
func (f *FS) Close() error { return f.root.Close() }

// fsTool is one file tool.
type fsTool struct {
	name, doc string
	params    []param
	changes   bool
	run       func(*FS, arguments) (json.RawMessage, error)
}

func fsTools() []fsTool {
	const relative = "Relative to the root directory, or absolute inside it."
	return []fsTool{
		{
			name: "fs_read", run: (*FS).read,
			doc: "Read a text file, or any file as base64. What does not fit one result is cut, which the result says.",
			params: []param{
				{name: "path", kind: aString, required: true, doc: "The file. " + relative},
				{name: "offset", kind: aCount, max: maxOffset, doc: "The byte to begin at; the default is 0."},
				{name: "limit", kind: aCount, min: utf8.UTFMax, max: MaxRead, doc: "How many bytes to read at most; the default is the maximum."},
				{name: "encoding", kind: aString, values: []string{encodingText, encodingBase64}, doc: "How to return the content; the default is utf-8."},
			},
		}, {
			name: "fs_list", run: (*FS).list,
			doc:    "List a directory's entries by name, with their types and sizes, as JSON.",
			params: []param{{name: "path", kind: aString, required: true, doc: `The directory; "." is the root. ` + relative}},
		}, {
			name: "fs_stat", run: (*FS).stat,
			doc:    "Tell a file's or directory's type, size, mode and modification time, as JSON.",
			params: []param{{name: "path", kind: aString, required: true, doc: relative}},
		}, {
			name: "fs_write", run: (*FS).write, changes: true,
			doc: "Write a text file, new or in place of the old one. Readers see the old content or the new, never a part.",
			params: []param{
				{name: "path", kind: aString, required: true, doc: "The file. " + relative},
				{name: "content", kind: aString, required: true, doc: "The whole content."},
				{name: "create-parents", kind: aBool, doc: "Make missing parent directories; the default is false."},
			},
		}, {
			name: "fs_move", run: (*FS).move, changes: true,
			doc: "Move or rename a file or directory.",
			params: []param{
				{name: "from", kind: aString, required: true, doc: "What to move. " + relative},
				{name: "to", kind: aString, required: true, doc: "Its new path, whose parent exists. " + relative},
				{name: "overwrite", kind: aBool, doc: "Replace the file that is there; the default is false."},
			},
		}, {
			name: "fs_delete", run: (*FS).delete, changes: true,
			doc: "Delete a file or an empty directory.",
			params: []param{
				{name: "path", kind: aString, required: true, doc: relative},
				{name: "recursive", kind: aBool, doc: "Delete a directory with all that is in it; the default is false."},
			},
		},
	}
}

// Tools lists the file tools, always the same. It does not fail.
func (f *FS) Tools(context.Context) ([]Tool, error) {
	var out []Tool
	for _, t := range fsTools() {
		out = append(out, Tool{Name: t.name, Description: t.doc, Parameters: schema(t.params)})
	}
	return out, nil
}

// Execute runs the calls one after the other. A result is NotRun if the
// arguments were refused, the context was done or a change did not begin. A
// reading call that finds nothing did run.
func (f *FS) Execute(ctx context.Context, calls []Call) []Result {
	out := make([]Result, len(calls))
	for i, c := range calls {
		content, err := f.call(ctx, c)
		out[i] = outcome(content, err)
	}
	return out
}

func (f *FS) call(ctx context.Context, c Call) (json.RawMessage, error) {
	tools := fsTools()
	i := slices.IndexFunc(tools, func(t fsTool) bool { return t.name == c.Tool })
	if i < 0 {
		return nil, refused("there is no tool %q here; list the tools to see what there is", clip(c.Tool))
	}
	args, err := decodeArguments(tools[i].params, c.Arguments)
	if err != nil {
		return nil, refused("%s: %v", c.Tool, err)
	}
	if tools[i].changes {
		f.changing.Lock()
		defer f.changing.Unlock()
	}
	if ctx.Err() != nil {
		return nil, refused("not run: %v", context.Cause(ctx))
	}
	return tools[i].run(f, args)
}

// fault is what went wrong with one call, in words for the model.
type fault struct {
	text            string
	notRun, unknown bool
}

func (e *fault) Error() string { return e.text }

// refused is a fault before anything happened.
func refused(format string, args ...any) error {
	return &fault{text: fmt.Sprintf(format, args...), notRun: true}
}

// failed is a fault after which the call is over.
func failed(format string, args ...any) error {
	return &fault{text: fmt.Sprintf(format, args...)}
}

// unsure is a fault that leaves open whether the call had its effect.
func unsure(format string, args ...any) error {
	return &fault{text: fmt.Sprintf(format, args...), unknown: true}
}

func outcome(content json.RawMessage, err error) Result {
	if err == nil {
		return Result{Content: content}
	}
	r := Result{Content: Text(err.Error()), IsError: true}
	var e *fault
	if errors.As(err, &e) {
		r.NotRun, r.Unknown = e.notRun, e.unknown
	}
	return r
}
