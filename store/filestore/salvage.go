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
	// Damaged tells bytes that had been synced from a write that was cut short,
	// or is going on.
	Damaged bool
}

// Check says what [Salvage] would copy. It writes nothing.
func Check(src string) (Salvaged, error) {
	in, err := OS.OpenFile(src, os.O_RDONLY, 0)
	if err != nil {
		return Salvaged{}, err
	}
	defer in.Close()
	return check(src, in)
}

func check(src string, in File) (Salvaged, error) {
	size, err := in.Size()
	if err != nil {
		return Salvaged{}, err
	}
	end, t, err := walk(src, in, place{}, size, nil, nil)
	if err != nil {
		return Salvaged{}, err
	}
	out := Salvaged{Events: end.next, Bytes: end.off, Left: size - end.off, Reason: t.reason}
	if t.reason != "" {
		var damage *DamageError
		if err := judge(src, in, end, t, size); errors.As(err, &damage) {
			out.Damaged = true
		} else if err != nil {
			return out, err
		}
	}
	return out, nil
}

// Salvage copies the sound head of the session file src, all whole appends
// before the first bad line, into the new file dst, which must not exist. It
// does not touch src, and dst is durable when it returns.
func Salvage(src, dst string) (Salvaged, error) {
	in, err := OS.OpenFile(src, os.O_RDONLY, 0)
	if err != nil {
		return Salvaged{}, err
	}
	defer in.Close()
	out, err := check(src, in)
	if err != nil {
		return out, err
	}
	to, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Salvaged{}, err
	}
	_, err = io.Copy(to, io.NewSectionReader(in, 0, out.Bytes))
	if err = errors.Join(err, to.Sync(), to.Close(), OS.SyncDir(filepath.Dir(dst))); err != nil {
		return out, fmt.Errorf("salvage %s: %w", src, errors.Join(err, os.Remove(dst)))
	}
	return out, nil
}
