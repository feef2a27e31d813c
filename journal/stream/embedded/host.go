package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"decisionjournal/journal"
	"decisionjournal/journal/stream"
)

// Settings of the server.
const (
	maxPayload   = 8 << 20
	authTimeout  = 10 * time.Second // more than a client on a busy machine takes to log in
	startTimeout = time.Minute      // recovering a store of millions of messages takes seconds

	streamAccount    = "J" // holds the stream; nobody logs in there but the host, to make it
	principalAccount = "P" // imports what its principals may ask of the stream
	streamAPI        = "$JS.API"
)

// host is the server in this process. It exists only while the lock is held.
type host struct {
	lock   *os.File
	server *server.Server
	bridge *bridge
	holes  *stream.Log // reads for the scan, and tells of it
	mark   *mark
	kept   chan struct{} // closed when the mark is not followed any more
	failed atomic.Bool   // the store must be opened anew, by the next host
	health *health
	cancel context.CancelFunc

	warnings []string
}

// startHost opens the store of d for everyone who has a key. On success it owns
// the lock.
func startHost(lock *os.File, d dir, cfg Config) (*host, error) {
	h := &host{lock: lock, health: newHealth(cfg.Logger)}
	if err := h.start(d, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("host the journal: %w", err), h.stop())
	}
	return h, nil
}

func (h *host) start(d dir, cfg Config) error {
	if err := makeKeys(d, cfg.User); err != nil {
		return err
	}
	mended, whole, err := mendBlocks(d)
	for _, text := range mended {
		h.warn(cfg.Logger, text)
	}
	if err != nil {
		return err
	}
	admin, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	reader, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	if err := h.startServer(d, cfg, admin, reader); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	err = stream.Create(ctx, stream.Config{Dial: h.connect, Key: admin, Prefix: streamAPI, Logger: cfg.Logger}, 1)
	if err != nil {
		return err
	}
	h.holes, err = stream.Open(ctx, stream.Config{
		Dial: h.connect, Key: reader, Role: journal.RoleAuditor, Actor: stream.HostActor, Logger: cfg.Logger,
	})
	if err != nil {
		return err
	}
	lost, err := h.reckon(ctx, d, cfg.Logger)
	if err != nil {
		return err
	}
	if err := h.holes.OfferHoles(ctx, whole, lost); err != nil {
		return err
	}
	if err := d.syncDirs(); err != nil { // before anything is acknowledged
		return err
	}
	h.bridge, err = listen(d, h.connect)
	if err != nil {
		return err
	}
	h.health.watch(ctx, h, d, stream.Config{Dial: h.connect, Key: admin, Prefix: streamAPI, Logger: cfg.Logger})
	return nil
}

// reckon finds out whether the store lost its end, and follows it from here on.
func (h *host) reckon(ctx context.Context, d dir, logger *slog.Logger) (lost []uint64, err error) {
	m, damaged, err := openMark(d)
	if err != nil {
		return nil, err
	}
	h.mark = m
	if damaged {
		h.warn(logger, fmt.Sprintf("%s is damaged: if the store lost its last messages too, that may not be noticed", d.mark()))
	}
	last, err := h.holes.Last(ctx)
	if err != nil {
		return nil, err
	}
	lost, warning, err := m.reckon(d, last, time.Now())
	if err != nil {
		return nil, err
	}
	h.warn(logger, warning)
	h.kept = make(chan struct{})
	go func() {
		defer close(h.kept)
		if err := m.keep(ctx, h.holes, logger); err != nil {
			logger.Error("the journal is opened anew", "error", err)
			h.failed.Store(true)
			h.server.Shutdown() // whoever is connected looks for the next host
		}
	}()
	return lost, nil
}

func (h *host) warn(logger *slog.Logger, text string) {
	if text != "" {
		h.warnings = append(h.warnings, text)
		logger.Warn(text)
	}
}

// settleMark notes for good how far the store reaches.
func (h *host) settleMark() error {
	if h.mark == nil {
		return nil
	}
	defer h.mark.file.Close()
	if h.kept == nil {
		return nil // it was not held against the store
	}
	<-h.kept
	if h.failed.Load() {
		return nil
	}
	last, err := h.holes.Last(context.Background())
	if err != nil {
		return nil // the server is gone already
	}
	return h.mark.settle(max(last, h.mark.last))
}

// connect is an in-process connection to the server.
func (h *host) connect() (net.Conn, error) { return h.server.InProcessConn() }

func (h *host) startServer(d dir, cfg Config, admin, reader nkeys.KeyPair) error {
	opts, err := options(d, admin, reader)
	if err != nil {
		return err
	}
	if err := listenOn(opts, cfg); err != nil {
		return err
	}
	h.server, err = server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("configure the server: %w", err)
	}
	log := &serverLog{logger: cfg.Logger, errors: h.health.errors}
	h.server.SetLoggerV2(log, false, false, false)
	h.server.Start()
	if why := log.fatal.Load(); why != nil {
		return fmt.Errorf("%w: the server did not start: %s", journal.ErrUnavailable, *why)
	}
	if !h.server.ReadyForConnections(startTimeout) {
		return fmt.Errorf("%w: the server did not start within %v; see its log", journal.ErrUnavailable, startTimeout)
	}
	if !h.server.JetStreamEnabled() {
		return fmt.Errorf("%w: the store %s cannot be opened; see the log", journal.ErrUnavailable, d.store())
	}
	return nil
}

