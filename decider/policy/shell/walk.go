package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// stmt takes one statement apart, whatever it is.
func (r reader) stmt(n *syntax.Stmt, s scope) {
	if s.depth++; s.depth > MaxDepth {
		r.whole = WhyDeep
	}
	if r.whole != "" {
		return
	}
	if len(n.Redirs) > MaxTogether {
		r.whole = WhyCrowded
		return
	}
	for _, redirect := range n.Redirs {
		s = r.redirect(redirect, s)
	}
	switch cmd := n.Cmd.(type) {
	case nil:
		if len(s.redirects) > 0 {
			r.add(Command{Program: ":", Sealed: true, Redirects: s.redirects, Assigns: s.assigns, Via: s.via, Span: s.at(span(n))})
		}
	case *syntax.CallExpr:
		r.call(cmd, s)
	case *syntax.BinaryCmd:
		left, dirs := s, len(r.dirs)
		left.depth-- // a long list is not deep
		r.stmt(cmd.X, left)
		if cmd.Op == syntax.AndStmt && s.away == 0 && goes(cmd.X) {
			s.away = dirs + 1
		}
		if cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll {
			s.input, s.stdin = true, nil
		}
		r.stmt(cmd.Y, s)
	case *syntax.FuncDecl:
		s.again = true
		r.stmt(cmd.Body, s)
	case *syntax.WhileClause, *syntax.ForClause:
		s.again = true
		r.inside(cmd, s)
	case *syntax.DeclClause:
		r.declare(cmd, s)
	case *syntax.ArithmCmd, *syntax.LetClause:
		r.arithm = true
		r.inside(cmd, s)
	default:
		r.inside(cmd, s)
	}
}

// goes reports whether a statement that succeeds has changed the directory last.
func goes(n *syntax.Stmt) bool {
	if n.Negated || n.Background || n.Coprocess {
		return false
	}
	switch cmd := n.Cmd.(type) {
	case *syntax.CallExpr:
		return len(cmd.Args) > 0 && cmd.Args[0].Lit() == "cd"
	case *syntax.BinaryCmd:
		return cmd.Op == syntax.AndStmt && goes(cmd.Y)
	}
	return false
}

