package summarize

import (
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/internal/openaiconv"
	"github.com/agentcompact/agentcompact/session"
)

// built is a request with what is recorded of it.
type built struct {
	chat      openai.ChatCompletionRequest
	shape     string // "replay" or "transcript"
	input     int    // tokens of messages and tools, counted by the request's counter
	redacted  int
	cacheLost bool
	limit     int // of the reply
}

// build makes the request: a replay of the agent's own where that can share
// its cache and fits, else a rendered transcript.
func (l *llm) build(req *Request) *built {
	items, redacted := l.redact(req)
	b := &built{redacted: redacted, shape: "transcript"}
	if l.mayReplay(req) {
		hits := redacted + req.Redacted
		if hits == 0 {
			hits = l.o.Redactor.Envelope(req.Envelope)
		}
		chat, ok := l.replay(req)
		switch {
		case !ok:
		case hits > 0:
			b.cacheLost = true
		default:
			input := requestTokens(req, &chat)
			w := l.Window()
			if fits := (w == 0 || input+l.reserve(req) <= w) && (req.most == 0 || input <= req.most); fits {
				b.chat, b.shape, b.input = chat, "replay", input
			}
		}
	}
	if b.shape == "transcript" {
		b.chat.Messages = []openai.ChatCompletionMessage{
			{Role: openai.ChatMessageRoleSystem, Content: strings.TrimSpace(rules)},
			{Role: openai.ChatMessageRoleUser, Content: fenced(items) + l.task(req, false)},
		}
		b.input = requestTokens(req, &b.chat)
	}
	b.chat.Model = l.o.Model
	b.limit = l.replyLimit(req, b.input)
	if isReasoner(l.o.Model) != l.otherLimit.Load() {
		b.chat.MaxCompletionTokens = b.limit
	} else {
		b.chat.MaxTokens = b.limit //lint:ignore SA1019 it is the name that most endpoints know
	}
	if !l.o.NoStream {
		b.chat.Stream = true
		if !l.noStreamOptions.Load() {
			b.chat.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
		}
	}
	return b
}

func (l *llm) task(req *Request, replay bool) string {
	s, _ := l.o.Redactor.Redact(task(req, l.o.Instructions, replay))
	return s
}

// redact returns the items without secrets.
func (l *llm) redact(req *Request) (items []Item, hits int) {
	if l.o.Redactor == nil {
		return req.Items, 0
	}
	items = make([]Item, len(req.Items))
	for i, it := range req.Items {
		items[i] = redacted(l.o.Redactor, it)
		hits += items[i].hits
	}
	return items, hits
}

// redacted returns the item without secrets, and counts them in it.
func redacted(r *Redactor, it Item) Item {
	var n, k int
	it.Message, n = r.Message(it.Message)
	it.Narrative, k = r.Redact(it.Narrative)
	if it.Checkpoint || it.label != "" {
		n = k // the message is not sent beside its narrative
	}
	it.hits += n
	return it
}

func (l *llm) mayReplay(req *Request) bool {
	if l.o.Replay == ReplayNever || l.noReplay.Load() || req.Envelope == nil || req.Part > 1 || isReduce(req) {
		return false
	}
	if !req.Head && (req.Surface == nil || req.Parts > 0) {
		return false
	}
	if l.o.Replay == ReplayAlways {
		return true
	}
	return l.o.Model == req.Model && (l.o.Provider == "" || req.Provider == "" || l.o.Provider == req.Provider)
}

// replay returns the agent's request up to the end of the span with the
// instructions as the last user message. ok is false when the span cannot be
// sent as it is.
func (l *llm) replay(req *Request) (chat openai.ChatCompletionRequest, ok bool) {
	items := req.Items
	if req.Surface != nil && req.Parts == 0 {
		items = req.Surface
	}
	messages := make([]*session.Message, len(items))
	for i := range items {
		it := &items[i]
		if it.Message == nil || it.piece {
			return chat, false
		}
		messages[i] = it.Message
		if it.Recalled {
			messages[i] = withoutText(it.Message)
		}
	}
	o := openaiconv.Options{Picture: openaiPicture(l.o.KeepImages)}
	if !l.own {
		o.EmptyResult = "(no output)"
	}
	span, err := openaiconv.Conversation(messages, o)
	if err != nil || len(span) == 0 {
		return chat, false
	}
	system, err := openaiconv.System(req.Envelope.System)
	if err != nil {
		return chat, false
	}
	if chat.Tools, err = openaiconv.Tools(req.Envelope.Tools); err != nil {
		return chat, false
	}
	if len(chat.Tools) == 0 {
		for i := range span {
			if len(span[i].ToolCalls) > 0 {
				return chat, false
			}
		}
	} else if !l.noToolChoice.Load() {
		chat.ToolChoice = "none"
	}
	chat.Messages = append(append(system, span...), openai.ChatCompletionMessage{
		Role: openai.ChatMessageRoleUser, Content: l.task(req, true),
	})
	return chat, true
}

