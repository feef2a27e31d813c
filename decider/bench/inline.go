package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"decisionjournal/decider"
	"decisionjournal/decider/agent"
)

// nothing is a provider whose calls do nothing.
type nothing struct{}

func (nothing) Tools(context.Context) ([]agent.Tool, error) { return nil, nil }

func (nothing) Execute(_ context.Context, calls []agent.Call) []agent.Result {
	results := make([]agent.Result, len(calls))
	for i := range results {
		results[i] = agent.Result{Content: agent.Text("done")}
	}
	return results
}

// spread says whether agents have sessions of their own.
type spread string

const (
	ownSessions spread = "a session each"
	oneSession  spread = "one session"
)

// guards are agents of one process that decides inline.
type guards struct {
	list  []*agent.Guard
	tool  string
	want  agent.Kind
	calls []int
}

// openGuards opens guards whose calls are allowed and executed, which takes two
// appends each, or denied, which takes one.
func openGuards(ctx context.Context, d *decider.Decider, n int, how spread, appends int) (*guards, error) {
	g := &guards{tool: "fs_read", want: agent.Executed, calls: make([]int, n)}
	if appends == 1 {
		g.tool, g.want = "fs_delete", agent.Denied
	}
	for i := range n {
		cfg := agent.Config{Decider: d, Session: fmt.Sprintf("own-%d-%d-%d", appends, n, i), Provider: nothing{}}
		if how == oneSession {
			cfg.Session, cfg.Agent = fmt.Sprintf("one-%d-%d", appends, n), fmt.Sprintf("agent-%d", i)
		}
		one, err := agent.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		g.list = append(g.list, one)
	}
	return g, nil
}

// close ends the runs. What is left open is the scratch journal's.
func (g *guards) close(ctx context.Context) {
	for _, one := range g.list {
		one.Close(ctx)
	}
}

// call makes one call and waits for its outcome.
func (g *guards) call(ctx context.Context, i int) error {
	g.calls[i]++
	args := json.RawMessage(fmt.Sprintf(`{"path":"notes/%d.txt"}`, g.calls[i]))
	t := g.list[i].Submit(ctx, []agent.Request{{Call: agent.Call{ID: "c", Tool: g.tool, Arguments: args}, Key: fmt.Sprintf("k/%d", g.calls[i])}})[0]
	<-t.Done()
	if o := t.Outcome(); o.Kind != g.want {
		return fmt.Errorf("a call of %s came out as %d: %s %w", g.tool, o.Kind, o.Result.Content, o.Err)
	}
	return nil
}

// inlineFigures are decisions made where the calls are made, in one commit with
// the call. What is allowed is started in it too, and its result is another.
func inlineFigures(ctx context.Context, b *run) error {
	cases := inlineCases()
	each := b.time / time.Duration(len(cases))
	for _, c := range cases {
		if err := b.inline(ctx, c, each); err != nil {
			return err
		}
	}
	return nil
}

// inlineCase is one figure: agents, and the appends that each decision needs.
type inlineCase struct {
	agents  int
	how     link
	spread  spread
	appends int // 1 if calls are denied, 2 if they are allowed and executed
}

func (c inlineCase) name() string {
	what := "denied inline"
	if c.appends == 2 {
		what = "allowed inline and executed"
	}
	name := fmt.Sprintf("calls %s, %s", what, count(c.agents, "agent"))
	if c.agents > 1 {
		name += ", " + string(c.spread)
	}
	return name + ", " + string(c.how)
}

func inlineCases() []inlineCase {
	var list []inlineCase
	for _, how := range []link{inProcess, overSocket} {
		for _, n := range agentCounts {
			for _, appends := range []int{1, 2} {
				list = append(list, inlineCase{n, how, ownSessions, appends})
			}
		}
	}
	return append(list, inlineCase{8, inProcess, oneSession, 2}, inlineCase{64, inProcess, oneSession, 2})
}

// inlineAim is which part of the raw rate is to be reached.
const inlineAim = 0.8

func (b *run) inline(ctx context.Context, c inlineCase, d time.Duration) (err error) {
	raw, err := b.open(ctx, c.how)
	if err != nil {
		return err
	}
	defer raw.close()
	p, err := b.open(ctx, c.how)
	if err != nil {
		return err
	}
	defer p.close()
	f, err := measureInline(ctx, raw, p, c, d)
	if err == nil {
		b.add(f)
	}
	return err
}

func measureInline(ctx context.Context, raw, p *place, c inlineCase, d time.Duration) (Figure, error) {
	r, err := raw.publishers(ctx, c.agents)
	if err != nil {
		return Figure{}, err
	}
	dec, _, err := p.decider(ctx)
	if err != nil {
		return Figure{}, err
	}
	g, err := openGuards(ctx, dec, c.agents, c.spread, c.appends)
	if err != nil {
		return Figure{}, err
	}
	defer g.close(ctx)
	d /= 2 * rounds
	list, err := inTurn(
		func() (float64, error) { rate, err := r.rate(ctx, d); return rate / float64(c.appends), err },
		func() (float64, error) { return together(ctx, c.agents, d, g.call) })
	return Figure{Name: c.name(), Unit: "1/s", Aim: inlineAim}.of(list), err
}
