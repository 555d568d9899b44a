// Package testdata finds the test data of this module and checks that it is whole.
//
//	sessions, err := testdata.Sessions()
//	for _, s := range sessions {
//		data, err := os.ReadFile(s.File())
//		…
//	}
//
// The data are files beside this one and are not compiled in: sessions/ holds real agent sessions in the
// format of the agent that recorded them, with manifest.json to describe them and LICENSES.md to say
// where they come from. A session that is missing, changed or not listed is an error, and so is an empty
// list, so that a test over all sessions cannot pass by having found none.
//
// The package is for tests and for this checkout. It is skipped by ./... because of its name and must be
// named to be tested: go test ./testdata.
package testdata

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
)

// Session describes one recorded session: a row of sessions/manifest.json. The counts are those of the
// people who collected it, made without this module's readers.
type Session struct {
	// Path is relative to sessions/, with slashes. It names a folder if Files is not empty.
	Path string `json:"path"`
	// Format is one of anthropic-messages, claude-code, codex, gemini-contents, gemini-session,
	// langchain, openai-chat, openai-responses, opencode, pi and other.
	Format string `json:"format"`
	// Records counts lines of a JSONL file or elements of the message array.
	Records int `json:"records"`
	// Messages counts messages as the provider sees them: fragments of one response count once; for
	// Codex and Responses every message, call and output item counts.
	Messages int `json:"messages"`
	// Tokens is an estimate over text, thinking, arguments and results: ASCII characters a quarter,
	// others three quarters.
	Tokens int `json:"tokens"`
	// Calls and Results count over the whole file, side chains and abandoned branches included.
	Calls   int `json:"calls"`
	Results int `json:"results"`
	// License is an SPDX identifier; LICENSES.md holds the notices.
	License string `json:"license"`
	Source  Source `json:"source"`
	// Scrubbed is set if names, home directories, handles or addresses were replaced by placeholders.
	Scrubbed bool `json:"scrubbed"`
	// Features and Anomalies are for people. Anomalies are in the source, and there to be tested against.
	Features  []string `json:"features"`
	Anomalies []string `json:"anomalies"`
	// SHA256 is the hash of the file, in hex; for a folder, Files holds that of each file in it.
	SHA256 string            `json:"sha256,omitempty"`
	Files  map[string]string `json:"files,omitempty"`

	root string
}

// Source is where a session was taken from.
type Source struct {
	Key        string `json:"key"`
	Repository string `json:"repository"`
	Ref        string `json:"ref"`
	Commit     string `json:"commit"`
	Path       string `json:"path"`
}

// File is the place of the session on disk: an absolute path, to a folder if Files is not empty.
func (s Session) File() string { return filepath.Join(s.root, filepath.FromSlash(s.Path)) }

// Root is the absolute path of the folder testdata. If the source tree is not where it was compiled,
// which is so with -trimpath, it is looked for from the working directory upward; Root is empty if it is
// not there either.
func Root() string {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) && exists(file) {
		return filepath.Dir(file)
	}
	dir, err := os.Getwd()
	for err == nil {
		if root := filepath.Join(dir, "testdata"); exists(filepath.Join(root, "testdata.go")) {
			return root
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

var all = sync.OnceValues(func() ([]Session, error) {
	root := Root()
	if root == "" {
		return nil, errors.New("find testdata: the source tree of the module is not here")
	}
	return load(filepath.Join(root, "sessions"))
})

// Sessions returns every recorded session in order of its path. The files are read and hashed once a
// process. The slice is the caller's; what its elements point to is shared and must not be changed. Safe
// for concurrent use.
func Sessions() ([]Session, error) {
	s, err := all()
	return slices.Clone(s), err
}

// OfFormat returns the sessions of one format, and an error if there is none.
func OfFormat(format string) ([]Session, error) {
	s, err := Sessions()
	if err != nil {
		return nil, err
	}
	s = slices.DeleteFunc(s, func(s Session) bool { return s.Format != format })
	if len(s) == 0 {
		return nil, fmt.Errorf("find sessions: none of format %q", format)
	}
	return s, nil
}

// Find returns the session with a path of the manifest.
func Find(path string) (Session, error) {
	s, err := Sessions()
	if err != nil {
		return Session{}, err
	}
	if i := slices.IndexFunc(s, func(s Session) bool { return s.Path == path }); i >= 0 {
		return s[i], nil
	}
	return Session{}, fmt.Errorf("find session: no %q in the manifest", path)
}

// besides are the files of the folder that are no sessions.
var besides = []string{".gitattributes", "LICENSES.md", "manifest.json"}

// results are what the command writes beside a session: somebody tried it out here. Git ignores them.
var results = regexp.MustCompile(`\.compact(-\d+)?(\.[^./]+)?$|\.agentcompact\.jsonl$|/\.agentcompact-[^/]*$`)

// load reads the manifest in root and compares it with what is there. The error names every difference.
func load(root string) ([]Session, error) {
	data, err := os.ReadFile(filepath.Join(root, "manifest.json"))
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	var sessions []Session
	if err := json.Unmarshal(data, &sessions); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(root, "manifest.json"), err)
	}
	if len(sessions) == 0 {
		return nil, fmt.Errorf("read %s: no session listed", filepath.Join(root, "manifest.json"))
	}
	slices.SortFunc(sessions, func(a, b Session) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	})

	listed := map[string]string{} // hash by path
	for i := range sessions {
		s := &sessions[i]
		s.root = root
		if s.SHA256 != "" {
			listed[s.Path] = s.SHA256
		}
		for name, hash := range s.Files {
			listed[s.Path+"/"+name] = hash
		}
		if (s.SHA256 == "") == (len(s.Files) == 0) {
			return nil, fmt.Errorf("read sessions: %q needs either a hash or files", s.Path)
		}
	}

	var wrong []error
	err = fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || slices.Contains(besides, path) {
			return err
		}
		want, ok := listed[path]
		if !ok && results.MatchString(path) {
			return nil
		}
		if !ok {
			wrong = append(wrong, fmt.Errorf("session file %s is not in the manifest", path))
			return nil
		}
		delete(listed, path)
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
			wrong = append(wrong, fmt.Errorf("session file %s is not as recorded: its hash differs", path))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	for path := range listed {
		wrong = append(wrong, fmt.Errorf("session file %s is missing", path))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return sessions, nil
}
