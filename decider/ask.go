package decider

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// verdictRecord is a question's verdict, as it is written.
type verdictRecord struct {
	Decision policy.Decision `json:"decision"`
	Reason   string          `json:"reason"`
	Rule     *policy.Rule    `json:"rule,omitempty"`
}

// asking is the question that the verdict asks.
func (d *deciding) asking() *journal.Question {
	q := d.base(journal.AskReason(d.verdict.Reason), d.verdict.Rule)
	q.Grantable = d.verdict.Grantable
	if !q.Grantable {
		return q
	}
	if rules, ok := d.policy.QuestionSuggestion(d.call.Tool, d.facts, d.verdict); ok {
		q.Suggestion = offered(rules)
	}
	q.Alternatives = d.alternatives()
	return q
}

// maxPaths is how long a call's paths may be together for alternatives to be
// worked out, in bytes: as long as file systems take, and short enough that
// listing every directory above takes no time to speak of.
const maxPaths = 4 << 10

// alternatives are further rules to offer, from narrow to wide, maxOffer bytes
// of them at most.
func (d *deciding) alternatives() [][]json.RawMessage {
	list, size := [][]json.RawMessage{}, 0
	for _, p := range d.facts.Paths {
		size += len(p.Path)
	}
	if size > maxPaths {
		return list
	}
	size = 0
	for _, rules := range d.policy.Alternatives(d.call.Tool, d.facts, d.verdict) {
		raw := offered(rules)
		for _, r := range raw {
			size += len(r)
		}
		if size > maxOffer {
			break
		}
		if len(raw) > 0 {
			list = append(list, raw)
		}
	}
	return list
}

// maxOffer is the longest list of rules that a question offers, in bytes.
// Longer ones nobody can read, and they would not fit beside the facts.
const maxOffer = 8 << 10

// offered are rules as a question offers them: none if they are too long.
func offered(rules []policy.Rule) []json.RawMessage {
	raw, size := rawRules(rules), 0
	for _, r := range raw {
		size += len(r)
	}
	if size > maxOffer {
		return []json.RawMessage{}
	}
	return raw
}

// interrupted asks whether to run a call again whose outcome is unknown. No
// grant can answer that.
func (d *deciding) interrupted() *journal.Question {
	return d.base(journal.AskInterrupted, d.verdict.Rule)
}

// eliciting passes a server's question on to people.
func (d *deciding) eliciting() *journal.Question { return d.base(journal.AskElicitation, nil) }

func rawRules(rules []policy.Rule) []json.RawMessage {
	raw := make([]json.RawMessage, len(rules))
	for i, r := range rules {
		raw[i] = mustJSON(r)
	}
	return raw
}

func (d *deciding) base(reason journal.AskReason, rule *policy.Rule) *journal.Question {
	severity := ""
	if rule != nil {
		severity = rule.Severity
	}
	need := d.policy.Requirement(policy.ApprovalCall{
		Tool: d.call.Tool, Rule: rule, Severity: severity, Session: d.State.Chain().Session(), Agent: d.call.Agent,
	})
	q := &journal.Question{
		Call: d.call.Mark.ID, Attempt: d.attempt.No, Reason: reason,
		Verdict: mustJSON(verdictRecord{policy.Ask, string(reason), rule}),
		Policy:  d.digest, Engine: Engine, Digest: d.call.Digest, Facts: mustJSON(d.facts),
		Suggestion: []json.RawMessage{}, Alternatives: [][]json.RawMessage{},
		Need: stages(need.Need), Who: d.entitled(need.Who), Frontends: d.frontends(),
	}
	if need.Note {
		q.Note = "A note is required with the answer."
	}
	if need.Deadline > 0 {
		q.Deadline = d.after(need.Deadline)
	}
	q.View = d.view(reason, rule, severity)
	return q
}

func (d *deciding) after(t time.Duration) journal.Time { return journal.At(d.Now.Add(t)) }

