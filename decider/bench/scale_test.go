package bench

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"decisionjournal/decider"
	"decisionjournal/journal"
	"decisionjournal/journal/stream/embedded"
)

// serveEnv has the test binary host a journal and decide for it.
const serveEnv = "BENCH_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) == "" {
		os.Exit(m.Run())
	}
	if err := hostAndDecide(os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hostAndDecide(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	h, err := embedded.Open(ctx, embedded.Config{Dir: dir, Role: journal.RoleDecider})
	if err != nil {
		return err
	}
	defer h.Close()
	_, actor := h.Principal()
	w, err := journal.NewWriter(journal.Config{Log: h, Role: journal.RoleDecider, Actor: actor})
	if err != nil {
		return err
	}
	if err := (&decider.Worker{Decider: &decider.Decider{Writer: w}}).Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// scaleRun is a run over big journals, with the host in a process of its own.
func scaleRun(t testing.TB, events, questions int) *run {
	t.Setenv(serveEnv, "1")
	return &run{dir: t.TempDir(), cfg: Config{Events: events, Questions: questions, Serve: []string{os.Args[0]}}.withDefaults()}
}

func (b *run) figure(t testing.TB, prefix string) Figure {
	t.Helper()
	for _, f := range b.found.Figures {
		if strings.HasPrefix(f.Name, prefix) {
			return f
		}
	}
	t.Fatalf("%q was not measured", prefix)
	return Figure{}
}

// TestGrowth measures small journals: everything is there, and what does not
// depend on the machine reaches its aim.
func TestGrowth(t *testing.T) {
	b := scaleRun(t, 3000, 0)
	if err := growthFigures(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"open the journal", "append", "read a session", "list all sessions", "first decision", "oldest call decided"} {
		if f := b.figure(t, name); f.Value <= 0 {
			t.Errorf("%+v", f)
		}
	}
	if f := b.figure(t, "most memory of the host"); !f.Met() {
		t.Errorf("%+v", f)
	}
}

// TestQuestions measures a small inbox: everything is there. What a question
// takes of a large one, package inbox tests.
func TestQuestions(t *testing.T) {
	b := scaleRun(t, 0, 400)
	if err := questionFigures(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"host and inbox", "read the inbox", "list a page"} {
		if f := b.figure(t, name); f.Value <= 0 {
			t.Errorf("%+v", f)
		}
	}
}

func BenchmarkQuestions(b *testing.B) {
	for b.Loop() {
		reported(b, scaleRun(b, 0, 100_000), questionFigures)
	}
}

// BenchmarkGrowth goes up to as many events as BENCH_EVENTS says, 100,000 if it
// is not set. A million take some minutes to write.
func BenchmarkGrowth(b *testing.B) {
	events := 100_000
	if text := os.Getenv("BENCH_EVENTS"); text != "" {
		if _, err := fmt.Sscan(text, &events); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		reported(b, scaleRun(b, events, 0), growthFigures)
	}
}

func reported(b *testing.B, r *run, measure func(context.Context, *run) error) {
	b.Helper()
	r.cfg.Told = func(f Figure) { fmt.Printf("%-80s %10.4g %s\n", f.Name, f.Value, f.Unit) } // b.Log cuts off what is long
	if err := measure(b.Context(), r); err != nil {
		b.Fatal(err)
	}
}
