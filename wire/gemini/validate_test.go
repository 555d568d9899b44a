package gemini

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/wire"
)

const (
	ask     = `{"role":"user","parts":[{"text":"go"}]}`
	says    = `{"role":"model","parts":[{"text":"a"}]}`
	calling = `{"role":"model","parts":[{"text":"t","thought":true},{"functionCall":{"id":"1","name":"n","args":{}}},{"functionCall":{"name":"m"}}]}`
	answer  = `{"role":"user","parts":[{"functionResponse":{"id":"1","name":"n","response":{}}},{"functionResponse":{"name":"m","response":{}}},{"text":"and"}]}`
)

func bodyOf(contents ...string) string {
	return `{"tools":[{"functionDeclarations":[{"name":"n"}]}],"contents":[` + strings.Join(contents, ",") + `]}`
}

func TestValidate(t *testing.T) {
	require.Empty(t, Validate([]byte(bodyOf(ask, calling, answer, says, ask))))
	rules := func(body string) (out []wire.Rule) {
		for _, v := range ValidateWith([]byte(body), Checks{ModelCall: true, Alternation: true, Signatures: strings.Contains(body, "signed")}) {
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
		"no JSON":             {`{`, []wire.Rule{wire.RuleShape}},
		"no list":             {`{"contents":5}`, []wire.Rule{wire.RuleShape}},
		"nothing":             {bodyOf(), []wire.Rule{wire.RuleEmpty}},
		"no parts":            {bodyOf(`{"role":"user","parts":[]}`), []wire.Rule{wire.RuleEmpty}},
		"empty text":          {bodyOf(`{"role":"user","parts":[{"text":""}]}`), []wire.Rule{wire.RuleEmpty}},
		"unknown part":        {bodyOf(`{"role":"user","parts":[{}]}`), []wire.Rule{wire.RuleShape}},
		"part no object":      {bodyOf(`{"role":"user","parts":["x"]}`), []wire.Rule{wire.RuleShape}},
		"the model first":     {bodyOf(says, ask), []wire.Rule{wire.RuleOrder}},
		"the model last":      {bodyOf(ask, says), []wire.Rule{wire.RuleOrder}},
		"twice the user":      {bodyOf(ask, ask), []wire.Rule{wire.RuleOrder}},
		"unknown role":        {bodyOf(ask, `{"role":"system","parts":[{"text":"x"}]}`, ask), []wire.Rule{wire.RuleOrder}},
		"no answer":           {bodyOf(ask, calling, ask), []wire.Rule{wire.RulePairing, wire.RulePairing}},
		"one answer missing":  {bodyOf(ask, calling, replace(answer, `,{"functionResponse":{"name":"m","response":{}}}`, ``)), []wire.Rule{wire.RulePairing}},
		"answer of another":   {bodyOf(ask, calling, replace(answer, `"name":"m"`, `"name":"x"`)), []wire.Rule{wire.RulePairing, wire.RulePairing}},
		"orphan":              {bodyOf(answer), []wire.Rule{wire.RulePairing, wire.RulePairing}},
		"same id twice":       {bodyOf(ask, calling, answer, calling, answer), []wire.Rule{wire.RuleUniqueID}},
		"name":                {bodyOf(ask, replace(calling, `"name":"m"`, `"name":"1 m"`), replace(answer, `"name":"m"`, `"name":"1 m"`)), []wire.Rule{wire.RuleName, wire.RuleName}},
		"declared name":       {replace(bodyOf(ask), `"name":"n"`, `"name":"-n"`), []wire.Rule{wire.RuleName}},
		"response no object":  {bodyOf(ask, calling, replace(answer, `"m","response":{}`, `"m","response":"x"`)), []wire.Rule{wire.RuleShape}},
		"call of the user":    {bodyOf(`{"role":"user","parts":[{"functionCall":{"name":"n"}}]}`), []wire.Rule{wire.RuleOrder, wire.RulePairing}},
		"thought of the user": {bodyOf(`{"role":"user","parts":[{"text":"x","thought":true}]}`), []wire.Rule{wire.RuleReasoning}},
		"two of one name":     {replace(bodyOf(ask), `[{"name":"n"}]`, `[{"name":"n"},{"name":"n"}]`), []wire.Rule{wire.RuleName}},
		"two of two names":    {replace(bodyOf(ask), `[{"name":"n"}]`, `[{"name":"n"},{"name":"o"}]`), nil},
		"not signed":          {bodyOf(replace(ask, "go", "signed"), calling, answer), []wire.Rule{wire.RuleReasoning}},
		"the second signed":   {bodyOf(replace(ask, "go", "signed"), replace(calling, `{"functionCall":{"name":"m"}}`, `{"functionCall":{"name":"m"},"thoughtSignature":"eA=="}`), answer), []wire.Rule{wire.RuleReasoning}},
		"signed":              {bodyOf(replace(ask, "go", "signed"), replace(calling, `"args":{}}`, `"args":{}},"thoughtSignature":"eA=="`), replace(answer, `,{"text":"and"}`, ``)), nil},
		"before the prompt":   {bodyOf(replace(ask, "go", "signed"), calling, answer, says, ask), nil},
		"half a pair":         {bodyOf(`{"role":"user","parts":[{"text":"\ud83d x"}]}`), []wire.Rule{wire.RuleUTF8}},
	} {
		require.Equal(t, c.want, rules(c.body), name)
	}
}

// A content with calls follows the user's, also where the provider merges others.
func TestCallsFollowTheUser(t *testing.T) {
	bad := Validate([]byte(bodyOf(ask, says, calling, answer)))
	require.Len(t, bad, 1)
	require.Equal(t, wire.RuleOrder, bad[0].Rule)
	require.Equal(t, 2, bad[0].Message)
	require.Empty(t, Validate([]byte(bodyOf(ask, says, says, ask, calling, answer))))
}

// The request that the provider took is valid.
func TestValidateCorpus(t *testing.T) {
	for _, f := range contents(t).Own {
		if strings.HasSuffix(f.Path, "-request.json") {
			require.Empty(t, Validate(f.Data), f.Path)
			return
		}
	}
	t.Fatal("no request among the transcripts")
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(bodyOf(ask, calling, answer)))
	f.Fuzz(func(_ *testing.T, data []byte) { ValidateWith(data, Checks{true, true, true}) })
}
