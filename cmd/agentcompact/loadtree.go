package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
)

// loadTree reads a session that is a folder of small files.
func loadTree(ctx context.Context, path string, info fs.FileInfo, conversation int) (*input, error) {
	state, err := treeState(path)
	if err != nil {
		return nil, err
	}
	tree, err := formats.ReadTree(ctx, os.DirFS(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	in := &input{path: filepath.Clean(path), info: info, tree: tree.Writer, treeState: state}
	if err := in.choose(&tree.File, conversation); err != nil {
		return nil, err
	}
	return in, in.open(ctx, noFile{})
}

// noFile is what a folder has to close.
type noFile struct{}

func (noFile) Close() error { return nil }

// treeState is a hash of the names, sizes and times of all files of a folder.
func treeState(dir string) ([]byte, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		return nil, fileError(dir, err)
	}
	return h.Sum(nil), nil
}

// outTree is outPath for a folder. It is never changed in place: that could not
// be done all or nothing.
func (in *input) outTree(asked string) (string, error) {
	if asked == "" {
		return in.nextFree()
	}
	asked = filepath.Clean(asked)
	if info, err := os.Stat(asked); err == nil && os.SameFile(info, in.info) {
		return "", fmt.Errorf("%s is a folder and is not changed in place: name a new one with -o", asked)
	}
	if !free(asked) {
		return "", fmt.Errorf("%s exists already: name a new folder with -o", asked)
	}
	if rel, err := filepath.Rel(in.path, asked); err == nil && filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s lies in the folder that is read: name one outside of it with -o", asked)
	}
	return asked, writable(asked)
}

// writeTree puts a copy of the folder with the new surface, and the log beside
// it, in place. What fails is taken back.
func (in *input) writeTree(ctx context.Context, path string, items []wire.Item, out *compacted) error {
	changes, err := in.tree.WriteTree(ctx, in.index, items)
	if err != nil {
		return fmt.Errorf("write %s: %w", in.file.Format, err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(path), tempPattern())
	if err != nil {
		return fileError(path, err)
	}
	defer os.RemoveAll(tmp)
	if err := fillTree(ctx, tmp, in.path, changes); err != nil {
		return fileError(path, err)
	}
	if err := os.Chmod(tmp, in.info.Mode().Perm()); err != nil {
		return fileError(path, err)
	}
	if now, err := treeState(in.path); err != nil {
		return err
	} else if string(now) != string(in.treeState) {
		return fmt.Errorf("%s was written to meanwhile: nothing was written; run it again", in.path)
	}
	sum, err := treeState(tmp)
	if err != nil {
		return err
	}
	side := sidecarPath(path, in.index)
	tmpSide, err := in.writeSidecar(ctx, side, sum)
	if err != nil {
		return err
	}
	defer os.Remove(tmpSide)
	p := &placing{}
	if err := in.placeLogs(p, path); err != nil {
		p.undo()
		return err
	}
	err = p.link(tmpSide, side)
	if err == nil && !free(path) {
		err = fmt.Errorf("%s appeared meanwhile: choose another name with -o", path)
	}
	if err == nil {
		if err = os.Rename(tmp, path); err != nil {
			err = fileError(path, err)
		}
	}
	if err != nil {
		p.undo()
		return err
	}
	syncDir(path)
	out.Out, out.Sidecar = path, side
	return nil
}

// fillTree copies a folder into an empty one, with changes.
func fillTree(ctx context.Context, to, from string, changes []wire.Change) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return changeTree(ctx, to, changes)
}

// changeTree makes changes in a folder.
func changeTree(ctx context.Context, to string, changes []wire.Change) error {
	for _, c := range changes {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		name := filepath.FromSlash(c.Path)
		if !filepath.IsLocal(name) {
			return errors.New(c.Path + " is no place in the folder")
		}
		name = filepath.Join(to, name)
		if c.Data == nil {
			if err := os.Remove(name); err != nil {
				return err
			}
			_ = os.Remove(filepath.Dir(name)) // goes only when it is empty
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, c.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
