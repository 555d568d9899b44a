package openairesponses

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/wire"
)

const (
	ask      = `{"role":"user","content":"go"}`
	thinking = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"z"}`
	call     = `{"type":"function_call","call_id":"1","name":"n","arguments":"{}"}`
	output   = `{"type":"function_call_output","call_id":"1","output":"o"}`
	says     = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}`
)

func bodyOf(items ...string) string {
	return `{"model":"m","tools":[{"type":"function","name":"n"}],"input":[` + strings.Join(items, ",") + `]}`
}

func TestValidate(t *testing.T) {
	require.Empty(t, Validate([]byte(bodyOf(ask, thinking, call, output, strings.Replace(thinking, "rs_1", "rs_2", 1), says, ask))))
	require.Empty(t, Validate([]byte(`{"input":"hello"}`)))
	require.Empty(t, Validate([]byte(`{"previous_response_id":"r","input":[`+output+`]}`)))
	rules := func(body string) (out []wire.Rule) {
		for _, v := range ValidateWith([]byte(body), Checks{ModelCall: true, UserFirst: true}) {
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
		"no JSON":                  {`{`, []wire.Rule{wire.RuleShape}},
		"no list":                  {`{"input":5}`, []wire.Rule{wire.RuleShape}},
		"no item":                  {bodyOf(), []wire.Rule{wire.RuleEmpty, wire.RuleOrder}},
		"empty text":               {`{"input":""}`, []wire.Rule{wire.RuleEmpty}},
		"not an item":              {bodyOf(ask, `7`, ask), []wire.Rule{wire.RuleShape}},
		"no output":                {bodyOf(ask, call, ask), []wire.Rule{wire.RulePairing}},
		"no call":                  {bodyOf(ask, output), []wire.Rule{wire.RulePairing}},
		"two outputs":              {bodyOf(ask, call, output, output), []wire.Rule{wire.RulePairing}},
		"same id twice":            {bodyOf(ask, call, output, call, output), []wire.Rule{wire.RuleUniqueID}},
		"id too long":              {replace(bodyOf(ask, call, output), `"1"`, `"`+strings.Repeat("x", 65)+`"`), []wire.Rule{wire.RuleCallID}},
		"name":                     {bodyOf(ask, replace(call, `"n"`, `"a.b"`), output), []wire.Rule{wire.RuleName}},
		"tool name":                {replace(bodyOf(ask), `"n"`, `"a b"`), []wire.Rule{wire.RuleName}},
		"arguments no string":      {bodyOf(ask, replace(call, `"{}"`, `{}`), output), []wire.Rule{wire.RuleShape}},
		"output missing":           {bodyOf(ask, call, replace(output, `,"output":"o"`, ``)), []wire.Rule{wire.RuleShape}},
		"reasoning alone":          {bodyOf(ask, thinking, ask), []wire.Rule{wire.RuleReasoning}},
		"reasoning last":           {bodyOf(ask, thinking), []wire.Rule{wire.RuleReasoning, wire.RuleOrder}},
		"reasoning without either": {bodyOf(ask, `{"type":"reasoning","summary":[]}`, call, output), []wire.Rule{wire.RuleReasoning}},
		"the model first":          {bodyOf(says, ask), []wire.Rule{wire.RuleOrder}},
		"the model last":           {bodyOf(ask, says), []wire.Rule{wire.RuleOrder}},
		"unknown role":             {bodyOf(ask, `{"role":"tool","content":"x"}`, ask), []wire.Rule{wire.RuleOrder}},
		"empty message":            {bodyOf(ask, `{"role":"user","content":[]}`), []wire.Rule{wire.RuleEmpty}},
		"part of the other side":   {bodyOf(`{"role":"user","content":[{"type":"output_text","text":"x"}]}`), []wire.Rule{wire.RuleShape}},
		"item of another type":     {bodyOf(ask, thinking, replace(call, `"call_id"`, `"id":"msg_1","call_id"`), output), []wire.Rule{wire.RuleCallID}},
		"item id of other letters": {bodyOf(ask, replace(thinking, "rs_1", "rs.1"), call, output), []wire.Rule{wire.RuleCallID}},
		"item id too long":         {bodyOf(ask, replace(thinking, "rs_1", "rs_"+strings.Repeat("x", 62)), call, output), []wire.Rule{wire.RuleCallID}},
		"item id just short":       {bodyOf(ask, replace(thinking, "rs_1", "rs_"+strings.Repeat("x", 61)), call, output), nil},
		"item id of its type":      {bodyOf(ask, replace(call, `"call_id"`, `"id":"fc_1","call_id"`), output), nil},
		"field of another item":    {bodyOf(ask, call, replace(output, `"output"`, `"name":"n","output"`)), []wire.Rule{wire.RuleShape}},
		"field of its own":         {bodyOf(ask, call, replace(output, `"output"`, `"status":"completed","output"`)), nil},
		"status of a thought":      {bodyOf(ask, replace(thinking, `"summary"`, `"status":"completed","summary"`), call, output), []wire.Rule{wire.RuleShape}},
		"item twice":               {bodyOf(ask, thinking, call, output, thinking, says, ask), []wire.Rule{wire.RuleUniqueID}},
		"half a pair":              {bodyOf(`{"role":"user","content":"\ud83d x"}`), []wire.Rule{wire.RuleUTF8}},
	} {
		require.Equal(t, c.want, rules(c.body), name)
	}
}

// Requests that the provider took are valid.
func TestValidateCorpus(t *testing.T) {
	n := 0
	for _, f := range suite(t).Own {
		if !strings.Contains(f.Path, "runstate") {
			require.Empty(t, Validate(f.Data), f.Path)
			n++
		}
	}
	require.Equal(t, 2, n)
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(bodyOf(ask, thinking, call, output, says)))
	f.Fuzz(func(_ *testing.T, data []byte) { ValidateWith(data, Checks{true, true}) })
}
