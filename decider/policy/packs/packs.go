// Package packs are policies to begin with, each for one kind of agent, with
// comments to learn from and a file of cases beside it that it is held to.
package packs

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed ci.yaml coding.yaml database.yaml readonly.yaml web-research.yaml
var files embed.FS

// Pack is a policy file to begin with.
type Pack struct {
	// Name is what it is called by.
	Name string
	// About says in a line whom it is for.
	About string
	// YAML is the file. It has no roots: what is relative is compared as written.
	YAML []byte
}

// All lists the packs by name.
func All() []Pack {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // it is embedded
	}
	var out []Pack
	for _, e := range entries {
		out = append(out, read(e.Name()))
	}
	return out
}

// Find returns the pack of a name.
func Find(name string) (Pack, bool) {
	for _, p := range All() {
		if p.Name == name {
			return p, true
		}
	}
	return Pack{}, false
}

// read reads a pack, which says in its first line, a comment, whom it is for.
func read(file string) Pack {
	raw, err := files.ReadFile(file)
	if err != nil {
		panic(err) // it is embedded
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	return Pack{Name: strings.TrimSuffix(file, ".yaml"), About: strings.TrimPrefix(first, "# "), YAML: raw}
}

// rootsLine is where a pack shows how to write its root.
const rootsLine = "# roots: {\"\": /home/me/project}\n"

// Rooted is the file with a directory as the root of every tool, from which relative
// paths are measured, and to which absolute ones can then be compared.
func (p Pack) Rooted(dir string) ([]byte, error) {
	quoted, err := json.Marshal(dir)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(p.YAML, []byte(rootsLine)) {
		return nil, fmt.Errorf("pack %s has no line for its root", p.Name)
	}
	return bytes.Replace(p.YAML, []byte(rootsLine), fmt.Appendf(nil, "roots: {\"\": %s}\n", quoted), 1), nil
}
