package eval

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/agentcompact/agentcompact/wire/formats"
	"github.com/stretchr/testify/require"
)

func TestRecallOfRecordedSessions(t *testing.T) {
	if testing.Short() {
		t.Skip("reads all sessions")
	}
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	count := tokencount.EstimateText
	ratios := []float64{0.05, 0.10, 0.20, 0.30}
	quoted := map[string][]float64{}
	measured, below := 0, 0
	for _, s := range sessions {
		if len(s.Files) > 0 {
			continue
		}
		data, err := os.ReadFile(s.File())
		require.NoError(t, err)
		f, err := formats.Read(context.Background(), data)
		if err != nil {
			continue // a format without a reader
		}
		for i, c := range f.Conversations[:1] { // the one that is compacted
			messages, err := Recorded(t.Context(), data)
			require.NoError(t, err)
			if len(messages) == 0 {
				continue
			}
			envelope := ""
			for j := range c.Envelope.System {
				envelope += Text(&c.Envelope.System[j]) + "\n"
			}
			for _, tool := range c.Envelope.Tools {
				envelope += tool.Name + " " + tool.Description + " " + string(tool.Schema) + "\n"
			}
			r := Run(fmt.Sprintf("%s#%d", s.Path, i), envelope, messages, count, ratios, append([]Strategy{Engine(context.Background(), summarize.NewExtractive(nil), nil)}, Baselines(count)...))
			if r.Needed < 10 {
				continue
			}
			measured++
			line := fmt.Sprintf("%-56s %6d %4d", r.File, r.TokensBefore, r.Needed)
			for _, ratio := range ratios {
				row := map[string]Row{}
				for _, x := range r.Rows {
					if x.Ratio == ratio {
						row[x.Strategy] = x
						quoted[fmt.Sprint(x.Strategy, ratio)] = append(quoted[fmt.Sprint(x.Strategy, ratio)], x.Quoted)
					}
				}
				require.Equal(t, 1.0, row["full"].Quoted, r.File)
				ours := row["agentcompact"]
				if ours.Ratio == 0 {
					require.Less(t, ratio*float64(r.TokensBefore), 120.0, "%s: only what is too small for a checkpoint has none", r.File)
					line += " | -"
					continue
				}
				require.LessOrEqual(t, ours.TokensAfter, int(ratio*float64(r.TokensBefore)), r.File)
				require.Equal(t, 1.0, ours.Reachable, r.File)
				line += fmt.Sprintf(" | %.2f %.2f", row["tail"].Quoted, ours.Quoted)
				if ours.Quoted < row["tail"].Quoted {
					below++
					line += "<"
				}
			}
			t.Log(line)
		}
	}
	require.GreaterOrEqual(t, measured, 5)
	least := map[float64]float64{0.05: 0.65, 0.10: 0.85, 0.20: 0.96, 0.30: 0.99}
	for _, ratio := range ratios {
		ours, tail := middle(quoted[fmt.Sprint("agentcompact", ratio)]), middle(quoted[fmt.Sprint("tail", ratio)])
		t.Logf("%.2f: tail %.3f, mask %.3f (%d), agentcompact %.3f of %d", ratio, tail, middle(quoted[fmt.Sprint("mask", ratio)]), len(quoted[fmt.Sprint("mask", ratio)]), ours, measured)
		require.GreaterOrEqual(t, ours, least[ratio])
		require.Greater(t, ours, tail)
	}
	require.Zero(t, below, "sessions below the tail")
}

