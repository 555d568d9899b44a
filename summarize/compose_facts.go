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

// quoteSeam is what a quote costs beside its words, in tokens: the mark of what
// is left out, and its part of the number in front of the line. One number
// stands for the events from there to quoteSpan behind it.
const (
	quoteSeam = 2
	quoteSpan = 20
)

// quoteWord is what a word counts beside its tokens when quotes are compared: it
// holds the long names, which say most, against short ones.
const quoteWord = 2

// factQuote is a part of a fact that goes into the checkpoint.
type factQuote struct {
	fact int
	a, b int // words of the line
}

// packer chooses quotes by usefulness for their price until a budget is used
// up.
type packer struct {
	facts []Fact
	count func(string) int
	lines []quotable // by fact
	// value of the literals that no text shows yet, by number; what is shown is
	// worth nothing.
	value []float64
	queue []offer
	// in marks literals that the quote under consideration shows already.
	in  []int32
	now int32
}

// quotable is the line of a fact, word by word.
type quotable struct {
	words []word
	taken []bool
	price []int
	// keys are the literals in the words, from first[w] to first[w+1].
	keys  []int32
	first []int32
}

type word struct{ a, b int }

type offer struct {
	factQuote
	ratio float64
	cost  int
}

// packFacts returns the chosen quotes, one line for each message in order, with
// the seq that they stand in. What the texts of shown show is not quoted again,
// the literals of named are at least mentioned.
func packFacts(facts []Fact, asked session.Seq, shown, named []string, budget int, count func(string) int) []string {
	if budget <= 8 || len(facts) == 0 {
		return nil
	}
	p := newPacker(facts, asked, shown, named, count)
	left, guessed := budget, 0
	for i := range facts {
		p.push(i, left)
	}
	for len(p.queue) > 0 {
		o := heap.Pop(p).(offer)
		now, ok := p.best(o.fact, left)
		if !ok {
			if guessed > budget/50 { // what was taken costs less together than it was put at
				left, guessed = budget-p.cost(), 0
				p.push(o.fact, left)
			}
			continue
		}
		if now.ratio < o.ratio && len(p.queue) > 0 && now.ratio < p.queue[0].ratio {
			heap.Push(p, now)
			continue
		}
		left -= now.cost
		guessed += now.cost
		p.take(now)
		p.push(o.fact, left)
	}
	p.plain(budget - p.cost())
	return p.render()
}

func newPacker(facts []Fact, asked session.Seq, shown, named []string, count func(string) int) *packer {
	p := &packer{facts: facts, count: count, lines: make([]quotable, len(facts))}
	number := make(map[string]int32, 2*len(facts))
	newest := newestKey(facts)
	for _, f := range facts {
		for _, k := range f.Keys {
			if _, ok := number[k.Text]; !ok {
				number[k.Text] = int32(len(p.value))
				z := k.useful(newest)
				if asked != session.NoSeq && k.Last >= asked {
					z += usefulAsked
				}
				p.value = append(p.value, odds(z))
			}
		}
	}
	p.in = make([]int32, len(p.value))
	each := func(texts []string, f func(key int32)) {
		done := map[string]bool{}
		for _, s := range texts {
			for a, b := nextLiteral(s, 0); a >= 0; a, b = nextLiteral(s, b) {
				if !done[s[a:b]] {
					done[s[a:b]] = true
					eachPart(s[a:b], func(part string) {
						if k, ok := number[part]; ok {
							f(k)
						}
					})
				}
			}
		}
	}
	each(shown, func(k int32) { p.value[k] = 0 })
	each(named, func(k int32) {
		if p.in[k] == 0 {
			p.in[k] = -1
			p.value[k] *= 0.6
		}
	})
	for i, f := range facts {
		if !slices.ContainsFunc(f.Keys, func(k Key) bool { return p.value[number[k.Text]] > 0 }) {
			continue
		}
		q := quotable{words: wordsOf(f.Line)}
		q.taken, q.price = make([]bool, len(q.words)), make([]int, len(q.words))
		for j, w := range q.words {
			q.first = append(q.first, int32(len(q.keys)))
			q.price[j] = p.count(f.Line[max(w.a-1, 0):w.b])
			for a, b := nextLiteral(f.Line[:w.b], w.a); a >= 0; a, b = nextLiteral(f.Line[:w.b], b) {
				eachPart(f.Line[a:b], func(part string) {
					if k, ok := number[part]; ok && p.value[k] > 0 {
						q.keys = append(q.keys, k)
					}
				})
			}
		}
		q.first = append(q.first, int32(len(q.keys)))
		p.lines[i] = q
	}
	return p
}

