package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

// placing gives finished files their names and takes that back when one fails.
type placing struct{ undoers []func() }

func (p *placing) undo() {
	for i := len(p.undoers) - 1; i >= 0; i-- {
		p.undoers[i]()
	}
}

// link gives a file a second name, and never over another file. Where a file
// system has no links it makes a copy.
func (p *placing) link(from, name string) error {
	err := os.Link(from, name)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = copyFile(from, name)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s appeared meanwhile: choose another name with -o", name)
	}
	if err != nil {
		return fileError(name, err)
	}
	p.undoers = append(p.undoers, func() { _ = os.Remove(name) })
	return nil
}

// rename moves a file over another one that may be there; kept is a second name
// of that one.
func (p *placing) rename(from, name, kept string) error {
	if err := os.Rename(from, name); err != nil {
		return fileError(name, err)
	}
	p.undoers = append(p.undoers, func() {
		if free(kept) {
			_ = os.Remove(name)
			return
		}
		// Renaming a file to its own second name does nothing, so this needs a
		// third one.
		tmp := name + ".undo"
		if os.Link(kept, tmp) == nil {
			_ = os.Rename(tmp, name)
		}
	})
	return nil
}

// backup keeps a file under the next free backup name.
func (p *placing) backup(path string) (string, error) {
	for i := 1; i < 10_000; i++ {
		name := path + ".bak"
		if i > 1 {
			name = fmt.Sprintf("%s.bak-%d", path, i)
		}
		if free(name) && len(sidecars(name)) == 0 {
			return name, p.link(path, name)
		}
	}
	return "", fmt.Errorf("no free backup name beside %s: move some of them away", path)
}

// copyFile copies a file to a new name.
func copyFile(from, name string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(name)
	}
	return err
}

// writeTemp writes a synced temporary file in the folder of path.
func writeTemp(path string, data []byte, perm fs.FileMode) (string, error) {
	return fillTemp(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// fillTemp is writeTemp for what fill writes.
func fillTemp(path string, perm fs.FileMode, fill func(io.Writer) error) (string, error) {
	f, err := createTemp(path)
	if err != nil {
		return "", fileError(filepath.Dir(path), err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	err = fill(w)
	if err == nil {
		err = w.Flush()
	}
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

// syncDir makes new names in the folder of path durable, as far as the file
// system does that.
func syncDir(path string) {
	if d, err := os.Open(filepath.Dir(path)); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// ownCopy is a session of our own format that is compacted in a copy.
type ownCopy struct{ tmp, path string }

// copyOwn copies a session of our own format to a temporary file beside path
// and goes on there.
func (in *input) copyOwn(ctx context.Context, path string) (*ownCopy, error) {
	f, err := createTemp(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	c := &ownCopy{tmp: f.Name(), path: path}
	_ = f.Close()
	store, err := filestore.Open(c.tmp, nil)
	if err == nil {
		var s *session.Session
		if s, err = copySession(ctx, in.session, store); err == nil {
			err = os.Chmod(c.tmp, in.info.Mode().Perm())
		}
		if err == nil {
			in.likeInput(c.tmp, path)
			_ = in.session.Close()
			in.session = s
			return c, nil
		}
		_ = store.Close()
	}
	c.drop()
	return nil, fileError(path, err)
}

func (c *ownCopy) drop() { _ = os.Remove(c.tmp) }

// place gives the copy its name.
func (c *ownCopy) place() error {
	p := &placing{}
	if err := p.link(c.tmp, c.path); err != nil {
		return err
	}
	syncDir(c.path)
	return nil
}

// copyBatch is how many events, and copyBytes about how many bytes of messages,
// are written at once.
const (
	copyBatch = 512
	copyBytes = 4 << 20
)

// copySession copies the whole log into an empty store.
func copySession(ctx context.Context, from *session.Session, store session.Store) (*session.Session, error) {
	// In pieces, so that the encoded log is never in memory as a whole.
	var batch []*session.Event
	var held []*session.Message // of the batch, so that each is read once
	size := 0
	next := session.Seq(0)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := store.Append(ctx, next, batch)
		next += session.Seq(len(batch))
		batch, held, size = batch[:0:0], nil, 0
		return err
	}
	for e := range from.View().Events(0) {
		if m, err := e.Message(); err == nil { // an event without a message is small
			held = append(held, m)
			size += m.Size()
		}
		if batch = append(batch, e); len(batch) == copyBatch || size >= copyBytes {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return session.Open(ctx, store, sessionOptions())
}
