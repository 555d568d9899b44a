package main

import (
	"bytes"
	"context"
	"io"
	"net/http"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/summarize"
)

// endpoint says where the models are.
type endpoint struct {
	provider, baseURL, key string
	model                  string
	summarizer             string // the model that writes the checkpoints
	window                 int    // of model, as far as we know
	prune                  engine.Prune
}

// model is a model that answers, and what keeps the conversation inside its window.
type model struct {
	provider, name string
	client         *openai.Client
	engine         *engine.Engine
}

func newModel(e endpoint) (model, error) {
	config := openai.DefaultConfig(e.key)
	config.BaseURL = e.baseURL
	config.HTTPClient = &http.Client{Transport: verbatim{http.DefaultTransport}}

	writer, err := summarize.NewLLM(summarize.LLMOptions{
		BaseURL: e.baseURL, APIKey: e.key, Provider: e.provider, Model: e.summarizer,
	})
	if err != nil {
		return model{}, err
	}
	svc, err := engine.New(writer, &engine.Options{
		Windows: engine.FixedWindow(e.window),
		Prune:   e.prune,
		// When the model cannot be reached, code writes the checkpoint.
		Run: summarize.RunOptions{Fallback: summarize.NewExtractive(nil)},
	})
	if err != nil {
		return model{}, err
	}
	return model{provider: e.provider, name: e.model, client: openai.NewClientWithConfig(config), engine: svc}, nil
}

type bodyKey struct{}

// withBody returns a context for a request of go-openai that is sent with this body.
func withBody(ctx context.Context, body []byte) context.Context {
	return context.WithValue(ctx, bodyKey{}, body)
}

// verbatim sends the body of withBody in place of go-openai's own encoding. That one leaves out content
// that is empty, which providers refuse in a tool message, and fields that it does not know.
type verbatim struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t verbatim) RoundTrip(req *http.Request) (*http.Response, error) {
	body, ok := req.Context().Value(bodyKey{}).([]byte)
	if !ok {
		return t.base.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	req = req.Clone(req.Context())
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody()
	req.ContentLength = int64(len(body))
	return t.base.RoundTrip(req)
}
