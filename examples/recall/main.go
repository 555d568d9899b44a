// Command recall shows an agent that has lost a detail to a compaction and gets
// it back with the two tools of package recall.
//
// The agent reads a long inventory, works on other things until its
// conversation is compacted, and is then asked for one number of the inventory.
// The checkpoint does not have it. The model, which is a script here, sees
// nothing but the request that a real one would get.
//
//	go run ./examples/recall
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

func main() {
	if _, err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// model answers a request, as a chat model does: with text, or with calls.
type model func(request []byte) session.Message

// agent is a loop around a model, with the tools of package recall.
type agent struct {
	session *session.Session
	tools   *recall.Tools
	model   model
	out     io.Writer
	calls   int
}

// outcome is what the demonstration came to.
type outcome struct {
	Answer string
	// Calls is how many tool calls the answer took, Lost whether the first
	// request after the compaction was without the detail.
	Calls int
	Lost  bool
}

const question = "Which asset tag has the host db-147?"

func run(ctx context.Context, out io.Writer) (*outcome, error) {
	s, err := session.Open(ctx, session.NewMemoryStore(), nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	a := &agent{session: s, tools: recall.NewTools(nil), model: scripted, out: out}
	// The tools are offered to the model like any others.
	env := session.Envelope{Model: "scripted", Tools: a.tools.Definitions()}
	if _, err := s.Record(ctx, session.SetEnvelope{Envelope: env}); err != nil {
		return nil, err
	}
	if _, err := s.Append(ctx, past()...); err != nil {
		return nil, err
	}
	svc, err := engine.New(summarize.NewExtractive(nil), &engine.Options{Policy: engine.Policy{RetainRatio: 0.05, CheckpointTokens: 400}})
	if err != nil {
		return nil, err
	}
	r, err := svc.CompactNow(ctx, compact.Agent{Session: s}, nil)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "compacted: %d messages hidden, %d tokens → %d\n\n", len(r.Seqs), r.Before, r.After)

	if _, err := s.Append(ctx, session.UserText(question)); err != nil {
		return nil, err
	}
	req, err := a.request()
	if err != nil {
		return nil, err
	}
	o := &outcome{Lost: !strings.Contains(string(req), detail)}
	fmt.Fprintf(out, "user: %s\n", question)
	if o.Answer, err = a.turn(ctx); err != nil {
		return nil, err
	}
	o.Calls = a.calls
	fmt.Fprintf(out, "assistant: %s\n", o.Answer)
	return o, nil
}

func (a *agent) request() ([]byte, error) {
	req, err := openaichat.BuildRequest(a.session.View(), &openaichat.RequestOptions{ModelCall: true})
	if err != nil {
		return nil, err
	}
	return req.Body(), nil
}

// turn calls the model and its tools until it answers with text.
func (a *agent) turn(ctx context.Context) (string, error) {
	for range 8 {
		req, err := a.request()
		if err != nil {
			return "", err
		}
		reply := a.model(req)
		messages := []session.Message{reply}
		for _, p := range reply.Parts {
			c, ok := p.(session.ToolCall)
			if !ok {
				continue
			}
			a.calls++
			// The result is marked as recalled: the next compaction will not
			// summarize it, but leave its pointer.
			result := a.tools.Call(a.session.View(), c)
			fmt.Fprintf(a.out, "call: %s %s\n%s\n\n", c.Name, c.Arguments, indent(result.Text()))
			messages = append(messages, result)
		}
		if _, err := a.session.Append(ctx, messages...); err != nil {
			return "", err
		}
		if len(messages) == 1 {
			return reply.Text(), nil
		}
	}
	return "", errors.New("the model only calls tools")
}

func indent(s string) string {
	lines := strings.Split(s, "\n")
	if len(lines) > 12 {
		lines = append(lines[:6:6], append([]string{"…"}, lines[len(lines)-5:]...)...)
	}
	return "    " + strings.Join(lines, "\n    ")
}
