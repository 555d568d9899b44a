package sessiontest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentcompact/agentcompact/session"
)

// Script runs a short session with everything that a log can hold: an envelope,
// turns and steps, parallel calls, usage, pins, an attempt with a replacement in
// one unit, one that keeps a unit, restore, redo, a late result, and rewinds.
// After every write that was acknowledged it calls ack, which may be nil. It
// stops at the first failed write and returns its error.
func Script(t testing.TB, s *session.Session, ack func(seqs []session.Seq)) error {
	t.Helper()
	ctx := context.Background()
	var err error
	var last []session.Seq
	do := func(bodies ...session.Body) {
		if err != nil {
			return
		}
		if last, err = s.Record(ctx, bodies...); err == nil && ack != nil {
			ack(last)
		}
	}
	call := func(id string) session.ToolCall {
		return session.ToolCall{ID: id, Name: "shell", Arguments: `{"cmd":"ls"}`}
	}
	do(session.SetEnvelope{Envelope: session.Envelope{Provider: "p", Model: "m", System: []session.Message{{
		Role: session.RoleSystem, Source: session.Source{Kind: session.SourcePlugin, Plugin: "host"}, Parts: []session.Part{session.Text{Text: "be brief"}}}}}})
	do(session.TurnStart{}, session.Append{Message: session.UserText("fix the test")}, session.StepStart{})
	first := last
	do(session.Append{Message: session.AssistantText("looking", call("a"), call("b"))})
	asked := last
	do(session.CallState{Node: at(asked, 0), CallID: "a", Phase: session.CallStarted})
	do(session.Append{Message: session.ToolText("b", "not \xff valid\n"+strings.Repeat("x", 200))})
	do(session.Append{Message: session.ToolText("a", "file.go")}, session.StepEnd{})
	answered := last
	do(session.Usage{Node: at(asked, 0), Prompt: 100, Completion: 20})
	do(session.Pin{Nodes: []session.Seq{at(asked, 0)}})
	do(session.Append{Message: session.AssistantText("done")}, session.TurnEnd{Reason: "completed"})
	done := last
	do(session.Raw{Type: "compact/start", Data: json.RawMessage(`{"id":"c1"}`)})
	do(session.Raw{Type: "compact/summary", Data: json.RawMessage(`{"id":"c1","text":"…"}`)},
		session.Replace{Start: at(first, 1), End: at(answered, 0), Keep: []session.Seq{at(asked, 0), at(answered, 0), at(answered, 0) - 1}, Message: Note("c1", "the user asked to fix the test")},
		session.Raw{Type: "compact/end", Data: json.RawMessage(`{"id":"c1"}`)})
	folded := last
	do(session.Append{Message: session.UserText("thanks")}, session.Append{Message: session.AssistantText("", call("late"))})
	thanks := last
	do(session.CallState{Node: at(thanks, 1), CallID: "late", Phase: session.CallAbandoned})
	do(session.Replace{Start: at(thanks, 0), End: at(thanks, 1), Message: Note("c2", "thanked")})
	do(session.Append{Message: session.ToolText("late", "too late")})
	do(session.Restore{Node: at(folded, 1)})
	do(session.Redo{Node: at(folded, 1)})
	do(session.Pin{Nodes: []session.Seq{at(asked, 0)}, Off: true})
	do(session.Rewind{To: at(done, 1)})
	do(session.Rewind{To: session.NoSeq})
	do(session.Append{Message: session.UserText("start over")})
	return err
}

// at is zero for the seqs of a write that failed.
func at(seqs []session.Seq, i int) session.Seq {
	if i < len(seqs) {
		return seqs[i]
	}
	return 0
}

// Note returns a message that looks like a checkpoint.
func Note(ref, text string) session.Message {
	return session.Message{Role: session.RoleUser, Parts: []session.Part{session.Text{Text: text}},
		Source: session.Source{Kind: session.SourcePlugin, Plugin: "compact", Ref: ref}}
}
