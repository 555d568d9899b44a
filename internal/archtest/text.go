package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The things looked for are put together here, so that this file does not hold them.
var (
	sharedPath = "../" + "shared"
	// workPath is an absolute path, not the tail of another path or of an address.
	workPath = regexp.MustCompile(`(^|[^\w.~\-/}])` + "/" + `work/`)
	conflict = []string{strings.Repeat("<", 7) + " ", strings.Repeat(">", 7) + " "}
)

// Unfit returns one line for each place in a text file that must not be committed: a path that exists on
// one machine only, or the marker of a merge conflict.
func Unfit(name string, data []byte) []string {
	if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
		return nil // not text
	}
	var wrong []string
	for i, line := range strings.Split(string(data), "\n") {
		at := func(what string) { wrong = append(wrong, fmt.Sprintf("%s:%d: %s", name, i+1, what)) }
		if strings.Contains(line, sharedPath) {
			at("a path into a folder outside of the repository")
		}
		if workPath.MatchString(line) {
			at("an absolute path of one machine")
		}
		if slices.ContainsFunc(conflict, func(mark string) bool { return strings.HasPrefix(line, mark) }) {
			at("the marker of a merge conflict")
		}
	}
	return wrong
}

// recorded reports whether a file is data from elsewhere, which may quote any path.
func recorded(name string) bool {
	inData := strings.HasPrefix(name, "testdata/") || strings.Contains(name, "/testdata/")
	if !inData || strings.HasPrefix(name, "testdata/sessions/") {
		return inData
	}
	return !slices.Contains([]string{".go", ".md"}, filepath.Ext(name))
}

// Files lists the files below root that are committed or could be: what Git tracks and does not ignore,
// or where there is no repository, as in a release archive, every file.
func Files(root string) ([]string, error) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	if out, err := list.Output(); err == nil {
		files := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
		slices.Sort(files)
		return slices.Compact(files), nil
	}
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files = append(files, filepath.ToSlash(rel))
		return err
	})
	return files, err
}

// UnfitFiles is [Unfit] over files below root. Data from elsewhere is left out.
func UnfitFiles(root string, files []string) ([]string, error) {
	var wrong []string
	for _, name := range files {
		if recorded(name) {
			continue
		}
		info, err := os.Lstat(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue // deleted but still tracked, or a link
		}
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, Unfit(name, data)...)
	}
	return wrong, nil
}
