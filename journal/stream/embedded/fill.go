package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"decisionjournal/journal"
	"decisionjournal/journal/stream"
)

// fillWindow is how many messages of a Filler wait for the server at a time.
const fillWindow = 1024

// Filler writes a new journal fast, for measurements and tests of big ones. It
// is a [journal.Log] whose Publish waits neither for the disk nor for the
// server: it takes whoever calls it for the journal's only writer, who knows
// what each chain's last message is, and returns the sequence that the message
// will have. Whether all were stored as told is known once Close returns
// without error; until then a power loss leaves a directory to be thrown away.
//
// Reads see what was published on the policy chain, and may lag behind
// elsewhere. Publish is for one goroutine.
type Filler struct {
	*stream.Log
	dir    dir
	lock   *os.File
	server *server.Server
	conn   *nats.Conn
	reply  string
	window chan struct{} // holds one token for each message under way
	next   uint64

	mu     sync.Mutex
	stored uint64
	failed error // the first
}

// Fill makes a journal in a directory that holds none and opens it for filling.
// The caller closes it, and opens it as ever then.
func Fill(ctx context.Context, path string) (*Filler, error) {
	d, _, err := openDir(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(d.store()); err == nil {
		return nil, fmt.Errorf("fill a journal: %s holds one already: name a new directory", d)
	}
	lock, err := takeLock(d)
	if err != nil {
		return nil, err
	}
	f := &Filler{dir: d, lock: lock, window: make(chan struct{}, fillWindow), next: 1}
	if err := f.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("fill a journal: %w", err), f.stop())
	}
	return f, nil
}

// start opens a server that does not wait for the disk.
func (f *Filler) start(ctx context.Context) error {
	if err := makeKeys(f.dir, currentUser()); err != nil {
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
	opts, err := options(f.dir, admin, reader)
	if err != nil {
		return err
	}
	opts.SyncAlways = false
	if f.server, err = server.NewServer(opts); err != nil {
		return err
	}
	f.server.Start()
	if !f.server.ReadyForConnections(startTimeout) || !f.server.JetStreamEnabled() {
		return fmt.Errorf("%w: the server did not start in %s", journal.ErrUnavailable, f.dir.store())
	}
	cfg := stream.Config{Dial: f.dial, Key: admin, Role: journal.RoleAdmin, Actor: "filler", Prefix: streamAPI}
	if err := stream.Create(ctx, cfg, 1); err != nil {
		return err
	}
	if f.Log, err = stream.Open(ctx, cfg); err != nil {
		return err
	}
	return f.connect(admin)
}

func (f *Filler) dial() (net.Conn, error) { return f.server.InProcessConn() }

func (f *Filler) connect(admin nkeys.KeyPair) error {
	public, err := admin.PublicKey()
	if err != nil {
		return err
	}
	if f.conn, err = nats.Connect("", nats.InProcessServer(f.server), nats.Nkey(public, admin.Sign)); err != nil {
		return err
	}
	f.reply = nats.NewInbox()
	_, err = f.conn.Subscribe(f.reply, f.acknowledged)
	return err
}

// Publish implements [journal.Log] as far as a Filler does.
func (f *Filler) Publish(ctx context.Context, sub journal.Subject, after uint64, data []byte) (uint64, error) {
	select {
	case f.window <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	header := nats.Header{}
	header.Set(journal.HeaderExpected, strconv.FormatUint(after, 10))
	header.Set(journal.HeaderExpectedFilter, sub.Chain.Filter())
	err := f.conn.PublishMsg(&nats.Msg{Subject: sub.String(), Reply: f.reply, Header: header, Data: data})
	if err != nil {
		return 0, err
	}
	seq := f.next
	f.next++
	if sub.Chain.IsPolicy() {
		if err := f.flush(ctx); err != nil {
			return 0, err
		}
	}
	return seq, f.failure()
}

// acknowledged takes what the server says of one message, in their order.
func (f *Filler) acknowledged(m *nats.Msg) {
	var ack struct {
		Seq   uint64          `json:"seq"`
		Error json.RawMessage `json:"error"`
	}
	err := json.Unmarshal(m.Data, &ack)
	f.mu.Lock()
	f.stored++
	if err == nil && ack.Seq != f.stored {
		err = fmt.Errorf("message %d of a journal being filled was stored at %d: %s", f.stored, ack.Seq, ack.Error)
	}
	if f.failed == nil {
		f.failed = err
	}
	f.mu.Unlock()
	<-f.window
}

func (f *Filler) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// flush waits until all that was published is stored.
func (f *Filler) flush(ctx context.Context) error {
	for taken := range cap(f.window) {
		select {
		case f.window <- struct{}{}:
		case <-ctx.Done():
			f.give(taken)
			return ctx.Err()
		}
	}
	f.give(cap(f.window))
	return f.failure()
}

func (f *Filler) give(tokens int) {
	for range tokens {
		<-f.window
	}
}

// Close waits until all is stored, ends the server and syncs the directory.
func (f *Filler) Close(ctx context.Context) error {
	if err := f.flush(ctx); err != nil {
		return errors.Join(err, f.stop())
	}
	return errors.Join(f.stop(), f.dir.syncFiles(), f.dir.syncDirs())
}

func (f *Filler) stop() error {
	if f.conn != nil {
		f.conn.Close()
	}
	if f.Log != nil {
		f.Log.Close()
	}
	if f.server != nil {
		f.server.Shutdown()
		f.server.WaitForShutdown()
	}
	return f.lock.Close()
}

func (d dir) syncFiles() error {
	return filepath.WalkDir(d.store(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
