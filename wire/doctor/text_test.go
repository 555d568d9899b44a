package doctor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// outside reads a file as if from a disk: in pieces.
type outside struct {
	*bytes.Reader
	most int
}

func (o outside) ReadAt(b []byte, off int64) (int, error) {
	if len(b) > o.most {
		n, err := o.Reader.ReadAt(b[:o.most], off)
		for n > 0 && n < len(b) && err == nil {
			var k int
			k, err = o.Reader.ReadAt(b[n:min(len(b), n+o.most)], off+int64(n))
			n += k
		}
		return n, err
	}
	return o.Reader.ReadAt(b, off)
}

// A transcript that stays where it is has the findings, and gets the repairs,
// that it has when all of it is held.
func TestStoredIsHeld(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	opened := 0
	for _, s := range sessions {
		if len(s.Files) > 0 || s.Tokens > 100_000 && os.Getenv("AGENTCOMPACT_FULL") != "1" {
			continue
		}
		t.Run(s.Path, func(t *testing.T) {
			data, err := os.ReadFile(s.File())
			require.NoError(t, err)
			codec := codecOf(t, data)
			held, err := codec.Read(t.Context(), data)
			require.NoError(t, err)
			o, ok := codec.(wire.Opener)
			if !ok {
				return
			}
			r := outside{bytes.NewReader(data), 4099}
			stored, err := o.Open(t.Context(), r, int64(len(data)))
			require.NoError(t, err)
			if stored.Conversations[0].Entries == nil {
				opened++
			}
			want, err := Diagnose(t.Context(), source(data), held)
			require.NoError(t, err)
			got, err := Diagnose(t.Context(), io.NewSectionReader(r, 0, int64(len(data))), stored)
			require.NoError(t, err)
			require.Equal(t, want, got)
			for _, f := range got {
				requirePlace(t, data, f)
			}

			all := Options{CloseRunning: true, UniqueIDs: true, DropBadLines: true}
			a, err := Repair(t.Context(), readOnly{codec}, source(data), &all)
			require.NoError(t, err)
			b, err := Repair(t.Context(), codec, io.NewSectionReader(r, 0, int64(len(data))), &all)
			require.NoError(t, err)
			require.Equal(t, a.Changes, b.Changes)
			require.Equal(t, a.Left, b.Left)
			require.True(t, bytes.Equal(content(t, a), content(t, b)))
		})
	}
	require.Greater(t, opened, 20)
}

// readOnly hides that a codec opens files.
type readOnly struct{ wire.Codec }

// requirePlace checks that a finding's line is that of its offset.
func requirePlace(t *testing.T, data []byte, f Finding) {
	t.Helper()
	if f.Offset > 0 {
		require.Equal(t, 1+bytes.Count(data[:f.Offset], []byte("\n")), f.Line, "%+v", f)
	}
}

// The bytes of a file are looked at line by line and give what they give as a
// whole, wherever reads end.
func TestScanOfAnyBytes(t *testing.T) {
	piece := rapid.SampledFrom([]string{"\n", "\r\n", " ", "a", "\xff", "\xc3", "\xed\xa0\x80", "ü", "\\ud83d", "\\ude00", "\\", `"`, "{}", `{"role":"user","content":"x"}`, "\xef\xbb\xbf", "  \n\n", `{"a`})
	rapid.Check(t, func(rt *rapid.T) {
		data := []byte(strings.Join(rapid.SliceOfN(piece, 1, 30).Draw(rt, "pieces"), ""))
		txt := &text{src: io.NewSectionReader(outside{bytes.NewReader(data), 3}, 0, int64(len(data))), logged: true}
		got, err := txt.scan(context.Background())
		require.NoError(rt, err)
		bad := 0
		for rest := data; len(rest) > 0; {
			r, n := utf8.DecodeRune(rest)
			if r == utf8.RuneError && n == 1 {
				bad++
			}
			rest = rest[n:]
		}
		half := turns.LoneSurrogates(data)
		for _, f := range got {
			switch f.Kind {
			case InvalidUTF8:
				var n int
				_, err := fmt.Sscanf(f.Detail, "%d", &n)
				require.NoError(rt, err)
				bad -= n
				require.False(rt, utf8.FullRune(data[f.Offset:]) && utf8.Valid(data[f.Offset:f.Offset+1]))
			case HalfSurrogate:
				require.Equal(rt, int64(half[0]), f.Offset)
				half = half[1:]
			}
			require.Equal(rt, 1+bytes.Count(data[:f.Offset], []byte("\n")), f.Line)
		}
		require.Zero(rt, bad)
		require.Empty(rt, half)
		var lines bytes.Buffer
		require.NoError(rt, txt.lines(context.Background(), func(b []byte, _ int, off int64) error {
			require.EqualValues(rt, lines.Len(), off)
			lines.Write(b)
			return nil
		}))
		require.Equal(rt, string(data), lines.String())
	})
}

