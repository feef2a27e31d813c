// Package cli is what the commands of the module share: their streams and
// flags, how they open the journal, and how they say what went wrong.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"decisionjournal/approver"
	"decisionjournal/journal"
)

// App is one run of a command. Its zero value has no streams; all else may be
// left out. It is for one goroutine.
type App struct {
	Dir  string // --journal; "" is the default one
	In   io.Reader
	Out  io.Writer
	Errs io.Writer
	Now  func() time.Time // of what is written; nil: time.Now

	Budget time.Duration                 // of one append; 0: patience
	Wrap   func(journal.Log) journal.Log // put before the journal; nil: nothing

	name string // of the command, before what it says
}

// Process is the run with the process's own streams.
func Process() App { return App{In: os.Stdin, Out: os.Stdout, Errs: os.Stderr} }

// UntilSignal calls run with a context that ends when the process is told to.
func UntilSignal(run func(context.Context) int) int {
	signal.Ignore(syscall.SIGXFSZ) // what meets a limit of file sizes is an error, not the end
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx)
}

// Execute runs the command that args name below root, and says in one line what
// went wrong, unless that is said, which was printed already.
func (a *App) Execute(ctx context.Context, root *cobra.Command, args []string, said error) error {
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Errs)
	err := root.ExecuteContext(ctx)
	if err == nil || said != nil && errors.Is(err, said) {
		return err
	}
	text := approver.Line(strings.ReplaceAll(err.Error(), "\n", "; "))
	if errors.Is(err, journal.ErrUnknown) {
		text += "; it may be stored: run the same command again"
	}
	a.Notice("%s", text)
	return err
}

// Root completes a command that has others below it with what all have in common.
func (a *App) Root(root *cobra.Command, below ...*cobra.Command) *cobra.Command {
	a.name = root.Name()
	root.Version = version()
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Misuse("%v: see %s --help", err, cmd.CommandPath()) })
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand(root))
	root.PersistentFlags().StringVar(&a.Dir, "journal", "",
		"journal `DIR` (default $DECIDER_JOURNAL, else decider/journal under $XDG_STATE_HOME or ~/.local/state)")
	root.AddCommand(below...)
	return root
}

// helpCommand is cobra's, but that a command there is not is misuse.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return Misuse("there is no command %q: see %s --help", strings.Join(args, " "), root.Name())
			}
			return cmd.Help()
		},
	}
}

// version is that of the module the command was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown version)"
	}
	return info.Main.Version
}

// MisuseError is what a person has to type differently.
type MisuseError struct{ Text string }

func (e *MisuseError) Error() string { return e.Text }

// Misuse is a MisuseError in words.
func Misuse(format string, args ...any) error {
	return &MisuseError{fmt.Sprintf(format, args...)}
}

// NoArgs allows no arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Misuse("%s takes no argument %q: see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
	}
	return nil
}

// OneArg asks for exactly one argument, called name.
func OneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Misuse("%s takes one %s: see %s --help", cmd.CommandPath(), name, cmd.CommandPath())
		}
		return nil
	}
}
