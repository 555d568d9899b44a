package doctor

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/agentcompact/agentcompact/internal/pair"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// hidden looks for calls and results that are not live, where the format keeps
// them in the file. live are the findings of what is.
func (t *text) hidden(ctx context.Context, live []Finding) ([]Finding, error) {
	if t == nil || extractors[t.format] == nil {
		return nil, nil
	}
	extract := extractors[t.format]
	var m pair.Matcher
	var lines []int
	used := map[string]bool{}
	type ref struct {
		kind Kind
		id   string
	}
	known := map[ref]int{}
	for _, n := range live {
		k := n.Kind
		switch k {
		case RunningCall:
			k = UnansweredCall
		case DuplicateResult, ResultFirst:
			k = OrphanResult
		}
		known[ref{k, n.CallID}]++
	}
	var out []Finding
	note := func(kind, liveKind Kind, line int, id, format string, args ...any) {
		if known[ref{liveKind, id}] > 0 {
			known[ref{liveKind, id}]--
			return
		}
		n := finding(kind, format, args...)
		n.Line, n.CallID = line, id
		out = append(out, n)
	}
	err := t.values(ctx, func(v jsonl.Value) error {
		if !v.IsObject() {
			return nil
		}
		calls, results := extract(v.Raw)
		if calls == nil && results == nil {
			return nil
		}
		m.Add(calls, results)
		lines = append(lines, v.Line)
		for _, id := range calls {
			if used[id] {
				note(HiddenReused, CallIDReused, v.Line, id, "an earlier call of the file has this id, too")
			}
			used[id] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range m.Problems() {
		switch p.Kind {
		case pair.UnansweredCall:
			note(HiddenUnanswered, UnansweredCall, lines[p.Pos], p.ID, "the call has no result")
		case pair.OrphanResult, pair.DuplicateResult, pair.ResultBeforeCall:
			note(HiddenOrphan, OrphanResult, lines[p.Pos], p.ID, "no open call of this id stands before the result")
		}
	}
	return out, nil
}

// extractors read the ids of calls and results of one record, for the formats
// whose files hold more than the live conversation.
var extractors = map[string]func(raw []byte) (calls, results []string){
	"claude-code": func(raw []byte) (calls, results []string) {
		var r struct {
			Type    string `json:"type"`
			Message struct {
				Content json.RawMessage `json:"content"`
			} `json:"message"`
		}
		if !splice.Lenient(json.Unmarshal(raw, &r)) || r.Type != "user" && r.Type != "assistant" {
			return nil, nil
		}
		list, _ := rawjson.Elements(r.Message.Content)
		for _, b := range list {
			var blk struct {
				Type string `json:"type"`
				ID   string `json:"id"`
				Use  string `json:"tool_use_id"`
			}
			_ = json.Unmarshal(b, &blk) // what does not fit is empty
			switch blk.Type {
			case "tool_use":
				calls = append(calls, blk.ID)
			case "tool_result":
				results = append(results, blk.Use)
			}
		}
		return calls, results
	},
	"codex": func(raw []byte) (calls, results []string) {
		var r struct {
			Type    string          `json:"type"`
			Payload json.RawMessage `json:"payload"`
		}
		if !splice.Lenient(json.Unmarshal(raw, &r)) {
			return nil, nil
		}
		if r.Payload == nil {
			r.Payload = raw
		} else if r.Type != "response_item" {
			return nil, nil
		}
		var it struct {
			Type   string `json:"type"`
			CallID string `json:"call_id"`
			ID     string `json:"id"`
		}
		_ = json.Unmarshal(r.Payload, &it) // what does not fit is empty
		switch {
		case strings.HasSuffix(it.Type, "_call_output"), it.Type == "tool_search_output", it.Type == "function_result":
			return nil, []string{it.CallID}
		case it.Type == "tool_search_call" && it.CallID == "":
		case it.Type == "function_call", it.Type == "custom_tool_call", it.Type == "local_shell_call", it.Type == "tool_search_call":
			if it.CallID == "" {
				it.CallID = it.ID
			}
			return []string{it.CallID}, nil
		}
		return nil, nil
	},
	"pi": func(raw []byte) (calls, results []string) {
		var r struct {
			Message struct {
				Role    string          `json:"role"`
				CallID  string          `json:"toolCallId"`
				Content json.RawMessage `json:"content"`
			} `json:"message"`
		}
		if !splice.Lenient(json.Unmarshal(raw, &r)) {
			return nil, nil
		}
		if r.Message.Role == "toolResult" {
			return nil, []string{r.Message.CallID}
		}
		list, _ := rawjson.Elements(r.Message.Content)
		for _, b := range list {
			var blk struct {
				Type string `json:"type"`
				ID   string `json:"id"`
			}
			_ = json.Unmarshal(b, &blk) // what does not fit is empty
			if blk.Type == "toolCall" && r.Message.Role == "assistant" {
				calls = append(calls, blk.ID)
			}
		}
		return calls, nil
	},
}
