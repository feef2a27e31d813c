package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"

	"decisionjournal/journal"
)

// Tuning of reads.
const (
	// singleReads is how many messages are read one by one from the leader
	// before a consumer is made: making one costs about ten single reads.
	singleReads = 16

	retryCap = time.Second // between tries of a reader that finds nobody
)

// Load implements [journal.Log].
func (l *Log) Load(ctx context.Context, chain journal.Chain, after uint64) iter.Seq2[journal.Message, error] {
	return func(yield func(journal.Message, error) bool) {
		err := fmt.Errorf("%w: no chain named", journal.ErrUnavailable)
		if chain.Valid() {
			err = l.load(ctx, chain.Filter(), after, yield)
		}
		if err != nil {
			yield(journal.Message{}, fmt.Errorf("load %s: %w", chain, err))
		}
	}
}

// LoadAll implements [journal.Log].
func (l *Log) LoadAll(ctx context.Context, after uint64) iter.Seq2[journal.Message, error] {
	return func(yield func(journal.Message, error) bool) {
		if err := l.load(ctx, journal.AllSubjects, after, yield); err != nil {
			yield(journal.Message{}, fmt.Errorf("load the journal: %w", err))
		}
	}
}

func (l *Log) load(ctx context.Context, filter string, after uint64, yield func(journal.Message, error) bool) error {
	head, readable, err := l.head(ctx, filter)
	if err != nil {
		return err
	}
	r := &reader{log: l, filter: filter, after: after, head: head, yield: yield}
	for !r.done() {
		before := r.after
		if err := r.singles(ctx); err != nil || r.done() {
			return err
		}
		if err := r.stretch(ctx); err != nil && !errors.Is(err, errTrouble) {
			return err
		}
		if err := ctx.Err(); err != nil && !r.done() {
			return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
		}
		if !r.done() && !readable {
			// Holes lists what is missing at the end.
			if found, err := r.single(ctx); err != nil || !found {
				return err
			}
		}
		if r.after == before && !r.done() {
			return fmt.Errorf("%w: nothing can be read between sequence %d and the last one, %d", journal.ErrUnavailable, r.after, head)
		}
	}
	return nil
}

