package session

import "sync"

// hiddenIndex says for every message that is not on the surface which
// replacement hides it. It is valid as long as the generation is.
type hiddenIndex struct {
	once sync.Once
	by   map[Seq]Seq
}

// shadowedBy returns the replacement that hides seq; it may be hidden itself.
// It is NoSeq for what is visible, and for what no visible replacement leads
// to, such as messages that were rewound.
func (st *state) shadowedBy(seq Seq) Seq {
	st.hidden.once.Do(func() {
		by := make(map[Seq]Seq)
		var open []Seq
		for _, n := range st.nodes.slice(0, st.nodes.len()) {
			if n.meta.repl != nil {
				open = append(open, n.Seq)
			}
		}
		for len(open) > 0 {
			r := open[len(open)-1]
			open = open[:len(open)-1]
			for _, s := range st.log[r].meta.repl.run {
				if _, known := by[s]; known || int(s) < len(st.pos) && st.pos[s] >= 0 {
					continue
				}
				by[s] = r
				if st.log[s].meta.repl != nil {
					open = append(open, s)
				}
			}
		}
		st.hidden.by = by
	})
	if r, ok := st.hidden.by[seq]; ok {
		return r
	}
	return NoSeq
}
