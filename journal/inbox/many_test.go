package inbox_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"decisionjournal/journal"
	"decisionjournal/journal/inbox"
	"decisionjournal/journal/inbox/inboxtest"
	"decisionjournal/journal/journaltest"
)

// bytesEach is what an open question may take in an inbox.
const bytesEach = 3000

// TestManyQuestionsTakeLittle holds many open questions, and many sessions in
// which nothing is open, to the room they may take.
func TestManyQuestionsTakeLittle(t *testing.T) {
	const sessions, each = 250, 20
	b := newBench(t, t.Context())
	for i := range sessions {
		for k := range each {
			b.ask(fmt.Sprint("s", i), inboxtest.Spec{
				Arguments: fmt.Sprintf(`{"path":"notes/%d.txt"}`, k),
				View:      func(v *journal.View) { v.Paths = []string{fmt.Sprintf("notes/%d.txt", k)} },
			})
		}
		idle := fmt.Sprint("idle", i)
		b.answer(idle, b.ask(idle, inboxtest.Spec{}), "alice", journal.AllowOnce)
		b.must(b.End(b.ctx, idle))
	}
	before := heap()
	box := inbox.New(b.log)
	inbox.Forgetful(box)
	b.must(inbox.CatchUp(box, b.ctx))
	took := int(heap()-before) / (sessions * each)
	if box.Len() != sessions*each || took > bytesEach {
		t.Errorf("%d open questions take %d bytes each, want at most %d", box.Len(), took, bytesEach)
	}
	if known, states := inbox.Kept(box); known != sessions || states > 1 {
		t.Errorf("it keeps %d sessions and %d states", known, states)
	}
}

// heap is how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestPages reads the inbox page by page while questions come and go, and
// without reading the journal.
func TestPages(t *testing.T) {
	b := newBench(t, t.Context())
	var asked []string
	for i := range 25 {
		asked = append(asked, b.ask(fmt.Sprint("s", i%3), inboxtest.Spec{}))
	}
	log := &journaltest.Faulty{Log: b.log}
	box, err := inbox.Load(t.Context(), log)
	b.must(err)
	steps := log.Steps()
	var got []string
	for page := box.Page(nil, 7); len(page) > 0; page = box.Page(&page[len(page)-1], 7) {
		got = append(got, ids(page)...)
	}
	if !slices.Equal(got, asked) || !slices.Equal(ids(box.List()), asked) || box.Len() != len(asked) {
		t.Errorf("pages hold %v, asked were %v", got, asked)
	}
	if n := log.Steps() - steps; n != 0 {
		t.Errorf("the journal was read %d times for it", n)
	}
	if len(box.Page(nil, 0))+len(box.Page(nil, -1)) != 0 {
		t.Error("a page of none has some")
	}
}

// TestAPageBehindWhatHasClosed goes on where the question stood.
func TestAPageBehindWhatHasClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, t.Context())
		var asked []string
		for range 4 {
			asked = append(asked, b.ask("s", inboxtest.Spec{}))
		}
		box, stop := b.follow()
		defer stop()
		first := box.Page(nil, 2)
		b.answer("s", asked[1], "alice", journal.AllowOnce)
		synctest.Wait()
		if got := ids(box.Page(&first[1], 9)); !slices.Equal(got, asked[2:]) {
			t.Errorf("behind it are %v, want %v", got, asked[2:])
		}
		var seen []string
		for item := range box.All() {
			if seen = append(seen, item.ID); len(seen) == 1 {
				asked = append(asked, b.ask("s", inboxtest.Spec{}))
				synctest.Wait()
			}
		}
		if want := slices.Delete(asked, 1, 2); !slices.Equal(seen, want) {
			t.Errorf("all are %v, want %v", seen, want)
		}
	})
}
