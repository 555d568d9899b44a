package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/agentcompact/agentcompact/tokencount/models"
)

// When says when to compact.
type When int

// The zero When compacts under pressure only.
const (
	// Pressure compacts when the messages near the window of the model.
	Pressure When = iota
	// Overflow compacts because the provider has refused the messages as too
	// long.
	Overflow
	// Now compacts whatever the size.
	Now
)

// Options are the settings of [Compact]. Window, or a Model that is known, is
// required.
type Options struct {
	// Window is the context window of the model in tokens, input and output
	// together; 0 means that of Model as package tokencount/models knows it.
	Window int
	// Model and Provider are those of the next request. They may be empty when
	// there is a Window.
	Model, Provider string
	// Tools are those of the next request: they take room, too.
	Tools []openai.Tool
	// When says when to compact; default under pressure.
	When When
	// Instructions are what to keep in mind, in the user's words; with [Now]
	// only.
	Instructions string
	// Summarizer writes the summary; nil means [summarize.NewExtractive].
	Summarizer summarize.Summarizer
	// Memory knows earlier checkpoints, and prices; nil means none.
	Memory *Memory
	// Pricer prices messages; nil means the estimator of package tokencount.
	Pricer session.Pricer
	// Engine is everything else: policy, pruning, attempts, redaction. Its
	// Windows must be nil.
	Engine engine.Options

	sample bool // the pricer is the default: see bound
}

// Report says what was done.
type Report struct {
	// Result is the compaction, nil when none was committed. Its seqs are those
	// of a session that lives as long as the call.
	Result *compact.Result
	// Code says why there was none, Reason says it in a sentence. Code is empty
	// when there was one and when shortening tool results was enough.
	Code   compact.Code
	Reason string
	// Checkpoint is where the summary stands in the output; -1 without one.
	Checkpoint int
	// Replaced are the positions in the input of the messages that gave way,
	// Shortened those of tool results that lost their middle.
	Replaced, Shortened []int
	// Before and After are the tokens of messages and tools, an upper bound where
	// that was enough to see that there is room. Threshold is the mark for
	// pressure and Window that of the model.
	Before, After, Threshold, Window int
	// Repaired counts what was done beyond that, so that a provider takes the
	// output: results that were added, moved or quoted, and ids that were changed.
	Repaired int
}

// Compact returns the messages, shorter if there is need: it is the same slice
// when nothing was changed. The input is not modified. Another output begins
// with the leading system messages of the input, every call in it has its result
// right behind it, except calls at its end that still run, and every message
// that did not give way is as it was, wherever in the input it stood; system
// messages in mid-conversation are messages like the others.
//
// Nothing to do is no error: the report says why. An error is one of package
// compact, or says which option is wrong, and comes with the messages as they
// were given.
func Compact(ctx context.Context, messages []openai.ChatCompletionMessage, opts *Options) ([]openai.ChatCompletionMessage, *Report, error) {
	o, err := opts.prepare()
	if err != nil {
		return messages, nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return messages, nil, &compact.Error{Code: compact.Cancelled, Node: session.NoSeq, Err: err}
	}
	rep := &Report{Checkpoint: -1, Window: o.Window, Threshold: o.threshold()}
	if o.When == Pressure {
		if rep.Before = o.tokens(messages, rep.Threshold); rep.Before < rep.Threshold {
			rep.After, rep.Code = rep.Before, compact.BelowThreshold
			rep.Reason = fmt.Sprintf("%d tokens are below the threshold of %d", rep.Before, rep.Threshold)
			return messages, rep, nil
		}
	}
	c := &conversation{in: messages, o: o, at: make(map[session.Seq]int, len(messages))}
	if err := c.open(ctx); err != nil {
		return messages, nil, err
	}
	defer c.s.Close()
	e, err := engine.New(o.Summarizer, &o.Engine)
	if err != nil {
		return messages, nil, fmt.Errorf("compact messages: %w", err)
	}
	v := c.s.View()
	rep.Before = v.EnvelopeTokens() + v.SurfaceTokens()
	if err := c.compact(ctx, e, rep); err != nil {
		return messages, rep, err
	}
	v = c.s.View()
	rep.After = v.EnvelopeTokens() + v.SurfaceTokens()
	if rep.Result == nil && v.Generation() == c.generation {
		return messages, rep, nil
	}
	out, err := c.output(rep)
	if err != nil {
		return messages, rep, fmt.Errorf("compact messages: %w", err)
	}
	return out, rep, nil
}

// prepare validates the options and fills in the defaults.
func (in *Options) prepare() (*Options, error) {
	var o Options
	if in != nil {
		o = *in
	}
	bad := func(format string, args ...any) (*Options, error) {
		return nil, fmt.Errorf("compact messages: "+format, args...)
	}
	if o.Window == 0 && o.Model != "" {
		if m, ok := models.Embedded().Lookup(o.Model); ok {
			o.Window = m.Window
		}
	}
	switch {
	case o.Window < 0:
		return bad("the window is %d", o.Window)
	case o.Window == 0 && o.Model != "":
		return bad("the window of model %q is not known: set Window", o.Model)
	case o.Window == 0:
		return bad("a window is needed, or a model whose window is known")
	case o.Engine.Windows != nil:
		return bad("Engine.Windows is set: Window takes its place")
	case o.When < Pressure || o.When > Now:
		return bad("When is %d", o.When)
	case o.Instructions != "" && o.When != Now:
		return bad("Instructions have no meaning unless When is Now")
	}
	o.Engine.Windows = engine.FixedWindow(o.Window)
	if o.Summarizer == nil {
		o.Summarizer = summarize.NewExtractive(nil)
	}
	if o.Pricer == nil {
		o.Pricer, o.sample = tokencount.NewPricer(nil), true
	}
	return &o, nil
}

// policy is that of the route.
func (o *Options) policy() engine.Policy {
	for _, provider := range []string{o.Provider, ""} {
		for _, m := range o.Engine.Models {
			if m.Provider == provider && m.Model == o.Model {
				return m.Policy
			}
		}
	}
	return o.Engine.Policy
}

// threshold is where the engine compacts. It only has to be right for what is
// far below: the engine decides again.
func (o *Options) threshold() int {
	p := o.policy()
	mark := p.ThresholdTokens
	if mark == 0 {
		ratio := p.ThresholdRatio
		if ratio == 0 {
			ratio = 0.8
		}
		mark = int(ratio * float64(o.Window))
	}
	if p.ReserveOutput > 0 {
		mark = min(mark, o.Window-min(p.ReserveOutput, o.Window/2))
	}
	return mark
}

// compact runs the engine.
func (c *conversation) compact(ctx context.Context, e *engine.Engine, rep *Report) error {
	agent := compact.Agent{Session: c.s, Provider: c.o.Provider, Model: c.o.Model}
	if c.o.When == Now {
		r, err := e.CompactNow(ctx, agent, &compact.NowOptions{Instructions: c.o.Instructions})
		var ce *compact.Error
		if errors.As(err, &ce) && ce.Code == compact.NothingToCompact {
			rep.Code, rep.Reason = ce.Code, ce.Detail
			return nil
		}
		rep.Result = r
		return err
	}
	trigger := compact.Pressure
	if c.o.When == Overflow {
		trigger = compact.ContextOverflow
	}
	out, err := e.Consider(ctx, agent, trigger)
	if out != nil {
		rep.Result, rep.Code, rep.Reason = out.Result, out.Code, out.Reason
		if out.Threshold > 0 {
			rep.Threshold = out.Threshold
		}
	}
	return err
}

// sortedUnique sorts positions.
func sortedUnique(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}
