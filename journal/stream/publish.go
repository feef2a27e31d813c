package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"decisionjournal/journal"
)

// Codes of the server that say for sure that nothing was stored. Any other is
// read as an unknown outcome.
const (
	codeWrongLast         jetstream.ErrorCode = 10071
	codeWrongLastConstant jetstream.ErrorCode = 10164 // another write is in flight
	codeMessageTooLarge   jetstream.ErrorCode = 10054

	codeInsufficient        jetstream.ErrorCode = 10023
	codeNotEnabled          jetstream.ErrorCode = 10076
	codeNotEnabledAccount   jetstream.ErrorCode = 10039
	codeNoStorage           jetstream.ErrorCode = 10047
	codeNoMemory            jetstream.ErrorCode = 10028
	codeStreamNotFound      jetstream.ErrorCode = 10059
	codeStreamSealed        jetstream.ErrorCode = 10109
	codeStreamOffline       jetstream.ErrorCode = 10118
	codeNoMessage           jetstream.ErrorCode = 10037
	codeStreamOfflineReason jetstream.ErrorCode = 10194
)

// Publish implements [journal.Log].
func (l *Log) Publish(ctx context.Context, sub journal.Subject, after uint64, data []byte) (uint64, error) {
	seq, err := l.publish(ctx, sub, after, data)
	if err != nil {
		return 0, fmt.Errorf("publish to %s: %w", sub, err)
	}
	return seq, nil
}

func (l *Log) publish(ctx context.Context, sub journal.Subject, after uint64, data []byte) (uint64, error) {
	subject := sub.String()
	if _, err := journal.ParseSubject(subject); err != nil {
		return 0, fmt.Errorf("%w: %w", journal.ErrRefused, err)
	}
	if limit := l.MaxPayload(); len(data) > limit {
		return 0, fmt.Errorf("%w: %d bytes, the journal takes %d", journal.ErrTooLarge, len(data), limit)
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	if err := l.conn.await(ctx); err != nil {
		return 0, err
	}
	ctx, done := l.conn.watch(ctx, subject)
	defer done()
	ack, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data},
		jetstream.WithExpectLastSequenceForSubject(after, sub.Chain.Filter()),
		jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, l.outcome(ctx, err)
	}
	return ack.Sequence, nil
}

// outcome says what is known of a publish that failed. ctx is that of conn.watch.
func (l *Log) outcome(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errRefused) {
		return fmt.Errorf("%w: %s %q may not write there", journal.ErrRefused, l.cfg.Role, l.cfg.Actor)
	}
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api):
		return byCode(api)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", journal.ErrTooLarge, err)
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
	case context.Cause(ctx) != nil:
		return fmt.Errorf("%w: no acknowledgement: %w", journal.ErrUnknown, context.Cause(ctx))
	}
	return fmt.Errorf("%w: %w", journal.ErrUnknown, err)
}

func byCode(api *jetstream.APIError) error {
	switch api.ErrorCode {
	case codeWrongLast, codeWrongLastConstant:
		return fmt.Errorf("%w: %w", journal.ErrConflict, api)
	case codeMessageTooLarge:
		return fmt.Errorf("%w: %w", journal.ErrTooLarge, api)
	case codeNoStorage:
		return fmt.Errorf("%w: %s", journal.ErrUnwritable, api.Description)
	case codeInsufficient, codeNotEnabled, codeNotEnabledAccount,
		codeNoMemory, codeStreamNotFound, codeStreamSealed, codeStreamOffline, codeStreamOfflineReason:
		return fmt.Errorf("%w: %w", journal.ErrUnavailable, api)
	}
	return fmt.Errorf("%w: %w", journal.ErrUnknown, api)
}