// take quotes what an offer offers.
func (p *packer) take(o offer) {
	q := &p.lines[o.fact]
	for w := o.a; w < o.b; w++ {
		q.taken[w] = true
	}
	for _, k := range q.keys[q.first[o.a]:q.first[o.b]] {
		p.value[k] = 0
	}
}

// cost is what the quotes that were taken cost as they are rendered.
func (p *packer) cost() int {
	n := 0
	for _, s := range p.render() {
		n += p.count(s) + 1
	}
	return n
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
		q := quotable{words: wordsOf(f.Line)}
		q.taken = slices.Repeat([]bool{true}, len(q.words))
		p.lines[i] = q
	}
}

// best returns the quote of a fact that says most for its price, of those that
// cost at most left.
func (p *packer) best(i, left int) (offer, bool) {
	q := &p.lines[i]
	best := offer{}
	if len(q.keys) == 0 {
		return best, false
	}
	width := min(quoteWidth, len(q.words))
	try := func(a, b int) {
		if a < 0 || b > len(q.words) || q.first[a] == q.first[b] {
			return
		}
		cost := quoteSeam
		for _, n := range q.price[a:b] {
			cost += n
		}
		if cost > left {
			return
		}
		if r := p.gain(q.keys[q.first[a]:q.first[b]]) / float64(cost+quoteWord*(b-a)); r > best.ratio {
			best = offer{factQuote{i, a, b}, r, cost}
		}
	}
	for a := 0; a+width <= len(q.words); a++ {
		try(a, a+width)
	}
	for best.ratio > 0 { // wider, as long as the price is right
		was := best.factQuote
		for _, d := range [][2]int{{1, 0}, {0, 1}, {2, 0}, {0, 2}} {
			try(was.a-d[0], was.b+d[1])
		}
		if best.factQuote == was {
			return best, true
		}
	}
	return best, false
}

// gain sums the value of literals, each once.
func (p *packer) gain(keys []int32) float64 {
	g := 0.0
	p.now++
	for _, k := range keys {
		if p.in[k] != p.now {
			p.in[k] = p.now
			g += p.value[k]
		}
	}
	return g
}

func (p *packer) push(i, left int) {
	if o, ok := p.best(i, left); ok {
		heap.Push(p, o)
	}
}

// render writes what was taken, one line for each message.
func (p *packer) render() []string {
	order := make([]int, 0, len(p.facts))
	for i := range p.facts {
		if slices.Contains(p.lines[i].taken, true) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.facts[a].Seq, p.facts[b].Seq) })
	var out []string
	last := session.NoSeq
	for _, i := range order {
		f := p.facts[i]
		var runs []string
		q := &p.lines[i]
		for a := 0; a < len(q.taken); {
			if !q.taken[a] {
				a++
				continue
			}
			b := a
			for b < len(q.taken) && q.taken[b] {
				b++
			}
			runs = append(runs, f.Line[q.words[a].a:q.words[b-1].b])
			a = b
		}
		text := quoteLine(strings.Join(runs, " … "))
		if last != session.NoSeq && f.Seq-last <= quoteSpan {
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

// eachPart calls f for a literal and for the parts of it that are literals too:
// who sees a path with a line number sees the path and the name of the file.
func eachPart(lit string, f func(part string)) {
	const most = 12 // parts; what has more is data
	var edges [most + 1]int
	n := 0
	for i := 0; i <= len(lit) && n <= most; i++ {
		if i == 0 || i == len(lit) || !wordByte(lit[i-1]) || !wordByte(lit[i]) {
			edges[n] = i
			n++
		}
	}
	f(lit)
	for i := 0; i < n; i++ {
		for j := i + 1; j < n; j++ {
			if part := lit[edges[i]:edges[j]]; len(part) >= 4 && len(part) < len(lit) {
				f(part)
			}
		}
	}
}
