package chaos

import (
	"fmt"
	"strings"
	"time"
)

// Text is the report for people, a figure a line.
func (rep Report) Text() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s "+format+"\n", append([]any{name}, args...)...)
	}
	f, t := rep.Figures, rep.Tally
	row("seed", "%d", rep.Seed)
	row("took", "%s, %d rounds, %d processes, %d of which failed by themselves", rep.Took.Round(time.Second), rep.Rounds, f.Processes, f.Failed)
	row("kills", "%d: %d of hosts, %d of those while taking over, %d times all at once", f.Kills, f.HostKills, f.KilledTakingOver, f.AllKilled)
	row("pauses", "%d of agents, %d of hosts; %d slowed; %d times two began in one's place", f.Pauses, f.HostPauses, f.Slowed, f.Twins)
	row("takeovers", "%d of %d runs", t.Takeovers, t.Runs)
	row("recovery", "median %s, 99%% %s, most %s, of %d hosts", rep.Recovery.Median.Round(time.Millisecond),
		rep.Recovery.P99.Round(time.Millisecond), rep.Recovery.Most.Round(time.Millisecond), rep.Recovery.Count)
	row("stored", "%d messages in %d sessions, %d acknowledgements witnessed", t.Messages, t.Sessions, rep.Stored)
	row("calls", "%d, with %d decisions and %d grants", t.Calls, t.Decisions, t.Grants)
	row("questions", "%d, with %d answers; %d about an unknown outcome", t.Questions, t.Answers, t.Interrupted)
	row("effects", "%d of %d starts, %d of them of calls started before", rep.Effects, t.Starts, t.Repeated)
	row("audit", "%d derived again", rep.Derived)
	row("violations", "%d", len(rep.Violations))
	return b.String()
}
