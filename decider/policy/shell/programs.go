package shell

import (
	"slices"
	"strings"
)

// wrapper runs the command after its options and operands.
func wrapper(o options, operands int) verb { return runs(o, operands, true) }

// runner is a wrapper that does something of its own.
func runner(o options, operands int) verb { return runs(o, operands, false) }

func runs(o options, operands int, carries bool) verb {
	return func(w *walk, a args, s scope) bool {
		if len(a.words) == 0 && a.sealed {
			return false
		}
		p := o.read(a)
		s = w.follow(p, s)
		switch {
		case p.unknown:
			w.unknown(WhyOption, s)
		case len(p.operands.words) <= operands && (len(p.lines) > 0 || p.operands.sealed):
			return carries && len(p.lines) > 0 // it runs nothing, or a shell
		case slices.ContainsFunc(p.operands.words[:min(operands, len(p.operands.words))], func(word Word) bool { return !word.Single }):
			w.unknown(WhyOption, s)
		case len(p.operands.words) <= operands:
			w.unknown(WhyMissing, s)
		default:
			w.simple(p.operands.from(operands), s)
		}
		return carries
	}
}

// lineRunner runs the words after its options and operands, joined, as a line;
// with one of the options direct, as they are.
func lineRunner(o options, operands int, direct ...string) verb {
	return func(w *walk, a args, s scope) bool {
		p := o.read(a)
		if operands > 0 && len(p.operands.words) > 0 {
			p = p.then(o, operands)
		}
		s = w.follow(p, s)
		switch {
		case p.unknown:
			w.unknown(WhyOption, s)
		case len(p.operands.words) == 0 && p.operands.sealed:
		case p.has(direct...):
			w.simple(p.operands, s)
		default:
			w.joined(p.operands, s)
		}
		return false
	}
}

// opaque runs something that is in no language read here, if it is given
// anything that asks for it.
func opaque(asks func(argv []string) bool) verb {
	return func(w *walk, a args, s scope) bool {
		var argv []string
		for _, word := range a.words {
			if !word.Known {
				break
			}
			argv = append(argv, word.Text)
		}
		if !a.sealed || len(argv) < len(a.words) || asks(argv) {
			w.unknown(WhyLanguage, s)
		}
		return false
	}
}

func anything(argv []string) bool { return len(argv) > 0 }

// env runs a command with other variables.
func env(w *walk, a args, s scope) bool {
	o := options{
		flags: "i0v", values: "uCSP", dirs: []string{"C", "chdir"},
		long:   []string{"ignore-environment", "null", "debug", "block-signal", "default-signal", "ignore-signal", "list-signal-handling"},
		valued: []string{"unset", "chdir", "split-string"}, lines: []string{"S", "split-string"},
	}
	p := o.read(a)
	s = w.noted(p, s)
	if p.unknown {
		w.unknown(WhyOption, s)
		return true
	}
	if len(p.lines) > 0 { // env splits it by rules of its own, and reads it as its arguments
		text := p.lines[0]
		if len(p.lines) > 1 || !text.Known || strings.ContainsAny(text.Text, "'\"\\$#\v\f\r") {
			w.unknown(WhyPayload, s)
			return true
		}
		var words []Word
		for _, field := range strings.Fields(text.Text) {
			words = append(words, Word{Text: field, Known: true, Single: true, Source: field})
		}
		if s.nested++; s.nested > maxNested {
			w.unknown(WhyDeep, s)
			return true
		}
		return env(w, args{append(words, p.operands.words...), p.operands.sealed}, s)
	}
	return w.assigning(p.operands, s) && !p.has("S")
}

// assigning runs a command that may have assignments before it.
func (w *walk) assigning(a args, s scope) bool {
	for len(a.words) > 0 {
		name, _, ok := strings.Cut(a.words[0].Text, "=")
		switch {
		case a.words[0].Text == "-": // env -, which is -i
		case !ok && a.words[0].Known, !ok && a.words[0].Single && a.words[0].Text == "":
			w.simple(a, s)
			return true
		case !ok || !a.words[0].Single:
			w.unknown(WhyProgram, s)
			return true
		case len(s.assigns) > MaxTogether:
			w.whole = WhyCrowded
			return true
		default:
			s.assigns = append(slices.Clip(s.assigns), name)
		}
		a = a.from(1)
	}
	if !a.sealed {
		w.unknown(WhyMissing, s)
		return true
	}
	return false
}

// sudo takes options, assignments and a command.
func sudo(o options) verb {
	return func(w *walk, a args, s scope) bool {
		if len(a.words) == 0 && a.sealed {
			return false
		}
		p := o.read(a)
		s = w.follow(p, s)
		switch {
		case p.unknown:
			w.unknown(WhyOption, s)
		case p.has("e", "edit", "l", "list", "v", "validate", "V", "version", "K", "k") && len(p.operands.words) == 0:
		default:
			w.assigning(p.operands, s)
		}
		return false
	}
}

