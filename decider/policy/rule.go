package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Decision is what a rule says, or what the policy says about a call. The
// zero value denies, and a smaller value is the stricter one.
type Decision uint8

// The three decisions, strictest first.
const (
	Deny Decision = iota
	Ask
	Allow
)

// String returns "deny", "ask" or "allow", and names any other value as
// invalid.
func (d Decision) String() string {
	switch d {
	case Deny:
		return "deny"
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	}
	return fmt.Sprintf("invalid decision %d", uint8(d))
}

// MarshalText writes the word of [Decision.String]; a value that is none of
// the three is an error.
func (d Decision) MarshalText() ([]byte, error) {
	if d > Allow {
		return nil, fmt.Errorf("decision %d is none of deny, ask, allow", uint8(d))
	}
	return []byte(d.String()), nil
}

// UnmarshalText reads exactly "deny", "ask" or "allow". On an error the
// decision is Deny.
func (d *Decision) UnmarshalText(text []byte) error {
	switch string(text) {
	case "deny":
		*d = Deny
	case "ask":
		*d = Ask
	case "allow":
		*d = Allow
	default:
		*d = Deny
		return fmt.Errorf("decision %q is none of deny, ask, allow", text)
	}
	return nil
}

// Reason says why a verdict came out as it did.
type Reason string

// The reasons. Judging gives the first three; the last two belong to callers,
// who ask for causes of their own and write them in the same place.
const (
	// ReasonRule: a rule matched everything it narrows by.
	ReasonRule Reason = "rule"
	// ReasonNoMatch: no rule fired.
	ReasonNoMatch Reason = "no-match"
	// ReasonUnevaluable: a deny or ask rule fired on something that could not
	// be read, or nothing fired and something could not be read.
	ReasonUnevaluable Reason = "unevaluable-path"
	// ReasonInterrupted: an earlier attempt was started and its outcome is
	// unknown.
	ReasonInterrupted Reason = "interrupted"
	// ReasonElicitation: a tool asks a person for input.
	ReasonElicitation Reason = "elicitation"
)

// SeverityDanger is the only severity a rule may carry.
const SeverityDanger = "danger"

// Rule is one line of policy: plain data, narrowed by the members present. All
// narrowers of a rule must hold together. An allow fires only where every
// narrower is certain to hold; a deny or ask fires wherever none is certain
// not to.
//
// The JSON form has only the members present, in sorted order. The zero Rule
// is not valid.
type Rule struct {
	// Args are the leading argument tokens of the command; with Exact, all of
	// them. Nil narrows nothing; empty and not Exact neither. Needs Command.
	Args []string `json:"args,omitzero"`
	// ArgsAny holds if one of its tokens is an argument anywhere. Nil narrows
	// nothing; empty matches never. Needs Command.
	ArgsAny []string `json:"args-any,omitzero"`
	// Check names a predicate of the danger floor. One this engine does not
	// know is never certain.
	Check string `json:"check,omitempty"`
	// Command is a program's base name, or a prefix of one ending in "*".
	Command string `json:"command,omitempty"`
	// Decision is what the rule says.
	Decision Decision `json:"decision"`
	// Exact makes Args the whole of the command's arguments. Needs Args.
	Exact bool `json:"exact,omitempty"`
	// Host is an exact host, or "*." and a host for those below it.
	Host string `json:"host,omitempty"`
	// Note is shown with the rule and means nothing to matching.
	Note string `json:"note,omitempty"`
	// Remember lets grants answer an ask rule.
	Remember bool `json:"remember,omitempty"`
	// Severity is "" or [SeverityDanger].
	Severity string `json:"severity,omitempty"`
	// Tool is an exact tool name, or a prefix of one ending in "*".
	Tool string `json:"tool"`
	// Under is a directory; a relative one is measured from the tool's root.
	Under string `json:"under,omitempty"`
}

// ParseRule reads one rule from its JSON form and validates it. Unknown,
// repeated and differently cased members are errors that name the member.
func ParseRule(b []byte) (Rule, error) {
	var r Rule
	err := r.UnmarshalJSON(b)
	return r, err
}

