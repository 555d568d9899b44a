package summarize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

// ReplayMode says when the request of the language-model summarizer replays
// the agent's own request, so that it shares its prompt cache.
type ReplayMode int

// The modes.
const (
	// ReplayAuto replays when the summarizer has the agent's route, the span is
	// the head of the surface, and nothing in it has to be redacted or cannot be
	// sent as it is.
	ReplayAuto ReplayMode = iota
	// ReplayNever always sends a rendered transcript.
	ReplayNever
	// ReplayAlways replays whatever the route; what cannot be replayed is still
	// rendered.
	ReplayAlways
)

// LLMOptions configure [NewLLM]. Model is required.
type LLMOptions struct {
	// Client is the caller's own. Headers, HTTPClient and the fields of ExtraBody
	// that go-openai does not know cannot be used with it; Retry-After is seen
	// when it was built on [NewTransport].
	Client *openai.Client
	// BaseURL and APIKey are those of an OpenAI-compatible endpoint; empty means
	// the environment's OPENAI_BASE_URL and OPENAI_API_KEY, then OpenAI. An
	// endpoint other than OpenAI's may do without a key.
	BaseURL, APIKey string
	Organization    string
	Headers         map[string]string
	HTTPClient      *http.Client
	// Model is what requests ask for. Provider names who serves it, for the
	// record and to tell whether it is the agent's route; it may be empty.
	Model, Provider string
	// MaxTokens is the reply limit; 0 means what the budget of a request needs.
	// It is always lowered to MaxOutput, the most that the provider takes; 0
	// means unknown.
	MaxTokens, MaxOutput int
	// Window is how many tokens a request and its reply may have together; 0
	// means unknown, and it is learned from the provider's refusals.
	Window int
	// NoStream asks for whole replies.
	NoStream bool
	// ExtraBody are fields that are added to each request.
	ExtraBody map[string]any
	// Timeout bounds one request from its opening to its last token; 0 means two
	// minutes, negative none.
	Timeout time.Duration
	Replay  ReplayMode
	// KeepImages replays pictures as they are. Without it they are named by
	// reference.
	KeepImages bool
	// Instructions are added to those of every request.
	Instructions string
	// Redactor keeps secrets from the model; nil redacts nothing.
	Redactor *Redactor
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger gets one line per request, without content; nil means none.
	Logger *slog.Logger
}

type llm struct {
	o      LLMOptions
	client *openai.Client
	own    bool // the client is ours, with the transport
	after  func(time.Duration, func()) *time.Timer

	// What the endpoint has refused, and is not sent again.
	noToolChoice, noStreamOptions, noReplay atomic.Bool
	otherLimit                              atomic.Bool  // the other name of the reply limit
	replyCap                                atomic.Int64 // the largest reply limit that may be taken
	window                                  atomic.Int64 // as a refusal stated it
}

// NewLLM returns a summarizer over an OpenAI-compatible endpoint. It makes one
// request per summary; retries, chunks and failover are for [Run]. Reasoning is
// never sent to it and never taken from it; neither are tool calls.
//
// A reply is complete when the provider gave a finish reason, or ended a stream
// with [DONE] without giving one; text of a reply that broke off is never used.
//
// The error says which option is missing or contradicts another.
func NewLLM(opts LLMOptions) (Summarizer, error) {
	if opts.Model == "" {
		return nil, errors.New("summarize: a model is required")
	}
	if opts.MaxTokens < 0 || opts.MaxOutput < 0 || opts.Window < 0 {
		return nil, errors.New("summarize: limits must not be negative")
	}
	if opts.Timeout == 0 {
		opts.Timeout = 2 * time.Minute
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	l := &llm{o: opts, client: opts.Client, after: time.AfterFunc}
	if opts.Client != nil {
		if opts.BaseURL != "" || opts.APIKey != "" || opts.Organization != "" || len(opts.Headers) > 0 || opts.HTTPClient != nil {
			return nil, errors.New("summarize: a client has its own endpoint, key, headers and HTTP client")
		}
		if err := applyExtra(&openai.ChatCompletionRequest{}, opts.ExtraBody); err != nil {
			return nil, err
		}
		return l, nil
	}
	key, base := opts.APIKey, opts.BaseURL
	if key == "" {
		key = os.Getenv("OPENAI_API_KEY")
	}
	if base == "" {
		base = os.Getenv("OPENAI_BASE_URL")
	}
	if key == "" && base == "" {
		return nil, errors.New("summarize: a key is required: set OPENAI_API_KEY or the option")
	}
	config := openai.DefaultConfig(key)
	if base != "" {
		config.BaseURL = base
	}
	config.OrgID = opts.Organization
	config.EmptyMessagesLimit = 1 << 20 // keep-alive comments are counted too
	hc := http.Client{}
	if opts.HTTPClient != nil {
		hc = *opts.HTTPClient
	}
	hc.Transport = NewTransport(hc.Transport)
	config.HTTPClient = &hc
	l.client, l.own = openai.NewClientWithConfig(config), true
	return l, nil
}

// applyExtra sets the fields of a request that go-openai knows.
func applyExtra(r *openai.ChatCompletionRequest, extra map[string]any) error {
	if len(extra) == 0 {
		return nil
	}
	raw, err := json.Marshal(extra)
	if err != nil {
		return fmt.Errorf("summarize: extra body: %w", err)
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return fmt.Errorf("summarize: extra body with the caller's client: %w", err)
	}
	return nil
}

// Name implements [Summarizer].
func (l *llm) Name() string { return l.o.Model }

// Window implements [Windowed].
func (l *llm) Window() int {
	w := l.o.Window
	if learned := int(l.window.Load()); learned > 0 && (w == 0 || learned < w) {
		w = learned
	}
	return w
}

// Open implements [Summarizer].
func (l *llm) Open(ctx context.Context, req *Request) (Pending, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if req == nil || req.Count == nil || len(req.Items) == 0 {
		return nil, &Failure{Class: Invalid, Detail: "a request needs items and a counter"}
	}
	b := l.build(req)
	if w := l.Window(); w > 0 && b.input >= w {
		return nil, &Failure{Class: Overflow, Detail: "the request does not fit the summarizer's window", Limit: w, Actual: b.input}
	}
	if req.Progress != nil {
		req.Progress(Progress{Stage: "model"})
	}
	p := &reply{l: l, built: b, start: l.o.Now(), x: &exchange{headers: l.o.Headers, now: l.o.Now}}
	if l.own {
		p.x.extra = l.o.ExtraBody
	} else if err := applyExtra(&b.chat, l.o.ExtraBody); err != nil {
		return nil, &Failure{Class: Invalid, Err: err}
	}
	p.caller = ctx
	p.ctx, p.cancel = context.WithCancelCause(withExchange(ctx, p.x))
	if l.o.Timeout > 0 {
		p.timer = l.after(l.o.Timeout, func() { p.cancel(errTimeout) })
	}
	if err := p.open(); err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

var errTimeout = errors.New("the request timed out")

func (l *llm) redactor() *Redactor { return l.o.Redactor }
