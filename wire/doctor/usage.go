package doctor

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// impossible reports whether the counts of a usage report cannot be.
func impossible(u *session.Usage) bool {
	return u != nil && (min(u.Prompt, u.Completion, u.CacheRead, u.CacheWrite, u.Reasoning) < 0 || u.CacheRead+u.CacheWrite > u.Prompt)
}

// report is where a format has its usage reports, and what stands there in its
// own files when there is none.
type report struct {
	// from are the members that lead to it, from the record of a log or from the
	// document; "*" are the elements of a list.
	from [][]string
	// records tells that from begins at the record of a message in a document,
	// too.
	records bool
	none    none
}

// none is how a format says that nothing was reported.
type none byte

const (
	absent none = iota // the member is not there
	null
	zeros // the agent relies on the numbers
)

var reports = map[string]report{
	"claude-code":    {from: [][]string{{"message", "usage"}}},
	"codex":          {from: [][]string{{"payload", "info"}}, none: null},
	"pi":             {from: [][]string{{"message", "usage"}}, none: zeros},
	"qwen":           {from: [][]string{{"usageMetadata"}}},
	"kimi":           {from: [][]string{{"event", "usage"}}},
	"deepseek":       {from: [][]string{{"data", "usage"}}},
	"gemini-session": {from: [][]string{{"messages", "*", "tokens"}, {"tokens"}}},
	"opencode":       {from: [][]string{{"messages", "*", "info", "tokens"}}, none: zeros},
	"openai-chat":    {from: [][]string{{"extra", "response", "usage"}}, records: true},
	"langchain":      {from: [][]string{{"usage_metadata"}, {"kwargs", "usage_metadata"}, {"data", "usage_metadata"}}, records: true},
}

// usage takes out the reports whose counts cannot be; list are the findings. In
// a log those of all records go, for a record does not always tell which
// message its report is of. It reports whether there were any.
func (r *repair) usage(list []Finding) (bool, error) {
	r.counted = true
	where, ok := reports[r.codec.Name()]
	if !ok {
		return false, nil
	}
	t, err := newText(r.ctx, r.Text, r.codec.Name())
	if err != nil {
		return false, err
	}
	var edits []edit
	var lines counter
	record := func(raw []byte, line int, off int64) {
		for _, e := range where.edits(raw) {
			if !t.logged {
				line = lines.of(t.doc, int(off+e.from))
			}
			r.Changes = append(r.Changes, e.change("", r.was(line)))
			edits = append(edits, edit{e.from + off, e.to + off, e.with, nil})
		}
	}
	if t.logged {
		err = t.values(r.ctx, func(v jsonl.Value) error {
			if v.IsObject() {
				record(v.Raw, v.Line, int64(v.Offset))
			}
			return nil
		})
	} else {
		record(t.doc, 0, 0)
		for _, n := range list {
			if n.Kind == WrongUsage && where.records && n.Line > 0 {
				record(splice.At(t.doc, int(n.Offset)).Of(t.doc), 0, n.Offset)
			}
		}
		slices.SortFunc(edits, func(a, b edit) int { return int(a.from - b.from) })
	}
	if err != nil || edits == nil {
		return false, err
	}
	return true, r.edit(edits)
}

// edit makes edits, which are in order.
func (r *repair) edit(edits []edit) error {
	return r.rewrite(func(w io.Writer) error {
		at := int64(0)
		for _, e := range edits {
			if e.from < at {
				continue // two findings of one record
			}
			if err := r.copyTo(w, at, e.from); err != nil {
				return err
			}
			if _, err := io.WriteString(w, e.with); err != nil {
				return err
			}
			at = e.to
		}
		return r.copyTo(w, at, r.Text.Size())
	})
}

// edit puts other bytes in the place of was.
type edit struct {
	from, to int64
	with     string
	was      []byte
}

// change is the edit of a wrong report in words.
func (e *edit) change(file string, line int) Change {
	return Change{Kind: WrongUsage, File: file, Line: line, Detail: "what cannot have been reported was taken out: " + splice.Clip(string(e.was), 200)}
}

