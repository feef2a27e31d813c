package journal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// A remembering Log lost its last message, and still takes nothing that does
// not expect it: what a store does that kept the index and lost the bytes.
type remembering struct {
	*journaltest.Memory
	last uint64
	now  func() time.Time
}

func (l *remembering) Publish(_ context.Context, sub journal.Subject, after uint64, data []byte) (uint64, error) {
	if after != l.last {
		return 0, fmt.Errorf("%w: expected %d, is %d", journal.ErrConflict, after, l.last)
	}
	l.last = l.Inject(journal.Message{
		Time: l.now(), Subject: sub.String(), Headers: journal.ExpectHeaders(sub.Chain, after), Data: data,
	})
	return l.last, nil
}

// lostLast is a session whose last message, a revocation, cannot be read.
func lostLast(t *testing.T) (c *chain, grant string, log *remembering) {
	c = newSession(t)
	_, grant = c.grantedCall()
	c.add(ann, &journal.Revoke{Grant: grant})
	hole := c.st.Head()
	c.mem.Drop(hole)
	c.mem.Inject(journal.Message{Subject: "journal.s.other.agent.a"})
	c.load()
	return c, grant, &remembering{c.mem, hole, func() time.Time { return c.now }}
}

// load folds the chain anew, as a program does that has just begun.
func (c *chain) load() {
	c.t.Helper()
	st, err := journal.LoadState(context.Background(), c.mem, c.st.Chain())
	if err != nil {
		c.t.Fatal(err)
	}
	c.st = st
}

func TestAppendRepair(t *testing.T) {
	for _, tt := range []struct {
		name  string
		log   func(c *chain, lost *remembering) journal.Log
		after func(lost uint64) []uint64 // missing
	}{
		{"the server forgot the lost message", func(c *chain, _ *remembering) journal.Log { return c.mem }, func(lost uint64) []uint64 { return []uint64{lost} }},
		{"the server still expects it", func(_ *chain, l *remembering) journal.Log { return l }, func(lost uint64) []uint64 { return []uint64{lost} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, grant, log := lostLast(t)
			w := c.writer(root, tt.log(c, log))
			if err := w.AppendRepair(context.Background(), c.st, w.Now(c.st), &journal.Repair{Missing: tt.after(log.last)}); err != nil {
				t.Fatal(err)
			}
			c.wantStanding(grant, "repaired")
			own := dumpOf(t, c.st)
			c.load()
			c.same(own)
			c.goesOn()
		})
	}
}

// TestRepairAfterALostMessage tries what names, and does not name, the lost
// message it was appended after.
func TestRepairAfterALostMessage(t *testing.T) {
	repair := func(missing ...uint64) journal.Body { return &journal.Repair{Missing: missing} }
	for _, tt := range []struct {
		name   string
		by     who
		bodies func(lost uint64) []journal.Body
		fresh  journal.Verdict // to a reader that knows of no hole
		broken journal.Verdict // to one that does
	}{
		{"names it", root, func(lost uint64) []journal.Body { return []journal.Body{repair(lost)} }, journal.Valid, journal.Valid},
		{"names another", root, func(lost uint64) []journal.Body { return []journal.Body{repair(lost + 1)} }, journal.Breaks, journal.NoEffect},
		{"names none", root, func(uint64) []journal.Body { return []journal.Body{repair()} }, journal.Breaks, journal.NoEffect},
		{"by one who may not", dec, func(lost uint64) []journal.Body { return []journal.Body{repair(lost)} }, journal.Breaks, journal.NoEffect},
		{"is no repair", root, func(uint64) []journal.Body { return []journal.Body{&journal.Ended{}} }, journal.Breaks, journal.NoEffect},
		{"is a repair only after something else", root, func(lost uint64) []journal.Body { return []journal.Body{&journal.Ended{}, repair(lost)} }, journal.Breaks, journal.NoEffect},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, known := range []bool{false, true} {
				c, grant, log := lostLast(t)
				want := tt.broken
				if !known {
					c.st, want = fold(c.st.Chain(), messagesIn(c)), tt.fresh
				}
				commit := c.commit(tt.by, c.events(tt.bodies(log.last)...)...)
				commit.After = log.last
				m := c.message(commit)
				m.Headers = journal.ExpectHeaders(c.st.Chain(), log.last)
				if v, why := c.inject(m); v != want {
					t.Errorf("hole known %t: %s: %s; want %s", known, v, why, want)
				}
				if may := permissions(c.st); len(may) > 0 {
					t.Errorf("hole known %t: %v, of the grant %s that was revoked", known, may, grant)
				}
			}
		})
	}
}

func TestRepairOfThePolicyChain(t *testing.T) {
	c := inPolicy(t)
	body := policyBody("x")
	c.add(dec, body)
	missing := c.lose()
	if err := c.writer(dec, c.mem).Append(context.Background(), c.st, journal.At(c.now), c.events(policyBody("y"))...); err == nil {
		t.Error("a broken policy chain takes a policy")
	}
	c.repair(missing)
	c.add(root, &journal.Activate{Name: "p", Digest: body.Digest})
	if c.st.Active("p") == nil {
		t.Error("the policy chain does not go on")
	}
}

// messagesIn are the readable messages of the chain.
func messagesIn(c *chain) []journal.Message {
	list, err := journaltest.Collect(c.mem.Load(context.Background(), c.st.Chain(), 0))
	if err != nil {
		c.t.Fatal(err)
	}
	return list
}
