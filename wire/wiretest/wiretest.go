// Package wiretest is what every codec has to pass: [Suite.Run] over recorded
// files, [Suite.Fuzz] over any bytes.
package wiretest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
	"github.com/agentcompact/agentcompact/wire"
)

// Counts are what is compared with those of the people who collected a file.
type Counts struct {
	Messages int    `json:"messages"`
	Calls    int    `json:"calls"`
	Results  int    `json:"results"`
	Why      string `json:"why,omitempty"`
}

// File is a recorded file.
type File struct {
	Path   string
	Data   []byte
	Counts Counts
}

// Suite tests one codec.
type Suite struct {
	Codec wire.Codec
	// Own are files of the format, Others files of other formats.
	Own, Others []File
	// Differences are the counts of files where ours are others, with reasons.
	Differences map[string]Counts
	// Count counts a file as the collectors did; nil counts the live messages.
	Count func(f *wire.File) Counts
	// Untyped says that the format has no place for a typed source.
	Untyped bool
	// Appends says that the writer leaves the bytes of the file as they are.
	Appends bool
	// HeadOnly says that the format holds a checkpoint at the beginning only.
	HeadOnly bool
	// RouteOfMessages says that the format tells the route in messages only, so
	// that it can be hidden with them.
	RouteOfMessages bool
	// Heads are the sizes of beginnings by which files must be recognized.
	Heads []int
	// Reshape says that an assistant message and its results stand in one
	// record, so that what is written may be grouped otherwise when read.
	Reshape func([]session.Message) []session.Message
}

// Read reads data or fails the test.
func (s *Suite) Read(t testing.TB, data []byte) *wire.File {
	t.Helper()
	f, err := s.Codec.Read(t.Context(), data)
	require.NoError(t, err)
	require.NotEmpty(t, f.Conversations)
	return f
}

// Write writes a file or fails the test.
func Write(t testing.TB, f *wire.File, conversation int, items []wire.Item) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, f.Writer.Write(t.Context(), &out, conversation, items))
	return out.Bytes()
}

// Everything are the items of an unchanged conversation.
func Everything(c *wire.Conversation) []wire.Item {
	items := make([]wire.Item, len(c.Entries))
	for i := range items {
		items[i].Entry = i
	}
	return items
}

// Surface is what must be equal before and after a file was written.
func (s *Suite) Surface(items []wire.Item, c *wire.Conversation) []session.Message {
	var out []session.Message
	for _, it := range items {
		m := it.Message
		if m == nil {
			m = &c.Entries[it.Entry].Message
		}
		n := m.Clone()
		n.ID, n.Origin, n.Extra, n.Name = "", nil, nil, ""
		n.Source.Provider, n.Source.Model = "", ""
		if s.Untyped {
			n.Source = session.Source{}
		}
		for i, p := range n.Parts {
			n.Parts[i] = plain(p)
		}
		out = append(out, *n)
	}
	if s.Reshape != nil {
		out = s.Reshape(out)
	}
	return out
}

// plain leaves out the provider's own form of a part, and what formats derive.
func plain(p session.Part) session.Part {
	switch p := p.(type) {
	case session.Image:
		p.Raw = nil
		return p
	case session.File:
		p.Raw, p.Bytes = nil, 0
		return p
	case session.Reasoning:
		p.Raw = nil
		return p
	case session.ToolCall:
		p.Raw = nil
		return p
	case session.ToolResult:
		p.Name, p.IsError = "", false
		for i, q := range p.Parts {
			p.Parts[i] = plain(q)
		}
		if len(p.Parts) == 0 {
			p.Parts = nil
		}
		return p
	}
	return p
}

// Checkpoint makes a checkpoint in place of the given entries.
func Checkpoint(id string, hides ...int) wire.Item {
	m := session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: "What happened so far: <all> & more."}},
		Source: compact.CheckpointSource(id)}
	return wire.Item{Entry: -1, Message: &m, Compaction: &wire.Compaction{ID: id, Auto: true, Narrative: "all & more", TokensBefore: 5000,
		TokensAfter: 700, Shadowed: hides, Time: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)}}
}

