package tokencount_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/tokencount"
)

// TestConformanceRows: every row of the inventory of meters has a test that is
// named after it, or a reason why not.
func TestConformanceRows(t *testing.T) {
	b, err := os.ReadFile("../testdata/conformance/tokencount.json")
	require.NoError(t, err)
	var rows []struct{ ID, Reason string }
	require.NoError(t, json.Unmarshal(b, &rows))
	covered := map[string]bool{}
	for _, r := range rows {
		require.NotEmpty(t, r.Reason, r.ID)
		require.False(t, covered[r.ID], "%s is listed twice", r.ID)
		covered[r.ID] = true
	}
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	name := regexp.MustCompile(`func TestTM(\d\d)[A-Z]`)
	for _, f := range files {
		src, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range name.FindAllStringSubmatch(string(src), -1) {
			id := "TM-" + m[1]
			require.False(t, covered[id], "%s has a test and a reason", id)
			covered[id] = true
		}
	}
	for i := 1; i <= 15; i++ {
		id := fmt.Sprintf("TM-%02d", i)
		require.True(t, covered[id], "%s has neither a test nor a reason", id)
	}
	require.Len(t, covered, 15)
}

// metered is a session with prices of the estimator on a route.
func metered(t *testing.T, store session.Store) *session.Session {
	t.Helper()
	s := sessiontest.Open(t, store, &session.Options{Pricer: tokencount.NewPricer(nil)})
	if s.View().Next() == 0 {
		route(t, s, "p", "m")
	}
	return s
}

func route(t *testing.T, s *session.Session, provider, model string) {
	t.Helper()
	write(t, s, session.SetEnvelope{Envelope: session.Envelope{Provider: provider, Model: model}})
}

func write(t *testing.T, s *session.Session, bodies ...session.Body) []session.Seq {
	t.Helper()
	seqs, err := s.Record(t.Context(), bodies...)
	require.NoError(t, err)
	return seqs
}

func say(t *testing.T, s *session.Session, words int) session.Seq {
	t.Helper()
	return write(t, s, session.Append{Message: session.UserText(strings.Repeat("word ", words))})[0]
}

func size(s *session.Session) tokencount.Measurement { return tokencount.Measure(s.View(), "p", "m") }

// An image of a data URL does not cost its bytes.
func TestTM01EveryKindOfPartIsPriced(t *testing.T) {
	p := tokencount.NewPricer(nil)
	price := func(parts ...session.Part) int {
		return p.Price(&session.Message{Parts: parts}) - tokencount.PerMessage
	}
	assert.Equal(t, 1, price(session.Text{Text: "word"}))
	assert.Equal(t, 0, price())
	one := strings.Repeat("A sentence of the model. ", 40)
	text := tokencount.EstimateText(one)
	assert.Equal(t, text, price(session.Reasoning{Text: one}))
	assert.Equal(t, 100, price(session.Reasoning{Encrypted: strings.Repeat("a", 600)}))
	assert.Equal(t, 1+tokencount.PerToolCall+text, price(session.ToolCall{ID: "an id is free", Name: "read", Arguments: one}))
	assert.Equal(t, text, price(session.ToolResult{CallID: "an id is free", Parts: []session.Part{session.Text{Text: one}}}))
	assert.Equal(t, 765, price(session.ToolResult{Parts: []session.Part{session.Image{Width: 1024, Height: 1024}}}))
	assert.Equal(t, tokencount.DefaultImage, price(session.Image{URL: "data:image/png;base64," + strings.Repeat("A", 1<<20)}))
	assert.Equal(t, 85, price(session.Image{Detail: "low", Raw: []byte(`"` + strings.Repeat("A", 1<<20) + `"`)}))
	assert.Equal(t, tokencount.EstimateFile(4000, "text/csv"), price(session.File{Bytes: 4000, MediaType: "text/csv"}))
	raw := []byte(`{"type":"of tomorrow","text":"` + one + `"}`)
	assert.Equal(t, tokencount.EstimateBytes(raw), price(session.Opaque{Kind: "of tomorrow", Raw: raw}))
	assert.Equal(t, 2*text+765, price(session.Text{Text: one}, session.Image{Width: 1024, Height: 1024}, session.Text{Text: one}))
	named := &session.Message{Name: "word"}
	assert.Equal(t, tokencount.PerMessage+tokencount.PerName+1, p.Price(named))
}

