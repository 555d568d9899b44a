package doctor

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
)

const chat = `{"model":"m","messages":[
{"role":"user","content":"go"},
{"role":"assistant","content":"yes","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
{"role":"tool","tool_call_id":"1","content":"one {[\"two"}],"tools":[{"type":"function","function":{"name":"f"}}],"stop":["a"]}`

func TestMend(t *testing.T) {
	for name, c := range map[string]struct{ upTo, want string }{
		"in a text":         {`"content":"one {[\"tw`, chat[:strings.Index(chat, ",\n{\"role\":\"tool\"")] + "]}"},
		"in a call":         {`"function":{"na`, chat[:strings.Index(chat, ",\n{\"role\":\"assistant\"")] + "]}"},
		"behind a message":  {`"arguments":"{}"}}]}`, chat[:strings.Index(chat, ",\n{\"role\":\"tool\"")] + "]}"},
		"behind the comma":  {`"arguments":"{}"}}]},`, chat[:strings.Index(chat, ",\n{\"role\":\"tool\"")] + "]}"},
		"behind them":       {`one {[\"two"}]`, chat[:strings.Index(chat, `,"tools"`)] + "}"},
		"in what follows":   {`"tools":[{"type":"fun`, chat[:strings.Index(chat, `,"tools"`)] + "}"},
		"in the last value": {`"stop":["a"`, chat[:strings.Index(chat, `,"stop"`)] + "}"},
	} {
		t.Run(name, func(t *testing.T) {
			data := []byte(chat[:strings.Index(chat, c.upTo)+len(c.upTo)])
			_, err := formats.Read(t.Context(), data)
			require.Error(t, err)
			m, err := Mend(t.Context(), data, formats.All()...)
			require.NoError(t, err)
			require.NotNil(t, m)
			require.Equal(t, c.want, string(m.Data))
			require.Equal(t, "openai-chat", m.Codec.Name())
			require.Equal(t, TornRecord, m.Finding.Kind)
			require.Equal(t, TornRecord, m.Change.Kind)
			require.Positive(t, m.Finding.Line)
			require.Less(t, m.Finding.Offset, int64(len(data))+1)
		})
	}
	for name, data := range map[string]string{
		"whole": chat, "empty": "", "lines": "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"us", "no JSON": "what", "wrong before": `{"messages":[{"role":"user" "content":"a"},{"ro`,
		"mismatched": `{"messages":[{"role":"user"]`, "a log cut in its first line only": "{\"role\":\"us\n{\"role\":\"user\",\"content\":\"a\"}\n",
	} {
		m, err := Mend(t.Context(), []byte(data), formats.All()...)
		require.NoError(t, err, name)
		require.Nil(t, m, name)
	}
	for _, data := range []string{`{"messages":[{"role":"us`, `{"a":[1,2`, `[`} {
		m, err := Mend(t.Context(), []byte(data), formats.All()...)
		require.Nil(t, m)
		var we *wire.Error
		require.ErrorAs(t, err, &we)
		require.ErrorContains(t, err, "whole copy")
	}
}

// Wherever a document ends, what was whole is still there, and after a repair
// nothing is left to do.
func TestMendEveryDocument(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	mended := 0
	for _, s := range sessions {
		if len(s.Files) > 0 || s.Tokens > 20_000 && os.Getenv("AGENTCOMPACT_FULL") != "1" {
			continue
		}
		data, err := os.ReadFile(s.File())
		require.NoError(t, err)
		if !json.Valid(data) {
			continue
		}
		t.Run(s.Path, func(t *testing.T) {
			data = bytes.TrimSpace(data)
			codec := codecOf(t, data)
			for part := 1; part <= 6; part++ {
				cut := data[:len(data)*part/6-1]
				m, err := Mend(t.Context(), cut, formats.All()...)
				if err != nil || m == nil || m.Codec.Name() != codec.Name() {
					continue // too little is left to tell what it was
				}
				mended++
				r, err := Repair(t.Context(), m.Codec, source(m.Data), &Options{CloseRunning: true, UniqueIDs: true})
				require.NoError(t, err)
				after, err := m.Codec.Read(t.Context(), content(t, r))
				require.NoError(t, err)
				requireSound(t, r, after)
				require.True(t, bytes.HasPrefix(cut, m.Data[:m.Finding.Offset]))
				before, err := m.Codec.Read(t.Context(), m.Data)
				require.NoError(t, err)
				requireSaid(t, before, after)
			}
		})
	}
	require.Greater(t, mended, 30)
}

func FuzzMend(f *testing.F) {
	for _, n := range []int{20, 60, 90, len(chat)} {
		f.Add([]byte(chat[:n]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Mend(t.Context(), data, formats.All()...)
		if err == nil && m != nil {
			if _, err := m.Codec.Read(t.Context(), m.Data); err != nil {
				t.Errorf("%q cannot be read: %v", m.Data, err)
			}
		}
	})
}
