package shell

import (
	"slices"
	"strings"
)

// args are the words of a command, its program first. Unless sealed there may
// be more of them, and the words may be taken for others that are not known.
type args struct {
	words  []Word
	sealed bool
}

func (a args) from(n int) args { return args{a.words[min(n, len(a.words)):], a.sealed} }

// simple takes a command apart that has been split into words.
func (w *walk) simple(a args, s scope) {
	if s.nested++; s.nested > maxNested {
		w.unknown(WhyDeep, s)
		return
	}
	if len(a.words) == 0 {
		w.unknown(WhyMissing, s)
		return
	}
	program := a.words[0]
	if !program.Known || strings.TrimSpace(program.Text) == "" {
		w.unknown(WhyProgram, s)
		return
	}
	c := Command{
		Program: program.Text, Words: a.words[1:], Sealed: a.sealed, Redirects: s.redirects, Assigns: s.assigns,
		Via: s.via, Input: s.input,
	}
	if s.away > 0 && !s.again {
		c.Dirs, c.Away = slices.Clone(w.dirs[s.away-1:]), true
	}
	if s.span != nil {
		c.Span = *s.span
	}
	for _, word := range c.Words {
		if !word.Known {
			c.Sealed = false
			break
		}
		c.Argv = append(c.Argv, word.Text)
	}
	at := len(w.out)
	w.add(c)
	name := strings.ToLower(Base(program.Text))
	if verb, ok := programs()[name]; ok {
		if verb(w, a.from(1), s.behind(program.Text)) && len(w.out) > at+1 {
			w.out[at].Carrier = true
		}
	}
}