// Compacted are the items of a conversation whose first share, up to a balanced
// cut, is replaced by a checkpoint.
func Compacted(t testing.TB, c *wire.Conversation, id string) []wire.Item {
	t.Helper()
	s, err := session.Open(t.Context(), session.NewMemoryStore(), nil)
	require.NoError(t, err)
	defer s.Close()
	_, err = wire.Import(t.Context(), s, c)
	require.NoError(t, err)
	cut := toolpairing.Of(s.View()).Before(len(c.Entries) * 6 / 10)
	var hides []int
	for i := range cut {
		hides = append(hides, i)
	}
	items := []wire.Item{Checkpoint(id, hides...)}
	for i := cut; i < len(c.Entries); i++ {
		items = append(items, wire.Item{Entry: i})
	}
	return items
}

// Run runs the tests over the recorded files.
func (s *Suite) Run(t *testing.T) {
	s.RunWithoutCounts(t)
	t.Run("counts", s.counts)
}

// RunWithoutCounts runs them without comparing counts, for a format that has a
// table of its own for these.
func (s *Suite) RunWithoutCounts(t *testing.T) {
	t.Run("round trip", func(t *testing.T) { s.each(t, s.roundTrip) })
	t.Run("compaction", func(t *testing.T) { s.each(t, s.compaction) })
	t.Run("pruned", func(t *testing.T) { s.each(t, s.pruned) })
	t.Run("open", func(t *testing.T) { s.each(t, func(t *testing.T, file File, _ *wire.File) { s.open(t, file.Data) }) })
	t.Run("detect", s.detect)
	t.Run("refused", s.refused)
}

func (s *Suite) each(t *testing.T, fn func(t *testing.T, file File, f *wire.File)) {
	require.NotEmpty(t, s.Own)
	for _, file := range s.Own {
		t.Run(file.Path, func(t *testing.T) { fn(t, file, s.Read(t, file.Data)) })
	}
}

func (s *Suite) roundTrip(t *testing.T, file File, f *wire.File) {
	assert.Equal(t, s.Codec.Name(), f.Format)
	assert.NotEmpty(t, f.Container)
	for i, c := range f.Conversations {
		require.True(t, bytes.Equal(file.Data, Write(t, f, i, nil)), "without items the file changed")
		require.True(t, bytes.Equal(file.Data, Write(t, f, i, Everything(c))), "with all entries the file changed")
		for n := range c.Entries {
			require.NoError(t, c.Entries[n].Message.Validate(), "entry %d", n)
		}
		for n := range c.Envelope.System {
			require.NoError(t, c.Envelope.System[n].Validate())
		}
	}
}

func (s *Suite) compaction(t *testing.T, file File, f *wire.File) {
	for n, c := range f.Conversations {
		items := Compacted(t, c, "cmp_1")
		out := Write(t, f, n, items)
		require.Equal(t, string(out), string(Write(t, f, n, items)), "the same compaction gives other bytes")
		if s.Appends && len(items[0].Compaction.Shadowed) > 0 {
			require.True(t, bytes.HasPrefix(out, file.Data), "the originals changed")
		}
		require.Greater(t, s.Codec.Detect(out, true), wire.No, "the output is not recognized")
		again := s.Read(t, out)
		require.Len(t, again.Conversations, len(f.Conversations))
		got := again.Conversations[n]
		equal(t, s.Surface(items, c), s.Surface(Everything(got), got))
		if s.RouteOfMessages {
			got.Envelope.Model, got.Envelope.Provider = c.Envelope.Model, c.Envelope.Provider
		}
		require.True(t, c.Envelope.Equal(&got.Envelope), "the envelope changed")
		for k, o := range again.Conversations {
			if k != n {
				was := f.Conversations[k]
				equal(t, s.Surface(Everything(was), was), s.Surface(Everything(o), o)) // another conversation
			}
		}
		if !s.Untyped {
			require.NotEmpty(t, got.Checkpoints)
			k := slices.IndexFunc(got.Checkpoints, func(cp wire.Checkpoint) bool { return cp.Entry == 0 })
			require.GreaterOrEqual(t, k, 0, "the checkpoint is none when it is read")
			comp := items[0].Compaction
			require.Equal(t, wire.Checkpoint{Entry: 0, Trigger: "auto", TokensBefore: comp.TokensBefore, Hides: len(comp.Shadowed), Time: comp.Time}, got.Checkpoints[k])
			for i, e := range got.Entries {
				require.Nil(t, e.Usage, "entry %d has usage of the longer conversation", i)
			}
		}
		// And once more.
		items = Compacted(t, got, "cmp_2")
		twice := s.Read(t, Write(t, again, n, items)).Conversations[n]
		equal(t, s.Surface(items, got), s.Surface(Everything(twice), twice))
	}
}

