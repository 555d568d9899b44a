package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

// editing is a transcript that is being changed: read, with a place for the
// result.
type editing struct {
	in    *input
	place string
	own   *ownCopy
}

// begin reads a transcript that is to be changed and decides where the result
// goes. A session of our own format is changed in place unless out names
// another file; marks says what a name beside a foreign file gets.
func (a *app) begin(ctx context.Context, path string, conversation int, out string, marks ...string) (*editing, error) {
	a.status("reading " + path)
	in, err := load(ctx, path, conversation, out == "" || sameFile(out, path))
	a.status("")
	if err != nil {
		return nil, err
	}
	for _, m := range marks {
		in.mark = m
	}
	ed := &editing{in: in, place: path}
	if in.file == nil && (out == "" || sameFile(out, path)) {
		transcript, beside := strings.CutSuffix(path, sidecarExt)
		if _, ok := lastSource(in.session.View()); ok && beside && !free(transcript) {
			ed.close()
			return nil, fmt.Errorf("%s is the log of a transcript, which would not match it any more: name the transcript, or write somewhere else with -o", path)
		}
	}
	if in.file != nil || out != "" && !sameFile(out, path) {
		if ed.place, err = in.outPath(out); err != nil {
			ed.close()
			return nil, err
		}
	}
	if in.file == nil && ed.place != path {
		if ed.own, err = in.copyOwn(ctx, ed.place); err != nil {
			ed.close()
			return nil, err
		}
	}
	return ed, nil
}

// finish puts the result in its place and says in out where that is.
func (a *app) finish(ctx context.Context, ed *editing, out *compacted) error {
	switch {
	case ed.in.file != nil:
		a.status("writing " + ed.place)
		defer a.status("")
		return ed.in.write(ctx, ed.place, out)
	case ed.own != nil:
		out.Out = ed.place
		return ed.own.place()
	}
	out.Out = ed.place
	return nil
}

func (ed *editing) close() {
	_ = ed.in.session.Close()
	if ed.own != nil {
		ed.own.drop()
	}
}

// plainEngine is an engine for what needs no policy.
func plainEngine() (*engine.Engine, error) {
	return engine.New(summarize.NewExtractive(nil), &engine.Options{Policy: engine.Policy{RetainRatio: defaultTail}})
}

func seqsOf(list []int64) []session.Seq {
	out := make([]session.Seq, len(list))
	for i, n := range list {
		out[i] = session.Seq(n)
	}
	return out
}

// pin pins messages of the surface, or takes the pins off.
func pin(ctx context.Context, s *session.Session, seqs []session.Seq, off bool) error {
	if len(seqs) == 0 {
		return nil
	}
	_, err := s.Update(ctx, func(v session.View) ([]session.Body, error) {
		for _, q := range seqs {
			if by := v.ShadowedBy(q); q < v.Next() && by != session.NoSeq {
				return nil, fmt.Errorf("message %d is hidden by the one with seq %d and cannot be pinned: undo that compaction first, or pin before you compact", q, by)
			}
			if _, err := v.Position(q); err != nil {
				return nil, fmt.Errorf("%w (messages are named by their seqs: see inspect --messages)", err)
			}
		}
		return []session.Body{session.Pin{Nodes: seqs, Off: off}}, nil
	})
	return err
}

// checkpointNamed returns the checkpoint on the surface with a compaction id.
func checkpointNamed(v session.View, id string) (session.Seq, bool) {
	for i := range v.Len() {
		if n := v.Node(i); compact.IsCheckpointSource(n.Source()) && n.Source().Ref == id {
			return n.Seq, true
		}
	}
	return session.NoSeq, false
}
