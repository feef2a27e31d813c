package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"decisionjournal/journal"
)

func TestOutcome(t *testing.T) {
	with := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	code := func(n jetstream.ErrorCode) error {
		return fmt.Errorf("nats: %w", &jetstream.APIError{ErrorCode: n})
	}
	live := t.Context()
	l := &Log{}
	for name, c := range map[string]struct {
		ctx       context.Context
		err, want error
	}{
		"wrong last sequence":       {live, code(10071), journal.ErrConflict},
		"another write in flight":   {live, code(10164), journal.ErrConflict},
		"message too large":         {live, code(10054), journal.ErrTooLarge},
		"client refuses the size":   {live, nats.ErrMaxPayload, journal.ErrTooLarge},
		"storage full":              {live, code(10047), journal.ErrUnavailable},
		"no resources":              {live, code(10023), journal.ErrUnavailable},
		"stream gone":               {live, code(10059), journal.ErrUnavailable},
		"sealed":                    {live, code(10109), journal.ErrUnavailable},
		"nobody there":              {live, jetstream.ErrNoStreamResponse, journal.ErrUnavailable},
		"not sent while down":       {live, nats.ErrReconnectBufExceeded, journal.ErrUnavailable},
		"store failed":              {live, code(10077), journal.ErrUnknown},
		"cluster unavailable":       {live, code(10008), journal.ErrUnknown},
		"a code of a later release": {live, code(65000), journal.ErrUnknown},
		"not an acknowledgement":    {live, jetstream.ErrInvalidJSAck, journal.ErrUnknown},
		"closed while waiting":      {live, nats.ErrConnectionClosed, journal.ErrUnknown},
		"timeout":                   {live, nats.ErrTimeout, journal.ErrUnknown},
		"cancelled":                 {with(context.Canceled), context.Canceled, journal.ErrUnknown},
		"disconnected":              {with(errDisconnected), context.Canceled, journal.ErrUnknown},
		"refused":                   {with(errRefused), context.Canceled, journal.ErrRefused},
	} {
		got := l.outcome(c.ctx, c.err)
		for _, sentinel := range []error{journal.ErrConflict, journal.ErrTooLarge, journal.ErrUnavailable, journal.ErrUnknown, journal.ErrRefused} {
			if errors.Is(got, sentinel) != (sentinel == c.want) {
				t.Errorf("%s: %v, want only %v", name, got, c.want)
			}
		}
	}
}

func TestCheckNamesEachSetting(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		if err := Check(Settings(replicas)); err != nil {
			t.Errorf("%d replicas: %v", replicas, err)
		}
	}
	fields := reflect.TypeFor[jetstream.StreamConfig]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		cfg := Settings(1)
		if !disturb(reflect.ValueOf(&cfg).Elem().Field(i)) {
			t.Errorf("no other value known for %s %s", name, fields.Field(i).Type)
			continue
		}
		err := Check(cfg)
		switch {
		case name == "Replicas":
		case ignored[name] && name != "FirstSeq":
			if err != nil {
				t.Errorf("%s changes nothing that matters: %v", name, err)
			}
		case !errors.Is(err, journal.ErrUnavailable) || !strings.Contains(err.Error(), name+" is "):
			t.Errorf("changed %s: got %v", name, err)
		}
	}
}

// disturb gives v another value.
func disturb(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 7)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(v.Uint() + 7)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Struct:
		return disturb(v.Field(0))
	default:
		return false
	}
	return true
}

func TestNobodyHasPermissions(t *testing.T) {
	for _, p := range []struct {
		role  journal.Role
		actor string
	}{{"", "a"}, {"king", "a"}, {journal.RoleAdmin, ""}, {journal.RoleAdmin, ">"}, {journal.RoleAdmin, "a.b"}, {journal.RoleAdmin, "*"}} {
		if got := PermissionsOf(p.role, p.actor); len(got.Publish)+len(got.Subscribe) > 0 {
			t.Errorf("%q %q: %v", p.role, p.actor, got)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	why := errors.New("the reason why")
	_, err := Open(t.Context(), Config{Dial: func() (net.Conn, error) { return nil, why }})
	if !errors.Is(err, journal.ErrUnavailable) || !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than a line", err)
	}
}

func TestReconnectDelayIsBounded(t *testing.T) {
	delay := reconnectDelay()
	for range 2 { // the second disconnect begins anew
		for attempt := 1; attempt <= 50; attempt++ {
			d := delay(attempt)
			if d <= 0 || d > reconnectCap*3/2 || attempt == 1 && d > 10*time.Millisecond {
				t.Errorf("attempt %d waits %v", attempt, d)
			}
		}
	}
}
