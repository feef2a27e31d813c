package embedded

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// disk is what would be left of a directory if the power went off: of a file
// what it held at its last sync, and of names those that were synced.
type disk struct {
	root  string
	files map[inode][]byte // as last synced
	// The names that last in each directory: strict ones only because the
	// directory was synced, as POSIX says; journaled ones also because the file
	// was, as on ext4, XFS, Btrfs and ZFS.
	strict, journaled map[inode]names
	pinned            map[inode]*os.File // holds on to each, so that no number is used again
	dirs              map[inode]bool
}

type (
	inode uint64
	names map[string]inode
)

// newDisk is a disk on which everything in root lasts.
func newDisk(root string) (*disk, error) {
	d := &disk{root: root, files: map[inode][]byte{}, strict: map[inode]names{}, journaled: map[inode]names{},
		pinned: map[inode]*os.File{}, dirs: map[inode]bool{}}
	return d, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && (e.IsDir() || e.Type().IsRegular()) {
			err = d.sync(path)
		}
		return err
	})
}

// sync notes that a file or directory lasts as it is now.
func (d *disk) sync(path string) error {
	keep, err := d.begin(path)
	if err == nil {
		keep()
	}
	return err
}

// begin reads a file or directory, and returns what notes that this lasts.
// path may be a descriptor's name in /proc.
func (d *disk) begin(path string) (keep func(), err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return func() {}, nil // deleted, with nothing left of it
	}
	node, err := d.meet(path)
	if err != nil {
		return nil, err
	}
	if d.dirs[node] {
		list, err := d.list(path)
		return func() { d.strict[node], d.journaled[node] = list, maps.Clone(list) }, err
	}
	synced := d.files[node]
	if filepath.Ext(path) != ".blk" || !d.goesOn(node, synced) {
		synced = nil
	}
	data, err := d.from(node, len(synced))
	return func() {
		d.files[node] = append(synced, data...)
		d.keepNames(path, node)
	}, err
}

// meet is the inode of a path, held on to.
func (d *disk) meet(path string) (inode, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	node := inode(info.Sys().(*syscall.Stat_t).Ino)
	d.dirs[node] = info.IsDir()
	if (info.IsDir() || info.Mode().IsRegular()) && d.pinned[node] == nil {
		d.pinned[node], err = os.Open(path)
	}
	return node, err
}

// goesOn reports whether a block of the store has only grown since it was synced,
// so that its beginning need not be read again. What a recovery cuts off, it
// writes over.
func (d *disk) goesOn(node inode, synced []byte) bool {
	const enough = 512 // more than a record's head, with its time, and its checksum
	end := synced[max(0, len(synced)-enough):]
	now := make([]byte, len(end))
	_, err := d.pinned[node].ReadAt(now, int64(len(synced)-len(end)))
	return err == nil && bytes.Equal(now, end)
}

// from is what a file holds from an offset on, synced or not.
func (d *disk) from(node inode, offset int) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(d.pinned[node], int64(offset), 1<<62))
}

func (d *disk) list(path string) (names, error) {
	entries, err := os.ReadDir(path)
	list := names{}
	for _, e := range entries {
		if node, err := d.meet(filepath.Join(path, e.Name())); err == nil { // else it went meanwhile
			list[e.Name()] = node
		}
	}
	return list, err
}

// keepNames notes that the names of a synced file last, and of the directories
// above it.
func (d *disk) keepNames(path string, node inode) {
	for strings.HasPrefix(path, d.root+"/") {
		parent := filepath.Dir(path)
		above, err := d.meet(parent)
		if err != nil {
			return
		}
		if d.journaled[above] == nil {
			d.journaled[above] = names{}
		}
		d.journaled[above][filepath.Base(path)] = node
		path, node = parent, above
	}
}

// The ways in which the power may go off, and the process alone.
const (
	cutStrict    = "strict"    // nothing lasts but what POSIX says
	cutJournaled = "journaled" // nothing lasts but what journaling file systems say
	cutTorn      = "torn"      // as before, and a part of what was written since
	cutZeros     = "zeros"     // as before, but of what was written since only the size lasts
	cutKilled    = "killed"    // the process is gone, and all it wrote is there
)

// cut writes name.way for every way.
func (d *disk) cut(name string) error {
	ways := map[string]func(out string) error{
		cutStrict:    func(out string) error { return d.write(out, d.strict, keepSynced) },
		cutJournaled: func(out string) error { return d.write(out, d.journaled, keepSynced) },
		cutTorn:      func(out string) error { return d.write(out, d.journaled, keepHalf) },
		cutZeros:     func(out string) error { return d.write(out, d.journaled, keepSize) },
		cutKilled:    func(out string) error { return copyTree(out, d.root) },
	}
	for way, write := range ways {
		if err := write(name + "." + way); err != nil {
			return err
		}
	}
	return nil
}

func keepSynced(synced, _ []byte) []byte { return synced }

func keepHalf(synced, now []byte) []byte {
	if !bytes.HasPrefix(now, synced) {
		return synced
	}
	return now[:len(synced)+(len(now)-len(synced)+1)/2]
}

func keepSize(synced, now []byte) []byte {
	return append(bytes.Clone(synced), make([]byte, max(0, len(now)-len(synced)))...)
}

// write makes the directory out as what lasts of the disk.
func (d *disk) write(out string, lasting map[inode]names, keep func(synced, now []byte) []byte) error {
	root, err := d.meet(d.root)
	if err != nil {
		return err
	}
	return d.writeDir(out, root, lasting, keep)
}

func (d *disk) writeDir(out string, dir inode, lasting map[inode]names, keep func(synced, now []byte) []byte) error {
	if err := os.Mkdir(out, dirMode); err != nil {
		return err
	}
	for name, node := range lasting[dir] {
		path := filepath.Join(out, name)
		if d.dirs[node] {
			if err := d.writeDir(path, node, lasting, keep); err != nil {
				return err
			}
			continue
		}
		if d.pinned[node] == nil {
			continue // a socket
		}
		now, err := d.from(node, 0)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, keep(d.files[node], now), fileMode); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies the directories and files in root.
func copyTree(out, root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		to := out + strings.TrimPrefix(path, root)
		switch {
		case os.IsNotExist(err): // it went meanwhile
			return nil
		case err != nil:
			return err
		case e.IsDir():
			return os.Mkdir(to, dirMode)
		case !e.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, fileMode)
	})
}
