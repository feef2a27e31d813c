package stream

import (
	"context"
	"fmt"
	"time"

	"decisionjournal/journal"
)

// Clock implements [journal.Clocked]: the server's present time, as it stands
// in every answer about the stream.
func (l *Log) Clock(ctx context.Context) (time.Time, error) {
	var answer struct {
		apiAnswer
		Now time.Time `json:"ts"`
	}
	if err := l.ask(ctx, "STREAM.INFO", struct{}{}, &answer); err != nil {
		return time.Time{}, fmt.Errorf("read the journal's clock: %w", err)
	}
	if answer.Error != nil {
		return time.Time{}, fmt.Errorf("%w: read the journal's clock: %w", journal.ErrUnavailable, answer.Error)
	}
	if answer.Now.IsZero() {
		return time.Time{}, fmt.Errorf("%w: the server does not tell its time", journal.ErrUnavailable)
	}
	return answer.Now, nil
}
