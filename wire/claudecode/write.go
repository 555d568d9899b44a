package claudecode

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/anthropic"
	"github.com/agentcompact/agentcompact/wire/internal/rawjson"
)

type writer struct{ f *file }

// Write implements [wire.Writer].
func (w *writer) Write(ctx context.Context, out io.Writer, conversation int, items []wire.Item) error {
	if conversation < 0 || conversation >= len(w.f.chats) {
		return &wire.Error{Format: Format, Detail: fmt.Sprintf("there is no conversation %d; the file has %d", conversation, len(w.f.chats))}
	}
	var tail []byte
	if c := w.f.chats[conversation]; items != nil && !c.unchanged(items) {
		a := &appender{chat: c}
		if err := a.write(ctx, items); err != nil {
			return err
		}
		ends, err := w.f.text.EndsLine()
		if err != nil {
			return err
		}
		if tail = a.buf.Bytes(); !ends {
			tail = append([]byte("\n"), tail...)
		}
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := w.f.text.Copy(ctx, out); err != nil {
		return &wire.Error{Format: Format, Detail: "the session could not be written", Err: err}
	}
	if _, err := out.Write(tail); err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	return nil
}

// unchanged reports whether the items are the conversation as it was read.
func (c *chat) unchanged(items []wire.Item) bool {
	if len(items) != len(c.entries) {
		return false
	}
	for i, it := range items {
		if it.Entry != i || it.Message != nil {
			return false
		}
	}
	return true
}

// appender makes the records that are appended to the file.
type appender struct {
	chat   *chat
	buf    bytes.Buffer
	seed   string
	n      int
	time   string
	prev   string            // uuid of the record before
	header rawjson.Object    // what every record has
	calls  map[string]string // call id: uuid of the copied record that makes it
	err    error             // why the file could not be read again
}

// entry reads a live message again.
func (a *appender) entry(i int) *session.Message {
	e, err := a.chat.entry(i)
	if err != nil && a.err == nil {
		a.err = err
	}
	return &e.Message
}

// object reads a record again.
func (a *appender) object(r *record) rawjson.Object {
	o, err := a.chat.file.object(r)
	if err != nil && a.err == nil {
		a.err = err
	}
	return o
}

// check refuses items that the format cannot hold.
func (a *appender) check(items []wire.Item) error {
	if len(items) == 0 {
		return &wire.Error{Format: Format, Detail: "a conversation without messages cannot be written; leave at least a checkpoint"}
	}
	for i, it := range items {
		switch {
		case it.Entry >= len(a.chat.entries) || it.Entry < 0 && it.Message == nil:
			return &wire.Error{Format: Format, Detail: fmt.Sprintf("item %d names no entry of the conversation and has no message", i)}
		case it.Message == nil:
		case it.Message.Validate() != nil:
			return &wire.Error{Format: Format, Detail: fmt.Sprintf("item %d cannot be written", i), Err: it.Message.Validate()}
		case it.Message.Role == session.RoleDeveloper || it.Message.Role == session.RoleSystem:
			return &wire.Error{Format: Format, Detail: fmt.Sprintf("item %d is a %s message, which the format does not have; make it a user message", i, it.Message.Role)}
		}
	}
	return nil
}

// write appends the surface: what changed as new records behind a boundary, the
// unchanged end of the conversation by name, and what is new behind it.
func (a *appender) write(ctx context.Context, items []wire.Item) error {
	if err := a.check(items); err != nil {
		return err
	}
	c := a.chat
	var comp *wire.Compaction
	for i := range items {
		if items[i].Compaction != nil {
			comp = items[i].Compaction
		}
	}
	if err := a.start(ctx, comp); err != nil {
		return err
	}

	end := len(items)
	for end > 0 && items[end-1].Entry < 0 && items[end-1].Compaction == nil {
		end--
	}
	from, run := a.run(items[:end])
	if len(run) > 0 && from > 0 && !a.knowsNames() {
		from, run = end, nil // all of it is copied
	}
	// Without a boundary only what is new at the end can be said.
	if a.prev = ""; from > 0 || len(c.entries) > 0 && (len(run) == 0 || items[from].Entry > 0) {
		a.compacted(items[:from], run, comp)
	} else if last := c.leaf(len(c.recs)); last >= 0 {
		a.prev = c.uuid(last)
	}
	if len(run) > 0 {
		a.prev = c.uuid(run[len(run)-1])
	}
	for i := end; i < len(items); i++ {
		a.item(items[i])
	}
	return a.err
}

// start sets what all records have in common.
func (a *appender) start(ctx context.Context, comp *wire.Compaction) error {
	c := a.chat
	a.calls = map[string]string{}
	last := c.leaf(len(c.recs))
	for i := last; i >= 0; i-- {
		o := a.object(c.recs[i])
		if o.Get("sessionId") == nil {
			continue
		}
		for _, name := range []string{"userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug", "agentId"} {
			if v := o.Get(name); v != nil {
				a.header.Set(name, v)
			}
		}
		break
	}
	at := time.Time{}
	if last >= 0 {
		l, _, err := c.file.load(c.recs[last])
		if err != nil {
			return err
		}
		at, _ = time.Parse(time.RFC3339, l.Time)
	}
	if comp != nil {
		a.seed = comp.ID
		if !comp.Time.IsZero() {
			at = comp.Time
		}
	}
	if a.seed == "" {
		h := sha256.New()
		if err := c.file.text.Copy(ctx, h); err != nil {
			return err
		}
		a.seed = hex.EncodeToString(h.Sum(nil))
	}
	a.time = at.UTC().Format("2006-01-02T15:04:05.000Z")
	return a.err
}

// uuid is that of a record.
func (c *chat) uuid(i int) string { return c.file.ids.Text(c.recs[i].uuid) }

// uuid returns the next uuid, the same for the same compaction.
func (a *appender) uuid() string {
	for {
		sum := sha256.Sum256(fmt.Appendf(nil, "agentcompact/%s/%d", a.seed, a.n))
		a.n++
		b := sum[:16]
		b[6] = b[6]&0x0f | 0x80 // version 8: our own kind
		b[8] = b[8]&0x3f | 0x80
		id := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		if _, taken := a.chat.file.ids.Find(id); !taken {
			return id
		}
	}
}

// namesSince is the version from which on agents surely keep the messages that a
// boundary names. Older ones may see the summary only.
var namesSince = [...]int{2, 1, 80}

// knowsNames reports whether the agent that wrote the session keeps messages by
// name. A session that tells no version is as good as new.
func (a *appender) knowsNames() bool {
	text, _ := rawjson.String(a.header.Get("version"))
	parts := strings.SplitN(text, ".", len(namesSince))
	if len(parts) < len(namesSince) {
		return true
	}
	var version [len(namesSince)]int
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil {
			return true
		}
		version[i] = n
	}
	return slices.Compare(version[:], namesSince[:]) >= 0
}

