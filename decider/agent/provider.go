package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"decisionjournal/journal"
)

// Tool is one tool a provider offers.
type Tool struct {
	// Name is what calls are addressed to.
	Name string `json:"name"`
	// Description is for the model.
	Description string `json:"description"`
	// Parameters is the JSON Schema of the arguments object.
	Parameters json.RawMessage `json:"parameters"`
}

// Call is one tool call, as the agent made it.
type Call struct {
	// ID is the caller's own id for the call.
	ID string
	// Tool names the tool.
	Tool string
	// Arguments is the arguments' JSON text, byte for byte.
	Arguments json.RawMessage
}

// Result is one call's result. A provider must fill in Content: the zero
// Result counts as none, so the call's outcome as unknown.
type Result struct {
	// Content is what the model gets: a JSON string, or an array of content
	// blocks, which are objects with a "type".
	Content json.RawMessage
	// IsError says that the call failed, and that Content says why.
	IsError bool
	// NotRun says that provably nothing happened.
	NotRun bool
	// Unknown says that it may have happened. It counts more than NotRun.
	Unknown bool
}

// Provider runs tools. Both methods may be called concurrently.
type Provider interface {
	// Tools lists what is offered. It fails loudly: an empty list is no tools,
	// never an error gone unsaid.
	Tools(ctx context.Context) ([]Tool, error)
	// Execute runs the calls in order and returns one result for each, in the
	// same order. What goes wrong with a call is said in its result.
	Execute(ctx context.Context, calls []Call) []Result
}

// Text is s as the content of a result. Bytes that are not UTF-8 are replaced.
func Text(s string) json.RawMessage {
	// A JSON string always has a canonical form.
	text, _ := journal.Canonical(marshal(strings.ToValidUTF8(s, "\uFFFD")))
	return text
}

// marshal is v, which always has a JSON form, without HTML's escapes.
func marshal(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// Execute runs calls at p and returns exactly one well-formed result for each,
// in order, whatever p does. If p panics or returns another number of results,
// nothing can be told apart and every call's outcome is unknown. If ctx is
// done before p is called, no call was run.
func Execute(ctx context.Context, p Provider, calls []Call) []Result {
	switch {
	case len(calls) == 0:
		return []Result{}
	case p == nil:
		return repeat(len(calls), notRun("not run: there is no provider for this tool"))
	case ctx.Err() != nil:
		return repeat(len(calls), notRun(fmt.Sprintf("not run: %v", context.Cause(ctx))))
	}
	results, fault := execute(ctx, p, calls)
	if fault == "" && len(results) != len(calls) {
		fault = fmt.Sprintf("the provider returned %d results for %d calls", len(results), len(calls))
	}
	if fault != "" {
		return repeat(len(calls), unknownOutcome(fault))
	}
	out := make([]Result, len(results))
	for i, r := range results {
		out[i] = normalise(r)
	}
	return out
}

// execute calls the provider in a goroutine of its own, so that neither a
// panic nor runtime.Goexit in it takes the caller along.
func execute(ctx context.Context, p Provider, calls []Call) (results []Result, fault string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if v := recover(); v != nil {
				fault = fmt.Sprintf("the provider panicked: %s", clip(fmt.Sprint(v)))
			} else if !returned {
				fault = "the provider gave up without returning"
			}
		}()
		results = p.Execute(ctx, calls)
		returned = true
	}()
	<-done
	return results, fault
}

// normalise makes a provider's result one that can be relied on.
func normalise(r Result) Result {
	r.NotRun = r.NotRun && !r.Unknown
	r.IsError = r.IsError || r.NotRun || r.Unknown
	switch {
	case len(r.Content) > 0 && contentFault(r.Content) == "":
		return r
	case len(r.Content) > 0:
		// What the provider says of the outcome still holds.
		r.Content = Text("the result of the tool cannot be read: " + contentFault(r.Content))
		r.IsError = true
		return r
	case r.NotRun:
		return notRun("not run; the provider gave no reason")
	}
	return unknownOutcome("the provider returned no result")
}

// contentFault says what keeps b from being a result's content, "" if nothing.
func contentFault(b json.RawMessage) string {
	canonical, err := journal.Canonical(b)
	if err != nil {
		return err.Error()
	}
	if canonical[0] == '"' {
		return ""
	}
	var blocks []map[string]json.RawMessage
	if json.Unmarshal(canonical, &blocks) != nil || blocks == nil {
		return "want a string or an array of content blocks"
	}
	for i, block := range blocks {
		if kind := block["type"]; len(kind) < 3 || kind[0] != '"' {
			return fmt.Sprintf("content block %d has no type", i+1)
		}
	}
	return ""
}

func notRun(text string) Result {
	return Result{Content: Text(text), IsError: true, NotRun: true}
}

func unknownOutcome(fault string) Result {
	const advice = "; the call may have had its effect: look before calling again"
	return Result{Content: Text(fault + advice), IsError: true, Unknown: true}
}

func repeat(n int, r Result) []Result {
	out := make([]Result, n)
	for i := range out {
		out[i] = r
	}
	return out
}

// clip shortens text of unknown origin for a message.
func clip(s string) string {
	const most = 200
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
