package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

// written is a row of testdata/written.json: what a compaction of a recorded
// session must write, as the agent of the format writes it.
type written struct {
	Format  string `json:"format"`
	Session string `json:"session"`
	// Appended are the records behind the file as it was, in order; Document is
	// a file that is one document. Keys are paths with dots. A value "=" stands
	// for the text of the checkpoint, "*" for anything that is there, "-" for
	// nothing, and "=N.PATH" for what stands in the N-th appended record, or in
	// the last one of the file with N = -1.
	Appended []map[string]any `json:"appended"`
	Document map[string]any   `json:"document"`
}

// at returns what stands at a path; absent when nothing does.
func at(v any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch o := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = o[key]; !ok {
				return absent
			}
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(o) || -i > len(o) {
				return absent
			}
			if i < 0 {
				i += len(o)
			}
			v = o[i]
		default:
			return absent
		}
	}
	return v
}

type nothing struct{}

var absent any = nothing{}

var reference = regexp.MustCompile(`^=(-?\d+)\.(.+)$`)

// records are the lines of a log.
func records(t *testing.T, data []byte) (out []any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	for dec.More() {
		var v any
		require.NoError(t, dec.Decode(&v))
		out = append(out, v)
	}
	return out
}

// TestWritten compacts a session of every agent and compares what is written with
// what that agent writes.
func TestWritten(t *testing.T) {
	data, err := os.ReadFile("testdata/written.json")
	require.NoError(t, err)
	var rows []written
	require.NoError(t, json.Unmarshal(data, &rows))
	seen := map[string]bool{}
	for _, row := range rows {
		seen[row.Format] = true
		t.Run(row.Format+"/"+row.Session, func(t *testing.T) {
			f, was := transcript(t, row)
			require.Equal(t, row.Format, f.Format)
			items := wiretest.Compacted(t, f.Conversations[0], "cmp_1")
			text := items[0].Message.Text()
			out := wiretest.Write(t, f, 0, items)
			check := func(v any, want map[string]any, log []any, last any) {
				for path, w := range want {
					got := at(v, path)
					where := fmt.Sprintf("%s of %.600v", path, v)
					s, _ := w.(string)
					switch m := reference.FindStringSubmatch(s); {
					case m != nil && m[1] == "-1":
						require.Equal(t, at(last, m[2]), got, where)
						require.NotEqual(t, absent, got, where)
					case m != nil:
						n, err := strconv.Atoi(m[1])
						require.NoError(t, err)
						require.Equal(t, at(log[n], m[2]), got, where)
						require.NotEqual(t, absent, got, where)
					case s == "=":
						require.Equal(t, text, got, where)
					case s == "*":
						require.NotEqual(t, absent, got, where)
					case s == "-":
						require.Equal(t, absent, got, where)
					default:
						require.Equal(t, w, got, where)
					}
				}
			}
			if row.Document != nil {
				doc := records(t, out)
				require.Len(t, doc, 1)
				check(doc[0], row.Document, nil, nil)
				return
			}
			require.NotEmpty(t, row.Appended)
			require.True(t, bytes.HasPrefix(out, was), "the file is only appended to")
			log, before := records(t, out[len(was):]), records(t, was)
			require.GreaterOrEqual(t, len(log), len(row.Appended))
			for i, want := range row.Appended {
				check(log[i], want, log, before[len(before)-1])
			}
		})
	}
	for _, c := range All() {
		require.True(t, seen[c.Name()], "no row for %s", c.Name())
	}
}

// transcript reads the session of a row, or converts it where the name ends in
// "→" (there is no recorded file of the format).
func transcript(t *testing.T, row written) (*wire.File, []byte) {
	t.Helper()
	name, converted := strings.CutSuffix(row.Session, "→")
	s, err := testdata.Find(name)
	require.NoError(t, err)
	data, err := os.ReadFile(s.File())
	require.NoError(t, err)
	f, err := Read(t.Context(), data)
	require.NoError(t, err)
	if converted {
		c := f.Conversations[0]
		made, err := Convert(t.Context(), imported(t, c).View(), c, row.Format)
		require.NoError(t, err)
		data = made.Data
		f, err = Read(t.Context(), data)
		require.NoError(t, err)
	}
	return f, data
}

// TestPapers: the documentation of every format says which version it follows and
// what is lost.
func TestPapers(t *testing.T) {
	packages := map[string]string{"gemini-contents": "gemini", "gemini-session": "gemini"}
	version := regexp.MustCompile(`[Vv]ersions? |protocol \d|v1beta|schema \d|\d+\.\d+`)
	lost := regexp.MustCompile(`(?m)^# (Lost|What is lost)$|^Lost: `)
	for _, c := range All() {
		dir := packages[c.Name()]
		if dir == "" {
			dir = strings.ReplaceAll(c.Name(), "-", "")
		}
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, dir)
		doc := ""
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
			require.NoError(t, err)
			doc += f.Doc.Text()
		}
		require.Regexp(t, version, doc, "the version that %s follows", c.Name())
		require.Regexp(t, lost, doc, "what %s loses", c.Name())
	}
}
