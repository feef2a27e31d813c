package approver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
)

// RenderOptions say how a question is shown. The zero value is a short view
// for a screen of 100 columns.
type RenderOptions struct {
	All   bool // show everything, however long
	Width int  // of the screen, in columns; 0: 100
}

// Render is a question as plain text for a person to judge. Whatever an agent
// may have written is made visible (see [Visible]), with a warning if any of
// it was hidden, and long texts say how much of them is not shown.
func Render(item *inbox.Item, opt RenderOptions) string {
	p := &page{all: opt.All, width: max(cmp.Or(opt.Width, defaultWidth), minWidth)}
	p.asker(item)
	p.call(item)
	p.arguments(item)
	p.why(item)
	p.answers(item)
	text := fmt.Sprintf("Question %s\n", Visible(item.ID))
	if p.hidden > 0 {
		text += fmt.Sprintf("  WARNING: %s below would be invisible or change how the text reads; written out as \\u{…}\n",
			count(p.hidden, "character", "characters"))
	}
	return text + p.out.String()
}

func (p *page) optional(label, text string) {
	if text != "" {
		p.field(label, text)
	}
}

func (p *page) asker(i *inbox.Item) {
	p.field("session", i.Session)
	p.optional("label", i.View.Label)
	p.field("agent", i.Agent)
	p.optional("parent", i.View.Parent)
	p.optional("layer", i.Layer)
	p.field("asked", stamp(i.AskedAt))
	if i.Count > 1 {
		p.field("identical", fmt.Sprintf("%d such calls are open; each takes an answer of its own", i.Count))
	}
	if !i.Waiting {
		p.field("waiting", "nobody: the answer is kept until the agent comes back")
	}
}