// run returns where the unchanged end of the conversation begins in items and
// the records that it consists of. It is empty when they cannot be named.
func (a *appender) run(items []wire.Item) (from int, recs []int) {
	c := a.chat
	from = len(items)
	if c.unlinked {
		return from, nil
	}
	least := 0
	if len(items) > 0 && items[0].Entry > 0 {
		least = 1 // a compaction is in force only with a record behind it
	}
	for next := len(c.entries) - 1; from > least; from, next = from-1, next-1 {
		if it := items[from-1]; next < 0 || it.Entry != next || it.Message != nil || !c.nameable(next) {
			break
		}
	}
	if from == len(items) {
		return from, nil
	}
	// An agent follows the parents that are in the file from the last record to
	// the first: what they do not reach must be copied.
	last := c.at(c.entries[items[len(items)-1].Entry])
	chain := make([]bool, len(c.recs))
	for i := last[len(last)-1]; i != none && !chain[i]; i = c.parents[i] {
		chain[i] = true
	}
	for from < len(items) {
		e := c.entries[items[from].Entry]
		if chain[c.at(e)[0]] && e.piece != rest {
			break
		}
		from++
	}
	before := c.standing(chain)
	for _, it := range items[from:] {
		e := c.entries[it.Entry]
		if e.piece == rest {
			continue // its record is there with the results
		}
		for _, i := range c.at(e) {
			if len(recs) > 0 {
				recs = append(recs, before[int(i)]...)
			}
			recs = append(recs, int(i))
		}
	}
	return from, recs
}