// UnmarshalJSON does what [ParseRule] does. On an error the rule is zero.
func (r *Rule) UnmarshalJSON(b []byte) error {
	*r = Rule{}
	n, err := parseJSON("", b)
	if err != nil {
		return err
	}
	d := decoder{}
	got := d.rule(n, "rule")
	if err := d.err(); err != nil {
		return err
	}
	*r = got
	return nil
}

// Equal reports whether two rules have the same members with the same values.
// A nil token list differs from an empty one.
func (r Rule) Equal(o Rule) bool {
	return r.Tool == o.Tool && r.Decision == o.Decision && r.Under == o.Under && r.Host == o.Host &&
		r.Command == o.Command && r.Check == o.Check && r.Note == o.Note && r.Severity == o.Severity &&
		r.Remember == o.Remember && r.Exact == o.Exact && equalTokens(r.Args, o.Args) && equalTokens(r.ArgsAny, o.ArgsAny)
}

func equalTokens(a, b []string) bool {
	return (a == nil) == (b == nil) && slices.Equal(a, b)
}

// Validate reports the first thing wrong with a rule, or nil.
func (r Rule) Validate() error {
	for _, fault := range r.faults() {
		return fault
	}
	return nil
}

// faults lists everything wrong with a rule's values.
func (r Rule) faults() []error {
	var out []error
	add := func(err error) {
		if err != nil {
			out = append(out, err)
		}
	}
	add(checkPattern("tool", r.Tool))
	if r.Decision > Allow {
		add(fmt.Errorf("decision %d is none of deny, ask, allow", uint8(r.Decision)))
	}
	if r.Under != "" {
		add(checkDirectory("under", r.Under))
	}
	if r.Host != "" {
		add(checkHost(r.Host))
	}
	if r.Command != "" {
		add(checkCommand(r.Command))
	}
	if r.Severity != "" && r.Severity != SeverityDanger {
		add(fmt.Errorf("severity %q is unknown; leave it out or write %q", r.Severity, SeverityDanger))
	}
	return append(out, r.argumentFaults()...)
}

func (r Rule) argumentFaults() []error {
	var out []error
	if r.Command == "" && (r.Args != nil || r.ArgsAny != nil) {
		out = append(out, fmt.Errorf("args and args-any need a command to be arguments of"))
	}
	if r.Exact && r.Args == nil {
		out = append(out, fmt.Errorf("exact needs args, the whole list of arguments; write [] for none"))
	}
	if slices.Contains(r.Args, "") || slices.Contains(r.ArgsAny, "") {
		out = append(out, fmt.Errorf("an argument token may not be empty"))
	}
	return out
}

// members returns the JSON text of each member present.
func (r Rule) members() map[string]string {
	b, err := json.Marshal(r)
	if err != nil {
		return nil
	}
	raw := map[string]json.RawMessage{}
	if json.Unmarshal(b, &raw) != nil {
		return nil
	}
	out := make(map[string]string, len(raw))
	for name, value := range raw {
		out[name] = string(value)
	}
	return out
}

// checkPattern accepts an exact name of letters, digits, "_" and "-", or a
// prefix of one ending in "*".
func checkPattern(what, s string) error {
	if s == "" {
		return fmt.Errorf("%s is missing or empty", what)
	}
	if !nameBytes(strings.TrimSuffix(s, "*")) {
		return fmt.Errorf("%s %q is neither a name of letters, digits, _ and - nor a prefix of one ending in *", what, s)
	}
	return nil
}

func nameBytes(s string) bool {
	for i := range len(s) {
		if !nameByte(s[i]) {
			return false
		}
	}
	return true
}

func nameByte(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// matchPattern reports whether name is covered by an exact name or a prefix
// ending in "*".
func matchPattern(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// morePrecise orders patterns: an exact one over a prefix, a longer one over a
// shorter one. It returns a positive number if a is the more precise.
func morePrecise(a, b string) int {
	if d := flag(!strings.HasSuffix(a, "*")) - flag(!strings.HasSuffix(b, "*")); d != 0 {
		return d
	}
	return len(a) - len(b)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
