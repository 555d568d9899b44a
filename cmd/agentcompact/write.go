package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/wire"
)

// outPath decides where the result goes: the asked file, or the next free name
// beside the input. It is asked before anything is summarized, so that no model
// is paid for a result that has no place.
func (in *input) outPath(asked string) (string, error) {
	if in.tree != nil {
		return in.outTree(asked)
	}
	if asked == "" {
		return in.nextFree()
	}
	if asked == "-" {
		return "", usage("-o -: the result needs a file, because a log goes beside it")
	}
	if info, err := os.Stat(asked); err == nil {
		switch {
		case info.IsDir():
			return "", usage("-o %s is a directory: name a file", asked)
		case os.SameFile(info, in.info) && sameName(asked, in.path):
			return in.path, nil
		case os.SameFile(info, in.info):
			return "", fmt.Errorf("%s is another name of %s (a hard link), and only the name that was read is replaced: name %s with -o, or a new file", asked, in.path, in.path)
		}
	}
	if !free(asked) {
		return "", fmt.Errorf("%s exists already: choose another name, or the input itself to replace it", asked)
	}
	for _, side := range sidecars(asked) {
		return "", fmt.Errorf("%s is in the way, the log of a transcript that is gone: choose another name, or move it away", side)
	}
	return asked, writable(asked)
}

// sameName reports whether two names of one file, links followed, are one entry
// of one folder.
func sameName(a, b string) bool {
	a, err1 := filepath.EvalSymlinks(a)
	b, err2 := filepath.EvalSymlinks(b)
	if errors.Join(err1, err2) != nil || filepath.Base(a) != filepath.Base(b) {
		return false
	}
	return sameFile(filepath.Dir(a), filepath.Dir(b))
}

func (in *input) nextFree() (string, error) {
	dir, base := filepath.Split(in.path)
	ext := filepath.Ext(base)
	stem := strings.TrimSuffix(base, ext)
	for i := 1; i < 10_000; i++ {
		mark := cmp.Or(in.mark, ".compact")
		if i > 1 {
			mark += fmt.Sprintf("-%d", i)
		}
		p := filepath.Join(dir, stem+mark+ext)
		if free(p) && len(sidecars(p)) == 0 {
			return p, writable(p)
		}
	}
	return "", fmt.Errorf("no free name beside %s: use -o", in.path)
}

func free(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// writable reports, as an error for people, that no file can be made in the
// folder of path.
func writable(path string) error {
	dir := filepath.Dir(path)
	f, err := createTemp(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the folder %s does not exist: make it, or name another place with -o", dir)
		}
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%s: no permission to write into the folder %s: name another place with -o", path, dir)
		}
		return fileError(path, err)
	}
	_ = f.Close()
	sweep(path, time.Now())
	return os.Remove(f.Name())
}

// write puts the compacted transcript and the log beside it in place. The log
// comes first: what a checkpoint hides is never only in memory. What fails is
// taken back.
func (in *input) write(ctx context.Context, path string, out *compacted) error {
	items, err := in.items()
	if err != nil {
		return err
	}
	if in.tree != nil {
		return in.writeTree(ctx, path, items, out)
	}
	replace := path == in.path
	grown, err := in.changed()
	if err != nil {
		return err
	}
	switch {
	case grown && replace:
		if path, err = in.outPath(""); err != nil {
			return err
		}
		replace = false
		out.Notes = append(out.Notes, in.path+" was written to meanwhile and is left as it is, so that nothing of it is lost; the result stands beside it and has what the file held before")
	case grown:
		out.Notes = append(out.Notes, in.path+" was written to meanwhile; the result has what the file held before")
	}
	if replace {
		if path, err = filepath.EvalSymlinks(path); err != nil { // the link stays
			return fileError(in.path, err)
		}
	}
	side := sidecarPath(path, in.index)
	sum := sha256.New()
	tmp, err := fillTemp(path, in.info.Mode().Perm(), func(w io.Writer) error {
		if err := in.file.Writer.Write(ctx, io.MultiWriter(w, sum), in.index, items); err != nil {
			return fmt.Errorf("write %s: %w", in.file.Format, err)
		}
		return nil
	})
	if errors.Is(err, wire.ErrChanged) {
		return fileError(in.path, err)
	}
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	in.likeInput(tmp, path)
	tmpSide, err := in.writeSidecar(ctx, side, sum.Sum(nil))
	if err != nil {
		return err
	}
	defer os.Remove(tmpSide)
	p := &placing{}
	if replace {
		err = in.replace(p, path, side, tmp, tmpSide, out)
	} else {
		err = in.place(p, path, side, tmp, tmpSide)
	}
	if err != nil {
		p.undo()
		return err
	}
	syncDir(path)
	out.Out, out.Sidecar = path, side
	return nil
}

// place gives the result its new name, with the logs of the file's other
// conversations.
func (in *input) place(p *placing, path, side, tmp, tmpSide string) error {
	if err := in.placeLogs(p, path); err != nil {
		return err
	}
	if err := p.link(tmpSide, side); err != nil {
		return err
	}
	return p.link(tmp, path)
}

// placeLogs copies the logs of the file's other conversations.
func (in *input) placeLogs(p *placing, path string) error {
	for n, from := range sidecars(in.path) {
		if n == in.index {
			continue
		}
		copied, err := fillTemp(sidecarPath(path, n), in.sideMode(), func(w io.Writer) error { return readInto(w, from) })
		if err != nil {
			return err
		}
		defer os.Remove(copied)
		in.likeInput(copied, path)
		if err := p.link(copied, sidecarPath(path, n)); err != nil {
			return err
		}
	}
	return nil
}

// readInto writes the content of a file to w.
func readInto(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fileError(path, err)
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// replace puts the result in the place of the input. The input as it was stays
// under a backup name, with its log: as the same file, so that what another
// process still writes into it is in the backup.
func (in *input) replace(p *placing, path, side, tmp, tmpSide string, out *compacted) error {
	kept, err := p.backup(path)
	if err != nil {
		return err
	}
	for n, from := range sidecars(path) {
		if err := p.link(from, sidecarPath(kept, n)); err != nil {
			return err
		}
	}
	if err := p.rename(tmpSide, side, sidecarPath(kept, in.index)); err != nil {
		return err
	}
	if grown, err := in.changed(); err != nil {
		return err
	} else if grown {
		return fmt.Errorf("%s was written to at the last moment: nothing was replaced; run it again", in.path)
	}
	if err := p.rename(tmp, path, kept); err != nil {
		return err
	}
	out.Backup = kept
	if now, err := os.Stat(kept); err == nil && now.Size() != in.info.Size() {
		out.Notes = append(out.Notes, "another process wrote to the file while it was replaced; what it added is in "+kept)
	}
	return nil
}
