package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"decisionjournal/journal"
)

// heldError says that another process has the lock.
type heldError struct {
	dir dir
	pid int // 0: it has not written its pid yet

	crowded bool // it hosts, and takes no more connections
}

func (e *heldError) Error() string {
	switch {
	case e.pid == 0:
		return fmt.Sprintf("another process is taking over the journal %s: try again", e.dir)
	case e.crowded:
		return fmt.Sprintf("process %d hosts the journal %s and takes no more connections: end some, or let it open more files (ulimit -n)", e.pid, e.dir)
	}
	return fmt.Sprintf("process %d hosts the journal %s and accepts nobody: if it hangs, end it with: kill %d", e.pid, e.dir, e.pid)
}

func (e *heldError) Unwrap() error { return journal.ErrUnavailable }

// takeLock makes this process the host of d, or fails with a heldError at once.
// The kernel frees the lock when the process ends, however it ends; the file
// stays. Two opens exclude each other within one process too.
func takeLock(d dir) (*os.File, error) {
	f, err := os.OpenFile(d.lock(), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("lock the journal: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &heldError{dir: d, pid: readPID(f)}
		}
		return nil, fmt.Errorf("lock the journal: %s: %w", d.lock(), err)
	}
	if err := writePID(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the journal: %w", err)
	}
	return f, nil
}

// pidRoom is more than the longest pid.
const pidRoom = 32

func readPID(f *os.File) int {
	buf := make([]byte, pidRoom)
	n, _ := f.ReadAt(buf, 0) // an unreadable pid is an unknown one
	pid, err := strconv.Atoi(string(bytes.TrimSpace(buf[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// writePID notes who hosts. It is for messages only.
func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}
