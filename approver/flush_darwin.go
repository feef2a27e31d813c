package approver

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushInput drops what was typed at a terminal and not read yet. If it cannot
// be dropped, a question still needs a word of its own.
func flushInput(f *os.File) {
	const read = 1 // FREAD of sys/fcntl.h
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCFLUSH, read)
}
