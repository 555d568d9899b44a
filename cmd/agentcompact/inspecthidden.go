package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/agentcompact/agentcompact/wire/doctor"
)

// hiddenProblem is a call or result without its other half that is not live: on
// a branch that was left, in a side chain, or hidden by a compaction.
type hiddenProblem struct {
	Kind   doctor.Kind `json:"kind"`
	CallID string      `json:"call_id,omitempty"`
	Line   int         `json:"line,omitempty"`
}

// hiddenProblems are those of a file that has messages which are not live. They
// are what doctor finds.
func (in *input) hiddenProblems(ctx context.Context) ([]hiddenProblem, error) {
	if in.file == nil || in.conv.Side == 0 {
		return nil, nil
	}
	var text *io.SectionReader // none of a folder
	if in.tree == nil {
		f, err := os.Open(in.path)
		if err != nil {
			return nil, fileError(in.path, err)
		}
		defer f.Close()
		text = io.NewSectionReader(f, 0, in.info.Size())
	}
	list, err := doctor.Hidden(ctx, text, in.file, in.index, in.session.View())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.path, err)
	}
	var out []hiddenProblem
	for _, f := range list {
		out = append(out, hiddenProblem{Kind: f.Kind, CallID: f.CallID, Line: f.Line})
	}
	return out, nil
}
