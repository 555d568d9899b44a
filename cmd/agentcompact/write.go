package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

// outPath decides where the result goes: the asked file, or the next free name
// beside the input.
func (in *input) outPath(asked string) (string, error) {
	if asked != "" {
		if info, err := os.Stat(asked); err == nil {
			switch {
			case info.IsDir():
				return "", usage("-o %s is a directory: name a file", asked)
			case os.SameFile(info, in.info):
				return in.path, nil
			}
			return "", fmt.Errorf("%s exists already: choose another name, or the input itself to replace it", asked)
		}
		return asked, nil
	}
	dir, base := filepath.Split(in.path)
	ext := filepath.Ext(base)
	stem := strings.TrimSuffix(base, ext)
	for i := 1; i < 10_000; i++ {
		mark := ".compact"
		if i > 1 {
			mark = fmt.Sprintf(".compact-%d", i)
		}
		p := filepath.Join(dir, stem+mark+ext)
		if free(p) && free(sidecarPath(p)) {
			return p, nil
		}
	}
	return "", fmt.Errorf("no free name beside %s: use -o", in.path)
}

func free(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// write puts the compacted transcript and the log beside it in place. The log
// comes first: what a checkpoint hides is never only in memory.
func (in *input) write(ctx context.Context, path string, out *compacted) error {
	items, err := in.items()
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	if err := in.file.Writer.Write(ctx, &buf, in.index, items); err != nil {
		return fmt.Errorf("write %s: %w", in.file.Format, err)
	}
	replace := path == in.path
	if replace {
		changed, err := in.changed()
		if err != nil {
			return err
		}
		if changed {
			if path, err = in.outPath(""); err != nil {
				return err
			}
			replace = false
			out.Notes = append(out.Notes, in.path+" was written to meanwhile and is left as it is; the result stands beside it")
		}
	}
	side := sidecarPath(path)
	tmpSide, err := in.writeSidecar(ctx, side, buf.Bytes())
	if err != nil {
		return err
	}
	defer os.Remove(tmpSide)
	tmp, err := writeTemp(path, buf.Bytes(), in.info.Mode().Perm())
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	if replace {
		if out.Backup, err = backup(in.path); err != nil {
			return err
		}
		if !free(side) {
			if err := os.Remove(side); err != nil { // superseded: the new one holds all that it held
				return fileError(side, err)
			}
		}
	}
	if err := publish(tmpSide, side, false); err != nil {
		return err
	}
	if replace {
		if changed, err := in.changed(); err != nil || changed {
			return fmt.Errorf("%s was written to meanwhile: nothing was replaced; run it again", in.path)
		}
	}
	if err := publish(tmp, path, replace); err != nil {
		return err
	}
	out.Out, out.Sidecar = path, side
	return nil
}

// writeTemp writes a synced temporary file in the folder of path.
func writeTemp(path string, data []byte, perm fs.FileMode) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".agentcompact-*")
	if err != nil {
		return "", fileError(filepath.Dir(path), err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", fileError(path, err)
	}
	return f.Name(), nil
}

// publish gives a temporary file its name, and never over a file unless
// replace is set.
func publish(tmp, path string, replace bool) error {
	if replace {
		if err := os.Rename(tmp, path); err != nil {
			return fileError(path, err)
		}
		return nil
	}
	if err := os.Link(tmp, path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s appeared meanwhile: choose another name with -o", path)
		}
		// A file system without links: the name was free a moment ago.
		if !free(path) {
			return fmt.Errorf("%s appeared meanwhile: choose another name with -o", path)
		}
		if err := os.Rename(tmp, path); err != nil {
			return fileError(path, err)
		}
	}
	return nil
}

// backup copies the file under the next free backup name.
func backup(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fileError(path, err)
	}
	for i := 1; i < 10_000; i++ {
		name := path + ".bak"
		if i > 1 {
			name = fmt.Sprintf("%s.bak-%d", path, i)
		}
		if !free(name) {
			continue
		}
		tmp, err := writeTemp(name, data, 0o600)
		if err != nil {
			return "", err
		}
		defer os.Remove(tmp)
		return name, publish(tmp, name, false)
	}
	return "", fmt.Errorf("no free backup name beside %s", path)
}

// copyOwn copies a session of our own format to a new file and goes on there.
func (in *input) copyOwn(ctx context.Context, path string) error {
	if !free(path) {
		return fmt.Errorf("%s exists already: choose another name", path)
	}
	store, err := filestore.Open(path, nil)
	if err != nil {
		return fileError(path, err)
	}
	s, err := copySession(ctx, in.session, store)
	if err != nil {
		_ = store.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	_ = in.session.Close()
	in.session = s
	return nil
}

// copySession copies the whole log into an empty store.
func copySession(ctx context.Context, from *session.Session, store session.Store) (*session.Session, error) {
	var events []*session.Event
	for e := range from.View().Events(0) {
		events = append(events, e)
	}
	if len(events) > 0 {
		if err := store.Append(ctx, 0, events); err != nil {
			return nil, err
		}
	}
	return session.Open(ctx, store, sessionOptions())
}
