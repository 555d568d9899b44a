package formats

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/anthropicmessages"
	"github.com/agentcompact/agentcompact/wire/claudecode"
	"github.com/agentcompact/agentcompact/wire/codex"
	"github.com/agentcompact/agentcompact/wire/deepseek"
	"github.com/agentcompact/agentcompact/wire/gemini"
	"github.com/agentcompact/agentcompact/wire/kimi"
	"github.com/agentcompact/agentcompact/wire/openaichat"
	"github.com/agentcompact/agentcompact/wire/openairesponses"
	"github.com/agentcompact/agentcompact/wire/opencode"
	"github.com/agentcompact/agentcompact/wire/pi"
	"github.com/agentcompact/agentcompact/wire/qwen"
)

// Converted is a conversation in another format.
type Converted struct {
	// Format is the target, Ext the extension that its files have.
	Format, Ext string
	Data        []byte
	// Lost says in words what the target cannot hold, or holds otherwise.
	Lost []string
}

// target is a format to convert to.
type target struct {
	name, ext string
	// request builds a request of a provider; nil for session files.
	request func(v session.View) ([]byte, *wire.RequestReport, error)
	// codec and seed make a session file: an empty one that its writer fills.
	codec wire.Codec
	seed  string
	// limits are what the format has no place for.
	limits []limit
}

// limit is something that a conversation may have and a format may not hold.
type limit string

const (
	noSystem limit = "the system text"
	noTools  limit = "the tool definitions"
	noTimes  limit = "the times of messages"
	noUsage  limit = "the reported usage"
	noImages limit = "images and files, which are named in a text instead"
)

var requestLimits = []limit{noTimes, noUsage}

var targets = []target{
	{name: openaichat.Format, ext: ".json", limits: requestLimits, request: func(v session.View) ([]byte, *wire.RequestReport, error) {
		r, err := openaichat.BuildRequest(v, nil)
		if err != nil {
			return nil, nil, err
		}
		return r.Body(), chatReport(&r.Report), nil
	}},
	{name: anthropicmessages.Format, ext: ".json", limits: requestLimits, request: func(v session.View) ([]byte, *wire.RequestReport, error) {
		r, err := anthropicmessages.BuildRequest(v, nil)
		if err != nil {
			return nil, nil, err
		}
		return r.Body, &r.Report, nil
	}},
	{name: openairesponses.Format, ext: ".json", limits: requestLimits, request: func(v session.View) ([]byte, *wire.RequestReport, error) {
		r, err := openairesponses.BuildRequest(v, nil)
		if err != nil {
			return nil, nil, err
		}
		return r.Body, &r.Report, nil
	}},
	{name: gemini.Format, ext: ".json", limits: requestLimits, request: func(v session.View) ([]byte, *wire.RequestReport, error) {
		r, err := gemini.BuildRequest(v, nil)
		if err != nil {
			return nil, nil, err
		}
		return r.Body, &r.Report, nil
	}},
	{name: claudecode.Format, ext: ".jsonl", codec: claudecode.Codec{}, limits: []limit{noSystem, noTools, noTimes, noUsage},
		seed: `{"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"/","sessionId":"00000000-0000-8000-8000-000000000000","version":"2.1.0","type":"system","subtype":"informational","content":"Converted by agentcompact","isMeta":false,"timestamp":"2000-01-01T00:00:00.000Z","uuid":"00000000-0000-8000-8000-000000000001","level":"info"}` + "\n"},
	{name: codex.Format, ext: ".jsonl", codec: codex.Codec{}, limits: []limit{noSystem, noTools, noTimes, noUsage},
		seed: `{"timestamp":"2000-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"00000000-0000-8000-8000-000000000000","timestamp":"2000-01-01T00:00:00.000Z","cwd":"/","originator":"agentcompact","cli_version":"0.0.0"}}` + "\n"},
	{name: gemini.SessionFormat, ext: ".json", codec: gemini.Sessions{}, limits: []limit{noSystem, noTools, noTimes, noUsage},
		seed: `{"sessionId":"00000000-0000-8000-8000-000000000000","projectHash":"0000000000000000000000000000000000000000000000000000000000000000","startTime":"2000-01-01T00:00:00.000Z","lastUpdated":"2000-01-01T00:00:00.000Z","messages":[]}` + "\n"},
	{name: pi.Format, ext: ".jsonl", codec: pi.Codec{}, limits: []limit{noSystem, noTools, noTimes, noUsage},
		seed: `{"type":"session","version":3,"id":"00000000-0000-8000-8000-000000000000","timestamp":"2000-01-01T00:00:00.000Z","cwd":"/"}` + "\n"},
	{name: opencode.Format, ext: ".json", codec: opencode.Codec{}, limits: []limit{noSystem, noTools, noTimes, noUsage},
		seed: `{"info":{"id":"ses_000000000000agentcompact00","title":"Converted by agentcompact","version":"1.3.0","time":{"created":946684800000,"updated":946684800000}},"messages":[]}` + "\n"},
	{name: deepseek.Format, ext: ".jsonl", codec: deepseek.Codec{}, limits: []limit{noSystem, noTools, noTimes, noUsage, noImages},
		seed: `{"type":"session","version":0,"id":"00000000-0000-8000-8000-000000000000","createdAt":946684800000,"cwd":"/"}` + "\n"},
	{name: kimi.Format, ext: ".jsonl", codec: kimi.Codec{}, limits: []limit{noSystem, noTools, noTimes, noUsage},
		seed: `{"type":"metadata","protocol_version":"1.4","created_at":946684800000}` + "\n"},
	{name: qwen.Format, ext: ".jsonl", codec: qwen.Codec{}, limits: []limit{noSystem, noTools, noTimes, noUsage},
		seed: `{"uuid":"00000000-0000-8000-8000-000000000001","parentUuid":null,"sessionId":"00000000-0000-8000-8000-000000000000","timestamp":"2000-01-01T00:00:00.000Z","type":"system","subtype":"chat_compression","systemPayload":{"info":{},"compressedHistory":[]},"agentcompact":{"messages":[{"source":null}]}}` + "\n"},
}

