package chat_test

import (
	"context"
	"testing"

	"github.com/agentcompact/agentcompact/compact/chat"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/summarize"
)

// stub writes the same summary for everything.
type stub struct{}

func (stub) Name() string { return "stub" }
func (stub) Open(context.Context, *summarize.Request) (summarize.Pending, error) {
	return stub{}, nil
}
func (stub) Cancel() {}
func (stub) Collect(context.Context) (*summarize.Summary, error) {
	text := ""
	for _, h := range summarize.RequiredSections {
		text += "## " + h + "\nThe work is going on as it was planned, and this says so in a few words.\n"
	}
	return &summarize.Summary{Text: text}, nil
}

// BenchmarkCompact is over 1,000 messages of 400 KB.
func BenchmarkCompact(b *testing.B) {
	in := conversation(250, 54)[1:]
	size := 0
	for _, m := range in {
		size += len(m.Content)
	}
	run := func(name string, want bool, o func() chat.Options) {
		b.Run(name, func(b *testing.B) {
			opts := o()
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				_, rep, err := chat.Compact(context.Background(), in, &opts)
				if err != nil || (rep.Result != nil) != want {
					b.Fatal(err, rep)
				}
			}
		})
	}
	run("nothing", false, func() chat.Options { return chat.Options{Window: 256_000} })
	run("nothing/near,cold", false, func() chat.Options { return chat.Options{Window: 190_000} })
	run("nothing/near,memory", false, func() chat.Options { return chat.Options{Window: 190_000, Memory: new(chat.Memory)} })
	run("stub", true, func() chat.Options {
		return chat.Options{Window: 100_000, When: chat.Now, Summarizer: stub{}, Engine: engine.Options{}}
	})
}
