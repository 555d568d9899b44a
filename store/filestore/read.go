package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/agentcompact/agentcompact/session"
)

// place is a boundary between two appends: the offset behind the sound bytes
// and the seq of the event that comes next.
type place struct {
	off  int64
	next session.Seq
}

// lines reads a part of a file line by line.
type lines struct {
	f          io.ReaderAt
	buf        []byte
	start, end int   // of what is unread in buf
	off        int64 // of buf[start] in the file
	limit      int64 // where reading ends
}

func newLines(f io.ReaderAt, off, limit int64) *lines {
	return &lines{f: f, off: off, limit: limit, buf: make([]byte, min(1<<20, max(limit-off, 0)))}
}

// next returns the next line without its newline and its offset. The line is
// valid until the next call. At the end it returns io.EOF, with what stands
// behind the last newline.
func (r *lines) next() ([]byte, int64, error) {
	seen := 0
	for {
		if i := bytes.IndexByte(r.buf[r.start+seen:r.end], '\n'); i >= 0 {
			b, off := r.buf[r.start:r.start+seen+i], r.off
			r.start += seen + i + 1
			r.off += int64(seen + i + 1)
			return b, off, nil
		}
		seen = r.end - r.start
		left := r.limit - r.off - int64(seen)
		if left <= 0 {
			return r.buf[r.start:r.end], r.off, io.EOF
		}
		if r.start > 0 {
			copy(r.buf, r.buf[r.start:r.end])
			r.start, r.end = 0, seen
		}
		if r.end == len(r.buf) {
			r.buf = append(r.buf, make([]byte, min(int64(len(r.buf)), left))...)
		}
		n, err := r.f.ReadAt(r.buf[r.end:min(int64(len(r.buf)), int64(r.end)+left)], r.off+int64(seen))
		r.end += n
		if n == 0 {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, r.off, err
		}
	}
}

// tail is what stands behind the last whole append.
type tail struct {
	off    int64  // of the first bad line
	reason string // empty when there is nothing
}

// walk reads whole appends from p, which must be the start of the file or a
// boundary between appends, up to limit. It calls fn for each event line, with
// the offset of its event, and done after each whole append. Either may be
// nil.
func walk(name string, f io.ReaderAt, p place, limit int64, fn func(off int64, l line) error, done func(place) error) (place, tail, error) {
	if p.off == 0 && limit > 0 {
		b := make([]byte, min(limit, maxHeader+1))
		if n, err := f.ReadAt(b, 0); n < len(b) {
			return p, tail{}, fmt.Errorf("read %s: %w", name, err)
		}
		n, err := parseHeader(name, b)
		if err != nil {
			return p, tail{}, err
		}
		if n == 0 {
			return p, tail{reason: "the header is cut short"}, nil
		}
		p.off = int64(n)
	}
	r := newLines(f, p.off, limit)
	next, left := p.next, 0
	for {
		b, off, err := r.next()
		if err == io.EOF {
			switch {
			case len(b) > 0:
				return p, tail{off, "the line is cut short"}, nil
			case off > p.off:
				return p, tail{off, "the rest of an append is missing"}, nil
			}
			return p, tail{}, nil
		}
		if err != nil {
			return p, tail{}, fmt.Errorf("read %s: %w", name, err)
		}
		l, ok := parseLine(b)
		if !ok {
			return p, tail{off, "the line does not match its checksum"}, nil
		}
		if off > p.off && l.left != left-1 {
			return p, tail{off, "the rest of an append is missing"}, nil
		}
		if seq, ok := seqOf(l.event); !ok || seq != int64(next) {
			return p, tail{off, fmt.Sprintf("event %d does not stand there", next)}, nil
		}
		if fn != nil {
			if err := fn(off+int64(l.start), l); err != nil {
				return p, tail{}, err
			}
		}
		next++
		left = l.left
		if left == 0 {
			p = place{r.off, next}
			if done != nil {
				if err := done(p); err != nil {
					return p, tail{}, err
				}
			}
		}
	}
}

// judge says whether what stands behind p is damage: whether some later line
// knows that it was synced. It returns nil for a torn write.
func judge(name string, f io.ReaderAt, p place, t tail, limit int64) error {
	r := newLines(f, t.off, limit)
	for {
		b, _, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if knowsSynced(b, p.off) {
			return &DamageError{Path: name, Offset: t.off, Events: p.next, Reason: t.reason}
		}
	}
}

// knowsSynced reports whether the line says that more than off bytes had been
// synced. A line whose newline before it is damaged counts too.
func knowsSynced(b []byte, off int64) bool {
	l, ok := parseLine(b)
	if i := bytes.LastIndex(b, []byte(lineStart)); !ok && i > 0 {
		l, ok = parseLine(b[i:])
	}
	return ok && l.synced > off
}
