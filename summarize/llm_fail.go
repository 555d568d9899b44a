package summarize

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/agentcompact/agentcompact/overflow"
)

func (p *reply) options() []overflow.Option {
	var o []overflow.Option
	if p.l.o.Provider != "" {
		o = append(o, overflow.WithProvider(p.l.o.Provider))
	}
	if w := p.l.Window(); w > 0 {
		o = append(o, overflow.WithWindow(w))
	}
	return o
}

// stopped says why the request was ended from here: the cause of the caller's
// context, or the request's own timeout; nil when it was not.
func (p *reply) stopped() error {
	cause := context.Cause(p.caller)
	if cause == nil {
		cause = context.Cause(p.ctx)
	}
	switch cause {
	case nil:
		return nil
	case errTimeout:
		return p.end(&Failure{Class: Timeout, Detail: "no complete reply within " + p.l.o.Timeout.String(), Err: errTimeout})
	}
	p.canceled()
	return cause
}

// canceledKey leads to the list, in the context of a request, that a request
// which was canceled is recorded in: its error is the cause and carries no
// calls.
type canceledKey struct{}

func (p *reply) canceled() {
	c := p.record("canceled")
	if calls, ok := p.ctx.Value(canceledKey{}).(*[]Call); ok {
		*calls = append(*calls, c)
	}
}

// failed classifies the error of a request.
func (p *reply) failed(err error) error {
	if stop := p.stopped(); stop != nil {
		return stop
	}
	r := overflow.Classify(err, p.options()...)
	// An error without a status comes from the connection or out of the reply.
	reading := p.stream != nil
	if r.Status == 0 && r.Class == overflow.ClassOther {
		if body, _, ok := p.x.answer(); ok {
			reading = true
			if s := overflow.ClassifyStream(body, p.options()...); s.Class != overflow.ClassNone && s.Class != overflow.ClassOther {
				r = s
			}
		}
	}
	return p.end(p.fromResult(r, err, reading))
}

// inBody returns the failure that an error object inside a reply means.
func (p *reply) inBody(raw json.RawMessage) *Failure {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	body := append(append([]byte(`{"error":`), raw...), '}')
	return p.fromResult(overflow.ClassifyResponse(200, body, p.options()...), nil, true)
}

// fromResult turns the meaning of an answer into a failure. reading says that
// it came out of a reply that had begun.
func (p *reply) fromResult(r overflow.Result, err error, reading bool) *Failure {
	f := &Failure{Class: classOf(r), Detail: r.Rule, Err: err, RetryAfter: r.RetryAfter}
	if _, wait, ok := p.x.answer(); ok && wait > 0 {
		f.RetryAfter = wait
	}
	if f.Class == Transient && reading {
		f.Class = BadStream
	}
	switch {
	case r.Overflow:
		f.Limit, f.Actual = r.Limit, r.Actual
		if f.Actual == 0 && r.OverBy > 0 && r.Limit > 0 {
			f.Actual = r.Limit + r.OverBy
		}
		if f.Limit > 0 && f.Actual > p.built.input && p.built.input > 0 {
			// The provider counts more than we do: put its window in our unit.
			r.Limit = int(float64(r.Limit) * float64(p.built.input) / float64(f.Actual))
		}
		if w, ok := r.LearnedWindow(p.l.Window()); ok {
			p.l.window.Store(int64(w))
		}
	case f.Class == Invalid && p.l.adapt(p.built, r):
		f.Class, f.Detail = Transient, "the endpoint does not take part of the request, which is left out from now on"
	}
	return f
}

// adapt leaves out what an endpoint does not take. It reports whether the next
// request will be another one.
func (l *llm) adapt(b *built, r overflow.Result) bool {
	says := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(strings.ToLower(r.Message), w) {
				return true
			}
		}
		return false
	}
	switch {
	case says("max_completion_tokens", "max_tokens") && says("unsupported", "not supported", "unrecognized", "unknown", "extra", "use '"):
		return !isReasoner(l.o.Model) && l.otherLimit.CompareAndSwap(false, true)
	case r.Kind == overflow.KindReply && b.limit > 256:
		l.replyCap.Store(int64(b.limit / 2))
		return true
	case b.chat.ToolChoice != nil && says("tool_choice", "tool choice"):
		return l.noToolChoice.CompareAndSwap(false, true)
	case b.chat.StreamOptions != nil && says("stream_options", "include_usage"):
		return l.noStreamOptions.CompareAndSwap(false, true)
	case b.shape == "replay":
		return l.noReplay.CompareAndSwap(false, true)
	}
	return false
}

// classOf maps what an answer means to what to do next.
func classOf(r overflow.Result) Class {
	switch r.Class {
	case overflow.ClassOverflow, overflow.ClassPayloadTooLarge:
		return Overflow
	case overflow.ClassRateLimited:
		return RateLimited
	case overflow.ClassAuth, overflow.ClassQuota:
		return Auth
	case overflow.ClassContentPolicy:
		return Refused
	case overflow.ClassInvalidRequest:
		return Invalid
	}
	return Transient
}
