package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// ErrInvalid: the commit would be void, or the session may not be appended to.
// Nothing was sent.
var ErrInvalid = errors.New("not a valid commit")

// Clocked is a Log that can tell the journal's own time. A Writer uses it to
// notice that its clock is wrong, since the fold voids what lies too far
// from the journal's.
type Clocked interface {
	// Clock is the present time of the journal's server.
	Clock(ctx context.Context) (time.Time, error)
}

// Config makes a Writer. Log, Role and Actor are required; every other zero
// value works.
type Config struct {
	Log     Log
	Role    Role
	Actor   string
	Now     func() time.Time // nil: time.Now
	Entropy io.Reader        // of ids; nil: crypto/rand
	Budget  time.Duration    // how long Append tries to settle an unknown outcome; 0: 30 s
	Wait    func(ctx context.Context, try int) error
	// Wait pauses before a try, with backoff; nil: from 5 ms, doubled, to 1 s.
}

// Writer appends commits of one principal. Its methods may run concurrently,
// on different States.
type Writer struct {
	cfg   Config
	mu    sync.Mutex
	ids   *ulid.MonotonicEntropy
	turns map[Chain]*turn
	ahead clockCheck
}

// NewWriter checks the configuration and makes a Writer.
func NewWriter(cfg Config) (*Writer, error) {
	if cfg.Log == nil || !cfg.Role.Known() {
		return nil, errors.New("a writer needs a log and a role")
	}
	if err := CheckName("actor", cfg.Actor); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Entropy == nil {
		cfg.Entropy = rand.Reader
	}
	if cfg.Budget == 0 {
		cfg.Budget = 30 * time.Second
	}
	if cfg.Wait == nil {
		cfg.Wait = pause
	}
	return &Writer{cfg: cfg, ids: ulid.Monotonic(cfg.Entropy, 0)}, nil
}