// inside takes apart what runs anywhere within a node.
func (r reader) inside(n syntax.Node, s scope) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			r.stmt(n, s)
			return false
		case *syntax.CmdSubst:
			if text := r.source(n); n.Backquotes && strings.Contains(text, `\`) {
				r.backquoted(text, s)
				return false
			}
		case *syntax.WordIter:
			r.assigned(n.Name.Value, false, s)
		case *syntax.SglQuoted:
			r.quoted(n.Value)
		case *syntax.Lit:
			if strings.Contains(n.Value, `\`) {
				r.quoted(strings.ReplaceAll(n.Value, `\`, ""))
			}
		case *syntax.ArithmExp, *syntax.CStyleLoop:
			r.arithm = true
		case *syntax.UnaryTest:
			r.arithm = r.arithm || n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar
		case *syntax.BinaryTest:
			switch n.Op {
			case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
				r.arithm = true
			}
		case *syntax.ParamExp:
			r.param(n, s)
		case *syntax.ExtGlob: // in zsh it may hold code
			r.unknown(WhyIndirect, s)
		}
		return true
	})
}

// backquoted takes apart what stands in backquotes: a shell takes backslashes away
// before it reads that, and in double quotes it is not agreed which.
func (r reader) backquoted(source string, s scope) {
	text := strings.TrimSuffix(strings.TrimPrefix(source, "`"), "`")
	if strings.Contains(text, `\"`) {
		r.unknown(WhyPayload, s)
		return
	}
	if s.span == nil {
		at := strings.Index(r.text, source)
		s.span = &Span{at, at + len(source)}
	}
	r.line(strings.NewReplacer(`\\`, `\`, `\$`, `$`, "\\`", "`").Replace(text), s)
}

// quoted notes text that a second evaluation would run.
func (r reader) quoted(text string) {
	r.hides = r.hides || strings.Contains(text, "$(") || strings.Contains(text, "`") || strings.Contains(text, "${")
}

// param notes what an expansion does beside giving a value.
func (r reader) param(n *syntax.ParamExp, s scope) {
	r.arithm = r.arithm || n.Index != nil || n.Slice != nil
	switch {
	case n.Excl && n.Names == 0: // ${!x}: x may be a[$(...)]
		r.unknown(WhyIndirect, s)
	case n.Exp == nil:
	case n.Exp.Op == syntax.OtherParamOps: // ${x@P}
		if n.Exp.Word == nil || n.Exp.Word.Lit() == "P" || n.Exp.Word.Lit() == "" {
			r.unknown(WhyIndirect, s)
		}
	case n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull:
		r.assigned(n.Param.Value, false, s)
	}
}

// assigned notes a variable of the shell that is set. Programs see those that
// are exported: by this line, or before it. Of the latter only names that no
// environment uses are let pass.
func (r reader) assigned(name string, exported bool, s scope) {
	if exported || inEnvironments(name) {
		r.spoil(name, s)
	}
}

// inEnvironments reports whether a name may well be that of a variable that a
// program was given: those with a capital letter are, by convention, and some.
func inEnvironments(name string) bool {
	switch name {
	case "path", "fpath", "cdpath": // of zsh, where they are PATH, FPATH and CDPATH
		return true
	}
	return strings.ToLower(name) != name || strings.HasSuffix(name, "_proxy") || strings.Contains(name, "_config_")
}

// declare notes what declare, export and their like set.
func (r reader) declare(n *syntax.DeclClause, s scope) {
	exports := n.Variant.Value == "export"
	for _, a := range n.Args {
		if a.Name == nil { // an option, or a word that says what to do when it is expanded
			w := Word{}
			if a.Value != nil {
				w = r.word(a.Value)
			}
			switch {
			case !w.Known:
				r.spoil("*", s)
			case strings.HasPrefix(w.Text, "-"):
				exports = exports || strings.Contains(w.Text, "x")
				r.arithm = r.arithm || strings.Contains(w.Text, "i")
			case strings.Contains(w.Text, "["):
				r.arithm = true
			}
		}
	}
	for _, a := range n.Args {
		if a.Name != nil {
			r.assigned(a.Name.Value, exports, s)
			r.arithm = r.arithm || a.Index != nil
		}
		r.inside(a, s)
	}
}

// redirect takes over what a redirection opens, and takes apart what runs in it.
func (r reader) redirect(n *syntax.Redirect, s scope) scope {
	if n.Word != nil {
		r.inside(n.Word, s)
	}
	if n.Hdoc != nil {
		r.inside(n.Hdoc, s)
	}
	switch n.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut, syntax.DplOut:
		w := r.word(n.Word)
		if w.Known && (n.Op == syntax.DplOut && descriptor(w.Text) || device(w.Text)) {
			return s
		}
		target := Redirect{Target: w.Text, Unknown: !w.Known}
		if !w.Known {
			target.Target = w.Source
		}
		s.redirects = append(slices.Clip(s.redirects), target)
	case syntax.Hdoc, syntax.DashHdoc:
		s.stdin, s.input = nil, false
		if n.N == nil || n.N.Value == "0" {
			s.stdin = &Word{}
			if n.Hdoc == nil {
				s.stdin = &Word{Known: true, Single: true}
			} else if body := r.document(n); body.Known {
				s.stdin = &body
			}
		}
	case syntax.WordHdoc:
		if n.N == nil || n.N.Value == "0" {
			w := r.word(n.Word)
			s.stdin, s.input = &w, false
		}
	case syntax.RdrIn, syntax.DplIn:
		if w := r.word(n.Word); strings.HasPrefix(w.Text, "/dev/tcp/") || strings.HasPrefix(w.Text, "/dev/udp/") { // a connection
			s.redirects = append(slices.Clip(s.redirects), Redirect{Target: w.Text, Unknown: !w.Known})
		}
		if n.N == nil || n.N.Value == "0" {
			s.stdin, s.input = nil, false
		}
	}
	return s
}

// document reads a here-document. Quoting any part of its delimiter means that
// its text is taken as it is.
func (r reader) document(n *syntax.Redirect) Word {
	verbatim := strings.ContainsAny(r.source(n.Word), `'"\`)
	w := Word{Known: true, Single: true, Source: r.source(n.Hdoc)}
	var b strings.Builder
	for _, part := range n.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || !verbatim && strings.Contains(lit.Value, `\`) {
			return Word{Source: w.Source}
		}
		b.WriteString(lit.Value)
	}
	w.Text = b.String()
	return w
}

// descriptor reports whether what follows >& is a descriptor and no file.
func descriptor(s string) bool {
	return s == "-" || s != "" && strings.Trim(strings.TrimSuffix(s, "-"), "0123456789") == ""
}

// device reports whether a file is none that anything is kept in.
func device(file string) bool {
	switch file {
	case "/dev/null", "/dev/stdout", "/dev/stderr":
		return true
	}
	number, ok := strings.CutPrefix(file, "/dev/fd/")
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// call takes a simple command apart.
func (r reader) call(n *syntax.CallExpr, s scope) {
	if len(n.Assigns) > MaxTogether {
		r.whole = WhyCrowded
		return
	}
	for _, a := range n.Assigns {
		r.inside(a, s)
		r.arithm = r.arithm || a.Index != nil
		if len(n.Args) == 0 {
			r.assigned(a.Name.Value, false, s)
		}
	}
	if last := len(n.Assigns) - 1; last >= 0 && len(n.Args) > 0 && n.Assigns[last].Pos().After(n.Args[0].Pos()) {
		r.unknown(WhySyntax, s) // coproc alias x=y: the parser takes an argument for an assignment
		return
	}
	if len(n.Args) == 0 {
		return // line says if there was nothing else
	}
	words := make([]Word, len(n.Args))
	for i, a := range n.Args {
		if words[i] = r.word(a); !words[i].Known || a.Lit() != words[i].Text { // else nothing runs in it
			r.inside(a, s)
		}
	}
	for _, a := range n.Assigns {
		s.assigns = append(slices.Clip(s.assigns), a.Name.Value)
	}
	if s.span == nil {
		here := span(n)
		s.span = &here
	}
	r.simple(args{words, !s.more}, s)
}
