// Package opencode reads and writes sessions of opencode: the storage folder
// with session, message and part (version 2 of its layout, agent versions up to
// 1.3), and the one document that "opencode export" makes. The samples at hand
// are a small fixture; sessions in a SQLite file are not read.
//
// # Reading
//
// Each session of a folder is a conversation. Messages are in order of their
// time, parts in order of their names. A message of the model is split where a
// step starts; the results of a step's tools are the message behind it. Text
// that is ignored, snapshots, patches and the like are not conversation. A
// compaction is a user message with a compaction part and the reply with
// summary: true that answers it; the two are one message here, the checkpoint,
// and the messages from tail_start_id on stand behind it. An output that the
// agent pruned reads "[Old tool result content cleared]".
//
// # Writing
//
// A checkpoint at the beginning of the surface is written as that pair, with
// tail_start_id when the end of the conversation stays; a result or a text that
// changed is changed in its part, as the agent does when it prunes; what has no
// place is added as a new message. A checkpoint in the middle cannot be written.
// To take a compaction back, its pair and what was written anew behind it are
// taken away, as the agent takes messages away that were reverted; what it hid is
// still in its place. Nothing else is deleted, and files that do not change keep
// their bytes. Compaction ids and typed sources stand in a field "agentcompact" of
// the message or part. New messages have the agent, the mode and the path of the
// newest ones, as the agent wants them in every message.
//
// # Lost
//
// The system prompt and the tools are not there. Added messages report no usage
// and no cost, and their calls no title and no metadata.
package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/marks"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// Format is the name of the format, and the plugin name in the source of
// messages that the client wrote.
const Format = "opencode"

// The forms of such messages, in the source's Form.
const (
	// FormSynthetic: text that no person typed.
	FormSynthetic = "synthetic"
	// FormCleared: results that the agent pruned.
	FormCleared = "cleared"
)

// Codec is the codec of the format. The zero value is ready.
type Codec struct{}

var (
	_ wire.Codec     = Codec{}
	_ wire.TreeCodec = Codec{}
)

// Name implements [wire.Codec].
func (Codec) Name() string { return Format }

const expected = `the export of a session: {"info":…,"messages":[{"info":…,"parts":[…]}]}`

// Detect implements [wire.Codec].
func (Codec) Detect(head []byte, whole bool) wire.Confidence {
	doc := splice.At(head, splice.Begin(head))
	if whole && splice.Space(head, doc.End) < len(head) {
		return wire.No
	}
	top := splice.Top(head, doc)
	seen := wire.No
	if top["info"].Kind(head) == '{' {
		splice.Elements(head, top["messages"], func(e splice.Span) bool {
			m := splice.Top(head, e)
			if m["info"].Kind(head) == '{' && splice.Text(head, splice.Get(head, m["info"], "role")) != "" {
				seen = wire.Likely
				if m["parts"].Kind(head) == '[' {
					seen = wire.Certain
				}
			}
			return false
		})
	}
	return seen
}

// DetectTree implements [wire.TreeCodec].
func (Codec) DetectTree(dir fs.FS) wire.Confidence {
	n := 0
	for _, name := range []string{"session", "message", "part"} {
		if info, err := fs.Stat(dir, name); err == nil && info.IsDir() {
			n++
		}
	}
	switch n {
	case 3:
		return wire.Certain
	case 2:
		return wire.Maybe
	}
	return wire.No
}

// msg is a stored message.
type msg struct {
	path  string // of its file; empty in an export
	raw   json.RawMessage
	info  info
	parts []part
}

// ref is the id of the compaction whose summary the message is.
func (m *msg) ref() string { return cmp.Or(marks.Parse(m.info.Mark).ID, m.info.ID) }

type info struct {
	ID      string          `json:"id"`
	Session string          `json:"sessionID"`
	Role    string          `json:"role"`
	Parent  string          `json:"parentID"`
	Model   string          `json:"modelID"`
	Route   string          `json:"providerID"`
	Finish  string          `json:"finish"`
	Summary json.RawMessage `json:"summary"`
	Error   json.RawMessage `json:"error"`
	Time    struct {
		Created float64 `json:"created"`
	} `json:"time"`
	Ref struct {
		Model string `json:"modelID"`
		Route string `json:"providerID"`
	} `json:"model"`
	Tokens *struct {
		Input     int `json:"input"`
		Output    int `json:"output"`
		Reasoning int `json:"reasoning"`
		Cache     struct {
			Read  int `json:"read"`
			Write int `json:"write"`
		} `json:"cache"`
	} `json:"tokens"`
	Mark json.RawMessage `json:"agentcompact"`
}

func (i *info) time() time.Time {
	if i.Time.Created <= 0 || i.Time.Created > 1e14 {
		return time.Time{}
	}
	return time.UnixMilli(int64(i.Time.Created)).UTC()
}

// route is the provider and model of a message.
func (i *info) route() (provider, model string) {
	return cmp.Or(i.Route, i.Ref.Route), cmp.Or(i.Model, i.Ref.Model)
}

// file is one session.
type file struct {
	id, title string
	dir       string // that the agent works in
	msgs      []msg
	chat      chat
	// list are the messages of an export in its data.
	data []byte
	list splice.List
}