// What is repaired without being held is what is repaired as a whole.
func TestRepairOfAnyBytes(t *testing.T) {
	piece := rapid.SampledFrom([]string{"\n", "what\n", `{"role":"user","content":"` + "\xff" + `"}` + "\n", `{"role":"assistant","content":"\ud83d"}` + "\n", "{}", "\n  \n", `{"role":"us`, `{"role":"user","content":"u"} {"role":"user","content":"v"}` + "\n"})
	rapid.Check(t, func(rt *rapid.T) {
		data := []byte("{\"role\":\"user\",\"content\":\"go\"}\n{\"role\":\"assistant\",\"content\":\"yes\"}\n" + strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(rt, "pieces"), ""))
		codec, _ := wire.Detect(data, true, formats.All()...)
		if codec == nil {
			rt.Skip()
		}
		opts := &Options{DropBadLines: rapid.Bool().Draw(rt, "drop")}
		a, err := Repair(context.Background(), readOnly{codec}, source(data), opts)
		require.NoError(rt, err)
		b, err := Repair(context.Background(), codec, io.NewSectionReader(outside{bytes.NewReader(data), 5}, 0, int64(len(data))), opts)
		require.NoError(rt, err)
		require.Equal(rt, string(content(rt, a)), string(content(rt, b)))
		require.Equal(rt, a.Changes, b.Changes)
		require.Equal(rt, a.Left, b.Left)
		require.True(rt, utf8.Valid(content(rt, b)))
		for _, n := range b.Left {
			require.True(rt, (n.Kind == NotAnObject || n.Kind == BadLine) && !opts.DropBadLines, "%+v", n)
		}
		again, err := Repair(context.Background(), codec, b.Text, opts)
		require.NoError(rt, err)
		require.Empty(rt, again.Changes)
	})
}

// Records that were cut short one after the other are all at the end of the file.
func TestRepairOfSeveralTornRecords(t *testing.T) {
	const whole = "{\"role\":\"user\",\"content\":\"go\"}\n{\"role\":\"assistant\",\"content\":\"yes\"}\n"
	for _, drop := range []bool{false, true} {
		data := []byte(whole + "{\"role\":\"as\n\n{\"role\":\"user\",\"content\":\n{\"role\":\"us\n")
		codec, _ := wire.Detect(data, true, formats.All()...)
		r, err := Repair(context.Background(), codec, source(data), &Options{DropBadLines: drop})
		require.NoError(t, err)
		require.Equal(t, whole+"\n", string(content(t, r)))
		require.Empty(t, r.Left)
		var lines []int
		for _, c := range r.Changes {
			require.Equal(t, TornRecord, c.Kind)
			lines = append(lines, c.Line)
		}
		require.Equal(t, []int{3, 5, 6}, lines)

		// One that something stands behind is a decision.
		const behind = "{\"role\":\"user\",\"content\":\"on\"}\n"
		data = []byte(whole + "{\"role\":\"as\n" + behind)
		r, err = Repair(context.Background(), codec, source(data), &Options{DropBadLines: drop})
		require.NoError(t, err)
		if !drop {
			require.Equal(t, string(data), string(content(t, r)))
			continue
		}
		require.Equal(t, whole+behind, string(content(t, r)))
		require.Equal(t, BadLine, r.Changes[0].Kind)
	}
}

// Many records that are not values of their own are found by reading, and not
// for ever.
func TestPlacesInRequests(t *testing.T) {
	body := `{"model":"m","messages":[{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"%d"}]}`
	data := []byte(fmt.Sprintf(body, 1) + "\n" + fmt.Sprintf(body, 2) + "\n")
	f, err := codecOf(t, data).(wire.Opener).Open(t.Context(), bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	list, err := Diagnose(t.Context(), source(data), f)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, 1, list[0].Line)
	require.EqualValues(t, bytes.Index(data, []byte(`{"role":"assistant"`)), list[0].Offset)
	txt := &text{src: source(data), logged: true}
	for range 2 * misses {
		require.EqualValues(t, -1, txt.find([]byte("nowhere"), 7))
	}
	require.Equal(t, misses, txt.missed)
}

// Equal records have places of their own, and what is no record goes with its
// line.
func TestEqualRecordsAndWholeLines(t *testing.T) {
	user, orphan := `{"role":"user","content":"u"}`+"\n", `{"role":"tool","tool_call_id":"9","content":"r"}`+"\n"
	data := []byte(user + orphan + orphan + "what\n" + user)
	f, err := codecOf(t, data).(wire.Opener).Open(t.Context(), bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	list, err := Diagnose(t.Context(), source(data), f)
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Equal(t, []int{4, 2, 3}, []int{list[0].Line, list[1].Line, list[2].Line})
	r, err := Repair(t.Context(), codecOf(t, data), source(data), &Options{DropBadLines: true, DropOrphans: true})
	require.NoError(t, err)
	require.Equal(t, user+user, string(content(t, r)))
	data = []byte(user + "what\n" + user)
	r, err = Repair(t.Context(), codecOf(t, data), source(data), &Options{DropBadLines: true})
	require.NoError(t, err)
	require.Equal(t, user+user, string(content(t, r)))
}
