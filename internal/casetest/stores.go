package casetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

// errDisk is the failure of a faulty store.
var errDisk = errors.New("no space left on device")

// faultyStore fails the writes that the faults of a case name.
type faultyStore struct {
	session.Store
	*faults
}

// faults are those of a case. What has failed stays so when the session is opened
// anew.
type faults struct {
	names []string

	mu      sync.Mutex
	failed  bool // the commit has failed once
	partial bool // a commit has begun and is not complete
}

// Append implements [session.Store].
func (f *faultyStore) Append(ctx context.Context, next session.Seq, events []*session.Event) error {
	if err := f.judge(events); err != nil {
		return err
	}
	return f.Store.Append(ctx, next, events)
}

func (f *faults) judge(events []*session.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	summary, replace, end := commitParts(events)
	if (summary || replace) && !f.failed && slices.Contains(f.names, "commit_write_error") {
		f.failed = true
		return fmt.Errorf("append: %w", errDisk)
	}
	if f.partial && slices.Contains(f.names, "second_write_of_commit_fails") {
		f.partial = false
		return fmt.Errorf("append: %w", errDisk)
	}
	f.partial = (summary || replace || end) && (!summary || !replace || !end)
	return nil
}

// commitParts reports which parts of a commit are among the events: the record
// of the summary, the checkpoint, and the end of an attempt that succeeded.
func commitParts(events []*session.Event) (summary, replace, end bool) {
	for _, e := range events {
		switch e.Type {
		case compact.TypeSummary:
			summary = true
		case session.TypeReplace:
			if m, err := e.Message(); err == nil && compact.IsCheckpointSource(m.Source) {
				replace = true
			}
		case compact.TypeEnd:
			p, err := compact.Decode(e)
			if v, ok := p.(compact.EndEvent); err == nil && ok && v.Code == "" {
				end = true
			}
		}
	}
	return summary, replace, end
}

// crashFS is a file system that knows what would be left after a crash: what
// was synced.
type crashFS struct {
	filestore.FS

	mu     sync.Mutex
	synced map[string][]byte
}

func newCrashFS() *crashFS { return &crashFS{FS: filestore.OS, synced: map[string][]byte{}} }

// OpenFile implements [filestore.FS].
func (c *crashFS) OpenFile(name string, flag int, perm fs.FileMode) (filestore.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &crashFile{f, c, name}, nil
}

type crashFile struct {
	filestore.File
	fs   *crashFS
	name string
}

// Sync implements [filestore.File].
func (f *crashFile) Sync() error {
	if err := f.File.Sync(); err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); err != nil && (!errors.Is(err, io.EOF) || n < len(data)) {
		return err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.synced[f.name] = data
	return nil
}

// left writes what a crash leaves of a file to another one.
func (c *crashFS) left(name, to string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return os.WriteFile(to, c.synced[name], 0o600)
}
