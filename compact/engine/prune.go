package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/internal/plan"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// shortened is one tool result with what is to stand for it.
type shortened struct {
	seq           session.Seq
	message       session.Message
	before, after int
}

func (s shortened) saved() int { return s.before - s.after }

func savings(list []shortened) int {
	total := 0
	for _, s := range list {
		total += s.saved()
	}
	return total
}

// prune shortens tool results and commits that, as an attempt of its own kind:
// it is written only while no other compaction is under way. pick is run
// against the newest view and may be run again.
func (e *Engine) prune(ctx context.Context, agent compact.Agent, pick func(session.View) ([]shortened, error)) (out []compact.Pruned, err error) {
	id := e.opts.NewID()
	_, err = agent.Session.Update(ctx, func(v session.View) ([]session.Body, error) {
		out = nil
		list, err := pick(v)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		if err := e.free(agent.Session); err != nil {
			return nil, err
		}
		if err := cancelled(ctx); err != nil {
			return nil, err
		}
		var bodies []session.Body
		bodies, out = pruning(v, compact.PruneEvent{ID: id}, list)
		return bodies, nil
	})
	if err != nil {
		return nil, storeError(ctx, compact.PersistenceFailed, err)
	}
	return out, nil
}

// prune shortens tool results under the lease of the attempt. When pick says
// that this is enough, the end of the attempt is in the same store write.
func (a *attempt) prune(ctx context.Context, pick func(session.View) (list []shortened, enough bool, err error)) (out []compact.Pruned, enough bool, err error) {
	id := a.e.opts.NewID()
	_, err = a.agent.Session.Update(ctx, func(v session.View) ([]session.Body, error) {
		out = nil
		list, last, err := pick(v)
		if enough = last && len(list) > 0; err != nil || len(list) == 0 {
			return nil, err
		}
		if err := a.holds(); err != nil {
			return nil, err
		}
		if err := cancelled(ctx); err != nil {
			return nil, err
		}
		var bodies []session.Body
		bodies, out = pruning(v, compact.PruneEvent{ID: id, Attempt: a.id}, list)
		if enough {
			before := total(v)
			bodies = append(bodies, compact.Event(compact.EndEvent{ID: a.id, Before: before + a.pruned, After: before - savings(list)}))
		}
		return bodies, nil
	})
	if err != nil {
		return nil, false, storeError(ctx, compact.CommitFailed, err)
	}
	for _, p := range out {
		a.pruned += p.Before - p.After
	}
	return out, enough, nil
}

// pruning returns the events of a pruning of the view, and what they come to.
func pruning(v session.View, p compact.PruneEvent, list []shortened) ([]session.Body, []compact.Pruned) {
	bodies, out := make([]session.Body, 1, len(list)+2), make([]compact.Pruned, len(list))
	for i, s := range list {
		p.Nodes = append(p.Nodes, s.seq)
		p.Before += s.before
		p.After += s.after
		bodies = append(bodies, session.Replace{Start: s.seq, End: s.seq, Message: s.message})
		out[i] = compact.Pruned{Node: s.seq, By: v.Next() + 1 + session.Seq(i), Before: s.before, After: s.after}
	}
	bodies[0] = compact.Event(p)
	return bodies, out
}

// free reports, as an error with code Busy, that another attempt is alive.
func (e *Engine) free(s *session.Session) error {
	h := compact.HistoryOf(s)
	if open := h.Open(); open != nil && alive(open.Start.Holder, e.opts.Now()) {
		holder := open.Start.Holder
		return &compact.Error{Code: compact.Busy, Node: session.NoSeq, Holder: &holder, Detail: "another compaction of the session is under way"}
	}
	return nil
}

// settled reads what another process wrote when the session is busy by what this
// one knows: that attempt may have ended long ago.
func (e *Engine) settled(ctx context.Context, s *session.Session) error {
	h := compact.HistoryOf(s)
	open := h.Open()
	if open == nil || open.Start.Holder.PID == self().PID && open.Start.Holder.Host == self().Host || !alive(open.Start.Holder, e.opts.Now()) {
		return nil
	}
	if err := s.Refresh(ctx); err != nil {
		return storeError(ctx, compact.PersistenceFailed, err)
	}
	return nil
}

// results yields the positions of the tool results before end, oldest first,
// those of tools in First before the others, without pinned ones and those of
// tools in Never.
func (e *Engine) results(v session.View, end int) ([]int, error) {
	var first, rest []int
	for i := range end {
		n := v.Node(i)
		if n.Role() != session.RoleTool || v.Pinned(n.Seq) {
			continue
		}
		if len(e.opts.Prune.Never) == 0 && len(e.opts.Prune.First) == 0 {
			rest = append(rest, i)
			continue
		}
		tool, err := toolOf(v, i)
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(e.opts.Prune.Never, tool):
		case slices.Contains(e.opts.Prune.First, tool):
			first = append(first, i)
		default:
			rest = append(rest, i)
		}
	}
	return append(first, rest...), nil
}

