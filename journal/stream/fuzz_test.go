package stream

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzHeaders reads header blocks, which the server stores as any writer sends
// them: what is read of one is read the same wherever it comes from.
func FuzzHeaders(f *testing.F) {
	for _, s := range []string{
		"", "NATS/1.0\r\n\r\n", "NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 1\r\n\r\n", "NATS/1.0 404 No Messages\r\n\r\n",
		"NATS/1.0\r\nA: 1\r\nA: 2\r\na: 3\r\n\r\n", "NATS/1.0\r\n: x\r\n\r\n", "nats/1.0\n\n", "NATS/1.0\r\nA:1\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		got := headers(block)
		if again := headers(block); !reflect.DeepEqual(got, again) {
			t.Fatalf("%q reads as %v, and then as %v", block, got, again)
		}
		for name, values := range got {
			if len(values) == 0 {
				t.Fatalf("%q: the header %q has no value", block, name)
			}
		}
	})
}

// FuzzFound reads what a host tells of its scan.
func FuzzFound(f *testing.F) {
	f.Add([]byte(`{"last":9,"holes":[3,4]}`))
	f.Add([]byte(`{"last":0,"holes":null,"error":"x"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var one, two found
		if json.Unmarshal(raw, &one) != nil {
			return
		}
		again, err := json.Marshal(one)
		if err != nil || json.Unmarshal(again, &two) != nil || !reflect.DeepEqual(one, two) {
			t.Fatalf("%s became %s: %+v, %+v, %v", raw, again, one, two, err)
		}
	})
}
