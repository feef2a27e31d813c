package journal_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"decisionjournal/journal"
	"decisionjournal/schemas"
)

const schemaID = "urn:decisionjournal:schema:v1:"

// compileSchemas compiles the schema of a commit and those of all events, by type.
func compileSchemas(t testing.TB) (commit *jsonschema.Schema, events map[journal.Type]*jsonschema.Schema) {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	add := func(id string, b []byte) {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if err := c.AddResource(id, doc); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range journal.Types() {
		b, ok := schemas.Event(string(kind))
		if !ok {
			t.Fatalf("there is no schema of %s", kind)
		}
		add(schemaID+string(kind), b)
	}
	add(schemaID+"commit", schemas.Commit())
	events = map[journal.Type]*jsonschema.Schema{}
	for _, kind := range journal.Types() {
		events[kind] = compile(t, c, schemaID+string(kind))
	}
	return compile(t, c, schemaID+"commit"), events
}

func compile(t testing.TB, c *jsonschema.Compiler, id string) *jsonschema.Schema {
	t.Helper()
	s, err := c.Compile(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fits(s *jsonschema.Schema, b []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

func TestSchemasAreOneForEachType(t *testing.T) {
	want := []string{"commit.json"}
	for _, kind := range journal.Types() {
		want = append(want, string(kind)+".json")
	}
	sort.Strings(want)
	got, err := fs.Glob(schemas.FS, "*")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, name := range []string{"commit", "", "nothing", "../schemas/call"} {
		if _, ok := schemas.Event(name); ok {
			t.Errorf("Event(%q) is a schema", name)
		}
	}
}

type schemaDoc struct {
	Schema      string                `json:"$schema"`
	ID          string                `json:"$id"`
	Title       string                `json:"title"`
	Description string                `json:"description"`
	Additional  *bool                 `json:"additionalProperties"`
	Required    []string              `json:"required"`
	Properties  map[string]*schemaDoc `json:"properties"`
	Items       *schemaDoc            `json:"items"`
	Ref         string                `json:"$ref"`
	Defs        map[string]*schemaDoc `json:"$defs"`
	Enum        []string              `json:"enum"`
}

// UnmarshalJSON also takes the schema false, as a schema without anything.
func (d *schemaDoc) UnmarshalJSON(b []byte) error {
	type plain schemaDoc
	if string(b) == "false" {
		return nil
	}
	return json.Unmarshal(b, (*plain)(d))
}

func readSchema(t *testing.T, kind journal.Type) *schemaDoc {
	t.Helper()
	b, _ := schemas.Event(string(kind))
	doc := new(schemaDoc)
	if err := json.Unmarshal(b, doc); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return doc
}

// TestSchemasAreTheGoTypes holds members, their optionality and enumerations of
// every Go type against its schema.
func TestSchemasAreTheGoTypes(t *testing.T) {
	for _, kind := range journal.Types() {
		t.Run(string(kind), func(t *testing.T) {
			doc := readSchema(t, kind)
			if doc.Schema != "https://json-schema.org/draft/2020-12/schema" || doc.ID != schemaID+string(kind) || doc.Title == "" || doc.Description == "" {
				t.Errorf("draft, id, title or description: %q %q %q %q", doc.Schema, doc.ID, doc.Title, doc.Description)
			}
			sameMembers(t, doc, doc, string(kind), reflect.TypeOf(journal.NewBody(kind)).Elem(), "id", "type")
		})
	}
}

func sameMembers(t *testing.T, root, doc *schemaDoc, path string, typ reflect.Type, more ...string) {
	t.Helper()
	members, required := slices.Clone(more), slices.Clone(more)
	for i := range typ.NumField() {
		name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		members = append(members, name)
		if options != "omitzero" {
			required = append(required, name)
		}
		sameType(t, root, doc.Properties[name], path+"."+name, typ.Field(i).Type)
	}
	if doc.Additional == nil || *doc.Additional {
		t.Errorf("%s: additionalProperties is not false", path)
	}
	sortStrings := cmpopts.SortSlices(strings.Compare)
	if diff := cmp.Diff(members, slices.Collect(maps.Keys(doc.Properties)), sortStrings); diff != "" {
		t.Errorf("%s: members (-Go +schema):\n%s", path, diff)
	}
	if diff := cmp.Diff(required, doc.Required, sortStrings, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: required (-Go +schema):\n%s", path, diff)
	}
	for name, p := range doc.Properties {
		if p.Description == "" {
			t.Errorf("%s.%s: no description", path, name)
		}
	}
}

func sameType(t *testing.T, root, doc *schemaDoc, path string, typ reflect.Type) {
	t.Helper()
	if doc == nil {
		t.Errorf("%s: not in the schema", path)
		return
	}
	if name, ok := strings.CutPrefix(doc.Ref, "#/$defs/"); ok {
		doc = root.Defs[name]
	}
	switch {
	case typ == reflect.TypeFor[journal.Time]() || typ == reflect.TypeFor[json.RawMessage]():
	case typ.Kind() == reflect.Pointer:
		sameType(t, root, doc, path, typ.Elem())
	case typ.Kind() == reflect.Struct:
		sameMembers(t, root, doc, path, typ)
	case typ.Kind() == reflect.Slice && doc.Items == nil:
		t.Errorf("%s: no items", path)
	case typ.Kind() == reflect.Slice:
		sameType(t, root, doc.Items, path+"[]", typ.Elem())
	default:
		if diff := cmp.Diff(enumerations[typ], doc.Enum); diff != "" {
			t.Errorf("%s: enum (-Go +schema):\n%s", path, diff)
		}
	}
}

// TestStoredFormOfEveryType draws bodies of every type: what Encode makes fits
// the schemas and decodes to the same.
func TestStoredFormOfEveryType(t *testing.T) {
	commitSchema, eventSchemas := compileSchemas(t)
	for _, kind := range journal.Types() {
		t.Run(string(kind), rapid.MakeCheck(func(rt *rapid.T) {
			commit := drawCommit(rt, drawBody(rt, kind))
			b, err := commit.Encode()
			if err != nil {
				rt.Fatal(err)
			}
			if err := fits(commitSchema, b); err != nil {
				rt.Fatalf("%s\n%v", b, err)
			}
			if err := fits(eventSchemas[kind], rawEvents(rt, b)[0]); err != nil {
				rt.Fatalf("%s\n%v", b, err)
			}
			got, err := journal.Decode(b)
			if err != nil {
				rt.Fatalf("%s\n%v", b, err)
			}
			if diff := cmp.Diff(commit, got); diff != "" {
				rt.Fatalf("decoded (-want +got):\n%s", diff)
			}
		}))
	}
}

func rawEvents(t rapid.TB, commit []byte) []json.RawMessage {
	var c struct {
		Events []json.RawMessage `json:"events"`
	}
	if err := json.Unmarshal(commit, &c); err != nil {
		t.Fatal(err)
	}
	return c.Events
}

// members is a JSON object taken apart.
type members map[string]json.RawMessage

func objectOf(t rapid.TB, b []byte) members {
	m := members{}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m members) canonical(t rapid.TB) []byte {
	b, err := json.Marshal(m)
	if err == nil {
		b, err = journal.Canonical(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWhatIsNoEvent changes one member of an event: Go and the schema both
// refuse it, and Go calls it newer exactly if a member or a listed value is unknown.
func TestWhatIsNoEvent(t *testing.T) {
	commitSchema, _ := compileSchemas(t)
	for _, kind := range journal.Types() {
		doc, samples := readSchema(t, kind), storedSamples(kind)
		check := func(name string, newer bool, change func(event members)) {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				for _, b := range samples {
					commit, event := objectOf(t, b), objectOf(t, rawEvents(t, b)[0])
					change(event)
					commit["events"] = json.RawMessage("[" + string(event.canonical(t)) + "]")
					refused(t, commitSchema, commit.canonical(t), newer)
				}
			})
		}
		for _, name := range doc.Required {
			check("without "+name, false, func(event members) { delete(event, name) })
		}
		for _, name := range slices.Sorted(maps.Keys(doc.Properties)) {
			if doc.Properties[name].Enum != nil {
				check("other "+name, true, func(event members) { event[name] = json.RawMessage(`"future"`) })
			}
			if name != "id" && name != "type" && !slices.Contains(doc.Required, name) && !anyJSON(kind, name) {
				check("empty "+name, false, func(event members) { event[name] = json.RawMessage(`""`) })
			}
		}
		check("unknown member", true, func(event members) { event["future"] = json.RawMessage("null") })
		check("unknown type", true, func(event members) { event["type"] = json.RawMessage(`"future"`) })
		check("marked info", false, func(event members) { event["info"] = json.RawMessage("true") })
		check("no ULID", false, func(event members) { event["id"] = json.RawMessage(`"01arz3ndektsv4rrffq69g5fav"`) })
	}
}

func anyJSON(kind journal.Type, name string) bool {
	typ := reflect.TypeOf(journal.NewBody(kind)).Elem()
	for i := range typ.NumField() {
		if got, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); got == name {
			return typ.Field(i).Type == reflect.TypeFor[json.RawMessage]()
		}
	}
	return false
}

// storedSamples are stored commits of one event each, the same in every run.
func storedSamples(kind journal.Type) [][]byte {
	stored := rapid.Custom(func(rt *rapid.T) []byte {
		b, err := drawCommit(rt, drawBody(rt, kind)).Encode()
		if err != nil {
			rt.Fatal(err)
		}
		return b
	})
	samples := make([][]byte, 10)
	for i := range samples {
		samples[i] = stored.Example(i)
	}
	return samples
}

func refused(t rapid.TB, commit *jsonschema.Schema, b []byte, newer bool) {
	if fits(commit, b) == nil {
		t.Fatalf("fits the schema: %s", b)
	}
	_, err := journal.Decode(b)
	if err == nil {
		t.Fatalf("decodes: %s", b)
	}
	if journal.IsNewer(err) != newer {
		t.Fatalf("newer is %t, want %t: %v\n%s", !newer, newer, err, b)
	}
}

// TestWhatIsNoCommit does the same to the envelope.
func TestWhatIsNoCommit(t *testing.T) {
	commitSchema, _ := compileSchemas(t)
	doc := new(schemaDoc)
	if err := json.Unmarshal(schemas.Commit(), doc); err != nil {
		t.Fatal(err)
	}
	samples := storedSamples(journal.TypeClosed)
	check := func(name string, newer bool, change func(commit members)) {
		t.Run(name, func(t *testing.T) {
			for _, b := range samples {
				commit := objectOf(t, b)
				change(commit)
				refused(t, commitSchema, commit.canonical(t), newer)
			}
		})
	}
	for _, name := range doc.Required {
		check("without "+name, false, func(c members) { delete(c, name) })
	}
	set := func(name, value string) func(members) {
		return func(c members) { c[name] = json.RawMessage(value) }
	}
	check("version 2", true, set("v", "2"))
	check("version 0", true, set("v", "0"))
	check("enc", true, set("enc", `"b64:AAAA"`))
	check("unknown member", true, set("future", "1"))
	check("no events", false, set("events", "[]"))
	check("events of no list", false, set("events", "{}"))
	check("an event of no object", false, set("events", "[1]"))
	check("negative n", false, set("n", "-1"))
	check("n of no number", false, set("n", `"1"`))
	check("n with decimals", false, set("n", "1.5"))
	check("n over 2^53-1", false, set("n", "9007199254740992"))
	check("time without decimals", false, set("time", `"2026-01-02T03:04:05Z"`))
	check("time in another zone", false, set("time", `"2026-01-02T03:04:05.000000000+01:00"`))
	check("no such day", false, set("time", `"2026-02-30T03:04:05.000000000Z"`))
	check("a leap second", false, set("time", `"2026-12-31T23:59:60.000000000Z"`))
}

// TestNewerWinsOverWrong: what a newer program wrote is never called merely
// wrong, wherever in the commit the sign of it stands.
func TestNewerWinsOverWrong(t *testing.T) {
	const event = `{"agent":"a","id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","run":"r","type":"closed"}`
	with := func(events, rest string) string {
		return `{"actor":"a","after":0,"events":[` + events + `],"n":1,"prev":"","role":"agent","session":"s",` + rest + `"v":1}`
	}
	const at = `"time":"2026-01-02T03:04:05.000000000Z",`
	decision := func(by string) string {
		return `{"attempt":1,"by":` + by + `,"call":"","digest":"","engine":"","facts":0,"id":"","message":"","outcome":"deny","policy":"","type":"decision"}`
	}
	for _, tt := range []struct {
		name, commit string
		newer        bool
	}{
		{"only wrong", with(event, `"time":"today",`), false},
		{"unknown member beside a wrong one", with(event, `"time":"today","u":1,`), true},
		{"second event newer", with(`{"id":1,"type":"closed"},{"id":"","type":"future"}`, at), true},
		{"enum in a list past a wrong item", with(decision(`[7,{"kind":"future"}]`), at), true},
		{"member in a list past a wrong item", with(decision(`[{"id":2,"kind":"rule","rule":1},{"kind":"rule","more":1}]`), at), true},
		{"only wrong items", with(decision(`[7,8]`), at), false},
		{"unknown type with an odd mark", with(`{"id":"","info":false,"type":"future"}`, at), true},
		{"known type with an odd mark", with(`{"agent":"a","id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","info":false,"run":"r","type":"closed"}`, at), false},
		{"other version and nothing else", `{"v":2}`, true},
		{"no version", `{}`, false},
		{"type of no text", with(`{"id":"","type":1}`, at), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := journal.Decode([]byte(tt.commit))
			if err == nil || journal.IsNewer(err) != tt.newer {
				t.Errorf("error %v, newer %t, want newer %t", err, journal.IsNewer(err), tt.newer)
			}
		})
	}
}

func TestInfoEventsFitTheSchema(t *testing.T) {
	commitSchema, _ := compileSchemas(t)
	rapid.Check(t, func(rt *rapid.T) {
		body := members{"note": drawJSON().Draw(rt, "note")}
		info, err := journal.InfoEvent(drawULID().Draw(rt, "id"), "seen", body.canonical(rt))
		if err != nil {
			rt.Fatal(err)
		}
		commit := drawCommit(rt)
		commit.Events = []journal.Event{info}
		b, err := commit.Encode()
		if err != nil {
			rt.Fatal(err)
		}
		if err := fits(commitSchema, b); err != nil {
			rt.Fatal(err)
		}
		got, err := journal.Decode(b)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(commit, got); diff != "" {
			rt.Fatalf("decoded (-want +got):\n%s", diff)
		}
	})
}
