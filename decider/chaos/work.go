package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"decisionjournal/decider/agent"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/journaltest/invariants"
)

// The tools of the agents. Whatever no rule names is asked about.
const (
	toolFree   = "free"   // allowed
	toolRedo   = "redo"   // allowed, and may take effect twice
	toolNever  = "never"  // denied
	toolEvery  = "every"  // asked about every time
	toolWrite  = "write"  // asked about once, and then granted
	toolRefuse = "refuse" // asked about, and refused
	toolShaky  = "shaky"  // allowed; it does not always know how it ended
	toolLazy   = "lazy"   // allowed; it does not always run
	toolFile   = "fs_write"
)

// policies are what agents bring, in turn, so that sessions change theirs.
var policies = [...]string{rules, rules + "  - {tool: other, decision: deny}\n"}

const rules = `settings:
  idempotent: [redo, fs_write]
path-params:
  write: [path]
rules:
  - {tool: free, decision: allow}
  - {tool: redo, decision: allow}
  - {tool: shaky, decision: allow}
  - {tool: lazy, decision: allow}
  - {tool: never, decision: deny, note: it breaks things}
  - {tool: every, decision: ask}
  - {tool: fs_write, under: free, decision: allow}
  - {tool: fs_write, under: never, decision: deny}
`

// idempotent reports which tools the policies let take effect again unasked.
func idempotent(tool string) bool { return tool == toolRedo || tool == toolFile }

// policyOf is the policy that a generation of an agent brings.
func policyOf(generation int) (*policy.Policy, error) {
	return policy.Parse("chaos.yaml", []byte(policies[generation%len(policies)]))
}

// batch are the calls of one generation of an agent, the same whenever they
// are made again. The last three have no name but what they do.
func batch(generation int) []agent.Request {
	name := fmt.Sprintf("b%d", generation)
	var list []agent.Request
	for i, tool := range []string{toolFree, toolWrite, toolEvery, toolRedo, toolNever, toolShaky, toolRefuse, toolLazy, toolWrite} {
		r := request(tool, name, i)
		r.Key = name + "/" + r.ID
		list = append(list, r)
	}
	for i, tool := range []string{toolFree, toolEvery, toolEvery} {
		list = append(list, request(tool, name, 100+i/2)) // the last two are alike
	}
	return list
}

func request(tool, batch string, i int) agent.Request {
	arguments := fmt.Sprintf(`{"batch":%q,"n":%d,"path":"d/%s-%d"}`, batch, i, batch, i)
	return agent.Request{Call: agent.Call{ID: fmt.Sprintf("c%d", i), Tool: tool, Arguments: json.RawMessage(arguments)}}
}

// fileCall is one call of the batches that decider run is given.
type fileCall struct{ id, path, content string }

// fileDirs are where those calls write: one is allowed, one is denied, and two
// are allowed by one answer.
var fileDirs = [...]string{"free", "never", "ask", "ask"}

// fileBatch are the calls of a generation.
func fileBatch(agentName string, generation int) (list []fileCall) {
	for i, dir := range fileDirs {
		id := fmt.Sprintf("%s-%d-%d", agentName, generation, i)
		list = append(list, fileCall{id, dir + "/" + id, "by " + id})
	}
	return list
}

func (c fileCall) arguments() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"content":%q,"path":%q}`, c.content, c.path))
}

// line is the call as it stands in a batch file.
func (c fileCall) line() string {
	return fmt.Sprintf(`{"id":%q,"function":{"name":%q,"arguments":%s}}`, c.id, toolFile, c.arguments())
}

// fileEffects are the files that decider run has made, as effects of the calls
// that say so.
func fileEffects(root string) (list []invariants.Effect, err error) {
	for _, s := range crewList() {
		if s.kind != runnerSlot {
			continue
		}
		made, err := filepath.Glob(filepath.Join(root, "*", s.agent+"-*"))
		if err != nil {
			return nil, err
		}
		for _, file := range made {
			raw, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			c := fileCall{path: filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)), content: string(raw)}
			list = append(list, invariants.Effect{Session: s.session, Agent: s.agent, Tool: toolFile, Arguments: c.arguments()})
		}
	}
	return list, nil
}

// actionOn is what the people of this world answer, whoever of them is asked.
func actionOn(item inbox.Item) string {
	switch {
	case item.Reason == journal.AskInterrupted:
		return journal.AllowOnce
	case item.Tool == toolRefuse:
		return journal.DenyOnce
	case item.Grantable && len(item.Suggestion) > 0:
		return journal.AlwaysAllow
	}
	return journal.AllowOnce
}