func TestTM02ViewsAreDetached(t *testing.T) {
	empty := sessiontest.Open(t, session.NewMemoryStore(), nil)
	assert.Equal(t, tokencount.Measurement{Factor: 1}, size(empty))
	s := metered(t, session.NewMemoryStore())
	say(t, s, 300)
	say(t, s, 200)
	view, before := s.View(), size(s)
	sum := 0
	for i := range view.Len() {
		sum += int(view.Node(i).Tokens)
	}
	assert.Equal(t, sum, view.SurfaceTokens())
	say(t, s, 500)
	write(t, s, session.Replace{Start: 1, End: 2, Message: session.UserText("short")})
	assert.Equal(t, before, tokencount.Measure(view, "p", "m"))
	assert.Equal(t, sum, view.SurfaceTokens())
}

func TestTM03EnvelopeIsApartFromTheSurface(t *testing.T) {
	s := metered(t, session.NewMemoryStore())
	say(t, s, 300)
	surface, before := s.View().SurfaceTokens(), size(s)
	e := session.Envelope{Provider: "p", Model: "m", Tools: []session.Tool{{Name: "read", Description: strings.Repeat("word ", 100)}}}
	write(t, s, session.SetEnvelope{Envelope: e})
	assert.Equal(t, surface, s.View().SurfaceTokens())
	assert.Equal(t, before.Tokens+tokencount.NewPricer(nil).PriceEnvelope(&e), size(s).Tokens)
}

func TestTM04AnchorAddsNoPartTwice(t *testing.T) {
	s := metered(t, session.NewMemoryStore())
	node := say(t, s, 10)
	write(t, s, session.Usage{Node: node, Prompt: 20, CacheRead: 8, CacheWrite: 3, Completion: 14, Reasoning: 5})
	assert.Equal(t, 34, size(s).Tokens)
	assert.True(t, size(s).Anchored)
	after := say(t, s, 200)
	grown := size(s).Tokens
	assert.Equal(t, 34+s.View().Tokens(1, 2), grown)
	write(t, s, session.Replace{Start: after, End: after, Message: session.UserText("short")})
	assert.Less(t, size(s).Tokens, grown)
	assert.Equal(t, size(s).Priced, size(s).Tokens, "the report is of the surface before")
}

func TestTM05TooLittleToBeTrue(t *testing.T) {
	s := metered(t, session.NewMemoryStore())
	node := say(t, s, 2000)
	write(t, s, session.Usage{Node: node, Prompt: 30, Completion: 4}) // the cached part is missing
	assert.False(t, size(s).Anchored)
	assert.Equal(t, size(s).Priced, size(s).Tokens)
	write(t, s, session.Usage{Node: node, Prompt: 30, Completion: 4})
	assert.Equal(t, 1.0, size(s).Factor)
	write(t, s, session.Replace{Start: node, End: node, Message: session.UserText("")})
	assert.Equal(t, size(s).Priced, size(s).Tokens)
	assert.GreaterOrEqual(t, size(s).Tokens, 0)
}

func TestTM06WithoutUsageItIsThePrice(t *testing.T) {
	s := metered(t, session.NewMemoryStore())
	say(t, s, 100)
	before := size(s)
	assert.False(t, before.Anchored)
	assert.Equal(t, before.Priced, before.Tokens)
	say(t, s, 150)
	assert.Equal(t, before.Tokens+int(s.View().Node(1).Tokens), size(s).Tokens)
}

