package overflow

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shape is one entry of testdata/overflow; see the README there.
type shape struct {
	ID              string          `json:"id"`
	Provider        string          `json:"provider"`
	Status          int             `json:"status"`
	Body            json.RawMessage `json:"body"`
	Overflow        bool            `json:"overflow"`
	Limit           *int            `json:"limit"`
	Actual          *int            `json:"actual"`
	RequestedOutput *int            `json:"requested_output"`
	OverBy          *int            `json:"over_by"`
	Window          int             `json:"window"`
	Stream          bool            `json:"stream"`
	Class           Class           `json:"class"`
	Kind            *Kind           `json:"kind"`
	Source          string          `json:"source"`
}

// raw is the body as it came over the wire.
func (s shape) raw() []byte {
	var text string
	if json.Unmarshal(s.Body, &text) == nil && string(s.Body) != "null" {
		return []byte(text)
	}
	if string(s.Body) == "null" {
		return nil
	}
	return s.Body
}

func loadShapes(tb testing.TB) []shape {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join("..", "testdata", "overflow", "*.json"))
	require.NoError(tb, err)
	require.Len(tb, files, 2)
	var all []shape
	seen := map[string]bool{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(tb, err)
		var part []shape
		require.NoError(tb, json.Unmarshal(data, &part), f)
		require.GreaterOrEqual(tb, len(part), 60, f)
		for _, s := range part {
			require.NotEmpty(tb, s.ID)
			require.NotEmpty(tb, s.Source, s.ID)
			require.False(tb, seen[s.ID], s.ID)
			seen[s.ID] = true
		}
		all = append(all, part...)
	}
	return all
}

func check(t *testing.T, s shape, r Result) {
	t.Helper()
	zero := func(p *int) int {
		if p == nil {
			return 0
		}
		return *p
	}
	assert.Equal(t, s.Overflow, r.Overflow, "overflow; rule %q", r.Rule)
	assert.Equal(t, zero(s.Limit), r.Limit, "limit")
	assert.Equal(t, zero(s.Actual), r.Actual, "actual")
	assert.Equal(t, zero(s.OverBy), r.OverBy, "over by")
	if s.RequestedOutput != nil {
		assert.True(t, r.HasRequestedOutput, "requested output")
		assert.Equal(t, *s.RequestedOutput, r.RequestedOutput, "requested output")
	}
	if s.Overflow {
		assert.Equal(t, KindTokens, r.Kind)
		assert.Equal(t, ClassOverflow, r.Class)
	} else {
		assert.NotEqual(t, KindTokens, r.Kind)
		assert.NotEqual(t, ClassOverflow, r.Class)
		assert.False(t, r.HasRequestedOutput)
	}
	if s.Class != "" {
		assert.Contains(t, []Class{r.Class, r.Coarse()}, s.Class, "class; rule %q", r.Rule)
	}
	if s.Kind != nil {
		assert.Equal(t, *s.Kind, r.Kind, "kind; rule %q", r.Rule)
	}
}

func TestShapes(t *testing.T) {
	for _, s := range loadShapes(t) {
		t.Run(s.ID+"-"+s.Provider, func(t *testing.T) {
			opts := []Option{WithProvider(s.Provider), WithWindow(s.Window)}
			if s.Stream {
				check(t, s, ClassifyStream(s.raw(), opts...))
			} else {
				check(t, s, ClassifyResponse(s.Status, s.raw(), opts...))
			}
			if s.Provider == "cerebras" && len(s.raw()) == 0 {
				return
			}
			// Without being told the provider, and through every envelope.
			if s.Stream {
				check(t, s, ClassifyStream(s.raw(), WithWindow(s.Window)))
				return
			}
			check(t, s, ClassifyResponse(s.Status, s.raw(), WithWindow(s.Window)))
			if s.Status >= 400 {
				check(t, s, Classify(requestError(s)))
				check(t, s, Classify(openaiGoError(s)))
				check(t, s, Classify(anthropicError(s)))
			}
		})
	}
}
