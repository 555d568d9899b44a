// Package mcpserver offers a session to agents over the Model Context Protocol:
// history_read and history_search of package recall, and compact, plan and undo.
//
//	server := mcpserver.New(mcpserver.ForSession(agent, service), nil)
//	err := server.Run(ctx, &mcp.StdioTransport{})
package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
)

// The names of the tools beside those of package recall.
const (
	ToolCompact = "compact"
	ToolPlan    = "plan"
	ToolUndo    = "undo"
)

// Change says what a compaction or its undoing did.
type Change struct {
	// Compaction is the id.
	Compaction string `json:"compaction"`
	// Messages counts what was hidden or given back.
	Messages int `json:"messages"`
	// Before and After are the tokens of the session.
	Before int `json:"tokens_before"`
	After  int `json:"tokens_after"`
	// Out is where the result is; empty when it is in the session itself.
	Out string `json:"out,omitempty"`
}

// Backend is the session that a server speaks for. Methods may be called at the
// same time. An error is told to the client as it is.
type Backend interface {
	// View returns the newest state.
	View(ctx context.Context) (session.View, error)
	// Compact compacts by hand.
	Compact(ctx context.Context, opts *compact.NowOptions) (*Change, error)
	// Plan says what Compact would do.
	Plan(ctx context.Context, opts *compact.NowOptions) (*compact.Plan, error)
	// Undo undoes the compaction with the id, the newest one if that is empty.
	Undo(ctx context.Context, id string) (*Change, error)
}

// Options are the optional settings of [New]. Nil means defaults.
type Options struct {
	// Version is told to clients as that of the server.
	Version string
	// Tools are settings of history_read and history_search.
	Tools *recall.ToolOptions
}

const instructions = "Gives access to the history of this conversation that summaries hide. " +
	"Use history_search when a detail is missing that was said or seen earlier, and history_read to read around a hit."

// New returns a server with the tools.
func New(b Backend, opts *Options) *mcp.Server {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Version == "" {
		o.Version = "(unknown)"
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "agentcompact", Title: "agentcompact", Version: o.Version}, &mcp.ServerOptions{Instructions: instructions})
	tools := recall.NewTools(o.Tools)
	for _, d := range tools.Definitions() {
		add(s, &mcp.Tool{Name: d.Name, Description: d.Description, InputSchema: d.Schema, Annotations: readOnly()},
			func(ctx context.Context, args json.RawMessage) (string, any, error) {
				v, err := b.View(ctx)
				if err != nil {
					return "", nil, err
				}
				text, err := tools.Run(v, d.Name, args)
				return text, nil, err
			})
	}
	addNow(s, ToolPlan, "Says what compact would replace and keep, and changes nothing.", true, func(ctx context.Context, o *compact.NowOptions) (any, error) {
		return b.Plan(ctx, o)
	})
	addNow(s, ToolCompact, "Replaces the older part of the conversation by a summary. Nothing is lost: history_read reads it back, and undo undoes it.", false,
		func(ctx context.Context, o *compact.NowOptions) (any, error) { return b.Compact(ctx, o) })
	no := false
	add(s, &mcp.Tool{Name: ToolUndo, Description: "Gives back what a compaction hides, exactly as it was.", InputSchema: json.RawMessage(undoSchema),
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}},
		func(ctx context.Context, args json.RawMessage) (string, any, error) {
			var in struct {
				Compaction string `json:"compaction"`
			}
			if err := arguments(args, &in); err != nil {
				return "", nil, err
			}
			return asJSON(b.Undo(ctx, in.Compaction))
		})
	return s
}

const nowSchema = `{"type":"object","properties":{
"instructions":{"type":"string","description":"What the summary must not lose, in words."},
"keep":{"type":"array","items":{"type":"integer","minimum":0},"description":"Events that stay visible."}
},"additionalProperties":false}`

const undoSchema = `{"type":"object","properties":{
"compaction":{"type":"string","description":"Id of the compaction; the newest one without it."}
},"additionalProperties":false}`

func readOnly() *mcp.ToolAnnotations {
	no := false
	return &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
}