// sessionInfo is what is read of a session's own file.
type sessionInfo struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Dir   string `json:"directory"`
	Time  struct {
		Created float64 `json:"created"`
	} `json:"time"`
}

// Read implements [wire.Codec]; it reads an export.
func (Codec) Read(ctx context.Context, data []byte) (*wire.File, error) {
	doc, err := splice.Document(Format, data, expected)
	if err != nil {
		return nil, err
	}
	top := splice.Top(data, doc)
	list := top["messages"]
	if list.Kind(data) != '[' || top["info"].Kind(data) != '{' {
		return nil, &wire.Error{Format: Format, Offset: int64(doc.Start), Detail: "no session found; expected " + expected}
	}
	f := &file{data: data, list: splice.ListOf(data, list)}
	var si sessionInfo
	_ = splice.Lenient(json.Unmarshal(top["info"].Of(data), &si)) // what does not fit is empty
	f.id, f.title, f.dir = si.ID, si.Title, si.Dir
	for i, s := range f.list.Records {
		if i%512 == 0 && ctx.Err() != nil {
			return nil, &wire.Error{Format: Format, Detail: "reading was stopped", Err: context.Cause(ctx)}
		}
		m := splice.Top(data, s)
		stored := msg{raw: m["info"].Of(data)}
		if m["info"].Kind(data) != '{' || !splice.Lenient(json.Unmarshal(stored.raw, &stored.info)) {
			return nil, &wire.Error{Format: Format, Offset: int64(s.Start), Detail: fmt.Sprintf("messages[%d] has no info; expected %s", i, expected)}
		}
		splice.Elements(data, m["parts"], func(p splice.Span) bool {
			stored.parts = append(stored.parts, parsePart(p.Of(data), ""))
			return true
		})
		f.msgs = append(f.msgs, stored)
	}
	f.build()
	return &wire.File{Format: Format, Container: "opencode export", Conversations: []*wire.Conversation{f.chat.conv}, Writer: &exportWriter{f}}, nil
}

// ReadTree implements [wire.TreeCodec].
func (Codec) ReadTree(ctx context.Context, dir fs.FS) (*wire.Tree, error) {
	t := &wire.Tree{File: wire.File{Format: Format, Container: "opencode storage folder"}}
	w := &treeWriter{}
	var infos []sessionInfo
	err := eachJSON(dir, "session", func(_ string, data []byte) error {
		var si sessionInfo
		if splice.Lenient(json.Unmarshal(data, &si)) && safe(si.ID) {
			infos = append(infos, si)
		}
		return nil
	})
	if err != nil {
		return nil, &wire.Error{Format: Format, Detail: "the sessions cannot be listed; expected a folder with session, message and part", Err: err}
	}
	slices.SortStableFunc(infos, func(a, b sessionInfo) int {
		return cmp.Or(cmp.Compare(a.Time.Created, b.Time.Created), cmp.Compare(a.ID, b.ID))
	})
	for _, si := range infos {
		if ctx.Err() != nil {
			return nil, &wire.Error{Format: Format, Detail: "reading was stopped", Err: context.Cause(ctx)}
		}
		f := &file{id: si.ID, title: si.Title, dir: si.Dir}
		bad := 0
		err := eachJSON(dir, path.Join("message", si.ID), func(name string, data []byte) error {
			m := msg{path: name, raw: data}
			if !json.Valid(data) || rawjson.Kind(data) != '{' || !splice.Lenient(json.Unmarshal(data, &m.info)) || m.info.ID == "" {
				bad++
				return nil
			}
			if !safe(m.info.ID) {
				bad++
				return nil
			}
			err := eachJSON(dir, path.Join("part", m.info.ID), func(name string, data []byte) error {
				if !json.Valid(data) {
					bad++
					return nil
				}
				m.parts = append(m.parts, parsePart(data, name))
				return nil
			})
			f.msgs = append(f.msgs, m)
			return err
		})
		if err != nil {
			return nil, &wire.Error{Format: Format, Detail: "session " + si.ID + " cannot be read", Err: err}
		}
		if bad > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("session %s: %d files are no messages or parts and were passed over", si.ID, bad))
		}
		slices.SortStableFunc(f.msgs, func(a, b msg) int { return cmp.Compare(a.info.Time.Created, b.info.Time.Created) })
		f.build()
		t.Conversations = append(t.Conversations, f.chat.conv)
		w.files = append(w.files, f)
	}
	if len(w.files) == 0 {
		return nil, &wire.Error{Format: Format, Detail: "the folder holds no session; expected session/PROJECT/SESSION.json"}
	}
	t.Writer = w
	return t, nil
}

// safe reports whether an id can be a name in the folder.
func safe(id string) bool {
	return id != "" && id != "." && id != ".." && !strings.ContainsAny(id, `/\`)
}

// eachJSON calls fn for the JSON files below a folder in order of their paths.
// A folder that is not there has none.
func eachJSON(dir fs.FS, root string, fn func(name string, data []byte) error) error {
	if !fs.ValidPath(root) {
		return nil
	}
	return fs.WalkDir(dir, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if d.IsDir() || path.Ext(name) != ".json" {
			return nil
		}
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		return fn(name, data)
	})
}
