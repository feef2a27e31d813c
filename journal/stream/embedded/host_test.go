package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
	"decisionjournal/journal/stream"
)

// insist appends at the head of the chain until it is stored, as Append does.
func insist(ctx context.Context, log journal.Log, sub journal.Subject, data string) error {
	for {
		all, err := journaltest.Collect(log.Load(ctx, sub.Chain, 0))
		var head uint64
		if err == nil {
			for _, m := range all {
				if string(m.Data) == data {
					return nil
				}
				head = m.Seq
			}
			_, err = log.Publish(ctx, sub, head, []byte(data))
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if !errors.Is(err, journal.ErrConflict) && !errors.Is(err, journal.ErrUnknown) && !errors.Is(err, journal.ErrUnavailable) {
			return err
		}
	}
}

func TestKillTheHost(t *testing.T) {
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			dir := t.TempDir() + "/j"
			p := start(t, "append", dir, true)
			guest := open(t, Config{Dir: dir})
			idle := open(t, Config{Dir: dir, Role: journal.RoleAgent})
			next, stop := followed(t, idle)
			defer stop()
			acked := p.sequences(t, 200)
			sub := journal.Subject{Chain: journal.SessionChain("mine"), Role: journal.RoleDecider, Actor: "decider"}
			if err := insist(t.Context(), guest, sub, "before"); err != nil {
				t.Fatal(err)
			}
			p.Process.Kill()
			killed := time.Now()
			if err := insist(t.Context(), guest, sub, "after"); err != nil {
				t.Fatal(err)
			}
			t.Logf("appending again %v after the kill", time.Since(killed))
			acked = append(acked, p.sequences(t, -1)...)
			stored := map[uint64]bool{}
			all, err := journaltest.Collect(guest.Load(t.Context(), crash, 0))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range all {
				stored[m.Seq] = true
			}
			for _, seq := range acked {
				if !stored[seq] {
					t.Errorf("sequence %d was acknowledged and is gone", seq)
				}
			}
			if guest.Hosting() == idle.Hosting() {
				t.Errorf("hosting: guest %v, idle %v", guest.Hosting(), idle.Hosting())
			}
			for want := "before"; ; {
				m := next()
				if string(m.Data) != want {
					continue // of the child
				}
				if want == "after" {
					break
				}
				want = "after"
			}
			if holes, err := guest.Holes(t.Context()); err != nil || len(holes) > 0 {
				t.Errorf("holes %v, %v", holes, err)
			}
		})
	}
}

// followed follows everything on h.
func followed(t *testing.T, h *Handle) (next func() journal.Message, stop func()) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	got := make(chan journal.Message)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(got)
		for m, err := range h.Follow(ctx, journal.Chain{}, 0) {
			if err != nil {
				t.Errorf("follow: %v", err)
				return
			}
			select {
			case got <- m:
			case <-ctx.Done():
			}
		}
	})
	next = func() journal.Message {
		m, ok := <-got
		if !ok {
			t.Fatal("the Follow ended")
		}
		return m
	}
	return next, func() { cancel(); wg.Wait() }
}

func TestHostLeavesInOrder(t *testing.T) {
	dir := t.TempDir() + "/j"
	host := open(t, Config{Dir: dir})
	guest := open(t, Config{Dir: dir})
	asker := open(t, Config{Dir: dir, Role: journal.RoleAgent})
	sub := journal.Subject{Chain: journal.SessionChain("s1"), Role: journal.RoleDecider, Actor: "decider"}
	if err := guest.Answer(t.Context(), sub, "r1"); err != nil {
		t.Fatal(err)
	}
	seq, err := host.Publish(t.Context(), sub, 0, []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Publish(t.Context(), sub, seq, nil); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("publishing on a closed handle: %v", err)
	}
	if _, _, err := host.As(t.Context(), journal.RoleAgent); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("a closed handle opens another: %v", err)
	}
	if err := insist(t.Context(), guest, sub, "two"); err != nil || guest.Hosting() == asker.Hosting() {
		t.Errorf("%v, hosting: guest %v, asker %v", err, guest.Hosting(), asker.Hosting())
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for there := false; !there && ctx.Err() == nil; { // both are on their way to the new host
		there, err = asker.Ping(ctx, sub, "r1", time.Second)
	}
	if err != nil {
		t.Errorf("the run is not there any more: %v", err)
	}
}