// toolOf returns the name of the tool whose result stands at position i.
func toolOf(v session.View, i int) (string, error) {
	m, err := v.Message(i)
	if err != nil {
		return "", err
	}
	for _, p := range m.Parts {
		r, ok := p.(session.ToolResult)
		if !ok {
			continue
		}
		if r.Name != "" {
			return r.Name, nil
		}
		for j := i - 1; j >= 0; j-- {
			if !slices.Contains(v.Node(j).Calls(), r.CallID) {
				continue
			}
			call, err := v.Message(j)
			if err != nil {
				return "", err
			}
			for _, q := range call.Parts {
				if c, ok := q.(session.ToolCall); ok && c.ID == r.CallID {
					return c.Name, nil
				}
			}
		}
	}
	return "", nil
}

// oversized shortens the results from position start to before end that are
// above the limit to head and tail.
func (e *Engine) oversized(s *session.Session, v session.View, start, end, limit int) ([]shortened, error) {
	list, err := e.results(v, end)
	if err != nil {
		return nil, err
	}
	var out []shortened
	for _, i := range list {
		if i < start || int(v.Node(i).Tokens) <= limit {
			continue
		}
		head, tail := e.opts.Prune.HeadTokens, e.opts.Prune.TailTokens
		if head+tail > limit*3/4 {
			head, tail = limit/2, limit/4
		}
		c, ok, err := e.shorten(s, v, i, head, tail)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, c)
		}
	}
	return out, nil
}

// relieve picks what brings the estimate below the goal: oversized results to
// head and tail first, then old ones masked, oldest first, with a protected
// tail. ok is false when that is not enough; the oversized ones are returned
// then.
func (e *Engine) relieve(s *session.Session, v session.View, protect, tokens, goal int) (list []shortened, ok bool, err error) {
	end := protectedFrom(s, v, protect)
	list, err = e.oversized(s, v, 0, end, e.opts.Prune.OversizedTokens)
	if err != nil || tokens-savings(list) < goal {
		return list, err == nil, err
	}
	done := make(map[session.Seq]int, len(list))
	for i, c := range list {
		done[c.seq] = i
	}
	masked := slices.Clone(list)
	positions, err := e.results(v, end)
	if err != nil {
		return nil, false, err
	}
	most := 0
	for _, i := range positions {
		most += int(v.Node(i).Tokens)
	}
	if tokens-most >= goal { // not even without them: nothing of them is read
		return list, false, nil
	}
	saved := savings(masked)
	for _, i := range positions {
		if tokens-saved < goal {
			break
		}
		c, ok, err := e.shorten(s, v, i, 0, 0)
		if err != nil {
			return nil, false, err
		}
		if !ok {
			continue
		}
		if at, again := done[c.seq]; again {
			if c.after < masked[at].after {
				saved += c.saved() - masked[at].saved()
				masked[at] = c
			}
			continue
		}
		saved += c.saved()
		masked = append(masked, c)
	}
	if tokens-saved < goal {
		return masked, true, nil
	}
	return list, false, nil
}

// fitResults shortens the results at the given positions so that they cost
// excess tokens less, the largest first and all to the same level. It picks
// nothing when that cannot be reached.
func (e *Engine) fitResults(s *session.Session, v session.View, positions []int, excess int) ([]shortened, error) {
	if excess <= 0 || len(positions) == 0 {
		return nil, nil
	}
	sizes := make([]int, len(positions))
	sum := 0
	for k, i := range positions {
		sizes[k] = int(v.Node(i).Tokens)
		sum += sizes[k]
	}
	allowed, ok := plan.Fit(sizes, sum-excess, leastResult)
	if !ok {
		return nil, nil
	}
	var out []shortened
	for k, i := range positions {
		if allowed[k] >= sizes[k] {
			continue
		}
		// The note between head and tail costs a little, too.
		room := max(allowed[k]-noteTokens, 0)
		c, ok, err := e.shorten(s, v, i, room*3/4, room/4)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, c)
		}
	}
	if savings(out) < excess {
		return nil, nil
	}
	return out, nil
}

// leastResult is what a shortened result keeps in any case, noteTokens what the
// note in it costs.
const (
	leastResult = 96
	noteTokens  = 48
)

