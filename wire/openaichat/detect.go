package openaichat

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/internal/splice"
)

// The containers, as they are named for people.
const (
	bareArray    = "message array"
	requestBody  = "request body"
	requestArray = "array of request bodies"
	requestLog   = "request log"
	lineMessages = "messages, one a line"
	lineBodies   = "request bodies, one a line"
	miniSWE      = "mini-swe-agent trajectory"
	sweAgent     = "SWE-agent trajectory"
	tauBench     = "tau-bench results"
	openHands    = "OpenHands LLM log"
)

// listSpan is one list of messages.
type listSpan struct {
	splice.Span
	// doc is the object that holds it; zero when none does.
	doc splice.Span
	// name is where it stands, title tells it from others.
	name, title string
}

// layout says what kind of file it is and where its messages are.
type layout struct {
	container string
	lists     []listSpan
	// mark: the container has a mark that no other format has.
	mark bool
	// foreign: it has a mark of another format.
	foreign bool
}

// layoutOf looks at the document that begins at i. The data may end anywhere.
func layoutOf(b []byte, i int) layout {
	doc := splice.At(b, i)
	switch doc.Kind(b) {
	case '[':
		return arrayLayout(b, doc)
	case '{':
		return objectLayout(b, doc)
	}
	return layout{}
}

func arrayLayout(b []byte, doc splice.Span) layout {
	l := layout{container: bareArray}
	n := 0
	splice.Elements(b, doc, func(v splice.Span) bool {
		n++
		if b[v.Start] != '{' {
			return n > 1
		}
		traj, messages := splice.Get(b, v, "traj"), splice.Get(b, v, "messages")
		switch {
		case traj.Start > 0:
			l.container, l.mark = tauBench, true
			l.lists = append(l.lists, listSpan{traj, v, fmt.Sprintf("[%d].traj", n-1), tauTitle(b, v, n)})
		case messages.Start > 0 && splice.Get(b, v, "role").Start == 0:
			l.container = requestArray
			l.lists = append(l.lists, listSpan{messages, v, fmt.Sprintf("[%d].messages", n-1), fmt.Sprintf("request %d", n)})
		default:
			return n > 1 || l.lists != nil // an element without a list, among runs
		}
		return true
	})
	if l.lists == nil {
		l.lists = []listSpan{{Span: doc}}
	}
	return l
}

func tauTitle(b []byte, run splice.Span, n int) string {
	task, trial := splice.Get(b, run, "task_id"), splice.Get(b, run, "trial")
	if task.Start == 0 {
		return fmt.Sprintf("run %d", n)
	}
	t := "task " + splice.Clip(string(task.Of(b)), 40)
	if trial.Start > 0 {
		t += ", trial " + splice.Clip(string(trial.Of(b)), 40)
	}
	return t
}

func objectLayout(b []byte, doc splice.Span) layout {
	top := splice.Top(b, doc)
	has := func(keys ...string) bool {
		for _, k := range keys {
			if _, ok := top[k]; !ok {
				return false
			}
		}
		return true
	}
	l := layout{}
	one := func(container, name string, mark bool) layout {
		l.container, l.mark = container, mark
		l.lists = []listSpan{{Span: top[name], doc: doc, name: name}}
		return l
	}
	switch {
	case has("contents"), has("sessionId", "projectHash"), has("anthropic_version"), has("payload"), has("uuid"), has("parentUuid"):
		l.foreign = true
		return l
	case has("role"):
		l.container = lineMessages
		return l
	case has("messages") && has("system"):
		l.foreign = true // Anthropic's body; readable all the same
		return one(requestBody, "messages", false)
	case has("messages") && strings.HasPrefix(splice.Text(b, top["trajectory_format"]), "mini-swe-agent"):
		return one(miniSWE, "messages", true)
	case has("messages", "info") && splice.Get(b, top["info"], "model_stats").Start > 0:
		return one(miniSWE, "messages", true)
	case has("messages", "response") && (has("kwargs") || has("latency_sec")):
		return one(openHands, "messages", false)
	case has("messages"):
		return one(requestBody, "messages", false)
	case has("history", "trajectory"):
		return one(sweAgent, "history", true)
	case has("history"):
		return one(sweAgent, "history", false)
	case has("traj"):
		return one(tauBench, "traj", true)
	case has("request"):
		req := top["request"]
		if b[req.Start] == '{' {
			if m := splice.Get(b, req, "messages"); m.Start > 0 {
				l.container = requestLog
				l.foreign = splice.Get(b, req, "system").Start > 0
				l.lists = []listSpan{{Span: m, doc: req, name: "request.messages"}}
				return l
			}
		}
	}
	if !doc.Whole {
		// The head of a file whose messages come later.
		t, ok := top["trajectory"]
		l.mark = ok && bytes.Contains(t.Of(b), []byte(`"observation"`))
		if info, ok := top["info"]; ok && b[info.Start] == '{' && splice.Get(b, info, "model_stats").Start > 0 {
			l.mark = true
		}
	}
	return l
}

