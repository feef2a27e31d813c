package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"decisionjournal/decider/agent"
	"decisionjournal/journal"
)

// FuzzSpool reads spooled results of any content: one that fits the call that
// ran is appended, and any other changes nothing in the journal, which the audit
// at the end of each world holds to be whole.
func FuzzSpool(f *testing.F) {
	for _, status := range []journal.Status{journal.StatusOK, journal.StatusError, journal.StatusUnknown, journal.StatusNotRun, "done"} {
		f.Add(fmt.Appendf(nil, `{"session":"s1","result":{"call":"CALL","attempt":1,"run":"RUN","status":%q,"content":"x","size":3,"digest":%q}}`,
			status, journal.Digest([]byte(`"x"`))))
	}
	f.Add([]byte(`{"session":"s1","result":{"call":"CALL","attempt":2}}`))
	f.Add([]byte(`{"session":"s2"}`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := newWorld(t)
		dir := t.TempDir()
		g := w.open()
		g.on(failing(journal.TypeResult), nil)
		r := keyed("b/1", "free", `{}`)
		g.run(r)
		call := w.state().Calls()[0].Mark.ID
		raw = bytes.ReplaceAll(raw, []byte("CALL"), []byte(call))
		raw = bytes.ReplaceAll(raw, []byte("RUN"), []byte(g.Run()))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-1.json", session, call)), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		g.restart(func(cfg *agent.Config) { cfg.Spool = dir })
		st := w.state()
		if n := len(st.Calls()); n != 1 {
			t.Fatalf("%d calls", n)
		}
		var kept struct{ Result journal.Result }
		if json.Unmarshal(raw, &kept) == nil && kept.Result.Status == journal.StatusNotRun {
			return // the guard's own word is believed
		}
		if a := st.Calls()[0].Attempts[0]; a.Progress != journal.Unknown && a.Result == nil {
			t.Fatalf("the call that ran is %s", a.Progress)
		}
	})
}
