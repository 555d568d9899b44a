package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/wire"
)

// The log beside a compacted transcript is a session of our own format with all
// that the transcript hides. Formats without a place for a typed source need it
// to tell a checkpoint from a text that a user wrote: the log's surface is
// compared with the transcript message by message, by content hash.

// typeSource is the event that names the transcript; it comes last in the log.
const typeSource session.Type = "transcript/source"

type sourceEvent struct {
	Format       string `json:"format"`
	Conversation int    `json:"conversation"`
	// SHA256 is that of the transcript when it was written.
	SHA256 string `json:"sha256"`
	// Hashes are the content hashes of the surface, in order.
	Hashes []string `json:"hashes"`
}

const sidecarExt = ".agentcompact.jsonl"

// sidecarPath is the name of the log of one conversation, from 0, of the
// transcript at path.
func sidecarPath(path string, conversation int) string {
	if conversation > 0 {
		path += "." + strconv.Itoa(conversation+1)
	}
	return path + sidecarExt
}

// sidecars lists the logs that stand beside a transcript, by conversation.
func sidecars(path string) map[int]string {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	list, _ := os.ReadDir(dir) // what cannot be listed cannot be opened either
	found := make(map[int]string)
	for _, e := range list {
		rest, ours := strings.CutPrefix(e.Name(), base)
		mid, ok := strings.CutSuffix(rest, sidecarExt)
		if !ours || !ok {
			continue
		}
		n := 1
		if mid != "" {
			var err error
			if n, err = strconv.Atoi(strings.TrimPrefix(mid, ".")); err != nil || n < 2 || mid[0] != '.' {
				continue
			}
		}
		found[n-1] = filepath.Join(dir, e.Name())
	}
	return found
}

// writeSidecar writes the session's log to a temporary file. sum is the SHA-256 of
// the transcript.
func (in *input) writeSidecar(ctx context.Context, path string, sum []byte) (string, error) {
	f, err := createTemp(path)
	if err != nil {
		return "", fileError(filepath.Dir(path), err)
	}
	tmp := f.Name()
	err = f.Close()
	if err == nil {
		err = in.fillSidecar(ctx, tmp, sum)
	}
	if err == nil {
		err = os.Chmod(tmp, in.sideMode())
	}
	if err != nil {
		_ = os.Remove(tmp)
		return "", fileError(path, err)
	}
	in.likeInput(tmp, path)
	return tmp, nil
}

func (in *input) fillSidecar(ctx context.Context, tmp string, sum []byte) error {
	store, err := filestore.Open(tmp, nil)
	if err != nil {
		return err
	}
	s, err := copySession(ctx, in.session, store)
	if err != nil {
		_ = store.Close()
		return err
	}
	defer s.Close()
	src := sourceEvent{Format: in.format(), Conversation: in.index + 1, SHA256: hex.EncodeToString(sum)}
	v := s.View()
	for i := range v.Len() {
		m, err := v.Message(i)
		if err != nil {
			return err
		}
		src.Hashes = append(src.Hashes, contentHash(m))
	}
	data, err := json.Marshal(src)
	if err != nil {
		return err
	}
	_, err = s.Record(ctx, session.Raw{Type: typeSource, Data: data, Ignorable: true})
	return err
}

// contentHash identifies a message by what a model sees of it.
func contentHash(m *session.Message) string {
	c := session.Message{Role: m.Role, Name: m.Name, Parts: plainParts(m.Parts)}
	b, _ := c.MarshalJSON()
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// plainParts leaves out what the same content may have in one reading and not
// in another: the provider's own forms.
func plainParts(parts []session.Part) []session.Part {
	out := make([]session.Part, 0, len(parts))
	for _, p := range parts {
		switch p := p.(type) {
		case session.Image:
			p.Raw = nil
			out = append(out, p)
		case session.File:
			p.Raw = nil
			out = append(out, p)
		case session.Reasoning:
		case session.ToolCall:
			p.Raw = nil
			out = append(out, p)
		case session.ToolResult:
			// Formats without a mark for errors read it out of the text.
			p.Name, p.IsError, p.Parts = "", false, plainParts(p.Parts)
			out = append(out, p)
		default:
			out = append(out, p)
		}
	}
	return out
}

// openSidecar continues the session of the log beside the file, if the file
// starts with that log's surface; entries behind it are appended. Otherwise the
// file alone counts, and a note says so.
func (in *input) openSidecar(ctx context.Context, file io.Closer) (bool, error) {
	path := sidecarPath(in.path, in.index)
	if free(path) {
		real, err := filepath.EvalSymlinks(in.path)
		if path = sidecarPath(real, in.index); err != nil || free(path) {
			return false, nil
		}
	}
	note := func(format string, args ...any) (bool, error) {
		in.notes = append(in.notes, fmt.Sprintf("the log %s is not used: %s", path, fmt.Sprintf(format, args...)))
		return false, nil
	}
	store, err := filestore.Open(path, &filestore.Options{ReadOnly: true})
	if err != nil {
		return note("%v", err)
	}
	used := false
	defer func() {
		if !used {
			_ = store.Close()
		}
	}()
	s, err := session.Open(ctx, closing{newOverlay(store), file}, sessionOptions())
	if err != nil {
		return note("%v", err)
	}
	v := s.View()
	src, ok := lastSource(v)
	switch {
	case !ok:
		return note("it names no transcript")
	case src.Conversation != in.index+1:
		return note("it belongs to conversation %d", src.Conversation)
	case src.Format != in.format():
		return note("it belongs to a transcript of format %s", src.Format)
	}
	at, ok := in.match(v)
	if !ok {
		return note("the transcript is not the one that it was written for")
	}
	old := v.Len()
	rest := new(wire.Conversation)
	rest.Leave(in.conv.Len()-old, func(i int) (wire.Entry, error) {
		e, err := in.conv.At(old + i)
		e.Usage = nil // see open
		return e, err
	})
	seqs, err := wire.Import(ctx, s, rest)
	if err != nil {
		return note("%v", err)
	}
	in.session, in.entries, in.restored, used = s, entriesAt(append(at, seqs...)), true, true
	return true, in.report(old)
}

func lastSource(v session.View) (sourceEvent, bool) {
	for e := range v.Backward() {
		if e.Type != typeSource {
			continue
		}
		body, err := e.Body()
		if err != nil {
			return sourceEvent{}, false
		}
		var src sourceEvent
		raw, ok := body.(*session.Raw)
		if !ok || json.Unmarshal(raw.Data, &src) != nil {
			return sourceEvent{}, false
		}
		return src, true
	}
	return sourceEvent{}, false
}

// match compares the surface with the entries one by one. It returns the seq of
// each.
func (in *input) match(v session.View) ([]session.Seq, bool) {
	if v.Len() > in.conv.Len() {
		return nil, false
	}
	var at []session.Seq
	for i := range v.Len() {
		m, err := v.Message(i)
		if err != nil {
			return nil, false
		}
		e, err := in.conv.At(i)
		if err != nil || contentHash(m) != contentHash(&e.Message) {
			return nil, false
		}
		at = append(at, v.Node(i).Seq)
	}
	return at, true
}