// stop ends what was started, in order: the lock is freed last.
func (h *host) stop() error {
	var errs []error
	if h.cancel != nil {
		h.cancel()
	}
	h.health.stop()
	errs = append(errs, h.settleMark())
	if h.holes != nil {
		h.holes.Close()
	}
	if h.server != nil {
		h.server.SetLoggerV2(&serverLog{logger: slog.New(slog.DiscardHandler)}, false, false, false) // who joins now joins the next host
		h.server.Shutdown()
		h.server.WaitForShutdown()
	}
	if h.bridge != nil {
		errs = append(errs, h.bridge.close())
	}
	return errors.Join(append(errs, h.lock.Close())...)
}

func options(d dir, admin, reader nkeys.KeyPair) (*server.Options, error) {
	text, err := accounts(d, admin, reader)
	if err != nil {
		return nil, err
	}
	opts := &server.Options{}
	if err := opts.ProcessConfigString(text); err != nil {
		return nil, fmt.Errorf("configure accounts: %w", err)
	}
	opts.ServerName = "journal"
	opts.DontListen = true
	opts.NoSigs = true
	opts.JetStream = true
	opts.StoreDir = d.store()
	opts.SyncAlways = true
	opts.JetStreamMaxStore = 1 << 62 // no limit but the disk's: unset, the server takes one from what is free
	opts.MaxPayload = maxPayload
	opts.AuthTimeout = authTimeout.Seconds()
	return opts, nil
}

// The members of a server configuration that are used here.
type (
	conf struct {
		Accounts map[string]account `json:"accounts"`
	}
	account struct {
		JetStream string        `json:"jetstream,omitempty"`
		Users     []login       `json:"users"`
		Exports   []export      `json:"exports,omitempty"`
		Imports   []importEntry `json:"imports,omitempty"`
	}
	login struct {
		Nkey        string       `json:"nkey"`
		Permissions *permissions `json:"permissions,omitempty"` // nil: all
	}
	permissions struct {
		Publish   allowed `json:"publish"`
		Subscribe allowed `json:"subscribe"`
	}
	allowed struct {
		Allow []string `json:"allow"`
	}
	export struct {
		Service      string `json:"service"`
		ResponseType string `json:"response_type,omitempty"`
	}
	importEntry struct {
		Service source `json:"service"`
		To      string `json:"to,omitempty"`
	}
	source struct {
		Account string `json:"account"`
		Subject string `json:"subject"`
	}
)

// accounts is the configuration of who may do what.
func accounts(d dir, admin, reader nkeys.KeyPair) (string, error) {
	users, err := logins(d)
	if err != nil {
		return "", err
	}
	hostUser, err := newLogin(reader, stream.HostPermissions())
	if err != nil {
		return "", err
	}
	adminKey, err := admin.PublicKey()
	if err != nil {
		return "", err
	}
	owner := account{JetStream: "enabled", Users: []login{{Nkey: adminKey}}}
	guests := account{Users: append(users, hostUser)}
	for _, s := range stream.Services() {
		owner.Exports = append(owner.Exports, export{s.Subject, s.ResponseType})
		guests.Imports = append(guests.Imports, importEntry{source{streamAccount, s.Subject}, s.To})
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // the server's parser knows no \u003e
	err = enc.Encode(conf{map[string]account{streamAccount: owner, principalAccount: guests}})
	return text.String(), err
}

func logins(d dir) ([]login, error) {
	all, err := principals(d)
	if err != nil {
		return nil, err
	}
	var users []login
	for _, p := range all {
		key, err := readKey(d, p)
		if err != nil {
			return nil, err
		}
		user, err := newLogin(key, stream.PermissionsOf(p.role, p.actor))
		if err != nil {
			return nil, err
		}
		users = append(users, user)
	}
	return users, nil
}

func newLogin(key nkeys.KeyPair, p stream.Permissions) (login, error) {
	public, err := key.PublicKey()
	if err != nil {
		return login{}, err
	}
	return login{public, &permissions{allowed{p.Publish}, allowed{p.Subscribe}}}, nil
}

// serverLog hands the server's log to a slog.Logger. What the server calls a
// notice is for debugging here. Its errors go to a channel first, since
// what they mean may be known better by whoever reads that; nil: to the logger.
type serverLog struct {
	logger *slog.Logger
	errors chan<- string
	fatal  atomic.Pointer[string] // why the server gave up; nil: it did not
}

func (l *serverLog) Noticef(format string, v ...any) { l.logger.Debug(fmt.Sprintf(format, v...)) }
func (l *serverLog) Warnf(format string, v ...any)   { l.logger.Warn(fmt.Sprintf(format, v...)) }
func (l *serverLog) Debugf(format string, v ...any)  { l.logger.Debug(fmt.Sprintf(format, v...)) }
func (l *serverLog) Tracef(format string, v ...any)  { l.logger.Debug(fmt.Sprintf(format, v...)) }

func (l *serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.fatal.CompareAndSwap(nil, &text)
}

func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	select {
	case l.errors <- text:
	default: // nobody reads
		l.logger.Error(text)
	}
}
