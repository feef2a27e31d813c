// Package stream is a journal on NATS JetStream: the Log of package journal
// over one stream, the permissions its principals need, and the settings the
// stream must have. Use [Open] with a server that is there; package embedded
// brings its own.
//
// Nothing is read by direct get, which any replica may answer late and whose
// headers a publisher can forge, and no reader believes a consumer that it has
// seen everything: heads are read from the leader.
package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"decisionjournal/journal"
)

// Config says how to reach a journal and as whom. The zero value is a client
// without credentials of a server at nats.DefaultURL.
type Config struct {
	// URL of the server or servers. Unused if Dial is set.
	URL string
	// Dial connects instead, and again after each disconnect. It runs under a
	// lock of the connection, so it must not use the Log.
	Dial func() (net.Conn, error)
	// Options for nats.go beyond those this package sets, such as TLS.
	Options []nats.Option

	// Role and Actor are the principal. Its inbox is named after it.
	Role  journal.Role
	Actor string
	// Key logs in. Nil: no key.
	Key nkeys.KeyPair

	// Prefix of the JetStream API; "" is [Prefix].
	Prefix string
	// Timeout of one request; 0 is DefaultTimeout. A context may end it sooner.
	Timeout time.Duration
	// Logger gets what no caller can be told. Nil: nothing is logged.
	Logger *slog.Logger
}

