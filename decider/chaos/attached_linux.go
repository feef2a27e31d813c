package chaos

import "syscall"

// attached lets processes end with the one that began them, however that ends.
func attached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