// standing returns the records that are no messages, by the message of the chain
// that they stand before.
func (c *chat) standing(chain []bool) map[int][]int {
	out := map[int][]int{}
	var pending []int
	for i, r := range c.recs {
		switch {
		case !chain[i]:
		case r.isMessage():
			if pending != nil {
				out[i], pending = pending, nil
			}
		case r.uuid != 0 && !r.boundary():
			pending = append(pending, i)
		}
	}
	return out
}

// nameable reports whether the records of an entry can be named by uuid.
func (c *chat) nameable(n int) bool {
	for _, i := range c.at(c.entries[n]) {
		if u := c.recs[i].uuid; u == 0 || len(c.named(u)) != 1 || c.recs[i].boundary() {
			return false
		}
	}
	return true
}

// compacted writes the boundary and the items that follow it. run is what comes
// after them.
func (a *appender) compacted(items []wire.Item, run []int, comp *wire.Compaction) {
	c := a.chat
	id := a.uuid()
	boundary := rawjson.Object{}
	boundary.Set("parentUuid", nil)
	for i := len(c.recs) - 1; i >= 0; i-- { // the last record with an id, message or not
		if u := c.uuid(i); u != "" {
			boundary.Set("logicalParentUuid", u)
			break
		}
	}
	boundary.Set("isSidechain", c.side)
	boundary = append(boundary, a.header...)
	boundary.Set("type", typeSystem)
	boundary.Set("subtype", boundarySubtype)
	boundary.Set("content", "Conversation compacted")
	boundary.Set("isMeta", false)
	boundary.Set("timestamp", a.time)
	boundary.Set("uuid", id)
	boundary.Set("level", "info")

	meta := rawjson.Object{}
	own := mark{}
	meta.Set("trigger", "manual")
	if comp != nil {
		if comp.Auto {
			meta.Set("trigger", "auto")
		}
		meta.Set("preTokens", comp.TokensBefore)
		meta.Set("postTokens", comp.TokensAfter)
		hides := len(comp.Shadowed)
		own = mark{ID: comp.ID, Hides: &hides}
	}

	// The records are made first: the boundary names the last one as anchor.
	head := a.buf
	a.buf = bytes.Buffer{}
	a.prev = id
	for _, it := range items {
		a.item(it)
	}
	if len(run) > 0 {
		var messages, all []string
		for _, i := range run {
			all = append(all, c.uuid(i))
			if c.recs[i].isMessage() {
				messages = append(messages, c.uuid(i))
			}
		}
		meta.Set("preservedSegment", map[string]string{"headUuid": all[0], "anchorUuid": a.prev, "tailUuid": all[len(all)-1]})
		meta.Set("preservedMessages", map[string]any{"anchorUuid": a.prev, "uuids": messages, "allUuids": all})
	}
	boundary.Set("compactMetadata", meta)
	boundary.Set("agentcompact", own)
	rest := a.buf.Bytes()
	a.buf = head
	a.line(boundary)
	a.buf.Write(rest)
}

func (a *appender) line(o rawjson.Object) {
	a.buf.Write(o.Bytes())
	a.buf.WriteByte('\n')
}

// item writes one message as a new record.
func (a *appender) item(it wire.Item) {
	var o rawjson.Object
	own := mark{}
	m := it.Message
	var old *session.Message
	if it.Entry >= 0 {
		old = a.entry(it.Entry)
	}
	if old != nil && (m == nil || m.Role == old.Role) {
		o, own = a.copyOf(it, old)
	} else {
		o, own = a.fresh(m, it.Compaction)
	}
	id := a.uuid()
	o.Set("parentUuid", a.prev)
	if a.prev == "" {
		o.Set("parentUuid", nil)
	}
	o.Set("uuid", id)
	o.Set("timestamp", a.time)
	if own != (mark{}) {
		o.Set("agentcompact", own)
	}
	a.line(o)
	a.prev = id
	if old != nil {
		for _, call := range old.Calls() {
			a.calls[call] = id
		}
	}
}

