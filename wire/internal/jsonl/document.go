package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Shape says how a file is made.
type Shape byte

// The shapes of files.
const (
	// Lines: values, one a line.
	Lines Shape = iota
	// Document: one value. What is taken for one may still be invalid inside.
	Document
	// Cut: one value whose end is missing.
	Cut
)

// Shape tells lines from a document. It holds the first line; of a file of lines
// it reads little more.
func (f *File) Shape() (Shape, error) {
	for v, err := range f.Values() {
		switch {
		case err != nil:
			return Lines, err
		case v.Err == nil && v.Last:
			return Document, nil
		case v.Err == nil:
			return Lines, nil
		}
		break
	}
	// The first line is no value. Token by token, the rest tells how far one goes.
	head := make([]byte, len(bom))
	n, _ := f.readerAt().ReadAt(head, 0)
	if !bytes.Equal(head[:n], bom) {
		n = 0
	}
	r := &keepError{r: io.NewSectionReader(f.readerAt(), int64(n), f.size-int64(n))}
	dec := json.NewDecoder(r)
	dec.UseNumber()
	for depth := 0; ; {
		tok, err := dec.Token()
		if err != nil {
			if depth > 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
				return Cut, r.err
			}
			return Lines, r.err
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				return Document, r.err
			}
			return Lines, r.err
		}
	}
}

// keepError keeps the error of a reader that is not its end.
type keepError struct {
	r   io.Reader
	err error
}

func (k *keepError) Read(b []byte) (int, error) {
	n, err := k.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		k.err = readError(0, err)
	}
	return n, err
}

// readerAt gives the bytes of the file.
func (f *File) readerAt() io.ReaderAt {
	if f.r != nil {
		return f.r
	}
	return bytes.NewReader(f.data)
}