// edits take the wrong reports of a record out.
func (p *report) edits(raw []byte) (out []edit) {
	for _, path := range p.from {
		p.walk(raw, splice.At(raw, splice.Begin(raw)), path, &out)
	}
	return out
}

func (p *report) walk(raw []byte, v splice.Span, path []string, out *[]edit) {
	if path[0] == "*" {
		splice.Elements(raw, v, func(e splice.Span) bool {
			p.walk(raw, e, path[1:], out)
			return true
		})
		return
	}
	splice.Members(raw, v, func(key string, m splice.Span) bool {
		switch {
		case key != path[0]:
		case len(path) > 1:
			p.walk(raw, m, path[1:], out)
		case m.Kind(raw) == '{' && wrongReport(m.Of(raw)):
			*out = append(*out, p.edit(raw, v, m, key))
		}
		return true
	})
}

// edit takes the member m with the key out of the object v.
func (p *report) edit(raw []byte, v, m splice.Span, key string) edit {
	was := m.Of(raw)
	e := edit{int64(m.Start), int64(m.End), "null", was}
	switch p.none {
	case zeros:
		e.with = zero(was)
	case absent:
		quoted := []byte(strconv.Quote(key))
		head := bytes.TrimRight(raw[v.Start:m.Start], " \t\r\n:")
		if !bytes.HasSuffix(head, quoted) {
			break // a key with escapes
		}
		from := v.Start + len(head) - len(quoted)
		to := splice.Space(raw, m.End)
		if raw[to] == ',' {
			to = splice.Space(raw, to+1)
		} else {
			to = m.End
			from = v.Start + len(bytes.TrimRight(bytes.TrimRight(raw[v.Start:from], " \t\r\n"), ","))
		}
		if taken := slices.Concat(raw[v.Start:from], raw[to:v.End]); json.Valid(taken) {
			e.from, e.to, e.with = int64(from), int64(to), ""
		}
	}
	return e
}

// zero makes all numbers of a value zero.
func zero(raw []byte) string {
	var out []byte
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			end, _ := splice.ValueEnd(raw, i)
			out = append(out, raw[i:end]...)
			i = end
		case c == '-' || c >= '0' && c <= '9':
			for i < len(raw) && bytes.IndexByte([]byte("+-.0123456789eE"), raw[i]) >= 0 {
				i++
			}
			out = append(out, '0')
		default:
			out = append(out, c)
			i++
		}
	}
	return string(out)
}

// wrongReport reports whether the counts of a report, or of the last report in a
// list of totals, cannot be.
func wrongReport(raw json.RawMessage) bool {
	if last := splice.Get(raw, splice.At(raw, 0), "last_token_usage"); !last.IsZero() {
		raw = last.Of(raw)
	}
	n := map[string]float64{}
	negative := false
	var walk func(v splice.Span)
	walk = func(v splice.Span) {
		splice.Members(raw, v, func(key string, m splice.Span) bool {
			if m.Kind(raw) == '{' {
				walk(m)
			} else if x, err := strconv.ParseFloat(string(m.Of(raw)), 64); err == nil {
				n[key] = x
				negative = negative || x < 0
			}
			return true
		})
	}
	walk(splice.At(raw, 0))
	// Where the prompt does not include what came from the cache, nothing but a
	// negative count is wrong.
	for prompt, cached := range map[string][]string{
		"input_tokens":     {"cached_input_tokens", "cache_write_input_tokens", "cache_read", "cache_creation"},
		"prompt_tokens":    {"cached_tokens", "prompt_cache_hit_tokens"},
		"promptTokenCount": {"cachedContentTokenCount"},
		"input":            {"cached"},
	} {
		sum := 0.0
		for _, name := range cached {
			sum += n[name]
		}
		if p, ok := n[prompt]; ok && sum > p+n["tool"] {
			if prompt == "prompt_tokens" && max(n["cached_tokens"], n["prompt_cache_hit_tokens"]) <= p {
				continue // one of them says it again
			}
			return true
		}
	}
	return negative
}
