package summarize

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// quoteWidth is how many words a quote has at least, the literal included, where
// the line has so many: enough to tell what the literal is.
const quoteWidth = 4

// factQuote is a part of a fact that goes into the checkpoint.
type factQuote struct {
	fact int
	a, b int // words of the line
}

// packer chooses quotes by usefulness for their price until a budget is used
// up.
type packer struct {
	facts []packedFact
	lits  []litState
	ids   map[string]int32 // literals to lits
	count func(string) int
	begun map[session.Seq]bool // messages that have a quote
	queue []offer
}

// packedFact is a fact with what the packer knows of it.
type packedFact struct {
	*Fact
	words []word
	keys  []packedKey
	alive int     // keys that have not been given up
	lits  []int32 // in keys, of all words one after the other
	from  []int32 // where those of a word start in lits; one more than words
	taken []bool  // words that are quoted
	costs []int32 // of the narrowest quotes, by their first word; 0: not asked yet
	best  offer   // as long as it is not stale
	ok    bool
	stale bool
}

// packedKey is a literal that a fact is quoted for.
type packedKey struct {
	lit   int32
	value float64
	dead  bool // too dear
}

// litState is a literal of any fact.
type litState struct {
	text  string
	shown bool    // quoted already
	facts []int32 // that are quoted for it
}

type word struct{ a, b int }

type offer struct {
	factQuote
	ratio float64
	cost  int
}

// packFacts returns the chosen quotes, one line for each message in order, with
// the seq that they stand in. Literals in shown are quoted elsewhere, those in
// named are at least mentioned.
func packFacts(facts []Fact, shown, named []string, budget int, count func(string) int) []string {
	if budget <= 8 || len(facts) == 0 {
		return nil
	}
	keys := 0
	for i := range facts {
		keys += len(facts[i].Keys)
	}
	p := packer{count: count, facts: make([]packedFact, len(facts)), ids: make(map[string]int32, keys),
		lits: make([]litState, 0, keys), begun: map[session.Seq]bool{}}
	for i := range facts {
		p.facts[i].Fact = &facts[i]
		for _, k := range facts[i].Keys {
			if _, ok := p.ids[k.Text]; !ok {
				p.ids[k.Text] = int32(len(p.lits))
				p.lits = append(p.lits, litState{text: k.Text})
			}
		}
	}
	mentioned := make([]bool, len(p.lits))
	p.eachOf(named, func(id int32) { mentioned[id] = true })
	p.eachOf(shown, func(id int32) { p.lits[id].shown = true })
	of := map[session.Seq][]int32{}
	newest := newestKey(facts)
	for i := range p.facts {
		f := &p.facts[i]
		for _, k := range f.Keys {
			id := p.ids[k.Text]
			if p.lits[id].shown {
				continue
			}
			v := odds(k.useful(newest))
			if mentioned[id] {
				v *= 0.6
			}
			if at := f.key(id); at >= 0 {
				f.keys[at].value = v
				continue
			}
			f.keys = append(f.keys, packedKey{lit: id, value: v})
			p.lits[id].facts = append(p.lits[id].facts, int32(i))
		}
		if f.alive = len(f.keys); f.alive > 0 {
			p.words(f)
			of[f.Seq] = append(of[f.Seq], int32(i))
			p.push(i)
		}
	}
	left := budget
	for len(p.queue) > 0 {
		o := heap.Pop(&p).(offer)
		now, ok := p.best(o.fact)
		if !ok {
			continue
		}
		if now.factQuote != o.factQuote || now.ratio < o.ratio {
			if len(p.queue) > 0 && now.ratio < p.queue[0].ratio {
				heap.Push(&p, now)
				continue
			}
			o = now
		}
		f := &p.facts[o.fact]
		if o.cost > left {
			p.giveUp(f, o.factQuote)
			p.push(o.fact)
			continue
		}
		left -= o.cost
		first := !p.begun[f.Seq]
		p.begun[f.Seq] = true
		for i := o.a; i < o.b; i++ {
			f.taken[i] = true
		}
		p.show(f, o.factQuote)
		p.push(o.fact)
		if first { // the others of this message are cheaper now
			for _, i := range of[f.Seq] {
				if int(i) != o.fact {
					p.facts[i].stale = true
					p.push(int(i))
				}
			}
		}
	}
	p.plain(left)
	return p.lines()
}

