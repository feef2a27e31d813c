package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider/chaos"
)

// chaosChild is the hidden command that decider chaos starts its processes with.
const chaosChild = "chaos-child"

// chaosOptions are the flags of decider chaos.
type chaosOptions struct {
	minutes float64
	kills   int
	seed    uint64
	dir     string
	json    bool
}

func (a *app) chaosCommand() *cobra.Command {
	var o chaosOptions
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Kill and stop processes at work on a journal, and check what is left",
		Long: `chaos proves on this machine and disk that the journal holds: it makes journals of its own, has agents, people
and servers work on them in processes of their own, kills, stops and slows these at moments that the seed
chooses, starts them again, and then checks that every acknowledged event is there, that nothing was asked or
done twice, that nothing ran without a ground, that chains are whole, and that the audit is clean. It touches
no journal but its own.

The same seed makes the same plan of blows; what they meet depends on the machine. A round ends after 50 killed
processes, and its journal is removed if nothing is wrong with it, unless --dir keeps it.

Exit codes: 0 every rule held, 1 one was broken (then the journal is kept, and named) or the run failed,
2 misuse.`,
		Example: "  decider chaos --minutes 5\n  decider chaos --kills 2000 --seed 7",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("journal") {
				return cli.Misuse("chaos makes journals of its own and takes no --journal: keep them with --dir")
			}
			if err := o.check(cmd.Flags().Changed("seed")); err != nil {
				return err
			}
			return a.chaos(cmd, o)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&o.minutes, "minutes", 0, "go on for `N` minutes (1 if no --kills is given)")
	f.IntVar(&o.kills, "kills", 0, "go on until `N` processes were killed")
	f.Uint64Var(&o.seed, "seed", 0, "`SEED` of the plan (default a random one, which is printed)")
	f.StringVar(&o.dir, "dir", "", "keep all journals and witnesses in `DIR`, which must be empty or not there")
	f.BoolVar(&o.json, "json", false, "print the report as JSON")
	return cmd
}

// check refuses what cannot be meant, and fills in what was left out.
func (o *chaosOptions) check(seeded bool) error {
	switch {
	case o.minutes < 0 || o.minutes > 1e6:
		return cli.Misuse("--minutes %g: give a number above 0", o.minutes)
	case o.kills < 0:
		return cli.Misuse("--kills %d: give a number above 0", o.kills)
	}
	if o.minutes == 0 && o.kills == 0 {
		o.minutes = 1
	}
	if seeded {
		return nil
	}
	var b [4]byte // short enough to copy
	_, err := rand.Read(b[:])
	o.seed = uint64(binary.BigEndian.Uint32(b[:]))
	return err
}

func (a *app) chaos(cmd *cobra.Command, o chaosOptions) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	a.Notice("chaos with --seed %d", o.seed)
	rep, err := chaos.Run(cmd.Context(), chaos.Config{
		Program: self, Child: []string{chaosChild}, Seed: o.seed, Kills: o.kills, Dir: o.dir,
		Duration: time.Duration(o.minutes * float64(time.Minute)),
		Progress: func(r chaos.Report) {
			a.Notice("round %d: %d kills, %d calls, %d effects, %d violations, after %s", r.Rounds, r.Figures.Kills,
				r.Tally.Calls, r.Effects, len(r.Violations), r.Took.Round(time.Second))
		},
	})
	for _, v := range rep.Violations {
		a.Notice("round %d broke a rule: %s", v.Round, v.Text)
	}
	for _, dir := range rep.Kept {
		a.Notice("kept: %s", dir)
	}
	if err := errors.Join(err, a.printChaos(rep, o.json)); err != nil {
		return err
	}
	if n := len(rep.Violations); n > 0 {
		return fmt.Errorf("%d rules were broken under --seed %d; the journals are kept where it says", n, rep.Seed)
	}
	return nil
}

func (a *app) printChaos(rep chaos.Report, asJSON bool) error {
	if asJSON {
		return a.PrintJSON(rep)
	}
	return a.Printf("%s", rep.Text())
}

// chaosChildCommand is one process of decider chaos.
func (a *app) chaosChildCommand() *cobra.Command {
	return &cobra.Command{
		Use: chaosChild + " ORDERS", Hidden: true, Short: "One process of decider chaos",
		Long: "chaos-child is what decider chaos starts its agents and approvers with.", Example: "  decider chaos --minutes 1",
		Args: cli.OneArg("text of orders"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := chaos.Child(cmd.Context(), args[0])
			if errors.Is(err, chaos.ErrUnfinished) {
				a.Notice("%v", err)
				return errPending
			}
			return err
		},
	}
}