func TestRaceForTheLock(t *testing.T) {
	dir := t.TempDir() + "/j"
	const n = 8
	handles := make([]*Handle, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			h, err := Open(t.Context(), Config{Dir: dir, Role: journal.RoleDecider})
			if err != nil {
				t.Error(err)
				return
			}
			handles[i] = h
		})
	}
	wg.Wait()
	hosts := 0
	for _, h := range handles {
		if h != nil && h.Hosting() {
			hosts++
		}
	}
	if hosts != 1 {
		t.Errorf("%d hosts", hosts)
	}
	for _, h := range handles {
		if h != nil {
			wg.Go(func() {
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if _, err := os.Lstat(filepath.Join(dir, socketName)); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestStaleSocket(t *testing.T) {
	for name, leave := range map[string]func(path string) error{
		"socket": func(path string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return l.Close()
		},
		"file": func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/j"
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := leave(filepath.Join(dir, socketName)); err != nil {
				t.Fatal(err)
			}
			open(t, Config{Dir: dir})
			if guest := open(t, Config{Dir: dir}); guest.Hosting() {
				t.Error("the second hosts")
			}
		})
	}
}

func TestLongDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	open(t, Config{Dir: dir})
	guest := open(t, Config{Dir: dir})
	if guest.Hosting() {
		t.Fatal("the second hosts")
	}
	if _, err := guest.Last(t.Context()); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(dir, socketName))
	if err != nil || info.Mode().Perm() != fileMode {
		t.Errorf("socket: %v, %v", info, err)
	}
}

func TestHangingHostIsNamed(t *testing.T) {
	dir := t.TempDir() + "/j"
	p := start(t, "hold", dir, true)
	guest := open(t, Config{Dir: dir, Timeout: time.Second})
	p.pause(t)
	_, err := Open(t.Context(), Config{Dir: dir, Role: journal.RoleDecider, Patience: 300 * time.Millisecond})
	if !errors.Is(err, journal.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("process %d hosts", p.Process.Pid)) {
		t.Errorf("got %v, want ErrUnavailable that names process %d", err, p.Process.Pid)
	}
	sub := journal.Subject{Chain: journal.SessionChain("s1"), Role: journal.RoleDecider, Actor: "decider"}
	if _, err := guest.Publish(t.Context(), sub, 0, []byte("x")); !errors.Is(err, journal.ErrUnknown) {
		t.Errorf("appending to a host that hangs: got %v, want ErrUnknown", err)
	}
	p.kill()
	if err := insist(t.Context(), guest, sub, "y"); err != nil {
		t.Error(err)
	}
}

func TestDriftIsRefusedByName(t *testing.T) {
	dir := t.TempDir() + "/j"
	open(t, Config{Dir: dir}).Close()
	change(t, dir, func(cfg *jetstream.StreamConfig) { cfg.MaxAge = time.Hour; cfg.AllowDirect = true })
	for range 2 { // the lock is free again after the refusal
		_, err := Open(t.Context(), Config{Dir: dir, Role: journal.RoleDecider})
		if !errors.Is(err, journal.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		for _, want := range []string{"MaxAge is 1h0m0s, must be 0s", "AllowDirect is true, must be false"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
	}
}

// change updates the stream's settings as its owner.
func change(t *testing.T, path string, with func(*jetstream.StreamConfig)) {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	opts, err := options(dir(path), key, reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(patience) {
		t.Fatal("not ready")
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.Nkey(public, key.Sign))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.Settings(1)
	with(&cfg)
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

func TestLatency(t *testing.T) {
	dir := t.TempDir() + "/j"
	for _, name := range []string{"in process", "over the socket"} {
		h := open(t, Config{Dir: dir})
		sub := journal.Subject{Chain: journal.SessionChain(journal.NameFrom(name, 64)), Role: journal.RoleDecider, Actor: "decider"}
		var after uint64
		took := make([]time.Duration, 300)
		for i := range took {
			began := time.Now()
			seq, err := h.Publish(t.Context(), sub, after, make([]byte, 330))
			if err != nil {
				t.Fatal(err)
			}
			took[i], after = time.Since(began), seq
		}
		t.Logf("durable append %s: %s", name, percentiles(took))
	}
}

func percentiles(took []time.Duration) string {
	slices.Sort(took)
	return fmt.Sprintf("p50 %v, p99 %v", took[len(took)/2], took[len(took)*99/100])
}
