package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
)

// records takes a file apart into what a mutation moves: its lines, or the
// elements of the longest list of objects in its document. join puts it
// together.
func records(data []byte, format string) (list [][]byte, join func([][]byte) []byte) {
	if logged(data, format) {
		return bytes.SplitAfter(data, []byte("\n")), func(l [][]byte) []byte { return bytes.Join(l, nil) }
	}
	long := longest(data)
	at := bytes.Index(data, long)
	elements, _ := rawjson.Elements(long)
	for _, e := range elements {
		list = append(list, e)
	}
	return list, func(l [][]byte) []byte {
		out := append([]byte{}, data[:at]...)
		out = append(append(append(out, '['), bytes.Join(l, []byte(",\n"))...), ']')
		return append(out, data[at+len(long):]...)
	}
}

// longest is the list with the most objects.
func longest(raw json.RawMessage) (best json.RawMessage) {
	most := 0
	var walk func(json.RawMessage, int)
	walk = func(raw json.RawMessage, depth int) {
		switch rawjson.Kind(raw) {
		case '[':
			list, _ := rawjson.Elements(raw)
			if len(list) > most && rawjson.Kind(list[0]) == '{' {
				most, best = len(list), raw
			}
			for _, e := range list {
				if depth < 4 {
					walk(e, depth+1)
				}
			}
		case '{':
			o, _ := rawjson.Parse(raw)
			for _, f := range o {
				walk(f.Value, depth+1)
			}
		}
	}
	walk(raw, 0)
	return best
}

var (
	anID   = regexp.MustCompile(`"((?:toolu|call|fc|tool)_[A-Za-z0-9_]{6,})"`)
	aText  = regexp.MustCompile(`"(?:text|content)": ?"[A-Za-z]`)
	marks  = regexp.MustCompile("\uFFFD+")
	aUsage = regexp.MustCompile(`"(?:input_tokens|prompt_tokens)": ?\d+`)
)

// mutations break a file in one place. They return nil where it has no such
// place.
var mutations = []struct {
	name string
	do   func(rnd *rand.Rand, data []byte, format string) []byte
}{
	{"a record dropped", func(rnd *rand.Rand, data []byte, format string) []byte {
		l, join := records(data, format)
		i := rnd.IntN(len(l))
		return join(append(l[:i:i], l[i+1:]...))
	}},
	{"a record twice", func(rnd *rand.Rand, data []byte, format string) []byte {
		l, join := records(data, format)
		i := rnd.IntN(len(l))
		if !bytes.HasSuffix(l[i], []byte("\n")) && logged(data, format) {
			return nil
		}
		return join(append(append(l[:i+1:i+1], l[i]), l[i+1:]...))
	}},
	{"two records swapped", func(rnd *rand.Rand, data []byte, format string) []byte {
		l, join := records(data, format)
		if len(l) < 4 {
			return nil
		}
		i := 1 + rnd.IntN(len(l)-3)
		l[i], l[i+1] = l[i+1], l[i]
		return join(l)
	}},
	{"a record far away", func(rnd *rand.Rand, data []byte, format string) []byte {
		l, join := records(data, format)
		if len(l) < 6 {
			return nil
		}
		i, k := 1+rnd.IntN(len(l)-2), 1+rnd.IntN(len(l)-2)
		l[i], l[k] = l[k], l[i]
		return join(l)
	}},
	{"the file cut short", func(rnd *rand.Rand, data []byte, format string) []byte {
		return data[:len(data)/2+rnd.IntN(len(data)/2)]
	}},
	{"two calls with one id", func(rnd *rand.Rand, data []byte, _ string) []byte {
		var ids []string
		for _, m := range anID.FindAllSubmatch(data, -1) {
			ids = append(ids, string(m[1]))
		}
		if len(ids) < 3 {
			return nil
		}
		i, k := rnd.IntN(len(ids)), rnd.IntN(len(ids))
		return bytes.ReplaceAll(data, []byte(`"`+ids[i]+`"`), []byte(`"`+ids[k]+`"`))
	}},
	{"one side of a pair renamed", func(rnd *rand.Rand, data []byte, _ string) []byte {
		all := anID.FindAllSubmatchIndex(data, -1)
		if len(all) == 0 {
			return nil
		}
		m := all[rnd.IntN(len(all))]
		return bytes.Join([][]byte{data[:m[3]], []byte("x"), data[m[3]:]}, nil)
	}},
	{"not UTF-8", func(rnd *rand.Rand, data []byte, _ string) []byte {
		all := aText.FindAllIndex(data, -1)
		if len(all) == 0 {
			return nil
		}
		at := all[rnd.IntN(len(all))][1]
		return bytes.Join([][]byte{data[:at], {0xff, 0xc3, 'x', 0xed, 0xa0, 0x80}, data[at:]}, nil)
	}},
	{"half a surrogate pair", func(rnd *rand.Rand, data []byte, _ string) []byte {
		all := aText.FindAllIndex(data, -1)
		if len(all) == 0 {
			return nil
		}
		at := all[rnd.IntN(len(all))][1]
		return bytes.Join([][]byte{data[:at], []byte(`\udc00\ud83d`), data[at:]}, nil)
	}},
	{"a line that is no record", func(rnd *rand.Rand, data []byte, format string) []byte {
		if !logged(data, format) {
			return nil
		}
		l, join := records(data, format)
		i := 1 + rnd.IntN(len(l)-1)
		return join(append(append(l[:i:i], []byte("Killed: 9 {\n")), l[i:]...))
	}},
	{"wrong usage", func(rnd *rand.Rand, data []byte, _ string) []byte {
		all := aUsage.FindAllIndex(data, -1)
		if len(all) == 0 {
			return nil
		}
		m := all[rnd.IntN(len(all))]
		at := m[0] + bytes.IndexByte(data[m[0]:m[1]], ':')
		return bytes.Join([][]byte{data[:at], []byte(":-5"), data[m[1]:]}, nil)
	}},
}

