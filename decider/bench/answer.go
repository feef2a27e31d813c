package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"decisionjournal/decider/agent"
	"decisionjournal/journal"
)

// answerer is an approver of one session that allows what it is asked, once.
type answerer struct {
	w    *journal.Writer
	st   *journal.State
	feed <-chan fed
}

func (p *place) answerer(ctx context.Context, session string) (*answerer, error) {
	w, err := p.writer(ctx, journal.RoleApprover)
	if err != nil {
		return nil, err
	}
	chain := journal.SessionChain(session)
	return &answerer{w: w, st: journal.NewState(chain), feed: follow(ctx, w.Log(), chain)}, nil
}

// answer waits for a question of a call and allows it. It returns when it
// began to append the answer.
func (a *answerer) answer(ctx context.Context) (time.Time, error) {
	var q *journal.QuestionState
	err := foldUntil(ctx, a.st, a.feed, func() bool {
		for _, c := range a.st.OpenCalls() {
			if open := a.st.Question(c.Last().Question); open != nil && !open.Over && len(open.Answers) == 0 {
				q = open
			}
		}
		return q != nil
	})
	if err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	_, err = appendAs(ctx, a.w, a.st, &journal.Answer{Question: q.Mark.ID, Action: journal.AllowOnce, Shown: q.Shown, By: a.w.Principal().Actor})
	return at, err
}

// deliveries measures how long a raw message takes from its append to another
// connection that follows its chain.
type deliveries struct {
	from *publishers
	feed <-chan fed
}

func (p *place) deliveries(ctx context.Context) (*deliveries, error) {
	r, err := p.publishers(ctx, 1)
	if err != nil {
		return nil, err
	}
	w, err := p.writer(ctx, journal.RoleAgent)
	if err != nil {
		return nil, err
	}
	d := &deliveries{r, follow(ctx, w.Log(), r.subs[0].Chain)}
	for range 32 { // until it is followed by a consumer
		if err := d.one(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// one appends a message and waits until it is delivered.
func (d *deliveries) one(ctx context.Context) error {
	if err := d.from.publish(ctx, 0); err != nil {
		return err
	}
	select {
	case f := <-d.feed:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answerAim is how many raw deliveries an answer may take to release its call:
// it is three appends, each of which waits for the one before.
const answerAim = 4

// answerCase is one figure, median and 99th percentile.
type answerCase struct {
	name string
	how  link
	open asker
}

func answerCases() []answerCase {
	return []answerCase{
		{"answer to release inline", inProcess, inlineAsk},
		{"answer to release inline", overSocket, inlineAsk},
		{"answer to release through a worker", inProcess, workerAsk},
		{"answer to release through a worker", overSocket, workerAsk},
	}
}

// answerFigures are how long after an answer's append its call is released.
func answerFigures(ctx context.Context, b *run) error {
	cases := answerCases()
	each := b.time / time.Duration(len(cases))
	for _, c := range cases {
		if err := b.answers(ctx, c.name, c.how, c.open, each); err != nil {
			return err
		}
	}
	return nil
}

// asker opens what makes calls that are asked about. It returns what makes one,
// with how long the release took, and what ends it.
type asker func(context.Context, *place) (ask func(context.Context) (time.Duration, error), end func(), err error)

func (b *run) answers(ctx context.Context, name string, how link, open asker, d time.Duration) error {
	raw, err := b.open(ctx, how)
	if err != nil {
		return err
	}
	defer raw.close()
	p, err := b.open(ctx, how)
	if err != nil {
		return err
	}
	defer p.close()
	figures, err := measureAnswers(ctx, raw, p, name+", "+string(how), open, d)
	for _, f := range figures {
		b.add(f)
	}
	return err
}

func measureAnswers(ctx context.Context, raw, p *place, name string, open asker, d time.Duration) ([]Figure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := raw.deliveries(ctx)
	if err != nil {
		return nil, err
	}
	ask, end, err := open(ctx, p)
	if err != nil {
		return nil, err
	}
	defer end()
	var base, took []float64
	d /= 2 * rounds
	list, err := inTurn(
		func() (float64, error) {
			ms, err := timed(ctx, d, func() error { return r.one(ctx) })
			base = append(base, ms...)
			return quantile(ms, 0.5), err
		},
		func() (float64, error) {
			var ms []float64
			for begin := time.Now(); time.Since(begin) < d; {
				one, err := ask(ctx)
				if err != nil {
					return 0, err
				}
				ms = append(ms, milliseconds(one))
			}
			took = append(took, ms...)
			return quantile(ms, 0.5), nil
		})
	if err != nil {
		return nil, err
	}
	last := Figure{Name: name + ", 99th percentile", Unit: "ms", Value: quantile(took, 0.99), Baseline: quantile(base, 0.99), Aim: answerAim, AtMost: true}
	last.Ratio = last.Value / last.Baseline
	return []Figure{Figure{Name: name + ", median", Unit: "ms", Aim: answerAim, AtMost: true}.of(list), last}, nil
}

// noting is a provider that notes when it was called.
type noting struct {
	nothing
	at chan time.Time
}

func (n noting) Execute(ctx context.Context, calls []agent.Call) []agent.Result {
	n.at <- time.Now()
	return n.nothing.Execute(ctx, calls)
}

// inlineAsk has a guard ask and release.
func inlineAsk(ctx context.Context, p *place) (func(context.Context) (time.Duration, error), func(), error) {
	d, _, err := p.decider(ctx)
	if err != nil {
		return nil, nil, err
	}
	started := noting{at: make(chan time.Time, 1)}
	g, err := agent.Open(ctx, agent.Config{Decider: d, Session: "asked", Provider: started})
	if err != nil {
		return nil, nil, err
	}
	a, err := p.answerer(ctx, "asked")
	if err != nil {
		return nil, nil, err
	}
	n := 0
	ask := func(ctx context.Context) (time.Duration, error) {
		n++
		t := g.Submit(ctx, []agent.Request{{Call: agent.Call{ID: "c", Tool: "deploy", Arguments: json.RawMessage(`{"to":"production"}`)}, Key: fmt.Sprint("k/", n)}})[0]
		from, err := a.answer(ctx)
		if err != nil {
			return 0, err
		}
		<-t.Done()
		if o := t.Outcome(); o.Kind != agent.Executed {
			return 0, fmt.Errorf("an allowed call came out as %d: %s", o.Kind, o.Result.Content)
		}
		return (<-started.at).Sub(from), nil
	}
	return ask, func() { g.Close(ctx) }, nil
}

// workerAsk has an agent with its own key ask, and a worker decide.
func workerAsk(ctx context.Context, p *place) (func(context.Context) (time.Duration, error), func(), error) {
	s, err := p.callers(ctx, 1, true)
	if err != nil {
		return nil, nil, err
	}
	c := s.list[0]
	a, err := p.answerer(ctx, c.st.Chain().Session())
	if err != nil {
		return nil, nil, err
	}
	ask := func(ctx context.Context) (time.Duration, error) {
		id, err := c.call(ctx, "deploy")
		if err != nil {
			return 0, err
		}
		from, err := a.answer(ctx)
		if err != nil {
			return 0, err
		}
		if err := c.until(ctx, func() bool { return c.st.Call(id).Last().Decision != "" }); err != nil {
			return 0, err
		}
		if err := c.start(ctx, id); err != nil {
			return 0, err
		}
		at := time.Now()
		return at.Sub(from), c.finish(ctx, id)
	}
	return ask, func() { s.close() }, nil
}