// eachOf calls fn for every literal of texts that a fact has. Who sees a path
// sees the name of the file, so the ends of literals count, too.
func (p *packer) eachOf(texts []string, fn func(id int32)) {
	for _, s := range texts {
		for a, b := nextLiteral(s, 0); a >= 0; a, b = nextLiteral(s, b) {
			p.endsOf(s[a:b], fn)
		}
	}
}

// endsOf calls fn for a literal, and for each of its ends behind a slash, that a
// fact has.
func (p *packer) endsOf(lit string, fn func(id int32)) {
	if id, ok := p.ids[lit]; ok {
		fn(id)
	}
	for i := 1; i < len(lit); i++ {
		if lit[i-1] == '/' {
			if id, ok := p.ids[lit[i:]]; ok {
				fn(id)
			}
		}
	}
}

// words takes the line of a fact apart.
func (p *packer) words(f *packedFact) {
	f.words = wordsOf(f.Line)
	f.from = make([]int32, 1, len(f.words)+1)
	for _, w := range f.words {
		for a, b := nextLiteral(f.Line[:w.b], w.a); a >= 0; a, b = nextLiteral(f.Line[:w.b], b) {
			if id, ok := p.ids[f.Line[a:b]]; ok {
				if at := f.key(id); at >= 0 {
					f.lits = append(f.lits, int32(at))
				}
			}
		}
		f.from = append(f.from, int32(len(f.lits)))
	}
	f.taken = make([]bool, len(f.words))
	f.costs = make([]int32, len(f.words))
	f.stale = true
}

// key returns where a literal is among the keys of a fact, -1 if it is not.
func (f *packedFact) key(lit int32) int {
	for i := range f.keys {
		if f.keys[i].lit == lit {
			return i
		}
	}
	return -1
}

// giveUp lets go of the keys of a quote that is too dear.
func (p *packer) giveUp(f *packedFact, q factQuote) {
	for _, at := range f.lits[f.from[q.a]:f.from[q.b]] {
		if k := &f.keys[at]; !k.dead && !p.lits[k.lit].shown {
			k.dead, f.stale = true, true
			f.alive--
		}
	}
}

// show notes the literals of a quote as shown, wherever else they stand.
func (p *packer) show(f *packedFact, q factQuote) {
	f.stale = true
	for _, at := range f.lits[f.from[q.a]:f.from[q.b]] {
		if l := &p.lits[f.keys[at].lit]; !l.shown {
			p.endsOf(l.text, func(id int32) {
				p.lits[id].shown = true
				for _, i := range p.lits[id].facts {
					p.facts[i].stale = true
				}
			})
		}
	}
}

// plain takes lines without literals for what is left.
func (p *packer) plain(left int) {
	for i := range p.facts {
		f := &p.facts[i]
		if len(f.Keys) > 0 {
			continue
		}
		cost := p.count(f.Line) + 5
		if cost > left {
			continue
		}
		left -= cost
		f.words = wordsOf(f.Line)
		f.taken = make([]bool, len(f.words))
		for w := range f.taken {
			f.taken[w] = true
		}
	}
}

// best returns the quote of a fact that says most for its price.
func (p *packer) best(i int) (offer, bool) {
	f := &p.facts[i]
	if f.stale {
		f.best, f.ok = p.search(f, i)
		f.stale = false
	}
	return f.best, f.ok
}

