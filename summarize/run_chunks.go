package summarize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/agentcompact/agentcompact/internal/plan"
	"github.com/agentcompact/agentcompact/session"
)

// sizer is what a plan wants to know of a summarizer.
type sizer interface {
	overhead(req *Request) int
	reserve(req *Request) int
}

const (
	// minEntries is the least room for entries that a plan works with.
	minEntries = 200
	// minPart is the least budget of the summary of a chunk.
	minPart = 200
	// maxDepth bounds how often a piece is cut anew.
	maxDepth = 12
)

// room returns how many tokens the entries of one request may have; 0 when
// nothing bounds them.
func (r *run) room(m *model, req *Request) int {
	m.mu.Lock()
	most := m.most
	m.mu.Unlock()
	if w, ok := m.Summarizer.(Windowed); ok {
		if window := w.Window(); window > 0 {
			free := window - window/50 - overhead(m, req)
			if s, ok := m.Summarizer.(sizer); ok {
				free -= s.reserve(req)
			} else {
				free -= min(req.MaxTokens, window/4)
			}
			free = max(free, minEntries)
			if most == 0 || free < most {
				most = free
			}
		}
	}
	if c := r.o.ChunkTokens; c > 0 && (most == 0 || c < most) {
		most = c
	}
	return most
}

// overhead is what a request has beside its entries.
func overhead(m *model, req *Request) int {
	if s, ok := m.Summarizer.(sizer); ok {
		return s.overhead(req)
	}
	return 512
}

// sizes returns the tokens of the entries as a transcript has them, and their
// sum.
func sizes(req *Request, items []Item) (each []int, total int) {
	each = make([]int, len(items))
	t := &transcript{}
	for i := range items {
		if each[i] = items[i].size; each[i] == 0 {
			each[i] = req.Count(entryText(t, &items[i]))
		}
		total += each[i]
	}
	return each, total
}

// sized returns a copy of the request whose items know their sizes.
func sized(req *Request) *Request {
	c := *req
	c.Items = slices.Clone(req.Items)
	each, _ := sizes(req, req.Items)
	for i := range c.Items {
		c.Items[i].size = each[i]
	}
	return &c
}

// whole writes the summary of the span.
func (r *run) whole(ctx context.Context) (text, error) {
	if n := r.planned(); n > r.o.MaxCalls {
		return text{}, &Failure{Class: Budget, Detail: fmt.Sprintf("%d calls are needed, %d are allowed", n, r.o.MaxCalls)}
	}
	m := r.model()
	_, total := sizes(r.req, r.req.Items)
	if room := r.room(m, r.req); room == 0 || total <= room {
		t, who, err := r.write(ctx, piece{req: r.req, judge: r.req, guard: r.o.Guard, purpose: "summary"})
		if err != errCut {
			return t, err
		}
		m = who
	}
	texts, err := r.parts(ctx, m, r.req, r.req.Items, r.room(m, r.req), 0)
	if err != nil {
		return text{}, err
	}
	r.chunks = len(texts)
	return r.reduce(ctx, texts)
}

// model returns the model that is asked first.
func (r *run) model() *model {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.models[r.first]
}

// cut lowers what m is given after a request of so many tokens of entries was
// too long for it. It reports whether smaller requests make sense.
func (r *run) cut(m *model, f *Failure, req *Request, entries int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	over := overhead(m, req)
	sent := entries + over
	next := sent/2 - over // no number: half of what was refused
	guess := true
	if f.Limit > 0 {
		limit := f.Limit
		if s, ok := m.Summarizer.(sizer); ok {
			limit -= min(s.reserve(req), limit/4)
		}
		if f.Actual > sent { // the provider counts more than we do
			limit = int(float64(limit) * float64(sent) / float64(f.Actual))
		}
		if n := limit - limit/50 - over; n < minEntries {
			return false // the instructions alone fill it
		} else if n < entries {
			next, guess = n, false
		}
	}
	next = max(next, minEntries)
	if next >= entries {
		return false // it cannot be made smaller
	}
	if m.most == 0 || next < m.most {
		m.most, m.guess = next, guess
	}
	return true
}

// parts writes the summaries of consecutive parts of items, oldest first. The
// parts are within the room that m has.
func (r *run) parts(ctx context.Context, m *model, base *Request, items []Item, room, depth int) ([]text, error) {
	if depth > maxDepth {
		return nil, &Failure{Class: Overflow, Detail: "the pieces cannot be cut small enough"}
	}
	chunks := r.chunked(m, base, items, room)
	from := 0
	out := make([][]text, len(chunks))
	for m.guessed() && from == 0 { // find out with one request whether the guess holds
		t, err := r.part(ctx, m, base, chunks, 0, room, -1)
		if err == errRecut {
			room = r.room(m, base)
			if depth++; depth > maxDepth {
				return nil, &Failure{Class: Overflow, Detail: "the pieces cannot be cut small enough"}
			}
			chunks = r.chunked(m, base, items, room)
			out = make([][]text, len(chunks))
			continue
		}
		if err != nil {
			return nil, err
		}
		out[0], from = t, 1
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.o.Parallel)
	done := from
	one := func(ctx context.Context, i int) error {
		t, err := r.part(ctx, m, base, chunks, i, room, depth)
		if err != nil {
			return err
		}
		out[i] = t
		r.mu.Lock()
		done++
		n := done
		r.mu.Unlock()
		r.progress("chunk", n, len(chunks))
		return nil
	}
	for i := from; i < len(chunks); i++ {
		g.Go(func() error {
			if err := context.Cause(gctx); err != nil {
				return err
			}
			return one(gctx, i)
		})
	}
	if err := g.Wait(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	var all []text
	for _, t := range out {
		all = append(all, t...)
	}
	return all, nil
}

// errRecut says that the first chunk of a guess was too long.
var errRecut = errors.New("the guess was too high")

// guessed reports whether what the model is given is a guess.
func (m *model) guessed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.guess
}

