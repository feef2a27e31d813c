package chaos

import (
	"math/rand/v2"
	"time"
)

// blow is a kind of thing that befalls processes.
type blow string

// The kinds of blow.
const (
	killAgent    blow = "kill-agent"
	killHost     blow = "kill-host"     // its listeners take over, all at once
	killServer   blow = "kill-server"   // decider serve, hosting or not
	killApprover blow = "kill-approver" // who answers
	killNext     blow = "kill-next"     // the host, and then whoever takes over, while it does
	killAll      blow = "kill-all"      // everything; a stale lock and a stale socket are left
	twins        blow = "twins"         // an agent, of which then two begin at once
	pauseAgent   blow = "pause-agent"   // until another has taken over
	pauseHost    blow = "pause-host"    // shorter than a request waits
	hangHost     blow = "hang-host"     // longer than a request waits
	slowAgent    blow = "slow-agent"
	slowHost     blow = "slow-host"
)

// chance is how often a blow comes: weight in the sum of all weights.
type chance struct {
	blow   blow
	weight int
	// of how long it lasts, for what is not over at once
	least, most time.Duration
}

// chances are chosen so that agents often come far enough to lose something,
// and that most blows fall on the one process that all others need.
var chances = [...]chance{
	{killAgent, 60, 0, 0},
	{killHost, 50, 0, 0},
	{killServer, 10, 0, 0},
	{killApprover, 10, 0, 0},
	{killNext, 20, 0, 250 * time.Millisecond},
	{killAll, 5, 0, 0},
	{twins, 10, 0, 0},
	{pauseAgent, 16, 700 * time.Millisecond, 3 * time.Second},
	{pauseHost, 6, 100 * time.Millisecond, 1500 * time.Millisecond},
	{hangHost, 1, 5500 * time.Millisecond, 7 * time.Second},
	{slowAgent, 6, 200 * time.Millisecond, time.Second},
	{slowHost, 6, 200 * time.Millisecond, time.Second},
}

// Waits between blows.
const (
	leastWait = 20 * time.Millisecond
	mostWait  = 500 * time.Millisecond
)

// step is one blow of a plan: when it falls after the one before, on whom, and
// how long it lasts.
type step struct {
	wait  time.Duration
	blow  blow
	pick  uint64 // which of those it may fall on, by remainder
	lasts time.Duration
}

// plan deals out the blows of one round. The same seed and round give the same
// steps; what they meet is up to the machine.
type plan struct{ rand *rand.Rand }

func newPlan(seed uint64, round int) *plan {
	return &plan{rand.New(rand.NewPCG(seed, uint64(round)))}
}

func (p *plan) next() step {
	c := p.chance()
	return step{wait: p.between(leastWait, mostWait), blow: c.blow, pick: p.rand.Uint64(), lasts: p.between(c.least, c.most)}
}

func (p *plan) chance() chance {
	sum := 0
	for _, c := range chances {
		sum += c.weight
	}
	n := p.rand.IntN(sum)
	for _, c := range chances {
		if n -= c.weight; n < 0 {
			return c
		}
	}
	return chances[0] // not reached: n began below the sum
}

func (p *plan) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(p.rand.Int64N(int64(most-least)))
}
