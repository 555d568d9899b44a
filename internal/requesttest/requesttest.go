// Package requesttest checks what would be sent: whether every provider takes
// the requests that are built from a session, and whether a body of a chat
// request is one that is taken. The tests of all packages that change what an
// agent sends use it.
package requesttest

import (
	"fmt"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/wire/anthropicmessages"
	"github.com/agentcompact/agentcompact/wire/gemini"
	"github.com/agentcompact/agentcompact/wire/openaichat"
	"github.com/agentcompact/agentcompact/wire/openairesponses"
)

// TestingT is what a check needs of a test.
type TestingT interface {
	Errorf(format string, args ...any)
	FailNow()
}

// Session checks the next request of a session, to every provider.
func Session(t TestingT, v session.View) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	report(t, Problems(v))
}

// Chat checks the body of a request to a model over the chat API that is about
// to be sent.
func Chat(t TestingT, body []byte) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	report(t, problems("chat", openaichat.ValidateWith(body, openaichat.Checks{ModelCall: true})))
}

func report(t TestingT, bad []string) {
	for _, b := range bad {
		t.Errorf("%s", b)
	}
	if len(bad) > 0 {
		t.FailNow()
	}
}

// geminiModel is one of those that want the most.
const geminiModel = "gemini-3-pro-preview"

// Problems returns what providers would refuse of the next request of a session,
// with every rule of every provider.
func Problems(v session.View) []string {
	var out []string
	fail := func(err error) { out = append(out, fmt.Sprintf("the request cannot be built: %v", err)) }
	if r, err := openaichat.BuildRequest(v, &openaichat.RequestOptions{Model: "m", ModelCall: true, StrictAlternation: true}); err != nil {
		fail(err)
	} else {
		out = append(out, problems("chat", openaichat.ValidateWith(r.Body(), openaichat.Checks{ModelCall: true, StrictAlternation: true, UniqueIDs: true}))...)
	}
	if r, err := openaichat.BuildRequest(v, &openaichat.RequestOptions{ModelCall: true}); err != nil {
		fail(err)
	} else {
		out = append(out, problems("chat, as it is", openaichat.ValidateWith(r.Body(), openaichat.Checks{ModelCall: true, UniqueIDs: true}))...)
	}
	if r, err := anthropicmessages.BuildRequest(v, &anthropicmessages.RequestOptions{Model: "m", ModelCall: true}); err != nil {
		fail(err)
	} else {
		out = append(out, problems("anthropic", anthropicmessages.ValidateWith(r.Body, anthropicmessages.Checks{ModelCall: true, Alternation: true}))...)
	}
	if r, err := openairesponses.BuildRequest(v, &openairesponses.RequestOptions{Model: "m", ModelCall: true}); err != nil {
		fail(err)
	} else {
		out = append(out, problems("responses", openairesponses.ValidateWith(r.Body, openairesponses.Checks{ModelCall: true, UserFirst: true}))...)
	}
	if r, err := gemini.BuildRequest(v, &gemini.RequestOptions{Model: geminiModel, ModelCall: true}); err != nil {
		fail(err)
	} else {
		out = append(out, problems("gemini", gemini.ValidateWith(r.Body, gemini.Checks{ModelCall: true, Alternation: true, Signatures: true}))...)
	}
	return out
}

func problems[V error](provider string, list []V) []string {
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprintf("%s refuses the request: %v", provider, v))
	}
	return out
}
