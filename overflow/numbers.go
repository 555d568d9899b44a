package overflow

import (
	"regexp"
	"strconv"
	"strings"
)

// dotted is a number with points between its thousands; no count has a fraction.
var dotted = regexp.MustCompile(`^[1-9]\d{0,2}(?:\.\d{3})+$`)

// maxCount is the largest number that is taken for a count of tokens or bytes.
const maxCount = 1 << 40

// parseCount reads 8192, 1,048,576, 1.048.576, 1_000, 128k, 1.5m and 4096.0. It
// is false for what is no plausible count, and for a number whose groups make no
// sense.
func parseCount(s string) (int, bool) {
	s = strings.TrimRight(strings.TrimSpace(s), ",._")
	if s == "" {
		return 0, false
	}
	mul := 1.0
	switch s[len(s)-1] {
	case 'k', 'K':
		mul, s = 1e3, s[:len(s)-1]
	case 'm', 'M':
		mul, s = 1e6, s[:len(s)-1]
	}
	if i := strings.IndexAny(s, ",_"); i >= 0 {
		groups := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '_' })
		if len(groups) == 0 || len(groups[0]) > 3 {
			// two numbers with a comma between them: the first one
			s = s[:i]
		} else {
			whole := groups[0]
			for _, g := range groups[1:] {
				d, _, _ := strings.Cut(g, ".")
				if len(d) != 3 {
					break
				}
				whole += g
			}
			s = whole
		}
	}
	if mul == 1 && dotted.MatchString(s) {
		s = strings.ReplaceAll(s, ".", "")
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || f*mul > maxCount {
		return 0, false
	}
	return int(f * mul), true
}

// counts are the numbers found in a text; -1: not found.
type counts struct{ limit, window, rough, input, parts, total, output, over int }

func noCounts() counts { return counts{-1, -1, -1, -1, -1, -1, -1, -1} }

// any reports whether a size or a limit was found.
func (c counts) any() bool {
	return c.limit > 0 || c.window > 0 || c.rough > 0 || c.input > 0 || c.parts > 0 || c.total > 0 || c.over > 0
}

// readCounts finds the numbers of one normalized text.
func readCounts(text string) counts {
	c := noCounts()
	if !strings.ContainsAny(text, "0123456789") {
		return c
	}
	s := []byte(text)
	for _, r := range byStage[stageNumber] {
		r.compile()
		if r.part > 0 {
			c.readParts(s, r)
			continue
		}
		at := r.textRe.FindSubmatchIndex(s)
		if at == nil {
			continue
		}
		for i, name := range r.textRe.SubexpNames() {
			if name == "" || at[2*i] < 0 {
				continue
			}
			field := c.field(strings.TrimRight(name, "23"))
			if *field >= 0 {
				continue
			}
			n, ok := parseCount(string(s[at[2*i]:at[2*i+1]]))
			if ok && (n > 0 || field == &c.output) {
				*field = n
				mask(s[at[2*i]:at[2*i+1]])
			}
		}
	}
	return c
}

func (c *counts) field(name string) *int {
	switch name {
	case "limit":
		return &c.limit
	case "window":
		return &c.window
	case "rough":
		return &c.rough
	case "input":
		return &c.input
	case "total":
		return &c.total
	case "output":
		return &c.output
	default:
		return &c.over
	}
}

// readParts sums the parts that stand together; a text that says the same twice
// has them twice, far apart.
func (c *counts) readParts(s []byte, r *row) {
	end := 0
	for _, at := range r.textRe.FindAllSubmatchIndex(s, 12) {
		if c.parts >= 0 && at[0]-end > 60 {
			break
		}
		n, ok := parseCount(string(s[at[2*r.part]:at[2*r.part+1]]))
		if !ok || c.parts > maxCount {
			continue
		}
		c.parts = max(c.parts, 0) + n
		end = at[1]
		mask(s[at[2*r.part]:at[2*r.part+1]])
	}
}

// mask hides a number that was read.
func mask(b []byte) {
	for i := range b {
		b[i] = '#'
	}
}

// numbers fills the numbers of an overflow.
func (ev *evidence) numbers(r *Result) {
	best := noCounts()
	for _, t := range ev.plain {
		if c := readCounts(t); c.any() {
			best = c
			break
		}
	}
	r.Limit = first(best.limit, best.window, best.rough, ev.limit)
	r.Actual = first(best.parts, best.input, best.total, ev.input)
	if best.output >= 0 {
		r.RequestedOutput, r.HasRequestedOutput = best.output, true
	}
	r.OverBy = max(best.over, 0)
}

// byteNumbers fills the numbers of a body that is too large.
func (ev *evidence) byteNumbers(r *Result) {
	for _, t := range ev.plain {
		if c := readCounts(strings.NewReplacer(" bytes", " tokens", "size", "length").Replace(t)); c.any() {
			r.ByteLimit = first(c.limit, c.window, c.rough)
			r.ByteActual = first(c.input, c.total)
			return
		}
	}
}

func first(ns ...int) int {
	for _, n := range ns {
		if n > 0 {
			return n
		}
	}
	return 0
}