// shell runs a line that it is given, or reads.
func shell(w *walk, a args, s scope) bool {
	command := false
	for len(a.words) > 0 {
		word := a.words[0]
		if !word.Known {
			if word.Single && len(a.words) == 1 && a.sealed && !command {
				return false // a script
			}
			w.unknown(WhyPayload, s)
			return true
		}
		text := word.Text
		if text == "--" || text == "-" {
			a = a.from(1)
			break
		}
		if len(text) < 2 || text[0] != '-' && text[0] != '+' {
			break
		}
		a = a.from(1)
		if strings.HasPrefix(text, "--") {
			switch text {
			case "--norc", "--noprofile", "--posix", "--login", "--restricted", "--verbose", "--noediting", "--no-rcs", "--version", "--help":
			case "--rcfile", "--init-file":
				a = a.from(1)
				w.unknown(WhyPayload, s)
			default:
				w.unknown(WhyOption, s)
				return true
			}
			continue
		}
		for _, c := range text[1:] {
			switch {
			case c == 'c' && text[0] == '-':
				command = true
			case c == 'o' || c == 'O':
				if len(a.words) > 0 && !a.words[0].Single {
					w.unknown(WhyOption, s)
					return true
				}
				a = a.from(1)
			case c == 's':
			case !strings.ContainsRune("abefghiklmnprtuvxBCDEHPT", c):
				w.unknown(WhyOption, s)
				return true
			}
		}
	}
	switch {
	case command && len(a.words) == 0:
		w.unknown(WhyMissing, s)
	case command:
		s.stdin = nil
		w.payload(a.words[0], s)
	case !a.sealed:
		w.unknown(WhyPayload, s)
	case len(a.words) == 0 && s.stdin != nil:
		text := *s.stdin
		s.stdin = nil
		if !text.Known {
			return false // as from a pipe
		}
		w.payload(text, s)
	default:
		return false // a script, or what is typed or piped in
	}
	return true
}

// eval runs its arguments as a line.
func eval(w *walk, a args, s scope) bool {
	if len(a.words) > 0 && a.words[0].Known && a.words[0].Text == "--" {
		a = a.from(1)
	}
	if len(a.words) == 0 && a.sealed {
		return false
	}
	w.joined(a, s)
	return true
}

// trap runs a line later.
func trap(w *walk, a args, s scope) bool {
	p := options{flags: "lpP"}.read(a)
	switch a := p.operands; {
	case p.unknown:
		w.unknown(WhyPayload, s)
	case len(a.words) < 2 && a.sealed, p.has("l", "p", "P"):
		return false
	case len(a.words) == 0:
		w.unknown(WhyPayload, s)
	case a.words[0].Known && (a.words[0].Text == "-" || a.words[0].Text == ""):
		return false
	default:
		s.again = true
		w.payload(a.words[0], s)
	}
	return true
}

// alias gives names to what lines begin with.
func alias(w *walk, a args, s scope) bool {
	found := !a.sealed
	s.again, s.more = true, true
	for _, word := range a.words {
		name, line, ok := strings.Cut(word.Text, "=")
		switch {
		case !word.Known && (!ok || name == ""), !word.Known:
			found = true
			w.unknown(WhyPayload, s)
		case ok:
			found = true
			w.payload(Word{Text: line, Known: true}, s)
		}
	}
	return found
}

// command runs its operand past functions, or says what it is.
func command(w *walk, a args, s scope) bool {
	p := options{flags: "pvV"}.read(a)
	switch {
	case p.unknown:
		w.unknown(WhyOption, s)
	case p.has("v", "V") || len(p.operands.words) == 0 && p.operands.sealed:
		return false
	default:
		w.simple(p.operands, s)
	}
	return true
}

// multi is one program that is many.
func multi(w *walk, a args, s scope) bool {
	switch {
	case len(a.words) == 0 && a.sealed:
		return false
	case len(a.words) > 0 && a.words[0].Known && strings.HasPrefix(a.words[0].Text, "-"):
		return false
	}
	w.simple(a, s)
	return true
}

// xargs runs a command with words from its input after it, or in it.
func xargs(w *walk, a args, s scope) bool {
	p := options{
		flags: "0oprtx", values: "adEILnPsRSJ", attach: "eil",
		long:   []string{"null", "open-tty", "interactive", "no-run-if-empty", "exit", "verbose", "show-limits", "eof", "replace", "max-lines"},
		valued: []string{"arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var"},
	}.read(a)
	switch {
	case p.unknown:
		w.unknown(WhyOption, s)
	case len(p.operands.words) == 0:
	case p.has("I", "i", "J", "replace"):
		mark := Word{Text: "{}", Known: true}
		for _, name := range []string{"I", "i", "J", "replace"} {
			if list := p.values[name]; len(list) > 0 {
				mark = list[len(list)-1]
			}
		}
		w.simple(args{without(p.operands.words, mark), true}, s)
	default:
		w.simple(args{p.operands.words, false}, s)
	}
	return false
}

