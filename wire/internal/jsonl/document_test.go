package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

func TestDocument(t *testing.T) {
	for data, want := range map[string]bool{
		"": false, "{}": true, "{}\n": true, "\n\n[1]\n": true, "{}\n{}\n": false, "{}{}": false, "{\n}\n": true, "[\n1,\n2]": true, "[\n1,\n2] 3": false,
		"\xef\xbb\xbf{\n\"a\":1e999}": true, "{\"a\":\n{}\n{\"b\":1}\n": false, "{\"a\":[1,\n{\"b\":2},\n{\"c\":3}\n]}": true, "what\n{}\n": false, "{\n\"a": false,
	} {
		for _, f := range []*File{Bytes([]byte(data)), Stored(bytes.NewReader([]byte(data)), int64(len(data)))} {
			got, err := f.Document()
			if err != nil || got != want {
				t.Errorf("%q: %v, %v", data, got, err)
			}
			if got && !json.Valid(bytes.TrimPrefix([]byte(data), bom)) {
				t.Errorf("%q is not valid", data)
			}
		}
	}
	if _, err := Stored(broken{}, 10).Document(); !errors.Is(err, os.ErrPermission) {
		t.Error(err)
	}
}
