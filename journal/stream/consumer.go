package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"decisionjournal/journal"
)

// Tuning of consumers.
const (
	// stall is how long a reader that knows there is more waits for a consumer
	// before it asks the leader instead.
	stall = time.Second

	consumerBatch    = 512
	consumerInactive = 30 * time.Second // after which the server removes a consumer whose reader is gone
)

// errTrouble ends a stretch read from a consumer that cannot go on; the leader
// is asked next.
var errTrouble = errors.New("consumer interrupted")

// consumer reads a stretch of the stream in bulk. It is never believed about
// where the stream ends.
type consumer struct {
	log  *Log
	name string
	iter jetstream.MessagesContext
	want uint64 // the consumer's own sequence that comes next
	// ended: a message without headers and body was delivered. Between accounts
	// the server takes that for the end of the answers and passes no more on.
	ended bool
}

// consume makes a consumer of filter from sequence from on. Its errors wrap
// errTrouble, unless reading is not permitted.
func (l *Log) consume(ctx context.Context, filter string, from uint64, headersOnly bool) (*consumer, error) {
	timed, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	cons, err := l.stream.CreateConsumer(timed, jetstream.ConsumerConfig{
		FilterSubject:     filter,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       from,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: consumerInactive,
		HeadersOnly:       headersOnly,
	})
	if err != nil {
		if errors.Is(context.Cause(ctx), errRefused) {
			return nil, l.unavailable(ctx, err)
		}
		return nil, fmt.Errorf("%w: %w", errTrouble, err)
	}
	// A message of the largest size must fit into one request.
	limit := 2 * int(l.conn.MaxPayload())
	iter, err := cons.Messages(jetstream.PullMaxMessagesWithBytesLimit(consumerBatch, limit))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTrouble, err)
	}
	return &consumer{log: l, name: cons.CachedInfo().Name, iter: iter, want: 1}, nil
}

// stop ends reading, and asks the server to forget the consumer without waiting
// for it.
func (c *consumer) stop() {
	c.iter.Stop()
	if err := c.log.conn.Publish(c.log.cfg.Prefix+".CONSUMER.DELETE."+Name+"."+c.name, nil); err != nil {
		c.log.cfg.Logger.Debug("a consumer is left to the server to remove", "consumer", c.name, "error", err)
	}
}

// next returns the next message, and whether the consumer left out some before
// it. If more is known to come it waits no longer than stall. Its errors wrap
// errTrouble.
func (c *consumer) next(ctx context.Context, more bool) (msg journal.Message, gap bool, err error) {
	if c.ended {
		return msg, false, errTrouble
	}
	if more {
		timed, cancel := context.WithTimeout(ctx, stall)
		defer cancel()
		ctx = timed
	}
	m, err := c.iter.Next(jetstream.NextContext(ctx))
	if err != nil {
		return msg, false, fmt.Errorf("%w: %w", errTrouble, err)
	}
	meta, err := m.Metadata()
	if err != nil {
		return msg, false, fmt.Errorf("%w: %w", errTrouble, err)
	}
	gap = meta.Sequence.Consumer != c.want
	c.want = meta.Sequence.Consumer + 1
	c.ended = len(m.Headers()) == 0 && len(m.Data()) == 0
	return journal.Message{
		Seq:     meta.Sequence.Stream,
		Time:    meta.Timestamp.UTC(),
		Subject: m.Subject(),
		Headers: m.Headers(),
		Data:    m.Data(),
	}, gap, nil
}