// Whatever is broken in a transcript, a repair leaves nothing that it can
// repair, a request of it needs no makeshifts, no text of a user or of the model
// is lost, and a second repair finds nothing to do.
func TestRepairOfMutatedTranscripts(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	full := os.Getenv("AGENTCOMPACT_FULL") == "1"
	used := map[string]int{}
	for _, s := range sessions {
		if len(s.Files) > 0 || s.Tokens > 20_000 && !full {
			continue
		}
		rounds := 1
		if full && s.Tokens <= 20_000 {
			rounds = 12
		}
		data, err := os.ReadFile(s.File())
		require.NoError(t, err)
		format := codecOf(t, data).Name()
		for _, m := range mutations {
			for seed := range rounds {
				rnd := rand.New(rand.NewPCG(uint64(seed), uint64(len(data))))
				broken := m.do(rnd, bytes.Clone(data), format)
				if broken == nil {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d", s.Path, m.name, seed), func(t *testing.T) {
					codec, _ := wire.Detect(broken, true, formats.All()...)
					if codec == nil {
						return // too little is left to tell what it was
					}
					before, err := codec.Read(t.Context(), broken)
					if err != nil { // it says where
						var we *wire.Error
						require.ErrorAs(t, err, &we)
						_, err = Repair(t.Context(), codec, source(broken), nil)
						require.Error(t, err)
						return
					}
					used[m.name]++
					all := Options{CloseRunning: true, UniqueIDs: true, DropBadLines: true}
					r, err := Repair(t.Context(), codec, source(broken), &all)
					require.NoError(t, err)
					after, err := codec.Read(t.Context(), content(t, r))
					require.NoError(t, err)
					requireSound(t, r, after)
					requireSaid(t, before, after)
					again, err := Repair(t.Context(), codec, r.Text, &all)
					require.NoError(t, err)
					require.Empty(t, again.Changes, "a second repair finds more")
				})
			}
		}
	}
	for _, m := range mutations {
		require.Positive(t, used[m.name], "%s: no transcript has such a place", m.name)
	}
}

// requireSaid checks that no text of a user or of the model is lost.
func requireSaid(t testing.TB, before, after *wire.File) {
	t.Helper()
	// A run of bad bytes becomes one mark, or a mark each, as readers like it.
	one := func(s string) string { return marks.ReplaceAllString(strings.ToValidUTF8(s, "\uFFFD"), "\uFFFD") }
	texts := one(strings.Join(said(after), "\x00"))
	for _, s := range said(before) {
		if !strings.Contains(texts, one(s)) {
			t.Errorf("a text is lost: %.200q", s)
		}
	}
}
