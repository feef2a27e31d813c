package agent

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// maxPath is the longest path taken, in bytes: PATH_MAX of the common systems.
const maxPath = 4096

// local turns a path as the agent wrote it into one relative to the root.
// Since links are never followed, ".." may be resolved as text.
func (f *FS) local(given string) (string, error) {
	switch {
	case given == "":
		return "", refused(`the path is empty; write "." for the root directory`)
	case strings.ContainsRune(given, 0):
		return "", refused("the path %q holds a NUL; write it without", clip(given))
	case len(given) > maxPath:
		return "", refused("the path is %d bytes long; at most %d are taken", len(given), maxPath)
	case strings.HasPrefix(given, "~"):
		return "", refused("the path %q begins with ~, which is not expanded; write it relative to the root directory", clip(given))
	}
	name := filepath.Clean(given)
	if filepath.IsAbs(name) {
		inside, ok := f.inside(name)
		if !ok {
			return "", refused("the path %q is outside the root directory; write one relative to it", clip(given))
		}
		name = inside
	}
	if !filepath.IsLocal(name) {
		return "", refused("the path %q leads outside the root directory; write one inside it", clip(given))
	}
	return name, nil
}

// inside makes a clean absolute path relative to the root, by any name the
// root is known by.
func (f *FS) inside(name string) (string, bool) {
	for _, root := range f.names {
		if rel, err := filepath.Rel(root, name); err == nil && filepath.IsLocal(rel) {
			return rel, true
		}
	}
	return "", false
}

// unlinked refuses a name any directory of which is a link.
func (f *FS) unlinked(name string) error {
	for i := range name {
		if !os.IsPathSeparator(name[i]) {
			continue
		}
		if err := f.notLink(name[:i]); err != nil {
			return err
		}
	}
	return nil
}

// notLink refuses a link, and says where to go instead. What is not there is
// for the operation itself to find.
func (f *FS) notLink(name string) error {
	target, err := f.root.Readlink(name)
	if err != nil { // no link, or none that can be looked at
		return nil
	}
	inside, ok := f.inside(target)
	if !filepath.IsAbs(target) {
		inside = filepath.Join(filepath.Dir(name), target)
		ok = filepath.IsLocal(inside)
	}
	if !ok { // where it leads is not the agent's to know
		return refused("%q is a link out of the root directory, and links are not followed", clip(display(name)))
	}
	return refused("%q is a link, and links are not followed; use what it points to, %q", clip(display(name)), clip(display(inside)))
}

// entry resolves a path and looks at what is there, without following a link
// that is the last part of it.
func (f *FS) entry(given string) (name string, info fs.FileInfo, err error) {
	if name, err = f.local(given); err != nil {
		return "", nil, err
	}
	if err := f.unlinked(name); err != nil {
		return "", nil, err
	}
	info, err = f.root.Lstat(name)
	return name, info, err
}

// existing is entry for what must be there.
func (f *FS) existing(given string) (string, fs.FileInfo, error) {
	name, info, err := f.entry(given)
	if err != nil {
		return "", nil, plain(given, err)
	}
	return name, info, nil
}

// plain says what went wrong at a path, as a fault that is over.
func plain(given string, err error) error { return at(given, err, failed) }

// before is plain for a change that has not begun.
func before(given string, err error) error { return at(given, err, refused) }

// at gives an error its path as the agent wrote it. The system's own errors
// name files; only their reason is passed on.
func at(given string, err error, as func(string, ...any) error) error {
	var known *fault
	if errors.As(err, &known) {
		return err
	}
	return as("%q %s", clip(given), reason(err))
}

// reason puts a system error in words that name no path.
func reason(err error) string {
	var code syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist; list the directory to see what does"
	case errors.Is(err, fs.ErrPermission):
		return "may not be accessed: permission denied"
	case errors.Is(err, fs.ErrClosed):
		return "cannot be reached: the file provider is closed"
	case errors.Is(err, syscall.ENOTDIR):
		return "does not exist: a part of its path is not a directory"
	case errors.Is(err, syscall.ENAMETOOLONG):
		return "has a name that is too long for this system"
	case errors.Is(err, syscall.ENOTEMPTY):
		return "is a directory that is not empty"
	case errors.As(err, &code):
		return "failed: " + code.Error()
	}
	// What os.Root refuses on its own: a link or name that leads outside.
	return "leads outside the root directory or cannot be opened there"
}

// kind names what a directory entry is.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "dir"
	case mode.Type() == fs.ModeSymlink:
		return "link"
	}
	return "special"
}

// display is a local name as it is shown: with slashes on every system.
func display(name string) string { return path.Clean(filepath.ToSlash(name)) }