// part writes the summary of one chunk, or of its parts when it turns out to be
// too long; at depth -1 it leaves that to the caller.
func (r *run) part(ctx context.Context, m *model, base *Request, chunks [][]Item, i, room, depth int) ([]text, error) {
	items, n := chunks[i], len(chunks)
	req := *base
	req.Items = items
	req.Head = base.Head && i == 0 && !items[0].piece
	req.Part, req.Parts = i+1, n
	budget := max(minPart, room/max(n, 1))
	if req.MaxTokens == 0 || budget < req.MaxTokens {
		req.MaxTokens = budget
	}
	_, total := sizes(&req, items)
	sub := *base
	sub.Head = req.Head
	if now := r.room(m, &req); now > 0 && total > now && now < room {
		return r.parts(ctx, m, &sub, items, now, depth+1) // learned meanwhile
	}
	if total <= min(minPart, room/2) && n > 1 {
		return []text{{text: verbatim(items)}}, nil // a note would not be shorter
	}
	guard := GuardOptions{}
	if r.o.Guard != nil {
		guard = *r.o.Guard
	}
	// The note on a part may be longer than asked: the reduce step bounds it.
	guard.MinGain, guard.MaxTokens = 0, 2*req.MaxTokens
	t, who, err := r.write(ctx, piece{req: &req, judge: &req, guard: &guard, purpose: purposeOf(&req)})
	if err == nil {
		return []text{t}, nil
	}
	if err == errCut {
		if depth < 0 && who == m {
			return nil, errRecut
		}
		return r.parts(ctx, who, &sub, items, r.room(who, &req), depth+1)
	}
	return nil, err
}

// verbatim returns the entries as they are, for the reduce step to read.
func verbatim(items []Item) string {
	var b strings.Builder
	t := &transcript{}
	for i := range items {
		if head, body := t.entry(&items[i]); head != "" {
			line(&b, head+": "+body)
		}
	}
	return b.String()
}

func purposeOf(req *Request) string {
	if isReduce(req) {
		return "reduce"
	}
	return "chunk"
}

// reduce writes one summary of several.
func (r *run) reduce(ctx context.Context, texts []text) (text, error) {
	for round := 0; ; round++ {
		req := *r.req
		req.Items = make([]Item, len(texts))
		for i, t := range texts {
			req.Items[i] = Item{
				Seq: session.NoSeq, Checkpoint: true, Narrative: t.text, Tokens: r.req.Count(t.text),
				Message: &session.Message{
					Role: session.RoleUser, Parts: []session.Part{session.Text{Text: t.text}},
					Source: session.Source{Kind: session.SourcePlugin, Plugin: "compact", Form: "part"},
				},
				label: fmt.Sprintf("note on part %d of %d", i+1, len(texts)),
			}
		}
		req.Head = false
		r.progress("reduce", round, 0)
		_, total := sizes(&req, req.Items)
		m := r.model()
		if room := r.room(m, &req); room == 0 || total <= room || len(texts) == 1 {
			t, who, err := r.write(ctx, piece{req: &req, judge: r.req, guard: r.o.Guard, purpose: "reduce"})
			if err != errCut {
				return t, err
			}
			m = who
		}
		next, err := r.parts(ctx, m, &req, req.Items, r.room(m, &req), 0)
		if err != nil {
			return text{}, err
		}
		if len(next) >= len(texts) {
			return text{}, &Failure{Class: Overflow, Detail: "the summaries of the parts do not get fewer"}
		}
		texts = next
	}
}

// planned is how many requests a run makes if all goes well.
func (r *run) planned() int {
	m := r.model()
	_, total := sizes(r.req, r.req.Items)
	room := r.room(m, r.req)
	if room == 0 || total <= room {
		return 1
	}
	chunks := r.chunked(m, r.req, r.req.Items, room)
	n, calls := len(chunks), 0
	for _, c := range chunks {
		if _, total := sizes(r.req, c); total > min(minPart, room/2) {
			calls++
		}
	}
	for n > 1 {
		each := max(minPart, room/n)
		if r.req.MaxTokens > 0 {
			each = min(each, r.req.MaxTokens)
		}
		if n*each <= room {
			return calls + 1
		}
		next := (n*each + room - 1) / room
		if next >= n {
			return calls + 1
		}
		n = next
		calls += n
	}
	return calls
}

// chunked cuts items at balanced cuts into runs within the room, and cuts the
// text of units that are larger.
func (r *run) chunked(m *model, req *Request, items []Item, room int) [][]Item {
	if room <= 0 {
		return [][]Item{items}
	}
	each, _ := sizes(req, items)
	cuts := balanced(items)
	var out [][]Item
	for _, c := range plan.Chunks(each, func(i int) bool { return cuts[i] }, room) {
		sum := 0
		for _, n := range each[c[0]:c[1]] {
			sum += n
		}
		if sum <= room {
			out = append(out, items[c[0]:c[1]])
			continue
		}
		out = append(out, r.split(m, req, items[c[0]:c[1]], room)...)
	}
	return out
}
