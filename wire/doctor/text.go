package doctor

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
)

// text is the bytes of a file. A log is read line by line, as often as it is
// asked for; a document is held.
type text struct {
	src    *io.SectionReader
	format string
	// logged tells a log, one record a line, from a document.
	logged bool
	doc    []byte // of a document

	// recs are the JSON values of a log in order, from index on.
	recs    []spot
	indexed bool
	byHash  []int32 // indexes of recs in order of hash and place
	missed  int     // how often a search through the file found nothing
}

// spot is where a value stands.
type spot struct {
	off  int64
	hash uint64
	line int32
}

var seed = maphash.MakeSeed()

// newText is the text of a file that was read in the format; nil for a folder.
func newText(ctx context.Context, src *io.SectionReader, format string) (*text, error) {
	if src == nil {
		return nil, nil
	}
	t := &text{src: src, format: format, logged: isLog(format)}
	if t.logged || src.Size() == 0 {
		return t, nil
	}
	shape, err := jsonl.Stored(src, src.Size()).Shape()
	if err != nil {
		return nil, readError(err)
	}
	if shape != jsonl.Document {
		t.logged = true
		return t, nil
	}
	t.doc = make([]byte, src.Size())
	if _, err := src.ReadAt(t.doc, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, readError(err)
	}
	if t.logged = logged(t.doc, format); t.logged {
		t.doc = nil
	}
	return t, context.Cause(ctx)
}

func readError(err error) error { return fmt.Errorf("the file could not be read: %w", err) }

// isLog knows the formats whose files are always logs.
func isLog(format string) bool {
	switch format {
	case "claude-code", "codex", "pi", "deepseek", "kimi", "qwen":
		return true
	}
	return false
}

// logged reports whether the file has one record a line.
func logged(data []byte, format string) bool {
	return isLog(format) || len(bytes.TrimSpace(data)) > 0 && !json.Valid(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
}

// block is how much of a file is read at once.
const block = 1 << 20

// lines calls fn for every line, with its line break, its number from 1 and its
// offset. The bytes are fn's for the call.
func (t *text) lines(ctx context.Context, fn func(b []byte, line int, off int64) error) error {
	r := bufio.NewReaderSize(io.NewSectionReader(t.src, 0, t.src.Size()), block)
	var long []byte // of a line that is longer than a block
	off := int64(0)
	for line := 1; ; line++ {
		b, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = long[:0]
			for errors.Is(err, bufio.ErrBufferFull) {
				long = append(long, b...)
				b, err = r.ReadSlice('\n')
			}
			long = append(long, b...)
			b = long
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return readError(err)
		}
		if line%512 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if len(b) > 0 {
			if err := fn(b, line, off); err != nil {
				return err
			}
		}
		if off += int64(len(b)); err != nil {
			return nil
		}
		if cap(long) > 8*block { // one very long line
			long = nil
		}
	}
}

// values calls fn for every value of a log. It is fn's for the call.
func (t *text) values(ctx context.Context, fn func(v jsonl.Value) error) error {
	n := 0
	for v, err := range jsonl.Stored(t.src, t.src.Size()).Values() {
		if err != nil {
			return readError(err)
		}
		if n++; n%512 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := fn(v); err != nil {
			return err
		}
	}
	return nil
}

// note keeps where a value stands.
func (t *text) note(v *jsonl.Value) {
	t.recs = append(t.recs, spot{int64(v.Offset), maphash.Bytes(seed, v.Raw), int32(v.Line)})
}

// index finds where the values stand, unless that is known.
func (t *text) index(ctx context.Context) error {
	if t == nil || !t.logged || t.indexed {
		return nil
	}
	t.recs = t.recs[:0]
	err := t.values(ctx, func(v jsonl.Value) error {
		if v.Err == nil {
			t.note(&v)
		}
		return nil
	})
	t.indexed = err == nil
	return err
}

// near is how many values from a place on are looked at one by one.
const near = 16

// beginsLine reports whether a line begins at the offset.
func (t *text) beginsLine(off int64) bool {
	var b [1]byte
	if off > 0 {
		_, _ = t.src.ReadAt(b[:], off-1)
	}
	return off == 0 || b[0] == '\n'
}

// lineEnd is the offset behind the line that off is in; false when something else
// stands there, or no line break.
func (t *text) lineEnd(off int64) (int64, bool) {
	b, err := bufio.NewReader(io.NewSectionReader(t.src, off, t.src.Size()-off)).ReadSlice('\n')
	return off + int64(len(b)), err == nil && len(bytes.TrimSpace(b)) == 0
}

