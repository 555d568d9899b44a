package jsonl

import (
	"fmt"
	"slices"
	"testing"
)

func list(data string) []string {
	var out []string
	for v := range Values([]byte(data)) {
		s := fmt.Sprintf("%d@%d %s", v.Line, v.Offset, v.Raw)
		if v.Err != nil {
			s += " BAD"
		}
		if v.Torn() {
			s += " TORN"
		}
		if string(v.Raw) != data[v.Offset:v.Offset+len(v.Raw)] {
			s += " MOVED"
		}
		out = append(out, s)
	}
	return out
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       []string
	}{
		{"empty", "", nil},
		{"space only", " \r\n\n\t", nil},
		{"no final newline", `{"a":1}`, []string{`1@0 {"a":1}`}},
		{"blank lines", "{}\n\n \n[1]\n", []string{`1@0 {}`, `4@6 [1]`}},
		{"crlf", "{}\r\n{}\r\n", []string{`1@0 {}`, `2@4 {}`}},
		{"two on one line", "{\"a\":1}{\"b\":2}\n3\n", []string{`1@0 {"a":1}`, `1@7 {"b":2}`, `2@15 3`}},
		{"two with space", "{} {}\n", []string{`1@0 {}`, `1@3 {}`}},
		{"no objects", "\"x\"\n42\nnull\n", []string{`1@0 "x"`, `2@4 42`, `3@7 null`}},
		{"torn", "{}\n{\"a\":\"b", []string{`1@0 {}`, `2@3 {"a":"b BAD TORN`}},
		{"torn after a value", "{}{\"a\":", []string{`1@0 {}`, `1@2 {"a": BAD TORN`}},
		{"cut short in the middle", "{\"a\":\n{}\n", []string{`1@0 {"a": BAD`, `2@6 {}`}},
		{"garbage", "{]x\n{}\n", []string{`1@0 {]x BAD`, `2@4 {}`}},
		{"mark", "\xef\xbb\xbf{}\n", []string{`1@3 {}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := list(c.data); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestStop(t *testing.T) {
	n := 0
	for range Values([]byte("{}{}\n{}\n")) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("went on for %d values", n)
	}
}

func FuzzValues(f *testing.F) {
	f.Add([]byte("{}{}\n\n[1]\n{\"a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		at := 0
		for v := range Values(data) {
			if v.Offset < at || len(v.Raw) == 0 {
				t.Fatalf("value at %d after %d, %d bytes", v.Offset, at, len(v.Raw))
			}
			at = v.Offset + len(v.Raw)
		}
	})
}
