package journal_test

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"decisionjournal/journal"
)

// This file draws bodies of every type that their schemas accept. What a body
// refers to need not exist: schemas do not look at the chain.

func drawULID() *rapid.Generator[string] {
	return rapid.Custom(func(rt *rapid.T) string {
		var id ulid.ULID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "ulid"))
		return id.String()
	})
}

func drawName() *rapid.Generator[string] { return rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`) }

func drawSHA() *rapid.Generator[string] { return rapid.StringMatching(`sha256:[0-9a-f]{64}`) }

func drawKeyed() *rapid.Generator[string] {
	return rapid.StringMatching(`hmac:[A-Za-z0-9_-]{1,64}:[0-9a-f]{64}`)
}

func drawText() *rapid.Generator[string] { return rapid.StringN(1, 40, 160) }

func drawTime() *rapid.Generator[journal.Time] {
	return rapid.Custom(func(rt *rapid.T) journal.Time {
		seconds := rapid.Int64Range(0, 4_000_000_000).Draw(rt, "seconds")
		return journal.At(time.Unix(seconds, rapid.Int64Range(0, 999_999_999).Draw(rt, "nanoseconds")))
	})
}

// drawJSON draws any JSON value, in canonical form as everything stored is.
func drawJSON() *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(rt *rapid.T) json.RawMessage {
		raw, err := journal.Canonical([]byte(jsonText(rt, 3)))
		if err != nil {
			rt.Fatal(err)
		}
		return raw
	})
}

// jsonText draws a JSON text with no more than depth objects or arrays inside each other.
func jsonText(rt *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 5).Draw(rt, "kind")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(rt, "word")
	case 1:
		return rapid.SampledFrom([]string{"0", "-0", "1.0", "9007199254740993", "1e400", "-1.5E-7"}).Draw(rt, "number")
	case 2, 3:
		return quoted(rapid.StringN(0, 12, -1).Draw(rt, "string"))
	case 4:
		items := make([]string, rapid.IntRange(0, 3).Draw(rt, "length"))
		for i := range items {
			items[i] = jsonText(rt, depth-1)
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	var members []string
	for _, key := range rapid.SliceOfNDistinct(rapid.StringN(0, 6, -1), 0, 3, rapid.ID[string]).Draw(rt, "keys") {
		members = append(members, quoted(key)+":"+jsonText(rt, depth-1))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // no string fails
	}
	return string(b)
}

// drawBody draws a body of type kind.
func drawBody(rt *rapid.T, kind journal.Type) journal.Body {
	body := journal.NewBody(kind)
	drawStruct(rt, string(kind), reflect.ValueOf(body).Elem())
	fit(rt, body)
	return body
}

func drawStruct(rt *rapid.T, path string, v reflect.Value) {
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if options == "omitzero" && rapid.Bool().Draw(rt, "leave out "+name) {
			continue
		}
		drawValue(rt, path+"."+name, v.Field(i), options == "omitzero")
	}
}

func drawValue(rt *rapid.T, path string, v reflect.Value, optional bool) {
	switch dst := v.Addr().Interface().(type) {
	case *json.RawMessage:
		*dst = drawJSON().Draw(rt, path)
		return
	case *journal.Time:
		*dst = drawTime().Draw(rt, path)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(drawString(rt, path, v.Type(), optional))
	case reflect.Bool:
		v.SetBool(optional || rapid.Bool().Draw(rt, path))
	case reflect.Int:
		v.SetInt(rapid.Int64Range(1, 1<<53-1).Draw(rt, path))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64Range(1, 1<<53-1).Draw(rt, path))
	case reflect.Struct:
		drawStruct(rt, path, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		drawStruct(rt, path, v.Elem())
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(rt, path+" length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			drawValue(rt, path+"[]", v.Index(i), false)
		}
	default:
		rt.Fatalf("no generator for %s at %s", v.Type(), path)
	}
}

// enumerations are the listed values by Go type, spelled out here once more.
var enumerations = map[reflect.Type][]string{
	reflect.TypeFor[journal.SessionKind](): {"session", "book"},
	reflect.TypeFor[journal.CallKind]():    {"tool", "elicitation"},
	reflect.TypeFor[journal.Outcome]():     {"allow", "deny"},
	reflect.TypeFor[journal.CauseKind]():   {"rule", "grant", "answer", "lapse", "headless", "interrupted", "unusable", "error"},
	reflect.TypeFor[journal.Status]():      {"ok", "error", "not-run", "unknown"},
	reflect.TypeFor[journal.LapseReason](): {"deadline", "policy", "revoked", "expired", "overtaken", "book"},
	reflect.TypeFor[journal.AskReason]():   {"rule", "no-match", "unevaluable-path", "interrupted", "elicitation"},
}

func drawString(rt *rapid.T, path string, t reflect.Type, optional bool) string {
	if values := enumerations[t]; values != nil {
		return rapid.SampledFrom(values).Draw(rt, path)
	}
	switch path[strings.LastIndexByte(path, '.')+1:] {
	case "call", "question", "decision", "grant", "for", "id":
		return drawULID().Draw(rt, path)
	case "agent", "run", "name", "follows", "session", "by", "of[]", "for[]":
		return drawName().Draw(rt, path)
	case "digest", "policy", "shown":
		return drawSHA().Draw(rt, path)
	case "layer":
		if !optional && rapid.Bool().Draw(rt, "usual layer") {
			return ""
		}
		return drawName().Draw(rt, path)
	}
	if path == "opened.parent" {
		return drawName().Draw(rt, path)
	}
	return drawText().Draw(rt, path)
}

// fit makes the members of a body agree with each other.
func fit(rt *rapid.T, body journal.Body) {
	switch b := body.(type) {
	case *journal.Adopt:
		if b.Name == "" || b.Activation == 0 {
			b.Name, b.Activation = "", 0
		}
	case *journal.Call:
		if b.For != "" {
			b.Kind = journal.CallElicitation
		}
		if b.Masked != nil {
			b.Digest = drawKeyed().Draw(rt, "keyed digest")
		}
	case *journal.Question:
		fitQuestion(rt, b)
	case *journal.Decision:
		fitDecision(rt, b)
	case *journal.Grant:
		fitGrant(rt, b)
	case *journal.Lapse:
		fitLapse(rt, b)
	case *journal.Repair:
		b.Missing = rapid.SliceOfDistinct(rapid.Uint64Range(1, 1<<53-1), rapid.ID[uint64]).Draw(rt, "missing")
	case *journal.PolicyBytes:
		raw := rapid.SliceOf(rapid.Byte()).Draw(rt, "policy")
		b.Bytes, b.Digest = base64.StdEncoding.EncodeToString(raw), journal.Digest(raw)
	}
}

func fitQuestion(rt *rapid.T, b *journal.Question) {
	people := rapid.SliceOfNDistinct(drawName(), 0, 3, rapid.ID[string])
	b.Need = []journal.Stage{{Of: people.Draw(rt, "of"), Count: 1}}
	for i := range b.Who {
		b.Who[i].Of = people.Draw(rt, "who")
	}
	for i := range b.Frontends {
		b.Frontends[i].For = people.Draw(rt, "for")
	}
}

func fitDecision(rt *rapid.T, b *journal.Decision) {
	kinds := []journal.CauseKind{journal.ByRule, journal.ByGrant, journal.ByAnswer}
	if b.Outcome == journal.Deny {
		kinds = append(kinds, journal.ByLapse, journal.ByHeadless, journal.ByInterrupted, journal.ByUnusable, journal.ByError)
	}
	b.By = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) journal.Cause {
		c := journal.Cause{Kind: rapid.SampledFrom(kinds).Draw(rt, "kind")}
		switch c.Kind {
		case journal.ByRule:
			c.Rule = drawJSON().Draw(rt, "rule")
		case journal.ByGrant, journal.ByAnswer, journal.ByLapse, journal.ByUnusable:
			c.ID = drawULID().Draw(rt, "id")
		}
		return c
	}), 1, 3).Draw(rt, "by")
}

func fitGrant(rt *rapid.T, b *journal.Grant) {
	decision := rapid.SampledFrom([]string{"allow", "deny"}).Draw(rt, "decision")
	b.Rules = []json.RawMessage{json.RawMessage(`{"decision":"` + decision + `","tool":"t"}`)}
	b.Question, b.Origin = "", nil
	switch rapid.IntRange(0, 2).Draw(rt, "from") {
	case 0:
		b.Question = drawULID().Draw(rt, "question")
	case 1:
		b.Origin = &journal.Origin{Session: drawName().Draw(rt, "book"), Grant: drawULID().Draw(rt, "grant")}
	default:
		b.Origin = &journal.Origin{Import: drawText().Draw(rt, "import")}
	}
}

func fitLapse(rt *rapid.T, b *journal.Lapse) {
	id := drawULID().Draw(rt, "target")
	all := []journal.Lapse{
		{Question: id, Reason: journal.LapseDeadline}, {Question: id, Reason: journal.LapsePolicy},
		{Decision: id, Reason: journal.LapsePolicy}, {Decision: id, Reason: journal.LapseRevoked},
		{Decision: id, Reason: journal.LapseExpired}, {Decision: id, Reason: journal.LapseOvertaken},
		{Grant: id, Reason: journal.LapseExpired}, {Grant: id, Reason: journal.LapseBook},
	}
	*b = rapid.SampledFrom(all).Draw(rt, "lapse")
}

// drawCommit draws a commit around bodies.
func drawCommit(rt *rapid.T, bodies ...journal.Body) *journal.Commit {
	c := &journal.Commit{
		Session: drawName().Draw(rt, "session"),
		N:       rapid.Uint64Range(1, 1<<53-1).Draw(rt, "n"),
		After:   rapid.Uint64Range(0, 1<<53-1).Draw(rt, "after"),
		Role:    rapid.SampledFrom([]journal.Role{journal.RoleAgent, journal.RoleDecider, journal.RoleApprover, journal.RoleAdmin}).Draw(rt, "role"),
		Actor:   drawName().Draw(rt, "actor"),
		Time:    drawTime().Draw(rt, "time"),
	}
	if rapid.Bool().Draw(rt, "has a previous") {
		c.Prev = drawSHA().Draw(rt, "prev")
	}
	for _, b := range bodies {
		c.Events = append(c.Events, journal.NewEvent(drawULID().Draw(rt, "id"), b))
	}
	return c
}
