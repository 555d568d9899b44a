package casetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

// entry is one message of the surface: leading system messages, then what is
// visible.
type entry struct {
	message    *session.Message
	bytes      []byte // its stored form, to compare
	checkpoint bool
}

func newEntry(m *session.Message) entry {
	b, err := m.MarshalJSON()
	if err != nil {
		b = []byte("cannot be encoded: " + err.Error())
	}
	return entry{message: m, bytes: b, checkpoint: compact.IsCheckpointSource(m.Source)}
}

// surface is the messages that the model is to see now.
func (w *world) surface() []entry { return surfaceOf(w.sess.View()) }

func surfaceOf(v session.View) []entry {
	out := []entry{}
	if e, _ := v.Envelope(); e != nil {
		for i := range e.System {
			out = append(out, newEntry(&e.System[i]))
		}
	}
	for i := range v.Len() {
		m, err := v.Message(i)
		if err != nil {
			m = &session.Message{Parts: []session.Part{session.Text{Text: "cannot be read: " + err.Error()}}}
		}
		out = append(out, newEntry(m))
	}
	return out
}

// differ says in which way two surfaces differ; "" when they are the same.
func differ(want, got []entry) string {
	for i := range min(len(want), len(got)) {
		if !bytes.Equal(want[i].bytes, got[i].bytes) {
			return fmt.Sprintf("entry %d is %s, was %s", i, got[i].short(), want[i].short())
		}
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%d entries, were %d", len(got), len(want))
	}
	return ""
}

func (e entry) short() string {
	return fmt.Sprintf("%s %q", e.message.Role, clip(strings.Join(partTexts(e.message.Parts), " "), 80))
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// partTexts is everything that counts as text of a message.
func partTexts(parts []session.Part) []string {
	var out []string
	for _, p := range parts {
		switch p := p.(type) {
		case session.Text:
			out = append(out, p.Text)
		case session.Reasoning:
			out = append(out, p.Text, p.Encrypted)
		case session.ToolCall:
			out = append(out, p.Name, p.Arguments)
		case session.ToolResult:
			out = append(out, partTexts(p.Parts)...)
		}
	}
	return out
}

func surfaceText(list []entry) string {
	var out []string
	for _, e := range list {
		out = append(out, partTexts(e.message.Parts)...)
	}
	return strings.Join(out, "\n")
}

// request is a request that was built in the case.
type request struct {
	*chatRequest
	modelCall bool
	byOp      bool // by the op request
	final     bool
}

// build builds the request of the surface.
func (w *world) build(modelCall bool) (*chatRequest, error) {
	r, err := w.buildWithin(modelCall, w.maxBytes)
	if err != nil {
		return nil, err
	}
	return parseRequest(r.Body())
}

func (w *world) buildWithin(modelCall bool, maxBytes int) (*openaichat.Request, error) {
	return openaichat.BuildRequest(w.sess.View(), &openaichat.RequestOptions{
		ModelCall: modelCall, StrictAlternation: w.c.Given.StrictAlternation, MaxBytes: maxBytes,
	})
}

// final builds the final request, unless the last op was a request.
func (w *world) final() error {
	if w.sess == nil {
		return errors.New("no session is open")
	}
	if last := w.c.ops[len(w.c.ops)-1]; last.name == "request" {
		if n := len(w.seen.requests); n > 0 {
			w.seen.requests[n-1].final = true
		}
		return nil
	}
	if err := w.tellCalls(); err != nil {
		return err
	}
	r, err := w.build(false)
	if err != nil {
		return err
	}
	w.seen.requests = append(w.seen.requests, request{chatRequest: r, final: true})
	return nil
}

// stored is the surface as a reader of the stored log sees it.
func (w *world) stored() ([]entry, error) {
	path, err := w.copyLog()
	if err != nil {
		return nil, err
	}
	store, err := filestore.Open(path, &filestore.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	s, err := session.Open(context.WithoutCancel(w.real), store, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return surfaceOf(s.View()), nil
}

// historyEntry is one entry of the full history.
type historyEntry struct {
	text       string
	compaction bool
}

// history is everything that was ever said, and the compactions.
func (w *world) history() ([]historyEntry, error) {
	out := []historyEntry{}
	v := w.sess.View()
	if e, _ := v.Envelope(); e != nil {
		for i := range e.System {
			out = append(out, historyEntry{text: strings.Join(partTexts(e.System[i].Parts), "\n")})
		}
	}
	for e := range v.Events(0) {
		if e.Type != session.TypeMessage && e.Type != session.TypeReplace {
			continue
		}
		m, err := e.Message()
		if err != nil {
			return nil, err
		}
		if m.Source.Form == compact.FormPruned {
			continue // the result stands in full where it was appended
		}
		out = append(out, historyEntry{strings.Join(partTexts(m.Parts), "\n"), compact.IsCheckpointSource(m.Source)})
	}
	return out, nil
}

// checkpoints are the summaries on the surface.
func checkpoints(list []entry) []entry {
	return slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return !e.checkpoint })
}
