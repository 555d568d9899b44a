package filestore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/agentcompact/agentcompact/session"
)

// Salvaged says what [Salvage] copied.
type Salvaged struct {
	// Events is the number of events in the new file, Bytes its length.
	Events session.Seq
	Bytes  int64
	// Left is the number of bytes that were left behind, and Reason why; it is
	// empty when the file was sound.
	Left   int64
	Reason string
}

// Salvage copies the sound head of the session file src, all whole appends
// before the first bad line, into the new file dst, which must not exist. It
// does not touch src, and dst is durable when it returns.
func Salvage(src, dst string) (Salvaged, error) {
	var out Salvaged
	in, err := OS.OpenFile(src, os.O_RDONLY, 0)
	if err != nil {
		return out, err
	}
	defer in.Close()
	size, err := in.Size()
	if err != nil {
		return out, err
	}
	end, t, err := walk(src, in, place{}, size, nil, nil)
	if err != nil {
		return out, err
	}
	to, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return out, err
	}
	_, err = io.Copy(to, io.NewSectionReader(in, 0, end.off))
	if err = errors.Join(err, to.Sync(), to.Close(), OS.SyncDir(filepath.Dir(dst))); err != nil {
		return out, fmt.Errorf("salvage %s: %w", src, errors.Join(err, os.Remove(dst)))
	}
	return Salvaged{Events: end.next, Bytes: end.off, Left: size - end.off, Reason: t.reason}, nil
}
