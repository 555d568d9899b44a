package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
	"github.com/agentcompact/agentcompact/wire/internal/turns"
)

// DiagnoseTree is [Diagnose] for a session that is a folder of small files; f is
// what was read from it.
func DiagnoseTree(ctx context.Context, dir fs.FS, f *wire.File) ([]Finding, error) {
	var out []Finding
	err := files(ctx, dir, func(name string, data []byte) error {
		list, err := (&text{src: sectionOf(data)}).scan(ctx) // as a document: nothing but the encoding
		if err != nil {
			return err
		}
		if !json.Valid(data) {
			list = append(list, brokenFile(data))
		}
		for _, n := range list {
			n.File = name
			out = append(out, n)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list, err := Diagnose(ctx, nil, f)
	return append(out, list...), err
}

// brokenFile is the finding of a file that is not JSON.
func brokenFile(data []byte) Finding {
	if _, cut := openValues(data); cut || len(bytes.TrimSpace(data)) == 0 {
		f := finding(TornRecord, "the file is cut short after %d bytes", len(data))
		f.Consequence = "the agent may refuse the session; what the file said is lost"
		return f
	}
	f := finding(BadLine, "the file is not JSON: %s", splice.Clip(string(data), 60))
	f.Consequence = "the agent may refuse the session; if the file was a message, the conversation lacks it"
	return f
}

// files calls fn for the files of a session in order of their paths.
func files(ctx context.Context, dir fs.FS, fn func(name string, data []byte) error) error {
	for _, root := range []string{"session", "message", "part"} {
		err := fs.WalkDir(dir, root, func(name string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case d.IsDir() || path.Ext(name) != ".json":
				return context.Cause(ctx)
			}
			data, err := fs.ReadFile(dir, name)
			if err != nil {
				return err
			}
			return fn(name, data)
		})
		if err != nil {
			return fmt.Errorf("the folder could not be read: %w", err)
		}
	}
	return nil
}

// RepairTree is [Repair] for a session that is a folder. dir must be a copy, in
// which apply makes the changes that it is told; after an error the copy is of
// no use. Text and Scratch have no meaning here.
func RepairTree(ctx context.Context, codec wire.TreeCodec, dir fs.FS, apply func([]wire.Change) error, opts *Options) (*Repaired, error) {
	if opts == nil {
		opts = &Options{}
	}
	r := &Repaired{}
	if err := r.files(ctx, dir, apply, opts); err != nil {
		return nil, err
	}
	tree, err := codec.ReadTree(ctx, dir)
	if err != nil {
		return nil, err
	}
	switch ended, err := r.partFiles(ctx, dir, &tree.File, apply, opts); {
	case err != nil:
		return nil, err
	case ended:
		if tree, err = codec.ReadTree(ctx, dir); err != nil {
			return nil, fmt.Errorf("the repaired folder cannot be read: %w", err)
		}
	}
	for n := range tree.Conversations {
		p := &patient{c: tree.Conversations[n], n: n, opts: opts, format: tree.Format}
		items, err := p.items(ctx)
		if err == nil && len(p.changes) == 0 {
			continue
		}
		var changes []wire.Change
		if err == nil {
			changes, err = tree.Writer.WriteTree(ctx, n, items)
		}
		if err == nil {
			err = apply(changes)
		}
		if err != nil {
			return nil, fmt.Errorf("repair conversation %d: %w", n+1, err)
		}
		r.Changes = append(r.Changes, p.changes...)
		if tree, err = codec.ReadTree(ctx, dir); err != nil {
			return nil, fmt.Errorf("the repaired folder cannot be read: %w", err)
		}
	}
	list, err := DiagnoseTree(ctx, dir, &tree.File)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(list, func(n Finding) bool { return n.Kind == WrongUsage }) {
		if err := r.usageFiles(ctx, dir, apply); err != nil {
			return nil, err
		}
		if tree, err = codec.ReadTree(ctx, dir); err != nil {
			return nil, fmt.Errorf("the repaired folder cannot be read: %w", err)
		}
		if list, err = DiagnoseTree(ctx, dir, &tree.File); err != nil {
			return nil, err
		}
	}
	r.left(list)
	return r, nil
}

// files repairs the encoding, and takes out files that are not JSON.
func (r *Repaired) files(ctx context.Context, dir fs.FS, apply func([]wire.Change) error, opts *Options) error {
	var changes []wire.Change
	err := files(ctx, dir, func(name string, data []byte) error {
		list, err := (&text{src: sectionOf(data)}).scan(ctx)
		if err != nil {
			return err
		}
		for _, f := range list {
			r.Changes = append(r.Changes, Change{Kind: f.Kind, File: name, Line: f.Line, Detail: "replaced by U+FFFD: " + f.Detail})
		}
		fixed := []byte(turns.Repair(data))
		if len(list) > 0 {
			changes = append(changes, wire.Change{Path: name, Data: fixed})
		}
		if json.Valid(fixed) {
			return nil
		}
		if f := brokenFile(fixed); f.Kind == TornRecord || opts.DropBadLines {
			changes = append(changes, wire.Change{Path: name})
			r.Changes = append(r.Changes, Change{Kind: f.Kind, File: name, Detail: fmt.Sprintf("taken out: a file of %d bytes that is no record", len(data))})
		}
		return nil
	})
	if err != nil || changes == nil {
		return err
	}
	return apply(changes)
}

// partFiles ends calls that did not end.
func (r *Repaired) partFiles(ctx context.Context, dir fs.FS, f *wire.File, apply func([]wire.Change) error, opts *Options) (bool, error) {
	calls, err := openParts(ctx, f, opts)
	if err != nil || len(calls) == 0 {
		return false, err
	}
	var changes []wire.Change
	err = files(ctx, dir, func(name string, data []byte) error {
		if ended, ch, ok := calls.end(data); ok && strings.HasPrefix(name, "part/") {
			ch.File = name
			r.Changes = append(r.Changes, ch)
			changes = append(changes, wire.Change{Path: name, Data: ended})
		}
		return nil
	})
	if err != nil || changes == nil {
		return false, err
	}
	return true, apply(changes)
}

// usageFiles takes the reports whose counts cannot be out of the messages.
func (r *Repaired) usageFiles(ctx context.Context, dir fs.FS, apply func([]wire.Change) error) error {
	where := report{from: [][]string{{"tokens"}}, none: zeros}
	var changes []wire.Change
	err := files(ctx, dir, func(name string, data []byte) error {
		if !strings.HasPrefix(name, "message/") || !json.Valid(data) {
			return nil
		}
		var out []byte
		at := int64(0)
		for _, e := range where.edits(data) {
			r.Changes = append(r.Changes, e.change(name, 0))
			out = append(append(out, data[at:e.from]...), e.with...)
			at = e.to
		}
		if out != nil {
			changes = append(changes, wire.Change{Path: name, Data: append(out, data[at:]...)})
		}
		return nil
	})
	if err != nil || changes == nil {
		return err
	}
	return apply(changes)
}

func sectionOf(data []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data)))
}
