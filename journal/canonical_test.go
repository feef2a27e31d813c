package journal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"decisionjournal/journal"
)

func TestCanonical(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"word", "true", "true"},
		{"blanks", " \t\r\n[ 1 ,\n2 ]\n", "[1,2]"},
		{"blanks in an object", ` { "a" : 1 , "b" : { } } `, `{"a":1,"b":{}}`},
		{"blanks in a string stay", `" a  b "`, `" a  b "`},
		{"keys by bytes", `{"b":1,"a":2,"B":3,"":4,"ab":5}`, `{"":4,"B":3,"a":2,"ab":5,"b":1}`},
		// By UTF-16 units, as RFC 8785 sorts, the last two would change places.
		{"keys beyond the BMP by UTF-8 bytes", `{"\ud83d\ude00":1,"\uffee":2,"é":3,"z":4}`, "{\"z\":4,\"é\":3,\"\uffee\":2,\"😀\":1}"},
		{"keys sort by what they say", `{"\u0062":1,"a":2}`, `{"a":2,"b":1}`},
		{"arrays keep their order", `[3,1,2]`, `[3,1,2]`},
		{"shortest escapes", `"\u0041\/\u00e9\u2028\u003c\u007f"`, "\"A/é\u2028<\x7f\""},
		{"two-letter escapes", `"\u0008\u0009\u000a\u000c\u000d\u0022\u005c"`, `"\b\t\n\f\r\"\\"`},
		{"other controls in lower case", `"\u0000\u001F\u000B"`, `"\u0000\u001f\u000b"`},
		{"escaped pair", `"\uD83D\uDE00"`, `"😀"`},
		{"replacement character said outright", `"\ufffd"`, "\"\ufffd\""},
		{"big integer", `9007199254740993`, `9007199254740993`},
		{"decimal zero", `1.0`, `1.0`},
		{"minus zero", `-0`, `-0`},
		{"beyond a float", `1e400`, `1e400`},
		{"exponents as written", `[1E+2,1e2,100]`, `[1E+2,1e2,100]`},
		{"as deep as may be", nested(journal.MaxDepth, ""), nested(journal.MaxDepth, "")},
		{"a scalar that deep", nested(journal.MaxDepth, "1"), nested(journal.MaxDepth, "1")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := journal.Canonical([]byte(tt.in))
			if err != nil || string(got) != tt.want {
				t.Errorf("Canonical(%s) = %s, %v; want %s", tt.in, got, err, tt.want)
			}
			if !journal.IsCanonical([]byte(tt.want)) {
				t.Errorf("%s is not canonical", tt.want)
			}
			if journal.IsCanonical([]byte(tt.in)) != (tt.in == tt.want) {
				t.Errorf("IsCanonical(%s) = %t", tt.in, tt.in != tt.want)
			}
		})
	}
}

func nested(levels int, inside string) string {
	return strings.Repeat("[", levels) + inside + strings.Repeat("]", levels)
}

