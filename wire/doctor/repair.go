package doctor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/jsonl"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// Plugin is the plugin name in the source of messages that a repair made.
const Plugin = "doctor"

// The forms of such messages, in the source's Form.
const (
	// FormResult: a made-up result.
	FormResult = "result"
	// FormNote: a result without a call, as a note.
	FormNote = "note"
)

const abandonedText = "[No result: this call was interrupted before it finished.]"

// Options decide what [Repair] does not decide by itself. Nil means defaults.
type Options struct {
	// DropOrphans takes results without a call out of the conversation. By
	// default they become quoted notes.
	DropOrphans bool
	// CloseRunning gives calls at the end that may still be running a made-up
	// result, too, and ends a compaction that may still be running.
	CloseRunning bool
	// UniqueIDs gives calls whose id was used before another one, with their
	// results.
	UniqueIDs bool
	// DropBadLines takes lines that are not JSON, or JSON but no object, out of
	// the file, and of a log of our own format what is damaged and all that stands behind it.
	DropBadLines bool
	// PlainCheckpoints makes checkpoints whose span is missing plain messages
	// with the same text.
	PlainCheckpoints bool
	// WrapArguments makes arguments of calls that are not JSON the text "input" of
	// a JSON object.
	WrapArguments bool
	// Scratch makes the places that the repaired file is written to, one for
	// every step that changes it. Nil means in memory.
	Scratch func() (Scratch, error)
}

// Change is one thing that a repair did.
type Change struct {
	Kind Kind `json:"kind"`
	// Conversation and Message count from 1; 0 for the file. Message is that
	// of the file before.
	Conversation int    `json:"conversation,omitempty"`
	Message      int    `json:"message,omitempty"`
	File         string `json:"file,omitempty"` // of a folder
	Line         int    `json:"line,omitempty"`
	CallID       string `json:"call_id,omitempty"`
	// Detail says what was done.
	Detail string `json:"detail"`
}

// Repaired is the outcome of a repair.
type Repaired struct {
	// Text is the new file; that of the old one when nothing was done, and nil
	// for a session. It reads from the last Scratch.
	Text *io.SectionReader
	// Changes are in the order in which they were made.
	Changes []Change
	// Left are the findings of the new file that are not normal, and those that
	// an option decides.
	Left []Finding
}

// Scratch is where a repair writes a file that is read again.
type Scratch interface {
	io.Writer
	io.ReaderAt
}

// memory is a scratch in memory.
type memory struct{ bytes.Buffer }

// ReadAt implements [io.ReaderAt].
func (m *memory) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(m.Bytes()).ReadAt(b, off)
}

// Options that decide a finding, by kind, as the command names them.
var decides = map[Kind]string{RunningCall: "--close-running", CallIDReused: "--unique-ids", BadLine: "--drop-bad-lines", NotAnObject: "--drop-bad-lines",
	OpenAttempt: "--close-running", SpanMissing: "--plain-checkpoints", DamagedLog: "--drop-bad-lines",
	BadArguments: "--wrap-arguments"}

// Decides names the option that decides what to do about a kind of finding;
// empty when none does.
func Decides(k Kind) string { return decides[k] }

// Repair repairs a file of a format by the least change. src are its bytes. The
// error is that of the codec: a file that cannot be read cannot be repaired; see
// [Mend] for a document that was cut short.
//
// A log is not held, see [Diagnose]. What its Writer appends for a conversation
// that changed is: for most formats that is the conversation from the first
// change on.
func Repair(ctx context.Context, codec wire.Codec, src *io.SectionReader, opts *Options) (*Repaired, error) {
	if opts == nil {
		opts = &Options{}
	}
	r := &repair{ctx: ctx, codec: codec, opts: opts, Repaired: Repaired{Text: src}}
	if err := r.encoding(); err != nil {
		return nil, err
	}
	if err := r.records(); err != nil {
		return nil, err
	}
	f, err := r.read()
	if err != nil {
		return nil, err
	}
	switch ended, err := r.parts(f); {
	case err != nil:
		return nil, err
	case ended:
		if f, err = r.read(); err != nil {
			return nil, fmt.Errorf("the repaired file cannot be read: %w", err)
		}
	}
	for n := range f.Conversations {
		changed, err := r.conversation(f, n)
		if err != nil {
			return nil, fmt.Errorf("repair conversation %d: %w", n+1, err)
		}
		if !changed {
			continue
		}
		if f, err = r.read(); err != nil {
			return nil, fmt.Errorf("the repaired file cannot be read: %w", err)
		}
	}
	list, err := Diagnose(ctx, r.Text, f)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(list, func(n Finding) bool { return n.Kind == WrongUsage }) {
		if _, err := r.usage(list); err != nil {
			return nil, err
		}
		if f, err = r.read(); err != nil {
			return nil, fmt.Errorf("the repaired file cannot be read: %w", err)
		}
		if list, err = Diagnose(ctx, r.Text, f); err != nil {
			return nil, err
		}
	}
	r.left(list)
	return &r.Repaired, nil
}

// repair is a repair of a file that goes on.
type repair struct {
	Repaired
	ctx     context.Context
	codec   wire.Codec
	opts    *Options
	counted bool  // wrong usage was looked for everywhere
	gone    []int // lines that were taken out, in order
}

// read reads the text as it is now.
func (r *repair) read() (*wire.File, error) {
	if o, ok := r.codec.(wire.Opener); ok {
		return o.Open(r.ctx, r.Text, r.Text.Size())
	}
	data := make([]byte, r.Text.Size())
	if _, err := r.Text.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, readError(err)
	}
	return r.codec.Read(r.ctx, data)
}