// Targets returns the names of the formats that [Convert] makes.
func Targets() []string {
	var out []string
	for _, t := range targets {
		out = append(out, t.name)
	}
	return out
}

// Convert writes the surface of a session in another format: a request body for
// the shapes of providers, a new session file for those of agents, from which
// the agent can continue. The error names the formats that there are.
func Convert(ctx context.Context, v session.View, c *wire.Conversation, to string) (*Converted, error) {
	i := slices.IndexFunc(targets, func(t target) bool { return t.name == to })
	if i < 0 {
		return nil, fmt.Errorf("no conversion to %q: there are %s", to, strings.Join(Targets(), ", "))
	}
	t := targets[i]
	out := &Converted{Format: t.name, Ext: t.ext}
	var report *wire.RequestReport
	var err error
	if t.request != nil {
		out.Data, report, err = t.request(v)
	} else {
		out.Data, report, err = t.file(ctx, v, c)
	}
	if err != nil {
		return nil, fmt.Errorf("convert to %s: %w", to, err)
	}
	if out.Lost, err = lost(&t, v, c, report); err != nil {
		return nil, err
	}
	return out, nil
}

// file fills an empty session file.
func (t *target) file(ctx context.Context, v session.View, c *wire.Conversation) ([]byte, *wire.RequestReport, error) {
	messages, report, err := wire.Neutral(v)
	if err != nil {
		return nil, nil, err
	}
	f, err := t.codec.Read(ctx, []byte(t.seed))
	if err != nil {
		return nil, nil, err
	}
	var items []wire.Item
	for _, m := range messages {
		items = append(items, wire.Item{Entry: -1, Message: m})
	}
	var b bytes.Buffer
	if err := f.Writer.Write(ctx, &b, 0, items); err != nil {
		return nil, nil, err
	}
	// Writers take the time of the last record where there is no compaction.
	stamp := seedTime
	if c != nil {
		for i := range c.Len() {
			e, err := c.At(i)
			if err != nil {
				return nil, nil, err
			}
			if !e.Time.IsZero() {
				stamp = e.Time.UTC().Format("2006-01-02T15:04:05.000Z")
			}
		}
	}
	data := b.Bytes()
	for _, old := range []string{"0001-01-01T00:00:00.000Z", seedTime} {
		data = bytes.ReplaceAll(data, []byte(`"timestamp":"`+old+`"`), []byte(`"timestamp":"`+stamp+`"`))
	}
	return data, report, nil
}

