package approver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
)

// Prompt asks one person at a terminal, or over any pair of streams, in plain
// lines. It needs a whole word or letter and Enter, allows by nothing else,
// and drops what was typed before its question was on the screen. It leaves
// the terminal's modes alone, so there is nothing to restore. Make one with
// NewPrompt; it is for one Serve at a time.
type Prompt struct {
	in    *lineReader
	out   io.Writer
	flush func()
}

// NewPrompt makes a Prompt. In is read in the background from the first
// question on, to its end. If in and out are terminals, input pending there is
// dropped too, and the width is the screen's.
func NewPrompt(in io.Reader, out io.Writer) *Prompt {
	p := &Prompt{in: newLineReader(in), out: out, flush: func() {}}
	if f, ok := in.(*os.File); ok && IsTerminal(f) {
		p.flush = func() { flushInput(f) }
	}
	return p
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// ScreenWidth is how many columns the terminal w has; 0 if it is none.
func ScreenWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// Frontend is the prompt as Serve takes it. Set Only and Now on it as needed.
func (p *Prompt) Frontend() Frontend {
	return Frontend{Ask: p.Ask, Told: p.told, Idle: p.idle}
}

// Ask shows a question and reads the answer. It returns ErrSkip or ErrQuit if
// the person says so, ErrQuit at the end of the input, and the context's error
// when that ends.
func (p *Prompt) Ask(ctx context.Context, item inbox.Item) (Request, error) {
	p.show(item, false)
	p.discard()
	p.say("%s", choices(&item))
	for {
		line, err := p.in.line(ctx)
		if err != nil {
			return Request{}, err
		}
		req, done, err := p.understand(ctx, &item, line)
		if done || err != nil {
			req.Via = "terminal"
			return req, err
		}
		p.say("> ")
	}
}

func (p *Prompt) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format, args...) // a screen that is gone ends the input too
}

func (p *Prompt) show(item inbox.Item, all bool) {
	p.say("\n%s", Render(&item, RenderOptions{All: all, Width: ScreenWidth(p.out)}))
}

// discard drops what was typed before the question was shown.
func (p *Prompt) discard() {
	p.flush()
	p.in.discard()
}

// choices is the line of what can be typed.
func choices(item *inbox.Item) string {
	if item.Kind == journal.CallElicitation {
		return "accept JSON, [d]ecline, [c]ancel, [s]how all, s[k]ip, [q]uit > "
	}
	always := ""
	if item.Grantable && len(item.Suggestion) > 0 {
		always = "always, never, "
	}
	return "[a]llow once, [d]eny [NOTE], " + always + "[s]how all, s[k]ip, [q]uit > "
}

// understand reads one line. It reports false if there is no answer yet.
func (p *Prompt) understand(ctx context.Context, item *inbox.Item, line string) (Request, bool, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToLower(word) {
	case "":
		p.say("Nothing is answered by an empty line.\n")
		return Request{}, false, nil
	case "s", "show":
		p.show(*item, true)
		return Request{}, false, nil
	case "k", "skip":
		return Request{}, true, ErrSkip
	case "q", "quit":
		return Request{}, true, ErrQuit
	}
	req, ok := p.parse(item, strings.ToLower(word), rest)
	if !ok {
		p.say("Not understood, and nothing is answered. Type one of: %s\n", strings.TrimSuffix(choices(item), " > "))
		return Request{}, false, nil
	}
	return p.noted(ctx, item, req)
}

// parse reads a line that answers. Only a denial takes more words: a sentence
// that happens to begin with "a" must not allow.
func (p *Prompt) parse(item *inbox.Item, word, rest string) (Request, bool) {
	if item.Kind == journal.CallElicitation {
		return parseElicitation(word, rest)
	}
	switch word {
	case "a", "allow", journal.AllowOnce:
		return Request{Action: journal.AllowOnce}, rest == ""
	case "d", "deny", journal.DenyOnce:
		return Request{Action: journal.DenyOnce, Note: rest}, true
	case "always", journal.AlwaysAllow:
		return parseAlways(item, journal.AlwaysAllow, rest)
	case "never", journal.AlwaysDeny:
		return parseAlways(item, journal.AlwaysDeny, rest)
	}
	return Request{}, false
}

func parseElicitation(word, rest string) (Request, bool) {
	switch word {
	case "accept":
		return Request{Action: journal.Accept, Content: []byte(rest)}, rest != ""
	case "d", "decline":
		return Request{Action: journal.Decline, Note: rest}, true
	case "c", "cancel":
		return Request{Action: journal.Cancel, Note: rest}, true
	}
	return Request{}, false
}

// parseAlways takes the suggestion, or with a number that alternative.
func parseAlways(item *inbox.Item, action, rest string) (Request, bool) {
	if rest == "" {
		return Request{Action: action}, true
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 1 || n > len(item.Alternatives) {
		return Request{}, false
	}
	req := Request{Action: action, RulesGiven: true}
	for _, rule := range item.Alternatives[n-1] {
		req.Rules = append(req.Rules, withoutDecision(rule))
	}
	return req, true
}

// noted asks for a note where a denial has none, or the policy wants one.
func (p *Prompt) noted(ctx context.Context, item *inbox.Item, req Request) (Request, bool, error) {
	denies := req.Action == journal.DenyOnce || req.Action == journal.AlwaysDeny
	switch {
	case req.Note != "" || !denies && item.Note == "":
		return req, true, nil
	case item.Note != "":
		p.say("A note (required; Enter alone takes the answer back): ")
	default:
		p.say("A note for the agent (Enter for none): ")
	}
	note, err := p.in.line(ctx)
	if err != nil {
		return Request{}, false, err
	}
	req.Note = strings.TrimSpace(note)
	return req, req.Note != "" || item.Note == "", nil
}

// told says how it went.
func (p *Prompt) told(_ inbox.Item, r Receipt, err error) {
	switch {
	case err != nil:
		p.say("\n%s.\n", Line(err.Error()))
	case r.Settles:
		p.say("Answered %s.\n", r.Action)
	default:
		p.say("Answered %s; the question needs more answers.\n", r.Action)
	}
	for _, rule := range r.Remembers {
		p.say("For the rest of the session: %s\n", Visible(Spell(rule)))
	}
}

func (p *Prompt) idle() { p.say("No open questions; waiting. Ctrl-C ends.\n") }

// withoutDecision is a rule as an answer gives it: the action decides.
func withoutDecision(rule json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(rule, &members); err != nil {
		return rule
	}
	delete(members, "decision")
	raw, err := json.Marshal(members)
	if err != nil {
		return rule
	}
	return raw
}
