package main

import (
	"fmt"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// chart is the course of the session's size, in the units of a box of 1000 by
// 1000, and as percentages.
type chart struct {
	Line, Area string // path data
	Top        int    // tokens at the upper edge
	Window     string // y of the window in percent; empty when it is out of sight
	Marks      []chartMark
	Labels     []chartMark // numbers of the marks; neighbors share one
	Points     int
}

// chartMark is a checkpoint in the chart.
type chartMark struct {
	X      string // in percent
	at     float64
	Number int
	Title  string
}

// point is the size of the surface after an event.
type point struct {
	seq    session.Seq
	tokens int
}

// course follows the size of the surface through the log.
func (p *pageMaker) course() error {
	var all []point
	cur := p.v.EnvelopeTokens()
	envelope := cur
	for ev := range p.v.Events(0) {
		switch ev.Type {
		case session.TypeMessage:
			cur += p.price[ev.Seq]
		case session.TypeReplace:
			run, kept, err := p.v.Run(ev.Seq)
			if err != nil {
				return err
			}
			for _, q := range run {
				cur -= p.price[q]
			}
			for _, q := range kept {
				cur += p.price[q]
			}
			cur += p.price[ev.Seq]
		case session.TypeRestore, session.TypeRedo, session.TypeRewind:
			seqs, err := p.v.SurfaceAt(ev.Seq)
			if err != nil {
				return err
			}
			cur = envelope
			for _, q := range seqs {
				cur += p.price[q]
			}
		default:
			continue
		}
		all = append(all, point{ev.Seq, cur})
		p.data.Peak = max(p.data.Peak, cur)
	}
	p.data.Chart = p.draw(all)
	return nil
}

// chartPoints is how many points a chart has at most. Of each group the
// highest and the last one are drawn.
const chartPoints = 800

func (p *pageMaker) draw(all []point) chart {
	c := chart{Points: len(all), Top: max(p.data.Peak*21/20, 1)}
	if w := p.data.Window; w > 0 && w < p.data.Peak*3 {
		c.Top = max(c.Top, w*21/20)
		c.Window = percent(1 - float64(w)/float64(c.Top))
	}
	if len(all) == 0 {
		return c
	}
	x := func(i int) float64 { return float64(i) / float64(max(len(all)-1, 1)) }
	var b strings.Builder
	put := func(i int) {
		cmd := "L"
		if b.Len() == 0 {
			cmd = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", cmd, 1000*x(i), 1000*(1-float64(all[i].tokens)/float64(c.Top)))
	}
	size := (len(all) + chartPoints/2 - 1) / (chartPoints / 2)
	for a := 0; a < len(all); a += size {
		end := min(a+size, len(all))
		high := a
		for i := a; i < end; i++ {
			if all[i].tokens > all[high].tokens {
				high = i
			}
		}
		put(high)
		if high != end-1 {
			put(end - 1)
		}
	}
	c.Line = b.String()
	c.Area = c.Line + "L1000 1000L0 1000Z"
	for i, q := range all {
		if r := p.rows[q.seq]; r != nil {
			c.mark(x(i), r)
		}
	}
	return c
}

// mark draws a checkpoint.
func (c *chart) mark(x float64, r *checkpointRow) {
	c.Marks = append(c.Marks, chartMark{X: percent(x), at: x, Number: r.Number, Title: fmt.Sprintf("checkpoint %d: hides %s", r.Number, count(r.Hides, "message"))})
	if n := len(c.Labels); n > 0 && x-c.Labels[n-1].at < 0.03 {
		last := &c.Labels[n-1]
		last.X, last.Title = percent(x), fmt.Sprintf("%d–%d", last.Number, r.Number)
		return
	}
	c.Labels = append(c.Labels, chartMark{X: percent(x), at: x, Number: r.Number, Title: fmt.Sprint(r.Number)})
}

func percent(f float64) string { return fmt.Sprintf("%.2f%%", 100*f) }
