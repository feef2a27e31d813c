package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"decisionjournal/journal"
	"decisionjournal/journal/journaltest"
)

// mangler changes what nats.go writes, for headers that it would not.
type mangler struct{ net.Conn }

var mangled = map[string]string{
	"Mangle: no colon":      "no colon at all!",
	"Mangle: \u00e9t\u00e9": "\x00\xff: \x01\x02\x03\x04\x05\x06\x07\x08\x0b",
}

func (m mangler) Write(p []byte) (int, error) {
	for old, new := range mangled {
		p = bytes.ReplaceAll(p, []byte(old), []byte(new))
	}
	return m.Conn.Write(p)
}

// TestHostileMessages: whatever a publisher stores under its own subject, a
// reader gets it, and what is behind it.
func TestHostileMessages(t *testing.T) {
	for name, m := range map[string]nats.Msg{
		"nothing":           {},
		"no headers":        {Data: []byte("x")},
		"broken header":     {Data: []byte("x"), Header: nats.Header{"Mangle": {"no colon"}}},
		"empty, broken":     {Header: nats.Header{"Mangle": {"no colon"}}},
		"binary header":     {Data: []byte("x"), Header: nats.Header{"Mangle": {"\u00e9t\u00e9"}}},
		"heartbeat":         {Header: nats.Header{"Status": {"100"}, "Description": {"Idle Heartbeat"}}},
		"bad request":       {Header: nats.Header{"Status": {"400"}, "Description": {"Bad Request"}}},
		"no messages":       {Header: nats.Header{"Status": {"404"}, "Description": {"No Messages"}}},
		"timeout":           {Header: nats.Header{"Status": {"408"}, "Description": {"Request Timeout"}, "Nats-Pending-Messages": {"500"}}},
		"consumer deleted":  {Header: nats.Header{"Status": {"409"}, "Description": {"Consumer Deleted"}}},
		"leadership change": {Header: nats.Header{"Status": {"409"}, "Description": {"Leadership Change"}}},
		"no responders":     {Header: nats.Header{"Status": {"503"}}},
		"forged origin":     {Data: []byte("x"), Header: nats.Header{"Nats-Subject": {"journal.s.s1.approver.root"}, "Nats-Sequence": {"1"}, "Nats-Time-Stamp": {"1970-01-01T00:00:00Z"}}},
		"other's id":        {Data: []byte("x"), Header: nats.Header{"Nats-Msg-Id": {"1"}}},
		"flow control":      {Header: nats.Header{"Status": {"100"}, "Nats-Consumer-Stalled": {"$JS.FC.x"}}},
	} {
		eachWay(t, name, func(t *testing.T, listen string) {
			h := open(t, Config{Dir: t.TempDir() + "/j", Listen: listen})
			a := attack(t, h, journal.RoleAgent)
			const each, hostile = 20, 3
			next, stop := followed(t, h)
			defer stop()
			for i := range each {
				a.ask("journal.s.s1.agent.agent", i)
			}
			for range hostile {
				m.Subject = "journal.s.s1.agent.agent"
				a.send(&m)
			}
			for i := range each {
				a.ask("journal.s.s1.agent.agent", each+i)
			}
			want := 2*each + hostile
			if name == "other's id" {
				want -= hostile - 1 // the server drops the repetitions
			}
			all, err := journaltest.Collect(h.Load(t.Context(), journal.SessionChain("s1"), 0))
			if err != nil || len(all) != want {
				t.Fatalf("loaded %d of %d: %v", len(all), want, err)
			}
			for i, m := range all {
				if m.Seq != uint64(i)+1 || m.Subject != "journal.s.s1.agent.agent" {
					t.Errorf("message %d is %d of %s", i, m.Seq, m.Subject)
				}
				if f := next(); f.Seq != m.Seq || !bytes.Equal(f.Data, m.Data) || fmt.Sprint(f.Headers) != fmt.Sprint(m.Headers) || !f.Time.Equal(m.Time) {
					t.Errorf("message %d loaded %+v, followed %+v", i, m, f)
				}
			}
			if holes, err := h.Holes(t.Context()); err != nil || len(holes) > 0 {
				t.Errorf("holes %v, %v", holes, err)
			}
		})
	}
}

