package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/anthropicmessages"
	"github.com/agentcompact/agentcompact/wire/formats"
	"github.com/agentcompact/agentcompact/wire/gemini"
	"github.com/agentcompact/agentcompact/wire/openaichat"
	"github.com/agentcompact/agentcompact/wire/openairesponses"
)

// spelling writes a word of the letters of [letters] in a provider's format. A
// letter is one message, or several items.
type spelling struct {
	format  string
	around  string // with %s
	user    string
	model   string
	call    func(text string, ids []string) string
	result  func(ids []string) string
	invalid func(body []byte) []wire.Rule
}

func rules[V any](list []V, rule func(V) wire.Rule) (out []wire.Rule) {
	for _, v := range list {
		out = append(out, rule(v))
	}
	return out
}

func each(ids []string, format string) string {
	var out []string
	for _, id := range ids {
		out = append(out, strings.ReplaceAll(format, "$", id))
	}
	return strings.Join(out, ",")
}

var spellings = []spelling{
	{"openai-chat", `{"model":"m","messages":[%s]}`,
		`{"role":"user","content":"%s"}`, `{"role":"assistant","content":"%s"}`,
		func(text string, ids []string) string {
			return `{"role":"assistant","content":"` + text + `","tool_calls":[` + each(ids, `{"id":"$","type":"function","function":{"name":"f","arguments":"{}"}}`) + `]}`
		},
		func(ids []string) string { return each(ids, `{"role":"tool","tool_call_id":"$","content":"result"}`) },
		func(body []byte) []wire.Rule {
			return rules(openaichat.ValidateWith(body, openaichat.Checks{UniqueIDs: true}), func(v openaichat.Violation) wire.Rule { return wire.Rule(v.Rule) })
		}},
	{"anthropic-messages", `{"model":"claude-m","max_tokens":5,"messages":[%s]}`,
		`{"role":"user","content":"%s"}`, `{"role":"assistant","content":[{"type":"text","text":"%s"}]}`,
		func(text string, ids []string) string {
			return `{"role":"assistant","content":[{"type":"text","text":"` + text + `"},` + each(ids, `{"type":"tool_use","id":"$","name":"f","input":{}}`) + `]}`
		},
		func(ids []string) string {
			return `{"role":"user","content":[` + each(ids, `{"type":"tool_result","tool_use_id":"$","content":"result"}`) + `]}`
		},
		func(body []byte) []wire.Rule {
			return rules(anthropicmessages.Validate(body), func(v wire.Violation) wire.Rule { return v.Rule })
		}},
	{"openai-responses", `{"model":"m","input":[%s]}`,
		`{"role":"user","content":[{"type":"input_text","text":"%s"}]}`, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"%s"}]}`,
		func(_ string, ids []string) string {
			return each(ids, `{"type":"function_call","call_id":"$","name":"f","arguments":"{}"}`)
		},
		func(ids []string) string {
			return each(ids, `{"type":"function_call_output","call_id":"$","output":"result"}`)
		},
		func(body []byte) []wire.Rule {
			return rules(openairesponses.Validate(body), func(v wire.Violation) wire.Rule { return v.Rule })
		}},
	{"gemini-contents", `{"contents":[%s]}`,
		`{"role":"user","parts":[{"text":"%s"}]}`, `{"role":"model","parts":[{"text":"%s"}]}`,
		func(text string, ids []string) string {
			return `{"role":"model","parts":[{"text":"` + text + `"},` + each(ids, `{"functionCall":{"id":"$","name":"f","args":{}}}`) + `]}`
		},
		func(ids []string) string {
			return `{"role":"user","parts":[` + each(ids, `{"functionResponse":{"id":"$","name":"f","response":{"output":"result"}}}`) + `]}`
		},
		func(body []byte) []wire.Rule {
			// Two contents of the model in a row are merged when a request is built.
			return slices.DeleteFunc(rules(gemini.Validate(body), func(v wire.Violation) wire.Rule { return v.Rule }),
				func(r wire.Rule) bool { return r == wire.RuleOrder })
		}},
}

func (s *spelling) spell(word []string) []byte {
	var list []string
	for i, w := range word {
		text := fmt.Sprintf("%s %d", w, i)
		switch ids := strings.Split(w[1:], ""); w[0] {
		case 'u':
			list = append(list, fmt.Sprintf(s.user, text))
		case 'a':
			list = append(list, fmt.Sprintf(s.model, text))
		case 'C':
			list = append(list, s.call(text, ids))
		case 'R':
			list = append(list, s.result(ids))
		}
	}
	return []byte(fmt.Sprintf(s.around, strings.Join(list, ",\n")))
}

// Whatever calls and results stand in whatever order, the provider takes the
// repaired file itself, and every text is in it.
func TestRepairAnyFile(t *testing.T) {
	for _, s := range spellings {
		t.Run(s.format, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				word := []string{"u"}
				if takesTurns(s.format) && rapid.Bool().Draw(rt, "any begins") {
					word = nil
				}
				word = append(word, rapid.SliceOfN(rapid.SampledFrom(strings.Fields("u a C1 C2 C12 C11 C3 R1 R2 R3 R12 R21 R11 R9")), 1, 14).Draw(rt, "word")...)
				data := s.spell(word)
				codec, _ := wire.Detect(data, true, formats.All()...)
				if codec == nil || codec.Name() != s.format {
					rt.Skip("too short to be told")
				}
				opts := &Options{CloseRunning: true, UniqueIDs: true, DropOrphans: rapid.Bool().Draw(rt, "drop")}
				r, err := Repair(context.Background(), codec, source(data), opts)
				require.NoError(rt, err)
				require.Empty(rt, r.Left)
				require.Empty(rt, s.invalid(content(rt, r)), "%s", content(rt, r))
				for i, w := range word {
					if w[0] != 'R' && (w[0] != 'C' || s.format != "openai-responses") {
						require.Contains(rt, string(content(rt, r)), fmt.Sprintf("%s %d", w, i))
					}
				}
				again, err := Repair(context.Background(), codec, r.Text, opts)
				require.NoError(rt, err)
				require.Empty(rt, again.Changes)
			})
		})
	}
}
