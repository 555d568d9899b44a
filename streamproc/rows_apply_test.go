package streamproc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/summarize"
)

func init() {
	row("INT-1", func(t *testing.T) {
		seen := map[string]bool{}
		for _, k := range []Kind{NothingToCompact, Timeout, EmptyResponse, InsufficientReduction, InvalidSplit, Unsupported,
			SamplerBuild, SamplerStart, SamplerStream, ApplyFailed, Cancelled, Conflict, ViewFailed, InvalidOptions} {
			l := Label(&Error{Kind: k})
			require.NotEmpty(t, l)
			require.False(t, seen[l], l)
			seen[l] = true
			require.Equal(t, l, Label(fmt.Errorf("wrapped: %w", k)))
		}
		// Those of the rows, letter by letter.
		for _, l := range []string{"nothing_to_compact", "timeout", "empty_response", "insufficient_reduction", "invalid_split",
			"unsupported", "sampler_build", "sampler_start", "sampler_stream", "apply"} {
			require.True(t, seen[l], l)
		}
		require.Equal(t, "invalid_split", Label(ErrInvalidSplit{3, 2}))
		require.Equal(t, "unsupported", Label(ErrUnsupported))
		require.Equal(t, "conflict", Label(ErrConflict{}))
		require.Equal(t, "apply", Label(errors.New("the host's")))
		require.Empty(t, Label(nil))
	})
	// try runs steps with a summarizer that fails with err, and one attempt.
	try := func(t *testing.T, attempts int, script ...any) (*said, *host, *Error) {
		t.Helper()
		s, h := says(script...), &host{steps: replies(6, 500)}
		_, err := ApplySteps(bg, h, adapter, s, withWindow(opts(Policy{MinTokens: 1, MaxAttempts: attempts}), 1000))
		if err == nil {
			return s, h, nil
		}
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Zero(t, h.applied)
		require.Len(t, h.steps, 6)
		return s, h, e
	}
	row("INT-2", func(t *testing.T) {
		for _, c := range []struct {
			what any
			kind Kind
		}{
			{failure(summarize.Timeout), Timeout},
			{failure(summarize.Invalid), SamplerBuild}, {failure(summarize.Auth), SamplerBuild}, {failure(summarize.Refused), SamplerBuild},
			{atOpen{failure(summarize.Transient)}, SamplerStart}, {failure(summarize.Transient), SamplerStream},
			{failure(summarize.BadStream), SamplerStream}, {errors.New("other"), SamplerStream},
			{failure(summarize.Empty), EmptyResponse}, {failure(summarize.Truncated), EmptyResponse}, {failure(summarize.ToolCalled), EmptyResponse},
		} {
			_, _, e := try(t, 1, c.what)
			require.Equal(t, c.kind, e.Kind, "%v", c.what)
			require.Equal(t, steps, e.Target)
			var f *summarize.Failure
			require.ErrorAs(t, e, &f, "the structured cause is kept")
		}
	})
	row("INT-3", func(t *testing.T) {
		for _, c := range []struct {
			class         summarize.Class
			deterministic bool
		}{{summarize.Timeout, false}, {summarize.Empty, false}, {summarize.Transient, false}, {summarize.Auth, true}, {summarize.Invalid, true}} {
			_, _, e := try(t, 1, failure(c.class))
			require.Equal(t, c.deterministic, e.Deterministic, c.class)
		}
	})
	row("SMP-1", rows["INT-3"])
	row("INT-4", func(t *testing.T) {
		w := new(watch)
		h := &host{steps: replies(6, 500)}
		o := withWindow(opts(Policy{MinTokens: 1}), 1000)
		o.Observer = w.observer()
		r, err := ApplySteps(bg, h, adapter, says(good("the answer is 42")), o)
		require.NoError(t, err)
		require.Equal(t, 5, r.Items)
		require.Equal(t, 2500, r.Before)
		require.Len(t, h.steps, 2)
		require.Contains(t, r.Text, "the answer is 42")
		require.Equal(t, r.Text, h.steps[0].Text)
		require.Equal(t, 1, w.started)
		require.Len(t, w.committed, 1)
		require.Equal(t, steps, w.committed[0].Target)
		require.Len(t, w.ended, 1)
		require.Equal(t, Succeeded, w.ended[0].Status)
	})
	row("INT-5", func(t *testing.T) {
		w := new(watch)
		h := &host{steps: replies(8, 100)}
		o := opts(Policy{MinTokens: 1})
		o.Observer = w.observer()
		_, err := ApplyFullReplace(bg, h, adapter, says(good(text(1, 2000))), o)
		e := kind(t, err, InsufficientReduction)
		require.Equal(t, 800, e.Before)
		require.Zero(t, h.applied)
		require.Len(t, w.ended, 1)
		require.Equal(t, "insufficient_reduction", w.ended[0].Label)
		// The same by the reminder, which no composing makes shorter.
		o = opts(Policy{MinTokens: 1})
		o.Reminder = text(9, 700)
		_, err = ApplyFullReplace(bg, h, adapter, says(good("")), o)
		e = kind(t, err, InsufficientReduction)
		require.Greater(t, e.After, 640)
		require.Zero(t, h.applied)
	})
	row("INT-6", func(t *testing.T) {
		s := says(good(""))
		_, err := ApplySteps(bg, &host{}, adapter, s, withWindow(opts(Policy{}), 1000))
		kind(t, err, NothingToCompact)
		_, err = ApplyFullReplace(bg, &host{}, adapter, s, opts(Policy{}))
		kind(t, err, NothingToCompact)
		require.Zero(t, s.calls)
	})
	row("INT-7", func(t *testing.T) {
		s, h, e := try(t, 3, failure(summarize.Timeout), good(""))
		require.Nil(t, e)
		require.Equal(t, 2, s.calls)
		require.Equal(t, 1, h.applied)
	})
	row("INT-8", func(t *testing.T) {
		s, _, e := try(t, 3, failure(summarize.Invalid), good(""))
		require.Equal(t, SamplerBuild, e.Kind)
		require.Equal(t, 1, s.calls)
	})
	row("INT-9", func(t *testing.T) {
		why := errors.New("the cache is locked")
		h := &host{steps: replies(6, 500), refuse: why}
		_, err := ApplyFullReplace(bg, h, adapter, says(good("")), opts(Policy{MinTokens: 1}))
		kind(t, err, ApplyFailed)
		require.ErrorIs(t, err, why)
		h.refuse = ErrUnsupported
		_, err = ApplyFullReplace(bg, h, adapter, says(good("")), opts(Policy{MinTokens: 1}))
		kind(t, err, Unsupported)
		h.refuse = ErrInvalidSplit{6, 2}
		_, err = ApplyFullReplace(bg, h, adapter, says(good("")), opts(Policy{MinTokens: 1}))
		var split ErrInvalidSplit
		require.ErrorAs(t, err, &split)
		require.Equal(t, ErrInvalidSplit{6, 2}, split)
		require.Equal(t, "invalid_split", Label(err))
	})
	row("INT-10", func(t *testing.T) {
		s, w, h := says(good("")), new(watch), &host{steps: replies(6, 500)}
		o := opts(Policy{MinTokens: 1})
		o.Observer = w.observer()
		r, err := Apply(bg, h, adapter, s, o)
		require.NoError(t, err)
		require.Equal(t, FullReplace, r.Mode)
		require.Equal(t, 6, r.Items)
		require.Len(t, h.steps, 1)
		require.Equal(t, 1, s.calls)
		require.Equal(t, full, w.committed[0].Target)
	})
	row("INT-11", func(t *testing.T) {
		h := &host{steps: replies(6, 500)}
		o := opts(Policy{MinTokens: 1})
		o.Reminder = "<system-reminder>\ntask \"bg-1\" runs [checkpoint x]\n</system-reminder>"
		r, err := ApplyFullReplace(bg, h, adapter, says(good("")), o)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(r.Text, "]\n\n"+o.Reminder))
		require.Equal(t, r.Text, h.steps[0].Text)
		require.Equal(t, r.After, quarter{}.Price(ptr(session.UserText(r.Text))), "the reminder is counted")
	})
	row("INT-12", func(t *testing.T) {
		s, h := says(good("")), &host{steps: replies(2, 1)}
		_, err := ApplyFullReplace(bg, h, adapter, s, opts(Policy{MinTokens: 1000}))
		kind(t, err, NothingToCompact)
		require.Zero(t, s.calls)
		require.Zero(t, h.applied)
	})
	row("INT-13", func(t *testing.T) {
		s, h := says("too short"), &host{steps: replies(6, 500)}
		p := GrokIntra()
		p.MinTokens, p.RetrySeconds = 1, -1
		_, err := ApplyFullReplace(bg, h, adapter, s, opts(p))
		kind(t, err, EmptyResponse)
		require.Equal(t, 2, s.calls)
		// The floor counts characters, and nothing else is wrong with the text.
		for n, ok := range map[int]bool{499: false, 500: true} {
			o := opts(p)
			o.Run.Guard = &summarize.GuardOptions{NoFloor: true, NoSections: true}
			_, err := ApplyFullReplace(bg, &host{steps: replies(6, 500)}, adapter, says(characters(n)), o)
			require.Equal(t, ok, err == nil, "%d: %v", n, err)
			if !ok {
				kind(t, err, EmptyResponse)
			}
		}
	})
	row("INT-14", func(t *testing.T) {
		s, h := says(failure(summarize.Invalid)), &host{steps: replies(6, 500)}
		p := GrokIntra()
		p.MinTokens, p.RetrySeconds = 1, -1
		_, err := ApplyFullReplace(bg, h, adapter, s, opts(p))
		kind(t, err, SamplerBuild)
		require.Equal(t, 1, s.calls)
	})
	row("INT-15", func(t *testing.T) {
		h := &host{steps: replies(6, 500)}
		r, err := ApplyFullReplace(bg, h, adapter, says("<analysis>hush hush</analysis>\n<summary>\n"+good("")+"</summary>"), opts(Policy{MinTokens: 1}))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(r.Passes[0].Record.Narrative, "Summary:"))
		for _, bad := range []string{"hush", "<summary>", "</summary>", "<analysis>"} {
			require.NotContains(t, r.Text, bad)
		}
	})
	row("INT-16", func(t *testing.T) {
		o := opts(Policy{MinTokens: 1})
		o.Run.Guard = &summarize.GuardOptions{NoFloor: true, NoSections: true}
		r, err := ApplyFullReplace(bg, &host{steps: replies(6, 500)}, adapter, says("All is well."), o)
		require.NoError(t, err)
		require.Equal(t, "All is well.", r.Passes[0].Record.Narrative)
		require.Contains(t, r.Text, "All is well.")
	})
	row("INT-17", func(t *testing.T) {
		byPtr := Adapter[*T]{
			To:   func(p *T) (session.Message, error) { return adapter.To(*p) },
			From: func(m session.Message) (*T, error) { v, err := adapter.From(m); return &v, err },
		}
		var list []*T
		for _, v := range replies(6, 500) {
			list = append(list, &v)
		}
		p := NewSlice(byPtr, nil, list)
		r, err := ApplySteps(bg, p, byPtr, says(good("")), withWindow(opts(Policy{MinTokens: 1}), 1000))
		require.NoError(t, err)
		left, _ := p.AccumulatedSteps(bg)
		require.Same(t, list[5], left[1], "what stays is the very item")
		require.Equal(t, r.Text, left[0].Text)
	})
	row("INT-18", func(t *testing.T) {
		h := &host{steps: replies(2, 1)}
		require.Equal(t, ErrInvalidSplit{3, 2}, h.ReplaceWithCompaction(bg, steps, 3, T{}))
		require.ErrorIs(t, h.ReplaceWithCompaction(bg, history, 1, T{}), Unsupported)
		_, err := ApplyHistory(bg, h, adapter, says(good("")), withWindow(opts(Policy{}), 1000))
		kind(t, err, NothingToCompact)
	})

	row("RTY-1", func(t *testing.T) {
		s, _, e := try(t, 2, good(""))
		require.Nil(t, e)
		require.Equal(t, 1, s.calls)
	})
	row("RTY-2", func(t *testing.T) {
		s, _, e := try(t, 2, failure(summarize.Timeout), good(""))
		require.Nil(t, e)
		require.Equal(t, 2, s.calls)
	})
	row("RTY-3", func(t *testing.T) {
		s, _, e := try(t, 2, failure(summarize.Invalid))
		require.True(t, e.Deterministic)
		require.False(t, e.Overflow)
		require.Equal(t, 1, s.calls)
	})
	row("RTY-6", func(t *testing.T) {
		s, _, e := try(t, 2, failure(summarize.Timeout))
		require.False(t, e.Deterministic)
		require.Equal(t, 2, s.calls)
	})
	row("RTY-7", func(t *testing.T) {
		s, _, e := try(t, 2, failure(summarize.Empty), "short")
		require.Equal(t, EmptyResponse, e.Kind)
		require.Equal(t, 2, s.calls)
	})
	row("FRP-2", rows["INT-6"])
	row("FRP-3", func(t *testing.T) {
		s, o := says(failure(summarize.Timeout), good("")), opts(Policy{MinTokens: 1})
		o.Reminder = "reminder"
		r, err := ApplyFullReplace(bg, &host{steps: replies(6, 500)}, adapter, s, o)
		require.NoError(t, err)
		require.Equal(t, 2, s.calls)
		require.True(t, strings.HasSuffix(r.Text, "\n\nreminder"))
	})
	row("FRP-4", rows["RTY-3"])
	row("FRP-5", func(t *testing.T) {
		s, _, e := try(t, 3, "  ")
		require.Equal(t, EmptyResponse, e.Kind)
		require.Equal(t, 3, s.calls)
	})
	row("FRP-6", func(t *testing.T) {
		s, _, e := try(t, 3, "short", good(""))
		require.Nil(t, e)
		require.Equal(t, 2, s.calls)
		s, _, e = try(t, 3, "short")
		require.Equal(t, EmptyResponse, e.Kind)
		require.Equal(t, 3, s.calls)
	})
	row("FRP-8", func(t *testing.T) {
		w, o := new(watch), opts(Policy{MinTokens: 1})
		o.Observer = w.observer()
		_, err := ApplyFullReplace(bg, &host{steps: replies(6, 500)}, adapter, says("short", good("")), o)
		require.NoError(t, err)
		require.Len(t, w.ended, 1)
		calls := w.ended[0].Result.Calls
		require.Len(t, calls, 2)
		require.NotEqual(t, "ok", calls[0].Outcome)
		require.Equal(t, "ok", calls[1].Outcome)
	})
	row("VAL-1", func(t *testing.T) {
		_, _, e := try(t, 1, "<summary> \n</summary>")
		require.Equal(t, EmptyResponse, e.Kind)
	})
	row("VAL-2", func(t *testing.T) {
		_, h, e := try(t, 1, good("a quoted <summary> and </analysis> without their mates"))
		require.Nil(t, e)
		require.NotContains(t, h.steps[0].Text, "<summary>")
	})
	// One deadline over everything, a silent summarizer included.
	row("W1", func(t *testing.T) {
		silent := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		_, _, e := tryWith(t, Policy{MinTokens: 1, TimeoutSeconds: 0.02}, silent)
		require.Equal(t, Timeout, e.Kind)
	})
	row("W2", func(t *testing.T) {
		_, _, e := try(t, 2, failure(summarize.Truncated))
		require.Equal(t, EmptyResponse, e.Kind)
	})
}

func tryWith(t *testing.T, p Policy, script ...any) (*said, *host, *Error) {
	t.Helper()
	s, h := says(script...), &host{steps: replies(6, 500)}
	o := opts(p)
	o.Now = nil
	_, err := ApplySteps(bg, h, adapter, s, withWindow(o, 1000))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Zero(t, h.applied)
	return s, h, e
}

func withWindow(o *Options, window int) *Options {
	o.Window = window
	return o
}

func ptr[V any](v V) *V { return &v }

// characters returns a text of n characters, which are more bytes.
func characters(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "ä part that is %d of them ", i)
	}
	return string([]rune(b.String())[:n-1]) + "."
}
