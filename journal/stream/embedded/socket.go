package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Limits of the socket.
const (
	// maxSocketPath is the longest path that fits the address of a Unix socket
	// on all systems; Linux alone would take 107 bytes.
	maxSocketPath = 103
	// greeting is how long a host may take to greet before it counts as hanging.
	greeting = 2 * time.Second
	// greetingRoom holds the first bytes a server sends.
	greetingRoom = 4096
	// filesKept are descriptors that connections leave to the store and to
	// the rest of the process; connectionsLeast they have all the same.
	filesKept        = 64
	connectionsLeast = 16
	// acceptRetry is how long a host waits that cannot accept.
	acceptRetry = 50 * time.Millisecond
)

// turnedAway greets a connection that is one too many, and begins with refusal,
// as what a server greets so does.
const (
	refusal    = "-ERR"
	turnedAway = refusal + " 'too many connections'\r\n"
)

// errCrowded: a host takes no more connections.
var errCrowded = errors.New("it takes no more connections")

// maxConnections is how many connections a host takes: each needs one of the
// files that this process may open.
func maxConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return max(int(limit.Cur)-filesKept, connectionsLeast)
}

// atSocket calls use with a path of d's socket that fits a socket address. A
// path that is too long is reached through an open directory, so it needs no
// second place that another user could make first.
func atSocket(d dir, use func(path string) error) error {
	if len(d.socket()) <= maxSocketPath {
		return use(d.socket())
	}
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	defer f.Close()
	short := fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), socketName)
	if _, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err != nil {
		return fmt.Errorf("the path %s is too long for a socket on this system: use one of at most %d bytes",
			d, maxSocketPath-len("/"+socketName))
	}
	return use(short)
}

// bridge carries connections from the socket into the server.
type bridge struct {
	dir      dir
	listener net.Listener
	inner    func() (net.Conn, error)

	most int // connections at a time

	wg    sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil once closed
	ended chan struct{}         // closed then
}

// listen replaces what is left of an earlier host's socket. Only the holder of
// the lock calls it.
func listen(d dir, inner func() (net.Conn, error)) (*bridge, error) {
	if err := os.Remove(d.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("replace the socket: %w", err)
	}
	b := &bridge{dir: d, inner: inner, most: maxConnections(), conns: map[net.Conn]struct{}{}, ended: make(chan struct{})}
	err := atSocket(d, func(path string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false) // close removes it under its real name
		b.listener = l
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", d.socket(), err)
	}
	if err := os.Chmod(d.socket(), fileMode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), b.listener.Close())
	}
	b.wg.Go(b.accept)
	return b, nil
}

func (b *bridge) accept() {
	for {
		outer, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			b.pause()
			continue
		}
		if !b.hold(outer) {
			_, _ = io.WriteString(outer, turnedAway) // into a new socket's buffer, so it does not wait
			outer.Close()
			continue
		}
		b.wg.Go(func() { b.carry(outer) })
	}
}

func (b *bridge) pause() {
	timer := time.NewTimer(acceptRetry)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.ended:
	}
}

// carry copies both ways until either side ends.
func (b *bridge) carry(outer net.Conn) {
	defer b.release(outer)
	defer outer.Close()
	inner, err := b.inner()
	if err != nil {
		return
	}
	defer inner.Close()
	b.wg.Go(func() {
		io.Copy(inner, outer)
		inner.Close()
		outer.Close()
	})
	io.Copy(outer, inner)
}

// hold counts a connection in, unless it is one too many or the bridge is closed.
func (b *bridge) hold(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conns == nil || len(b.conns) >= b.most {
		return false
	}
	b.conns[c] = struct{}{}
	return true
}

func (b *bridge) release(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

// close ends all connections and removes the socket.
func (b *bridge) close() error {
	err := b.listener.Close()
	b.mu.Lock()
	for c := range b.conns {
		c.Close()
	}
	b.conns = nil
	close(b.ended)
	b.mu.Unlock()
	b.wg.Wait()
	return errors.Join(err, os.Remove(b.dir.socket()))
}

// join connects to a host's socket and waits for its greeting, so that a host
// that hangs is told from one that works.
func join(d dir, patience time.Duration) (net.Conn, error) {
	var c net.Conn
	err := atSocket(d, func(path string) (err error) {
		c, err = net.DialTimeout("unix", path, patience)
		return err
	})
	if err != nil {
		return nil, err
	}
	first := make([]byte, greetingRoom)
	c.SetReadDeadline(time.Now().Add(patience))
	n, err := c.Read(first)
	if err != nil {
		c.Close()
		return nil, err
	}
	if bytes.HasPrefix(first[:n], []byte(refusal)) {
		c.Close()
		return nil, errCrowded
	}
	c.SetReadDeadline(time.Time{})
	return &greeted{Conn: c, first: first[:n]}, nil
}

// greeted is a connection whose first bytes were read ahead.
type greeted struct {
	net.Conn
	first []byte
}

func (g *greeted) Read(p []byte) (int, error) {
	if len(g.first) > 0 {
		n := copy(p, g.first)
		g.first = g.first[n:]
		return n, nil
	}
	return g.Conn.Read(p)
}
