// Package shell takes a shell line apart into the commands that it runs, as
// far as its text tells, and says what cannot be told. It runs nothing, expands
// nothing and looks at no file. It reads for people who write rules about
// programs; it is not a sandbox: what a program does with its arguments, or
// which programs it runs by an option of its own, is not followed.
package shell

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of what is read. A line past one of them is unknown as a whole.
const (
	MaxBytes    = 64 << 10 // the parser's stack is safe well above this
	MaxDepth    = 200      // of constructs in each other
	MaxCommands = 1000
	MaxTogether = 200 // redirections around one command, and variables that it may see
	maxNested   = 8   // lines in lines: sh -c "sh -c '...'"
)

// Why a command is unknown.
const (
	WhyEmpty    = "the line names no command"
	WhyLong     = "the line is longer than 64 KiB"
	WhyControl  = "the line holds a control character"
	WhyEncoding = "the line holds characters that are not UTF-8"
	WhySyntax   = "the line cannot be parsed"
	WhyDeep     = "the line is nested too deeply"
	WhyMany     = "the line runs more than 1000 commands"
	WhyCrowded  = "a command has more than 200 redirections or variables"
	WhyProgram  = "which program runs is known only when it runs"
	WhyPayload  = "what it runs is known only when it runs"
	WhyMissing  = "what it should run is missing"
	WhyOption   = "an option is not known, so where the command begins is not either"
	WhyLanguage = "what it runs is not in the language of sh"
	WhyIndirect = "an expansion can run what a variable holds"
)

// Command is one command that a line runs. The zero Command is none.
type Command struct {
	// Program is the program as written, quotes taken away; "" if Unknown.
	// A line that runs no program, as it only assigns or redirects, is ":".
	Program string
	// Argv are the arguments up to the first that cannot be read.
	Argv []string
	// Sealed: Argv are all arguments.
	Sealed bool
	// Words are all arguments, readable or not.
	Words []Word
	// Redirects are the files that its redirections open for writing, and the
	// connections that they open, those of the groups around it included.
	Redirects []Redirect
	// Assigns are the variables assigned for it, or before it in a way that
	// it may see; "*" is any. Sorted, each once.
	Assigns []string
	// Via are the programs that run it, as written, outermost first.
	Via []string
	// Carrier: it does nothing but run the commands after it, as env and sh -c
	// do. What is allowed need not name it.
	Carrier bool
	// Dirs are the directories that the line may have changed to before it, in
	// order and as written, quotes included. Nil if it has not.
	Dirs []string
	// Away: it has changed to all of Dirs before it, one after another.
	Away bool
	// Input: what it reads from standard input comes from a pipe.
	Input bool
	// Span is where it stands in the line; of one inside a quoted line, where
	// that stands.
	Span Span
	// Unknown says why nothing is known about it, "" if something is.
	Unknown string
}

// Span is a range of bytes: Start is the first, End the one after the last.
type Span struct{ Start, End int }

// Redirect is a file that is opened for writing.
type Redirect struct {
	Target string // as written, quotes taken away; the source text if Unknown
	// Unknown: it cannot be read, or is relative after a change of directory.
	Unknown bool
}

// Commands takes a line apart. It never returns an empty list: what cannot be
// taken apart is one unknown command. It may run concurrently.
func Commands(line string) []Command {
	if why := doubt(line); why != "" {
		return []Command{{Unknown: why, Span: Span{0, len(line)}}}
	}
	w := &walk{out: make([]Command, 0, 4)}
	w.line(line, scope{})
	return w.finish(Span{0, len(line)})
}

// Argv is Commands for a program that is run with its arguments, by no shell.
// sealed says that argv holds all of them.
func Argv(argv []string, sealed bool) []Command {
	words := make([]Word, len(argv))
	for i, s := range argv {
		words[i] = Word{Text: s, Known: true, Single: true, Source: s}
	}
	w := &walk{}
	w.simple(args{words, sealed}, scope{})
	return w.finish(Span{})
}

// doubt says why a line is not even parsed.
func doubt(line string) string {
	if len(line) > MaxBytes {
		return WhyLong
	}
	open := 0 // parentheses, which take the parser long if they are never closed
	for _, r := range line {
		switch {
		case r == '(':
			if open++; open > 2*MaxDepth {
				return WhyDeep
			}
		case r == ')':
			open = max(open-1, 0)
		case r == '\n' || r == '\t' || r >= ' ' && r < utf8.RuneSelf && r != 0x7f:
		case r == utf8.RuneError:
			return WhyEncoding
		case unicode.IsControl(r):
			return WhyControl
		}
	}
	return ""
}

