package jsonl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math"

	"github.com/agentcompact/agentcompact/wire"
)

// File is the text of a JSONL file, in memory or where it is stored. It is read
// once by [File.Values], and then only where somebody asks. A stored file must
// keep its bytes; what is appended to it meanwhile is not looked at. It is safe
// for concurrent use after Values has come to the end.
type File struct {
	data []byte      // all of it, when r is nil
	r    io.ReaderAt // where it is stored
	size int64
	sum  uint32 // of all of a stored file, from the end of Values on
}

// Bytes is a file in memory. It keeps data, which must not be modified.
func Bytes(data []byte) *File { return &File{data: data, size: int64(len(data))} }

// Stored is the file of the first size bytes of r.
func Stored(r io.ReaderAt, size int64) *File { return &File{r: r, size: size} }

// Size is the size of the file in bytes.
func (f *File) Size() int64 { return f.size }

var table = crc32.MakeTable(crc32.Castagnoli)

// block is how much of a stored file is read at once.
const block = 1 << 20

// Values iterates over the values of the file in order, as the function Values
// does. Raw is valid until the next value if the file is stored. An error that
// is not nil is one of reading, and the last.
func (f *File) Values() iter.Seq2[Value, error] {
	return func(yield func(Value, error) bool) {
		one := func(v Value) bool { return yield(v, nil) }
		if f.r == nil {
			Values(f.data)(one)
			return
		}
		if err := f.stream(one); err != nil && !errors.Is(err, errStopped) {
			yield(Value{}, err)
		}
	}
}

var errStopped = errors.New("stopped")

func (f *File) stream(yield func(Value) bool) error {
	end, err := f.trimmed()
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f.r, 0, f.size), block)
	var sum uint32
	var long []byte // of a line that is longer than a block
	off := int64(0)
	for line := 1; ; line++ {
		text, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = long[:0]
			for errors.Is(err, bufio.ErrBufferFull) {
				long = append(long, text...)
				text, err = r.ReadSlice('\n')
			}
			long = append(long, text...)
			text = long
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return readError(off, err)
		}
		last := err != nil
		sum = crc32.Update(sum, table, text)
		size := int64(len(text))
		base := off
		if off == 0 && bytes.HasPrefix(text, bom) {
			text, base = text[len(bom):], int64(len(bom))
		}
		if !values(text, int(base), line, int(end), yield) {
			return errStopped
		}
		if cap(long) > 8*block { // one very long line
			long = nil
		}
		if off += size; last {
			break
		}
	}
	if off != f.size {
		return fmt.Errorf("%w: it has %d bytes and had %d", wire.ErrChanged, off, f.size)
	}
	f.sum = sum
	return nil
}

func readError(off int64, err error) error { return fmt.Errorf("read at byte %d: %w", off, err) }

// trimmed is the size without the white space at the end.
func (f *File) trimmed() (int64, error) {
	b := make([]byte, 4096)
	for end := f.size; end > 0; {
		from := max(end-int64(len(b)), 0)
		part := b[:end-from]
		if err := f.readAt(part, from); err != nil {
			return 0, err
		}
		if n := len(bytes.TrimRight(part, space)); n > 0 {
			return from + int64(n), nil
		}
		end = from
	}
	return 0, nil
}

// readAt fills b from offset off of a stored file.
func (f *File) readAt(b []byte, off int64) error {
	switch n, err := f.r.ReadAt(b, off); {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it ends at byte %d and had %d", wire.ErrChanged, off+int64(n), f.size)
	default:
		return readError(off, err)
	}
}

// Ref is where a value stands in its file. The zero Ref is none.
type Ref struct {
	off    int64
	n, sum uint32
}

// Ref returns where a value of the file stands.
func (f *File) Ref(v Value) Ref {
	if len(v.Raw) > math.MaxUint32 {
		return Ref{} // no JSON text of ours is that long; Load says so
	}
	r := Ref{off: int64(v.Offset), n: uint32(len(v.Raw))}
	if f.r != nil {
		r.sum = crc32.Checksum(v.Raw, table)
	}
	return r
}

// At is the Ref of n bytes from off on of a file in memory.
func At(off, n int) Ref { return Ref{off: int64(off), n: uint32(n)} }

// Offset is where the value begins.
func (r Ref) Offset() int64 { return r.off }

// Len is how many bytes the value has.
func (r Ref) Len() int { return int(r.n) }

// Load returns the bytes of a value. They must not be modified. The error wraps
// [wire.ErrChanged] when the file has other ones now.
func (f *File) Load(r Ref) (json.RawMessage, error) {
	if f.r == nil {
		return f.data[r.off : r.off+int64(r.n) : r.off+int64(r.n)], nil
	}
	if r == (Ref{}) {
		return nil, errors.New("a value of the file is longer than 4 GB")
	}
	b := make([]byte, r.n)
	if err := f.readAt(b, r.off); err != nil {
		return nil, err
	}
	if crc32.Checksum(b, table) != r.sum {
		return nil, fmt.Errorf("%w at byte %d", wire.ErrChanged, r.off)
	}
	return b, nil
}

// Same reports whether two values have the same bytes.
func (f *File) Same(a, b Ref) (bool, error) {
	if a.n != b.n || a.sum != b.sum {
		return false, nil
	}
	x, err := f.Load(a)
	if err != nil {
		return false, err
	}
	y, err := f.Load(b)
	return bytes.Equal(x, y), err
}

// End is the offset behind the value.
func (r Ref) End() int64 { return r.off + int64(r.n) }

// Copy writes the file to w. The error wraps [wire.ErrChanged] when it is not
// what Values read; then w has bytes that are of no use.
func (f *File) Copy(ctx context.Context, w io.Writer) error {
	if f.r == nil {
		return write(w, f.data)
	}
	sum := uint32(0)
	err := f.chunks(ctx, 0, f.size, func(b []byte) error {
		sum = crc32.Update(sum, table, b)
		return write(w, b)
	})
	if err == nil && sum != f.sum {
		err = wire.ErrChanged
	}
	return err
}

// Check reads a stored file again. The error wraps [wire.ErrChanged] when it is
// not what Values read.
func (f *File) Check(ctx context.Context) error {
	if f.r == nil {
		return nil
	}
	return f.Copy(ctx, io.Discard)
}

// CopyRange writes the bytes from from to to. It does not check them.
func (f *File) CopyRange(ctx context.Context, w io.Writer, from, to int64) error {
	if f.r == nil {
		return write(w, f.data[from:to])
	}
	return f.chunks(ctx, from, to, func(b []byte) error { return write(w, b) })
}

func (f *File) chunks(ctx context.Context, from, to int64, fn func([]byte) error) error {
	buf := make([]byte, min(block, to-from))
	for off := from; off < to; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b := buf[:min(int64(len(buf)), to-off)]
		if err := f.readAt(b, off); err != nil {
			return err
		}
		if err := fn(b); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

func write(w io.Writer, b []byte) error {
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// EndsLine reports whether a record may be appended as it is: the file is
// empty or its last line has a newline.
func (f *File) EndsLine() (bool, error) {
	if f.size == 0 {
		return true, nil
	}
	var b bytes.Buffer
	err := f.CopyRange(context.Background(), &b, f.size-1, f.size)
	return err == nil && b.Bytes()[0] == '\n', err
}
