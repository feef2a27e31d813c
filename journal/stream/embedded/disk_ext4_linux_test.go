package embedded

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"
)

// ext4 is a small file system of its own, in a file.
type ext4 struct {
	image string
	dir   string // where it is mounted
}

// newExt4 makes and mounts an ext4 of a size in KiB. Where this process may not
// do that, as it takes root and a loop device, ok is false, and the test is left
// with what it can do on any disk.
func newExt4(t *testing.T, kib int64) (disk *ext4, ok bool) {
	t.Helper()
	disk = &ext4{image: filepath.Join(t.TempDir(), "image"), dir: filepath.Join(t.TempDir(), "disk")}
	if err := os.Mkdir(disk.dir, dirMode); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(disk.image, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(disk.image, kib<<10); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", "-b", "1024", "-m", "0", "-J", "size=1", disk.image},
		{"mount", "-o", "loop", disk.image, disk.dir},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Logf("no file system can be made here, so this is only tried without: %s: %v: %s", command[0], err, out)
			return nil, false
		}
	}
	t.Cleanup(func() { _ = exec.Command("umount", disk.dir).Run() }) // or a test did
	return disk, true
}

func (disk *ext4) must(t *testing.T, command string, args ...string) {
	t.Helper()
	if out, err := exec.Command(command, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// remount mounts it anew with an option, rw or ro.
func (disk *ext4) remount(t *testing.T, option string) {
	t.Helper()
	disk.must(t, "mount", "-o", "remount,"+option, disk.dir)
}

// cycle unmounts it and mounts it again, as a machine that starts does.
func (disk *ext4) cycle(t *testing.T) {
	t.Helper()
	disk.must(t, "umount", disk.dir)
	disk.must(t, "mount", "-o", "loop", disk.image, disk.dir)
}

// EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of Linux's fs/ext4/ext4.h.
const (
	ext4Shutdown   = 0x8004587d
	ext4NoLogFlush = 2
)

// powerOff ends all writing to the disk at once, whatever waits to be written.
func (disk *ext4) powerOff(t *testing.T) {
	t.Helper()
	f, err := os.Open(disk.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags := uint32(ext4NoLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), ext4Shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		t.Fatalf("shut the file system down: %v", errno)
	}
}

// fill leaves a number of KiB free. free takes all of it back.
func (disk *ext4) fill(t *testing.T, leave int64) (free func()) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(disk.dir, &st); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(disk.dir, "filling")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 1024)
	for n := int64(0); leave == 0 || n < int64(st.Bavail)-leave; n++ {
		if _, err := f.Write(block); err != nil {
			break // full
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
