package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"decisionjournal/cmd/internal/cli/clitest"
	"decisionjournal/journal"
	"decisionjournal/journal/inbox/inboxtest"
	"decisionjournal/journal/stream/embedded"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"approver": func() { os.Exit(Main()) },
		"ask":      func() { os.Exit(askMain(os.Args[1:])) },
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
			"save":  save,
			"exits": clitest.Exits,
			"json":  clitest.JSON,
		},
	})
}

// save NAME puts the last standard output, without its line end, into the
// environment. save NAME N keeps its first N characters.
func save(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.TrimSpace(ts.ReadFile("stdout"))
	if len(args) == 2 {
		var n int
		_, err := fmt.Sscan(args[1], &n)
		ts.Check(err)
		text = text[:n]
	}
	ts.Setenv(args[0], text)
}

// askMain is a decider that asks what it is told:
// ask [flags] SESSION TOOL ARGUMENTS prints the question's id.
func askMain(args []string) int {
	if err := ask(context.Background(), args); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func ask(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("ask", flag.ContinueOnError)
	grantable := flags.Bool("grantable", false, "offer always-answers")
	who := flags.String("who", "", "who may answer")
	need := flags.Int("need", 1, "how many allows")
	past := flags.Bool("past", false, "with a deadline that has passed")
	withdraw := flags.Bool("withdraw", false, "withdraw the call again")
	if err := flags.Parse(args); err != nil {
		return err
	}
	spec := inboxtest.Spec{Tool: flags.Arg(1), Arguments: flags.Arg(2), Grantable: *grantable, Need: []journal.Stage{{Of: []string{}, Count: *need}}}
	if *grantable {
		spec.Suggestion = []string{`{"decision":"allow","tool":"` + spec.Tool + `","under":"notes"}`}
	}
	if *who != "" {
		spec.Who = []journal.Entitlement{{Of: []string{*who}}}
	}
	if *past {
		spec.Deadline = journal.At(time.Now().Add(-time.Minute))
	}
	return withAsker(ctx, "", func(asker *inboxtest.Asker) error {
		if flags.NArg() == 0 {
			return nil // an empty journal
		}
		id, err := asker.Ask(ctx, flags.Arg(0), spec)
		if err != nil {
			return err
		}
		fmt.Println(id)
		if *withdraw {
			return asker.Withdraw(ctx, flags.Arg(0), id)
		}
		return nil
	})
}

// withAsker opens a journal as its decider. The approver of one that is new is
// alice.
func withAsker(ctx context.Context, dir string, do func(*inboxtest.Asker) error) (err error) {
	if dir == "" {
		if dir, err = embedded.DefaultDir(); err != nil {
			return err
		}
	}
	h, err := embedded.Open(ctx, embedded.Config{Dir: dir, Role: journal.RoleDecider, User: "alice"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	role, actor := h.Principal()
	w, err := journal.NewWriter(journal.Config{Log: h, Role: role, Actor: actor})
	if err != nil {
		return err
	}
	return do(inboxtest.New(w))
}
