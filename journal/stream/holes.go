package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"decisionjournal/journal"
)

// scanner remembers how far the stream was scanned and which sequences could
// not be read. Its fields belong to whoever holds the turn.
type scanner struct {
	turn  chan struct{} // holds one token while nobody scans
	host  bool          // this is the host's own
	asked bool          // a host was asked,
	epoch int           // on this connection
	last  uint64        // all up to here are scanned
	holes []uint64
	lost  []uint64 // where the store lost its end, which a host knows
}

func newScanner() scanner {
	s := scanner{turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// take waits for the turn as long as ctx allows.
func (s *scanner) take(ctx context.Context) error {
	select {
	case <-s.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", journal.ErrUnavailable, ctx.Err())
	}
}

func (s *scanner) give() { s.turn <- struct{}{} }

// found is what a host tells of its scan.
type found struct {
	Last  uint64   `json:"last"`
	Holes []uint64 `json:"holes"`
	Error string   `json:"error,omitempty"`
}

// Holes implements [journal.Log]. The first call takes over what a host found,
// or scans the whole stream if there is none who tells; later ones scan what was
// stored since.
func (l *Log) Holes(ctx context.Context) ([]uint64, error) {
	found, err := l.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for holes: %w", err)
	}
	return found.Holes, nil
}

func (l *Log) look(ctx context.Context) (found, error) {
	if err := l.scan.take(ctx); err != nil {
		return found{}, err
	}
	defer l.scan.give()
	if epoch := l.conn.epoch(); !l.scan.host && (!l.scan.asked || l.scan.epoch != epoch) {
		l.scan.epoch = epoch
		if err := l.askHost(ctx); err != nil {
			return found{}, err
		}
	}
	if err := l.scanOn(ctx); err != nil {
		return found{}, err
	}
	all := slices.Sorted(slices.Values(append(slices.Clone(l.scan.holes), l.scan.lost...)))
	return found{Last: l.scan.last, Holes: slices.Compact(all)}, nil
}

// OfferHoles answers on [HolesSubject] with what this Log's scan finds, until
// ctx ends, and begins to scan. It needs [HostPermissions].
//
// If whole is not 0, the host has found messages 1 to whole intact on its disk
// before the server opened them. They are not scanned once more, as long as the
// server counts exactly these too: reading a million through it takes seconds,
// for which every decision would wait. Sequences in lost count as holes whatever
// they hold now: the store lost its end there and gives the same numbers again.
func (l *Log) OfferHoles(ctx context.Context, whole uint64, lost []uint64) error {
	if err := l.scan.take(ctx); err != nil {
		return fmt.Errorf("offer holes: %w", err)
	}
	defer l.scan.give()
	l.scan.host, l.scan.lost = true, slices.Clone(lost)
	if err := l.vouch(ctx, whole); err != nil {
		return fmt.Errorf("offer holes: %w", err)
	}
	err := l.serve(ctx, HolesSubject, func(m *nats.Msg) { go l.tellHoles(ctx, m.Reply) })
	if err != nil {
		return fmt.Errorf("offer holes: %w", err)
	}
	go l.firstScan(ctx)
	return nil
}

// vouch takes messages 1 to whole for scanned if the server has them all.
func (l *Log) vouch(ctx context.Context, whole uint64) error {
	state, err := l.info(ctx, "")
	if err == nil && whole > 0 && state.FirstSeq == 1 && state.LastSeq == whole && state.Msgs == whole && state.NumDeleted == 0 {
		l.scan.last = whole
	}
	return err
}

func (l *Log) firstScan(ctx context.Context) {
	holes, err := l.Holes(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		l.cfg.Logger.Error("the scan of the journal failed", "error", err)
	case len(holes) > 0:
		l.cfg.Logger.Error("the journal has messages that cannot be read", "count", len(holes), "first", holes[0])
	}
}

func (l *Log) tellHoles(ctx context.Context, reply string) {
	answer, err := l.look(ctx)
	if ctx.Err() != nil {
		return // the host leaves; the next one tells
	}
	if err != nil {
		answer.Error = err.Error()
	}
	body, err := json.Marshal(answer)
	if err == nil {
		err = l.pong(reply, body)
	}
	if err != nil && ctx.Err() == nil {
		l.cfg.Logger.Warn("could not tell what the scan found", "error", err)
	}
}

// askHost takes over a host's result. That nobody answers is no error; a host
// that is still scanning is waited for as long as ctx allows.
func (l *Log) askHost(ctx context.Context) error {
	var answer found
	told := false
	err := l.cfg.again(ctx, func() error {
		err := l.ping(ctx, HolesSubject, nil, func(m *nats.Msg) bool { return json.Unmarshal(m.Data, &answer) == nil })
		if told = err == nil; errors.Is(err, nats.ErrNoResponders) {
			return nil
		}
		return err
	})
	switch {
	case err != nil || !told:
		return err
	case answer.Error != "":
		return fmt.Errorf("%w: the host's scan failed: %s", journal.ErrUnavailable, answer.Error)
	}
	l.scan.asked, l.scan.last, l.scan.holes = true, answer.Last, answer.Holes
	return nil
}

// scanOn scans from where the last scan ended to the end of the stream.
func (l *Log) scanOn(ctx context.Context) error {
	end, err := l.Last(ctx)
	if err != nil {
		return err
	}
	for l.scan.last < end {
		before := l.scan.last
		if err := l.scanStretch(ctx, end); err != nil && !errors.Is(err, errTrouble) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
		}
		if l.scan.last > before {
			continue
		}
		if err := l.probe(ctx, min(end, l.scan.last+singleReads)); err != nil {
			return err
		}
	}
	return nil
}

// scanStretch reads headers only, in bulk: the server reads and checks the whole
// message for it.
func (l *Log) scanStretch(ctx context.Context, end uint64) error {
	ctx, done := l.conn.watch(ctx, "")
	defer done()
	c, err := l.consume(ctx, journal.AllSubjects, l.scan.last+1, true)
	if err != nil {
		return err
	}
	defer c.stop()
	for l.scan.last < end {
		msg, _, err := c.next(ctx, true)
		if err != nil {
			return err
		}
		if msg.Seq <= l.scan.last {
			continue
		}
		if err := l.probe(ctx, msg.Seq-1); err != nil {
			return err
		}
		l.scan.last = msg.Seq
	}
	return nil
}

// probe asks the leader for each sequence up to to that was not seen.
func (l *Log) probe(ctx context.Context, to uint64) error {
	for l.scan.last < to {
		seq := l.scan.last + 1
		_, readable, err := l.get(ctx, getRequest{Seq: seq})
		if err != nil {
			return err
		}
		if !readable {
			l.scan.holes = append(l.scan.holes, seq)
		}
		l.scan.last = seq
	}
	return nil
}