// TestBadDisk: a flipped bit in a stored message is a hole, and the rest can be
// read and appended to. Where the server has to rebuild its index it drops what
// is behind the damage, and the mark tells that the journal once reached further.
func TestBadDisk(t *testing.T) {
	const n = 40
	for name, damage := range map[string]struct {
		at      []int
		noIndex bool
	}{
		"first":            {at: []int{0}},
		"middle":           {at: []int{20}},
		"two in a row":     {at: []int{20, 21}},
		"last":             {at: []int{n - 1}},
		"last two":         {at: []int{n - 2, n - 1}},
		"all":              {at: seq(n)},
		"middle, no index": {at: []int{20}, noIndex: true},
		"last, no index":   {at: []int{n - 1}, noIndex: true},
		"first, no index":  {at: []int{0}, noIndex: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // mostly waiting for what cannot be read
			path := t.TempDir() + "/j"
			h := open(t, Config{Dir: path})
			sub := journal.Subject{Chain: journal.SessionChain("s1"), Role: journal.RoleDecider, Actor: "decider"}
			for i := range n {
				if _, err := h.Publish(t.Context(), sub, uint64(i), fmt.Appendf(nil, "body <%d>", i)); err != nil {
					t.Fatal(err)
				}
			}
			h.Close()
			flip(t, path, damage.at, damage.noIndex)

			h = open(t, Config{Dir: path})
			holes, err := h.Holes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			last, err := h.Last(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all, err := journaltest.Collect(h.Load(t.Context(), sub.Chain, 0))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("last %d, holes %v, loaded %d", last, holes, len(all))
			for _, i := range damage.at {
				if lost := uint64(i) + 1; lost <= last && !slices.Contains(holes, lost) {
					t.Errorf("sequence %d is unreadable and no hole", lost)
				}
			}
			for _, m := range all {
				if slices.Contains(damage.at, int(m.Seq)-1) {
					t.Errorf("read the damaged message %d: %q", m.Seq, m.Data)
				}
			}
			if damage.noIndex { // the rest of the block goes with it, and only the mark tells
				if !slices.Equal(holes, []uint64{last + 1}) || len(h.Warnings()) != 1 {
					t.Errorf("the store lost its end after %d, and holes are %v; %q", last, holes, h.Warnings())
				}
				holes = nil
			}
			if uint64(len(all)+len(holes)) != last {
				t.Errorf("%d read, %d holes, last %d", len(all), len(holes), last)
			}
			var head uint64
			if len(all) > 0 {
				head = all[len(all)-1].Seq
			}
			// The server still counts a last message that it cannot read, as
			// long as it has the index: only its sequence is accepted then.
			_, err = h.Publish(t.Context(), sub, head, []byte("repair"))
			if lastLost := head != last; lastLost != errors.Is(err, journal.ErrConflict) || !lastLost && err != nil {
				t.Errorf("append after %d of %d: %v", head, last, err)
			}
			if _, err := h.Publish(t.Context(), sub, last, []byte("repair")); head != last && err != nil {
				t.Errorf("append after the lost %d: %v", last, err)
			}
		})
	}
}

func seq(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// flip damages the bodies of the messages numbered at in the store.
func flip(t *testing.T, path string, at []int, noIndex bool) {
	t.Helper()
	msgs := filepath.Join(dir(path).store(), "jetstream", streamAccount, "streams", "JOURNAL", "msgs")
	block := filepath.Join(msgs, "1.blk")
	data, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range at {
		body := fmt.Appendf(nil, "body <%d>", i)
		if bytes.Count(data, body) != 1 {
			t.Fatalf("body %d is stored %d times", i, bytes.Count(data, body))
		}
		data[bytes.Index(data, body)] ^= 1
	}
	if err := os.WriteFile(block, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if noIndex {
		if err := os.Remove(filepath.Join(msgs, "index.db")); err != nil {
			t.Fatal(err)
		}
	}
}
