package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"decisionjournal/journal"
)

// Layout of a journal directory.
const (
	storeName  = "store"
	keysName   = "keys"
	lockName   = "lock"
	socketName = "socket"

	dirMode  = 0o700
	fileMode = 0o600
)

// dir is an absolute path of a journal directory.
type dir string

func (d dir) store() string  { return filepath.Join(string(d), storeName) }
func (d dir) keys() string   { return filepath.Join(string(d), keysName) }
func (d dir) lock() string   { return filepath.Join(string(d), lockName) }
func (d dir) socket() string { return filepath.Join(string(d), socketName) }

// openDir makes the directory if its parent is there, and checks that it is
// private and on a disk that keeps what it is told to. The warnings are for a
// person to read.
func openDir(path string) (d dir, warnings []string, err error) {
	if path == "" {
		return "", nil, errors.New("open the journal: no directory named")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, fmt.Errorf("open the journal in %s: %w", path, err)
	}
	if err := makePrivate(abs); err != nil {
		return "", nil, err
	}
	if err := checkDisk(abs); err != nil {
		return "", nil, err
	}
	if tree := workingTree(abs); tree != "" {
		warnings = append(warnings, fmt.Sprintf(
			"the journal %s is inside the working tree %s, where an agent's tools reach it: keep it elsewhere", abs, tree))
	}
	return dir(abs), warnings, nil
}

func makePrivate(path string) error {
	err := os.Mkdir(path, dirMode)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open the journal: %s does not exist: create it, or name another directory", filepath.Dir(path))
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("open the journal: the directory %s cannot be made: %w", path, dir(filepath.Dir(path)).advise(errors.Unwrap(err)))
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("open the journal: %s is not a directory", path)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return tighten(path)
}

// tighten makes an empty directory private. One that holds something was
// readable to others for who knows how long, so a person decides.
func tighten(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("open the journal: %s is open to other users and not empty: chmod 700 it, or name another directory", path)
	}
	if err := os.Chmod(path, dirMode); err != nil {
		return fmt.Errorf("open the journal: %w", err)
	}
	return nil
}

// syncDirs makes the names of all that a new host has made last through a power
// loss: the server syncs its files, but not every directory that they are in.
// Blocks it begins later are left to the file system, and those on which a
// journal may be keep a synced file's name.
func (d dir) syncDirs() error {
	err := syncDir(filepath.Dir(string(d)))
	if err != nil && !errors.Is(err, fs.ErrPermission) { // a parent that may be passed and not read
		return fmt.Errorf("sync the directory above the journal: %w", err)
	}
	err = filepath.WalkDir(string(d), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = syncDir(path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("sync the journal's directories: %w", err)
	}
	return nil
}

// workingTree is the git working tree that path is in, or "".
func workingTree(path string) string {
	for {
		if _, err := os.Lstat(filepath.Join(path, ".git")); err == nil {
			return path
		}
		parent := filepath.Dir(path)
		if parent == path {
			return ""
		}
		path = parent
	}
}

// refuseDisk is why a journal may not be on a file system of this kind.
func refuseDisk(path, kind string) error {
	return fmt.Errorf("open the journal: %w: %s is on %s, which does not keep a journal through a power loss or does not lock: use a directory on a local disk",
		journal.ErrUnavailable, path, kind)
}