// walk collects commands.
type walk struct {
	out    []Command
	whole  string // why the line is unknown as a whole, "" while it is not
	poison []poison
	moved  int      // 1 + the first command after a change of directory
	dirs   []string // that it changed to
	arithm bool     // something evaluates what variables hold
	hides  bool     // quoted text that would be run if it were evaluated
}

// poison is a variable that commands from a place in the list on may see.
type poison struct {
	name string
	from int
}

// scope is what surrounds a statement.
type scope struct {
	redirects []Redirect
	assigns   []string
	via       []string
	span      *Span // of the quoted line that it stands in
	depth     int   // of constructs
	nested    int   // of lines
	again     bool  // it may run again, or later: in a loop, a function, a trap
	away      int   // 1 + the first of the directories that it certainly changed to
	more      bool  // words may follow that are not known
	input     bool  // on the right of a pipe
	stdin     *Word // what is on standard input, if that is in the line
}

func (s scope) behind(program string) scope {
	s.via = append(slices.Clip(s.via), program)
	return s
}

var parsers = sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }}

// line takes a line apart within a scope.
func (w *walk) line(text string, s scope) {
	if s.nested++; s.nested > maxNested {
		w.unknown(WhyDeep, s)
		return
	}
	p := parsers.Get().(*syntax.Parser)
	file, err := p.Parse(strings.NewReader(text), "")
	parsers.Put(p)
	if err != nil { // what was parsed before the fault is no part of any promise
		w.unknown(WhySyntax, s)
		return
	}
	before := len(w.out)
	r := reader{w, text}
	for _, stmt := range file.Stmts {
		r.stmt(stmt, s)
	}
	if len(w.out) == before {
		if len(file.Stmts) == 0 {
			w.unknown(WhyEmpty, s)
		} else {
			w.add(Command{Program: ":", Sealed: true, Redirects: s.redirects, Assigns: s.assigns, Via: s.via, Span: s.at(Span{0, len(text)})})
		}
	}
}

// at is the place of what stands at span in the scope's own line.
func (s scope) at(span Span) Span {
	if s.span != nil {
		return *s.span
	}
	return span
}

func (w *walk) unknown(why string, s scope) {
	c := Command{Unknown: why, Redirects: s.redirects, Assigns: s.assigns, Via: s.via, Input: s.input}
	if s.span != nil {
		c.Span = *s.span
	}
	w.add(c)
}

func (w *walk) add(c Command) {
	if len(c.Redirects) > MaxTogether || len(c.Assigns) > MaxTogether {
		w.whole = WhyCrowded
		return
	}
	if len(w.out) >= MaxCommands {
		w.whole = WhyMany
		return
	}
	w.out = append(w.out, c)
}

// spoil records that commands from here on may see a variable changed.
func (w *walk) spoil(name string, s scope) {
	from := len(w.out)
	if s.again {
		from = 0
	}
	if i := slices.IndexFunc(w.poison, func(p poison) bool { return p.name == name }); i >= 0 {
		w.poison[i].from = min(w.poison[i].from, from)
		return
	}
	if w.poison = append(w.poison, poison{name, from}); len(w.poison) > MaxTogether {
		w.whole = WhyCrowded
	}
}

// leave records that relative paths from here on may mean something else.
func (w *walk) leave(s scope, dir Word) {
	w.dirs = append(w.dirs, dir.Source)
	from := len(w.out) + 1
	if s.again {
		from = 1
	}
	if w.moved == 0 || from < w.moved {
		w.moved = from
	}
}

func (w *walk) finish(whole Span) []Command {
	switch {
	case w.whole != "":
		return []Command{{Unknown: w.whole, Span: whole}}
	case len(w.out) == 0:
		return []Command{{Unknown: WhyEmpty, Span: whole}}
	case w.arithm && w.hides:
		w.out = append(w.out, Command{Unknown: WhyIndirect, Span: whole})
	}
	for i := range w.out {
		c := &w.out[i]
		for _, p := range w.poison {
			if i >= p.from {
				c.Assigns = append(slices.Clip(c.Assigns), p.name)
			}
		}
		if len(c.Assigns) > 1 {
			c.Assigns = slices.Compact(slices.Sorted(slices.Values(c.Assigns)))
		}
		if w.moved == 0 || i < w.moved-1 {
			continue
		}
		if !c.Away {
			c.Dirs = w.dirs
		}
		for k, r := range c.Redirects {
			if !strings.HasPrefix(r.Target, "/") && !r.Unknown {
				c.Redirects = slices.Clone(c.Redirects)
				c.Redirects[k].Unknown = true
			}
		}
	}
	return w.out
}
