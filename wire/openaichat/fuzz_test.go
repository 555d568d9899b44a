package openaichat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
)

var seeds = []string{
	`[{"role":"user","content":"a"}]`,
	`{"messages":[{"role":"system","content":"S"},{"role":"user","content":null}],"tools":[{}]}`,
	"{\"role\":\"user\",\"content\":\"a\"}\n\n7\n{\"role\":\"assistant\",\"content\":[{\"type\":\"text\"}]}{\"role\":\"tool\"}\n{\"ro",
	`{"info":{"model_stats":{}},"messages":[{"role":"assistant","tool_calls":[{"id":1}],"extra":{"response":{"usage":{"prompt_tokens":1}}}},{"role":"exit"}]}`,
	`{"trajectory":[],"history":[{"role":"tool","tool_call_ids":["a","b"],"content":"x","agent":1}]}`,
	`[{"traj":[{"role":"function","name":"f","content":"x"}]},{"messages":[]}]`,
	`{"request":{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}}`,
	"\xef\xbb\xbf[", `{"messages":[{"role":"user","content":"\ud83d"}]}`, `{"a":"\`,
}

// Whatever the bytes: no panic; an error is a wire.Error; a file that is read
// is written back as it was, and its request is valid.
func FuzzRead(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, data []byte) {
		Codec{}.Detect(data, true)
		Codec{}.Detect(data[:len(data)/2], false)
		file, err := Codec{}.Read(ctx, data)
		if err != nil {
			e, ok := errors.AsType[*wire.Error](err)
			if !ok || e.Detail == "" || e.Offset < 0 || e.Offset > int64(len(data)) {
				t.Fatalf("error %v", err)
			}
			return
		}
		for i, c := range file.Conversations {
			var buf bytes.Buffer
			if err := file.Writer.Write(ctx, &buf, i, everything(c)); err != nil || !bytes.Equal(buf.Bytes(), data) {
				t.Fatalf("conversation %d: %v\n%q\n%q", i, err, data, buf.Bytes())
			}
			s, err := session.Open(ctx, session.NewMemoryStore(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := wire.Import(ctx, s, c); err != nil {
				t.Fatal(err)
			}
			for _, opts := range []*RequestOptions{nil, {ModelCall: true, StrictAlternation: true, MaxBytes: 100}} {
				r, err := BuildRequest(s.View(), opts)
				if err != nil {
					t.Fatal(err)
				}
				checks := Checks{UniqueIDs: true}
				if opts != nil {
					checks.ModelCall, checks.StrictAlternation = true, true
				}
				if v := ValidateWith(r.Body(), checks); v != nil {
					t.Fatalf("%v\n%s", v, r.Body())
				}
			}
			s.Close()
		}
	})
}

// The validator takes any bytes, and what it passes is JSON with messages.
func FuzzValidate(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v := ValidateWith(data, Checks{true, true, true})
		if v != nil {
			return
		}
		var body struct{ Messages []map[string]any }
		if err := json.Unmarshal(data, &body); err != nil || len(body.Messages) == 0 {
			t.Fatalf("passed: %q (%v)", data, err)
		}
	})
}