func TestCanonicalRefuses(t *testing.T) {
	for _, tt := range []struct{ name, in, why string }{
		{"nothing", ``, "ends early"},
		{"blanks alone", " \n", "ends early"},
		{"two values", `1 2`, "more text"},
		{"trailing comma", `[1,]`, "no value"},
		{"trailing comma in an object", `{"a":1,}`, "key in quotes"},
		{"leading comma", `[,1]`, "no value"},
		{"no comma", `[1 2]`, "want ,"},
		{"no colon", `{"a" 1}`, "want :"},
		{"bare key", `{a:1}`, "key in quotes"},
		{"open array", `[1`, "want ,"},
		{"open object", `{"a":1`, "want ,"},
		{"open string", `"a`, "ends in a string"},
		{"open escape", `"\`, "escape"},
		{"open \\u", `"\u00`, "escape"},
		{"bad \\u", `"\u00g0"`, "escape"},
		{"signed \\u", `"\u+041"`, "escape"},
		{"unknown escape", `"\x41"`, "escape"},
		{"control character", "\"a\x01\"", "control"},
		{"control character past an escape", "\"\\n\n\"", "control"},
		{"lone high surrogate", `"\ud83d"`, "surrogate"},
		{"lone low surrogate", `"\ude00"`, "surrogate"},
		{"high surrogate before text", `"\ud83dx"`, "surrogate"},
		{"high surrogate before another escape", `"\ud83d\n"`, "surrogate"},
		{"two high surrogates", `"\ud83d\ud83d"`, "surrogate"},
		{"surrogates in UTF-8", "\"\xed\xa0\xbd\"", "UTF-8"},
		{"invalid UTF-8", "\"\xff\"", "UTF-8"},
		{"invalid UTF-8 past an escape", "\"\\n\xff\"", "UTF-8"},
		{"invalid UTF-8 in a key", "{\"\xc3\":1}", "UTF-8"},
		{"overlong UTF-8", "\"\xc0\x80\"", "UTF-8"},
		{"duplicate key", `{"a":1,"b":2,"a":1}`, "twice"},
		{"duplicate key in escapes", `{"a":1,"\u0061":2}`, "twice"},
		{"duplicate key inside", `[{"x":{"a":1,"a":1}}]`, "twice"},
		{"leading zero", `01`, "number"},
		{"leading plus", `+1`, "no value"},
		{"no digit", `-`, "number"},
		{"no decimals", `1.`, "number"},
		{"no whole", `.5`, "no value"},
		{"no exponent", `1e+`, "number"},
		{"not a number", `NaN`, "no value"},
		{"word cut short", `nul`, "no value"},
		{"capital word", `True`, "no value"},
		{"byte order mark", "\ufeff1", "no value"},
		{"NUL", "\x00", "no value"},
		{"NUL past a value", "1\x00", "more text"},
		{"no-break space", "\u00a01", "no value"},
		{"too deep", nested(journal.MaxDepth+1, ""), "deeper"},
		{"far too deep", strings.Repeat("[", 1<<20), "deeper"},
		{"too deep in objects", strings.Repeat(`{"a":`, journal.MaxDepth+1) + "1" + strings.Repeat("}", journal.MaxDepth+1), "deeper"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := journal.Canonical([]byte(tt.in))
			if err == nil {
				t.Fatalf("Canonical(%.80q) = %.80q", tt.in, got)
			}
			if !strings.Contains(err.Error(), tt.why) {
				t.Errorf("error %q does not say %q", err, tt.why)
			}
			if journal.IsCanonical([]byte(tt.in)) {
				t.Error("IsCanonical")
			}
		})
	}
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":[1,2.0,-0,1e400],"a":"\u00e9\ud83d\ude00\/"}`, `{"a":1,"\u0061":2}`, "[[[[]]]]", ` "x" `, `{"\n":0,"\u0001":{"\"":[]},"\u001f~":"\b\\"}`, `"\u001F"`, `"\u0008"`, `"\/"`, "\"\xff\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		built, err := journal.Canonical(append([]byte(" "), in...)) // never canonical, so it is built anew
		if is := err == nil && bytes.Equal(built, in); is != journal.IsCanonical(in) {
			t.Fatalf("IsCanonical(%q) is %t; its canonical form is %q, %v", in, !is, built, err)
		}
		once, err := journal.Canonical(in)
		if err != nil {
			return
		}
		twice, err := journal.Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("again %q, %v; once %q", twice, err, once)
		}
		if !journal.IsCanonical(once) {
			t.Fatalf("%q is not canonical", once)
		}
		before, err := parse(in)
		if err != nil {
			t.Fatalf("encoding/json refuses %q: %v", in, err)
		}
		after, err := parse(once)
		if err != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("encoding/json reads %v, then %v, %v", before, after, err)
		}
	})
}

// parse is what encoding/json reads, numbers as they are spelled.
func parse(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return v, d.Decode(&v)
}

func TestDigest(t *testing.T) {
	const want = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := journal.Digest(nil); got != want {
		t.Errorf("Digest(nil) = %s", got)
	}
}

func TestCommitIsCanonicalOnlyUpToTheDepth(t *testing.T) {
	for _, tt := range []struct {
		levels int
		ok     bool
	}{{journal.MaxDepth - 3, true}, {journal.MaxDepth - 2, false}, {journal.MaxDepth, false}} {
		t.Run(fmt.Sprint(tt.levels), func(t *testing.T) {
			body := &journal.Call{Kind: journal.CallTool, Tool: "t", Arguments: json.RawMessage(nested(tt.levels, ""))}
			commit := journal.Commit{Time: at(0), Events: []journal.Event{journal.NewEvent("01ARZ3NDEKTSV4RRFFQ69G5FAV", body)}}
			b, err := commit.Encode()
			if (err == nil) != tt.ok {
				t.Fatalf("Encode: %v", err)
			}
			if _, derr := journal.Decode(b); tt.ok && derr != nil {
				t.Errorf("Decode: %v", derr)
			}
		})
	}
}
