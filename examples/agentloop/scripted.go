package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

// prompts of the scripted run. The process dies while it works on the second one.
var prompts = []string{
	"The folder holds the minutes of 24 meetings. Read 1 to 8 and tell me who has to do what. Never read private.txt.",
	"Go on with minutes 9 to 16.",
	"You were interrupted. Go on where you were.",
	"Now minutes 17 to 24, and check with grep that you missed nothing.",
}

var errKilled = errors.New("the process was killed")

// scripted tells the whole story in a folder, with the model at url.
func scripted(ctx context.Context, w io.Writer, url, dir, file string) error {
	if err := writeMinutes(dir); err != nil {
		return err
	}
	tools, err := openSandbox(dir)
	if err != nil {
		return err
	}
	defer tools.close()
	m, err := newModel(endpoint{
		provider: "scripted", baseURL: url, key: "no key",
		model: agentModel, summarizer: summaryModel, window: believedWindow,
		// By default old results give way to markers first, and checkpoints are rare. This is about them.
		prune: engine.Prune{Never: []string{"read_file"}},
	})
	if err != nil {
		return err
	}

	// The first process dies when it has started a tool and not yet recorded its result.
	life, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	watch := printer(w)
	called := watch.call
	watch.call = func(c session.ToolCall) {
		called(c)
		if strings.Contains(c.Arguments, minutesName(13)) {
			kill(errKilled)
		}
	}
	left, err := process(life, w, file, m, tools, watch, prompts[:2])
	if !errors.Is(err, errKilled) {
		return fmt.Errorf("the first process should have been killed: %w", err)
	}

	fmt.Fprintf(w, "\n== %v; another one opens %s\n", errKilled, filepath.Base(file))
	found, err := surface(ctx, file)
	if err != nil {
		return err
	}
	if !slices.Equal(found, left) {
		return fmt.Errorf("the first process left the surface %v, the file has %v", left, found)
	}
	fmt.Fprintf(w, "  the %d messages on its surface are those that the first one left\n", len(found))
	_, err = process(ctx, w, file, m, tools, printer(w), prompts[2:])
	return err
}

// process is the life of one process: it opens the file and answers the prompts. It returns the messages
// that it leaves on the surface.
func process(ctx context.Context, w io.Writer, file string, m model, tools *sandbox, watch watcher, prompts []string) ([]session.Seq, error) {
	a, err := openAgent(ctx, file, m, tools, watch)
	if err != nil {
		return nil, err
	}
	defer a.close()
	for _, p := range prompts {
		fmt.Fprintf(w, "\nuser: %s\n", p)
		answer, err := a.turn(ctx, p)
		if err != nil {
			return seqs(a.session.View()), err
		}
		fmt.Fprintf(w, "agent: %s\n", answer)
	}
	v := a.session.View()
	fmt.Fprintf(w, "\n== the model's last checkpoint\n%s\n", checkpoint(v))
	return seqs(v), nil
}

// surface returns the messages on the surface of a stored session.
func surface(ctx context.Context, file string) ([]session.Seq, error) {
	store, err := filestore.Open(file, &filestore.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	s, err := session.Open(ctx, store, nil)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	defer s.Close()
	return seqs(s.View()), nil
}

func seqs(v session.View) []session.Seq {
	out := make([]session.Seq, v.Len())
	for i := range out {
		out[i] = v.Node(i).Seq
	}
	return out
}

// checkpoint is the text of the newest checkpoint on the surface.
func checkpoint(v session.View) string {
	for i := range v.Len() {
		if !compact.IsCheckpointSource(v.Node(i).Source()) {
			continue
		}
		m, err := v.Message(i)
		if err != nil {
			return err.Error()
		}
		return m.Text()
	}
	return "none"
}
