package overflow

import (
	"regexp"
	"sync"
)

// stage is where in the order of judgment a row stands. Within a stage the
// first row that matches decides.
type stage int

const (
	stageRate      stage = iota // waiting helps; before all else
	stageQuota                  // money
	stageContent                // a filter
	stageCode                   // structured codes that say overflow
	stageLookalike              // text that is about another limit
	stageText                   // text that says overflow
	stageRest                   // bytes, auth, server: codes and text of what is none of the above
	stageFinish                 // finish reasons
	stageNumber                 // not a verdict: where the numbers stand
)

// row is one pattern. Add a wording by adding a row, or by widening one, with
// an example that matches and a near miss in table_test.go, and the shape it
// comes from in testdata/overflow/more.json.
//
// Text patterns see text as normalize leaves it: lower case, single blanks, no
// quotes, apostrophes, backticks or backslashes. Code patterns see codes as
// squash leaves them: lower-case letters and digits only.
type row struct {
	name   string
	stage  stage
	code   string // pattern for one code
	text   string // pattern for one text
	and    string // must match the text as well
	not    string // must not match the text
	kind   Kind
	class  Class // "": as the status says
	who    string
	source string // a public report or page with the wording, as found on 2026-11-30
	note   string

	once           sync.Once
	codeRe, textRe *regexp.Regexp
	andRe, notRe   *regexp.Regexp
	part           int // index of the group named part, -1 without it
}

func (r *row) compile() {
	r.once.Do(func() {
		c := func(p string) *regexp.Regexp {
			if p == "" {
				return nil
			}
			return regexp.MustCompile(p)
		}
		r.codeRe, r.textRe, r.andRe, r.notRe = c(r.code), c(r.text), c(r.and), c(r.not)
		if r.part = -1; r.textRe != nil {
			r.part = r.textRe.SubexpIndex("part")
		}
	})
}

func (r *row) matchCode(code string) bool {
	r.compile()
	return r.codeRe != nil && r.codeRe.MatchString(code)
}

func (r *row) matchText(text string) bool {
	r.compile()
	return r.textRe != nil && r.textRe.MatchString(text) &&
		(r.andRe == nil || r.andRe.MatchString(text)) &&
		(r.notRe == nil || !r.notRe.MatchString(text))
}

// match finds the first row of a stage that matches one of the codes or texts.
func match(s stage, codes, texts []string) *row {
	for _, r := range byStage[s] {
		if r.code != "" {
			for _, c := range codes {
				if r.matchCode(c) {
					return r
				}
			}
		}
		if r.text != "" {
			for _, t := range texts {
				if r.matchText(t) {
					return r
				}
			}
		}
	}
	return nil
}

// table holds every pattern of the package.
var table = concat(rowsRefused, rowsOverflow, rowsNumbers)

var byStage = func() map[stage][]*row {
	m := map[stage][]*row{}
	for _, r := range table {
		m[r.stage] = append(m[r.stage], r)
	}
	return m
}()

func concat(lists ...[]*row) []*row {
	var all []*row
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
