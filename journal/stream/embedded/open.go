// Package embedded is a journal in a directory, without a server to run: the
// first process that opens it hosts nats-server inside itself, others join over
// a Unix socket in the directory, and when the host ends or dies another takes
// over. Use [Open].
//
// All users of a directory run under one user id, and each of them can read all
// of its keys: roles protect against mistakes there, not against an agent that
// means harm.
package embedded

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"decisionjournal/journal"
	"decisionjournal/journal/stream"
)

// DefaultPatience is how long a host that accepts nobody is waited for before
// it is named.
const DefaultPatience = 10 * time.Second

// Config says which journal to open and as whom.
type Config struct {
	// Dir is the journal's directory. It is made with mode 0700 if its parent
	// is there. It must be on a local disk; a directory open to other users is
	// refused unless it is empty.
	Dir string
	// Existing refuses a directory that holds no journal yet, for commands that
	// have nothing to do in a new one.
	Existing bool
	// Role is whose key is used; Actor which of the role's principals, ""
	// being the first by name.
	Role  journal.Role
	Actor string

	// User is after whom the approver of a new journal is named; "" is the
	// user of this process.
	User string
	// Listen is a TCP address, host:port, that this process opens for other
	// machines while it hosts; "" opens none. Port 0 takes a free one. The same
	// keys log in there, with the same rights. An address that others can reach
	// needs TLS, since what is said is readable on the way, unless Plain is set.
	Listen string
	TLS    *tls.Config // of Listen; nil: none
	Plain  bool
	// Listening is told the address each time this process opens it: when it
	// begins to host, at once or as it takes over. It must not use the handle.
	// Nil: nobody is told.
	Listening func(address string)

	// Patience with a host that accepts nobody; 0 is DefaultPatience.
	Patience time.Duration
	// Timeout of one request; 0 is stream.DefaultTimeout.
	Timeout time.Duration
	// Logger gets the server's warnings and what no caller can be told. Nil:
	// nothing is logged.
	Logger *slog.Logger
}

func (cfg Config) withDefaults() Config {
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	if cfg.User == "" {
		cfg.User = currentUser()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// absentError names a directory that holds no journal.
type absentError string

func (e absentError) Error() string {
	return fmt.Sprintf("there is no journal at %s: name one with --journal, or make one with decider run", string(e))
}

// Unwrap says that the journal cannot be reached.
func (absentError) Unwrap() error { return journal.ErrUnavailable }

// Handle is an open journal: a [journal.Log] and [journal.Presence] of one
// principal. While it is open its process hosts, or takes over when the host
// ends. All methods may run concurrently.
type Handle struct {
	*stream.Log
	node     *node
	warnings []string

	mu     sync.Mutex
	others []*stream.Log
}

// Open joins the host of a journal, or hosts it. Errors wrap
// [journal.ErrUnavailable] if the journal cannot be reached, such as when
// another process has it and accepts nobody, and [journal.ErrRefused] if there
// is no such principal.
func Open(ctx context.Context, cfg Config) (*Handle, error) {
	cfg = cfg.withDefaults()
	if cfg.Existing {
		if _, err := os.Stat(cfg.Dir); errors.Is(err, fs.ErrNotExist) {
			return nil, absentError(cfg.Dir)
		}
	}
	if err := checkListen(cfg); err != nil {
		return nil, err
	}
	d, warnings, err := openDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		cfg.Logger.Warn(w)
	}
	n := &node{dir: d, cfg: cfg}
	log, err := n.open(ctx, cfg.Role, cfg.Actor)
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return &Handle{Log: log, node: n, warnings: warnings}, nil
}

// Hosting reports whether this handle's server is the journal's now.
func (h *Handle) Hosting() bool { return h.node.hosting() }

// Warnings are what a person should know about the directory, and about the
// store if this process hosts it.
func (h *Handle) Warnings() []string { return append(slices.Clone(h.warnings), h.node.warnings()...) }

// As opens a second connection with the key of another role, and says which
// actor that is. It is closed with the handle.
func (h *Handle) As(ctx context.Context, role journal.Role) (journal.Log, string, error) {
	log, err := h.node.open(ctx, role, "")
	if err != nil {
		return nil, "", err
	}
	h.mu.Lock()
	h.others = append(h.others, log)
	h.mu.Unlock()
	_, actor := log.Principal()
	return log, actor, nil
}

// Close disconnects, and ends hosting: others take over. Requests that wait end
// with an error.
func (h *Handle) Close() error {
	h.node.leave() // a connection that is closed must not take over
	h.Log.Close()
	h.mu.Lock()
	for _, log := range h.others {
		log.Close()
	}
	h.mu.Unlock()
	return h.node.close()
}

// node is what the connections of one handle share: the way to the host, which
// may be this process.
type node struct {
	dir dir
	cfg Config

	mu     sync.Mutex
	host   *host
	closed bool
	busy   *heldError // of the last try to connect; nil if it found a host
}

// Listening is the TCP address that this process has opened, "" if it hosts
// not or opens none.
func (h *Handle) Listening() string {
	h.node.mu.Lock()
	defer h.node.mu.Unlock()
	return h.node.listening()
}

// listening is for whoever holds the lock of n.
func (n *node) listening() string {
	if n.host == nil || n.cfg.Listen == "" {
		return ""
	}
	return n.host.server.Addr().String()
}

func (n *node) warnings() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.host == nil {
		return nil
	}
	return n.host.warnings
}

