package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/internal/pair"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// lined reports whether the file has one record a line.
func lined(data []byte, format string) bool {
	switch format {
	case "claude-code", "codex", "pi", "deepseek", "kimi", "qwen":
		return true
	}
	return len(bytes.TrimSpace(data)) > 0 && !json.Valid(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
}

func bytesAre(n int) string {
	if n == 1 {
		return "1 byte is"
	}
	return fmt.Sprintf("%d bytes are", n)
}

// scan looks at the bytes of the file and at the links of its records.
func scan(data []byte, format string) []Finding {
	if data == nil {
		return nil
	}
	var out []Finding
	var lines counter
	add := func(at int, f Finding) {
		f.Line, f.Offset = lines.of(data, at), int64(at)
		out = append(out, f)
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			k := i
			for k < len(data) {
				if r, n := utf8.DecodeRune(data[k:]); r != utf8.RuneError || n != 1 {
					break
				}
				k++
			}
			add(i, finding(InvalidUTF8, "%s not UTF-8: % x", bytesAre(k-i), data[i:min(k, i+8)]))
			i = k
			continue
		}
		i += n
	}
	for _, at := range turns.LoneSurrogates(data) {
		add(at, finding(HalfSurrogate, "the escape %s is half of a surrogate pair", data[at:min(at+6, len(data))]))
	}
	if !lined(data, format) {
		return out
	}
	for at := 0; at < len(data); {
		end := bytes.IndexByte(data[at:], '\n')
		if end < 0 {
			break
		}
		if len(bytes.TrimSpace(data[at:at+end])) == 0 {
			add(at, finding(BlankLine, "the line is blank"))
		}
		at += end + 1
	}
	line := 0
	var recs []linked
	for v := range jsonl.Values(data) {
		if v.Line == line && v.Err == nil {
			add(v.Offset, finding(TwoOnALine, "two values stand on one line"))
		}
		line = v.Line
		switch {
		case v.Torn():
			add(v.Offset, finding(TornRecord, "the last record is cut short after %d bytes", len(v.Raw)))
		case v.Err != nil:
			detail := "it is not JSON"
			if errors.Is(v.Err, io.ErrUnexpectedEOF) {
				detail = "the record is cut short, and others follow"
			}
			add(v.Offset, finding(BadLine, "%s: %s", detail, splice.Clip(string(v.Raw), 60)))
		case !v.IsObject():
			add(v.Offset, finding(NotAnObject, "the value is %s, not an object", splice.TypeName(v.Raw)))
		default:
			recs = append(recs, linked{raw: v.Raw, at: v.Offset})
		}
	}
	return append(out, links(data, format, recs)...)
}

// linked is a record with what links it to others.
type linked struct {
	raw []byte
	at  int

	Type   string          `json:"type"`
	UUID   string          `json:"uuid"`
	ID     string          `json:"id"`
	Parent json.RawMessage `json:"parentUuid"`
	Up     json.RawMessage `json:"parentId"`
	First  *string         `json:"firstKeptEntryId"`
	Index  *int            `json:"firstKeptEntryIndex"`
	Vers   int             `json:"version"`
}

// links looks at the links between records.
func links(data []byte, format string, recs []linked) []Finding {
	var out []Finding
	var lines counter
	add := func(r *linked, f Finding) {
		f.Line, f.Offset = lines.of(data, r.at), int64(r.at)
		out = append(out, f)
	}
	seen := map[string]bool{}
	roots, messages, dangling := 0, 0, 0
	tree := format == "claude-code" || format == "qwen"
	piTree := false
	all := map[string]bool{}
	for i := range recs {
		_ = json.Unmarshal(recs[i].raw, &recs[i]) // what does not fit is empty
		all[recs[i].UUID] = true
		piTree = piTree || i == 0 && format == "pi" && recs[i].Vers > 1
	}
	for i := range recs {
		r := &recs[i]
		if r.Type == "" && (format == "codex" || format == "pi" || tree) && rawjson.Kind(r.raw) == '{' && r.UUID == "" {
			add(r, finding(NoType, "the record has no type"))
		}
		switch {
		case tree:
			if r.UUID == "" {
				continue
			}
			if seen[r.UUID] {
				add(r, finding(DuplicateUUID, "the uuid %s stands on an earlier record, too", r.UUID))
			}
			seen[r.UUID] = true
			messages++
			parent, ok := rawjson.String(r.Parent)
			switch {
			case r.Parent == nil:
			case !ok || parent == "":
				roots++
			case !all[parent]:
				dangling++
				add(r, finding(DanglingParent, "the parent %s is not in the file", parent))
			}
		case format == "pi":
			id, piID := r.ID, r.ID
			if i > 0 && piTree && id != "" {
				if seen[id] {
					add(r, finding(DuplicateUUID, "the id %s stands on an earlier entry, too", id))
				}
				if parent, ok := rawjson.String(r.Up); ok && parent != "" && !seen[parent] {
					add(r, finding(DanglingParent, "the parent %s does not stand before it", parent))
				}
				seen[id] = true
			}
			if r.Type == "compaction" {
				switch {
				case r.First != nil && (!seen[*r.First] || *r.First == piID):
					add(r, finding(KeepsNothing, "the first kept entry %s does not stand before the compaction", *r.First))
				case r.First == nil && r.Index != nil && *r.Index >= i:
					add(r, finding(KeepsNothing, "the first kept entry is number %d, and the compaction is number %d", *r.Index, i))
				}
			}
		}
	}
	if tree && messages > 0 && roots == 0 && dangling > 0 {
		f := finding(NoRoot, "no record begins the conversation")
		f.Line = 1
		out = append(out, f)
	}
	return out
}

// hidden looks for calls and results that are not live, where the format keeps
// them in the file. live are the findings of what is.
func hidden(data []byte, f *wire.File, live []Finding) []Finding {
	extract := extractors[f.Format]
	if extract == nil || data == nil {
		return nil
	}
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
	for v := range jsonl.Values(data) {
		if !v.IsObject() {
			continue
		}
		calls, results := extract(v.Raw)
		if calls == nil && results == nil {
			continue
		}
		m.Add(calls, results)
		lines = append(lines, v.Line)
		for _, id := range calls {
			if used[id] {
				note(HiddenReused, CallIDReused, v.Line, id, "an earlier call of the file has this id, too")
			}
			used[id] = true
		}
	}
	for _, p := range m.Problems() {
		switch p.Kind {
		case pair.UnansweredCall:
			note(HiddenUnanswered, UnansweredCall, lines[p.Pos], p.ID, "the call has no result")
		case pair.OrphanResult, pair.DuplicateResult, pair.ResultBeforeCall:
			note(HiddenOrphan, OrphanResult, lines[p.Pos], p.ID, "no open call of this id stands before the result")
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