func (cfg Config) withDefaults() Config {
	cfg.Prefix = cmp.Or(cfg.Prefix, Prefix)
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	if cfg.Dial == nil {
		cfg.URL = cmp.Or(cfg.URL, nats.DefaultURL)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// headerRoom is kept free of MaxPayload for the headers of an append: two
// names, a number and a filter of at most 75 bytes.
const headerRoom = 512

// Log is a [journal.Log] and [journal.Presence] of one principal on JetStream.
// It reconnects for ever. All methods may run concurrently.
type Log struct {
	cfg    Config
	conn   *conn
	js     jetstream.JetStream
	stream jetstream.Stream
	scan   scanner
}

// Open connects and checks that the stream is there with the right settings.
// A server that goes away meanwhile is tried again within the time of a
// request, since another takes its place. Errors wrap [journal.ErrUnavailable].
func Open(ctx context.Context, cfg Config) (l *Log, err error) {
	cfg = cfg.withDefaults()
	err = cfg.again(ctx, func() error {
		l, err = open(ctx, cfg)
		return err
	})
	return l, err
}

// again does something until it meets no connection that ended, within the
// time of a request.
func (cfg Config) again(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	retry := newBackoff()
	for {
		err := do()
		if err == nil || !cutOff(err) || !sleep(ctx, retry.NextBackOff()) {
			return err
		}
	}
}

// cutOff reports whether an error says that the connection ended, and nothing
// about the journal.
func cutOff(err error) bool {
	return slices.ContainsFunc([]error{
		errDisconnected, io.EOF, syscall.EPIPE, syscall.ECONNRESET, net.ErrClosed, nats.ErrNoResponders,
		nats.ErrReconnectBufExceeded, nats.ErrConnectionClosed, // a flush says closed of a connection that is lost
	}, func(sign error) bool { return errors.Is(err, sign) })
}

func open(ctx context.Context, cfg Config) (*Log, error) {
	c, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	l := &Log{cfg: cfg, conn: c, scan: newScanner()}
	if err := l.bind(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return l, nil
}

func (l *Log) bind(ctx context.Context) error {
	js, err := jetstream.NewWithAPIPrefix(l.conn.Conn, l.cfg.Prefix)
	if err != nil {
		return fmt.Errorf("open the journal: %w: %w", journal.ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	ctx, done := l.conn.watch(ctx, l.cfg.Prefix+".STREAM.INFO."+Name)
	defer done()
	s, err := js.Stream(ctx, Name)
	if err != nil {
		return fmt.Errorf("open the journal: stream %s: %w", Name, l.unavailable(ctx, err))
	}
	l.js, l.stream = js, s
	return Check(s.CachedInfo().Config)
}

// Create makes the stream if it is not there, with the given number of
// replicas, and checks its settings. It needs the rights of the stream's account.
func Create(ctx context.Context, cfg Config, replicas int) error {
	cfg = cfg.withDefaults()
	c, err := connect(cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	js, err := jetstream.NewWithAPIPrefix(c.Conn, cfg.Prefix)
	if err != nil {
		return fmt.Errorf("create the journal: %w", err)
	}
	s, err := js.Stream(ctx, Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, Settings(replicas))
	}
	if err != nil {
		return fmt.Errorf("create the journal: stream %s: %w: %w", Name, journal.ErrUnavailable, err)
	}
	return Check(s.CachedInfo().Config)
}

// Close disconnects. Requests that wait end with ErrUnknown or ErrUnavailable.
func (l *Log) Close() { l.conn.Close() }

// Principal is who writes.
func (l *Log) Principal() (journal.Role, string) { return l.cfg.Role, l.cfg.Actor }

// MaxPayload implements [journal.Log].
func (l *Log) MaxPayload() int { return int(l.conn.MaxPayload()) - headerRoom }

// Last implements [journal.Log].
func (l *Log) Last(ctx context.Context) (uint64, error) {
	info, err := l.info(ctx, "")
	if err != nil {
		return 0, fmt.Errorf("read the last sequence: %w", err)
	}
	return info.LastSeq, nil
}

// At implements [journal.Log].
func (l *Log) At(ctx context.Context, seq uint64) (journal.Message, bool, error) {
	if seq == 0 {
		return journal.Message{}, false, nil
	}
	m, found, err := l.get(ctx, getRequest{Seq: seq})
	if err != nil {
		return journal.Message{}, false, fmt.Errorf("read message %d: %w", seq, err)
	}
	return m, found, nil
}

// Chains implements [journal.Log].
func (l *Log) Chains(ctx context.Context) ([]journal.Chain, error) {
	info, err := l.info(ctx, journal.AllSubjects)
	if err != nil {
		return nil, fmt.Errorf("list chains: %w", err)
	}
	seen := map[journal.Chain]bool{}
	var chains []journal.Chain
	for subject := range info.Subjects {
		sub, err := journal.ParseSubject(subject)
		if err == nil && !seen[sub.Chain] {
			seen[sub.Chain] = true
			chains = append(chains, sub.Chain)
		}
	}
	slices.SortFunc(chains, compareChains)
	return chains, nil
}

func compareChains(a, b journal.Chain) int {
	if a.IsPolicy() != b.IsPolicy() {
		if a.IsPolicy() {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Session(), b.Session())
}

// subjectPage is how many subjects the server lists in one answer.
const subjectPage = 100_000

// info reads the stream's state from its leader, with all subjects of filter if
// it is not "".
func (l *Log) info(ctx context.Context, filter string) (jetstream.StreamState, error) {
	type request struct {
		Filter string `json:"subjects_filter,omitempty"`
		Offset int    `json:"offset,omitempty"`
	}
	var state jetstream.StreamState
	subjects := map[string]uint64{}
	for {
		var answer struct {
			apiAnswer
			State jetstream.StreamState `json:"state"`
			Total int                   `json:"total"`
		}
		if err := l.ask(ctx, "STREAM.INFO", request{filter, len(subjects)}, &answer); err != nil {
			return state, err
		}
		if answer.Error != nil {
			return state, fmt.Errorf("%w: %w", journal.ErrUnavailable, answer.Error)
		}
		state = answer.State
		for subject, n := range answer.State.Subjects {
			subjects[subject] = n
		}
		state.Subjects = subjects
		if filter == "" || len(answer.State.Subjects) < subjectPage && len(subjects) >= answer.Total {
			return state, nil
		}
		if len(answer.State.Subjects) == 0 {
			return state, nil
		}
	}
}

type apiAnswer struct {
	Error *jetstream.APIError `json:"error,omitempty"`
}

// ask sends one read request to the API and decodes its answer. It rides over a
// disconnect within the request's time. Errors wrap ErrUnavailable or ErrRefused.
func (l *Log) ask(ctx context.Context, call string, request, answer any) error {
	subject := l.cfg.Prefix + "." + call + "." + Name
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	retry := newBackoff()
	for {
		msg, err := l.request(ctx, subject, body)
		if err == nil {
			if err := json.Unmarshal(msg.Data, answer); err != nil {
				return fmt.Errorf("%w: the server's answer is not JSON: %w", journal.ErrUnavailable, err)
			}
			return nil
		}
		if !errors.Is(err, errDisconnected) && !errors.Is(err, nats.ErrNoResponders) || !sleep(ctx, retry.NextBackOff()) {
			return err
		}
	}
}

func (l *Log) request(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	if err := l.conn.await(ctx); err != nil {
		return nil, err
	}
	ctx, done := l.conn.watch(ctx, subject)
	defer done()
	msg, err := l.conn.RequestWithContext(ctx, subject, body)
	if err != nil {
		return nil, l.unavailable(ctx, err)
	}
	return msg, nil
}

// unavailable says why a request that stores nothing got no answer. ctx is that
// of conn.watch.
func (l *Log) unavailable(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errRefused):
		return fmt.Errorf("%w: %s %q may not read it", journal.ErrRefused, l.cfg.Role, l.cfg.Actor)
	case cause != nil:
		return fmt.Errorf("%w: no answer: %w", journal.ErrUnavailable, cause)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return fmt.Errorf("%w: %w", journal.ErrUnavailable, errDisconnected)
	}
	return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
}
