package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"

	"decisionjournal/journal"
)

// Tuning. Each is a bound on a wait and never decides what is true.
const (
	// DefaultTimeout is how long one request waits for its answer.
	DefaultTimeout = 5 * time.Second

	dialTimeout     = 5 * time.Second      // more than a busy machine takes
	reconnectFirst  = 2 * time.Millisecond // a new host is there in about 20 ms
	reconnectCap    = 500 * time.Millisecond
	pingInterval    = 5 * time.Second // how often a silent server is asked whether it lives
	pingsUnanswered = 2
)

// Causes with which a waiting request is cut short.
var (
	errRefused      = errors.New("permission refused")
	errDisconnected = errors.New("connection lost")
)

// dialer makes connections for nats.go, which calls it again to reconnect.
type dialer func() (net.Conn, error)

func (d dialer) InProcessConn() (net.Conn, error) { return d() }

// conn is a connection that reconnects for ever, and tells requests that wait
// on it of a refusal or a disconnect.
type conn struct {
	*nats.Conn
	logger *slog.Logger
	inbox  string // where answers come to; "" is nats.go's own

	mu      sync.Mutex
	up      bool
	times   int // it was made
	changed chan struct{}
	lastErr error // of the last attempt to connect again
	waiting map[*waiter]struct{}
}

type waiter struct {
	subject string
	cancel  context.CancelCauseFunc
}

func connect(cfg Config) (*conn, error) {
	c := &conn{
		logger:  cfg.Logger,
		up:      true,
		times:   1,
		changed: make(chan struct{}),
		waiting: map[*waiter]struct{}{},
	}
	opts := append(c.options(), nats.Name(string(cfg.Role)+" "+cfg.Actor))
	if cfg.Role.Known() && journal.ValidName(cfg.Actor) {
		c.inbox = inbox(cfg.Role, cfg.Actor)
		opts = append(opts, nats.CustomInboxPrefix(c.inbox))
	}
	if cfg.Dial != nil {
		opts = append(opts, nats.InProcessServer(c.noting(cfg.Dial)))
	}
	if cfg.Key != nil {
		public, err := cfg.Key.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("connect to the journal: the key of %s is unusable: %w", cfg.Actor, err)
		}
		opts = append(opts, nats.Nkey(public, cfg.Key.Sign))
	}
	nc, err := nats.Connect(cfg.URL, append(opts, cfg.Options...)...)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, fmt.Errorf("connect to the journal: %w: %w", journal.ErrUnavailable, cmp.Or(c.lastErr, err))
	}
	c.Conn = nc
	return c, nil
}

// noting is dial, with its error kept as it is for whoever waits.
func (c *conn) noting(dial dialer) dialer {
	return func() (net.Conn, error) {
		nc, err := dial()
		if err != nil {
			c.note(err)
		}
		return nc, err
	}
}

func (c *conn) options() []nats.Option {
	return []nats.Option{
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // two refused logins would otherwise close the client for good
		nats.IgnoreDiscoveredServers(),
		nats.CustomReconnectDelay(reconnectDelay()),
		nats.ReconnectBufSize(-1), // what is sent while disconnected fails at once instead of arriving later
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsUnanswered),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { c.setUp(false) }),
		nats.ReconnectHandler(func(*nats.Conn) { c.setUp(true) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.noteFirst(err) }),
		nats.ClosedHandler(func(*nats.Conn) { c.setUp(false) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.asyncError(err) }),
	}
}

// reconnectDelay is called by one goroutine of one connection, with attempts
// counted from 1 anew after each disconnect.
func reconnectDelay() func(attempts int) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(reconnectFirst),
		backoff.WithMaxInterval(reconnectCap),
		backoff.WithMaxElapsedTime(0))
	return func(attempts int) time.Duration {
		if attempts <= 1 {
			b.Reset()
		}
		return b.NextBackOff()
	}
}

// setUp notes that the connection is up or down. Why it went down is less telling
// than why it does not come up again, so only the latter is kept.
func (c *conn) setUp(up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up, c.lastErr = up, nil
	if up {
		c.times++
	}
	close(c.changed)
	c.changed = make(chan struct{})
	if !up {
		for w := range c.waiting {
			w.cancel(errDisconnected)
		}
	}
}

// epoch counts the connections made: after another one, another host may be
// there.
func (c *conn) epoch() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times
}

func (c *conn) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastErr = err
}

// noteFirst keeps an error unless a dial has said more exactly what is wrong.
func (c *conn) noteFirst(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastErr = cmp.Or(c.lastErr, err)
}

var refusedSubject = regexp.MustCompile(`(?i)permissions violation for (?:publish|subscription) to "([^"]+)"`)

// asyncError hands a refusal to whoever waits on its subject, or on one above
// it: the server tells of it only here, and the request itself would wait out its
// time. Without an inbox, as for a key that is another's, nobody is answered.
func (c *conn) asyncError(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		c.logger.Debug("journal connection", "error", err)
		return
	}
	match := refusedSubject.FindStringSubmatch(err.Error())
	if match == nil {
		c.logger.Warn("the journal refused something", "error", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.inbox != "" && under(c.inbox, match[1])
	for w := range c.waiting {
		if all || under(w.subject, match[1]) {
			w.cancel(errRefused)
		}
	}
}

// under reports whether subject is root, or one of those below it.
func under(root, subject string) bool { return strings.HasPrefix(subject+".", root+".") }

// watch returns a context that ends with cause errRefused if the server refuses
// subject or one below it, and errDisconnected if the connection is lost.
func (c *conn) watch(ctx context.Context, subject string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &waiter{subject, cancel}
	c.mu.Lock()
	c.waiting[w] = struct{}{}
	if !c.up {
		cancel(errDisconnected)
	}
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		delete(c.waiting, w)
		c.mu.Unlock()
		cancel(nil)
	}
}

// await waits until the connection is up. Its error wraps ErrUnavailable and
// says what the last attempt to connect met.
func (c *conn) await(ctx context.Context) error {
	for {
		c.mu.Lock()
		up, changed, last := c.up, c.changed, c.lastErr
		c.mu.Unlock()
		switch {
		case c.IsClosed():
			return fmt.Errorf("%w: the connection is closed", journal.ErrUnavailable)
		case up && ctx.Err() == nil:
			return nil
		}
		select {
		case <-ctx.Done():
			if up || last == nil {
				return fmt.Errorf("%w: %w", journal.ErrUnavailable, ctx.Err())
			}
			return fmt.Errorf("%w: not connected: %w: %w", journal.ErrUnavailable, ctx.Err(), last)
		case <-changed:
		}
	}
}
