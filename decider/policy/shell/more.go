package shell

import (
	"slices"
	"strings"
)

// verbs is a program that runs others by some of its subcommands.
func verbs(o options, known map[string]verb) verb {
	return func(w *walk, a args, s scope) bool {
		p := o.read(a)
		switch {
		case p.unknown:
			if slices.ContainsFunc(p.operands.words, func(word Word) bool { return !word.Known || known[word.Text] != nil }) {
				w.unknown(WhyOption, s)
			}
		case len(p.operands.words) == 0:
			if !p.operands.sealed {
				w.unknown(WhyMissing, s)
			}
		case known[p.operands.words[0].Text] != nil:
			known[p.operands.words[0].Text](w, p.operands.from(1), w.noted(p, s))
		}
		return false
	}
}

// dashed runs what stands after --, and nothing without it if only one word is left.
func dashed(w *walk, a args, s scope) bool {
	for i, word := range a.words {
		if word.Known && word.Text == "--" {
			w.simple(a.from(i+1), s)
			return false
		}
	}
	if len(a.words) > 1 || !a.sealed {
		w.unknown(WhyOption, s)
	}
	return false
}

// packaged runs a program that is named by its package: @scope/name@version.
func packaged(o options) verb {
	return func(w *walk, a args, s scope) bool {
		p := o.read(a)
		w.follow(p, s)
		switch {
		case p.unknown:
			w.unknown(WhyOption, s)
		case len(p.operands.words) == 0:
			if !p.operands.sealed {
				w.unknown(WhyMissing, s)
			}
		default:
			words := slices.Clone(p.operands.words)
			if name, _, ok := strings.Cut(words[0].Text[min(1, len(words[0].Text)):], "@"); ok {
				words[0].Text = words[0].Text[:1] + name
			}
			w.simple(args{words, p.operands.sealed}, s)
		}
		return false
	}
}

// ssh runs a line on another machine, and programs on this one to reach it.
func ssh(w *walk, a args, s scope) bool {
	o := options{flags: "46AaCfGgKkMNnqsTtVvXxYy", values: "BbcDEeFIiJLlmOopPQRSWw", writes: []string{"E"}}
	p := o.read(a)
	if len(p.operands.words) > 0 {
		p = p.then(o, 1)
	}
	s = w.noted(p, s)
	for _, setting := range p.values["o"] {
		end := strings.IndexAny(setting.Text, " =")
		if end < 0 {
			end = len(setting.Text)
		}
		switch strings.ToLower(setting.Text[:end]) {
		case "proxycommand", "localcommand", "knownhostscommand":
			w.payload(Word{Text: strings.TrimLeft(setting.Text[end:], " ="), Known: setting.Known}, s)
		}
	}
	switch {
	case p.unknown:
		w.unknown(WhyOption, s)
	case len(p.operands.words) > 0 || !p.operands.sealed:
		w.joined(p.operands, s)
	}
	return false
}

// su runs a line as another user.
func su(w *walk, a args, s scope) bool {
	o := options{
		flags: "flmpPVh", values: "cCgGsuwT", lines: []string{"c", "C", "command", "session-command"},
		long: []string{"fast", "login", "preserve-environment", "pty", "no-pty"}, valued: []string{"command", "session-command", "group", "supp-group", "shell", "user", "whitelist-environment"},
	}
	p := o.read(a)
	if p.has("u", "user") { // runuser
		if !p.unknown && len(p.operands.words) > 0 {
			w.simple(p.operands, s)
			return false
		}
	}
	for range 2 { // - and a user
		if len(p.operands.words) > 0 && !p.unknown {
			p = p.then(o, 1)
		}
	}
	w.follow(p, s)
	if p.unknown || len(p.operands.words) > 0 && len(p.lines) == 0 {
		w.unknown(WhyOption, s)
	}
	return false
}

// flock runs a command or a line while it holds a file.
func flock(w *walk, a args, s scope) bool {
	o := options{
		flags: "sexunFovVh", values: "wEc", lines: []string{"c", "command"},
		long:   []string{"shared", "exclusive", "unlock", "nonblock", "no-fork", "close", "verbose"},
		valued: []string{"timeout", "wait", "conflict-exit-code", "command"},
	}
	p := o.read(a)
	if len(p.operands.words) > 0 {
		p = p.then(o, 1)
	}
	w.follow(p, s)
	switch {
	case p.unknown:
		w.unknown(WhyOption, s)
	case len(p.operands.words) > 0:
		w.simple(p.operands, s)
	}
	return false
}

// parallel runs a line for each of many words.
func parallel(w *walk, a args, s scope) bool {
	p := options{
		flags: "k0qtuvXmr", values: "jPnNIaSLdCs", long: []string{"keep-order", "null", "quote", "dry-run", "bar", "progress", "eta", "will-cite", "line-buffer", "lb", "ungroup", "group", "no-run-if-empty", "pipe", "linebuffer", "verbose", "tag"},
		valued: []string{"jobs", "max-args", "max-replace-args", "arg-file", "sshlogin", "results", "joblog", "delay", "timeout", "retries", "halt", "tmpdir", "colsep", "max-lines", "delimiter", "memfree", "load", "nice", "block", "recstart", "recend"},
		writes: []string{"joblog", "results"},
	}.read(a)
	s = w.noted(p, s)
	words, rest := p.operands.words, []Word(nil)
	if i := slices.IndexFunc(words, func(word Word) bool { return strings.HasPrefix(word.Text, ":::") }); i >= 0 {
		words, rest = words[:i], words[i:]
	}
	switch {
	case p.unknown:
		w.unknown(WhyOption, s)
	case len(words) == 0 && len(rest) == 0 && p.operands.sealed && len(a.words) == 0:
	case len(words) == 0: // its words are lines
		w.unknown(WhyPayload, s)
	case slices.ContainsFunc(words, func(word Word) bool { return strings.ContainsAny(word.Text, "{}") || !word.Known }):
		// Words take the place of braces, and a shell reads what comes of it.
		w.simple(args{without(words, Word{Text: "{", Known: true}), false}, s)
	default:
		var text []string
		for _, word := range words {
			text = append(text, word.Text)
		}
		line := strings.Join(text, " ")
		if strings.ContainsAny(line, lineBytes) && len(words) == 1 {
			w.payload(Word{Text: line, Known: true}, s)
			return false
		}
		w.simple(args{words, false}, s)
	}
	return false
}

// lineBytes are those that make more of a line than words.
const lineBytes = "\n;&|<>()$'\"`"

// tmux runs lines by some of its subcommands.
func tmux(argv []string) bool {
	return slices.ContainsFunc(argv, func(s string) bool {
		for _, verb := range []string{"new", "neww", "split", "resp", "run", "if", "pipe", "send", "popup", "display-p", "start", "source"} {
			if strings.HasPrefix(s, verb) {
				return true
			}
		}
		return false
	})
}

func oneOf(names ...string) func([]string) bool {
	return func(argv []string) bool {
		return slices.ContainsFunc(argv, func(s string) bool { return slices.Contains(names, strings.ToLower(s)) })
	}
}
