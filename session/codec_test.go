package session

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// slowBody is decodeBody without the fast way.
func slowBody(t Type, data []byte) (Body, error) {
	switch t {
	case TypeMessage:
		b := new(Append)
		return b, json.Unmarshal(data, &b.Message)
	case TypeUsage:
		u := new(Usage)
		return u, json.Unmarshal(data, u)
	case TypeTurnEnd:
		var j struct{ Reason exact }
		err := json.Unmarshal(data, &j)
		return &TurnEnd{string(j.Reason)}, err
	case TypeCall:
		var j struct {
			Node   Seq
			CallID exact `json:"call_id"`
			Phase  CallPhase
		}
		err := json.Unmarshal(data, &j)
		return &CallState{j.Node, string(j.CallID), j.Phase}, err
	}
	return nil, nil
}

var anyText = rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("\x00\x01\n\t\r\"\\/<>&\u2028\x7fé\U0001F600"))),
	rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))

func anyRaw(t *rapid.T, label string) json.RawMessage {
	if rapid.Bool().Draw(t, label) {
		return nil
	}
	return json.RawMessage(anyText.Draw(t, label))
}

func drawPart(t *rapid.T, nested bool) Part {
	kinds := []int{0, 1, 2, 3}
	if !nested {
		kinds = append(kinds, 4, 5, 6)
	}
	text := func() string { return anyText.Draw(t, "text") }
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case 1:
		return Image{URL: text(), MediaType: text(), Detail: text(), Width: rapid.Int().Draw(t, "w"), Raw: anyRaw(t, "raw")}
	case 2:
		return File{Name: text(), URL: text(), MediaType: text(), Bytes: rapid.Int().Draw(t, "b"), Raw: anyRaw(t, "raw")}
	case 3:
		return Opaque{Kind: text(), Raw: anyRaw(t, "raw")}
	case 4:
		return Reasoning{ID: text(), Text: text(), Signature: text(), Encrypted: text(), Raw: anyRaw(t, "raw")}
	case 5:
		return ToolCall{ID: text(), Name: text(), Arguments: text(), Custom: rapid.Bool().Draw(t, "custom"), Raw: anyRaw(t, "raw")}
	case 6:
		p := ToolResult{CallID: text(), Name: text(), IsError: rapid.Bool().Draw(t, "error")}
		for range rapid.IntRange(0, 2).Draw(t, "parts") {
			p.Parts = append(p.Parts, drawPart(t, true))
		}
		return p
	}
	return Text{text()}
}

func drawMessage(t *rapid.T) Message {
	m := Message{ID: anyText.Draw(t, "id"), Role: Role(rapid.SampledFrom([]string{"user", "assistant", "tool", ""}).Draw(t, "role")), Name: anyText.Draw(t, "name"),
		Source: Source{Kind: SourceUser, Plugin: anyText.Draw(t, "plugin"), Ref: anyText.Draw(t, "ref"), Model: anyText.Draw(t, "model")}}
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		m.Parts = append(m.Parts, drawPart(t, false))
	}
	if rapid.Bool().Draw(t, "extra") {
		m.Extra = map[string]json.RawMessage{rapid.String().Draw(t, "key"): json.RawMessage(anyText.Draw(t, "value"))}
	}
	if rapid.Bool().Draw(t, "origin") {
		m.Origin = &Origin{Format: rapid.String().Draw(t, "format"), Raw: anyRaw(t, "raw")}
	}
	return m
}

func TestEventsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		e := &Event{Seq: Seq(rapid.Int64Range(0, 1e15).Draw(t, "seq")), Time: time.UnixMilli(rapid.Int64Range(0, 1e13).Draw(t, "time")).UTC(),
			Type: TypeMessage, body: &Append{m}, meta: func() *meta { c := newMeta(&m); return &c }()}
		e.meta.tokens, e.meta.by = int32(rand.IntN(1000)), "bytes4"
		if rapid.Bool().Draw(t, "replace") {
			keep := []Seq{3, 5}[:rapid.IntRange(0, 2).Draw(t, "keep")]
			if len(keep) == 0 {
				keep = nil
			}
			e.Type, e.body = TypeReplace, &Replace{Start: 1, End: 9, Keep: keep, Message: m}
			e.meta.repl = &replacement{start: 1, end: 9, keep: keep}
		}
		b, err := AppendEvent(nil, e)
		require.NoError(t, err)
		require.True(t, json.Valid(b), "%s", b)
		require.NotContains(t, string(b), "\n")
		for name, parse := range map[string]func() (*Event, error){
			"fast": func() (*Event, error) { return ParseEvent(b) },
			"at":   func() (*Event, error) { return ParseEventAt(b, inMemory(append([]byte("xyz"), b...)), 3) },
			"slow": func() (*Event, error) {
				e := new(Event)
				data, err := parseEvent(e, b)
				e.src, e.n = inMemory(data), int32(len(data))
				return e, err
			},
		} {
			got, err := parse()
			require.NoError(t, err, name)
			require.Equal(t, e.meta, got.meta, name)
			body, err := got.Body()
			require.NoError(t, err, name)
			require.Equal(t, e.body, body, name)
			again, err := AppendEvent(nil, got)
			require.NoError(t, err)
			require.Equal(t, string(b), string(again), name)
		}
	})
}

