package codex

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
)

func TestDetectNothingElse(t *testing.T) {
	all, err := testdata.Sessions()
	require.NoError(t, err)
	n := 0
	for _, s := range all {
		if s.Format == Format || len(s.Files) > 0 {
			continue
		}
		data, err := os.ReadFile(s.File())
		require.NoError(t, err)
		require.Equal(t, wire.No, Codec{}.Detect(data, true), s.Path)
		n++
	}
	require.Positive(t, n)
	for name, data := range map[string]string{
		"qwen": `{"uuid":"a","parentUuid":null,"type":"user","sessionId":"s","message":{"role":"user","parts":[{"text":"hi"}]}}` + "\n",
		"qwen beginning with a system record": `{"uuid":"a","parentUuid":null,"type":"system","sessionId":"s"}` + "\n" +
			`{"uuid":"b","parentUuid":"a","type":"assistant","message":{"role":"model","parts":[]}}` + "\n",
		"pi":             `{"type":"session","version":3,"id":"s"}` + "\n" + `{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"hi"}}`,
		"gemini":         `{"sessionId":"s","projectHash":"h","messages":[]}`,
		"harness":        `{"type":"session","id":"s"}` + "\n" + `{"type":"user/message","data":{"message":{"content":"hi"}}}`,
		"chat":           `{"role":"user","content":"hi"}`,
		"nothing":        "",
		"broken":         "{\x00",
		"pretty printed": "{\n \"uuid\": \"a\"\n}",
	} {
		require.Equal(t, wire.No, Codec{}.Detect([]byte(data), true), name)
	}
}

func TestDetectHead(t *testing.T) {
	for _, s := range transcripts(t) {
		for _, n := range []int{1 << 10, 4 << 10, 64 << 10} {
			if n > len(s.data) {
				continue
			}
			got := Codec{}.Detect(s.data[:n], false)
			require.True(t, got >= wire.Likely, "%s: %d of the first %d bytes", s.Path, got, n)
		}
	}
}
