package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
)

// TestVersion1 reads the file that the first release of the format wrote. The
// file is never changed.
func TestVersion1(t *testing.T) {
	store, err := Open("testdata/version1.jsonl", &Options{ReadOnly: true})
	require.NoError(t, err)
	s, err := session.Open(t.Context(), store, nil)
	require.NoError(t, err)
	defer s.Close()
	v := s.View()
	require.Equal(t, session.Seq(28), v.Next())
	require.Equal(t, 1, v.Len())
	m, err := v.Message(0)
	require.NoError(t, err)
	require.Equal(t, "start over", m.Text())
	require.Equal(t, uint64(6), v.Generation())
	past, err := v.SurfaceAt(18)
	require.NoError(t, err)
	require.Equal(t, []session.Seq{15, 4, 6, 7, 11, 17, 18}, past)
	e, err := v.Event(6)
	require.NoError(t, err)
	m, err = e.Message()
	require.NoError(t, err)
	require.Equal(t, "not \xff valid\n", m.Text()[:12])
	_, err = s.Append(t.Context(), session.UserText("x"))
	require.ErrorIs(t, err, ErrReadOnly)
}

func TestHeaders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	var version *VersionError
	_, err := Open(write("newer", `{"format":"agentcompact-session","version":2,"created":1}`+"\n"), nil)
	require.ErrorAs(t, err, &version)
	require.Equal(t, 2, version.Version)
	for name, content := range map[string]string{
		"other":   "some notes\n",
		"json":    `{"type":"user"}` + "\n",
		"version": `{"format":"agentcompact-session","version":0,"created":1}` + "\n",
		"broken":  `{"format":"agentcompact-session",` + "\n",
		"long":    `{"format":"agentcompact-session",` + string(bytes.Repeat([]byte("x"), 1<<13)),
	} {
		path := write(name, content)
		var format *FormatError
		_, err := Open(path, nil)
		require.ErrorAs(t, err, &format, name)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(got), "%s was touched", name)
	}
	_, err = Open(filepath.Join(dir, "missing"), &Options{ReadOnly: true})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSalvage(t *testing.T) {
	whole, err := os.ReadFile("testdata/version1.jsonl")
	require.NoError(t, err)
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	at := len(whole) / 2
	bad := bytes.Clone(whole)
	bad[at] ^= 1
	require.NoError(t, os.WriteFile(src, bad, 0o600))
	st, err := Open(src, nil)
	require.NoError(t, err)
	_, err = session.Open(t.Context(), st, nil)
	var damage *DamageError
	require.ErrorAs(t, err, &damage)
	require.NoError(t, st.Close())
	found, err := Check(src)
	require.NoError(t, err)
	require.True(t, found.Damaged)
	got, err := Salvage(src, dst)
	require.NoError(t, err)
	require.Equal(t, found, got)
	require.Equal(t, damage.Events, got.Events)
	require.Equal(t, int64(len(whole)), got.Bytes+got.Left)
	require.NotEmpty(t, got.Reason)
	head, err := os.ReadFile(dst)
	require.NoError(t, err)
	require.Equal(t, whole[:got.Bytes], head)
	left, err := os.ReadFile(src)
	require.NoError(t, err)
	require.Equal(t, bad, left, "the damaged file was touched")
	st, err = Open(dst, nil)
	require.NoError(t, err)
	s, err := session.Open(t.Context(), st, nil)
	require.NoError(t, err)
	_, err = s.Append(t.Context(), session.UserText("on"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = Salvage(src, dst)
	require.ErrorIs(t, err, os.ErrExist)
	require.NoError(t, os.WriteFile(src, whole[:len(whole)-3], 0o600))
	torn, err := Check(src)
	require.NoError(t, err)
	require.False(t, torn.Damaged)
	require.NotEmpty(t, torn.Reason)
	require.Equal(t, int64(len(whole)-3), torn.Bytes+torn.Left)
}

// TestPayloadsStayOnDisk: opening and scanning reads no message into memory.
func TestPayloadsStayOnDisk(t *testing.T) {
	st, err := Open("testdata/version1.jsonl", &Options{ReadOnly: true})
	require.NoError(t, err)
	s, err := session.Open(t.Context(), st, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	m, err := s.View().Message(0) // read from the file again
	require.NoError(t, err)
	require.Equal(t, "start over", m.Text())
}

func TestLockedByOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.jsonl")
	st, err := Open(path, nil)
	require.NoError(t, err)
	defer st.Close()
	other, err := OS.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	ok, err := other.TryLock(true)
	require.NoError(t, err)
	require.True(t, ok)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- st.Scan(ctx, 0, func(*session.Event) error { return nil }) }()
	cancel(why)
	require.ErrorIs(t, <-done, why)
	require.NoError(t, other.Unlock())
	require.NoError(t, st.Scan(t.Context(), 0, func(*session.Event) error { return nil }))
	require.NoError(t, other.Close())
}

// FuzzFile: no bytes make the reader fail in another way than with one of its
// own errors, and what it takes as sound can be appended to and read again.
func FuzzFile(f *testing.F) {
	whole, err := os.ReadFile("testdata/version1.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	f.Add(bytes.Join(lines[:6], nil), true)
	f.Add(bytes.Join(lines[:6], nil)[:700], true)
	f.Add(bytes.Join(append(lines[:3:3], lines[4:7]...), nil), true)
	f.Add([]byte(headerStart), true)
	f.Add([]byte{0, 0, 0}, true)
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		if mend {
			b = mended(b)
		}
		st, err := Open("s.jsonl", &Options{SyncEvery: Never, FS: &bytesFS{b: bytes.Clone(b)}})
		if err != nil {
			var format *FormatError
			var version *VersionError
			require.True(t, errors.As(err, &format) || errors.As(err, &version), "%v", err)
			return
		}
		defer st.Close()
		next := session.Seq(0)
		scan := func() error {
			return st.Scan(t.Context(), next, func(e *session.Event) error {
				require.Equal(t, next, e.Seq)
				next++
				_, _ = e.Body()
				return nil
			})
		}
		if err := scan(); err != nil {
			return
		}
		mem := session.NewMemoryStore()
		s, err := session.Open(t.Context(), mem, nil)
		require.NoError(t, err)
		for range int(next) + 1 {
			_, err = s.Append(t.Context(), session.UserText("x"))
			require.NoError(t, err)
		}
		want := next + 1
		require.NoError(t, st.Append(t.Context(), next, mem.Events()[next:]))
		require.NoError(t, scan())
		require.Equal(t, want, next)
	})
}

