package session_test

import (
	"io/fs"
	"sync/atomic"

	"github.com/agentcompact/agentcompact/store/filestore"
)

// syncs counts the syncs of a file system.
type syncs struct {
	filestore.FS
	n atomic.Int64
}

type countFile struct {
	filestore.File
	n *atomic.Int64
}

func (f *syncs) OpenFile(name string, flag int, perm fs.FileMode) (filestore.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	return &countFile{file, &f.n}, err
}

func (f *countFile) Sync() error { f.n.Add(1); return f.File.Sync() }
