package stream

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"decisionjournal/journal"
)

// Settings are the exact settings of a journal's stream with the given number
// of replicas: 1 embedded, 3 in a cluster. Nothing in it ever ends by itself,
// and a full disk refuses instead of evicting.
func Settings(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              Name,
		Subjects:          []string{journal.AllSubjects},
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
		Discard:           jetstream.DiscardNew,
		DenyDelete:        true,
		DenyPurge:         true,
		MaxConsumers:      -1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgsPerSubject: -1,
		MaxMsgSize:        -1,
		Duplicates:        2 * time.Minute,
	}
}

// ignored are settings that change neither what is stored nor what is read.
var ignored = map[string]bool{
	"Description": true, // a remark
	"Placement":   true, // where a cluster keeps it
	"Metadata":    true, // the server's own notes on versions
	"Compression": true, // on disk only
	"FirstSeq":    true, // checked apart: 0 and 1 are the same
	"Duplicates":  true, // message ids are an optimisation and never the guarantee
	// Consumers of a journal are made by its readers, for a moment each.
	"ConsumerLimits": true,
	"MaxConsumers":   true,
}

// Check compares the settings a server reports with those of [Settings] for the
// same number of replicas, and returns an error that names each that differs.
// Settings unknown to this program differ if they are not zero.
func Check(got jetstream.StreamConfig) error {
	want := Settings(got.Replicas)
	var drift []string
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		name := g.Type().Field(i).Name
		if !ignored[name] && !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			drift = append(drift, fmt.Sprintf("%s is %s, must be %s", name, show(g.Field(i)), show(w.Field(i))))
		}
	}
	if got.FirstSeq > 1 {
		drift = append(drift, fmt.Sprintf("FirstSeq is %d, must be 1", got.FirstSeq))
	}
	if len(drift) > 0 {
		return fmt.Errorf("%w: settings of stream %s have changed: %s; restore them before using this journal",
			journal.ErrUnavailable, got.Name, strings.Join(drift, "; "))
	}
	return nil
}

func show(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "unset"
		}
		v = v.Elem()
	}
	return fmt.Sprintf("%v", v.Interface())
}
