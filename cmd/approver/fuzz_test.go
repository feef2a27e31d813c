package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// FuzzAnswerFlags reads an answer's command line: what is taken is what an answer
// can hold, and what is not is named in one line.
func FuzzAnswerFlags(f *testing.F) {
	f.Add("allow-once", "", "", 0)
	f.Add("always-allow", `{"tool":"a"}`, "24h", 3)
	f.Add("always-deny", "[]", "7d", -1)
	f.Add("always-deny", "{", "2030-01-31T18:00:00+01:00", 1)
	f.Add("perhaps", "null", "-1h", 1<<31)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, action, rule, expires string, uses int) {
		flags := answerFlags{rules: []string{rule}, expires: expires, uses: uses}
		req, err := flags.request(action, true, uses != 0, now)
		if err != nil {
			if exitCode(err) != exitMisuse || strings.Contains(err.Error(), "\n") && !strings.ContainsAny(action+rule+expires, "\r\n") {
				t.Fatalf("it says %q", err)
			}
			return
		}
		if len(req.Rules) != 1 || !json.Valid(req.Rules[0]) || req.Uses < 0 || req.Action != action {
			t.Fatalf("%+v", req)
		}
		if req.Expires.IsZero() != (expires == "") && expires != "0001-01-01T00:00:00Z" {
			t.Fatalf("--expires %q is %s", expires, req.Expires)
		}
	})
}