func addNow(s *mcp.Server, name, description string, pure bool, fn func(context.Context, *compact.NowOptions) (any, error)) {
	a := readOnly()
	if !pure {
		no := false
		a.ReadOnlyHint, a.DestructiveHint = false, &no
	}
	add(s, &mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(nowSchema), Annotations: a},
		func(ctx context.Context, args json.RawMessage) (string, any, error) {
			var in struct {
				Instructions string        `json:"instructions"`
				Keep         []session.Seq `json:"keep"`
			}
			if err := arguments(args, &in); err != nil {
				return "", nil, err
			}
			return asJSON(fn(ctx, &compact.NowOptions{Instructions: in.Instructions, Keep: in.Keep}))
		})
}

func arguments(args json.RawMessage, into any) error {
	if len(args) == 0 {
		return nil
	}
	if err := json.Unmarshal(args, into); err != nil {
		return fmt.Errorf("the arguments are not what the schema says: %w", err)
	}
	return nil
}

func asJSON(v any, err error) (string, any, error) {
	if err != nil {
		return "", nil, err
	}
	text, err := json.Marshal(v)
	return string(text), v, err
}

// add puts a tool on the server. What is wrong with a call is a result with the
// error mark, so that the model reads it.
func add(s *mcp.Server, t *mcp.Tool, fn func(context.Context, json.RawMessage) (string, any, error)) {
	s.AddTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, data, err := fn(ctx, req.Params.Arguments)
		if err != nil {
			text, data = "error: "+err.Error(), nil
			var ce *compact.Error
			if errors.As(err, &ce) && ce.Code.Advice() != "" {
				text += " (" + ce.Code.Advice() + ")"
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: data, IsError: err != nil}, nil
	})
}

// ForSession returns the backend for a session in this process. A tool whose
// ability the service has not ([compact.Manual], [compact.Planner],
// [compact.Undoer]) answers so.
func ForSession(agent compact.Agent, svc compact.Service) Backend { return &live{agent, svc} }

type live struct {
	agent compact.Agent
	svc   compact.Service
}

func (l *live) View(ctx context.Context) (session.View, error) {
	err := l.agent.Session.Refresh(ctx)
	return l.agent.Session.View(), err
}

func (l *live) Compact(ctx context.Context, opts *compact.NowOptions) (*Change, error) {
	m, ok := l.svc.(compact.Manual)
	if !ok {
		return nil, errors.New("this service cannot compact by hand")
	}
	r, err := m.CompactNow(ctx, l.agent, opts)
	if err != nil {
		return nil, err
	}
	return &Change{Compaction: r.ID, Messages: len(r.Seqs), Before: r.Before, After: r.After}, nil
}

func (l *live) Plan(ctx context.Context, opts *compact.NowOptions) (*compact.Plan, error) {
	p, ok := l.svc.(compact.Planner)
	if !ok {
		return nil, errors.New("this service cannot plan")
	}
	return p.Plan(ctx, l.agent, opts)
}

func (l *live) Undo(ctx context.Context, id string) (*Change, error) {
	u, ok := l.svc.(compact.Undoer)
	if !ok {
		return nil, errors.New("this service cannot undo")
	}
	v, err := l.View(ctx)
	if err != nil {
		return nil, err
	}
	return Undo(ctx, u, l.agent, v, id)
}

// Undo undoes the compaction with the id on the surface of a session, the
// newest one if that is empty, and says what that did.
func Undo(ctx context.Context, u compact.Undoer, agent compact.Agent, v session.View, id string) (*Change, error) {
	node := session.NoSeq
	if id != "" {
		for i := range v.Len() {
			if n := v.Node(i); compact.IsCheckpointSource(n.Source()) && n.Source().Ref == id {
				node = n.Seq
			}
		}
		if node == session.NoSeq {
			return nil, fmt.Errorf("compaction %q is not live", id)
		}
	}
	node, err := u.Undo(ctx, agent, node)
	if err != nil {
		return nil, err
	}
	now := agent.Session.View()
	c := &Change{Before: v.EnvelopeTokens() + v.SurfaceTokens(), After: now.EnvelopeTokens() + now.SurfaceTokens()}
	if ev, err := now.Event(node); err == nil {
		if m, err := ev.Message(); err == nil {
			c.Compaction = m.Source.Ref
		}
	}
	if run, kept, err := now.Run(node); err == nil {
		c.Messages = len(run) - len(kept)
	}
	return c, nil
}
