package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// Constants of ptrace(2) that package syscall lacks.
const (
	ptraceGetSyscallInfo = 0x420e
	ptraceExitKill       = 1 << 20
	sysStop              = syscall.SIGTRAP | 0x80 // with PTRACE_O_TRACESYSGOOD
	atEntry, atExit      = 1, 2
)

const printedSuffix = ".printed"

// syscallInfo is struct ptrace_syscall_info, the same on every architecture.
type syscallInfo struct {
	Op   uint8
	_    [3]uint8
	Arch uint32
	_    [2]uint64
	// At an entry: the number, and its arguments. At an exit: the result, and
	// whether it is an error.
	Data [7]uint64
}

// tracer runs a program and keeps what its disk would hold if the power went
// off now.
type tracer struct {
	plan    tracePlan
	disk    *disk
	pending map[int]done   // of the calls that threads are in
	synced  map[int32]bool // descriptors opened with O_SYNC
	step    int            // changes so far
	printed bytes.Buffer
	started map[int]bool // threads that were met
}

// done is what to do once a call has succeeded. It reports whether the call
// changed the disk.
type done func(result uint64) (changed bool, err error)

// trace runs the child of a plan to its last cut. Each cut n leaves in Out a
// directory for every way that the power may go off there, named n.way, and
// n.printed with all that the child had printed by then.
func trace(plan tracePlan) error {
	runtime.LockOSThread() // the tracer is a thread
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+plan.Mode, childDir+"="+filepath.Join(plan.Root, "j"))
	cmd.Stdout, cmd.Stderr = nil, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	d, err := newDisk(plan.Root)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("trace a child with ptrace, which this system must allow: %w", err)
	}
	t := &tracer{plan: plan, disk: d, pending: map[int]done{}, synced: map[int32]bool{}, started: map[int]bool{}}
	return t.run(cmd.Process.Pid)
}

func (t *tracer) run(pid int) error {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	t.started[pid] = true
	options := syscall.PTRACE_O_TRACESYSGOOD | syscall.PTRACE_O_TRACECLONE | ptraceExitKill
	if err := syscall.PtraceSetOptions(pid, options); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	if err := syscall.PtraceSyscall(pid, 0); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	for len(t.plan.Cuts) > 0 {
		tid, err := syscall.Wait4(-1, &status, syscall.WALL, nil)
		if err != nil {
			return fmt.Errorf("trace: wait: %w", err)
		}
		if status.Exited() || status.Signaled() {
			if tid == pid {
				return fmt.Errorf("the child ended after %d changes, before the cut at %d: %v", t.step, t.plan.Cuts[0], status)
			}
			continue
		}
		if err := t.stopped(tid, status); err != nil {
			return err
		}
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// stopped deals with a thread that stands still, and lets it go on.
func (t *tracer) stopped(tid int, status syscall.WaitStatus) error {
	sig := status.StopSignal()
	switch {
	case sig == sysStop:
		sig = 0
		if err := t.call(tid); err != nil {
			return err
		}
	case sig == syscall.SIGTRAP && status.TrapCause() > 0: // a clone
		sig = 0
	case sig == syscall.SIGSTOP && !t.started[tid]: // what a clone begins with
		sig = 0
	}
	t.started[tid] = true
	if err := syscall.PtraceSyscall(tid, int(sig)); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("trace: go on: %w", err)
	}
	return nil
}

// call deals with the beginning or the end of a system call.
func (t *tracer) call(tid int) error {
	var info syscallInfo
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, ptraceGetSyscallInfo, uintptr(tid),
		unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno == syscall.ESRCH {
		return nil // killed
	}
	if errno != 0 {
		return fmt.Errorf("trace: read a system call, which needs Linux 5.3: %w", errno)
	}
	if info.Op == atEntry {
		do, err := t.entered(tid, int(info.Data[0]), info.Data[1:])
		if do != nil {
			t.pending[tid] = do
		}
		return err
	}
	do := t.pending[tid]
	delete(t.pending, tid)
	if failed := info.Data[1]&0xff != 0; do == nil || info.Op != atExit || failed {
		return nil
	}
	changed, err := do(info.Data[0])
	if err == nil && changed {
		err = t.count()
	}
	return err
}

// entered returns what is to be done once a call has succeeded: nil if it
// cannot change the disk.
func (t *tracer) entered(tid, nr int, args []uint64) (done, error) {
	switch nr {
	case syscall.SYS_OPENAT:
		return t.opening(tid, int(args[2])), nil
	case syscall.SYS_RENAMEAT, syscall.SYS_UNLINKAT, syscall.SYS_MKDIRAT:
		return func(uint64) (bool, error) { return true, nil }, nil
	case syscall.SYS_FTRUNCATE:
		return func(uint64) (bool, error) { return t.onDisk(fd(tid, args[0])), nil }, nil
	case syscall.SYS_FSYNC, syscall.SYS_FDATASYNC:
		return t.syncing(fd(tid, args[0]))
	case syscall.SYS_WRITE, syscall.SYS_PWRITE64:
		if args[0] == uint64(syscall.Stdout) {
			return nil, t.printing(tid, uintptr(args[1]), args[2])
		}
		return t.writing(tid, args[0]), nil
	}
	return nil, nil
}

// fd is the name of a descriptor of the child, by which it can be opened.
func fd(tid int, number uint64) string { return fmt.Sprintf("/proc/%d/fd/%d", tid, int32(number)) }

func (t *tracer) onDisk(fd string) bool {
	path, err := os.Readlink(fd)
	return err == nil && (path == t.disk.root || strings.HasPrefix(path, t.disk.root+"/"))
}

func (t *tracer) opening(tid, flags int) done {
	return func(number uint64) (bool, error) {
		t.synced[int32(number)] = flags&syscall.O_SYNC == syscall.O_SYNC
		return flags&syscall.O_CREAT != 0 && t.onDisk(fd(tid, number)), nil
	}
}

func (t *tracer) printing(tid int, at uintptr, size uint64) error {
	text := make([]byte, size)
	if _, err := syscall.PtracePeekData(tid, at, text); err != nil {
		return fmt.Errorf("trace: read what was printed: %w", err)
	}
	t.printed.Write(text)
	return nil
}

func (t *tracer) writing(tid int, number uint64) done {
	return func(uint64) (bool, error) {
		fd := fd(tid, number)
		if !t.onDisk(fd) {
			return false, nil
		}
		if t.synced[int32(number)] {
			return true, t.disk.sync(fd)
		}
		return true, nil
	}
}

// syncing keeps what a file holds as its sync begins: only that is sure to be
// on the disk once it ends.
func (t *tracer) syncing(fd string) (done, error) {
	if !t.onDisk(fd) {
		return nil, nil
	}
	keep, err := t.disk.begin(fd)
	return func(uint64) (bool, error) { keep(); return true, nil }, err
}

// count counts a change, and cuts the power where the plan says so.
func (t *tracer) count() error {
	if t.step++; t.step != t.plan.Cuts[0] {
		return nil
	}
	t.plan.Cuts = t.plan.Cuts[1:]
	name := filepath.Join(t.plan.Out, strconv.Itoa(t.step))
	if err := os.WriteFile(name+printedSuffix, t.printed.Bytes(), fileMode); err != nil {
		return err
	}
	return t.disk.cut(name)
}