func stages(need []policy.Stage) []journal.Stage {
	list := make([]journal.Stage, len(need))
	for i, s := range need {
		list[i] = journal.Stage{Of: append([]string{}, s.Of...), Count: s.Count}
	}
	return list
}

func (d *deciding) entitled(who []policy.Who) []journal.Entitlement {
	list := make([]journal.Entitlement, len(who))
	for i, w := range who {
		list[i] = journal.Entitlement{Of: append([]string{}, w.Of...)}
		if w.From > 0 {
			list[i].From = d.after(w.From)
		}
	}
	return list
}

func (d *deciding) frontends() []journal.Frontend {
	list := []journal.Frontend{}
	people := []string{}
	for _, name := range sortedKeys(d.policy.Principals) {
		if role := d.policy.Principals[name].Role; role == "" || role == string(journal.RoleApprover) {
			people = append(people, name)
		}
	}
	for _, name := range d.policy.Frontends {
		list = append(list, journal.Frontend{Name: name, For: people})
	}
	return list
}

// changed reports whether a question would be asked of other people, or could
// be answered otherwise, than the one that stands. Durations are compared as
// they were when it was asked.
func changed(open, fresh *journal.Question, asked, now journal.Time) bool {
	return open.Grantable != fresh.Grantable || !sameStages(open.Need, fresh.Need) ||
		!sameWho(open.Who, asked, fresh.Who, now)
}

func sameWho(a []journal.Entitlement, from journal.Time, b []journal.Entitlement, now journal.Time) bool {
	return slices.EqualFunc(a, b, func(x, y journal.Entitlement) bool {
		return slices.Equal(x.Of, y.Of) && x.From.IsZero() == y.From.IsZero() &&
			(x.From.IsZero() || x.From.Sub(from.Time) == y.From.Sub(now.Time))
	})
}

func sameStages(a, b []journal.Stage) bool {
	return slices.EqualFunc(a, b, func(x, y journal.Stage) bool { return x.Count == y.Count && slices.Equal(x.Of, y.Of) })
}