// fresh makes the record of a message that the file does not have.
func (a *appender) fresh(m *session.Message, comp *wire.Compaction) (rawjson.Object, mark) {
	o := rawjson.Object{{Name: "parentUuid", Value: json.RawMessage("null")}}
	o.Set("isSidechain", a.chat.side)
	o = append(o, a.header...)
	own := mark{Source: &m.Source}
	msg := rawjson.Object{}
	o.Set("type", typeUser)
	if m.Role == session.RoleAssistant {
		o.Set("type", typeAssistant)
		model := m.Source.Model
		if m.Source.Kind != session.SourceModel {
			model = syntheticModel
		}
		msg.Set("model", model)
		msg.Set("id", a.messageID())
		msg.Set("type", "message")
	}
	msg.Set("role", o.Get("type"))
	if t, ok := onlyText(m.Parts); ok && m.Role == session.RoleUser {
		msg.Set("content", t)
	} else {
		msg.Set("content", anthropic.Content(m.Parts))
	}
	o.Set("message", msg)
	switch {
	case comp != nil && m.Role == session.RoleUser:
		o.Set("isVisibleInTranscriptOnly", true)
		o.Set("isCompactSummary", true)
		own.ID = comp.ID
		if m.Source == compact.CheckpointSource(comp.ID) {
			own.Source = nil
		}
	case m.Role == session.RoleUser && m.Source.Kind == session.SourcePlugin:
		o.Set("isMeta", true)
	}
	return o, own
}

func onlyText(parts []session.Part) (string, bool) {
	if len(parts) != 1 {
		return "", false
	}
	t, ok := parts[0].(session.Text)
	return t.Text, ok && t.Text != ""
}

func (a *appender) messageID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "agentcompact/%s/message/%d", a.seed, a.n))
	return "msg_" + hex.EncodeToString(sum[:12])
}

// noUsage is what the agent itself puts on messages that outlive a compaction.
var noUsage = json.RawMessage(`{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}`)

// copyOf makes a record anew: the first of its records with its content, or
// that of the item.
func (a *appender) copyOf(it wire.Item, old *session.Message) (rawjson.Object, mark) {
	c, e := a.chat, a.chat.entries[it.Entry]
	recs := c.at(e)
	first := c.recs[recs[0]]
	m := it.Message
	if m == nil && old.Source.Form == FormCleared {
		m = old // as the agent sends it
	}
	o := a.object(first)
	own := mark{}
	if k := first.mark(); k != nil {
		own = *k
	}
	if e.piece == results {
		own.Source = nil
	}
	if first.summary {
		own.ID = c.file.identity(first) // it stays the same compaction
	}
	var content json.RawMessage
	switch {
	case m != nil:
		if first.kind == kindAttachment {
			return a.fresh(m, nil)
		}
		content = anthropic.Content(m.Parts)
		own.Source = &m.Source
		o.Delete("toolUseResult")
	case len(recs) > 1 || e.piece != whole:
		content = a.blocks(e)
	}
	if e.piece == rest {
		o.Delete("toolUseResult")
		o.Delete("sourceToolAssistantUUID")
	}
	for _, id := range old.Results() {
		if u := a.calls[id]; u != "" && o.Get("sourceToolAssistantUUID") != nil {
			o.Set("sourceToolAssistantUUID", u)
		}
	}
	if first.kind == kindAttachment {
		return o, own
	}
	msg, err := rawjson.Parse(o.Get("message"))
	if err != nil {
		return o, own // unreachable: it was read
	}
	if content != nil {
		msg.Set("content", content)
	}
	if first.kind == kindAssistant {
		msg.Set("id", a.messageID())
		msg.Set("usage", noUsage)
		o.Delete("requestId")
	}
	o.Set("message", msg)
	return o, own
}

// blocks returns the content of an entry that is not just one record.
func (a *appender) blocks(e entry) json.RawMessage {
	list := []json.RawMessage{}
	for _, i := range a.chat.at(e) {
		r := a.chat.recs[i]
		l, _, err := a.chat.file.load(r)
		if err != nil {
			a.err = err
			break
		}
		content := l.content(r.kind)
		if s, ok := rawjson.String(content); ok {
			list = append(list, anthropic.Block(session.Text{Text: s}))
			continue
		}
		raws, _ := rawjson.Elements(content)
		blocks, _ := anthropic.Outlines(content)
		for k, raw := range raws {
			if isResult := blocks[k].Type == "tool_result"; e.piece == whole || isResult == (e.piece == results) {
				list = append(list, raw)
			}
		}
	}
	return rawjson.Marshal(list)
}
