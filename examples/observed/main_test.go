package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestRun: a real SDK gets one span below the host's, and the metrics.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{
		`"Name": "compact demo-1"`, `"gen_ai.conversation.id"`, `"compaction.tokens.before"`, `"compaction.operations"`, `"compaction.duration"`,
		"The port is 8443.", "todo [ ] fuzz the parser",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the output has no %s", want)
		}
	}
	if n := strings.Count(got, `"Name": "compact demo-1"`); n != 1 {
		t.Errorf("%d spans of the compaction", n)
	}
	if t.Failed() {
		t.Log(got)
	}
}
