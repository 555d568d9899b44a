package filestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/store/filestore"
)

// full reports whether the whole matrices are wanted.
func full() bool { return os.Getenv("AGENTCOMPACT_FULL") != "" }

var clock = &session.Options{Now: func() time.Time { return time.UnixMilli(1790000000000) }}

func openDisk(d *disk, opts filestore.Options) (*session.Session, error) {
	opts.FS, opts.Now = d, clock.Now
	store, err := filestore.Open("disk", &opts)
	if err != nil {
		return nil, err
	}
	return session.Open(context.Background(), store, clock)
}

// scripted runs the script on an empty disk. acked holds the length of the log
// after each acknowledged write, and sizes the length of the file then.
func scripted(t *testing.T, d *disk) (acked []session.Seq, sizes []int, err error) {
	t.Helper()
	s, err := openDisk(d, filestore.Options{})
	if err != nil {
		return nil, nil, err
	}
	err = sessiontest.Script(t, s, func(seqs []session.Seq) {
		acked = append(acked, seqs[len(seqs)-1]+1)
		sizes = append(sizes, len(d.synced))
	})
	_ = s.Close()
	return acked, sizes, err
}

// survives opens what a crash left behind, and checks that the log ends at a
// boundary between writes, that what was acknowledged is there, and that the
// session goes on.
func survives(t *testing.T, left []byte, bounds []session.Seq, acked session.Seq, deep bool, name string) {
	t.Helper()
	d := newDisk(left)
	s, err := openDisk(d, filestore.Options{})
	require.NoError(t, err, name)
	got := s.View().Next()
	require.GreaterOrEqual(t, got, acked, "%s: acknowledged events are lost", name)
	require.Contains(t, append(bounds, 0), got, "%s: half a write is there", name)
	if deep {
		require.NoError(t, sessiontest.Check(s.View(), s.Pricer()), name)
	}
	_, err = s.Append(context.Background(), session.UserText("on we go"))
	require.NoError(t, err, name)
	require.NoError(t, s.Close(), name)
	again, err := openDisk(d, filestore.Options{})
	require.NoError(t, err, name)
	require.Equal(t, got+1, again.View().Next(), name)
	require.NoError(t, again.Close())
}

func TestCutAtEveryByte(t *testing.T) {
	d := newDisk(nil)
	bounds, sizes, err := scripted(t, d)
	require.NoError(t, err)
	whole := d.data
	require.Greater(t, len(whole), 5000)
	for cut := 0; cut <= len(whole); cut++ {
		acked := session.Seq(0)
		for i, size := range sizes {
			if size <= cut {
				acked = bounds[i]
			}
		}
		survives(t, whole[:cut], bounds, acked, full() || cut%61 == 0, fmt.Sprintf("cut at byte %d", cut))
	}
}

// TestCutReported: the writer says what it cut off, and a reader does not cut.
func TestCutReported(t *testing.T) {
	d := newDisk(nil)
	_, sizes, err := scripted(t, d)
	require.NoError(t, err)
	at := sizes[len(sizes)-1] - 10
	torn := newDisk(d.data[:at])
	var cuts []filestore.Cut
	s, err := openDisk(torn, filestore.Options{Cut: func(c filestore.Cut) { cuts = append(cuts, c) }})
	require.NoError(t, err)
	require.Len(t, torn.data, at, "opening a session writes nothing")
	require.Empty(t, cuts)
	_, err = s.Append(t.Context(), session.UserText("x"))
	require.NoError(t, err)
	end := sizes[len(sizes)-2]
	require.Equal(t, []filestore.Cut{{Path: "disk", Offset: int64(end), Bytes: int64(at - end)}}, cuts)
	require.NoError(t, s.Close())
}

// TestTornReported: a reader says what it passed over, byte by byte what the next
// writer cuts off, and leaves it where it is.
func TestTornReported(t *testing.T) {
	d := newDisk(nil)
	_, _, err := scripted(t, d)
	require.NoError(t, err)
	whole, torn := d.data, 0
	for at := 1; at <= len(whole); at++ {
		left := newDisk(whole[:at])
		reader, err := filestore.Open("disk", &filestore.Options{ReadOnly: true, FS: left})
		require.NoError(t, err)
		_, ok := reader.Torn()
		require.False(t, ok, "before a scan nothing is known")
		s, err := session.Open(t.Context(), reader, nil)
		require.NoError(t, err)
		got, found := reader.Torn()
		require.NoError(t, s.Close())
		require.Len(t, left.data, at)

		var cut []filestore.Cut
		writer, err := filestore.Open("disk", &filestore.Options{FS: left, Cut: func(c filestore.Cut) { cut = append(cut, c) }})
		require.NoError(t, err)
		s, err = session.Open(t.Context(), writer, nil)
		require.NoError(t, err)
		same, _ := writer.Torn()
		require.Equal(t, got, same)
		_, err = s.Append(t.Context(), session.UserText("x"))
		require.NoError(t, err)
		_, ok = writer.Torn()
		require.False(t, ok, "the writer has cut it off")
		require.NoError(t, s.Close())
		if !found {
			require.Empty(t, cut, "cut at byte %d", at)
			continue
		}
		torn++
		require.Equal(t, []filestore.Cut{{Path: got.Path, Offset: got.Offset, Bytes: got.Bytes}}, cut)
		require.EqualValues(t, at, got.Offset+got.Bytes)
		require.NotEmpty(t, got.Reason)
	}
	require.Greater(t, torn, len(whole)/2)
}

