package openaichat

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestValidate(t *testing.T) {
	const (
		user = `{"role":"user","content":"q"}`
		call = `{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		res  = `{"role":"tool","tool_call_id":"c","content":""}`
	)
	all := Checks{ModelCall: true, StrictAlternation: true, UniqueIDs: true}
	for _, tt := range []struct {
		name, in string
		rule     Rule
		message  int
		id       string
	}{
		{"valid", user + `,` + call + `,` + res, "", 0, ""},
		{"custom call", user + `,{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"custom","custom":{"name":"f","input":"x"}}]},` + res, "", 0, ""},
		{"refusal", user + `,{"role":"assistant","content":null,"refusal":"no"},` + user, "", 0, ""},
		{"result without call", user + `,` + res, R1, 1, "c"},
		{"result behind another message", user + `,` + call + `,` + user + `,` + res, R1, 3, "c"},
		{"no result", user + `,` + call + `,` + user, R2, 2, "c"},
		{"no result at the end", user + `,` + call, R2, 2, "c"},
		{"two results", user + `,` + call + `,` + res + `,` + res, R2, 3, "c"},
		{"id twice in a message", user + `,{"role":"assistant","content":"x","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":""}},{"id":"c","type":"function","function":{"name":"f","arguments":""}}]},` + res + `,` + res, R3, 1, "c"},
		{"id again", user + `,` + call + `,` + res + `,` + call + `,` + res, UniqueIDs, 3, "c"},
		{"late system", user + `,{"role":"assistant","content":"x"},{"role":"developer","content":"x"},` + user, R4, 2, ""},
		{"assistant first", `{"role":"system","content":"x"},{"role":"assistant","content":"x"},` + user, R5, 1, ""},
		{"system only", `{"role":"system","content":"x"}`, R5, 1, ""},
		{"nothing", ``, R5, 0, ""},
		{"assistant last", user + `,{"role":"assistant","content":"x"}`, R6, 1, ""},
		{"empty user", user + `,{"role":"assistant","content":"x"},{"role":"user","content":""}`, R7, 2, ""},
		{"empty list", `{"role":"user","content":[]}`, R7, 0, ""},
		{"list of an empty text", `{"role":"user","content":[{"type":"text","text":""}]}`, R7, 0, ""},
		{"empty assistant", user + `,{"role":"assistant","content":null},` + user, R7, 1, ""},
		{"bytes", "{\"role\":\"user\",\"content\":\"\xff\"}", R8, 0, ""},
		{"half a pair", `{"role":"user","content":"\ud83d x"}`, R8, 0, ""},
		{"the other half", `{"role":"user","content":"\\\ude00"}`, R8, 0, ""},
		{"neighbors", user + `,` + user, Alternation, 1, ""},
		{"no content", user + `,{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},` + res, Shape, 1, ""},
		{"content null", user + `,` + call + `,{"role":"tool","tool_call_id":"c","content":null}`, Shape, 2, ""},
		{"content a number", `{"role":"user","content":7}`, Shape, 0, ""},
		{"part without type", `{"role":"user","content":[{"text":"x"}]}`, Shape, 0, ""},
		{"picture without URL", `{"role":"user","content":[{"type":"image_url","image_url":{}}]}`, Shape, 0, ""},
		{"no role", `{"content":"x"},` + user, Shape, 0, ""},
		{"unknown role", user + `,{"role":"exit","content":"x"},` + user, Shape, 1, ""},
		{"no object", `7`, Shape, 0, ""},
		{"arguments an object", user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{}}}]},` + res, Shape, 1, "c"},
		{"call without type", user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":""}}]},` + res, Shape, 1, "c"},
		{"call without name", user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"arguments":""}}]},` + res, Shape, 1, "c"},
		{"no calls", user + `,{"role":"assistant","content":"x","tool_calls":[]},` + user, Shape, 1, ""},
		{"result without id", user + `,{"role":"assistant","content":"x"},{"role":"tool","content":"x"}`, Shape, 2, ""},
		{"id with a blank", user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"a b","type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"a b","content":""}`, CallIDs, 1, "a b"},
		{"id too long", user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"12345678901234567890123456789012345678901","type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"12345678901234567890123456789012345678901","content":""}`, CallIDs, 1, "12345678901234567890123456789012345678901"},
		{"calls of a user", `{"role":"user","content":"x","tool_calls":[]}`, Shape, 0, ""},
		{"name of a call", user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"a.b","arguments":"{}"}}]},` + res, Names, 1, "c"},
		{"longest name of a call", user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"` + strings.Repeat("x", 64) + `","arguments":"{}"}}]},` + res, "", 0, ""},
		{"name of a call too long", user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"` + strings.Repeat("x", 65) + `","arguments":"{}"}}]},` + res, Names, 1, "c"},
		{"bad name", `{"role":"user","content":"x","name":"a b"}`, Shape, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ValidateWith([]byte(`{"messages":[`+tt.in+`]}`), all)
			if tt.rule == "" {
				require.Empty(t, got)
				return
			}
			require.True(t, slices.ContainsFunc(got, func(v Violation) bool {
				return v.Rule == tt.rule && v.Message == tt.message && v.CallID == tt.id && strings.HasPrefix(v.Error(), string(tt.rule))
			}), "%v", got)
		})
	}
	for _, in := range []string{``, `[`, `[]`, `{}`, `{"messages":7}`, `{"messages":[` + user + `],"model":7}`, `{"messages":[` + user + `],"tools":7}`, `{"messages":[` + user + `],"tools":[{}]}`, `{"messages":[` + user + `],"tools":[]}`,
		`{"messages":[` + user + `],"parallel_tool_calls":true}`} {
		got := Validate([]byte(in))
		require.Len(t, got, 1, in)
		assert.Equal(t, -1, got[0].Message)
		assert.Equal(t, Shape, got[0].Rule)
	}
	const tool = `{"type":"function","function":{"name":"f"}}`
	assert.Empty(t, Validate([]byte(`{"messages":[`+user+`],"tools":[`+tool+`],"parallel_tool_calls":true}`)))
	got := Validate([]byte(`{"messages":[` + user + `],"tools":[` + tool + `,` + tool + `]}`))
	require.Len(t, got, 1)
	assert.Equal(t, Names, got[0].Rule)
	got = Validate([]byte(`{"messages":[` + user + `],"tools":[` + strings.Replace(tool, `"f"`, `"f g"`, 1) + `]}`))
	require.Len(t, got, 1)
	assert.Equal(t, Names, got[0].Rule)
	assert.Empty(t, Validate([]byte(`{"messages":[`+user+`,{"role":"assistant","content":"x"}]}`)), "R6 is for requests that are sent")
}
