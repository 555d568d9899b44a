package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/internal/plan"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/target"
	"github.com/agentcompact/agentcompact/toolpairing"
)

// span is what a compaction replaces: the positions from start up to, not
// including, end of a view, without the kept ones.
type span struct {
	start, end int
	seqs       []session.Seq // all of the range, in surface order
	keep       []session.Seq // those of them that stay visible
	tokens     int           // of what goes
	keepTokens int
}

func (s span) edges() compact.Span {
	return compact.Span{Start: s.seqs[0], End: s.seqs[len(s.seqs)-1]}
}

// overlaps reports whether a message is in both spans.
func (s span) overlaps(o span) bool {
	in := setOf(s.seqs)
	for _, q := range o.seqs {
		if in[q] {
			return true
		}
	}
	return false
}

// gone returns the seqs that the checkpoint replaces, in order.
func (s span) gone() []session.Seq {
	keep := setOf(s.keep)
	out := make([]session.Seq, 0, len(s.seqs)-len(s.keep))
	for _, q := range s.seqs {
		if !keep[q] {
			out = append(out, q)
		}
	}
	return out
}

// fingerprint is a hash of the span: its seqs and what is kept.
func (s span) fingerprint() string {
	h := sha256.New()
	var b [8]byte
	for _, list := range [][]session.Seq{s.seqs, s.keep} {
		for _, q := range list {
			binary.BigEndian.PutUint64(b[:], uint64(q))
			h.Write(b[:])
		}
		h.Write([]byte{0xff})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func setOf(list []session.Seq) map[session.Seq]bool {
	m := make(map[session.Seq]bool, len(list))
	for _, q := range list {
		m[q] = true
	}
	return m
}

func newSpan(v session.View, x *toolpairing.Index, start, end int, extra []session.Seq) span {
	s := span{start: start, end: end, seqs: make([]session.Seq, 0, end-start)}
	kept := keptPositions(v, x, start, end, extra)
	for i := start; i < end; i++ {
		n := v.Node(i)
		s.seqs = append(s.seqs, n.Seq)
		if kept[i] {
			s.keep = append(s.keep, n.Seq)
			s.keepTokens += int(n.Tokens)
			continue
		}
		s.tokens += int(n.Tokens)
	}
	return s
}

// keptPositions returns the positions from start up to end that are pinned, named
// in extra, or make a call that still runs, widened to whole units.
func keptPositions(v session.View, x *toolpairing.Index, start, end int, extra []session.Seq) map[int]bool {
	kept := make(map[int]bool)
	want := setOf(extra)
	for i := start; i < end; i++ {
		if q := v.Node(i).Seq; v.Pinned(q) || want[q] || x.RunningAt(i) {
			for _, j := range x.Unit(i) {
				kept[j] = true
			}
		}
	}
	return kept
}

// choose selects the oldest span of whole units before the wanted tail, within
// the target when one is set. It returns an error with code NothingToCompact
// when there is none.
func choose(s *session.Session, v session.View, t tail, tgt target.Target, extra []session.Seq) (sp span, err error) {
	indexed(s, v, func(x *toolpairing.Index) { sp, err = chooseIn(x, t, tgt, extra) })
	return sp, err
}

// indexed calls fn with the pairing index of a view: the one that the session
// keeps, when the surface of the view is its newest. What the host said of calls
// is then that of the newest view.
func indexed(s *session.Session, v session.View, fn func(*toolpairing.Index)) {
	done := false
	toolpairing.For(s).With(func(x *toolpairing.Index) {
		if now := x.View(); now.Generation() == v.Generation() && now.Len() == v.Len() {
			fn(x)
			done = true
		}
	})
	if !done {
		fn(toolpairing.Of(v))
	}
}

func chooseIn(x *toolpairing.Index, t tail, tgt target.Target, extra []session.Seq) (span, error) {
	v := x.View()
	from, to := 0, v.Len()
	if tgt != 0 {
		from, to = tgt.Span(v)
		from = x.PassesAfter(from)
		if to < v.Len() {
			to = x.PassesBefore(to)
			t = tail{tokens: 0, messages: 0} // the tail lies behind the target
			if from < to {
				return spanOf(v, x, from, to, extra)
			}
		}
	}
	if from >= to {
		return span{}, fail(compact.NothingToCompact, "no whole unit stands before the tail")
	}
	if tgt == 0 {
		extra = append(extra[:len(extra):len(extra)], runningPrompt(v, t.prompt)...)
	}
	kept := keptPositions(v, x, from, to, extra)
	items := make([]plan.Item, 0, to-from)
	for i := from; i < to; i++ {
		n := v.Node(i)
		items = append(items, plan.Item{
			Tokens:     int(n.Tokens),
			Cut:        x.Passes(i),
			Keep:       kept[i],
			Checkpoint: compact.IsCheckpointSource(n.Source()),
		})
	}
	start, end, ok := plan.Select(items, plan.Policy{TailTokens: t.tokens, TailMessages: t.messages})
	if !ok {
		return span{}, fail(compact.NothingToCompact, "no span of whole units stands before the tail of %s, checkpoints and pins aside", t)
	}
	return spanOf(v, x, from+start, from+end, extra)
}

// attachmentRoom is how much more a prompt with pictures or files may have:
// they cannot be quoted in a checkpoint.
const attachmentRoom = 3

// runningPrompt returns the prompt of the newest turn, as far as it has at most
// limit tokens: what the agent is at must stay before its eyes.
func runningPrompt(v session.View, limit int) []session.Seq {
	turns := v.Turns()
	if len(turns) == 0 || limit <= 0 {
		return nil
	}
	var out []session.Seq
	sum, attached := 0, false
	for i := turns[len(turns)-1].Start; i < v.Len(); i++ {
		n := v.Node(i)
		if n.Role() != session.RoleUser || n.Source().Kind != session.SourceUser {
			break
		}
		sum += int(n.Tokens)
		out = append(out, n.Seq)
		if m, err := v.Message(i); err == nil {
			for _, p := range m.Parts {
				if _, text := p.(session.Text); !text {
					attached = true
				}
			}
		}
	}
	if sum > limit && !(attached && sum <= attachmentRoom*limit) {
		return nil
	}
	return out
}

func spanOf(v session.View, x *toolpairing.Index, start, end int, extra []session.Seq) (span, error) {
	s := newSpan(v, x, start, end, extra)
	if len(s.keep) == len(s.seqs) {
		return span{}, fail(compact.NothingToCompact, "everything before the tail is pinned")
	}
	fresh := false
	keep := setOf(s.keep)
	for i := start; i < end; i++ {
		n := v.Node(i)
		fresh = fresh || !keep[n.Seq] && !compact.IsCheckpointSource(n.Source())
	}
	if !fresh {
		return span{}, fail(compact.NothingToCompact, "everything before the tail is a checkpoint or pinned already")
	}
	return s, nil
}

// spanAround returns the run of the surface that holds what is shortened.
func spanAround(v session.View, list []shortened) (span, error) {
	first, last := v.Len(), 0
	for _, c := range list {
		i, err := v.Position(c.seq)
		if err != nil {
			return span{}, err
		}
		first, last = min(first, i), max(last, i)
	}
	return newSpan(v, toolpairing.Of(v), first, last+1, nil), nil
}

// region returns the span that start and end name, or says which edge is wrong.
func region(s *session.Session, v session.View, start, end session.Seq) (sp span, err error) {
	indexed(s, v, func(x *toolpairing.Index) { sp, err = regionIn(x, start, end) })
	return sp, err
}

func regionIn(x *toolpairing.Index, start, end session.Seq) (span, error) {
	v := x.View()
	missing := func(edge string, q session.Seq, err error) error {
		return &compact.Error{Code: compact.NotFound, Edge: edge, Node: q, Detail: "the message is not on the surface", Err: err}
	}
	a, err := v.Position(start)
	if err != nil {
		return span{}, missing("start", start, err)
	}
	b, err := v.Position(end)
	if err != nil {
		return span{}, missing("end", end, err)
	}
	if a > b {
		return span{}, &compact.Error{Code: compact.Reversed, Node: start,
			Detail: "event " + seqText(start) + " stands after event " + seqText(end) + " on the surface"}
	}
	runs := false
	for i := a; i <= b; i++ {
		runs = runs || x.RunningAt(i)
	}
	for _, edge := range []struct {
		name string
		cut  int
		node session.Seq
	}{{"start", a, start}, {"end", b + 1, end}} {
		if x.Balanced(edge.cut) || !runs && x.Passes(edge.cut) {
			continue
		}
		node, id, _ := x.Splits(edge.cut)
		detail := "it separates call " + quoted(id) + " in event " + seqText(node) + " from its result"
		if !answered(v, node, id) {
			detail = "call " + quoted(id) + " in event " + seqText(node) + " has no result yet and may still be running: its round cannot be replaced"
		}
		return span{}, &compact.Error{Code: compact.Unbalanced, Edge: edge.name, Node: edge.node, CallID: id, Detail: detail}
	}
	s := newSpan(v, x, a, b+1, nil)
	if len(s.keep) == len(s.seqs) {
		return span{}, &compact.Error{Code: compact.IsPinned, Node: start, Detail: "everything in the span is pinned"}
	}
	return s, nil
}

// answered reports whether a result of a call stands behind it.
func answered(v session.View, call session.Seq, id string) bool {
	at, err := v.Position(call)
	for i := at + 1; err == nil && i < v.Len(); i++ {
		if slices.Contains(v.Node(i).Results(), id) {
			return true
		}
	}
	return false
}

// same reports whether the span stands in the view as it was: the same messages
// in a row, both edges balanced, and nothing of what goes pinned since.
func (s span) same(of *session.Session, v session.View) (err error) {
	at, err := v.Position(s.seqs[0])
	if err != nil {
		return fail(compact.Changed, "event %d is not on the surface any more", s.seqs[0])
	}
	if at+len(s.seqs) > v.Len() {
		return fail(compact.Changed, "the span ends earlier than it did")
	}
	keep := setOf(s.keep)
	for i, q := range s.seqs {
		if n := v.Node(at + i); n.Seq != q {
			return fail(compact.Changed, "event %d stands where event %d stood", n.Seq, q)
		}
		if !keep[q] && v.Pinned(q) {
			return fail(compact.Changed, "event %d was pinned meanwhile", q)
		}
	}
	indexed(of, v, func(x *toolpairing.Index) {
		for _, cut := range []int{at, at + len(s.seqs)} {
			if !x.Passes(cut) {
				node, id, _ := x.Splits(cut)
				err = fail(compact.Changed, "the edge now separates call %q in event %d from its result", id, node)
			}
		}
		for i, q := range s.seqs {
			if !keep[q] && x.RunningAt(at+i) {
				err = fail(compact.Changed, "a call of event %d runs now", q)
			}
		}
	})
	return err
}