func TestTM08OnlyTheLatestCallAnchors(t *testing.T) {
	s := metered(t, session.NewMemoryStore())
	node := say(t, s, 500)
	write(t, s, session.Usage{Node: node, Prompt: 700, Provider: "p", Model: "m"})
	assert.Equal(t, 700, size(s).Tokens)
	write(t, s, session.Usage{Node: node, Prompt: 900, Provider: "q", Model: "m"})
	assert.Equal(t, size(s).Priced, size(s).Tokens, "q counts otherwise")
	assert.Equal(t, 900, tokencount.Measure(s.View(), "q", "m").Tokens)
	route(t, s, "q", "m")
	route(t, s, "p", "m")
	assert.False(t, size(s).Anchored, "switched there and back")
	assert.Equal(t, size(s).Priced, size(s).Tokens)
}

func TestTM09AnyChangeOfTheEnvelopeCounts(t *testing.T) {
	base := session.Envelope{Provider: "p", Model: "m"}
	tool := session.Tool{Name: "read", Schema: []byte(`{"type":"object"}`)}
	for name, change := range map[string]func(*session.Envelope){
		"model":  func(e *session.Envelope) { e.Model = "n" },
		"tools":  func(e *session.Envelope) { e.Tools = []session.Tool{tool} },
		"system": func(e *session.Envelope) { e.System = []session.Message{session.UserText("Be brief.")} },
	} {
		t.Run(name, func(t *testing.T) {
			s := metered(t, session.NewMemoryStore())
			node := say(t, s, 100)
			write(t, s, session.Usage{Node: node, Prompt: 200})
			require.True(t, size(s).Anchored)
			e := base
			change(&e)
			write(t, s, session.SetEnvelope{Envelope: e})
			assert.False(t, size(s).Anchored)
		})
	}
	none, empty := base, base
	empty.Tools = []session.Tool{}
	assert.Equal(t, tokencount.NewPricer(nil).PriceEnvelope(&none), tokencount.NewPricer(nil).PriceEnvelope(&empty))
}

func TestTM10OverALogThatWasThere(t *testing.T) {
	store := session.NewMemoryStore()
	first := metered(t, store)
	for range 4 {
		say(t, first, 100)
	}
	s := metered(t, store)
	old, before := s.View(), size(s)
	say(t, s, 50)
	assert.Equal(t, 5, s.View().Len())
	grown := size(s).Tokens
	assert.Greater(t, grown, before.Tokens)
	seq := write(t, s, session.Replace{Start: s.View().Node(1).Seq, End: s.View().Node(3).Seq, Message: session.UserText("short")})[0]
	require.Equal(t, 3, s.View().Len())
	assert.Equal(t, seq, s.View().Node(1).Seq)
	assert.Negative(t, size(s).Tokens-grown)
	assert.Equal(t, before, tokencount.Measure(old, "p", "m"))
	assert.Equal(t, 4, old.Len())
}

func TestTM11WhatIsMalformedChangesNothing(t *testing.T) {
	s := metered(t, session.NewMemoryStore())
	node := say(t, s, 100)
	before := size(s)
	for name, bad := range map[string]session.Body{
		"negative":      session.Usage{Node: node, Prompt: -1},
		"of the future": session.Usage{Node: 99, Prompt: 10},
		"no such span":  session.Replace{Start: 90, End: 99, Message: session.UserText("x")},
		"step":          session.StepEnd{},
	} {
		var said []string
		for range 2 {
			_, err := s.Record(t.Context(), session.Append{Message: session.UserText("with it")}, bad)
			require.Error(t, err, name)
			said = append(said, err.Error())
		}
		assert.Equal(t, said[0], said[1], name)
		assert.Equal(t, before, size(s), "%s: nothing of it was applied", name)
	}
}

func TestTM12AnotherReaderCatchesUp(t *testing.T) {
	store := session.NewMemoryStore()
	writer, reader := metered(t, store), metered(t, store)
	node := say(t, writer, 300)
	write(t, writer, session.Usage{Node: node, Prompt: 600, Completion: 5})
	say(t, writer, 30)
	require.NoError(t, reader.Refresh(t.Context()))
	assert.Equal(t, size(writer), size(reader))
	assert.Equal(t, size(writer), size(metered(t, store)), "and one that starts anew")
	assert.True(t, size(reader).Anchored)
}