// Base is the name of a program without the directories before it and without
// an executable extension, on any system.
func Base(program string) string {
	s := strings.TrimRight(program, `/\`)
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	if Drive(s) {
		s = s[2:]
	}
	return DropExtension(s)
}

// Drive reports whether a path begins with the name of a drive.
func Drive(path string) bool {
	return len(path) >= 2 && path[1] == ':' && (path[0]|0x20 >= 'a' && path[0]|0x20 <= 'z')
}

// DropExtension drops an extension that a system finds programs without.
func DropExtension(s string) string {
	if len(s) <= 4 {
		return s
	}
	for _, ext := range [...]string{".exe", ".bat", ".cmd", ".com"} {
		if strings.EqualFold(s[len(s)-4:], ext) {
			return s[:len(s)-4]
		}
	}
	return s
}

// verb takes apart what a program runs by its arguments. It reports whether the
// program does nothing else, if it found anything.
type verb func(w *walk, a args, s scope) (carries bool)

// options are those of a program, up to the first operand.
type options struct {
	flags  string   // letters that take no value
	values string   // letters that take one, attached or as the next word
	attach string   // letters that may have one attached, and only so
	long   []string // names that take no value, or one after =
	valued []string // names that take one, after = or as the next word
	rest   bool     // names not listed take a value too
	writes []string // of valued and values: the value is a file to write
	lines  []string // the value is a line that is run
	dirs   []string // the value is a directory to work in
	single bool     // names begin with one dash
}

// parsed is what options.read found.
type parsed struct {
	operands args
	lines    []Word
	files    []Word
	dirs     []Word
	given    []string          // options that were given, without dashes
	values   map[string][]Word // of those that had one
	unknown  bool              // an option is not known, or cannot be read
}

func (p parsed) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(p.given, n) })
}

// then reads what stands after n operands, where there may be more options.
func (p parsed) then(o options, n int) parsed {
	if p.unknown || len(p.operands.words) < n || slices.ContainsFunc(p.operands.words[:n], func(word Word) bool { return !word.Single }) {
		p.unknown = p.unknown || !p.operands.sealed || len(p.operands.words) >= n
		return p
	}
	more := o.read(p.operands.from(n))
	more.lines, more.files, more.given = append(p.lines, more.lines...), append(p.files, more.files...), append(p.given, more.given...)
	more.dirs = append(p.dirs, more.dirs...)
	for name, list := range p.values {
		if more.values == nil {
			more.values = map[string][]Word{}
		}
		more.values[name] = append(list, more.values[name]...)
	}
	return more
}

// read reads options as getopt does that stops at the first operand.
func (o options) read(a args) (p parsed) {
	for len(a.words) > 0 {
		word := a.words[0]
		switch {
		case !word.Known && strings.HasPrefix(word.Text, "--") && strings.Contains(word.Text, "=") && word.Single:
			// a name that is known with a value that is not
		case !word.Known: // may be an option, unless it begins as none does
			p.operands, p.unknown = a, word.Text == "" || word.Text[0] == '-'
			return p
		case word.Text == "--":
			p.operands = a.from(1)
			return p
		case len(word.Text) < 2 || word.Text[0] != '-':
			p.operands = a
			return p
		}
		a = a.from(1)
		if strings.HasPrefix(word.Text, "--") || o.single && len(word.Text) > 2 {
			a = o.name(word, a, &p)
		} else {
			a = o.letters(word.Text[1:], a, &p)
		}
		if p.unknown {
			p.operands = a
			return p
		}
	}
	p.operands = a
	return p
}

func (o options) name(word Word, a args, p *parsed) args {
	name, value, attached := strings.Cut(strings.TrimLeft(word.Text, "-"), "=")
	p.given = append(p.given, name)
	switch {
	case attached:
		o.value(name, Word{Text: value, Known: word.Known, Single: true, Source: value}, p)
	case slices.Contains(o.valued, name) || o.rest && !slices.Contains(o.long, name):
		if len(a.words) == 0 {
			p.unknown = true
			return a
		}
		o.value(name, a.words[0], p)
		p.unknown = p.unknown || !a.words[0].Known && !a.words[0].Single
		return a.from(1)
	case !slices.Contains(o.long, name):
		p.unknown = true
	}
	return a
}

func (o options) letters(s string, a args, p *parsed) args {
	for i := range len(s) {
		name := s[i : i+1]
		p.given = append(p.given, name)
		switch {
		case strings.Contains(o.flags, name):
		case strings.Contains(o.attach, name):
			if rest := s[i+1:]; rest != "" {
				o.value(name, Word{Text: rest, Known: true, Single: true, Source: rest}, p)
			}
			return a
		case !strings.Contains(o.values, name):
			p.unknown = true
			return a
		case i+1 < len(s):
			rest := s[i+1:]
			o.value(name, Word{Text: rest, Known: true, Single: true, Source: rest}, p)
			return a
		case len(a.words) == 0:
			p.unknown = true
			return a
		default:
			o.value(name, a.words[0], p)
			p.unknown = p.unknown || !a.words[0].Known && !a.words[0].Single
			return a.from(1)
		}
	}
	return a
}

func (o options) value(name string, w Word, p *parsed) {
	if p.values == nil {
		p.values = map[string][]Word{}
	}
	p.values[name] = append(p.values[name], w)
	switch {
	case slices.Contains(o.lines, name):
		p.lines = append(p.lines, w)
	case slices.Contains(o.writes, name):
		p.files = append(p.files, w)
	case slices.Contains(o.dirs, name):
		p.dirs = append(p.dirs, w)
	}
}

// noted records what options do beside.
func (w *walk) noted(p parsed, s scope) scope {
	for _, dir := range p.dirs {
		w.leave(s, dir)
	}
	for _, f := range p.files {
		if f.Known && device(f.Text) {
			continue
		}
		target := Redirect{Target: f.Text, Unknown: !f.Known}
		if !f.Known {
			target.Target = f.Source
		}
		s.redirects = append(slices.Clip(s.redirects), target)
	}
	return s
}

// follow records what options do beside, and takes apart the lines that they run.
func (w *walk) follow(p parsed, s scope) scope {
	s = w.noted(p, s)
	for _, line := range p.lines {
		w.payload(line, s)
	}
	return s
}

// payload takes a word apart that is run as a line.
func (w *walk) payload(word Word, s scope) {
	switch {
	case !word.Known:
		w.unknown(WhyPayload, s)
	case doubt(word.Text) != "":
		w.unknown(doubt(word.Text), s)
	default:
		w.line(word.Text, s)
	}
}

// joined takes apart words that are joined by blanks and run as a line.
func (w *walk) joined(a args, s scope) {
	text := make([]string, len(a.words))
	for i, word := range a.words {
		if !word.Known {
			w.unknown(WhyPayload, s)
			return
		}
		text[i] = word.Text
	}
	if !a.sealed {
		w.unknown(WhyPayload, s)
		return
	}
	w.payload(Word{Text: strings.Join(text, " "), Known: true}, s)
}