func pause(ctx context.Context, try int) error {
	timer := time.NewTimer(min(5*time.Millisecond<<min(try, 10), time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Principal is who the writer writes as.
func (w *Writer) Principal() Principal { return Principal{w.cfg.Role, w.cfg.Actor} }

// Clock is the writer's clock.
func (w *Writer) Clock() time.Time { return w.cfg.Now() }

// Pause waits before a try (from 0), with backoff, or until ctx ends.
func (w *Writer) Pause(ctx context.Context, try int) error { return w.cfg.Wait(ctx, try) }

// Log is the log the writer writes to.
func (w *Writer) Log() Log { return w.cfg.Log }

// Now is the time of a commit made now after the state's head: the later of
// the clock and the head's time.
func (w *Writer) Now(st *State) Time {
	now := At(w.cfg.Now())
	if now.Before(st.Time().Time) {
		return st.Time()
	}
	return now
}

// NewID makes an event id. Ids of one writer rise.
func (w *Writer) NewID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, err := ulid.New(ulid.Timestamp(w.cfg.Now()), w.ids)
	if err != nil { // the monotonic part ran over: start anew
		w.ids = ulid.Monotonic(w.cfg.Entropy, 0)
		id = ulid.MustNew(ulid.Timestamp(w.cfg.Now()), w.ids)
	}
	return id.String()
}

// Event makes an event of body with a new id.
func (w *Writer) Event(body Body) Event { return NewEvent(w.NewID(), body) }

// Append makes events true as one commit after the state's last message, and
// folds it into st. The commit is judged before it is sent, as every reader
// will judge it.
//
// Errors: ErrInvalid, ErrRefused, ErrTooLarge and ErrUnavailable say that
// nothing was stored; ErrConflict that another commit came first, so that the
// caller must Refresh and decide again; ErrUnknown that time ran out before
// the outcome was known: the commit may be stored or be stored yet. After any
// error st is as it was.
func (w *Writer) Append(ctx context.Context, st *State, now Time, events ...Event) error {
	p, err := w.Prepare(st, now, events...)
	if err != nil {
		return err
	}
	return p.Append(ctx)
}

// Prepare is the part of Append that needs no journal: it judges a commit, which
// the Prepared then appends. Errors: ErrInvalid and ErrTooLarge.
func (w *Writer) Prepare(st *State, now Time, events ...Event) (*Prepared, error) {
	return w.prepare(st, st.LastSeq(), now, events)
}

// Prepared is a commit that was judged and not sent yet. It is good for one
// Append, and only as long as nothing else is folded into its state.
type Prepared struct {
	w     *Writer
	st    *State
	last  uint64 // the state's last message when it was judged
	sub   Subject
	after uint64
	time  Time
	msg   Message // its sequence is not known yet
	body  body
}

// AppendRepair appends a repair of a broken session. It goes after the last
// message that can be read; where the server still expects one that cannot,
// after that. Errors are those of Append.
func (w *Writer) AppendRepair(ctx context.Context, st *State, now Time, repair *Repair) error {
	err := w.appendAfter(ctx, st, st.LastSeq(), now, w.Event(repair))
	for i := len(repair.Missing) - 1; i >= 0 && errors.Is(err, ErrConflict); i-- {
		if repair.Missing[i] > st.LastSeq() {
			err = w.appendAfter(ctx, st, repair.Missing[i], now, w.Event(repair))
		}
	}
	return err
}

func (w *Writer) appendAfter(ctx context.Context, st *State, after uint64, now Time, event Event) error {
	p, err := w.prepare(st, after, now, []Event{event})
	if err != nil {
		return err
	}
	return p.Append(ctx)
}

func (w *Writer) prepare(st *State, after uint64, now Time, events []Event) (*Prepared, error) {
	sub := Subject{st.Chain(), w.cfg.Role, w.cfg.Actor}
	commit := Commit{st.Chain().Session(), st.N() + 1, after, st.Prev(), sub.Role, sub.Actor, now, events}
	data, err := commit.Encode()
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	if limit := w.cfg.Log.MaxPayload(); len(data) > limit {
		return nil, fmt.Errorf("%w: the commit has %d bytes, the journal takes %d", ErrTooLarge, len(data), limit)
	}
	// Its sequence is not known yet; a repair may name any below it.
	msg := Message{Seq: math.MaxUint64, Time: now.Time, Subject: sub.String(), Headers: ExpectHeaders(st.Chain(), after), Data: data}
	body := read(msg)
	if _, v, why := st.weigh(msg, body); v != Valid {
		return nil, fmt.Errorf("%w: %s", ErrInvalid, w.unfit(st, why))
	}
	return &Prepared{w: w, st: st, last: st.LastSeq(), sub: sub, after: after, time: now, msg: msg, body: body}, nil
}

// Append sends the commit and folds it into its state. Errors are those of
// Writer.Append; ErrConflict too if the state moved since it was prepared.
func (p *Prepared) Append(ctx context.Context) error {
	if p.st.LastSeq() != p.last {
		return fmt.Errorf("%w: since the commit was prepared", ErrConflict)
	}
	if err := p.w.checkClock(ctx, p.st, p.time); err != nil {
		return err
	}
	timely := p.w.timely(p.time)
	seq, err := p.w.settle(ctx, p.st, p.sub, p.after, p.msg.Data)
	if err != nil {
		return err
	}
	msg, fold := p.msg, p.fold
	msg.Seq = seq
	if !timely() { // it may be void to those who see the server's timestamp
		if msg, err = p.w.reread(ctx, msg); err != nil {
			return err
		}
		fold = p.st.Apply
	}
	if v, why := fold(msg); v != Valid {
		return fmt.Errorf("%w: stored at %d, but %s", ErrConflict, msg.Seq, why)
	}
	p.w.passOn(p.st.Chain(), appended{p.after, msg, p.body})
	return nil
}

// fold is Apply for the message sent, whose bytes were read before.
func (p *Prepared) fold(m Message) (Verdict, string) {
	if m.Seq <= p.st.LastSeq() {
		return NoEffect, "seen before"
	}
	return p.st.apply(m, p.body)
}

// timely returns a function that reports whether the server's timestamp of what
// was sent at now is surely near that time: the clock was not set back
// meanwhile, and it did not take long.
func (w *Writer) timely(now Time) func() bool {
	began, wall := time.Now(), w.cfg.Now().Round(0)
	return func() bool {
		end := w.cfg.Now().Round(0)
		return time.Since(began)-end.Sub(wall) < MaxAhead/6 && end.Sub(now.Time) < MaxBehind/6
	}
}

// reread is the message as it is stored.
func (w *Writer) reread(ctx context.Context, sent Message) (Message, error) {
	m, found, err := w.cfg.Log.At(ctx, sent.Seq)
	if err != nil || !found {
		return Message{}, fmt.Errorf("%w: stored at %d, and whether it counts cannot be read: %v", ErrUnknown, sent.Seq, err)
	}
	return m, nil
}

func (w *Writer) unfit(st *State, why string) string {
	if cond, at := st.Condition(); cond != Whole {
		return fmt.Sprintf("session %s is %s at message %d: %s; %s", st.Chain(), cond, at.Seq, at.Why, why)
	}
	return why
}

// ExpectHeaders are the headers of a message appended to chain after a sequence.
func ExpectHeaders(chain Chain, after uint64) map[string][]string {
	return map[string][]string{
		HeaderExpected:       {strconv.FormatUint(after, 10)},
		HeaderExpectedFilter: {chain.Filter()},
	}
}

// settle publishes data until its outcome is known. On an unknown outcome it
// reads what came after the expected message from the leader: the commit is
// there, and it is done; another is there, and it conflicts; nothing is there,
// and the same bytes go out again with the same expectation, of which at most
// one can win.
func (w *Writer) settle(ctx context.Context, st *State, sub Subject, after uint64, data []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Budget)
	defer cancel()
	sent := false // a try before may have been stored
	for try := 0; ; try++ {
		seq, err := w.cfg.Log.Publish(ctx, sub, after, data)
		if err == nil {
			return seq, nil
		}
		if !sent && (errors.Is(err, ErrConflict) || errors.Is(err, ErrRefused) || errors.Is(err, ErrTooLarge)) {
			return 0, err
		}
		sent = sent || !errors.Is(err, ErrUnavailable) // an error of no known kind included
		if sent {
			if seq, settled, lookErr := w.find(ctx, st, sub, data); settled {
				return seq, lookErr
			}
		}
		if errors.Is(err, ErrUnwritable) { // it stays so for longer than any try
			return 0, unsettled(sent, err)
		}
		if waitErr := w.cfg.Wait(ctx, try); waitErr != nil {
			return 0, unsettled(sent, err)
		}
	}
}

func unsettled(sent bool, err error) error {
	if sent && !errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w: %v", ErrUnknown, err)
	}
	return err
}