// head is the sequence of the last message of filter, from the leader; 0 if
// there is none. If that message cannot be read, head is the last sequence of
// the whole stream, and readable is false.
func (l *Log) head(ctx context.Context, filter string) (head uint64, readable bool, err error) {
	var answer struct {
		apiAnswer
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	if err := l.ask(ctx, "STREAM.MSG.GET", getRequest{LastFor: filter}, &answer); err != nil {
		return 0, false, err
	}
	if found, err := answer.found(); err != nil || found {
		return answer.Message.Seq, true, err
	}
	// "Not found" is also what the server says of a message it cannot read, so
	// the index has the last word.
	info, err := l.info(ctx, filter)
	if err != nil || len(info.Subjects) == 0 {
		return 0, true, err
	}
	return info.LastSeq, false, nil
}

// Follow implements [journal.Log].
func (l *Log) Follow(ctx context.Context, chain journal.Chain, after uint64) iter.Seq2[journal.Message, error] {
	return func(yield func(journal.Message, error) bool) {
		r := &reader{log: l, filter: journal.AllSubjects, after: after, endless: true, yield: yield}
		if chain.Valid() {
			r.filter = chain.Filter()
		}
		if err := r.follow(ctx); err != nil && ctx.Err() == nil {
			yield(journal.Message{}, fmt.Errorf("follow %s: %w", r.filter, err))
		}
	}
}

// reader reads one filter in order and yields it.
type reader struct {
	log     *Log
	filter  string
	after   uint64 // sequence of the last message read
	head    uint64 // where to stop, unless endless
	endless bool
	stopped bool // the caller broke off
	yield   func(journal.Message, error) bool
}

func (r *reader) done() bool { return r.stopped || !r.endless && r.after >= r.head }

// emit yields msg, unless it was read before or belongs to no chain.
func (r *reader) emit(msg journal.Message) {
	if msg.Seq <= r.after {
		return
	}
	r.after = msg.Seq
	if isChain(msg.Subject) && !r.yield(msg, nil) {
		r.stopped = true
	}
}

func isChain(subject string) bool {
	return strings.HasPrefix(subject, strings.TrimSuffix(journal.AllSessions, ">")) ||
		strings.HasPrefix(subject, strings.TrimSuffix(journal.PolicyChain().Filter(), ">"))
}

// singles reads a few messages one by one from the leader. It makes progress
// whatever a consumer makes of the next message: one without a body whose
// headers look like a status of the server never reaches a consumer's reader.
func (r *reader) singles(ctx context.Context) error {
	for i := 0; i < singleReads && !r.done(); i++ {
		if found, err := r.single(ctx); err != nil || !found {
			return err
		}
	}
	return nil
}

func (r *reader) single(ctx context.Context) (found bool, err error) {
	msg, found, err := r.log.get(ctx, getRequest{Seq: r.after + 1, NextFor: r.filter})
	if err == nil && found {
		r.emit(msg)
	}
	return found, err
}

// follow goes on until the caller breaks off, ctx ends or the error is final.
func (r *reader) follow(ctx context.Context) error {
	retry := newBackoff()
	for !r.done() && ctx.Err() == nil {
		if err := r.reachable(ctx); err != nil {
			return err
		}
		before := r.after
		err := r.singles(ctx)
		if err == nil && !r.done() {
			err = r.stretch(ctx)
		}
		if r.after > before {
			retry.Reset()
		}
		switch {
		case errors.Is(err, journal.ErrRefused), r.log.conn.IsClosed():
			return err
		case err != nil:
			sleep(ctx, retry.NextBackOff())
		}
	}
	return nil
}

// reachable fails for good if the journal ends before what was read of it: the
// store lost its end, and what comes will have the same sequences.
func (r *reader) reachable(ctx context.Context) error {
	last, err := r.log.Last(ctx)
	if err == nil && last < r.after {
		return fmt.Errorf("%w: the journal ends at message %d, and message %d was read of it: its store lost messages; open it anew", journal.ErrUnavailable, last, r.after)
	}
	return nil // trouble is met again by who reads
}

// stretch reads from a consumer until done or trouble.
func (r *reader) stretch(ctx context.Context) error {
	ctx, done := r.log.conn.watch(ctx, r.log.cfg.Prefix+".CONSUMER.CREATE."+Name)
	defer done()
	c, err := r.log.consume(ctx, r.filter, r.after+1, false)
	if err != nil {
		return err
	}
	defer c.stop()
	for !r.done() {
		msg, gap, err := c.next(ctx, !r.endless)
		if err != nil {
			return err
		}
		if gap {
			if err := r.fill(ctx, msg.Seq); err != nil || r.stopped {
				return err
			}
		}
		r.emit(msg)
	}
	return nil
}

// fill reads what a consumer left out before the sequence to.
func (r *reader) fill(ctx context.Context, to uint64) error {
	for r.after < to && !r.stopped {
		if found, err := r.single(ctx); err != nil || !found {
			return err
		}
	}
	return nil
}

// getRequest asks the leader for one message: that at Seq, the next one of
// NextFor from Seq on, or the last one of LastFor.
type getRequest struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`
}

// get reads one message from the leader. The server says "not found" of a
// message it cannot read as well.
func (l *Log) get(ctx context.Context, request getRequest) (msg journal.Message, found bool, err error) {
	var answer struct {
		apiAnswer
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Headers []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := l.ask(ctx, "STREAM.MSG.GET", request, &answer); err != nil {
		return msg, false, err
	}
	if found, err := answer.found(); err != nil || !found {
		return msg, false, err
	}
	m := answer.Message
	return journal.Message{Seq: m.Seq, Time: m.Time, Subject: m.Subject, Headers: headers(m.Headers), Data: m.Data}, true, nil
}

// found reports whether an answer to a getRequest brings a message.
func (a apiAnswer) found() (bool, error) {
	switch {
	case a.Error == nil:
		return true, nil
	case a.Error.ErrorCode == codeNoMessage:
		return false, nil
	}
	return false, fmt.Errorf("%w: %w", journal.ErrUnavailable, a.Error)
}

// headers decodes stored headers. What is no header block gives none, as it
// does when a consumer delivers it: the server stores any bytes there.
func headers(block []byte) map[string][]string {
	if len(block) == 0 {
		return nil
	}
	h, err := nats.DecodeHeadersMsg(block)
	if err != nil {
		return nil
	}
	return h
}

func newBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(reconnectFirst),
		backoff.WithMaxInterval(retryCap),
		backoff.WithMaxElapsedTime(0)) // the context bounds it
}

// sleep waits for d and reports whether ctx still lives then.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