func middle(x []float64) float64 {
	if len(x) == 0 {
		return -1
	}
	x = slices.Clone(x)
	slices.SortFunc(x, cmp.Compare[float64])
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

func TestLiterals(t *testing.T) {
	got := slices.Collect(Literals("see src/a.go: snake_case, a::b::c camelCase 12345 plain ab/c v1.2.3. 2024-01 end. x.y.z foo. user@host #1234 ./a_b"))
	require.Equal(t, []string{"src/a.go", "snake_case", "a::b::c", "camelCase", "12345", "v1.2.3", "2024-01", "x.y.z", "#1234", "./a_b"}, got)
	require.Empty(t, slices.Collect(Literals("plain words only, user@host, 123 a.b")))
}

func TestCut(t *testing.T) {
	u, a, r := session.UserText("x"), session.AssistantText("", session.ToolCall{ID: "1", Name: "f"}), session.ToolText("1", "y")
	messages := []*session.Message{&u, &a, &r, &u, &u}
	require.Equal(t, 1, Cut(messages, []int{40, 10, 10, 20, 20}, 0.4))
	require.Equal(t, 3, Cut(messages, []int{10, 30, 10, 20, 30}, 0.4), "moved behind the result")
	require.Equal(t, 5, Cut(messages, []int{0, 0, 0, 0, 100}, 0.4))
	open := []*session.Message{&a, &u, &u}
	require.Equal(t, 1, Cut(open, []int{50, 25, 25}, 0.4), "a call without a result holds nothing up")
}

func TestNeeded(t *testing.T) {
	before := session.UserText("Use port_number 7443 in conf/app.yaml now please\nshort_one\nseen_in_system")
	asst := session.AssistantText("I read conf/app.yaml and port_number and new_thing and seen_in_system", session.ToolCall{ID: "1", Name: "tool_name", Arguments: `{"a":"short_one"}`})
	late := session.UserText("told_later conf/other.yaml")
	after := session.AssistantText("told_later")
	messages := []*session.Message{&before, &asst, &late, &after}
	needs := Needed("about seen_in_system", messages, 1)
	var names []string
	for _, n := range needs {
		names = append(names, n.Literal)
	}
	require.Equal(t, []string{"conf/app.yaml", "port_number", "short_one"}, names)
	require.Equal(t, []string{"short_one"}, needs[2].Windows, "a short line is quoted whole")
	require.Contains(t, needs[1].Windows, "Use port_number 7443 in")
	require.NotContains(t, needs[1].Windows, "7443 in conf/app.yaml now")
	m := Measure(needs, "… Use  port_number\n7443 in … conf/app.yaml … short_one")
	require.InDelta(t, 1.0, m.Literal, 1e-9)
	require.InDelta(t, 2.0/3, m.Quoted, 1e-9)
	require.Equal(t, Recall{1, 1}, Measure(nil, ""))
	require.Equal(t, Recall{}, Measure(needs, ""))
}

func TestBaselines(t *testing.T) {
	count := func(s string) int { return len(strings.Fields(s)) }
	u, r, l := session.UserText("a b c d"), session.ToolText("1", "e f g h i j"), session.UserText("k l")
	messages := []*session.Message{&u, &r, &l}
	require.Equal(t, "i j\nk l", strings.TrimSpace(Tail(messages, count, 4)))
	require.Equal(t, "k l", Tail(messages, count, 2))
	require.Empty(t, Tail(messages, count, 0))
	text, ok := Mask(messages, count, 9)
	require.True(t, ok)
	require.Equal(t, "a b c d\n"+Masked+"\nk l", text)
	_, ok = Mask(messages, count, 3)
	require.False(t, ok)
	require.Equal(t, "b c", ClipHead("a b c", count, 2)[len(ClipHead("a b c", count, 2))-3:])
	rep := Run("f", "", messages, count, []float64{0.5}, Baselines(count))
	require.Len(t, rep.Rows, 3-1, "mask cannot")
	require.Equal(t, 1.0, rep.Rows[0].Reachable)
}

// What a session says before its agent compacted it is a part of the record, in
// order and once.
func TestRecorded(t *testing.T) {
	ctx := t.Context()
	whole := 0
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	for _, s := range sessions {
		if len(s.Files) > 0 || !strings.HasSuffix(s.Path, ".jsonl") {
			continue
		}
		data, err := os.ReadFile(s.File())
		require.NoError(t, err)
		f, err := formats.Read(ctx, data)
		if err != nil {
			continue
		}
		c := f.Conversations[0]
		got, err := Recorded(ctx, data)
		require.NoError(t, err)
		if len(c.Checkpoints) == 0 {
			require.Len(t, got, c.Len(), s.Path)
			continue
		}
		if s.Path == "claude-code/long-3compactions-6interrupts.jsonl" || s.Path == "pi/long-2compactions-images.jsonl" || s.Path == "other/kimi-wire.jsonl" {
			require.Len(t, got, c.Len()+c.Side, "all of it was live once")
		}
		if c.Side > 0 && len(got) > c.Len() {
			whole++
		}
	}
	require.GreaterOrEqual(t, whole, 5)
}
