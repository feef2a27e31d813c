package agent

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Permissions of what is made new, less the process's umask.
const (
	newFile fs.FileMode = 0o644
	newDir  fs.FileMode = 0o755
)

// tempPrefix begins the name of a file that is being written. One is left
// behind only by a process that was killed.
const tempPrefix = ".fs_write-"

func (f *FS) write(a arguments) (json.RawMessage, error) {
	given, content := a.text("path"), a.text("content")
	name, info, err := f.entry(given)
	var mode fs.FileMode // none: a new file
	switch {
	case err == nil:
		if err := f.replaceable(given, name, info); err != nil {
			return nil, err
		}
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, before(given, err)
	}
	made, err := f.parent(given, name, a.flag("create-parents"))
	if err != nil {
		return nil, err
	}
	if err := f.replace(given, name, content, mode, made); err != nil {
		return nil, err
	}
	return Text(fmt.Sprintf("wrote %d bytes to %s", len(content), display(name))), nil
}

// replaceable refuses to write over what is no file, or may not be changed.
func (f *FS) replaceable(given, name string, info fs.FileInfo) error {
	if err := f.notLink(name); err != nil {
		return err
	}
	if why := noFile(info.Mode()); why != "" {
		return refused("%q %s", clip(given), why)
	}
	if info.Mode().Perm()&0o200 == 0 {
		return refused("%q is read-only", clip(given))
	}
	return nil
}

// parent sees to it that a name's directory exists, and reports whether it
// had to make one.
func (f *FS) parent(given, name string, create bool) (made bool, err error) {
	dir := filepath.Dir(name)
	info, err := f.root.Lstat(dir)
	switch {
	case err == nil && info.IsDir():
		return false, nil
	case err == nil:
		return false, refused("%q cannot be written: %q is not a directory", clip(given), clip(display(dir)))
	case !errors.Is(err, fs.ErrNotExist):
		return false, before(given, err)
	case !create:
		return false, refused("%q has no parent directory; make it first, as fs_write does with create-parents", clip(given))
	}
	return f.makeDirs(given, dir)
}

// makeDirs makes dir and what is missing above it, each durable in its parent.
func (f *FS) makeDirs(given, dir string) (made bool, err error) {
	for end := range dir + "/" {
		if end < len(dir) && !os.IsPathSeparator(dir[end]) {
			continue
		}
		err := f.root.Mkdir(dir[:end], newDir)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			made = true
			err = f.syncDir(filepath.Dir(dir[:end]))
		}
		if err != nil {
			return made, begun(made, given, err)
		}
	}
	return made, nil
}

// begun is the fault of a change that failed: refused if nothing was made yet.
func begun(made bool, given string, err error) error {
	if made {
		return failed("not written, though parent directories were made: %q %s", clip(given), reason(err))
	}
	return before(given, err)
}

// replace puts content in a file beside name and, once that is on disk, gives
// it the name.
func (f *FS) replace(given, name, content string, mode fs.FileMode, made bool) error {
	temp := filepath.Join(filepath.Dir(name), tempPrefix+rand.Text())
	file, err := f.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, cmp.Or(mode, newFile))
	if err != nil {
		return begun(made, given, err)
	}
	if err := fill(file, content, mode); err != nil {
		return f.discard(given, temp, err)
	}
	if err := f.root.Rename(temp, name); err != nil {
		return f.discard(given, temp, err)
	}
	if err := f.syncDir(filepath.Dir(name)); err != nil {
		return unsure("%q was written, but may not survive a loss of power: %s", clip(given), reason(err))
	}
	return nil
}

// fill writes and syncs a new file. A mode that was there before is not the
// umask's to change.
func fill(file *os.File, content string, mode fs.FileMode) error {
	_, err := file.WriteString(content)
	if err == nil && mode != 0 {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// discard removes a file whose writing failed.
func (f *FS) discard(given, temp string, err error) error {
	text := fmt.Sprintf("not written, what was there is unchanged: %q %s", clip(given), reason(err))
	if f.root.Remove(temp) != nil {
		text += fmt.Sprintf("; %q is left over", display(temp))
	}
	return failed("%s", text)
}

// syncDir makes a directory's entries durable.
func (f *FS) syncDir(name string) error {
	dir, err := f.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (f *FS) move(a arguments) (json.RawMessage, error) {
	from, what, err := f.changeable(a.text("from"))
	if err != nil {
		return nil, err
	}
	to, err := f.free(a.text("to"), what.IsDir(), a.flag("overwrite"))
	if err != nil {
		return nil, err
	}
	if to == from || strings.HasPrefix(to, from+string(filepath.Separator)) {
		return nil, refused("%q cannot be moved to or into itself", clip(a.text("from")))
	}
	if err := f.root.Rename(from, to); err != nil {
		return nil, before(a.text("to"), err)
	}
	err = errors.Join(f.syncDir(filepath.Dir(to)), f.syncDir(filepath.Dir(from)))
	if err != nil {
		return nil, unsure("%q was moved, but that may not survive a loss of power: %s", clip(a.text("from")), reason(err))
	}
	return Text(fmt.Sprintf("moved %s to %s", display(from), display(to))), nil
}

// free resolves a path that a directory or something else is to be moved to.
func (f *FS) free(given string, dir, overwrite bool) (string, error) {
	name, info, err := f.entry(given)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err := f.parent(given, name, false)
		return name, err
	case err != nil:
		return "", before(given, err)
	case name == ".":
		return "", refused("%q is the root directory; name what to make in it", clip(given))
	case !overwrite:
		return "", refused("%q exists; set overwrite to replace it", clip(given))
	case info.IsDir():
		return "", refused("%q is a directory, which is never replaced; delete it first or name a path inside it", clip(given))
	case dir:
		return "", refused("%q is a %s, which a directory cannot replace", clip(given), kind(info.Mode()))
	}
	return name, f.replaceable(given, name, info)
}

// changeable resolves a path that is to be moved or deleted: anything that is
// there but the root. A link is moved or deleted itself.
func (f *FS) changeable(given string) (string, fs.FileInfo, error) {
	name, info, err := f.entry(given)
	switch {
	case err != nil:
		return "", nil, before(given, err)
	case name == ".":
		return "", nil, refused("%q is the root directory, which stays where it is", clip(given))
	}
	return name, info, nil
}

func (f *FS) delete(a arguments) (json.RawMessage, error) {
	given := a.text("path")
	name, info, err := f.changeable(given)
	if err != nil {
		return nil, err
	}
	if info.IsDir() && a.flag("recursive") {
		if err := f.root.RemoveAll(name); err != nil {
			return nil, failed("not all of %q was deleted: it %s", clip(given), reason(err))
		}
	} else if err := f.root.Remove(name); err != nil {
		if errors.Is(err, syscall.ENOTEMPTY) {
			return nil, refused("%q is a directory that is not empty; set recursive to delete all that is in it", clip(given))
		}
		return nil, before(given, err)
	}
	if err := f.syncDir(filepath.Dir(name)); err != nil {
		return nil, unsure("%q was deleted, but that may not survive a loss of power: %s", clip(given), reason(err))
	}
	return Text("deleted " + display(name)), nil
}
