package approver

import (
	"bytes"
	"context"
	"io"
	"sync"
)

// maxLine bounds a typed line, in bytes. What is longer is cut there.
const maxLine = 64 << 10

// lineReader reads lines in the background, so that waiting for one can end
// without one, and forgets on demand what came before.
type lineReader struct {
	in    io.Reader
	start sync.Once

	mu      sync.Mutex
	lines   []string
	partial []byte
	ended   bool
	wake    chan struct{} // closed when a line comes or the input ends
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: in, wake: make(chan struct{})}
}

func (r *lineReader) read() {
	buf := make([]byte, 4096)
	for {
		n, err := r.in.Read(buf)
		r.add(buf[:n], err != nil)
		if err != nil {
			return
		}
	}
}

func (r *lineReader) add(b []byte, end bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partial = append(r.partial, b...)
	for {
		line, rest, found := bytes.Cut(r.partial, []byte("\n"))
		if !found {
			break
		}
		r.lines = append(r.lines, string(line[:min(len(line), maxLine)]))
		r.partial = rest
	}
	r.partial = r.partial[:min(len(r.partial), maxLine)]
	r.ended = r.ended || end
	close(r.wake)
	r.wake = make(chan struct{})
}

// discard forgets what was read and not taken. It starts the reading.
func (r *lineReader) discard() {
	r.start.Do(func() { go r.read() })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines, r.partial = nil, nil
}

// line is the next line, without its end. At the end of the input it is
// ErrQuit: what was typed without Enter is no answer.
func (r *lineReader) line(ctx context.Context) (string, error) {
	r.start.Do(func() { go r.read() })
	for {
		line, ok, ended, wake := r.take()
		switch {
		case ok:
			return line, nil
		case ended:
			return "", ErrQuit
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func (r *lineReader) take() (line string, ok, ended bool, wake <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == 0 {
		return "", false, r.ended, r.wake
	}
	line, r.lines = r.lines[0], r.lines[1:]
	return line, true, false, nil
}