// without are words of which those that hold a mark will be others.
func without(words []Word, mark Word) []Word {
	words = slices.Clone(words)
	for i := range words {
		if !mark.Known || strings.Contains(words[i].Text, mark.Text) {
			words[i].Known = false
			words[i].Open = words[i].Open || !mark.Known || strings.HasPrefix(words[i].Text, mark.Text)
		}
	}
	return words
}

// find runs a command for each file with -exec.
func find(w *walk, a args, s scope) bool {
	self := len(w.out) - 1
	if !a.sealed { // what follows may be -exec
		w.unknown(WhyPayload, s)
	}
	for i := 0; i < len(a.words); i++ {
		if word := a.words[i]; !word.Known {
			switch {
			case word.Open && !word.Single: // may hold -exec, and all of a command
				w.unknown(WhyPayload, s)
			case word.Open && i+1 < len(a.words) && !strings.HasPrefix(a.words[i+1].Text, "-"): // may be -exec
				w.simple(args{a.words[i+1:], false}, s)
			}
			continue
		}
		switch a.words[i].Text {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(a.words) && a.words[end].Text != ";" && (a.words[end].Text != "+" || a.words[end-1].Text != "{}") {
				end++
			}
			w.simple(args{without(a.words[i+1:end], Word{Text: "{}", Known: true}), end < len(a.words)}, s)
			i = end
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			if i+1 < len(a.words) && w.whole == "" {
				own := w.noted(parsed{files: a.words[i+1 : i+2]}, scope{redirects: w.out[self].Redirects})
				w.out[self].Redirects = own.redirects
			}
		}
	}
	return false
}

// mapfile sets a variable, and runs a line for what it reads.
func mapfile(w *walk, a args, s scope) bool {
	p := options{flags: "t", values: "dnOsuCc", lines: []string{"C"}}.read(a)
	s.more = len(p.lines) > 0
	w.follow(p, s)
	if p.unknown {
		w.unknown(WhyOption, s)
	}
	return setting(all)(w, p.operands, s)
}

// jobs lists jobs, or runs a command.
func jobs(w *walk, a args, s scope) bool {
	if p := (options{flags: "lnprsx"}).read(a); p.unknown || p.has("x") {
		w.simple(p.operands, s)
	}
	return false
}

// setting is a builtin that sets variables: those its arguments name.
func setting(names func(argv []Word) []Word) verb {
	return func(w *walk, a args, s scope) bool {
		if !a.sealed {
			w.spoil("*", s)
		}
		for _, word := range names(a.words) {
			name, _, _ := strings.Cut(word.Text, "=")
			switch {
			case !word.Known:
				w.spoil("*", s)
			case strings.HasPrefix(name, "-"):
			case strings.Contains(name, "["):
				w.arithm = true
			case name != "" && inEnvironments(name):
				w.spoil(name, s)
			}
		}
		return false
	}
}

func all(words []Word) []Word { return words }

// after are the words after an option.
func after(option string) func([]Word) []Word {
	return func(words []Word) []Word {
		for i, word := range words {
			if !word.Known {
				return words[i : i+1]
			}
			if rest, ok := strings.CutPrefix(word.Text, option); ok {
				if rest != "" {
					return []Word{{Text: rest, Known: true}}
				}
				return words[min(i+1, len(words)):min(i+2, len(words))]
			}
		}
		return nil
	}
}

// spoils is a builtin that changes what names mean.
func spoils(w *walk, a args, s scope) bool {
	if len(a.words) > 0 || !a.sealed {
		w.spoil("*", s)
	}
	return false
}

// set changes options of the shell.
func set(w *walk, a args, s scope) bool {
	for _, word := range a.words {
		if !word.Known || strings.HasPrefix(word.Text, "-") && strings.Contains(word.Text, "a") || strings.Contains(word.Text, "allexport") {
			w.spoil("*", s)
		}
	}
	return false
}

// moves changes the directory.
func moves(w *walk, a args, s scope) bool {
	to := Word{Source: "~"} // without an argument
	for _, word := range a.words {
		switch {
		case word.Known && word.Text == "-":
			to.Source = "$OLDPWD"
		case !word.Known || !strings.HasPrefix(word.Text, "-"):
			to = word
		}
	}
	w.leave(s, to)
	return false
}
