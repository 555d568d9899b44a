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
	facts []Fact
	words [][]word
	keys  [][]string           // literals of a word, of all facts one after the other
	first []int                // where the words of a fact start in keys
	value []map[string]float64 // of the keys of a fact that are not shown yet
	shown map[string]bool      // quoted already
	count func(string) int
	taken [][]bool             // words of each fact that are quoted
	begun map[session.Seq]bool // messages that have a quote
	queue []offer
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
func packFacts(facts []Fact, shown, named map[string]bool, budget int, count func(string) int) []string {
	if budget <= 8 || len(facts) == 0 {
		return nil
	}
	p := packer{facts: facts, shown: shown, count: count, words: make([][]word, len(facts)), first: make([]int, len(facts)),
		value: make([]map[string]float64, len(facts)), taken: make([][]bool, len(facts)), begun: map[session.Seq]bool{}}
	of := map[session.Seq][]int{}
	newest := newestKey(facts)
	for i, f := range facts {
		v := make(map[string]float64, len(f.Keys))
		for _, k := range f.Keys {
			if !shown[k.Text] {
				v[k.Text] = odds(k.useful(newest))
				if named[k.Text] {
					v[k.Text] *= 0.6
				}
			}
		}
		p.value[i] = v
		if len(v) > 0 {
			p.words[i] = wordsOf(f.Line)
			p.first[i] = len(p.keys)
			for _, w := range p.words[i] {
				var lits []string
				for a, b := nextLiteral(f.Line[:w.b], w.a); a >= 0; a, b = nextLiteral(f.Line[:w.b], b) {
					if _, ok := v[f.Line[a:b]]; ok {
						lits = append(lits, f.Line[a:b])
					}
				}
				p.keys = append(p.keys, lits)
			}
			p.taken[i] = make([]bool, len(p.words[i]))
			of[f.Seq] = append(of[f.Seq], i)
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
		if o.cost > left {
			for _, k := range p.keysIn(o.factQuote) {
				delete(p.value[o.fact], k)
			}
			p.push(o.fact)
			continue
		}
		left -= o.cost
		first := !p.begun[facts[o.fact].Seq]
		p.begun[facts[o.fact].Seq] = true
		for i := o.a; i < o.b; i++ {
			p.taken[o.fact][i] = true
		}
		for _, k := range p.keysIn(o.factQuote) {
			addLiteral(shown, k)
		}
		p.push(o.fact)
		if first { // the others of this message are cheaper now
			for _, i := range of[facts[o.fact].Seq] {
				if i != o.fact {
					p.push(i)
				}
			}
		}
	}
	p.plain(left)
	return p.lines()
}

// plain takes lines without literals for what is left.
func (p *packer) plain(left int) {
	for i, f := range p.facts {
		if len(f.Keys) > 0 {
			continue
		}
		cost := p.count(f.Line) + 5
		if cost > left {
			continue
		}
		left -= cost
		p.words[i] = wordsOf(f.Line)
		p.taken[i] = make([]bool, len(p.words[i]))
		for w := range p.taken[i] {
			p.taken[i][w] = true
		}
	}
}

// best returns the quote of a fact that says most for its price.
func (p *packer) best(i int) (offer, bool) {
	line, words := p.facts[i].Line, p.words[i]
	best := offer{}
	if len(p.value[i]) == 0 || len(words) == 0 {
		return best, false
	}
	width := min(quoteWidth, len(words))
	seam := 2
	if !p.begun[p.facts[i].Seq] {
		seam += 4
	}
	for a := 0; a+width <= len(words); a++ {
		q := factQuote{i, a, a + width}
		gain := p.gain(q)
		if gain == 0 {
			continue
		}
		cost := p.count(line[words[a].a:words[a+width-1].b]) + seam
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
		for _, q := range []factQuote{{i, best.a - 1, best.b}, {i, best.a, best.b + 1}, {i, best.a - 2, best.b}, {i, best.a, best.b + 2}} {
			if q.a < 0 || q.b > len(words) {
				continue
			}
			cost := p.count(line[words[q.a].a:words[q.b-1].b]) + seam
			if r := p.gain(q) / float64(cost); r > wider.ratio {
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
func (p *packer) gain(q factQuote) float64 {
	g := 0.0
	from := p.first[q.fact]
	for w := q.a; w < q.b; w++ {
	next:
		for i, k := range p.keys[from+w] {
			if p.shown[k] {
				continue
			}
			for _, o := range p.keys[from+w][:i] {
				if o == k {
					continue next
				}
			}
			for x := q.a; x < w; x++ {
				for _, o := range p.keys[from+x] {
					if o == k {
						continue next
					}
				}
			}
			g += p.value[q.fact][k]
		}
	}
	return g
}

// keysIn returns the keys in a quote that are not shown yet.
func (p *packer) keysIn(q factQuote) []string {
	var out []string
	for _, word := range p.keys[p.first[q.fact]+q.a : p.first[q.fact]+q.b] {
		for _, k := range word {
			if !p.shown[k] {
				out = append(out, k)
			}
		}
	}
	return out
}

func (p *packer) push(i int) {
	if o, ok := p.best(i); ok {
		heap.Push(p, o)
	}
}

// lines renders what was taken.
func (p *packer) lines() []string {
	order := make([]int, 0, len(p.facts))
	for i := range p.facts {
		if slices.Contains(p.taken[i], true) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.facts[a].Seq, p.facts[b].Seq) })
	var out []string
	last := session.NoSeq
	for _, i := range order {
		f := p.facts[i]
		var runs []string
		for a := 0; a < len(p.taken[i]); {
			if !p.taken[i][a] {
				a++
				continue
			}
			b := a
			for b < len(p.taken[i]) && p.taken[i][b] {
				b++
			}
			runs = append(runs, f.Line[p.words[i][a].a:p.words[i][b-1].b])
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

// literalSet returns the literals of texts, with their ends: who sees a path
// sees the name of the file.
func literalSet(texts ...string) map[string]bool {
	set := map[string]bool{}
	for _, s := range texts {
		for a, b := nextLiteral(s, 0); a >= 0; a, b = nextLiteral(s, b) {
			addLiteral(set, s[a:b])
		}
	}
	return set
}

func addLiteral(set map[string]bool, lit string) {
	set[lit] = true
	for i := 1; i < len(lit); i++ {
		if lit[i-1] == '/' {
			set[lit[i:]] = true
		}
	}
}