// stamp is a time to the second.
func stamp(t journal.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (p *page) call(i *inbox.Item) {
	p.field("tool", i.Tool)
	if i.View.Tool != i.Tool {
		p.field("CAUTION", fmt.Sprintf("the question shows the tool %q, the call names another", i.View.Tool))
	}
	p.optional("directory", i.View.CWD)
	p.list("commands", commandLines(i.View.Commands))
	p.list("paths", i.View.Paths)
	p.list("hosts", i.View.Hosts)
	p.list("unreadable", i.View.Unread)
	p.list("masked", i.View.Masked)
	p.optional("CAUTION", i.Unread)
}

// commandLines spells argvs so that where each token ends can be seen.
func commandLines(commands [][]string) []string {
	var list []string
	for _, argv := range commands {
		if len(argv) == 0 {
			list = append(list, "(one that cannot be read)")
			continue
		}
		list = append(list, words(argv))
	}
	return list
}

// words joins tokens, quoting those that do not stand for themselves.
func words(tokens []string) string {
	quoted := make([]string, len(tokens))
	for i, t := range tokens {
		quoted[i] = t
		if t == "" || strings.ContainsAny(t, " \t\n'\"\\$`;&|<>()*?[]{}~#!") {
			quoted[i] = "'" + strings.ReplaceAll(t, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func (p *page) arguments(i *inbox.Item) {
	raw := i.Arguments
	if raw == nil && p.all {
		raw = i.Whole
	}
	if raw == nil {
		p.block("arguments", i.View.Preview)
		p.mark(fmt.Sprintf("all but %d of %d bytes", len(i.View.Preview), i.View.Size))
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		p.block("arguments", string(raw))
		return
	}
	for n, name := range slices.Sorted(maps.Keys(members)) {
		if n == maxEntries && !p.all {
			p.mark(count(len(members)-n, "more argument", "more arguments"))
			return
		}
		p.argument(name, members[name])
	}
}

// argument writes one argument: a string as its text, anything else as JSON.
func (p *page) argument(name string, raw json.RawMessage) {
	if !journal.ValidName(name) {
		name = `"` + name + `"`
	}
	var text string
	switch err := json.Unmarshal(raw, &text); {
	case err != nil || string(raw) == "null":
		p.field("argument", name+": "+string(raw))
	case strings.Contains(strings.TrimSuffix(text, "\n"), "\n"):
		n := 1 + strings.Count(strings.TrimSuffix(text, "\n"), "\n")
		p.field("argument", fmt.Sprintf("%s: a text of %d lines", name, n))
		p.block("", text)
	default:
		p.field("argument", name+`: "`+text+`"`)
	}
}

func (p *page) why(i *inbox.Item) {
	p.field("why", reasonText(i.Reason))
	if i.Rule != nil {
		p.field("rule", Spell(i.Rule))
		p.optional("rule's note", ruleNote(i.Rule))
	}
	if i.View.Severity != "" {
		p.field("SEVERITY", i.View.Severity)
	}
	p.optional("BEFORE", i.View.Before)
	if i.View.Model != "" {
		p.block("model says", i.View.Model)
	}
	var recent []string
	for _, d := range i.View.Recent {
		recent = append(recent, fmt.Sprintf("%s %s by %s, %s", d.Outcome, d.Tool, d.By, stamp(d.Time)))
	}
	p.list("lately", recent)
}

func reasonText(r journal.AskReason) string {
	switch r {
	case journal.AskRule:
		return "a rule asks"
	case journal.AskNoMatch:
		return "no rule allows it"
	case journal.AskUnevaluable:
		return "the rules cannot read part of it"
	case journal.AskInterrupted:
		return "an earlier attempt was interrupted, and may have taken effect"
	case journal.AskElicitation:
		return "a tool asks a person for input"
	}
	return string(r)
}

func ruleNote(raw json.RawMessage) string {
	r, err := policy.ParseRule(raw)
	if err != nil {
		return ""
	}
	return r.Note
}

func (p *page) answers(i *inbox.Item) {
	if !i.Deadline.IsZero() {
		p.field("deadline", stamp(i.Deadline)+"; then it is denied")
	}
	p.list("needs", needs(i))
	for _, v := range i.Votes {
		p.field("answered", fmt.Sprintf("%s: %s, %s", v.By, v.Action, stamp(v.At)))
	}
	p.optional("policy says", i.Note)
	switch {
	case i.Kind == journal.CallElicitation:
	case !i.Grantable:
		p.field("always", "not offered: it is asked every time")
	case len(i.Suggestion) == 0:
		p.field("always", "nothing to suggest: always needs rules of your own")
	default:
		p.list("always", []string{"would allow (or deny): " + spellAll(i.Suggestion)})
		p.list("or always", alternatives(i))
		p.optional("covers not", uncovered(i.Suggestion))
	}
}

// uncovered says what rules that are offered leave asked, where that is not in
// their words.
func uncovered(rules []json.RawMessage) string {
	for _, raw := range rules {
		if r, err := policy.ParseRule(raw); err == nil && r.Command != "" {
			return "other programs beside it in a line, files that it writes, variables before it"
		}
	}
	return ""
}

func alternatives(i *inbox.Item) []string {
	var list []string
	for n, rules := range i.Alternatives {
		list = append(list, fmt.Sprintf("%d: %s", n+1, spellAll(rules)))
	}
	return list
}

// needs says who has to answer, where it is not any one approver.
func needs(i *inbox.Item) []string {
	var list []string
	for _, s := range i.Need {
		if len(i.Need) > 1 || s.Count > 1 || len(s.Of) > 0 {
			list = append(list, fmt.Sprintf("%s of %s", count(s.Count, "allow", "allows"), people(s.Of)))
		}
	}
	for _, w := range i.Who {
		if w.From.IsZero() {
			list = append(list, "may answer: "+people(w.Of))
		} else {
			list = append(list, fmt.Sprintf("from %s on: %s", stamp(w.From), people(w.Of)))
		}
	}
	return list
}

func people(names []string) string {
	if len(names) == 0 {
		return "any approver"
	}
	return strings.Join(names, ", ")
}

func spellAll(rules []json.RawMessage) string {
	list := make([]string, len(rules))
	for i, r := range rules {
		list[i] = Spell(r)
	}
	return strings.Join(list, "; and ")
}

// Spell says what a rule matches, in words. What is no rule is shown as it is.
// The text is not made visible.
func Spell(raw json.RawMessage) string {
	r, err := policy.ParseRule(raw)
	if err != nil {
		return string(raw)
	}
	var parts []string
	add := func(set bool, format string, args ...any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	exactly := "beginning with"
	if r.Exact {
		exactly = "exactly"
	}
	add(strings.HasSuffix(r.Tool, "*"), "any tool whose name begins with %q", strings.TrimSuffix(r.Tool, "*"))
	add(!strings.HasSuffix(r.Tool, "*"), "the tool %s", r.Tool)
	add(r.Under != "", "on anything under %s", r.Under)
	add(r.Host != "", "reaching %s", r.Host)
	add(r.Command != "", "running %s", r.Command)
	add(r.Args != nil && (r.Exact || len(r.Args) > 0), "with the arguments %s: %s", exactly, cmp.Or(words(r.Args), "none"))
	add(r.ArgsAny != nil, "with any of the arguments %s", words(r.ArgsAny))
	add(r.Check != "", "where %s", r.Check)
	add(len(parts) == 1, "with any arguments")
	return strings.Join(parts, ", ")
}

// object is what a call is about, as far as the policy or its arguments say.
func object(item *inbox.Item) string {
	switch v := &item.View; {
	case len(v.Commands) > 0:
		return strings.Join(commandLines(v.Commands), "; ")
	case len(v.Paths) > 0:
		return strings.Join(v.Paths, " ")
	case len(v.Hosts) > 0:
		return strings.Join(v.Hosts, " ")
	}
	return string(item.Arguments)
}

// Summary is a question on one line of at most width columns.
func Summary(item *inbox.Item, width int) string {
	same := ""
	if item.Count > 1 {
		same = fmt.Sprintf(" (1 of %d)", item.Count)
	}
	line := Visible(fmt.Sprintf("%s  %s/%s  %s%s  %s", item.ID, item.Session, item.Agent, item.Tool, same, object(item)))
	if pieces := wrap(line, max(width, minWidth)-2); len(pieces) > 1 {
		return pieces[0] + " …"
	}
	return line
}
