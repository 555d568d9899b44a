package anthropicmessages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/wire"
)

const call = `{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"1","name":"n","input":{}},{"type":"tool_use","id":"2","name":"n","input":{}}]}`
const answer = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":"x"},{"type":"tool_result","tool_use_id":"1"},{"type":"text","text":"and"}]}`
const ask = `{"role":"user","content":"go"}`

func bodyOf(messages ...string) string {
	return `{"model":"m","max_tokens":5,"system":"s","tools":[{"name":"n","input_schema":{}}],"messages":[` + strings.Join(messages, ",") + `]}`
}

func TestValidate(t *testing.T) {
	require.Empty(t, Validate([]byte(bodyOf(ask, call, answer))))
	rules := func(body string) (out []wire.Rule) {
		for _, v := range ValidateWith([]byte(body), Checks{ModelCall: true, Alternation: true}) {
			require.NotEmpty(t, v.Error())
			out = append(out, v.Rule)
		}
		return out
	}
	replace := func(s string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(s) }
	for name, c := range map[string]struct {
		body string
		want []wire.Rule
	}{
		"no JSON":                {`{`, []wire.Rule{wire.RuleShape}},
		"no list":                {`{"messages":{}}`, []wire.Rule{wire.RuleShape}},
		"no message":             {bodyOf(), []wire.Rule{wire.RuleEmpty}},
		"no max_tokens":          {replace(bodyOf(ask), `"max_tokens":5,`, ``), []wire.Rule{wire.RuleShape}},
		"empty system":           {replace(bodyOf(ask), `"system":"s"`, `"system":[{"type":"text","text":""}]`), []wire.Rule{wire.RuleEmpty}},
		"tool name":              {replace(bodyOf(ask), `"name":"n"`, `"name":"a b"`), []wire.Rule{wire.RuleName}},
		"tool without schema":    {replace(bodyOf(ask), `,"input_schema":{}`, ``), []wire.Rule{wire.RuleShape}},
		"assistant first":        {bodyOf(`{"role":"assistant","content":"a"}`, ask), []wire.Rule{wire.RuleOrder}},
		"assistant last":         {bodyOf(ask, `{"role":"assistant","content":"a"}`), []wire.Rule{wire.RuleOrder}},
		"twice the user":         {bodyOf(ask, ask), []wire.Rule{wire.RuleOrder}},
		"system in the list":     {bodyOf(ask, `{"role":"system","content":"a"}`, ask), []wire.Rule{wire.RuleOrder}},
		"no content":             {bodyOf(`{"role":"user"}`), []wire.Rule{wire.RuleShape}},
		"empty content":          {bodyOf(`{"role":"user","content":" "}`), []wire.Rule{wire.RuleEmpty}},
		"no block":               {bodyOf(`{"role":"user","content":[]}`), []wire.Rule{wire.RuleEmpty}},
		"empty text":             {bodyOf(`{"role":"user","content":[{"type":"text","text":""}]}`), []wire.Rule{wire.RuleEmpty}},
		"no answer":              {bodyOf(ask, call, ask), []wire.Rule{wire.RulePairing, wire.RulePairing}},
		"ends with calls":        {bodyOf(ask, call), []wire.Rule{wire.RulePairing, wire.RulePairing, wire.RuleOrder}},
		"one answer missing":     {bodyOf(ask, call, replace(answer, `{"type":"tool_result","tool_use_id":"1"},`, ``)), []wire.Rule{wire.RulePairing}},
		"answered twice":         {bodyOf(ask, call, replace(answer, `"tool_use_id":"2","content":"x"},`, `"tool_use_id":"2"},{"type":"tool_result","tool_use_id":"2"},`)), []wire.Rule{wire.RulePairing}},
		"orphan":                 {bodyOf(answer), []wire.Rule{wire.RulePairing, wire.RulePairing}},
		"answer too late":        {bodyOf(ask, call, ask, answer), []wire.Rule{wire.RulePairing, wire.RulePairing, wire.RulePairing, wire.RulePairing, wire.RuleOrder}},
		"text before a result":   {bodyOf(ask, call, replace(answer, `"content":[`, `"content":[{"type":"text","text":"a"},`)), []wire.Rule{wire.RulePairing, wire.RulePairing}},
		"same id twice":          {bodyOf(ask, call, answer, call, answer), []wire.Rule{wire.RuleUniqueID, wire.RuleUniqueID}},
		"id of other letters":    {bodyOf(ask, replace(call, `"id":"1"`, `"id":"a b"`), replace(answer, `"tool_use_id":"1"`, `"tool_use_id":"a b"`)), []wire.Rule{wire.RuleCallID}},
		"no signature":           {bodyOf(ask, replace(call, `,"signature":"s"`, ``), answer), []wire.Rule{wire.RuleReasoning}},
		"thinking of a user":     {bodyOf(`{"role":"user","content":[{"type":"thinking","thinking":"a","signature":"s"}]}`), []wire.Rule{wire.RuleOrder}},
		"input no object":        {bodyOf(ask, replace(call, `"input":{}},`, `"input":"x"},`), answer), []wire.Rule{wire.RuleShape}},
		"image without source":   {bodyOf(`{"role":"user","content":[{"type":"image","source":{"type":"base64"}}]}`), []wire.Rule{wire.RuleShape}},
		"two tools of one name":  {replace(bodyOf(ask), `[{"name":"n","input_schema":{}}]`, `[{"name":"n","input_schema":{}},{"name":"n","input_schema":{}}]`), []wire.Rule{wire.RuleName}},
		"blank system":           {replace(bodyOf(ask), `"system":"s"`, `"system":[{"type":"text","text":" \n"}]`), []wire.Rule{wire.RuleEmpty}},
		"failed, says nothing":   {bodyOf(ask, call, replace(answer, `"content":"x"`, `"content":"","is_error":true`)), []wire.Rule{wire.RuleEmpty}},
		"failed, no content":     {bodyOf(ask, call, replace(answer, `"content":"x"`, `"is_error":true`)), []wire.Rule{wire.RuleEmpty}},
		"failed, a picture":      {bodyOf(ask, call, replace(answer, `"content":"x"`, `"content":[{"type":"image","source":{"type":"url","url":"https://x"}}],"is_error":true`)), []wire.Rule{wire.RuleShape}},
		"failed, says why":       {bodyOf(ask, call, replace(answer, `"content":"x"`, `"content":"why","is_error":true`)), nil},
		"done, says nothing":     {bodyOf(ask, call, replace(answer, `"content":"x"`, `"content":""`)), nil},
		"thinking missing":       {replace(bodyOf(ask, replace(call, `{"type":"thinking","thinking":"t","signature":"s"},`, ``), answer), `"max_tokens":5`, `"max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":2000}`), []wire.Rule{wire.RuleReasoning}},
		"thinking there":         {replace(bodyOf(ask, call, answer), `"max_tokens":5`, `"max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":2000}`), nil},
		"thinking of a new turn": {replace(bodyOf(ask, replace(call, `{"type":"thinking","thinking":"t","signature":"s"},`, ``), answer, `{"role":"assistant","content":"a"}`, ask), `"max_tokens":5`, `"max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":2000}`), nil},
		"thinking all of it":     {replace(bodyOf(ask), `"max_tokens":5`, `"max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":2000}`), []wire.Rule{wire.RuleShape}},
		"server tool":            {bodyOf(ask, `{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]}]}`, ask), nil},
		"server tool alone":      {bodyOf(ask, `{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"text","text":"a"}]}`, ask), []wire.Rule{wire.RulePairing}},
		"result of none":         {bodyOf(ask, `{"role":"assistant","content":[{"type":"web_search_tool_result","tool_use_id":"s","content":[]}]}`, ask), []wire.Rule{wire.RulePairing}},
		"half a pair":            {bodyOf(`{"role":"user","content":"\ud83d x"}`), []wire.Rule{wire.RuleUTF8}},
		"not UTF-8":              {bodyOf("{\"role\":\"user\",\"content\":\"\xff\"}"), []wire.Rule{wire.RuleUTF8}},
	} {
		require.Equal(t, c.want, rules(c.body), name)
	}
}

// Requests that the provider took are valid.
func TestValidateCorpus(t *testing.T) {
	for _, f := range suite(t).Own {
		require.Empty(t, Validate(f.Data), f.Path)
	}
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(bodyOf(ask, call, answer)))
	f.Fuzz(func(_ *testing.T, data []byte) { ValidateWith(data, Checks{true, true}) })
}
