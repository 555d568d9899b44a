package engine_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/compacttest"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/summarize"
)

const racerEnv = "AGENTCOMPACT_ENGINE_RACER"

func TestMain(m *testing.M) {
	if os.Getenv(racerEnv) != "" {
		racer(os.Stdin, os.Stdout)
		return
	}
	goleak.VerifyTestMain(m)
}

// ran is what a process tells of one race.
type ran struct {
	ID   string       `json:",omitempty"` // of its compaction
	Code compact.Code `json:",omitempty"`
	Err  string       `json:",omitempty"`
}

// racer is the other process: for every file that it is told it opens the
// session, says so, waits for the word, and compacts.
func racer(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	say := json.NewEncoder(out)
	for lines.Scan() {
		var r ran
		if err := race(lines.Text(), func() { _ = say.Encode(ran{}); lines.Scan() }, &r); err != nil {
			r.Err = err.Error()
		}
		if say.Encode(r) != nil {
			return
		}
	}
}

func race(path string, ready func(), r *ran) error {
	ctx := context.Background()
	store, err := filestore.Open(path, nil)
	if err != nil {
		return err
	}
	s, err := session.Open(ctx, store, nil)
	if err != nil {
		return err
	}
	e, err := engine.New(new(stub), &engine.Options{
		Windows: engine.FixedWindow(10_000), Prune: engine.Prune{Off: true},
		Run: summarize.RunOptions{Guard: loose, Backoff: -1, Deadline: -1},
	})
	if err != nil {
		return err
	}
	ready()
	res, err := e.CompactIfNeeded(ctx, compact.Agent{Session: s}, compact.Pressure)
	var ce *compact.Error
	switch {
	case errors.As(err, &ce):
		r.Code = ce.Code
	case err != nil:
		return err
	case res != nil:
		r.ID = res.ID
	}
	if _, err := s.Append(ctx, session.UserText(fmt.Sprintf("from process %d", os.Getpid()))); err != nil {
		return err
	}
	return s.Close()
}

type process struct {
	in  io.WriteCloser
	out *json.Decoder
}

func newRacer(t *testing.T) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), racerEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &process{in, json.NewDecoder(out)}
}

func (p *process) tell(t *testing.T, line string) {
	t.Helper()
	_, err := fmt.Fprintln(p.in, line)
	require.NoError(t, err)
}

func (p *process) hear(t *testing.T) (r ran) {
	t.Helper()
	require.NoError(t, p.out.Decode(&r))
	require.Empty(t, r.Err)
	return r
}

// Two processes compact the same file at the same time: one does, the other is
// told that it is busy, or that nothing is left to do; what both append
// afterwards is there.
func TestTwoProcesses(t *testing.T) {
	races := 10
	if os.Getenv("AGENTCOMPACT_FULL") == "1" {
		races = 200
	}
	dir := t.TempDir()
	racers := []*process{newRacer(t), newRacer(t)}
	seen := make(map[string]int)
	for i := range races {
		path := filepath.Join(dir, fmt.Sprint(i))
		store, err := filestore.Open(path, nil)
		require.NoError(t, err)
		s, err := session.Open(t.Context(), store, nil)
		require.NoError(t, err)
		talk(t, s, 26)
		before := s.View()
		require.NoError(t, s.Close())

		for _, p := range racers {
			p.tell(t, path)
			p.hear(t) // it is ready
		}
		for _, p := range racers {
			p.tell(t, "go")
		}
		won := 0
		for _, p := range racers {
			switch r := p.hear(t); {
			case r.ID != "":
				won++
			case r.Code == "":
				seen["nothing"]++
			default:
				seen[string(r.Code)]++
				require.Equal(t, compact.Busy, r.Code)
			}
		}
		require.Equal(t, 1, won, "race %d", i)

		store, err = filestore.Open(path, nil)
		require.NoError(t, err)
		s = compacttest.Open(t, store)
		v := s.View()
		for e := range before.Events(0) {
			again, err := v.Event(e.Seq)
			require.NoError(t, err)
			assert.Equal(t, e.Type, again.Type)
		}
		h := compact.HistoryOf(s)
		require.Len(t, h.Attempts, 1)
		require.True(t, h.Attempts[0].Committed())
		got := texts(t, s)
		for _, text := range got[len(got)-2:] {
			assert.Contains(t, text, "from process")
		}
	}
	t.Logf("the other one: %v", seen)
}
