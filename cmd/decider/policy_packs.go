package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"decisionjournal/cmd/internal/cli"
	"decisionjournal/decider/policy"
	"decisionjournal/decider/policy/packs"
	"decisionjournal/journal/stream/embedded"
)

func (a *app) policyPacks() *cobra.Command {
	return &cobra.Command{
		Use: "packs", Short: "List the policies that there are to begin with",
		Example: "  decider policy packs\n  decider policy show --pack coding", Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			for _, p := range packs.All() {
				if err := a.Printf("%-14s%s\n", p.Name, p.About); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// showPack prints a pack as it is.
func (a *app) showPack(name string) error {
	pack, err := findPack(name)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(pack.YAML)
	return err
}

func findPack(name string) (packs.Pack, error) {
	pack, ok := packs.Find(name)
	if !ok {
		var names []string
		for _, p := range packs.All() {
			names = append(names, p.Name)
		}
		return packs.Pack{}, cli.Misuse("there is no pack %q: use one of %s", name, strings.Join(names, ", "))
	}
	return pack, nil
}

func (a *app) policyInit() *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use: "init PACK [FILE]", Short: "Write a pack to a new file",
		Long: "init writes one of decider policy packs to a new file, policy.yaml if none is named, to be changed at will. It\n" +
			"overwrites nothing. With --root, relative paths are measured from that directory, and absolute ones compared to it.",
		Example: "  decider policy init coding\n  decider policy init coding agents/policy.yaml --root .",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return cli.Misuse("init takes a PACK and one FILE at most: see decider policy init --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pack, err := findPack(args[0])
			if err != nil {
				return err
			}
			raw := pack.YAML
			if cmd.Flags().Changed("root") {
				if raw, err = rooted(pack, root); err != nil {
					return err
				}
			}
			file := append(args, "policy.yaml")[1]
			if raw, err = a.guarding(raw, file); err != nil {
				return err
			}
			if err := writeNew(file, raw); err != nil {
				return err
			}
			return a.Printf("%s: the pack %s; change it at will, then run decider policy check %s\n", file, pack.Name, quoted(file))
		},
	}
	cmd.Flags().StringVar(&root, "root", "", "measure relative paths from `DIR`")
	return cmd
}

// rooted is a pack with its root, which must be there and be one that paths can be
// compared with.
func rooted(pack packs.Pack, root string) ([]byte, error) {
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return nil, cli.Misuse("--root %q: name a directory that exists", root)
	}
	dir, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	raw, err := pack.Rooted(dir)
	if err != nil {
		return nil, err
	}
	if _, err := policy.Parse(pack.Name+".yaml", raw); err != nil {
		return nil, cli.Misuse("--root %q: %v", root, err)
	}
	return raw, nil
}

// guarding adds to a policy what the danger floor guards here: the home directory,
// the file that the policy is in, and the journal.
func (a *app) guarding(raw []byte, file string) ([]byte, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	if a.Dir == "" {
		if a.Dir, err = embedded.DefaultDir(); err != nil {
			return nil, err
		}
	}
	journal, err := filepath.Abs(a.Dir)
	if err != nil {
		return nil, err
	}
	floor := map[string]any{"config": []string{file, journal}}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) && filepath.Dir(home) != home {
		floor["home"] = home
	}
	text, err := json.Marshal(floor)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(raw[:len(raw):len(raw)], "\n# What no tool may change, whatever the rules say: this file and the journal; and\n# whose home is guarded.\nfloor: %s\n", text), nil
}

// writeNew writes a file that must not be there. One that cannot be written whole is
// removed.
func writeNew(file string, raw []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return cli.Misuse("%s is there already: name a new file", file)
	case err != nil:
		return cli.Misuse("%v: name a new file in a directory that exists", err)
	}
	_, err = f.Write(raw)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing: %w", errors.Join(err, os.Remove(file)))
	}
	return nil
}
