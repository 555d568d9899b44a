package doctor

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/internal/pair"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire"
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
	used := map[string]int{} // the line of the last call
	var found suspects
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
			if line := used[id]; line > 0 { // what was left stands before what is live
				found.add(HiddenReused, CallIDReused, line, id, "a later call of the file has this id, too")
			}
			used[id] = v.Line
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range m.Problems() {
		switch p.Kind {
		case pair.UnansweredCall:
			found.add(HiddenUnanswered, UnansweredCall, lines[p.Pos], p.ID, "the call has no result")
		case pair.OrphanResult, pair.DuplicateResult, pair.ResultBeforeCall:
			found.add(HiddenOrphan, OrphanResult, lines[p.Pos], p.ID, "no open call of this id stands before the result")
		}
	}
	return found.without(live), nil
}

// Hidden returns the calls and results without their other half that are not
// live, as [Diagnose] finds them, by reading the file once. v is the view of the
// n-th conversation, which is not opened again; src is nil for a folder.
func Hidden(ctx context.Context, src *io.SectionReader, f *wire.File, n int, v session.View) ([]Finding, error) {
	if src == nil || extractors[f.Format] == nil {
		return nil, nil
	}
	var live []Finding
	for i, c := range f.Conversations {
		of, done := v, func() {}
		if i != n {
			var err error
			if of, done, err = view(ctx, c); err != nil {
				return nil, err
			}
		}
		for _, q := range toolpairing.Of(of).Diagnose() {
			live = append(live, Finding{Kind: kindOf[q.Kind], CallID: q.CallID})
		}
		done()
	}
	t, err := newText(ctx, src, f.Format)
	if err != nil {
		return nil, err
	}
	list, err := t.hidden(ctx, live)
	return slices.DeleteFunc(list, func(f Finding) bool { return f.Kind == HiddenReused }), err
}

// suspects are findings about calls and results anywhere in a file.
type suspects struct {
	list  []Finding
	kinds []Kind // what each is called where it is live
}

func (s *suspects) add(kind, live Kind, line int, id, detail string) {
	n := finding(kind, "%s", detail)
	n.Line, n.CallID = line, id
	s.list, s.kinds = append(s.list, n), append(s.kinds, live)
}

// without returns those that are not among the live findings: the one on the
// same line is, and else the last of its kind and id, since what is live stands
// behind what was left.
func (s *suspects) without(live []Finding) []Finding {
	type ref struct {
		kind Kind
		id   string
	}
	known := map[ref][]int{} // the lines
	for _, n := range live {
		k := n.Kind
		switch k {
		case RunningCall:
			k = UnansweredCall
		case DuplicateResult, ResultFirst:
			k = OrphanResult
		case DuplicateCallID:
			k = CallIDReused
		}
		known[ref{k, n.CallID}] = append(known[ref{k, n.CallID}], n.Line)
	}
	isLive := make([]bool, len(s.list))
	for _, exactly := range []bool{true, false} {
		for i := len(s.list) - 1; i >= 0; i-- {
			r := ref{s.kinds[i], s.list[i].CallID}
			lines := known[r]
			k := len(lines) - 1
			if exactly {
				k = slices.Index(lines, s.list[i].Line)
			}
			if k >= 0 && !isLive[i] {
				isLive[i] = true
				known[r] = slices.Delete(lines, k, k+1)
			}
		}
	}
	var out []Finding
	for i, n := range s.list {
		if !isLive[i] {
			out = append(out, n)
		}
	}
	return out
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
