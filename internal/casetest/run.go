package casetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/session"
)

// Options are the optional settings of [Run]. Nil means defaults.
type Options struct {
	// Dir is where session files are made; empty means a temporary folder.
	Dir string
	// Timeout bounds one case; 0 means a minute.
	Timeout time.Duration
}

// Verdict is what came of a case.
type Verdict string

// The verdicts.
const (
	// Pass: every expectation holds.
	Pass Verdict = "pass"
	// Fail: one does not.
	Fail Verdict = "FAIL"
	// Broken: the case could not be run to its end.
	Broken Verdict = "BROKEN"
)

// Report says what came of one case.
type Report struct {
	ID, Kind string
	Verdict  Verdict
	// Problems are the expectations that do not hold, with what was seen.
	Problems []string
	// Trace is what was done, one line for each op, and what was left.
	Trace []string
	Took  time.Duration
}

// First is the first expectation that does not hold; "" when all do.
func (r *Report) First() string {
	if len(r.Problems) == 0 {
		return ""
	}
	return r.Problems[0]
}

// seen is what the runner saw of a case.
type seen struct {
	outcomes []outcome
	requests []request
	// afterAppend is built right after the last append_result.
	afterAppend *chatRequest
	trigger     *bool

	started   bool // a compaction op has begun
	first     []entry
	firstSeq  session.Seq
	firstSize int64
	sizeAfter int64
	left      []int // estimates right after commits
	open      []string

	estimates, firstEstimate, lastEstimate int

	before  []entry // the surface before a crash
	unequal string
	history []historyEntry
	refusal *refusal
}

// Run runs one case and checks what it expects.
func Run(ctx context.Context, c *Case, opts *Options) (r Report) {
	began := time.Now()
	r = Report{ID: c.ID, Kind: c.Kind}
	defer func() { r.Took = time.Since(began) }()
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	broken := func(err error) {
		r.Verdict = Broken
		r.Problems = append(r.Problems, err.Error())
	}
	if c.ops == nil {
		broken(errors.New("the case was not loaded"))
		return r
	}
	dir := o.Dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "casetest"); err != nil {
			broken(err)
			return r
		}
		defer os.RemoveAll(dir)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, errors.New("the case takes too long"))
	defer cancel()
	w, err := play(ctx, c, dir)
	if w != nil {
		defer w.close()
	}
	if err != nil {
		broken(err)
		if w != nil {
			r.Trace = w.trace()
		}
		return r
	}
	r.Problems = w.expect()
	r.Trace = w.trace()
	r.Verdict = Pass
	if len(r.Problems) > 0 {
		r.Verdict = Fail
	}
	return r
}

// play carries out what a case does. The world that it returns has to be closed,
// also beside an error; it is nil when there is none.
func play(ctx context.Context, c *Case, dir string) (*world, error) {
	w, err := newWorld(ctx, c, dir)
	if err != nil {
		return nil, err
	}
	for i, op := range c.ops {
		if err := w.do(op); err != nil {
			return w, fmt.Errorf("op %d (%s): %w", i, op.text, err)
		}
	}
	if err := w.final(); err != nil {
		return w, fmt.Errorf("final request: %w", err)
	}
	return w, nil
}

// trace is what was done and what was left.
func (w *world) trace() []string {
	var out []string
	for _, o := range w.seen.outcomes {
		s := o.op + ": " + o.class
		if o.detail != "" {
			s += " (" + clip(strings.ReplaceAll(o.detail, "\n", " "), 300) + ")"
		}
		out = append(out, s)
	}
	for _, a := range w.attempts() {
		if a.End != nil && a.End.Code != "" {
			out = append(out, "attempt failed: "+clip(a.End.Error, 300))
		}
	}
	if chats, err := w.srv.chats(); err == nil {
		for i, c := range chats {
			limit, _ := c.limit()
			out = append(out, fmt.Sprintf("summarizer request %d: %d tokens, reply limit %d", i, c.tokens(), limit))
		}
	}
	for i, e := range w.surface() {
		out = append(out, fmt.Sprintf("surface %d: %s", i, e.short()))
		if e.checkpoint {
			out = append(out, "  "+strings.ReplaceAll(clip(e.message.Text(), 1500), "\n", "\n  "))
		}
	}
	if n := len(w.seen.requests); n > 0 {
		for i, m := range w.seen.requests[n-1].Messages {
			out = append(out, fmt.Sprintf("last request %d: %s", i, clip(string(m.raw), 160)))
		}
	}
	return out
}
