package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

func bytesAre(n int) string {
	if n == 1 {
		return "1 byte is"
	}
	return fmt.Sprintf("%d bytes are", n)
}

// scan looks at the bytes of the file and at the links of its records.
func (t *text) scan(ctx context.Context) ([]Finding, error) {
	if t == nil {
		return nil, nil
	}
	var wrong, half, blank, out []Finding
	err := t.lines(ctx, func(b []byte, line int, off int64) error {
		at := func(i int, f Finding) Finding {
			f.Line, f.Offset = line, off+int64(i)
			return f
		}
		for _, r := range notUTF8(b) {
			wrong = append(wrong, at(r.from, finding(InvalidUTF8, "%s not UTF-8: % x", bytesAre(r.to-r.from), b[r.from:min(r.to, r.from+8)])))
		}
		for _, i := range turns.LoneSurrogates(b) {
			half = append(half, at(i, finding(HalfSurrogate, "the escape %s is half of a surrogate pair", b[i:min(i+6, len(b))])))
		}
		if t.logged && b[len(b)-1] == '\n' && len(bytes.TrimSpace(b)) == 0 {
			blank = append(blank, at(0, finding(BlankLine, "the line is blank")))
		}
		return nil
	})
	if err != nil || !t.logged {
		return append(wrong, half...), err
	}
	line := 0
	l := linker{format: t.format}
	t.recs = t.recs[:0]
	err = t.values(ctx, func(v jsonl.Value) error {
		add := func(f Finding) {
			f.Line, f.Offset = v.Line, int64(v.Offset)
			out = append(out, f)
		}
		if v.Line == line && v.Err == nil {
			add(finding(TwoOnALine, "two values stand on one line"))
		}
		line = v.Line
		switch {
		case v.Torn():
			add(finding(TornRecord, "the last record is cut short after %d bytes", len(v.Raw)))
		case v.Err != nil:
			detail := "it is not JSON"
			if errors.Is(v.Err, io.ErrUnexpectedEOF) {
				detail = "the record is cut short, and others follow"
			}
			add(finding(BadLine, "%s: %s", detail, splice.Clip(string(v.Raw), 60)))
		case !v.IsObject():
			add(finding(NotAnObject, "the value is %s, not an object", splice.TypeName(v.Raw)))
			l.n++
		default:
			l.record(&v)
		}
		if v.Err == nil {
			t.note(&v)
		}
		return nil
	})
	t.indexed = err == nil
	return slices.Concat(wrong, half, blank, out, l.findings()), err
}

// run is a run of bytes of a line.
type run struct{ from, to int }

// notUTF8 are the runs of bytes that are not UTF-8.
func notUTF8(b []byte) (out []run) {
	if utf8.Valid(b) {
		return nil
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		bad := r == utf8.RuneError && n == 1
		switch k := len(out) - 1; {
		case bad && k >= 0 && out[k].to == i:
			out[k].to++
		case bad:
			out = append(out, run{i, i + 1})
		}
		i += n
	}
	return out
}

// linked is what links a record to others.
type linked struct {
	Type   string          `json:"type"`
	UUID   string          `json:"uuid"`
	ID     string          `json:"id"`
	Parent json.RawMessage `json:"parentUuid"`
	Up     json.RawMessage `json:"parentId"`
	First  *string         `json:"firstKeptEntryId"`
	Index  *int            `json:"firstKeptEntryIndex"`
	Vers   int             `json:"version"`
}

// linker looks at the links between the records of a log, in order. It keeps
// their ids.
type linker struct {
	format string
	n      int // records before
	piTree bool
	seen   map[string]bool
	out    []Finding
	// parents are those of the findings of out that hold only if the parent does
	// not come later, by index.
	parents            map[int]string
	roots, ids, adrift int
}

func (l *linker) tree() bool { return l.format == "claude-code" || l.format == "qwen" }

// record takes in the next record.
func (l *linker) record(v *jsonl.Value) {
	i := l.n
	l.n++
	if !l.tree() && l.format != "codex" && l.format != "pi" {
		return
	}
	if l.seen == nil {
		l.seen, l.parents = map[string]bool{}, map[int]string{}
	}
	var r linked
	_ = json.Unmarshal(v.Raw, &r) // what does not fit is empty
	add := func(f Finding) {
		f.Line, f.Offset = v.Line, int64(v.Offset)
		l.out = append(l.out, f)
	}
	if r.Type == "" && r.UUID == "" {
		add(finding(NoType, "the record has no type"))
	}
	switch {
	case l.tree() && r.UUID != "":
		if l.seen[r.UUID] {
			add(finding(DuplicateUUID, "the uuid %s stands on an earlier record, too", r.UUID))
		}
		l.seen[r.UUID] = true
		l.ids++
		parent, ok := rawjson.String(r.Parent)
		switch {
		case r.Parent == nil:
		case !ok || parent == "":
			l.roots++
		case !l.seen[parent]:
			l.parents[len(l.out)] = parent
			add(finding(DanglingParent, "the parent %s is not in the file", parent))
		}
	case l.format == "pi":
		l.entry(i, &r, add)
	}
}

// entry looks at an entry of pi.
func (l *linker) entry(i int, r *linked, add func(Finding)) {
	l.piTree = l.piTree || i == 0 && r.Vers > 1
	if i > 0 && l.piTree && r.ID != "" {
		if l.seen[r.ID] {
			add(finding(DuplicateUUID, "the id %s stands on an earlier entry, too", r.ID))
		}
		if parent, ok := rawjson.String(r.Up); ok && parent != "" && !l.seen[parent] {
			add(finding(DanglingParent, "the parent %s does not stand before it", parent))
		}
		l.seen[r.ID] = true
	}
	if r.Type != "compaction" {
		return
	}
	switch {
	case r.First != nil && (!l.seen[*r.First] || *r.First == r.ID):
		add(finding(KeepsNothing, "the first kept entry %s does not stand before the compaction", *r.First))
	case r.First == nil && r.Index != nil && *r.Index >= i:
		add(finding(KeepsNothing, "the first kept entry is number %d, and the compaction is number %d", *r.Index, i))
	}
}

// findings returns what was found. A parent that came later was found.
func (l *linker) findings() (out []Finding) {
	for i, f := range l.out {
		if parent, ok := l.parents[i]; ok {
			if l.seen[parent] {
				continue
			}
			l.adrift++
		}
		out = append(out, f)
	}
	if l.tree() && l.ids > 0 && l.roots == 0 && l.adrift > 0 {
		f := finding(NoRoot, "no record begins the conversation")
		f.Line = 1
		out = append(out, f)
	}
	return out
}