// pruned writes a surface with a pin, a changed result, a message in another
// place and an appended note.
func (s *Suite) pruned(t *testing.T, _ File, f *wire.File) {
	for n, c := range f.Conversations {
		items := Compacted(t, c, "cmp_1")
		if len(items) > 2 && items[1].Entry > 0 && c.Entries[0].Message.Role == session.RoleUser {
			items = append(items[:1:1], append([]wire.Item{{Entry: 0}}, items[1:]...)...)
		}
		s.checkChanged(t, f, n, items)
		s.checkChanged(t, f, n, Everything(c)) // without a checkpoint
		if k := len(c.Entries) / 2; k > 1 && !s.HeadOnly && c.Entries[0].Message.Role == session.RoleUser {
			// A region in the middle.
			items = []wire.Item{{Entry: 0}, Checkpoint("cmp_3", 1)}
			for i := 2; i < len(c.Entries); i++ {
				items = append(items, wire.Item{Entry: i})
			}
			if len(c.Entries[1].Message.Calls()) == 0 && c.Entries[1].Message.Role != session.RoleTool {
				s.checkChanged(t, f, n, items)
			}
		}
	}
}

func (s *Suite) checkChanged(t *testing.T, f *wire.File, n int, items []wire.Item) {
	t.Helper()
	c := f.Conversations[n]
	for i := range items {
		if items[i].Entry < 0 || c.Entries[items[i].Entry].Message.Role != session.RoleTool {
			continue
		}
		m := c.Entries[items[i].Entry].Message.Clone()
		for k, p := range m.Parts {
			if r, ok := p.(session.ToolResult); ok {
				r.Parts = []session.Part{session.Text{Text: "[pruned]"}}
				m.Parts[k] = r
				break
			}
		}
		m.Source = session.Source{Kind: session.SourcePlugin, Plugin: compact.Plugin, Form: compact.FormPruned, Ref: "p1"}
		items[i].Message = m
		break
	}
	note := session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: "a note"}},
		Source: session.Source{Kind: session.SourcePlugin, Plugin: "host", Form: "note"}}
	items = append(items, wire.Item{Entry: -1, Message: &note})
	got := s.Read(t, Write(t, f, n, items)).Conversations[n]
	equal(t, s.Surface(items, c), s.Surface(Everything(got), got))
}

func (s *Suite) counts(t *testing.T) {
	known := map[string]Counts{}
	for k, v := range s.Differences {
		known[k] = v
	}
	for _, file := range s.Own {
		f := s.Read(t, file.Data)
		got := Live(f)
		if s.Count != nil {
			got = s.Count(f)
		}
		want := file.Counts
		if d, ok := known[file.Path]; ok {
			assert.NotEmpty(t, d.Why, file.Path)
			d.Why = ""
			assert.NotEqual(t, d, want, "%s: the difference is gone; take it out of the table", file.Path)
			want = d
			delete(known, file.Path)
		}
		assert.Equal(t, want, got, file.Path)
	}
	assert.Empty(t, known, "the table names files that do not exist")
}

// Live counts the live messages of all conversations.
func Live(f *wire.File) Counts {
	var c Counts
	for _, conv := range f.Conversations {
		c.Messages += len(conv.Envelope.System) + len(conv.Entries)
		for i := range conv.Entries {
			c.Calls += len(conv.Entries[i].Message.Calls())
			c.Results += len(conv.Entries[i].Message.Results())
		}
	}
	return c
}