// seedTime is the time that stands in the seeds.
const seedTime = "2000-01-01T00:00:00.000Z"

// chatReport puts the report of a chat request into common words.
func chatReport(r *openaichat.Report) *wire.RequestReport {
	out := &wire.RequestReport{Notes: r.Notes, Moved: r.Moved, Dropped: r.Dropped, Opened: r.Opened, Closed: r.Closed, Merged: r.Merged}
	for _, s := range r.Synthetic {
		out.Synthetic = append(out.Synthetic, wire.CallAt{Position: s.Position, CallID: s.CallID, WireID: s.WireID})
	}
	for _, n := range r.Renamed {
		out.Renamed = append(out.Renamed, wire.CallAt{Position: n.Position, CallID: n.From, WireID: n.To})
	}
	for _, q := range r.Quoted {
		out.Quoted = append(out.Quoted, wire.CallAt{Position: q.Position, CallID: q.CallID})
	}
	for _, u := range r.Unsent {
		out.Unsent = append(out.Unsent, wire.PartAt{Position: u.Position, Kind: u.Kind})
	}
	for _, l := range r.LeftOut {
		out.Unsent = append(out.Unsent, wire.PartAt{Position: l.Position, Kind: l.Kind})
	}
	return out
}

// attached reports whether there are images or files among the parts.
func attached(parts []session.Part) bool {
	return slices.ContainsFunc(parts, func(p session.Part) bool {
		switch p := p.(type) {
		case session.Image, session.File:
			return true
		case session.ToolResult:
			return attached(p.Parts)
		}
		return false
	})
}

// lost says in words what the target does not hold.
func lost(t *target, v session.View, c *wire.Conversation, r *wire.RequestReport) ([]string, error) {
	var out []string
	say := func(n int, one, many string) {
		switch {
		case n == 1:
			out = append(out, "1 "+one)
		case n > 1:
			out = append(out, fmt.Sprintf("%d %s", n, many))
		}
	}
	env, _ := v.Envelope()
	times, usage, images := false, false, false
	if c != nil {
		for i := range c.Len() {
			e, err := c.At(i)
			if err != nil {
				return nil, err
			}
			times = times || !e.Time.IsZero()
			usage = usage || e.Usage != nil
			images = images || attached(e.Message.Parts)
		}
	}
	has := map[limit]bool{noTimes: times, noUsage: usage, noImages: images}
	if env != nil {
		has[noSystem], has[noTools] = len(env.System) > 0, len(env.Tools) > 0
	}
	for _, l := range t.limits {
		if has[l] {
			out = append(out, string(l))
		}
	}
	kinds := map[string]int{}
	for _, u := range r.Unsent {
		kinds[u.Kind]++
	}
	names := make([]string, 0, len(kinds))
	for k := range kinds {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		say(kinds[k], k+" part that only its provider understands", k+" parts that only their provider understands")
	}
	plugins := 0
	for i := range v.Len() {
		if v.Node(i).Source().Kind == session.SourcePlugin && t.request != nil {
			plugins++
		}
	}
	say(plugins, "mark that software, not a person, wrote a message", "marks that software, not a person, wrote a message")
	say(len(r.Synthetic), "call without a result, which got a made-up one", "calls without a result, which got made-up ones")
	say(len(r.Quoted), "result without a call, which became a note", "results without a call, which became notes")
	say(len(r.Renamed), "id of a call, which is another one now", "ids of calls, which are others now")
	say(len(r.Notes), "system note in mid-conversation, which became a user message", "system notes in mid-conversation, which became user messages")
	say(len(r.Moved), "result that stood apart from its call", "results that stood apart from their calls")
	say(len(r.Dropped), "message without content", "messages without content")
	say(r.Merged, "border between two messages of one role", "borders between messages of one role")
	for _, n := range r.Tools {
		out = append(out, "the name of the tool "+n)
	}
	if r.Opened {
		out = append(out, "(added: a user message at the beginning)")
	}
	return out, nil
}