func (p *packer) search(f *packedFact, i int) (offer, bool) {
	line, words := f.Line, f.words
	best := offer{}
	if f.alive == 0 || len(words) == 0 {
		return best, false
	}
	width := min(quoteWidth, len(words))
	seam := 2
	if !p.begun[f.Seq] {
		seam += 4
	}
	for a := 0; a+width <= len(words); a++ {
		q := factQuote{i, a, a + width}
		gain := p.gain(f, q)
		if gain == 0 {
			continue
		}
		if f.costs[a] == 0 {
			f.costs[a] = int32(p.count(line[words[a].a:words[a+width-1].b]))
		}
		cost := int(f.costs[a]) + seam
		if r := gain / float64(cost); r > best.ratio {
			best = offer{q, r, cost}
		}
	}
	if best.ratio == 0 {
		return best, false
	}
	// wider, as long as the price is right
	for {
		wider := best
		for _, q := range [4]factQuote{{i, best.a - 1, best.b}, {i, best.a, best.b + 1}, {i, best.a - 2, best.b}, {i, best.a, best.b + 2}} {
			if q.a < 0 || q.b > len(words) {
				continue
			}
			cost := p.count(line[words[q.a].a:words[q.b-1].b]) + seam
			if r := p.gain(f, q) / float64(cost); r > wider.ratio {
				wider = offer{q, r, cost}
			}
		}
		if wider.factQuote == best.factQuote {
			return best, true
		}
		best = wider
	}
}

// gain sums the value of the keys that a quote would show and that are not
// shown yet.
func (p *packer) gain(f *packedFact, q factQuote) float64 {
	g := 0.0
	lits := f.lits[f.from[q.a]:f.from[q.b]]
	for n, at := range lits {
		if k := &f.keys[at]; !k.dead && !p.lits[k.lit].shown && !slices.Contains(lits[:n], at) {
			g += k.value
		}
	}
	return g
}

func (p *packer) push(i int) {
	if o, ok := p.best(i); ok {
		heap.Push(p, o)
	}
}

// lines renders what was taken.
func (p *packer) lines() []string {
	var order []*packedFact
	for i := range p.facts {
		if slices.Contains(p.facts[i].taken, true) {
			order = append(order, &p.facts[i])
		}
	}
	slices.SortStableFunc(order, func(a, b *packedFact) int { return cmp.Compare(a.Seq, b.Seq) })
	var out, runs []string
	last := session.NoSeq
	for _, f := range order {
		runs = runs[:0]
		for a := 0; a < len(f.taken); {
			if !f.taken[a] {
				a++
				continue
			}
			b := a
			for b < len(f.taken) && f.taken[b] {
				b++
			}
			runs = append(runs, f.Line[f.words[a].a:f.words[b-1].b])
			a = b
		}
		text := quoteLine(strings.Join(runs, " … "))
		if f.Seq == last {
			out[len(out)-1] += " … " + text
			continue
		}
		last = f.Seq
		out = append(out, seqPrefix(f.Seq)+text)
	}
	return out
}

func (p *packer) Len() int { return len(p.queue) }
func (p *packer) Less(i, j int) bool {
	a, b := p.queue[i], p.queue[j]
	return cmp.Or(cmp.Compare(b.ratio, a.ratio), cmp.Compare(a.fact, b.fact), cmp.Compare(a.a, b.a)) < 0
}
func (p *packer) Swap(i, j int) { p.queue[i], p.queue[j] = p.queue[j], p.queue[i] }
func (p *packer) Push(x any)    { p.queue = append(p.queue, x.(offer)) }
func (p *packer) Pop() any {
	x := p.queue[len(p.queue)-1]
	p.queue = p.queue[:len(p.queue)-1]
	return x
}

func wordsOf(s string) []word {
	var out []word
	for i := 0; i < len(s); {
		for i < len(s) && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r') {
			i++
		}
		a := i
		for i < len(s) && s[i] != ' ' && s[i] != '\t' && s[i] != '\r' {
			i++
		}
		if i > a {
			out = append(out, word{a, i})
		}
	}
	return out
}
