package openaichat

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/agentcompact/agentcompact/wire"
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
	span
	// doc is the object that holds it; empty when none does.
	doc span
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
	if i >= len(b) {
		return layout{}
	}
	end, whole := valueEnd(b, i)
	doc := span{i, end, whole}
	switch b[i] {
	case '[':
		return arrayLayout(b, doc)
	case '{':
		return objectLayout(b, doc)
	}
	return layout{}
}

func arrayLayout(b []byte, doc span) layout {
	l := layout{container: bareArray}
	n := 0
	eachElement(b, doc.start, func(v span) bool {
		n++
		if b[v.start] != '{' {
			return n > 1
		}
		traj, messages := fieldsOf(b, v, "traj"), fieldsOf(b, v, "messages")
		switch {
		case traj.start > 0:
			l.container, l.mark = tauBench, true
			l.lists = append(l.lists, listSpan{traj, v, fmt.Sprintf("[%d].traj", n-1), tauTitle(b, v, n)})
		case messages.start > 0 && fieldsOf(b, v, "role").start == 0:
			l.container = requestArray
			l.lists = append(l.lists, listSpan{messages, v, fmt.Sprintf("[%d].messages", n-1), fmt.Sprintf("request %d", n)})
		default:
			return n > 1 || l.lists != nil // an element without a list, among runs
		}
		return true
	})
	if l.lists == nil {
		l.lists = []listSpan{{span: doc}}
	}
	return l
}

func tauTitle(b []byte, run span, n int) string {
	task, trial := fieldsOf(b, run, "task_id"), fieldsOf(b, run, "trial")
	if task.start == 0 {
		return fmt.Sprintf("run %d", n)
	}
	t := "task " + clip(string(task.of(b)), 40)
	if trial.start > 0 {
		t += ", trial " + clip(string(trial.of(b)), 40)
	}
	return t
}

// fieldsOf returns the value of a field of the object at v; its start is 0 when
// there is none.
func fieldsOf(b []byte, v span, name string) span {
	var out span
	quoted := quote(name)
	eachMember(b, v.start, func(key []byte, m span) bool {
		if bytes.Equal(key, quoted) {
			out = m
		}
		return true
	})
	return out
}

func objectLayout(b []byte, doc span) layout {
	top := make(map[string]span)
	eachMember(b, doc.start, func(key []byte, v span) bool {
		top[unquote(key)] = v
		return true
	})
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
		l.lists = []listSpan{{span: top[name], doc: doc, name: name}}
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
	case has("messages") && strings.HasPrefix(text(b, top["trajectory_format"]), "mini-swe-agent"):
		return one(miniSWE, "messages", true)
	case has("messages", "info") && fieldsOf(b, top["info"], "model_stats").start > 0:
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
		if b[req.start] == '{' {
			if m := fieldsOf(b, req, "messages"); m.start > 0 {
				l.container = requestLog
				l.foreign = fieldsOf(b, req, "system").start > 0
				l.lists = []listSpan{{span: m, doc: req, name: "request.messages"}}
				return l
			}
		}
	}
	if !doc.whole {
		// The head of a file whose messages come later.
		t, ok := top["trajectory"]
		l.mark = ok && bytes.Contains(t.of(b), []byte(`"observation"`))
		if info, ok := top["info"]; ok && b[info.start] == '{' && fieldsOf(b, info, "model_stats").start > 0 {
			l.mark = true
		}
	}
	return l
}

func text(b []byte, v span) string {
	s, _ := asString(v.of(b))
	return s
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
	head, _ = cutBOM(head)
	i := space(head, 0)
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
		if s.start >= len(head) || head[s.start] != '[' {
			continue
		}
		n := 0
		eachElement(head, s.start, func(e span) bool {
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
func (v *verdict) look(b []byte, e span) {
	if b[e.start] != '{' {
		v.broken = v.broken || v.messages == 0 && e.whole
		return
	}
	o := make(map[string]span)
	eachMember(b, e.start, func(key []byte, m span) bool {
		o[unquote(key)] = m
		return true
	})
	role := text(b, o["role"])
	_, content := o["content"]
	calls, hasCalls := o["tool_calls"]
	fn, hasFn := o["function_call"]
	_, hasID := o["tool_call_id"]
	_, hasIDs := o["tool_call_ids"]
	_, parts := o["parts"]
	if !e.whole && (role == "" || !content) {
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
		hasCalls && b[calls.start] == '[', hasFn && b[fn.start] == '{':
		v.strong = true
	case role == "system", role == "developer":
		v.system = true
	}
	if t := text(b, o["type"]); t != "" {
		v.foreign = true // items of Responses, and logs of other agents
	}
	if c := o["content"]; content && b[c.start] == '[' {
		eachElement(b, c.start, func(p span) bool {
			if b[p.start] == '{' && foreignPart(text(b, fieldsOf(b, p, "type"))) {
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
		end, whole := valueEnd(head, i)
		e := span{i, end, whole}
		if head[i] == '{' {
			l := objectLayout(head, e)
			if l.foreign {
				return wire.No
			}
			if l.container == requestBody && l.lists[0].start < len(head) && head[l.lists[0].start] == '[' {
				eachElement(head, l.lists[0].start, func(m span) bool { v.look(head, m); return true })
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
		i = space(head, end)
	}
	return v.confidence(false)
}
