package sessiontest_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/session/sessiontest"
	"github.com/agentcompact/agentcompact/store/filestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func memory(*testing.T) func() session.Store {
	s := session.NewMemoryStore()
	return func() session.Store { return s }
}

func file(opts *filestore.Options) func(t *testing.T) func() session.Store {
	return func(t *testing.T) func() session.Store {
		path := filepath.Join(t.TempDir(), "session.jsonl")
		return func() session.Store {
			s, err := filestore.Open(path, opts)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
}

func faulty(fresh func(t *testing.T) func() session.Store) func(t *testing.T) func() session.Store {
	return func(t *testing.T) func() session.Store {
		open := fresh(t)
		return func() session.Store { return sessiontest.NewFaulty(open()) }
	}
}

func TestStores(t *testing.T) {
	for name, fresh := range map[string]func(*testing.T) func() session.Store{
		"memory":        memory,
		"file":          file(nil),
		"file no sync":  file(&filestore.Options{SyncEvery: filestore.Never}),
		"file batch":    file(&filestore.Options{SyncEvery: 1e6}),
		"faulty memory": faulty(memory),
		"faulty file":   faulty(file(nil)),
	} {
		t.Run(name, func(t *testing.T) { sessiontest.TestStore(t, fresh) })
	}
}
