package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/oklog/ulid/v2"

	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// forged is a commit that no writer of this module would make.
type forged struct {
	role   journal.Role
	time   string
	change map[string]json.RawMessage
	as     string
	chain  journal.Chain
	events []json.RawMessage
}

// policies is how forge is told of the policy chain.
const policies = "@policies"

// forge appends a commit of events to a session, past every check but the
// server's own, and prints its message's sequence:
//
//	forge [-role ROLE] [-time TIME] [-as ROLE.ACTOR] [-change JSON] SESSION EVENT...
//
// The session "@policies" is the policy chain. It writes with the key of the role, by default the decider's, to its own
// subject or to the one that -as names. -change replaces members of the
// envelope. $NAME in an event is the environment's; without an id it gets one.
func forge(args []string) error {
	f := forged{}
	flags := flag.NewFlagSet("forge", flag.ContinueOnError)
	flags.Func("role", "", func(s string) error { f.role = journal.Role(s); return nil })
	flags.StringVar(&f.time, "time", "", "")
	flags.StringVar(&f.as, "as", "", "")
	flags.Func("change", "", func(s string) error { return json.Unmarshal([]byte(s), &f.change) })
	f.role = journal.RoleDecider
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errors.New("usage: forge SESSION EVENT...")
	}
	f.chain = journal.SessionChain(flags.Arg(0))
	if flags.Arg(0) == policies {
		f.chain = journal.PolicyChain()
	}
	for _, text := range flags.Args()[1:] {
		event, err := withID(os.ExpandEnv(text))
		if err != nil {
			return err
		}
		f.events = append(f.events, event)
	}
	return openJournal(f.role, f.publish)
}

func openJournal(role journal.Role, do func(context.Context, *embedded.Handle) error) (err error) {
	ctx, cancel := within()
	defer cancel()
	dir, err := embedded.DefaultDir()
	if err != nil {
		return err
	}
	h, err := embedded.Open(ctx, embedded.Config{Dir: dir, Role: role, Timeout: 2 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	return do(ctx, h)
}

func withID(text string) (json.RawMessage, error) {
	var event map[string]any
	if err := json.Unmarshal([]byte(text), &event); err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	if event["id"] == nil {
		event["id"] = ulid.Make().String()
	}
	return json.Marshal(event)
}

func (f *forged) publish(ctx context.Context, h *embedded.Handle) error {
	st, err := journal.LoadState(ctx, h, f.chain)
	if err != nil {
		return err
	}
	role, actor := h.Principal()
	sub := journal.Subject{Chain: f.chain, Role: role, Actor: actor}
	if f.as != "" {
		if sub, err = journal.ParseSubject("journal.s." + f.chain.Session() + "." + f.as); err != nil {
			return err
		}
	}
	now := journal.At(time.Now())
	if now.Before(st.Time().Time) {
		now = st.Time()
	}
	commit := map[string]any{"v": journal.Version, "session": f.chain.Session(), "n": st.N() + 1, "after": st.LastSeq(), "prev": st.Prev(),
		"role": sub.Role, "actor": sub.Actor, "time": now, "events": f.events}
	if f.time != "" {
		commit["time"] = f.time
	}
	for name, value := range f.change {
		commit[name] = value
	}
	raw, err := json.Marshal(commit)
	if err != nil {
		return err
	}
	if raw, err = journal.Canonical(raw); err != nil {
		return err
	}
	seq, err := h.Publish(ctx, sub, st.LastSeq(), raw)
	if err != nil {
		return err
	}
	_, err = fmt.Println(seq)
	return err
}

// plainAgent is an agent with no decider's key: it makes one call, waits for
// another process to decide it, and prints the outcome and its message:
//
//	plainagent SESSION TOOL ARGUMENTS
func plainAgent(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: plainagent SESSION TOOL ARGUMENTS")
	}
	return openJournal(journal.RoleAgent, func(ctx context.Context, h *embedded.Handle) error {
		role, actor := h.Principal()
		return callOnce(ctx, journal.Config{Log: h, Role: role, Actor: actor}, args)
	})
}

// callOnce makes the one call of a plain agent.
func callOnce(ctx context.Context, cfg journal.Config, args []string) error {
	w, err := journal.NewWriter(cfg)
	if err != nil {
		return err
	}
	st := journal.NewState(journal.SessionChain(args[0]))
	id, err := writeCall(ctx, w, st, args[1], args[2])
	if err != nil {
		return err
	}
	return awaitDecision(ctx, cfg.Log, st, id)
}

func writeCall(ctx context.Context, w *journal.Writer, st *journal.State, tool, arguments string) (string, error) {
	digest, err := decider.CallDigest(policy.Default(), tool, json.RawMessage(arguments))
	if err != nil {
		return "", err
	}
	run := w.NewID()
	call := w.Event(&journal.Call{Agent: "main", Run: run, Kind: journal.CallTool, Tool: tool,
		Arguments: json.RawMessage(arguments), Digest: digest})
	err = w.Append(ctx, st, w.Now(st), w.Event(&journal.Opened{Agent: "main", Run: run, Kind: journal.KindSession, Follows: "default"}), call)
	return call.ID, err
}

func awaitDecision(ctx context.Context, log journal.Log, st *journal.State, call string) error {
	for m, err := range log.Follow(ctx, st.Chain(), st.LastSeq()) {
		if err != nil {
			return err
		}
		st.Apply(m)
		if dec := st.Decision(st.Call(call).Last().Decision); dec != nil {
			_, err := fmt.Printf("%s: %s\n", dec.Outcome, dec.Message)
			return err
		}
	}
	return ctx.Err()
}