// protectedFrom returns the position from which on results are not touched:
// the newest tokens, and the newest unit in any case.
func protectedFrom(s *session.Session, v session.View, tokens int) (from int) {
	i, sum := v.Len(), 0
	for i > 0 {
		sum += int(v.Node(i - 1).Tokens)
		if sum > tokens {
			break
		}
		i--
	}
	indexed(s, v, func(x *toolpairing.Index) { from = min(x.Before(i), x.Before(max(v.Len()-1, 0))) })
	return from
}

// shorten makes the short form of the tool result at position i: head and tail
// of its text with a pointer between, or the pointer alone. ok is false when
// that is no gain.
func (e *Engine) shorten(s *session.Session, v session.View, i, head, tail int) (shortened, bool, error) {
	n := v.Node(i)
	m, err := v.Message(i)
	if err != nil {
		return shortened{}, false, err
	}
	origin, m := original(v, n, m) // also of what was shortened before
	pointer := compact.Pointer{Start: origin, End: origin, Count: 1}.String()
	out, ok := e.shortForm(s, m, int(n.Tokens), head, tail, pointer)
	out.seq = n.Seq
	return out, ok, nil
}

// shortForm makes the short form of a tool result with the pointer to what is
// left out. ok is false when it has not less than so many tokens.
func (e *Engine) shortForm(s *session.Session, m *session.Message, tokens, head, tail int, pointer string) (short shortened, ok bool) {
	c := m.Clone()
	c.Origin = nil
	c.Source.Plugin, c.Source.Form = compact.Plugin, compact.FormPruned
	bytes := len(m.Text())
	perToken := float64(bytes) / float64(max(s.Pricer().Price(m), 1))
	for k, p := range c.Parts {
		r, ok := p.(session.ToolResult)
		if !ok {
			continue
		}
		text, _ := e.opts.Redactor.Redact(session.TextOf(r.Parts)) // whole, before a cut tears a secret
		share := 1.0
		if bytes > 0 {
			share = float64(len(text)) / float64(bytes)
		}
		short := clip(text, int(float64(head)*perToken*share), int(float64(tail)*perToken*share), pointer)
		parts := []session.Part{session.Text{Text: short}}
		if head > 0 || tail > 0 {
			for _, q := range r.Parts {
				if _, isText := q.(session.Text); !isText {
					parts = append(parts, q)
				}
			}
		}
		r.Parts = parts
		c.Parts[k] = r
	}
	out := shortened{message: *c, before: tokens, after: s.Pricer().Price(c)}
	return out, out.after < out.before
}

// clip keeps about head bytes of the beginning and tail bytes of the end of a
// text and says in between what is left out and where it is.
func clip(text string, head, tail int, pointer string) string {
	if head+tail >= len(text) {
		return text
	}
	h, t := cutHead(text, head), cutTail(text, tail)
	left := len(text) - len(h) - len(t)
	note := fmt.Sprintf("[%d bytes left out; %s", left, strings.TrimPrefix(pointer, "["))
	switch {
	case h == "" && t == "":
		return note
	case t == "":
		return h + "\n" + note
	case h == "":
		return note + "\n" + t
	}
	return h + "\n" + note + "\n" + t
}

// cutHead returns at most n bytes of the beginning, ending at a line where one
// is near and never inside a character.
func cutHead(s string, n int) string {
	if n >= len(s) {
		return s
	}
	if n <= 0 {
		return ""
	}
	if i := strings.LastIndexByte(s[:n], '\n'); i > n*3/4 {
		return s[:i]
	}
	for n > 0 && !boundary(s, n) {
		n--
	}
	return s[:n]
}

// cutTail returns at most n bytes of the end, as cutHead.
func cutTail(s string, n int) string {
	if n >= len(s) {
		return s
	}
	if n <= 0 {
		return ""
	}
	at := len(s) - n
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 && i < n/4 {
		return s[at+i+1:]
	}
	for at < len(s) && !boundary(s, at) {
		at++
	}
	return s[at:]
}

// boundary reports whether the text may be cut before byte i: between two
// characters that a reader sees, not inside an emoji sequence or before an
// accent.
func boundary(s string, i int) bool {
	if i == 0 || i == len(s) {
		return true
	}
	if !utf8.RuneStart(s[i]) {
		return false
	}
	next, _ := utf8.DecodeRuneInString(s[i:])
	prev, _ := utf8.DecodeLastRuneInString(s[:i])
	const joiner = '\u200d'
	switch {
	case unicode.Is(unicode.M, next), next == joiner, prev == joiner:
		return false
	case next >= 0x1f3fb && next <= 0x1f3ff, next >= 0xe0020 && next <= 0xe007f:
		return false
	case next >= 0x1f1e6 && next <= 0x1f1ff && prev >= 0x1f1e6 && prev <= 0x1f1ff:
		return false
	case prev == '\r' && next == '\n':
		return false
	}
	return true
}