// rewrite makes what fill writes the text.
func (r *repair) rewrite(fill func(w io.Writer) error) error {
	scratch := r.opts.Scratch
	if scratch == nil {
		scratch = func() (Scratch, error) { return new(memory), nil }
	}
	to, err := scratch()
	if err != nil {
		return err
	}
	n := &counted{w: to}
	w := bufio.NewWriterSize(n, block)
	if err := fill(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the repaired file: %w", err)
	}
	r.Text = io.NewSectionReader(to, 0, n.n)
	return nil
}

// was is the number that a line had before others were taken out.
func (r *repair) was(line int) int {
	for _, n := range r.gone {
		if line > 0 && n <= line {
			line++
		}
	}
	return line
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// copyTo copies the bytes of the text from from to to.
func (r *repair) copyTo(w io.Writer, from, to int64) error {
	if _, err := io.Copy(w, io.NewSectionReader(r.Text, from, to-from)); err != nil {
		return fmt.Errorf("write the repaired file: %w", err)
	}
	return nil
}

// conversation repairs the n-th conversation and reports whether it changed.
func (r *repair) conversation(f *wire.File, n int) (bool, error) {
	p := &patient{c: f.Conversations[n], n: n, opts: r.opts, format: f.Format}
	items, err := p.items(r.ctx)
	if err != nil || len(p.changes) == 0 {
		return false, err
	}
	if p.misjudged && !r.counted { // the Writer copies the report, or leaves it out: it goes first
		list, err := Diagnose(r.ctx, r.Text, f)
		if err != nil {
			return false, err
		}
		if done, err := r.usage(list); err != nil {
			return false, err
		} else if done {
			if f, err = r.read(); err != nil {
				return false, fmt.Errorf("the repaired file cannot be read: %w", err)
			}
			return r.conversation(f, n)
		}
	}
	if err := p.locate(r.ctx, r.Text); err != nil {
		return false, err
	}
	for _, ch := range p.changes {
		ch.Line = r.was(ch.Line)
		r.Changes = append(r.Changes, ch)
	}
	return true, r.rewrite(func(w io.Writer) error { return f.Writer.Write(r.ctx, w, n, items) })
}

// parts ends calls that did not end, where call and result are one.
func (r *repair) parts(f *wire.File) (bool, error) {
	calls, err := openParts(r.ctx, f, r.opts)
	if err != nil || len(calls) == 0 {
		return false, err
	}
	t, err := newText(r.ctx, r.Text, f.Format)
	if err != nil {
		return false, err
	}
	edits, changes := calls.edits(t.doc)
	r.Changes = append(r.Changes, changes...)
	return edits != nil, r.edit(edits)
}

// left takes those of the findings that were left.
func (r *Repaired) left(list []Finding) {
	for _, n := range list {
		if !n.Normal || decides[n.Kind] != "" {
			r.Left = append(r.Left, n)
		}
	}
}

// encoding replaces what is not UTF-8.
func (r *repair) encoding() error {
	t := &text{src: r.Text}
	list, err := t.scan(r.ctx) // as a document: nothing but the encoding
	if err != nil || len(list) == 0 {
		return err
	}
	for _, f := range list {
		r.Changes = append(r.Changes, Change{Kind: f.Kind, Line: f.Line, Detail: "replaced by U+FFFD: " + f.Detail})
	}
	return r.rewrite(func(w io.Writer) error {
		return t.lines(r.ctx, func(b []byte, _ int, _ int64) error {
			_, err := w.Write(turns.Repair(b))
			return err
		})
	})
}

// records takes records that were cut short out of a log: those at its end, and
// with DropBadLines everything else that is no record.
func (r *repair) records() error {
	t, err := newText(r.ctx, r.Text, r.codec.Name())
	if err != nil || !t.logged {
		return err
	}
	type cut struct {
		from, to int64
		line     int
	}
	var cuts, short []cut // short: those that were cut short, no other value behind them
	out := func(kind Kind, list ...cut) {
		for _, c := range list {
			r.Changes = append(r.Changes, Change{Kind: kind, Line: c.line, Detail: fmt.Sprintf("taken out: %d bytes that are no record", c.to-c.from)})
			if end, ok := t.lineEnd(c.to); ok && t.beginsLine(c.from) { // the line goes as a whole
				c.to = end
				r.gone = append(r.gone, c.line)
			}
			cuts = append(cuts, c)
		}
	}
	err = t.values(r.ctx, func(v jsonl.Value) error {
		c := cut{int64(v.Offset), int64(v.Offset + len(v.Raw)), v.Line}
		if errors.Is(v.Err, io.ErrUnexpectedEOF) {
			short = append(short, c)
			return nil
		}
		if r.opts.DropBadLines {
			out(BadLine, short...)
			switch {
			case v.Err != nil:
				out(BadLine, c)
			case !v.IsObject():
				out(NotAnObject, c)
			}
		}
		short = short[:0]
		return nil
	})
	if err != nil {
		return err
	}
	if out(TornRecord, short...); cuts == nil {
		return nil
	}
	return r.rewrite(func(w io.Writer) error {
		at := int64(0)
		for _, c := range cuts {
			if err := r.copyTo(w, at, c.from); err != nil {
				return err
			}
			at = c.to
		}
		return r.copyTo(w, at, r.Text.Size())
	})
}
