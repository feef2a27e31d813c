package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"decisionjournal/cmd/internal/cli/clitest"
	"decisionjournal/decider"
	"decisionjournal/decider/policy"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"replay": func() { os.Exit(Main()) },
		"record": func() { os.Exit(recordMain(os.Args[1:])) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("DECIDER_JOURNAL", env.WorkDir+"/journal")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": clitest.Exits,
			"json":  clitest.JSON,
		},
	})
}

const recordedPolicy = `rules: [{tool: fs_read, decision: allow}]`

// recordMain makes a session: record [-forge] [-path PATH] SESSION.
func recordMain(args []string) int {
	if err := record(context.Background(), args); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func record(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	forge := flags.Bool("forge", false, "let the decider make an allow up")
	path := flags.String("path", "notes/a.txt", "what the call writes that is asked about")
	if err := flags.Parse(args); err != nil {
		return err
	}
	h, err := embedded.Open(ctx, embedded.Config{Dir: os.Getenv(embedded.DirEnv), Role: journal.RoleDecider, User: "alice"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	r, err := newRecorder(ctx, h, flags.Arg(0))
	if err != nil {
		return err
	}
	if err := r.asked(ctx, *path); err != nil || !*forge {
		return err
	}
	return r.forge(ctx)
}

// recorder writes a session's history as a decider and an approver.
type recorder struct {
	dec      *decider.Decider
	approver *journal.Writer
	st       *journal.State
	pol      *policy.Policy
}

func newRecorder(ctx context.Context, h *embedded.Handle, session string) (*recorder, error) {
	log, actor, err := h.As(ctx, journal.RoleApprover)
	if err != nil {
		return nil, err
	}
	_, own := h.Principal()
	dw, err1 := journal.NewWriter(journal.Config{Log: h, Role: journal.RoleDecider, Actor: own})
	aw, err2 := journal.NewWriter(journal.Config{Log: log, Role: journal.RoleApprover, Actor: actor})
	pol, err3 := policy.Parse("test.yaml", []byte(recordedPolicy))
	st, err4 := journal.LoadState(ctx, h, journal.SessionChain(session))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	r := &recorder{&decider.Decider{Writer: dw}, aw, st, pol}
	if err := r.dec.Publish(ctx, pol); err != nil {
		return nil, err
	}
	_, err = r.write(ctx, r.dec.Writer, &journal.Opened{Agent: "main", Run: r.dec.Writer.NewID(), Kind: journal.KindSession}, &journal.Adopt{Digest: pol.Digest()})
	return r, err
}

func (r *recorder) write(ctx context.Context, w *journal.Writer, bodies ...journal.Body) (last string, err error) {
	var events []journal.Event
	for _, b := range bodies {
		events = append(events, w.Event(b))
	}
	if err := w.Append(ctx, r.st, w.Now(r.st), events...); err != nil {
		return "", err
	}
	return events[len(events)-1].ID, r.dec.Settle(ctx, r.st)
}

func (r *recorder) call(tool, args string) *journal.Call {
	digest, err := decider.CallDigest(r.pol, tool, json.RawMessage(args))
	if err != nil {
		panic(err)
	}
	return &journal.Call{Agent: "main", Run: r.st.LiveRuns("main")[0].Run, Kind: journal.CallTool, Tool: tool, Arguments: json.RawMessage(args), Digest: digest}
}

// asked has a call asked about, allowed for good, and run; and then revoked.
func (r *recorder) asked(ctx context.Context, path string) error {
	args, err := json.Marshal(map[string]string{"path": path})
	if err != nil {
		return err
	}
	id, err := r.write(ctx, r.dec.Writer, r.call("fs_write", string(args)))
	if err != nil {
		return err
	}
	q := r.st.Question(r.st.Call(id).Last().Question)
	answer := &journal.Answer{Question: q.Mark.ID, Action: journal.AlwaysAllow, Shown: q.Shown, By: r.approver.Principal().Actor, Note: "go on"}
	if _, err := r.write(ctx, r.approver, answer); err != nil {
		return err
	}
	if _, err := r.write(ctx, r.approver, &journal.Revoke{Grant: r.st.Grants()[0].Mark.ID, Reason: "only once"}); err != nil {
		return err
	}
	_, err = r.write(ctx, r.dec.Writer, r.call("fs_read", `{"path":"a"}`))
	return err
}

// forge allows a call by a rule that is not there.
func (r *recorder) forge(ctx context.Context) error {
	w := r.dec.Writer
	call := r.call("rm", `{}`)
	id := w.NewID()
	dec := &journal.Decision{Call: id, Attempt: 1, Outcome: journal.Allow, Policy: r.pol.Digest(), Engine: decider.Engine, Digest: call.Digest,
		Facts: json.RawMessage(`{}`), By: []journal.Cause{{Kind: journal.ByRule, Rule: json.RawMessage(`{"decision":"allow","tool":"rm"}`)}}}
	return w.Append(ctx, r.st, w.Now(r.st), journal.NewEvent(id, call), w.Event(dec))
}

func TestParseAt(t *testing.T) {
	for _, bad := range []string{"0", "-1", "yesterday", "2026-11-30", "12.5", "0001-01-01T00:00:00Z"} {
		if at, err := parseAt(bad); exitCode(err) != exitMisuse {
			t.Errorf("%q: %+v, %v", bad, at, err)
		}
	}
	if at, err := parseAt("42"); err != nil || at.N != 42 {
		t.Errorf("42: %+v, %v", at, err)
	}
	if at, err := parseAt("2026-11-30T12:00:00.5+01:00"); err != nil || at.Time.UTC().Hour() != 11 {
		t.Errorf("a time: %+v, %v", at, err)
	}
}