// openaiPicture names pictures by reference, all of them or only those that a
// tool message cannot hold.
func openaiPicture(keep bool) func(session.Image) string {
	return func(p session.Image) string {
		if keep && p.URL != "" {
			return ""
		}
		return openaiconv.Describe(p)
	}
}

// withoutText returns the message with a note in place of its texts.
func withoutText(m *session.Message) *session.Message {
	c := *m
	c.Parts = nil
	for _, p := range m.Parts {
		switch p := p.(type) {
		case session.ToolResult:
			p.Parts = []session.Part{session.Text{Text: recalled}}
			c.Parts = append(c.Parts, p)
		case session.ToolCall:
			c.Parts = append(c.Parts, p)
		}
	}
	if len(c.Parts) == 0 {
		c.Parts = []session.Part{session.Text{Text: recalled}}
	}
	return &c
}

// requestTokens counts what a provider would count of a request: texts, calls
// and tool definitions.
func requestTokens(req *Request, chat *openai.ChatCompletionRequest) int {
	n := 0
	for i := range chat.Messages {
		m := &chat.Messages[i]
		n += req.Count(m.Content)
		for _, p := range m.MultiContent {
			n += req.Count(p.Text)
			if p.ImageURL != nil {
				n += imageTokens
			}
		}
		for _, c := range m.ToolCalls {
			n += req.Count(c.Function.Name + c.Function.Arguments)
		}
	}
	for _, t := range chat.Tools {
		if raw, err := t.MarshalJSON(); err == nil {
			n += req.Count(string(raw))
		}
	}
	return n
}

const imageTokens = 1500

// isReasoner reports whether a model is of the families that take
// max_completion_tokens only; go-openai refuses the other name for them.
func isReasoner(model string) bool {
	for _, p := range []string{"o1", "o3", "o4", "gpt-5", "gpt-6"} {
		if strings.HasPrefix(model, p) {
			return true
		}
	}
	return false
}

// baseLimit is the reply limit of a first attempt.
func (l *llm) baseLimit(req *Request) int {
	limit := l.o.MaxTokens
	if limit == 0 {
		limit = min(max(2*req.MaxTokens, 1024), 8192)
		if isReasoner(l.o.Model) {
			limit += 8192 // thoughts count as well
		}
	}
	return l.clampReply(limit)
}

func (l *llm) clampReply(limit int) int {
	if l.o.MaxOutput > 0 {
		limit = min(limit, l.o.MaxOutput)
	}
	if most := int(l.replyCap.Load()); most > 0 {
		limit = min(limit, most)
	}
	return max(limit, 1)
}

// reserve is the room for the reply that a plan keeps free.
func (l *llm) reserve(req *Request) int {
	n := l.baseLimit(req)
	if w := l.Window(); w > 0 {
		n = min(n, max(1, w/4))
	}
	return n
}

// replyLimit is the reply limit of a request of so many tokens. A reply that
// was cut gets more room where there is some.
func (l *llm) replyLimit(req *Request, input int) int {
	limit := l.baseLimit(req)
	if req.Failed == Truncated || req.Failed == Reasoning {
		limit = l.clampReply(2 * limit)
	}
	if w := l.Window(); w > 0 {
		limit = min(limit, w-input)
	}
	return max(limit, 1)
}

// overhead is what a rendered request has beside its entries.
func (l *llm) overhead(req *Request) int {
	return req.Count(strings.TrimSpace(rules)) + req.Count(FenceOpen+"\n"+FenceClose+"\n\n"+entriesBegin("0000")+l.task(req, false))
}
