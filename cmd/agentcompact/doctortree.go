package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/doctor"
	"github.com/agentcompact/agentcompact/wire/formats"
)

// diagnoseTree looks at a session that is a folder, and repairs a copy of it.
func diagnoseTree(ctx context.Context, path string, info fs.FileInfo, fix bool, out string, opts *doctor.Options) (*diagnosis, error) {
	path = filepath.Clean(path)
	dir := os.DirFS(path)
	tree, err := formats.ReadTree(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d := &diagnosis{}
	list, err := doctor.DiagnoseTree(ctx, dir, &tree.File)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d.found(&tree.File, list)
	if fix {
		err = d.fixTree(ctx, path, info, out, opts)
	}
	return d, err
}

// fixTree repairs a copy of the folder and gives it its name.
func (d *diagnosis) fixTree(ctx context.Context, path string, info fs.FileInfo, out string, opts *doctor.Options) error {
	name, err := (&input{path: path, info: info, mark: ".fixed"}).outTree(out)
	if err != nil {
		return err
	}
	state, err := treeState(path)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(name), tempPattern())
	if err != nil {
		return fileError(name, err)
	}
	defer os.RemoveAll(tmp)
	if err := fillTree(ctx, tmp, path, nil); err != nil {
		return fileError(name, err)
	}
	codec, err := treeCodec(d.Format)
	if err != nil {
		return err
	}
	r, err := doctor.RepairTree(ctx, codec, os.DirFS(tmp), func(changes []wire.Change) error { return changeTree(ctx, tmp, changes) }, opts)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if d.Changes, d.Left = r.Changes, r.Left; len(d.Changes) == 0 {
		return nil
	}
	if err := os.Chmod(tmp, info.Mode().Perm()); err != nil {
		return fileError(name, err)
	}
	switch now, err := treeState(path); {
	case err != nil:
		return err
	case string(now) != string(state):
		return fmt.Errorf("%s was written to meanwhile: nothing was written; run it again", path)
	case !free(name):
		return fmt.Errorf("%s appeared meanwhile: choose another name with -o", name)
	}
	if err := os.Rename(tmp, name); err != nil {
		return fileError(name, err)
	}
	syncDir(name)
	d.Out = name
	return nil
}

// treeCodec is the codec of folders of a format.
func treeCodec(format string) (wire.TreeCodec, error) {
	for _, c := range formats.Trees() {
		if c.Name() == format {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no folders of the format %s are known", format)
}