// find returns where raw stands for the first time at or behind from, or
// anywhere; -1 when it does not.
func (t *text) find(raw []byte, from int64) int64 {
	if t.logged {
		if at := t.record(raw, from); at >= 0 {
			return at
		}
		return t.search(raw, from)
	}
	if from < int64(len(t.doc)) {
		if n := bytes.Index(t.doc[from:], raw); n >= 0 {
			return from + int64(n)
		}
	}
	return int64(bytes.Index(t.doc, raw))
}

// record is find for what is a value of a log; it does not read the file.
func (t *text) record(raw []byte, from int64) int64 {
	hash := maphash.Bytes(seed, raw)
	first, _ := slices.BinarySearchFunc(t.recs, from, func(r spot, off int64) int { return cmp.Compare(r.off, off) })
	for _, r := range t.recs[first:min(first+near, len(t.recs))] {
		if r.hash == hash {
			return r.off
		}
	}
	if len(t.byHash) != len(t.recs) {
		t.byHash = make([]int32, len(t.recs))
		for i := range t.byHash {
			t.byHash[i] = int32(i)
		}
		slices.SortFunc(t.byHash, func(a, b int32) int {
			return cmp.Or(cmp.Compare(t.recs[a].hash, t.recs[b].hash), cmp.Compare(a, b))
		})
	}
	k, _ := slices.BinarySearchFunc(t.byHash, hash, func(i int32, h uint64) int { return cmp.Compare(t.recs[i].hash, h) })
	at := int64(-1)
	for ; k < len(t.byHash) && t.recs[t.byHash[k]].hash == hash; k++ {
		off := t.recs[t.byHash[k]].off
		if off >= from {
			return off
		}
		if at < 0 {
			at = off
		}
	}
	return at
}

// misses is how many searches through a file may find nothing; then none is
// begun any more.
const misses = 64

// search is find for what is a part of a value. It reads the file.
func (t *text) search(raw []byte, from int64) int64 {
	if t.missed >= misses {
		return -1
	}
	for _, start := range []int64{from, 0} {
		buf := make([]byte, max(block, 2*len(raw)))
		for off := start; off < t.src.Size(); off += int64(len(buf) - len(raw) + 1) {
			n, _ := t.src.ReadAt(buf, off) // what cannot be read has no place
			if k := bytes.Index(buf[:n], raw); k >= 0 {
				return off + int64(k)
			}
			if n < len(buf) {
				break
			}
		}
		if from == 0 {
			break
		}
	}
	t.missed++
	return -1
}

// placer knows the places of live messages in the file. It looks for them in
// order, so that of equal records each has its own place. Without a text there
// are none.
type placer struct {
	t      *text
	c      *wire.Conversation
	places []int64 // offsets of the entries before next; -1 for none
	before *session.Origin
	late   bool // places are found when they are asked for
	lines  counter
}

// see takes in the next entry while its place is found without effort.
func (p *placer) see(o *session.Origin) {
	if p.late = p.late || p.t == nil || !p.t.logged; !p.late {
		at := p.next(o, p.t.record)
		if p.late = at < 0 && o != nil; !p.late {
			p.places, p.before = append(p.places, at), o
		}
	}
}

// next finds the next entry.
func (p *placer) next(o *session.Origin, find func(raw []byte, from int64) int64) int64 {
	if o == nil || len(o.Raw) == 0 {
		return -1
	}
	from := int64(0)
	if k := len(p.places) - 1; k >= 0 && p.places[k] >= 0 {
		from = p.places[k]
		if &p.before.Raw[0] != &o.Raw[0] {
			from += int64(len(p.before.Raw))
		}
	}
	return find(o.Raw, from)
}

// place returns line and offset of an entry; zero when it has no record of its
// own or cannot be read. The text must have its index.
func (p *placer) place(i int) (line int, offset int64) {
	if p.t == nil {
		return 0, 0
	}
	for len(p.places) <= i {
		e, err := p.c.At(len(p.places))
		if err != nil {
			return 0, 0
		}
		o := e.Message.Origin
		p.places, p.before = append(p.places, p.next(o, p.t.find)), o
	}
	at := p.places[i]
	if at < 0 {
		at = p.c.Offset(i)
	}
	switch {
	case at < 0 || at >= p.t.src.Size():
		return 0, 0
	case !p.t.logged:
		return p.lines.of(p.t.doc, int(at)), at
	}
	k, ok := slices.BinarySearchFunc(p.t.recs, at, func(r spot, off int64) int { return cmp.Compare(r.off, off) })
	if !ok {
		k--
	}
	return int(p.t.recs[max(k, 0)].line), at
}

// counter knows the line of an offset; it is quick where offsets rise.
type counter struct{ off, lines int }

// of is the line of an offset, from 1.
func (c *counter) of(data []byte, offset int) int {
	if offset < c.off {
		*c = counter{}
	}
	c.lines += bytes.Count(data[c.off:offset], []byte{'\n'})
	c.off = offset
	return 1 + c.lines
}
