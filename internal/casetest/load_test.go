package casetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plainCase is a small case that passes.
const plainCase = `{
 "id": "B900", "kind": "self-test", "title": "t", "source": "own",
 "given": {
  "messages": [
   {"role": "system", "content": "Agent."},
   {"role": "user", "content": "Topic one. {{fill:2000}}"},
   {"role": "assistant", "content": "ok"},
   {"role": "user", "content": "next"}
  ],
  "context_window": 3000,
  "policy": {"trigger_tokens": 1800, "keep_recent_messages": 1},
  "summarizer": {"script": [{"content": "SUMMARY-1: topic one.", "finish_reason": "stop"}]},
  "ops": ["load", "check"]
 },
 "when": "w", "then": ["t"],
 "expect": {"compacts": true, "valid": true, "keep": [0, 3], "contains": ["SUMMARY-1: topic one."]}
}`

// with replaces a part of plainCase, which must be in it.
func with(t *testing.T, old, replacement string) []byte {
	t.Helper()
	require.Contains(t, plainCase, old)
	return []byte(strings.Replace(plainCase, old, replacement, 1))
}

func TestPlainCasePasses(t *testing.T) {
	c, err := Parse([]byte(plainCase))
	require.NoError(t, err)
	r := Run(t.Context(), c, nil)
	assert.Equal(t, Pass, r.Verdict, r.Problems)
}

// TestParseRefuses checks that nothing of a case is skipped.
func TestParseRefuses(t *testing.T) {
	for name, edit := range map[string][2]string{
		"field of the case":       {`"when": "w"`, `"when": "w", "whim": 1`},
		"field of given":          {`"context_window": 3000`, `"context_window": 3000, "weather": "wet"`},
		"field of the policy":     {`"trigger_tokens": 1800`, `"trigger_tokens": 1800, "mood": 1`},
		"field of the summarizer": {`"script": [`, `"tone": "dry", "script": [`},
		"field of a reply":        {`"finish_reason": "stop"`, `"finish_reason": "stop", "finish": 1`},
		"field of a message":      {`"content": "ok"`, `"content": "ok", "color": "red"`},
		"field of expect":         {`"compacts": true`, `"compacts": true, "compact": true`},
		"field of usage":          {`"context_window": 3000`, `"context_window": 3000, "usage": {"at": 2, "promt_tokens": 3}`},
		"field of a log record":   {`"context_window": 3000`, `"context_window": 3000, "log": [{"seq": 1, "type": "message", "msg": 0, "x": 1}]`},
		"content part":            {`"content": "ok"`, `"content": [{"type": "video", "text": "x"}]`},
		"role":                    {`"role": "assistant"`, `"role": "oracle"`},
		"result without a call":   {`"role": "assistant"`, `"role": "tool"`},
		"op":                      {`"check"]`, `"chek"]`},
		"op with too much":        {`"check"]`, `"check 3"]`},
		"op index":                {`"check"]`, `"append 9"]`},
		"op range":                {`"load", `, `"load 0..9", `},
		"first op":                {`"load", `, `"request", `},
		"second load":             {`"check"]`, `"load"]`},
		"finish without start":    {`"check"]`, `"finish"]`},
		"crash without reload":    {`"check"]`, `"crash"]`},
		"overflow without error":  {`"check"]`, `"overflow"]`},
		"no ops":                  {`["load", "check"]`, `[]`},
		"fault":                   {`"context_window": 3000`, `"context_window": 3000, "faults": ["fire"]`},
		"error class":             {`"compacts": true`, `"error": "oops"`},
		"event":                   {`"compacts": true`, `"events": ["stopped:auto"]`},
		"false":                   {`"valid": true`, `"valid": false`},
		"index":                   {`[0, 3]`, `[0, 4]`},
		"nothing expected":        {`{"compacts": true, "valid": true, "keep": [0, 3], "contains": ["SUMMARY-1: topic one."]}`, `{}`},
		"redact":                  {`"trigger_tokens": 1800`, `"redact": ["("]`},
		"id":                      {`"B900"`, `"900"`},
		"log seq":                 {`"context_window": 3000`, `"context_window": 3000, "log": [{"seq": 2, "type": "message", "msg": 0}]`},
		"reply error":             {`{"content": "SUMMARY-1: topic one.", "finish_reason": "stop"}`, `{"error": {}}`},
		"reply without anything":  {`{"content": "SUMMARY-1: topic one.", "finish_reason": "stop"}`, `{}`},
		"custom record field":     {`"context_window": 3000`, `"context_window": 3000, "log": [{"seq": 1, "type": "reset", "why": 1}]`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(with(t, edit[0], edit[1]))
			assert.Error(t, err)
		})
	}
}

func TestLoadRefusesFolders(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(dir)
	require.ErrorIs(t, err, ErrNoCases)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("B900-a.json", plainCase)
	list, err := Load(dir)
	require.NoError(t, err)
	require.Len(t, list, 1)
	write("B900-b.json", plainCase)
	_, err = Load(dir)
	require.ErrorContains(t, err, "B900")
	write("B900-b.json", "{")
	_, err = Load(dir)
	require.Error(t, err)
}

func TestLoadErrorsRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "errors.json")
	for name, text := range map[string]string{
		"empty":         `[]`,
		"unknown field": `[{"id": "X001", "provider": "p", "status": 400, "body": null, "overflow": true, "limit": null, "actual": null, "source": "s", "extra": 1}]`,
		"no limit":      `[{"id": "X001", "provider": "p", "status": 400, "body": null, "overflow": true, "actual": null, "source": "s"}]`,
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := LoadErrors(file)
		assert.Error(t, err, name)
	}
	require.NoError(t, os.WriteFile(file, []byte(`[{"id": "X001", "provider": "p", "status": 400, "body": "prompt is too long: 9 tokens > 8 maximum", "overflow": false, "limit": 1, "actual": null, "source": "s"}]`), 0o600))
	list, err := LoadErrors(file)
	require.NoError(t, err)
	assert.Equal(t, Fail, list[0].Run().Verdict)
}

func TestExpand(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                  "plain",
		"{{fill:2}}":             "line of ",
		"a{{fill:1:xy}}b":        "axyxyb",
		"{{fill:1:é}}":           "éé",
		"{{rep:3:語}}":            "語語語",
		"{{b64:5}}":              "AAAAA",
		"x{{hex:fffe41}}y":       "x\xff\xfeAy",
		"{{fill:0}}|{{rep:0:z}}": "|",
		"{{other:1}}":            "{{other:1}}",
	} {
		got, err := expand(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got, in)
	}
	for _, in := range []string{"{{fill:x}}", "{{rep:3}}", "{{hex:zz}}", "{{fill:-1}}", "{{b64:1:x}}", "{{fill:999999999}}"} {
		_, err := expand(in)
		assert.Error(t, err, in)
	}
	got, err := expandJSON([]byte(`{"a":"{{hex:ff}}","b":["{{rep:2:\"}}",1,null],"c":"\u00e9"}`))
	require.NoError(t, err)
	assert.Equal(t, "{\"a\":\"\xff\",\"b\":[\"\\\"\\\"\",1,null],\"c\":\"\\u00e9\"}", string(got))
}

func TestParseOp(t *testing.T) {
	ops, err := parseOp("check x3")
	require.NoError(t, err)
	assert.Len(t, ops, 3)
	ops, err = parseOp("append_result a-1 two words")
	require.NoError(t, err)
	assert.Equal(t, []op{{name: "append_result", text: "append_result a-1 two words", id: "a-1", arg: "two words"}}, ops)
	for _, s := range []string{"load 3", "load 02..3", "region 1", "check x0", "append", "append_user ", "rewind 0", "parallel 3", "parallel 0 check", "load 3..1", " check"} {
		_, err := parseOp(s)
		assert.Error(t, err, s)
	}
}

func TestRules(t *testing.T) {
	const user = `{"role":"user","content":"go"}`
	call := func(ids ...string) string {
		var list []string
		for _, id := range ids {
			list = append(list, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"f","arguments":"{}"}}`, id))
		}
		return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(list, ",") + `]}`
	}
	result := func(id string) string { return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":""}`, id) }
	for _, row := range []struct {
		rule     string
		messages []string
	}{
		{"", []string{`{"role":"system","content":"s"}`, user, call("a", "b"), result("b"), result("a"), user}},
		{"", []string{user, call("a"), result("a"), call("a"), result("a")}},
		{"R1", []string{user, result("a")}},
		{"R1", []string{user, call("a"), result("a"), user, result("a")}},
		{"R2", []string{user, call("a"), user}},
		{"R2", []string{user, call("a", "b"), result("a")}},
		{"R2", []string{user, call("a"), result("a"), result("a")}},
		{"R3", []string{user, call("a", "a"), result("a"), result("a")}},
		{"R4", []string{user, `{"role":"system","content":"s"}`, user}},
		{"R5", []string{`{"role":"system","content":"s"}`, `{"role":"assistant","content":"a"}`}},
		{"R5", []string{`{"role":"system","content":"s"}`}},
		{"R6", []string{user, `{"role":"assistant","content":"a"}`}},
		{"R7", []string{user, `{"role":"assistant","content":""}`, user}},
		{"R7", []string{user, `{"role":"user","content":[]}`}},
		{"R8", []string{"{\"role\":\"user\",\"content\":\"\xff\"}"}},
		{"R8", []string{`{"role":"user","content":"\ud83d"}`}},
	} {
		r, err := parseRequest([]byte(`{"messages":[` + strings.Join(row.messages, ",") + `]}`))
		require.NoError(t, err)
		got := breach(r, true)
		if row.rule == "" {
			assert.Empty(t, got)
		} else {
			assert.True(t, strings.HasPrefix(got, row.rule+":"), "want %s, got %q", row.rule, got)
		}
	}
}
