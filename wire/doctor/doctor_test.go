package doctor

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
)

func source(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}

// content is the file that a repair made.
func content(t require.TestingT, r *Repaired) []byte {
	data := make([]byte, r.Text.Size())
	_, err := r.Text.ReadAt(data, 0)
	require.True(t, err == nil || err == io.EOF, err)
	return data
}

func diagnosed(t testing.TB, s testdata.Session) []Finding {
	t.Helper()
	if len(s.Files) > 0 {
		tree, err := formats.ReadTree(t.Context(), os.DirFS(s.File()))
		require.NoError(t, err)
		list, err := Diagnose(t.Context(), nil, &tree.File)
		require.NoError(t, err)
		return list
	}
	data, err := os.ReadFile(s.File())
	require.NoError(t, err)
	f, err := formats.Read(t.Context(), data)
	require.NoError(t, err)
	list, err := Diagnose(t.Context(), source(data), f)
	require.NoError(t, err)
	return list
}

// row is what is expected of one transcript.
type row struct {
	// Findings counts them by kind. Normal kinds are named in about.
	Findings map[Kind]int `json:"findings"`
	// Why says where the collectors count otherwise.
	Why string `json:"why,omitempty"`
}

// anomalies are the words of the manifest and the kinds that they stand for.
var anomalies = []struct {
	words *regexp.Regexp
	kinds []Kind
}{
	{regexp.MustCompile(`^(\d+) orphan results$`), []Kind{OrphanResult, DuplicateResult, ResultFirst, HiddenOrphan}},
	{regexp.MustCompile(`^(\d+) unanswered calls$`), []Kind{UnansweredCall, RunningCall, HiddenUnanswered}},
	{regexp.MustCompile(`^(\d+) parentUuid point outside the file$`), []Kind{DanglingParent}},
	{regexp.MustCompile(`^no root record \(starts mid-session\)()$`), []Kind{NoRoot}},
	{regexp.MustCompile(`^(\d+) lines are JSON but not objects$`), []Kind{NotAnObject}},
	{regexp.MustCompile(`^duplicate uuids \(x(\d+)\)$`), []Kind{DuplicateUUID}},
	{regexp.MustCompile(`^(\d+) calls without an id$`), []Kind{CallWithoutID}},
	{regexp.MustCompile(`^(\d+) results without an id$`), []Kind{ResultWithoutID}},
	{regexp.MustCompile(`^(\d+) blank lines$`), []Kind{BlankLine}},
	{regexp.MustCompile(`^record without type \(x(\d+)\)$`), []Kind{NoType}},
	{regexp.MustCompile(`^(\d+) calls reuse an earlier call id$`), []Kind{CallIDReused, HiddenReused}},
	{regexp.MustCompile(`^(\d+) places with the same role twice in a row$`), []Kind{RepeatedRole}},
	{regexp.MustCompile(`holds two JSON objects with no newline between()$`), []Kind{TwoOnALine}},
	{regexp.MustCompile(`^compaction.*(?:keeps nothing|not in the file)()$`), []Kind{KeepsNothing}},
}

// The table says what is found in each transcript, and nothing is found in the
// others. What the manifest calls an anomaly is found as often as it says,
// unless the row says why not.
func TestExpectedDiagnoses(t *testing.T) {
	raw, err := os.ReadFile("testdata/diagnoses.json")
	require.NoError(t, err)
	table := map[string]row{}
	require.NoError(t, json.Unmarshal(raw, &table))
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	seen := 0
	for _, s := range sessions {
		t.Run(s.Path, func(t *testing.T) {
			got := map[Kind]int{}
			for _, f := range diagnosed(t, s) {
				got[f.Kind]++
				assert.NotEmpty(t, f.Detail)
				assert.NotEmpty(t, f.Consequence)
				assert.Equal(t, about[f.Kind].normal, f.Normal)
			}
			want, listed := table[s.Path]
			if want.Findings == nil {
				want.Findings = map[Kind]int{}
			}
			require.Equal(t, want.Findings, got)
			if listed {
				seen++
			}
			if want.Why != "" {
				return
			}
			for _, a := range s.Anomalies {
				known := false
				for _, k := range anomalies {
					m := k.words.FindStringSubmatch(a)
					if m == nil {
						continue
					}
					known = true
					count, sum := 1, 0
					if m[1] != "" {
						count, _ = strconv.Atoi(m[1])
					}
					for _, kind := range k.kinds {
						sum += got[kind]
					}
					assert.Equal(t, count, sum, a)
				}
				assert.True(t, known, "no kind for the anomaly %q", a)
			}
		})
	}
	require.Equal(t, len(table), seen, "the table names transcripts that do not exist")
}

func TestEveryKindIsExplained(t *testing.T) {
	for _, k := range Kinds() {
		require.NotEmpty(t, about[k].consequence, k)
	}
	require.Equal(t, "nothing is wrong", Summary(nil))
	require.Equal(t, "nothing is wrong, 1 normal peculiarity", Summary([]Finding{finding(BlankLine, "")}))
	require.Equal(t, "1 problem, 2 normal peculiarities", Summary([]Finding{finding(BadLine, ""), finding(BlankLine, ""), finding(NoRoot, "")}))
}

// said are the texts of users and of the model.
func said(f *wire.File) (out []string) {
	for _, c := range f.Conversations {
		for i := range c.Entries {
			if m := &c.Entries[i].Message; m.Role == "user" || m.Role == "assistant" {
				out = append(out, m.Text())
			}
		}
	}
	return out
}

func codecOf(t testing.TB, data []byte) wire.Codec {
	t.Helper()
	c, _ := wire.Detect(data, true, formats.All()...)
	require.NotNil(t, c)
	return c
}

// fixed repairs a file with every option and checks that nothing that can be
// repaired is left, that the file can be read, and that no text is lost.
func fixed(t testing.TB, data []byte, opts Options) (*Repaired, *wire.File) {
	t.Helper()
	codec := codecOf(t, data)
	before, err := codec.Read(t.Context(), data)
	require.NoError(t, err)
	r, err := Repair(t.Context(), codec, source(data), &opts)
	require.NoError(t, err)
	after, err := codec.Read(t.Context(), content(t, r))
	require.NoError(t, err)
	texts := strings.Join(said(after), "\x00")
	for _, s := range said(before) {
		require.Contains(t, texts, s, "a text is lost")
	}
	return r, after
}

// Every transcript can be repaired, and then providers take it as it is.
func TestRepairOfEveryTranscript(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	for _, s := range sessions {
		if len(s.Files) > 0 {
			continue
		}
		t.Run(s.Path, func(t *testing.T) {
			data, err := os.ReadFile(s.File())
			require.NoError(t, err)
			r, after := fixed(t, data, Options{CloseRunning: true, UniqueIDs: true, DropBadLines: true})
			requireSound(t, r, after)
			if len(r.Changes) == 0 {
				require.Equal(t, string(data), string(content(t, r)), "changed without a change")
			}
			again, err := Repair(t.Context(), codecOf(t, content(t, r)), r.Text, &Options{CloseRunning: true, UniqueIDs: true, DropBadLines: true})
			require.NoError(t, err)
			require.Empty(t, again.Changes, "a second repair finds more")
		})
	}
}
