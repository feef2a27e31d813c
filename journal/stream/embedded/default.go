package embedded

import (
	"fmt"
	"os"
	"path/filepath"
)

// DirEnv is the environment variable that names the journal's directory.
const DirEnv = "DECIDER_JOURNAL"

// DefaultDir is the journal's directory where none is named: that of DirEnv,
// else decider/journal under $XDG_STATE_HOME or ~/.local/state, whose parents
// are made if need be.
func DefaultDir() (string, error) {
	if dir := os.Getenv(DirEnv); dir != "" {
		return dir, nil
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no journal is named, and %w: give --journal DIR", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	parent := filepath.Join(state, "decider")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fmt.Errorf("the default journal cannot be made: %w: give --journal DIR", err)
	}
	return filepath.Join(parent, "journal"), nil
}
