package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

func TestShape(t *testing.T) {
	for data, want := range map[string]Shape{
		"": Lines, "{}": Document, "{}\n": Document, "\n\n[1]\n": Document, "{}\n{}\n": Lines, "{}{}": Lines, "{\n}\n": Document, "[\n1,\n2]": Document,
		"[\n1,\n2] 3": Lines, "\xef\xbb\xbf{\n\"a\":1e999}": Document, "{\"a\":\n{}\n{\"b\":1}\n": Lines, "{\"a\":[1,\n{\"b\":2},\n{\"c\":3}\n]}": Document,
		"what\n{}\n": Lines, "{\n\"a": Cut, "{\"a\":[1,\n{\"b\":2},\n": Cut, "{\"a\":[1,\n{\"b\":tr": Cut, "[": Cut, "{\"a\":\"b\n{}\n": Lines, "tr": Lines,
	} {
		for _, f := range []*File{Bytes([]byte(data)), Stored(bytes.NewReader([]byte(data)), int64(len(data)))} {
			got, err := f.Shape()
			if err != nil || got != want {
				t.Errorf("%q: %v, %v", data, got, err)
			}
			if got == Document && !json.Valid(bytes.TrimPrefix([]byte(data), bom)) {
				t.Errorf("%q is not valid", data)
			}
		}
	}
	if _, err := Stored(broken{}, 10).Shape(); !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
}