// find looks for the commit after the message it expected.
func (w *Writer) find(ctx context.Context, st *State, sub Subject, data []byte) (seq uint64, settled bool, err error) {
	for m, err := range w.cfg.Log.Load(ctx, st.Chain(), st.LastSeq()) {
		switch {
		case err != nil:
			return 0, false, nil
		case m.Subject == sub.String() && string(m.Data) == string(data):
			return m.Seq, true, nil
		}
		// The first message after the expected one is not ours: it can never be.
		return 0, true, ErrConflict
	}
	return 0, false, nil
}

// Refresh folds what was appended since into st, from the leader. It returns
// an error wrapping ErrUnavailable if it could not read all of it.
func Refresh(ctx context.Context, log Log, st *State) error {
	for m, err := range log.Load(ctx, st.Chain(), st.LastSeq()) {
		if err != nil {
			return err
		}
		st.Apply(m)
	}
	return nil
}

// LoadState folds a chain from its beginning, and holds it against the
// journal's unreadable sequences.
func LoadState(ctx context.Context, log Log, chain Chain) (*State, error) {
	if !chain.Valid() {
		return nil, fmt.Errorf("no such chain: use 1 to %d of A-Z a-z 0-9 _ - as the session's name", MaxNameLen)
	}
	st := NewState(chain)
	holes, err := log.Holes(ctx)
	if err != nil {
		return nil, err
	}
	if err := Refresh(ctx, log, st); err != nil {
		return nil, err
	}
	st.MarkHoles(holes)
	return st, nil
}

// clockCheck remembers how the writer's clock stood to the journal's.
type clockCheck struct {
	mu      sync.Mutex
	checked time.Time // by the process's monotonic clock
	wall    time.Time // the writer's clock then
	server  time.Time
}

// recheck is how long a comparison of clocks holds: short, since a server's
// clock may be set back, and rare against appends.
const recheck = 10 * time.Second

// checkClock refuses to append with a time so far from the journal's own that
// every fold would void the commit.
func (w *Writer) checkClock(ctx context.Context, st *State, now Time) error {
	clocked, ok := w.cfg.Log.(Clocked)
	if !ok {
		return nil
	}
	c := &w.ahead
	c.mu.Lock()
	defer c.mu.Unlock()
	elapsed := time.Since(c.checked)
	drift := w.cfg.Now().Round(0).Sub(c.wall) - elapsed
	if c.checked.IsZero() || elapsed > recheck || drift.Abs() > MaxAhead/6 {
		server, err := clocked.Clock(ctx)
		if err != nil {
			return fmt.Errorf("%w: %v", ErrUnavailable, err)
		}
		c.checked, c.wall, c.server, elapsed = time.Now(), w.cfg.Now().Round(0), server, 0
	}
	switch lead := now.Sub(c.server.Add(elapsed)); {
	case lead > MaxAhead/2 && now != st.Time():
		return fmt.Errorf("%w: this machine's clock is %s ahead of the journal's; set it right", ErrInvalid, lead.Round(time.Second))
	case lead < -MaxBehind/2:
		return fmt.Errorf("%w: this machine's clock is %s behind the journal's; set it right", ErrInvalid, (-lead).Round(time.Second))
	}
	return nil
}