// view is all that a frontend needs to show the question.
func (d *deciding) view(reason journal.AskReason, rule *policy.Rule, severity string) json.RawMessage {
	c := d.call
	v := journal.View{
		Session: d.State.Chain().Session(), Label: d.State.Label(), Agent: c.Agent, Layer: c.Layer, Tool: c.Tool,
		Size: len(c.Arguments), Masked: c.Masked, Reason: reason, Severity: severity, Model: c.Reason, CWD: c.CWD,
		Attempt: d.attempt.No, Recent: d.recent(),
	}
	if run := d.State.Run(c.Run); run != nil {
		v.Parent = run.Parent
	}
	if v.Size <= journal.MaxViewArguments && nesting(c.Arguments) <= maxNesting {
		v.Arguments = c.Arguments
	} else {
		v.Preview = clip(string(c.Arguments), journal.MaxViewArguments)
	}
	if rule != nil {
		v.Rule = mustJSON(*rule)
	}
	if d.attempt.AfterUnknown {
		v.Before = "An earlier attempt of this call was started and its outcome is unknown. It may have taken effect, and its process may still act. Allowing runs the call again."
	}
	d.describe(&v)
	raw, err := journal.NewView(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return raw
}

// maxNesting is how deep arguments may nest to stand in a view: a question
// holds them deeper than the call does, and a commit only goes so deep.
const maxNesting = journal.MaxDepth / 2

// nesting is how many objects and arrays stand inside each other in canonical JSON.
func nesting(raw json.RawMessage) int {
	depth, most, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			most = max(most, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return most
}

// describe adds what the policy saw in the call, as far as a view has room.
func (d *deciding) describe(v *journal.View) {
	room := journal.MaxViewArguments
	fits := func(parts ...string) bool {
		for _, p := range parts {
			room -= len(p) + 8
		}
		return room >= 0
	}
	d.describeCommands(v, fits)
	for _, p := range d.facts.Paths {
		if !fits(p.Path) {
			v.Unread = append(v.Unread, "more or longer paths than fit here; read the call itself")
			break
		}
		if v.Paths = append(v.Paths, p.Path); p.Unknown != "" && fits(p.Path, p.Unknown) {
			v.Unread = append(v.Unread, "path "+p.Path+": "+p.Unknown)
		}
	}
	for _, h := range d.facts.Hosts {
		if h.Unknown != "" {
			v.Unread = append(v.Unread, "host: "+h.Unknown)
		} else if fits(h.Host) {
			v.Hosts = append(v.Hosts, h.Host)
		}
	}
	if d.facts.Unreadable {
		v.Unread = append(v.Unread, "arguments")
	}
}

func (d *deciding) describeCommands(v *journal.View, fits func(...string) bool) {
	for _, cmd := range d.facts.Commands {
		argv := []string{}
		if cmd.Unknown == "" {
			argv = append(append(argv, cmd.Program), cmd.Args...)
		}
		if !fits(append(argv, cmd.Unknown)...) {
			v.Unread = append(v.Unread, "more commands than fit here; read the call itself")
			return
		}
		switch {
		case cmd.Unknown != "":
			v.Unread = append(v.Unread, "command: "+cmd.Unknown)
		case !cmd.Sealed && fits(cmd.Program):
			v.Unread = append(v.Unread, fmt.Sprintf("command %s: its arguments after the %d shown are known only when it runs", clip(cmd.Program, 64), len(cmd.Args)))
		}
		v.Commands = append(v.Commands, argv)
		for _, name := range cmd.Assigns {
			if fits(name) {
				v.Unread = append(v.Unread, fmt.Sprintf("command %s: what the variable %s changes in it", clip(cmd.Program, 64), name))
			}
		}
		for _, file := range cmd.Writes {
			if !fits(file.Path) {
				v.Unread = append(v.Unread, "more or longer paths than fit here; read the call itself")
				return
			}
			if v.Paths = append(v.Paths, file.Path); file.Unknown != "" && fits(file.Path, file.Unknown) {
				v.Unread = append(v.Unread, "path "+file.Path+": "+file.Unknown)
			}
		}
	}
}

// uncertain says what kept the rules from being certain about the call, or "".
func (d *deciding) uncertain() string {
	if d.verdict.Reason != policy.ReasonUnevaluable {
		return ""
	}
	const most = 200 // bytes of a path
	for _, p := range d.facts.Paths {
		if p.Unknown != "" {
			return fmt.Sprintf("the path %q cannot be compared (%s)", clip(p.Path, most), p.Unknown)
		}
	}
	for _, h := range d.facts.Hosts {
		if h.Unknown != "" {
			return "the host cannot be read (" + h.Unknown + ")"
		}
	}
	for _, c := range d.facts.Commands {
		if c.Unknown != "" {
			return "a command cannot be read (" + c.Unknown + ")"
		}
	}
	switch {
	case d.facts.Unreadable:
		return "the arguments cannot be read"
	case len(d.facts.Paths)+len(d.facts.Hosts)+len(d.facts.Commands) == 0:
		return "the call names no path, host or command to compare"
	}
	return "what the call names cannot be compared with it"
}

// recentDecisions is how many of a session's last decisions a view shows.
const recentDecisions = 5

func (d *deciding) recent() []journal.RecentDecision {
	var list []journal.RecentDecision
	for _, dec := range d.State.RecentDecisions(recentDecisions) {
		if c := d.State.Call(dec.Call); c != nil {
			list = append(list, journal.RecentDecision{Call: dec.Call, Tool: c.Tool, Outcome: dec.Outcome, By: dec.By[0].Kind, Time: dec.Mark.Time})
		}
	}
	return list
}

// clip cuts s to at most n bytes at a character's boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