// mended gives every line the checksum that it should have, so that what is
// behind the checksum is reached.
func mended(b []byte) []byte {
	b = bytes.Clone(b)
	for l := range bytes.Lines(b) {
		l = bytes.TrimSuffix(l, []byte("\n"))
		if end := len(l) - trailer; end >= 0 {
			sum := crc32.Checksum(l[:end], castagnoli)
			copy(l[end:], fmt.Sprintf(`,"crc":"%08x"}`, sum))
		}
	}
	return b
}

// bytesFS is a file system of one file in memory, for one store.
type bytesFS struct{ b []byte }

func (f *bytesFS) OpenFile(string, int, os.FileMode) (File, error) { return f, nil }
func (f *bytesFS) SyncDir(string) error                            { return nil }
func (f *bytesFS) Size() (int64, error)                            { return int64(len(f.b)), nil }
func (f *bytesFS) Sync() error                                     { return nil }
func (f *bytesFS) TryLock(bool) (bool, error)                      { return true, nil }
func (f *bytesFS) Unlock() error                                   { return nil }
func (f *bytesFS) Close() error                                    { return nil }

func (f *bytesFS) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(f.b).ReadAt(b, off)
}

func (f *bytesFS) WriteAt(b []byte, off int64) (int, error) {
	f.b = append(f.b[:off], b...)
	return len(b), nil
}

func (f *bytesFS) Truncate(n int64) error {
	f.b = f.b[:n]
	return nil
}