// FuzzEvent: the fast reader accepts nothing that the slow one reads in another
// way, and what was read is written back without loss.
func FuzzEvent(f *testing.F) {
	for _, b := range seedEvents() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		slow := new(Event)
		data, slowErr := parseEvent(slow, b)
		e, err := ParseEvent(b)
		if slowErr != nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, slow.meta, e.meta)
		require.Equal(t, []any{slow.Seq, slow.Time, slow.Type, slow.Ignorable}, []any{e.Seq, e.Time, e.Type, e.Ignorable})
		body, err := e.Body()
		if want, slowErr := slowBody(slow.Type, data); want != nil {
			require.Equal(t, slowErr == nil, err == nil, "%v %v", slowErr, err)
			if err == nil {
				require.Equal(t, want, body)
			}
		}
		if err != nil {
			return
		}
		written, err := AppendEvent(nil, e)
		require.NoError(t, err)
		again, err := ParseEvent(written)
		require.NoError(t, err)
		require.Equal(t, e.meta, again.meta)
		twice, err := AppendEvent(nil, again)
		require.NoError(t, err)
		require.Equal(t, string(written), string(twice))
	})
}

// FuzzMessage: a message survives writing and reading.
func FuzzMessage(f *testing.F) {
	f.Add("id", "text", "\xff\xfe", "{\"a\": 1}", true)
	f.Add("", "\x00\u2028", "line\nbreak", "", false)
	f.Fuzz(func(t *testing.T, id, text, args, raw string, custom bool) {
		m := Message{ID: id, Role: RoleAssistant, Name: args, Source: Source{Kind: SourceModel, Provider: text, Model: id},
			Parts: []Part{Text{text}, Reasoning{ID: id, Text: args, Signature: raw, Raw: json.RawMessage(raw)},
				ToolCall{ID: id, Name: text, Arguments: args, Custom: custom}, Opaque{Kind: id, Raw: json.RawMessage(raw)}},
			Extra: map[string]json.RawMessage{"k": json.RawMessage(raw)}, Origin: &Origin{Format: "f", Raw: json.RawMessage(raw)}}
		b, err := m.MarshalJSON()
		require.NoError(t, err)
		var slow Message
		require.NoError(t, json.Unmarshal(b, &slow))
		require.Equal(t, m, slow)
		m.Extra = nil // which the fast reader leaves to the slow one
		b, _ = m.MarshalJSON()
		body, err := decodeBody(TypeMessage, b, nil, false)
		require.NoError(t, err)
		require.Equal(t, &Append{m}, body)
	})
}

func seedEvents() [][]byte {
	store := NewMemoryStore()
	s, _ := Open(context.Background(), store, nil)
	_, _ = s.Record(context.Background(), TurnStart{}, Append{UserText("hi \xff")}, StepStart{}, Append{AssistantText("t", ToolCall{ID: "a", Name: "n", Arguments: "{}"})},
		CallState{Node: 3, CallID: "a", Phase: CallStarted}, Append{ToolText("a", "x\ny")}, StepEnd{}, Usage{Node: 3, Prompt: 5, Model: "m"}, TurnEnd{"completed"},
		Replace{Start: 1, End: 5, Keep: []Seq{3, 5}, Message: UserText("sum")}, Pin{Nodes: []Seq{3}}, Pin{Nodes: []Seq{3}, Off: true},
		Restore{Node: 9}, Redo{Node: 9}, Rewind{To: 3}, Raw{Type: "compact/x", Data: json.RawMessage(`{"a":[1,2]}`)}, Raw{Type: "x", Ignorable: true},
		SetEnvelope{Envelope{Model: "m", Tools: []Tool{{Name: "t", Schema: json.RawMessage("{}")}}}})
	var out [][]byte
	for _, e := range store.Events() {
		b, _ := AppendEvent(nil, e)
		out = append(out, b)
	}
	return append(out, []byte(`{"seq":0,"time":0,"type":"message","head":{"tokens":1,"source":{"kind":"user",}},"data":{}}`),
		[]byte(` { "type" : "turn/end" , "seq" : 3 , "time":1, "data" : {"reason":"x"} } `), []byte(`{}`), []byte(``))
}