// TestEveryFault lets every write and every sync fail in every way.
func TestEveryFault(t *testing.T) {
	d := newDisk(nil)
	bounds, _, err := scripted(t, d)
	require.NoError(t, err)
	writes := d.writes
	boom := errors.New("boom")
	faults := map[string]func(d *disk, nth int) func(op string, n int) (int, error){
		"write fails": func(_ *disk, nth int) func(string, int) (int, error) {
			return func(op string, n int) (int, error) {
				if op == "write" && n == nth {
					return 0, boom
				}
				return 0, nil
			}
		},
		"write is torn": func(_ *disk, nth int) func(string, int) (int, error) {
			return func(op string, n int) (int, error) {
				if op == "write" && n == nth {
					return 37 * nth % 400, boom
				}
				return 0, nil
			}
		},
		"torn, and cannot be taken back": func(_ *disk, nth int) func(string, int) (int, error) {
			return func(op string, n int) (int, error) {
				if op == "truncate" || op == "write" && n == nth {
					return 53 * nth % 900, boom
				}
				return 0, nil
			}
		},
		"the process dies in the write": func(d *disk, nth int) func(string, int) (int, error) {
			return func(op string, n int) (int, error) {
				if op == "write" && n == nth {
					d.dead = true
					return 41 * nth % 700, boom
				}
				return 0, nil
			}
		},
		"sync fails": func(_ *disk, nth int) func(string, int) (int, error) {
			return func(op string, n int) (int, error) {
				if op == "sync" && n == nth {
					return 0, boom
				}
				return 0, nil
			}
		},
		"the power goes before the sync": func(d *disk, nth int) func(string, int) (int, error) {
			return func(op string, n int) (int, error) {
				if op == "sync" && n == nth {
					d.dead = true
					return 0, boom
				}
				return 0, nil
			}
		},
	}
	for name, fault := range faults {
		for nth := 1; nth <= writes; nth++ {
			d := newDisk(nil)
			d.fault = fault(d, nth)
			acked, _, err := scripted(t, d)
			require.ErrorIs(t, err, boom, "%s %d", name, nth)
			last := session.Seq(0)
			if len(acked) > 0 {
				last = acked[len(acked)-1]
			}
			deep := full() || nth%5 == 0
			survives(t, d.data, bounds, last, deep, fmt.Sprintf("%s %d: everything written is there", name, nth))
			survives(t, d.synced, bounds, last, deep, fmt.Sprintf("%s %d: only what was synced is there", name, nth))
			// What was not synced may be there in parts: holes and garbage.
			// The header is a write of its own within one sector: all or nothing.
			if len(d.data) > len(d.synced) && len(d.synced) > 0 {
				for _, hole := range []int{0, 1, 2} {
					left := bytes.Clone(d.data)
					new := left[len(d.synced):]
					clear(new[hole*len(new)/3 : (hole+1)*len(new)/3])
					survives(t, left, bounds, last, deep, fmt.Sprintf("%s %d: hole %d", name, nth, hole))
				}
			}
		}
	}
}

// TestFailedSyncFailsAll: what waited for a failed sync fails, and nothing is
// acknowledged on top.
func TestFailedSyncFailsAll(t *testing.T) {
	boom := errors.New("boom")
	d := newDisk(nil)
	store, err := filestore.Open("disk", &filestore.Options{FS: d})
	require.NoError(t, err)
	s, err := session.Open(t.Context(), store, nil)
	require.NoError(t, err)
	_, err = s.Append(t.Context(), session.UserText("safe"))
	require.NoError(t, err)
	syncing, goOn := make(chan struct{}), make(chan struct{})
	d.fault = func(op string, _ int) (int, error) {
		if op == "sync" {
			close(syncing)
			<-goOn
			return 0, boom
		}
		return 0, nil
	}
	errs := make(chan error, 2)
	add := func() {
		_, err := s.Append(t.Context(), session.UserText("lost"))
		errs <- err
	}
	go add()
	<-syncing
	go add()
	// The second one is staged while the first is being synced, or comes after
	// the failure; it must fail either way.
	close(goOn)
	require.ErrorIs(t, <-errs, boom)
	require.ErrorIs(t, <-errs, boom)
	_, err = s.Append(t.Context(), session.UserText("later"))
	require.ErrorIs(t, err, boom)
	require.NoError(t, s.Close())
	d.fault = nil
	again, err := openDisk(newDisk(d.data), filestore.Options{})
	require.NoError(t, err)
	require.Equal(t, 1, again.View().Len())
	require.NoError(t, again.Close())
}

func TestDamageInTheMiddle(t *testing.T) {
	d := newDisk(nil)
	bounds, sizes, err := scripted(t, d)
	require.NoError(t, err)
	// Every byte of what a later line knows to be synced.
	step := 7
	if full() {
		step = 1
	}
	header := bytes.IndexByte(d.data, '\n') + 1
	for at := header; at < sizes[len(sizes)-2]; at += step {
		bad := newDisk(d.data)
		bad.data[at] ^= 0x04
		_, err := openDisk(bad, filestore.Options{})
		var damage *filestore.DamageError
		require.ErrorAs(t, err, &damage, "byte %d", at)
		require.LessOrEqual(t, damage.Offset, int64(at))
		require.Contains(t, append(bounds, 0), damage.Events)
		// Nothing is written to it.
		store, err := filestore.Open("disk", &filestore.Options{FS: bad})
		require.NoError(t, err)
		err = store.Append(t.Context(), 3, sample(t)[3:4])
		require.ErrorAs(t, err, &damage)
		require.NoError(t, store.Close())
		require.Len(t, bad.data, len(d.data))
	}
}

func sample(t *testing.T) []*session.Event {
	mem := session.NewMemoryStore()
	s, err := session.Open(t.Context(), mem, nil)
	require.NoError(t, err)
	require.NoError(t, sessiontest.Script(t, s, nil))
	return mem.Events()
}
