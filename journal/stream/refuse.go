package stream

import (
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"decisionjournal/journal"
)

// Refuse answers every append in place of a stream that cannot store any more,
// which itself would leave it unanswered: it ends with an error that wraps
// [journal.ErrUnwritable] and says why. It needs the rights of the stream's
// account. stop ends it.
func Refuse(cfg Config, why string) (stop func(), err error) {
	answer, err := json.Marshal(apiAnswer{&jetstream.APIError{Code: 503, ErrorCode: codeNoStorage, Description: why}})
	if err != nil {
		return nil, err
	}
	c, err := connect(cfg.withDefaults())
	if err != nil {
		return nil, err
	}
	_, err = c.Subscribe(journal.AllSubjects, func(m *nats.Msg) { _ = m.Respond(answer) }) // or the asker is gone
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("refuse appends: %w", err)
	}
	return c.Close, nil
}
