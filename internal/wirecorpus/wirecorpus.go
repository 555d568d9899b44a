// Package wirecorpus sorts the recorded sessions of package testdata by the
// codec that has to claim them.
package wirecorpus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

// others are the codecs of the samples whose manifest format is "other", by the
// beginning of the file name.
var others = map[string]string{"deepseek-harness": "deepseek", "kimi-wire": "kimi", "qwen-": "qwen"}

// CodecOf names the codec of a session.
func CodecOf(s testdata.Session) string {
	if s.Format != "other" {
		return s.Format
	}
	for prefix, codec := range others {
		if strings.HasPrefix(filepath.Base(s.Path), prefix) {
			return codec
		}
	}
	return s.Format
}

type entry struct {
	codec string
	file  wiretest.File
}

var all = sync.OnceValues(func() ([]entry, error) {
	sessions, err := testdata.Sessions()
	if err != nil {
		return nil, err
	}
	var out []entry
	for _, s := range sessions {
		paths := map[string]string{s.Path: s.File()}
		if len(s.Files) > 0 {
			paths = map[string]string{}
			for name := range s.Files {
				paths[s.Path+"/"+name] = filepath.Join(s.File(), name)
			}
		}
		for name, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			out = append(out, entry{CodecOf(s), wiretest.File{Path: name, Data: data,
				Counts: wiretest.Counts{Messages: s.Messages, Calls: s.Calls, Results: s.Results}}})
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.file.Path, b.file.Path) })
	return out, nil
})

// Files returns the files that a codec has to claim, at least so many, and all
// others. The files of a folder are among others.
func Files(codec string, atLeast int) (own, others []wiretest.File, err error) {
	list, err := all()
	if err != nil {
		return nil, nil, err
	}
	for _, e := range list {
		if e.codec == codec {
			own = append(own, e.file)
		} else {
			others = append(others, e.file)
		}
	}
	if len(own) < atLeast {
		return nil, nil, fmt.Errorf("find transcripts of %s: %d, want %d or more", codec, len(own), atLeast)
	}
	return own, others, nil
}

// Differences reads a table of counts that differ from the collectors', by path.
func Differences(path string) (map[string]wiretest.Counts, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]wiretest.Counts{}
	return out, json.Unmarshal(data, &out)
}