func (n *node) hosting() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.host != nil
}

// open connects as a principal. It waits as long as Patience for a host that
// accepts nobody.
func (n *node) open(ctx context.Context, role journal.Role, actor string) (*stream.Log, error) {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstRetry),
		backoff.WithMaxInterval(retryCap),
		backoff.WithMaxElapsedTime(n.cfg.Patience))
	for {
		log, err := n.try(ctx, role, actor)
		if err == nil {
			return log, nil
		}
		busy := n.lastBusy()
		if busy == nil {
			return nil, err
		}
		d := retry.NextBackOff()
		if d == backoff.Stop {
			return nil, fmt.Errorf("open the journal: %w", busy)
		}
		if err := wait(ctx, d); err != nil {
			return nil, fmt.Errorf("open the journal: %w: %w", err, busy)
		}
	}
}

// Waits between tries to reach a host.
const (
	firstRetry = 2 * time.Millisecond
	retryCap   = 250 * time.Millisecond
)

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *node) try(ctx context.Context, role journal.Role, actor string) (*stream.Log, error) {
	c, err := n.dial() // keys are there once there is a host
	if err != nil {
		return nil, err
	}
	c.Close()
	p, err := find(n.dir, role, actor)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	key, err := readKey(n.dir, p)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return stream.Open(ctx, stream.Config{
		Dial:    n.dial,
		Role:    p.role,
		Actor:   p.actor,
		Key:     key,
		Timeout: n.cfg.Timeout,
		Logger:  n.cfg.Logger,
	})
}

func (n *node) lastBusy() *heldError {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.busy
}

// dial connects to the host: the one in this process, else the one that
// listens, else this process becomes it.
func (n *node) dial() (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy = nil
	if n.closed {
		return nil, errClosed
	}
	n.replaceFailed()
	if n.host != nil {
		return n.host.connect()
	}
	c, joinErr := join(n.dir, min(greeting, n.cfg.Patience))
	if joinErr == nil {
		return c, nil
	}
	lock, err := takeLock(n.dir)
	if err != nil {
		if errors.As(err, &n.busy) {
			n.busy.crowded = errors.Is(joinErr, errCrowded)
		}
		return nil, unavailable(n.dir.advise(err))
	}
	h, err := startHost(lock, n.dir, n.cfg)
	if err != nil {
		return nil, unavailable(n.dir.diagnose(err))
	}
	n.host = h
	if at := n.listening(); at != "" && n.cfg.Listening != nil {
		n.cfg.Listening(at)
	}
	return h.connect()
}

// replaceFailed ends hosting for a host that failed, so that this process or
// another becomes it anew.
func (n *node) replaceFailed() {
	if n.host == nil || !n.host.failed.Load() {
		return
	}
	if err := n.host.stop(); err != nil {
		n.cfg.Logger.Warn("ending the failed host", "error", err)
	}
	n.host = nil
}

func unavailable(err error) error {
	if errors.Is(err, journal.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
}

var errClosed = fmt.Errorf("%w: this handle is closed", journal.ErrUnavailable)

// leave ends taking over.
func (n *node) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
}

func (n *node) close() error {
	n.leave()
	n.mu.Lock()
	h := n.host
	n.host = nil
	n.mu.Unlock()
	if h == nil {
		return nil
	}
	return h.stop()
}
