package jsonl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/agentcompact/agentcompact/wire"
)

func values2(t testing.TB, f *File) (out []string, refs []Ref) {
	t.Helper()
	for v, err := range f.Values() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%d@%d %s %v %v", v.Line, v.Offset, v.Raw, v.Err, v.Last))
		refs = append(refs, f.Ref(v))
	}
	return out, refs
}

// check requires that a stored file gives what the same one in memory does.
func check(t testing.TB, data []byte) {
	t.Helper()
	here, stored := Bytes(data), Stored(bytes.NewReader(data), int64(len(data)))
	want, refs := values2(t, here)
	got, stRefs := values2(t, stored)
	if strings.Join(want, "\n") != strings.Join(got, "\n") {
		t.Fatalf("stored gives %q, in memory %q", got, want)
	}
	for i := range refs {
		a, err1 := here.Load(refs[i])
		b, err2 := stored.Load(stRefs[i])
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Fatalf("value %d is %q (%v), stored %q (%v)", i, a, err1, b, err2)
		}
	}
	var out bytes.Buffer
	if err := stored.Copy(context.Background(), &out); err != nil || !bytes.Equal(out.Bytes(), data) {
		t.Fatalf("copied %q: %v", out.Bytes(), err)
	}
	a, err1 := here.EndsLine()
	b, err2 := stored.EndsLine()
	if a != b || err1 != nil || err2 != nil {
		t.Fatalf("ends a line: %v %v, %v %v", a, b, err1, err2)
	}
}

func TestStored(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 2*block) + `"}`
	for _, data := range []string{
		"", " \n\n", "{}", "{}\n", "{}{}\n\n[1]\n", "{}\r\n\"x\"\n", "\xef\xbb\xbf{}\n{}", "{\"a\":\n{}\n{\"b", long, "{}\n" + long + "\n{}\n  \n",
		"{}" + strings.Repeat(" ", 10_000), "{}\n" + strings.Repeat("\n", 10_000) + "{]\n",
	} {
		check(t, []byte(data))
	}
}

func FuzzStored(f *testing.F) {
	f.Add([]byte("{}{}\n\n[1]\n{\"a"))
	f.Fuzz(func(t *testing.T, data []byte) { check(t, data) })
}

func TestChanged(t *testing.T) {
	data := []byte("{\"a\":1}\n{\"b\":2}\n")
	f := Stored(bytes.NewReader(data), int64(len(data)))
	_, refs := values2(t, f)
	data[9] = 'B'
	for name, err := range map[string]error{
		"copy": f.Copy(context.Background(), io.Discard), "check": f.Check(context.Background()),
		"load": func() error { _, err := f.Load(refs[1]); return err }(),
	} {
		if !errors.Is(err, wire.ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := f.Load(refs[0]); err != nil || string(b) != `{"a":1}` {
		t.Errorf("what stayed: %s, %v", b, err)
	}
	short := Stored(bytes.NewReader(data[:10]), int64(len(data)))
	for _, err := range short.Values() {
		if !errors.Is(err, wire.ErrChanged) {
			t.Errorf("shorter than said: %v", err)
		}
	}
}

type broken struct{ io.ReaderAt }

func (broken) ReadAt([]byte, int64) (int, error) { return 0, os.ErrPermission }

func TestUnreadable(t *testing.T) {
	n := 0
	for _, err := range Stored(broken{}, 10).Values() {
		if n++; !errors.Is(err, os.ErrPermission) {
			t.Errorf("error %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d values", n)
	}
}