// looked is how many messages are looked at.
const looked = 400

// verdict is what the messages of a list say.
type verdict struct {
	messages int
	strong   bool // only chat messages have it
	system   bool
	foreign  bool // only other formats have it
	broken   bool // not a list of messages
}

// Detect implements [wire.Codec].
func (Codec) Detect(head []byte, whole bool) wire.Confidence {
	i := splice.Begin(head)
	if i >= len(head) {
		return wire.No
	}
	l := layoutOf(head, i)
	if l.container == lineMessages {
		return detectLines(head, i)
	}
	if l.foreign {
		return wire.No
	}
	if len(l.lists) == 0 {
		if l.mark && !whole {
			return wire.Maybe
		}
		return detectLines(head, i)
	}
	var v verdict
	for k := range min(len(l.lists), 20) {
		s := l.lists[k]
		if s.Kind(head) != '[' {
			continue
		}
		n := 0
		splice.Elements(head, s.Span, func(e splice.Span) bool {
			v.look(head, e)
			n++
			return n < looked && !v.broken
		})
	}
	return v.confidence(l.mark)
}

func (v *verdict) confidence(mark bool) wire.Confidence {
	switch {
	case v.broken || v.messages == 0:
		return wire.No
	case v.strong:
		return wire.Certain
	case v.foreign:
		return wire.No
	case mark:
		return wire.Certain
	case v.system:
		return wire.Likely
	}
	return wire.Maybe
}

// look judges one message.
func (v *verdict) look(b []byte, e splice.Span) {
	if b[e.Start] != '{' {
		v.broken = v.broken || v.messages == 0 && e.Whole
		return
	}
	o := splice.Top(b, e)
	role := splice.Text(b, o["role"])
	_, content := o["content"]
	calls, hasCalls := o["tool_calls"]
	fn, hasFn := o["function_call"]
	_, hasID := o["tool_call_id"]
	_, hasIDs := o["tool_call_ids"]
	_, parts := o["parts"]
	if !e.Whole && (role == "" || !content) {
		return
	}
	switch {
	case parts, role == "model":
		v.foreign, v.broken = true, true
		return
	case role == "" || !content && !hasCalls && !hasFn:
		v.broken = v.broken || v.messages == 0
		return
	}
	v.messages++
	switch {
	case role == "tool" && (hasID || hasIDs), role == "function",
		hasCalls && b[calls.Start] == '[', hasFn && b[fn.Start] == '{':
		v.strong = true
	case role == "system", role == "developer":
		v.system = true
	}
	if t := splice.Text(b, o["type"]); t != "" {
		v.foreign = true // items of Responses, and logs of other agents
	}
	if c := o["content"]; content && b[c.Start] == '[' {
		splice.Elements(b, c, func(p splice.Span) bool {
			if b[p.Start] == '{' && foreignPart(splice.Text(b, splice.Get(b, p, "type"))) {
				v.foreign = true
			}
			return true
		})
	}
}

func foreignPart(kind string) bool {
	switch kind {
	case "tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "image", "document",
		"input_text", "output_text", "input_image", "toolCall", "tool-call":
		return true
	}
	return false
}

// detectLines judges a file with one value a line.
func detectLines(head []byte, i int) wire.Confidence {
	var v verdict
	for n := 0; i < len(head) && n < looked; n++ {
		e := splice.At(head, i)
		if head[i] == '{' {
			l := objectLayout(head, e)
			if l.foreign {
				return wire.No
			}
			if l.container == requestBody && l.lists[0].Kind(head) == '[' {
				splice.Elements(head, l.lists[0].Span, func(m splice.Span) bool { v.look(head, m); return true })
			} else if l.container == lineMessages {
				v.look(head, e)
			} else if n == 0 {
				return wire.No
			}
		} else if head[i] == '[' {
			return wire.No
		}
		if v.broken {
			return wire.No
		}
		i = splice.Space(head, e.End)
	}
	return v.confidence(false)
}
