package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"decisionjournal/journal"
)

// Answer implements [journal.Presence].
func (l *Log) Answer(ctx context.Context, sub journal.Subject, run string) error {
	answer := func(m *nats.Msg) { l.answer(m, run) }
	if err := l.serve(ctx, journal.PresenceSubject(sub), answer); err != nil {
		return fmt.Errorf("answer for %s: %w", sub.Actor, err)
	}
	if run != "" {
		return nil
	}
	sub.Actor = "" // a frontend also answers for its role
	if err := l.serve(ctx, journal.PresenceSubject(sub), answer); err != nil {
		return fmt.Errorf("answer for %s: %w", sub.Role, err)
	}
	return nil
}

// answer says that run is here if it is the run asked for.
func (l *Log) answer(m *nats.Msg, run string) {
	if string(m.Data) != run {
		return
	}
	if err := l.pong(m.Reply, m.Data); err != nil {
		l.cfg.Logger.Debug("a ping stays unanswered", "error", err)
	}
}

// Ping implements [journal.Presence].
func (l *Log) Ping(ctx context.Context, sub journal.Subject, run string, wait time.Duration) (bool, error) {
	return l.there(ctx, journal.PresenceSubject(sub), run, wait)
}

// Present implements [journal.Presence].
func (l *Log) Present(ctx context.Context, chain journal.Chain, role journal.Role, wait time.Duration) (bool, error) {
	return l.there(ctx, journal.PresenceSubject(journal.Subject{Chain: chain, Role: role}), "", wait)
}

func (l *Log) there(ctx context.Context, subject, run string, wait time.Duration) (bool, error) {
	timed, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := l.ping(timed, subject, []byte(run), func(m *nats.Msg) bool { return string(m.Data) == run })
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, nats.ErrNoResponders):
		return false, nil
	case ctx.Err() == nil && timed.Err() != nil && !errors.Is(err, errDisconnected):
		return false, nil // somebody listens, nobody answered in time
	}
	return false, fmt.Errorf("ping %s: %w", subject, err)
}

// serve calls handle for each message on subject until ctx ends. It returns
// when the server has the subscription.
func (l *Log) serve(ctx context.Context, subject string, handle nats.MsgHandler) error {
	return l.cfg.again(ctx, func() error { return l.serveOnce(ctx, subject, handle) })
}

func (l *Log) serveOnce(ctx context.Context, subject string, handle nats.MsgHandler) error {
	timed, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	if err := l.conn.await(timed); err != nil {
		return err
	}
	timed, done := l.conn.watch(timed, subject)
	defer done()
	sub, err := l.conn.Subscribe(subject, handle)
	if err != nil {
		return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
	}
	if err := l.settle(timed, subject); err != nil {
		return errors.Join(err, sub.Unsubscribe())
	}
	context.AfterFunc(ctx, func() {
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			l.cfg.Logger.Debug("still subscribed", "subject", subject, "error", err)
		}
	})
	return nil
}

// settle waits until the server has seen what was sent. A refusal of subject
// has arrived by then.
func (l *Log) settle(ctx context.Context, subject string) error {
	err := l.conn.FlushWithContext(ctx)
	if last := l.conn.LastError(); errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), `"`+subject+`"`) {
		return fmt.Errorf("%w: %s %q may not subscribe to %s", journal.ErrRefused, l.cfg.Role, l.cfg.Actor, subject)
	}
	if err != nil {
		return l.unavailable(ctx, err)
	}
	return nil
}

// pong answers a ping. It publishes nowhere but where pings expect answers:
// the asker chooses the reply subject, and this principal's rights are not his.
func (l *Log) pong(reply string, body []byte) error {
	if !strings.HasPrefix(reply, pongRoot+".") {
		return fmt.Errorf("%q is no place for an answer", reply)
	}
	return l.conn.Publish(reply, body)
}

// ping publishes body on subject and waits for an answer that accept takes. Its
// error is nats.ErrNoResponders if nobody listens, and else wraps
// ErrUnavailable or ErrRefused.
func (l *Log) ping(ctx context.Context, subject string, body []byte, accept func(*nats.Msg) bool) error {
	if err := l.conn.await(ctx); err != nil {
		return err
	}
	ctx, done := l.conn.watch(ctx, subject)
	defer done()
	reply := pongs(l.cfg.Role, l.cfg.Actor) + "." + nuid.Next()
	sub, err := l.conn.SubscribeSync(reply)
	if err != nil {
		return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
	}
	defer sub.Unsubscribe()
	if err := l.conn.PublishRequest(subject, reply, body); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
	}
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) {
			return err
		}
		if err != nil {
			return l.unavailable(ctx, err)
		}
		if accept(msg) {
			return nil
		}
	}
}
