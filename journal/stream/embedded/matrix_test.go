package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"decisionjournal/journal"
)

// What the journal makes of a message.
const (
	refused = "refused" // by the server: nothing is stored
	void    = "void"    // stored, and without effect to every reader
	valid   = "valid"
	newer   = "newer" // stored, and the session is shown only, until a repair
)

// scene is a session in which anything of version 1 can be written next by
// someone: its run is the tried principal's where its role may open one.
type scene struct {
	t    *testing.T
	h    *Handle
	by   journal.Principal
	st   *journal.State
	w    *journal.Writer // a decider's
	mine *journal.Writer // the tried principal's, or the decider's where that opens no run
	made map[string]string
	gap  uint64 // a sequence past the head that the session does not hold
}

const (
	somePolicy = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	anyRule    = `{"decision":"allow","tool":"t"}`
)

func raise(t *testing.T, h *Handle, name string, role journal.Role) *scene {
	t.Helper()
	p, err := find(h.node.dir, role, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, h: h, by: journal.Principal{Role: role, Actor: p.actor}, st: journal.NewState(journal.SessionChain(name)), made: map[string]string{}}
	s.w = writerOf(t, h, journal.RoleDecider, "decider")
	s.mine = s.w
	if role == journal.RoleAgent || role == journal.RoleAdmin {
		log, _, err := h.As(t.Context(), role)
		if err != nil {
			t.Fatal(err)
		}
		s.mine = writerOf(t, log, role, p.actor)
	}
	s.put(s.mine, "run", &journal.Opened{Agent: "main", Run: "r1", Kind: journal.KindSession})
	s.put(s.w, "adopt", &journal.Adopt{Digest: somePolicy})
	for _, name := range []string{"call", "waiterless", "asked", "allowed", "started", "undecided"} {
		s.put(s.mine, name, &journal.Call{Agent: "main", Run: "r1", Kind: journal.CallTool, Tool: "t", Arguments: json.RawMessage(`{}`), Digest: journal.Digest([]byte(`{}`))})
	}
	s.put(s.mine, "detach", &journal.Detach{Call: s.made["waiterless"], Run: "r1", Reason: "x"})
	s.put(s.w, "question", s.question("asked"))
	s.put(s.w, "grant", importedGrant())
	s.put(s.w, "allow", s.decision("allowed"))
	s.put(s.w, "allow2", s.decision("started"))
	s.put(s.mine, "start", s.start("started", "allow2"))
	last, err := h.Publish(t.Context(), journal.Subject{Chain: journal.SessionChain("elsewhere"), Role: journal.RoleDecider, Actor: "decider"}, lastOf(t, h, "elsewhere"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.gap = last
	return s
}

func lastOf(t *testing.T, log journal.Log, session string) (last uint64) {
	t.Helper()
	for m, err := range log.Load(t.Context(), journal.SessionChain(session), 0) {
		if err != nil {
			t.Fatal(err)
		}
		last = m.Seq
	}
	return last
}

func (s *scene) put(w *journal.Writer, name string, body journal.Body) {
	s.t.Helper()
	e := w.Event(body)
	if err := w.Append(s.t.Context(), s.st, w.Now(s.st), e); err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	s.made[name] = e.ID
}

func (s *scene) question(call string) *journal.Question {
	c := s.st.Call(s.made[call])
	q := &journal.Question{Call: c.Mark.ID, Attempt: 1, Reason: journal.AskNoMatch, Verdict: json.RawMessage(`{}`), Policy: somePolicy, Engine: "e",
		Digest: c.Digest, Facts: json.RawMessage(`{}`), Suggestion: []json.RawMessage{}, Alternatives: [][]json.RawMessage{},
		Need: []journal.Stage{{Of: []string{}, Count: 1}}, Who: []journal.Entitlement{}, Frontends: []journal.Frontend{}, View: json.RawMessage(`{}`)}
	shown, err := q.ShownDigest()
	if err != nil {
		s.t.Fatal(err)
	}
	q.Shown = shown
	return q
}

func (s *scene) decision(call string) *journal.Decision {
	c := s.st.Call(s.made[call])
	return &journal.Decision{Call: c.Mark.ID, Attempt: 1, Outcome: journal.Allow, By: []journal.Cause{{Kind: journal.ByRule, Rule: json.RawMessage(anyRule)}},
		Policy: somePolicy, Engine: "e", Digest: c.Digest, Facts: json.RawMessage(`{}`)}
}

func (s *scene) start(call, decision string) *journal.Start {
	return &journal.Start{Call: s.made[call], Attempt: 1, Run: "r1", Decision: s.made[decision], Digest: s.st.Call(s.made[call]).Digest}
}

func importedGrant() *journal.Grant {
	return &journal.Grant{Rules: []json.RawMessage{json.RawMessage(anyRule)}, Origin: &journal.Origin{Session: "book", Grant: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}}
}

// bodies is one body of each type that the scene has a place for.
func (s *scene) bodies() map[journal.Type]journal.Body {
	call := func(name string) string { return s.made[name] }
	return map[journal.Type]journal.Body{
		journal.TypeOpened:   &journal.Opened{Agent: "another", Run: "r2", Kind: journal.KindSession},
		journal.TypeClosed:   &journal.Closed{Agent: "main", Run: "r1"},
		journal.TypeEnded:    &journal.Ended{Reason: "x"},
		journal.TypeAdopt:    &journal.Adopt{Digest: journal.Digest(nil)},
		journal.TypeCall:     &journal.Call{Agent: "main", Run: "r1", Kind: journal.CallTool, Tool: "t", Arguments: json.RawMessage(`{}`), Digest: somePolicy},
		journal.TypeAttach:   &journal.Attach{Call: call("waiterless"), Run: "r1"},
		journal.TypeDetach:   &journal.Detach{Call: call("call"), Run: "r1", Reason: "x"},
		journal.TypeQuestion: s.question("undecided"),
		journal.TypeAnswer:   &journal.Answer{Question: call("question"), Action: journal.AllowOnce, Shown: s.st.Question(call("question")).Shown, By: s.by.Actor},
		journal.TypeDecision: s.decision("undecided"),
		journal.TypeGrant:    importedGrant(),
		journal.TypeRevoke:   &journal.Revoke{Grant: call("grant"), Reason: "x"},
		journal.TypeStart:    s.start("allowed", "allow"),
		journal.TypeResult:   &journal.Result{Call: call("started"), Attempt: 1, Run: "r1", Status: journal.StatusOK, Digest: journal.Digest(nil)},
		journal.TypeLapse:    &journal.Lapse{Grant: call("grant"), Reason: journal.LapseBook},
		journal.TypeRepair:   &journal.Repair{Missing: []uint64{s.gap}, Reason: "x"},
	}
}

// commit is what the tried principal would append next, if it is to be valid.
func (s *scene) commit(events ...journal.Event) *journal.Commit {
	return &journal.Commit{Session: s.st.Chain().Session(), N: s.st.N() + 1, After: s.st.LastSeq(), Prev: s.st.Prev(),
		Role: s.by.Role, Actor: s.by.Actor, Time: s.w.Now(s.st), Events: events}
}

func (s *scene) encode(c *journal.Commit) []byte {
	s.t.Helper()
	data, err := c.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

func (s *scene) info() journal.Event { return note(s.t, s.w.NewID()) }

func note(t *testing.T, id string) journal.Event {
	t.Helper()
	e, err := journal.InfoEvent(id, "note", json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// send has the tried principal send a message by its own key, and says what
// became of it, as a reader who begins anew sees it.
func (s *scene) send(subject string, headers nats.Header, data []byte) string {
	s.t.Helper()
	before, err := s.h.Last(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	ack := s.deliver(&nats.Msg{Subject: subject, Header: headers, Data: data})
	after, err := s.h.Last(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if after == before {
		if ack != "" && !strings.Contains(ack, `"error"`) {
			s.t.Errorf("acknowledged and not stored: %s", ack)
		}
		return refused
	}
	m, found, err := s.h.At(s.t.Context(), after)
	if err != nil || !found || after != before+1 {
		s.t.Fatalf("stored %d messages; %t, %v", after-before, found, err)
	}
	if m.Subject != subject {
		s.t.Errorf("sent to %s and stored under %s", subject, m.Subject)
	}
	return s.judge(m)
}

// deliver sends a message and returns the server's answer, or "" if it refuses
// to hear of it.
func (s *scene) deliver(m *nats.Msg) string {
	s.t.Helper()
	a := attack(s.t, s.h, s.by.Role)
	defer a.Close()
	m.Reply = a.inbox + ".ack"
	sub, err := a.SubscribeSync(m.Reply)
	if err != nil {
		s.t.Fatal(err)
	}
	a.send(m)
	if err := a.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return "" // said before the server answered the flush
	}
	answer, err := sub.NextMsg(patience)
	if err != nil {
		s.t.Fatalf("%s: %v", m.Subject, err)
	}
	return string(answer.Data)
}

func (s *scene) judge(stored journal.Message) string {
	s.t.Helper()
	chain := s.st.Chain()
	if sub, err := journal.ParseSubject(stored.Subject); err == nil {
		chain = sub.Chain
	}
	st, outcome := journal.NewState(chain), void // what no chain reads has no effect
	for m, err := range s.h.Load(s.t.Context(), chain, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		v, why := st.Apply(m)
		if m.Seq != stored.Seq {
			continue
		}
		outcome = map[journal.Verdict]string{journal.VoidMsg: void, journal.Valid: valid, journal.Newer: newer}[v]
		if outcome == "" {
			s.t.Errorf("%s: %s", v, why)
		}
	}
	return outcome
}

func (s *scene) own() string {
	return journal.Subject{Chain: s.st.Chain(), Role: s.by.Role, Actor: s.by.Actor}.String()
}

func rightHeaders(st *journal.State) nats.Header {
	return nats.Header(journal.ExpectHeaders(st.Chain(), st.LastSeq()))
}

// TestMatrixOfEvents: which role can make which event true.
func TestMatrixOfEvents(t *testing.T) {
	columns := []journal.Role{journal.RoleAgent, journal.RoleDecider, journal.RoleApprover, journal.RoleAdmin, journal.RoleAuditor}
	want := map[journal.Type][]string{
		journal.TypeOpened:   {valid, valid, void, valid, refused},
		journal.TypeClosed:   {valid, valid, void, valid, refused},
		journal.TypeEnded:    {void, valid, void, valid, refused},
		journal.TypeAdopt:    {void, valid, void, valid, refused},
		journal.TypeCall:     {valid, valid, void, valid, refused},
		journal.TypeAttach:   {valid, valid, void, valid, refused},
		journal.TypeDetach:   {valid, valid, void, valid, refused},
		journal.TypeQuestion: {void, valid, void, valid, refused},
		journal.TypeAnswer:   {void, void, valid, void, refused}, // an admin's only because its own run asked
		journal.TypeDecision: {void, valid, void, valid, refused},
		journal.TypeGrant:    {void, valid, void, valid, refused},
		journal.TypeRevoke:   {void, void, valid, valid, refused},
		journal.TypeStart:    {valid, valid, void, valid, refused},
		journal.TypeResult:   {valid, valid, void, valid, refused},
		journal.TypeLapse:    {void, valid, void, valid, refused},
		journal.TypeRepair:   {void, void, void, valid, refused},
		journal.TypePolicy:   {void, void, void, void, refused}, // not on a session's chain
		journal.TypeActivate: {void, void, void, void, refused},
	}
	policies := map[journal.Type][]string{
		journal.TypePolicy:   {refused, valid, refused, valid, refused},
		journal.TypeActivate: {refused, valid, refused, valid, refused},
		journal.TypeRepair:   {refused, void, refused, valid, refused},
		journal.TypeOpened:   {refused, void, refused, void, refused},
		journal.TypeDecision: {refused, void, refused, void, refused},
	}
	eachWay(t, "", func(t *testing.T, listen string) {
		h := open(t, Config{Dir: t.TempDir() + "/j", User: "ann", Listen: listen})
		n := 0
		for i, role := range columns {
			for _, kind := range journal.Types() {
				n++
				s := raise(t, h, fmt.Sprintf("s%d", n), role)
				body := s.bodies()[kind]
				if body == nil {
					body = s.policyBodies()[kind]
				}
				if got := s.send(s.own(), rightHeaders(s.st), s.encode(s.commit(s.w.Event(body)))); got != want[kind][i] {
					t.Errorf("%s by %s: %s, want %s", kind, role, got, want[kind][i])
				}
			}
			for _, kind := range slices.Sorted(maps.Keys(policies)) {
				n++
				s := raise(t, h, fmt.Sprintf("s%d", n), role)
				if got := s.onPolicies(kind); got != policies[kind][i] {
					t.Errorf("%s by %s on the policy chain: %s, want %s", kind, role, got, policies[kind][i])
				}
			}
		}
		wantSettings(t, h)
	})
}

func (s *scene) policyBodies() map[journal.Type]journal.Body {
	pol := journal.NewPolicyBytes([]byte("rules: []"))
	return map[journal.Type]journal.Body{journal.TypePolicy: pol, journal.TypeActivate: &journal.Activate{Name: "default", Digest: pol.Digest}}
}

// onPolicies tries a body at the head of the policy chain.
func (s *scene) onPolicies(kind journal.Type) string {
	s.t.Helper()
	body := s.policyBodies()[kind]
	if body == nil {
		body = s.bodies()[kind]
	}
	st, err := journal.LoadState(s.t.Context(), s.h, journal.PolicyChain())
	if err != nil {
		s.t.Fatal(err)
	}
	if st.Policy(s.policyBodies()[journal.TypePolicy].(*journal.PolicyBytes).Digest) == nil {
		add(s.t, s.w, st, s.policyBodies()[journal.TypePolicy])
	}
	last, err := s.h.Publish(s.t.Context(), journal.Subject{Chain: journal.SessionChain("elsewhere"), Role: journal.RoleDecider, Actor: "decider"}, lastOf(s.t, s.h, "elsewhere"), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if kind == journal.TypeRepair {
		body = &journal.Repair{Missing: []uint64{last}, Reason: "x"}
	}
	s.st = st
	return s.send(s.own(), rightHeaders(st), s.encode(s.commit(s.w.Event(body))))
}

// TestMatrixOfHeaders: what a commit that is right but for its headers comes to.
func TestMatrixOfHeaders(t *testing.T) {
	type edit = func(*scene, nats.Header) nats.Header
	with := func(pairs ...string) edit {
		return func(_ *scene, h nats.Header) nats.Header {
			for i := 0; i < len(pairs); i += 2 {
				h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
			}
			return h
		}
	}
	instead := func(pairs ...string) edit {
		return func(_ *scene, h nats.Header) nats.Header {
			for i := 0; i < len(pairs); i += 2 {
				h[pairs[i]] = []string{pairs[i+1]}
			}
			return h
		}
	}
	without := func(name string) edit {
		return func(_ *scene, h nats.Header) nats.Header { delete(h, name); return h }
	}
	rows := map[string]struct {
		headers edit
		want    string
	}{
		"right":                   {with(), valid},
		"right, and a message id": {with(journal.HeaderMsgID, "%fresh"), valid},
		"none":                    {func(*scene, nats.Header) nats.Header { return nil }, void},
		"a sequence behind":       {instead(journal.HeaderExpected, "1"), refused},
		"a sequence ahead":        {instead(journal.HeaderExpected, "99999"), refused},
		"a sequence that is none": {instead(journal.HeaderExpected, "last"), refused},
		"no sequence":             {without(journal.HeaderExpected), refused},
		"two sequences":           {with(journal.HeaderExpected, "1"), void},
		"under no filter": {func(s *scene, h nats.Header) nats.Header {
			delete(h, journal.HeaderExpectedFilter)
			h[journal.HeaderExpected] = []string{fmt.Sprint(s.lastOwn())}
			return h
		}, void},
		"under a filter of its own":   {instead(journal.HeaderExpectedFilter, "journal.s.nowhere.>", journal.HeaderExpected, "0"), void},
		"two filters":                 {with(journal.HeaderExpectedFilter, "journal.s.nowhere.>"), void},
		"the stream's last sequence":  {func(*scene, nats.Header) nats.Header { return nats.Header{"Nats-Expected-Last-Sequence": {"%last"}} }, void},
		"the same beside":             {with("Nats-Expected-Last-Sequence", "%last"), void},
		"a subject, sequence, time":   {with("Nats-Subject", "journal.s.s.admin.admin", "Nats-Sequence", "1", "Nats-Time-Stamp", "1970-01-01T00:00:00Z"), void},
		"another stream":              {with("Nats-Expected-Stream", "OTHER"), refused},
		"this stream":                 {with("Nats-Expected-Stream", "JOURNAL"), void},
		"a last message id":           {with("Nats-Expected-Last-Msg-Id", "x"), refused},
		"a rollup":                    {with("Nats-Rollup", "all"), refused},
		"a rollup of the subject":     {with("Nats-Rollup", "sub"), refused},
		"a time to live":              {with("Nats-TTL", "1s"), refused},
		"a schedule":                  {with("Nats-Schedule", "@at 2030-01-01T00:00:00Z", "Nats-Schedule-Target", "journal.s.s.admin.admin"), refused},
		"a batch":                     {with("Nats-Batch-Id", "b", "Nats-Batch-Sequence", "1", "Nats-Batch-Commit", "1"), refused},
		"a counter":                   {with("Nats-Incr", "1"), refused},
		"a trace to another's":        {with("Nats-Trace-Dest", "journal.s.s1.admin.root"), refused},
		"a marker's reason":           {with("Nats-Marker-Reason", "Purge"), void},
		"a status":                    {with("Status", "503"), void},
		"a request of another":        {with("Nats-Request-Info", forgedInfo), valid}, // taken off by the server
		"a header of no meaning":      {with("X", "y"), void},
		"a message id twice":          {with(journal.HeaderMsgID, "%fresh", journal.HeaderMsgID, "y"), void},
		"the names in lower case":     {func(_ *scene, h nats.Header) nats.Header { return lower(h) }, void},
		"the names in lower case too": {func(_ *scene, h nats.Header) nats.Header { return merge(h, lower(h)) }, void},
	}
	eachWriter(t, rows, func(s *scene, name string) {
		headers := rows[name].headers(s, rightHeaders(s.st))
		fill(s.t, s.h, headers)
		if got := s.send(s.own(), headers, s.encode(s.commit(s.info()))); got != rows[name].want {
			s.t.Errorf("%s, by %s: %s, want %s", name, s.by.Role, got, rows[name].want)
		}
	})
}

// eachWriter tries each row by each role that writes, each in a session of its own.
func eachWriter[R any](t *testing.T, rows map[string]R, try func(s *scene, name string)) {
	t.Helper()
	eachWay(t, "", func(t *testing.T, listen string) {
		h := open(t, Config{Dir: t.TempDir() + "/j", User: "ann", Listen: listen})
		for i, name := range slices.Sorted(maps.Keys(rows)) {
			for _, role := range []journal.Role{journal.RoleAgent, journal.RoleDecider, journal.RoleApprover, journal.RoleAdmin} {
				try(raise(t, h, fmt.Sprintf("s%d-%s", i, role), role), name)
			}
		}
		wantSettings(t, h)
	})
}

// lastOwn is the sequence of the last message under the tried principal's own subject.
func (s *scene) lastOwn() (last uint64) {
	s.t.Helper()
	for m, err := range s.h.Load(s.t.Context(), s.st.Chain(), 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		if m.Subject == s.own() {
			last = m.Seq
		}
	}
	return last
}

func lower(h nats.Header) nats.Header {
	out := nats.Header{}
	for k, v := range h {
		out[strings.ToLower(k)] = v
	}
	return out
}

func merge(a, b nats.Header) nats.Header {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// fill puts the stream's last sequence, and what was never used, where a header
// asks for it.
func fill(t *testing.T, h *Handle, headers nats.Header) {
	t.Helper()
	last, err := h.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		v[0] = strings.NewReplacer("%last", fmt.Sprint(last), "%fresh", fmt.Sprint("fresh", last)).Replace(v[0])
		headers[k] = v
	}
}

// TestMatrixOfBodies: what a commit with the right headers comes to, if
// something else in it is not right. It is the same for every role.
func TestMatrixOfBodies(t *testing.T) {
	edit := func(change func(c *journal.Commit)) func(*scene) []byte {
		return func(s *scene) []byte {
			c := s.commit(s.info())
			change(c)
			return s.encode(c)
		}
	}
	text := func(old, new string) func(*scene) []byte {
		return func(s *scene) []byte {
			data := string(s.encode(s.commit(s.info())))
			if !strings.Contains(data, old) {
				s.t.Fatalf("no %s in %s", old, data)
			}
			return []byte(strings.Replace(data, old, new, 1))
		}
	}
	bytesOf := func(b string) func(*scene) []byte { return func(*scene) []byte { return []byte(b) } }
	forbidden := func(s *scene) journal.Event { // on a session's chain to anyone
		return s.w.Event(s.policyBodies()[journal.TypeActivate])
	}
	rows := map[string]struct {
		body func(*scene) []byte
		want string
	}{
		"right":                    {edit(func(*journal.Commit) {}), valid},
		"another session":          {edit(func(c *journal.Commit) { c.Session = "other" }), void},
		"another role":             {edit(func(c *journal.Commit) { c.Role = otherRole(c.Role) }), void},
		"another actor":            {edit(func(c *journal.Commit) { c.Actor = "someone" }), void},
		"n behind":                 {edit(func(c *journal.Commit) { c.N-- }), void},
		"n ahead":                  {edit(func(c *journal.Commit) { c.N++ }), void},
		"after another":            {edit(func(c *journal.Commit) { c.After-- }), void},
		"prev of another":          {edit(func(c *journal.Commit) { c.Prev = somePolicy }), void},
		"no prev":                  {edit(func(c *journal.Commit) { c.Prev = "" }), void},
		"two minutes ahead":        {edit(func(c *journal.Commit) { c.Time = journal.At(c.Time.Add(2 * time.Minute)) }), void},
		"an hour back":             {edit(func(c *journal.Commit) { c.Time = journal.At(c.Time.Add(-time.Hour)) }), void},
		"an id used":               {func(s *scene) []byte { return s.encode(s.commit(note(s.t, s.made["call"]))) }, void},
		"an id twice":              {func(s *scene) []byte { e := s.info(); return s.encode(s.commit(e, e)) }, void},
		"right and forbidden":      {func(s *scene) []byte { return s.encode(s.commit(s.info(), forbidden(s))) }, void},
		"forbidden and right":      {func(s *scene) []byte { return s.encode(s.commit(forbidden(s), s.info())) }, void},
		"nothing":                  {bytesOf(""), void},
		"no JSON":                  {bytesOf("hello"), void},
		"no object":                {bytesOf("[]"), void},
		"an empty object":          {bytesOf("{}"), void},
		"a blank at the end":       {func(s *scene) []byte { return append(s.encode(s.commit(s.info())), ' ') }, void},
		"a member twice":           {text(`"actor":`, `"actor":"root","actor":`), void},
		"keys out of order":        {text(`"v":1`, `"a":1`), void},
		"invalid UTF-8":            {text(`"note"`, "\"no\xffte\""), void},
		"an escape not needed":     {text(`"note"`, `"\u006eote"`), void},
		"a number as text":         {text(`"n":`, `"n":"1`), void},
		"version 2":                {text(`"v":1`, `"v":2`), newer},
		"version 1.0":              {text(`"v":1`, `"v":1.0`), newer},
		"encrypted":                {text(`"events":`, `"enc":{},"events":`), newer},
		"a member of its own":      {text(`"events":`, `"debug":1,"events":`), newer},
		"an unknown type":          {text(`"info":true,`, ``), newer},
		"the mark on a known type": {text(`"type":"note"`, `"type":"ended"`), void},
	}
	eachWriter(t, rows, func(s *scene, name string) {
		if got := s.send(s.own(), rightHeaders(s.st), rows[name].body(s)); got != rows[name].want {
			s.t.Errorf("%s, by %s: %s, want %s", name, s.by.Role, got, rows[name].want)
		}
	})
}

func otherRole(r journal.Role) journal.Role {
	if r == journal.RoleAdmin {
		return journal.RoleDecider
	}
	return journal.RoleAdmin
}

// TestMatrixOfSubjects: a commit that is right but for where it is sent.
func TestMatrixOfSubjects(t *testing.T) {
	eachWay(t, "", func(t *testing.T, listen string) {
		h := open(t, Config{Dir: t.TempDir() + "/j", Listen: listen})
		for i, role := range roles {
			s := raise(t, h, fmt.Sprintf("s%d", i), role)
			own, session := string(role)+"."+s.by.Actor, s.st.Chain().Session()
			writes := role != journal.RoleAuditor
			for subject, stored := range map[string]bool{
				"journal.s." + session + "." + own + ".x":                                              false,
				"journal.s." + session + "." + string(role):                                            false,
				"journal.s." + session + "." + string(role) + ".other":                                 false,
				"journal.s." + session + "." + string(otherRole(role)) + "." + string(otherRole(role)): false,
				"journal.s." + own:                                 false,
				"journal.s.a.b." + own:                             false,
				"journal.x." + own:                                 false,
				"journal.checkpoint." + own:                        false,
				"journal." + own:                                   false,
				"journal.s.not!a!name." + own:                      writes, // the server knows no names
				"journal.s.policy." + own:                          writes, // a session like any other
				"journal.s." + strings.Repeat("n", 65) + "." + own: writes,
				"journal.s.another." + own:                         writes,
				"x":                                                false,
			} {
				got := s.send(subject, rightHeaders(s.st), s.encode(s.commit(s.info())))
				if want := map[bool]string{true: void, false: refused}[stored]; got != want {
					t.Errorf("%s to %s: %s, want %s", role, subject, got, want)
				}
			}
		}
		wantSettings(t, h)
	})
}
