//go:build !linux

package chaos

import "syscall"

// attached is all that this system has: if the process that began them is
// killed, the others go on.
func attached() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
