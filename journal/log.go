package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Message is one stored message, as read. Its position is its stream
// sequence; its time is the server's and is only ever compared, never ordered by.
type Message struct {
	Seq     uint64
	Time    time.Time
	Subject string
	Headers map[string][]string
	Data    []byte
}

// Headers that a stored message may carry. The server keeps them and refuses
// false expectations.
const (
	HeaderExpected       = "Nats-Expected-Last-Subject-Sequence"
	HeaderExpectedFilter = "Nats-Expected-Last-Subject-Sequence-Subject"
	HeaderMsgID          = "Nats-Msg-Id"
)

// Errors of a Log. Match with errors.Is.
var (
	// ErrConflict: the chain moved; nothing was stored. Reload and decide again.
	ErrConflict = errors.New("the session moved on")
	// ErrUnknown: whether the message was stored is not known. Never read it as
	// failed. Append resolves it where it can.
	ErrUnknown = errors.New("outcome unknown")
	// ErrRefused: the journal does not let this principal write there; nothing was stored.
	ErrRefused = errors.New("not permitted")
	// ErrTooLarge: the message is over the journal's limit; nothing was stored.
	ErrTooLarge = errors.New("too large")
	// ErrUnavailable: the journal cannot be reached or read; nothing was stored.
	ErrUnavailable = errors.New("journal unavailable")
	// ErrUnwritable: the journal's disk takes no more until a person mends that,
	// so trying again is of no use; nothing was stored.
	ErrUnwritable = fmt.Errorf("%w: it cannot be written", ErrUnavailable)
)

// Log is a store of messages by chain. It judges no bodies: whoever reads
// folds, and the fold judges. All methods may run concurrently. Appending goes
// through [Append], which settles unknown outcomes; Publish is a single try.
type Log interface {
	// Publish stores data under sub if and only if the last message of sub's
	// chain has stream sequence after (0: the chain is empty), durably, with
	// exactly the headers HeaderExpected and HeaderExpectedFilter. It returns
	// the new sequence. Errors wrap ErrConflict, ErrRefused, ErrTooLarge and
	// ErrUnavailable if nothing was stored, and ErrUnknown if that is not known
	// (a timeout, a disconnect, a cancelled ctx once the bytes were sent).
	Publish(ctx context.Context, sub Subject, after uint64, data []byte) (uint64, error)

	// Load yields the messages of chain with a sequence above after, in order,
	// up to at least the last one stored when Load began, read from the leader.
	// It ends after an error, which wraps ErrUnavailable.
	Load(ctx context.Context, chain Chain, after uint64) iter.Seq2[Message, error]

	// LoadAll is Load of every chain at once, the policy chain included, in the
	// order of the journal. It is for who needs all or most of them: chain by
	// chain is several times slower.
	LoadAll(ctx context.Context, after uint64) iter.Seq2[Message, error]

	// Follow yields messages above after in order, and goes on until ctx ends
	// or the caller breaks: those of chain, or of all chains, the policy chain
	// included, if chain is the zero Chain. It rides over reconnects; an error
	// it yields is final.
	Follow(ctx context.Context, chain Chain, after uint64) iter.Seq2[Message, error]

	// Chains lists every chain with a message, sorted, the policy chain first.
	Chains(ctx context.Context) ([]Chain, error)

	// At is the message with a stream sequence, from the leader, whatever its
	// subject; found is false if there is none or it cannot be read.
	At(ctx context.Context, seq uint64) (m Message, found bool, err error)

	// Last is the stream sequence of the journal's last message, from the leader; 0 if empty.
	Last(ctx context.Context) (uint64, error)

	// Holes lists the stream sequences up to Last that cannot be read, and the
	// first of each stretch that a store is known to have lost at its end, whose
	// sequences it gives again. Empty in a whole journal. A store skips a corrupt
	// message in silence, so this is a scan or the remembered result of one.
	Holes(ctx context.Context) ([]uint64, error)

	// MaxPayload is the largest message Publish takes, in bytes.
	MaxPayload() int
}

// Presence tells who is there now. It is never stored and proves nothing; a Log
// may implement it. All methods may run concurrently.
type Presence interface {
	// Answer answers pings until ctx ends. With a run it answers for that run of
	// sub only; with run "" it is a frontend's, and a zero sub.Chain means every
	// session. It returns once the subscription is in place.
	Answer(ctx context.Context, sub Subject, run string) error
	// Ping asks whether the process that is run of sub is there. It is false if
	// nobody answers within wait; that nobody listens at all is known at once.
	Ping(ctx context.Context, sub Subject, run string, wait time.Duration) (bool, error)
	// Present asks whether any frontend of role is there for chain.
	Present(ctx context.Context, chain Chain, role Role, wait time.Duration) (bool, error)
}
