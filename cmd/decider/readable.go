package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"decisionjournal/approver"
	"decisionjournal/decider/agent"
)

// readableWidth is how much of a result's text one line shows, in bytes.
const readableWidth = 300

// readable is one call's result as a line for people.
func readable(p *place) string {
	text := plainText(p.outcome.Result.Content)
	if p.outcome.Kind == agent.Pending && p.outcome.Question != "" {
		text = "question " + p.outcome.Question
	}
	more := ""
	if len(text) > readableWidth {
		more = fmt.Sprintf(" … (%d bytes)", len(text))
		text = strings.ToValidUTF8(text[:readableWidth], "")
	}
	id := p.id
	if id == "" {
		id = "?"
	}
	return strings.TrimRight(fmt.Sprintf("%s %s: %s: %s%s", approver.Visible(id), approver.Visible(p.tool), word(p.outcome), approver.Visible(text), more), " ")
}

// word says how a call came out.
func word(o agent.Outcome) string {
	switch o.Kind {
	case agent.Executed, agent.Recorded:
		done := "ok"
		if o.Result.IsError {
			done = "error"
		}
		if o.Kind == agent.Recorded {
			return done + " (recorded)"
		}
		return done
	case agent.Denied:
		return "denied"
	case agent.Allowed:
		return "allowed"
	case agent.Pending:
		return "pending"
	}
	return "error"
}

// plainText is a result's content as text: a string, or its blocks' texts.
func plainText(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &blocks) == nil {
		var texts []string
		for _, b := range blocks {
			texts = append(texts, b.Text)
		}
		return strings.Join(texts, "\n")
	}
	return string(content)
}
