package detect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agentcompact/agentcompact/detect"
	"github.com/agentcompact/agentcompact/session"
)

// megabyte is a conversation of about 1 MB.
func megabyte() []*session.Message {
	var list []*session.Message
	for i := range 125 {
		id := fmt.Sprint(i)
		list = append(list, user("Next: "+id), call(id, `{"cmd":"`+strings.Repeat("x", 1000)+`"}`), result(id, strings.Repeat("line "+id+" ", 850)), model("fine "+id))
	}
	return list
}

// BenchmarkRequest is a preview and the taking note of an ordinary request of
// 1 MB that is one message longer than the one before.
func BenchmarkRequest(b *testing.B) {
	list := megabyte()
	d, err := detect.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		q := ask("a", "1", list...)
		d.PreviewRequest(q)
		if out := d.RequestOpened(q); len(out) > 0 {
			b.Fatal(out)
		}
	}
}

// BenchmarkStart is the same with a request that has a summary written.
func BenchmarkStart(b *testing.B) {
	list := with(megabyte(), user(codexAsk))
	d, err := detect.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		q := ask("a", "1", list...)
		d.PreviewRequest(q)
		d.RequestOpened(q)
	}
}

// BenchmarkDelta is a piece of an ordinary response.
func BenchmarkDelta(b *testing.B) {
	d, _ := detect.New(nil)
	d.RequestOpened(ask("a", "1", user("hi")))
	r := detect.Response{Meta: meta("a", "1"), Text: "some words"}
	b.ReportAllocs()
	for b.Loop() {
		d.PreviewResponse(r)
		d.ResponseReleased(r)
	}
}
