package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"decisionjournal/journal/stream"
)

// Numbers of the watch over a store.
const (
	healthEvery = time.Second // how often the store is asked, and a disk that failed is tried
	errorRoom   = 64          // error lines of the server that wait to be looked at
	probeSize   = 1 << 20     // bytes that must fit on a disk before it is appended to again
)

// health watches whether a store can be written. Once the server has failed to
// write, it leaves every append unanswered for good, so from then on they are
// refused in its place, with the reason. Reading goes on. When the disk can be
// written again the store is opened anew.
type health struct {
	logger *slog.Logger
	errors chan string   // the server's error lines
	done   chan struct{} // closed when the watch has ended; nil if there was none
}

func newHealth(logger *slog.Logger) *health {
	return &health{logger: logger, errors: make(chan string, errorRoom)}
}

// watch begins the watch over the store of h in d, until ctx ends. owner reaches
// the stream's account.
func (w *health) watch(ctx context.Context, h *host, d dir, owner stream.Config) {
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		if !w.untilFailed(ctx, h.server) {
			return
		}
		stop := w.refuse(h, d, owner)
		defer stop()
		if w.untilMended(ctx, d) {
			h.failed.Store(true)
			h.server.Shutdown() // whoever is connected looks for the next host
		}
	}()
}

// stop waits until the watch has ended, and logs what was not looked at.
func (w *health) stop() {
	if w.done != nil {
		<-w.done
	}
	for {
		select {
		case text := <-w.errors:
			w.logger.Error(text)
		default:
			return
		}
	}
}

// untilFailed reports whether the store can no longer be written, once that is
// so or ctx has ended.
func (w *health) untilFailed(ctx context.Context, s *server.Server) bool {
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	for {
		text := ""
		select {
		case text = <-w.errors:
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
		if writeFailed(s) {
			return ctx.Err() == nil
		}
		if text != "" {
			w.logger.Error(text)
		}
	}
}

// writeFailed asks the server whether it failed to write the journal's stream.
func writeFailed(s *server.Server) bool {
	status := s.Healthz(&server.HealthzOptions{Account: streamAccount, Stream: stream.Name, Details: true})
	for _, e := range status.Errors {
		if e.Type == server.HealthzErrorStream || e.Type == server.HealthzErrorJetStream {
			return true
		}
	}
	return false
}

// refuse answers appends in place of the server, and cuts off whoever waits for
// an answer that never comes.
func (w *health) refuse(h *host, d dir, owner stream.Config) (stop func()) {
	why := fmt.Sprintf("the disk of %s failed to write", d)
	if err := d.probe(); err != nil {
		why = d.advise(err).Error()
	}
	w.logger.Error("nothing can be appended until it is mended: " + why)
	stop, err := stream.Refuse(owner, why)
	if err != nil {
		w.logger.Error("appends are left unanswered", "error", err)
		return func() {}
	}
	clients, err := h.server.Connz(&server.ConnzOptions{Account: principalAccount})
	if err != nil {
		w.logger.Debug("list the clients", "error", err)
		return stop
	}
	for _, c := range clients.Conns {
		_ = h.server.DisconnectClientByID(c.Cid) // or it is gone
	}
	return stop
}

// untilMended tries the disk until it can be written, or ctx ends. What the
// server logs meanwhile is known.
func (w *health) untilMended(ctx context.Context, d dir) bool {
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	for d.probe() != nil {
		for waiting := true; waiting; {
			select {
			case <-w.errors:
			case <-ticker.C:
				waiting = false
			case <-ctx.Done():
				return false
			}
		}
	}
	w.logger.Error("the journal can be written again") // as loud as that it could not
	return true
}

// probe tries to write to the journal's disk.
func (d dir) probe() error {
	f, err := os.CreateTemp(string(d), ".probe-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.CopyN(f, zeros{}, probeSize)
	return errors.Join(err, f.Sync(), f.Close())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// diagnose is what is wrong with the disk, if that may be why something failed,
// and else the failure itself: what the server reports does not always say it.
func (d dir) diagnose(err error) error {
	for _, reason := range []error{err, d.probe()} {
		if reason != nil && d.advise(reason) != reason {
			return d.advise(reason)
		}
	}
	return err
}

// advise says what to do about a journal that this process cannot write. Other
// errors it returns as they are.
func (d dir) advise(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk of %s is full: free some space", d)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the disk of %s is read-only, and even to read a journal its directory is written: mount it for writing, or copy it to another disk", d)
	case errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("a file of %s may not grow: raise the limit of the host's file sizes (ulimit -f)", d)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("no more files of %s can be opened: close some, or raise the limit (ulimit -n)", d)
	}
	return err
}
