package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Document reports whether the file looks like one JSON value, and not like one
// value a line. It holds the first line; of a log it reads little more. What it
// takes for a document may still be invalid inside.
func (f *File) Document() (bool, error) {
	for v, err := range f.Values() {
		if err != nil {
			return false, err
		}
		if v.Err == nil {
			return v.Last, nil
		}
		break
	}
	// The first line is no value. Token by token, the rest tells how far one goes.
	head := make([]byte, len(bom))
	n, _ := f.readerAt().ReadAt(head, 0)
	if !bytes.Equal(head[:n], bom) {
		n = 0
	}
	failed := &keepError{r: io.NewSectionReader(f.readerAt(), int64(n), f.size-int64(n))}
	dec := json.NewDecoder(failed)
	dec.UseNumber()
	for depth := 0; ; {
		tok, err := dec.Token()
		if err != nil {
			return false, failed.err
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			_, err := dec.Token()
			return errors.Is(err, io.EOF), failed.err
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
