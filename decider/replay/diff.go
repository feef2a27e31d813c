package replay

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"decisionjournal/journal"
)

// difference is one member in which what stands differs from what follows.
type difference struct{ field, want, got string }

// compare lists the members in which two bodies of one type differ, in order,
// leaving out the members in skip.
func compare(want, got journal.Body, skip ...string) ([]difference, error) {
	w, err := membersOf(want)
	if err != nil {
		return nil, err
	}
	g, err := membersOf(got)
	if err != nil {
		return nil, err
	}
	for _, s := range skip {
		delete(w, s)
		delete(g, s)
	}
	return differences("", w, g), nil
}

// membersOf are a body's members in canonical form.
func membersOf(body journal.Body) (map[string]json.RawMessage, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if raw, err = journal.Canonical(raw); err != nil {
		return nil, err
	}
	return objectOf(raw), nil
}

// objectOf takes a canonical object apart; nil if it is none.
func objectOf(raw json.RawMessage) map[string]json.RawMessage {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

func differences(path string, want, got map[string]json.RawMessage) []difference {
	keys := slices.Collect(maps.Keys(want))
	for k := range got {
		if _, both := want[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var list []difference
	for _, k := range keys {
		w, g := want[k], got[k]
		if bytes.Equal(w, g) {
			continue
		}
		if inW, inG := objectOf(w), objectOf(g); inW != nil && inG != nil {
			list = append(list, differences(path+k+".", inW, inG)...)
			continue
		}
		list = append(list, difference{path + k, string(w), string(g)})
	}
	return list
}
