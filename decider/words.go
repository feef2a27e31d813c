package decider

import (
	"fmt"
	"strings"

	"decisionjournal/decider/policy"
	"decisionjournal/journal"
)

// Messages are for the model that made the call: what was decided, by what,
// and what to do now. What a person wrote is marked as theirs.

func messageRule(r *policy.Rule, uncertain string) string {
	text := fmt.Sprintf("Denied by the rule %s.", mustJSON(*r))
	if uncertain != "" {
		text += fmt.Sprintf(" Whether it applies is not certain, and a deny holds then too: %s.", uncertain)
	}
	if r.Note != "" {
		text += fmt.Sprintf(" The rule's note: %s.", strings.TrimRight(r.Note, ". "))
	}
	return text + " Do not make this call again; find another way, or say that you cannot."
}

func messageGrant(g *journal.GrantState) string {
	return fmt.Sprintf("Denied: a person said earlier in this session that calls matching %s are always denied. Do not make this call again.", g.Rules[0])
}

func messageDenied(by, note string) string {
	if strings.TrimSpace(note) == "" {
		return fmt.Sprintf("Denied by a person (%s), without a note. Do not make this call again as it is.", by)
	}
	return fmt.Sprintf("Denied by a person (%s), who wrote: %q. Do not make this call again as it is.", by, note)
}

func messageAllowed(votes []journal.Vote) string {
	names := make([]string, len(votes))
	for i, v := range votes {
		names[i] = v.By
	}
	return "allowed by " + strings.Join(names, ", ")
}

func messageUnusable(by string, why error) string {
	return fmt.Sprintf("Denied: the answer of %s cannot be followed (%s). Nothing was remembered. The call may be made again.", by, why)
}

func messageDeadline(at journal.Time) string {
	return fmt.Sprintf("Denied: nobody answered before the deadline, %s. The call may be made again later.", at)
}

func messageHeadless(reason journal.AskReason, r *policy.Rule) string {
	why := "no rule allows it"
	switch {
	case reason == journal.AskInterrupted:
		why = "an earlier attempt of it was interrupted and may have taken effect"
	case reason == journal.AskElicitation:
		why = "it asks a person for input"
	case r != nil:
		why = fmt.Sprintf("the rule %s asks a person", mustJSON(*r))
	}
	return fmt.Sprintf("Denied: this call needs a person's approval (%s), and this run has nobody to ask. Do not repeat it; go on without it, or say that it needs approval.", why)
}

func messageInterrupted() string {
	return "Denied: an earlier attempt of this call was interrupted and may have taken effect, and the policy does not let it run again. Check what happened before going on."
}

func messageRepeated(note string) string {
	text := "Denied: a person has denied this same call in this run already"
	if strings.TrimSpace(note) != "" {
		text += fmt.Sprintf(", and wrote: %q", note)
	}
	return text + ". Nobody was asked again. Do something else."
}

func messageError(why string) string {
	return fmt.Sprintf("Denied: the call cannot be judged: %s.", why)
}
