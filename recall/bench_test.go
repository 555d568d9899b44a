package recall_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

// big returns a view of 100,000 events with 100 MB of text, all but the newest
// hidden by one checkpoint, and the id of that.
func big(b *testing.B, store session.Store) (session.View, string) {
	b.Helper()
	const events = 100_000
	s, err := session.Open(b.Context(), store, nil)
	require.NoError(b, err)
	b.Cleanup(func() { _ = s.Close() })
	line := "the quick brown fox jumps over the lazy dog; func main() { return 42 } // src/pkg/file.go:17\n"
	var batch []session.Message
	for i := range events {
		text := fmt.Sprintf("event %d\n%s", i, strings.Repeat(line, 1000/len(line)+1))[:1000]
		switch i % 3 {
		case 0:
			batch = append(batch, session.UserText(text))
		case 1:
			batch = append(batch, session.AssistantText(text, session.ToolCall{ID: fmt.Sprint("c", i), Name: "run", Arguments: `{"cmd":"ls"}`}))
		case 2:
			batch = append(batch, session.ToolText(fmt.Sprint("c", i-1), text))
		}
		if len(batch) == 3000 || i == events-1 {
			_, err := s.Append(b.Context(), batch...)
			require.NoError(b, err)
			batch = batch[:0]
		}
	}
	m := session.UserText("summary")
	m.Source = compact.CheckpointSource("c1")
	_, err = s.Record(b.Context(), session.Replace{Start: 0, End: events - 2, Message: m})
	require.NoError(b, err)
	return s.View(), "c1"
}

func benchSearch(b *testing.B, v session.View, q recall.Query, want int) {
	b.Helper()
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		f, err := recall.Search(v, q)
		if err != nil || f.Matched != want || f.Scanned != 99_999 {
			b.Fatalf("%+v, %v", f, err)
		}
	}
}

func BenchmarkRecall100k(b *testing.B) {
	for name, open := range map[string]func() session.Store{
		"memory": func() session.Store { return session.NewMemoryStore() },
		"file": func() session.Store {
			path := filepath.Join(b.TempDir(), "s.jsonl")
			st, err := filestore.Open(path, &filestore.Options{})
			require.NoError(b, err)
			big(b, st)
			st, err = filestore.Open(path, &filestore.Options{ReadOnly: true})
			require.NoError(b, err)
			return st
		},
	} {
		b.Run(name, func(b *testing.B) {
			var v session.View
			id := "c1"
			if st := open(); name == "memory" {
				v, id = big(b, st)
			} else {
				s, err := session.Open(b.Context(), st, nil)
				require.NoError(b, err)
				v = s.View()
			}
			b.Run("literal", func(b *testing.B) { benchSearch(b, v, recall.Query{Text: "event 77777\n"}, 1) })
			b.Run("absent", func(b *testing.B) { benchSearch(b, v, recall.Query{Text: "the quick brown cat"}, 0) })
			b.Run("nocase", func(b *testing.B) { benchSearch(b, v, recall.Query{Text: "EVENT 77777\n", IgnoreCase: true}, 1) })
			b.Run("regexp", func(b *testing.B) { benchSearch(b, v, recall.Query{Regexp: `^event 7777[78]\n`}, 2) })
			b.Run("page", func(b *testing.B) {
				defer cpu(b)()
				for b.Loop() {
					p, err := recall.Read(v, recall.Checkpoint(id), &recall.ReadOptions{Cursor: "50000:0"})
					if err != nil || p.Messages == 0 {
						b.Fatal(err)
					}
				}
			})
			b.Run("hidden page", func(b *testing.B) {
				defer cpu(b)()
				for b.Loop() {
					p, err := recall.Read(v, recall.Hidden(), &recall.ReadOptions{Cursor: "50000:0"})
					if err != nil || p.Messages == 0 {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