func TestTM13LaterReportReplacesAndTheBillStays(t *testing.T) {
	s := metered(t, session.NewMemoryStore())
	node := say(t, s, 300)
	write(t, s, session.Usage{Node: node, Prompt: 400, Completion: 10}) // while it streams
	write(t, s, session.Usage{Node: node, Prompt: 400, Completion: 60}) // at its end
	assert.Equal(t, 460, size(s).Tokens)
	write(t, s, session.Usage{Node: session.NoSeq, Prompt: 70})            // a request that failed
	write(t, s, session.Usage{Node: node, Prompt: 9_000, Aggregate: true}) // of a sub-agent
	write(t, s, session.Usage{Node: node})                                 // without a count
	assert.Equal(t, 460, size(s).Tokens, "these anchor nothing")
	write(t, s, session.Replace{Start: node, End: node, Message: session.UserText("short")})
	billed := 0
	for e := range s.View().Events(0) {
		if e.Type != session.TypeUsage {
			continue
		}
		body, err := e.Body()
		require.NoError(t, err)
		billed += body.(*session.Usage).Prompt
	}
	assert.Equal(t, 400+400+70+9_000, billed)
}

func TestTM14PressureMovesWithTheSurfaceOnly(t *testing.T) {
	s := metered(t, session.NewMemoryStore())
	node := say(t, s, 300)
	write(t, s, session.Usage{Node: node, Prompt: 600, Completion: 5})
	at := size(s)
	require.Equal(t, 605, at.Tokens)
	write(t, s, session.TurnStart{})
	write(t, s, session.StepStart{}, session.StepEnd{})
	write(t, s, session.Pin{Nodes: []session.Seq{node}})
	assert.Equal(t, at, size(s), "of no weight")
	more := say(t, s, 40)
	assert.Equal(t, 605+int(s.View().Node(1).Tokens), size(s).Tokens)
	same := session.UserText(strings.Repeat("word ", 40))
	write(t, s, session.Replace{Start: more, End: more, Message: same})
	assert.Equal(t, at.Priced+int(s.View().Node(1).Tokens), size(s).Priced, "a replacement of the same price is neutral")
	write(t, s, session.TurnEnd{})
}

// TestTM15EveryStateOfACompaction opens the log of a compaction as it was after
// each of its events.
func TestTM15EveryStateOfACompaction(t *testing.T) {
	pricer := tokencount.NewPricer(nil)
	s := metered(t, session.NewMemoryStore())
	for i := range 20 {
		node := say(t, s, 100+i)
		write(t, s, session.Usage{Node: node, Prompt: size(s).Priced * 5 / 4})
	}
	e, err := engine.New(summarize.NewExtractive(nil), &engine.Options{Windows: engine.FixedWindow(3000)})
	require.NoError(t, err)
	r, err := e.CompactIfNeeded(t.Context(), compact.Agent{Session: s}, compact.Pressure)
	require.NoError(t, err)
	require.NotNil(t, r)

	types := map[session.Type]int{}
	last := 0
	for k := session.Seq(1); k <= s.View().Next(); k++ {
		fork, err := s.Fork(t.Context(), k-1, session.NewMemoryStore(), &session.Options{Pricer: pricer})
		require.NoError(t, err)
		v := fork.View()
		require.Equal(t, k, v.Next())
		equalMeasures(t, naive(t, v, pricer, "p", "m"), tokencount.Measure(v, "p", "m"))
		event, err := v.Event(k - 1)
		require.NoError(t, err)
		types[event.Type]++
		if event.Type == compact.TypeStart {
			assert.Equal(t, last, v.SurfaceTokens(), "a claim alone moves nothing")
		}
		last = v.SurfaceTokens()
		require.NoError(t, fork.Close())
	}
	assert.Equal(t, 1, types[session.TypeReplace])
	assert.Equal(t, 1, types[compact.TypeStart])
}