func (s *Suite) detect(t *testing.T) {
	for _, file := range s.Own {
		assert.GreaterOrEqual(t, s.Codec.Detect(file.Data, true), wire.Likely, file.Path)
		for _, n := range s.Heads {
			if n < len(file.Data) {
				assert.Greater(t, s.Codec.Detect(file.Data[:n], false), wire.No, "%d bytes of %s", n, file.Path)
			}
		}
	}
	require.NotEmpty(t, s.Others)
	for _, file := range s.Others {
		assert.Equal(t, wire.No, s.Codec.Detect(file.Data, true), file.Path)
	}
	for _, data := range []string{"", "{}", "[]", "null", "\"x\"", "{\x00", "plain text\n", "[{}]", "[[]]", `{"a":`} {
		assert.Equal(t, wire.No, s.Codec.Detect([]byte(data), true), data)
	}
}

func (s *Suite) refused(t *testing.T) {
	var we *wire.Error
	for _, data := range []string{"", " ", "{", "[1", "\xff", "{}", "[]", "7", "{\"a\":1}\n"} {
		_, err := s.Codec.Read(t.Context(), []byte(data))
		require.ErrorAs(t, err, &we, "%q", data)
		require.NotEmpty(t, we.Detail)
		require.Equal(t, s.Codec.Name(), we.Format)
	}
	f := s.Read(t, s.Own[0].Data)
	c := f.Conversations[0]
	bad := session.Message{Role: session.RoleUser}
	for name, items := range map[string][]wire.Item{
		"no such entry": {{Entry: len(c.Entries)}}, "no message": {{Entry: -1}}, "below": {{Entry: -2}},
		"no source": {{Entry: -1, Message: &bad}},
	} {
		var b bytes.Buffer
		require.ErrorAs(t, f.Writer.Write(t.Context(), &b, 0, items), &we, name)
		require.Zero(t, b.Len(), name)
	}
	require.ErrorAs(t, f.Writer.Write(t.Context(), new(bytes.Buffer), len(f.Conversations), nil), &we)
	require.ErrorAs(t, f.Writer.Write(t.Context(), new(bytes.Buffer), -1, nil), &we)
}

// Fuzz reads any bytes: no panic, errors of type [wire.Error], files that come
// back as they were, the same of them opened, and compactions that are read as
// they were written.
func (s *Suite) Fuzz(f *testing.F, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	for _, file := range s.Own {
		if len(file.Data) < 8<<10 {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s.Codec.Detect(data, true)
		s.Codec.Detect(data[:len(data)/2], false)
		s.open(t, data)
		file, err := s.Codec.Read(t.Context(), data)
		if err != nil {
			var we *wire.Error
			if !errors.As(err, &we) || we.Detail == "" || we.Offset < 0 || we.Offset > int64(len(data)) {
				t.Fatalf("error %v", err)
			}
			return
		}
		for n, c := range file.Conversations {
			for i := range c.Entries {
				if err := c.Entries[i].Message.Validate(); err != nil {
					t.Fatalf("entry %d: %v", i, err)
				}
			}
			if out := Write(t, file, n, Everything(c)); !bytes.Equal(data, out) {
				t.Fatalf("not as it was\n%q\n%q", data, out)
			}
			items := Compacted(t, c, "c")
			out := Write(t, file, n, items)
			again, err := s.Codec.Read(t.Context(), out)
			if err != nil {
				t.Fatalf("the output cannot be read: %v\n%s", err, out)
			}
			got := again.Conversations[n]
			equal(t, s.Surface(items, c), s.Surface(Everything(got), got))
		}
	})
}

// equal compares surfaces and shows the first difference.
func equal(t testing.TB, want, have []session.Message) {
	t.Helper()
	for i := range max(len(want), len(have)) {
		var a, b string
		if i < len(want) {
			a = text(want[i : i+1])
		}
		if i < len(have) {
			b = text(have[i : i+1])
		}
		if a != b {
			from := 0
			for from < min(len(a), len(b)) && a[from] == b[from] {
				from++
			}
			from = max(from-100, 0)
			require.Failf(t, "the surface is another one", "message %d of %d and %d\nwant …%.600s\nhave …%.600s", i, len(want), len(have), a[from:], b[from:])
		}
	}
}

func text(list []session.Message) string {
	b, err := json.MarshalIndent(list, "", " ")
	return fmt.Sprint(string(b), err)
}
