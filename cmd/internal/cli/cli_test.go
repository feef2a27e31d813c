package cli_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"decisionjournal/cmd/internal/cli"
)

func TestJSONHidesNothing(t *testing.T) {
	var out bytes.Buffer
	a := &cli.App{Out: &out}
	text := "a\u202eb\u200bc\x7f\U000e0041ü\x1b"
	if err := a.PrintDocument(map[string]string{"text": text}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\u202e\u200b\x7f\x1b\U000e0041") || !strings.Contains(out.String(), "ü") {
		t.Errorf("printed %q", out.String())
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["text"] != text {
		t.Errorf("reads back as %q, %v", back["text"], err)
	}
}
