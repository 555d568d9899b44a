package casetest

import (
	"fmt"
	"io"
	"strings"
)

// Table writes the verdicts: id, kind, verdict, and for a failure the first
// expectation that does not hold with what was seen. With verbose all problems
// and the trace of every case follow its line.
func Table(w io.Writer, reports []Report, verbose bool) {
	ids, kinds := 2, 4
	for _, r := range reports {
		ids, kinds = max(ids, len(r.ID)), max(kinds, len(r.Kind))
	}
	passed := 0
	for _, r := range reports {
		line := strings.ReplaceAll(r.First(), "\n", " ")
		fmt.Fprintf(w, "%s\n", strings.TrimRight(fmt.Sprintf("%-*s  %-*s  %-6s  %s", ids, r.ID, kinds, r.Kind, r.Verdict, line), " "))
		if r.Verdict == Pass {
			passed++
		}
		if !verbose {
			continue
		}
		for _, p := range r.Problems[min(1, len(r.Problems)):] {
			fmt.Fprintf(w, "\t%s\n", p)
		}
		for _, t := range r.Trace {
			fmt.Fprintf(w, "\t| %s\n", strings.ReplaceAll(t, "\n", "\n\t| "))
		}
	}
	fmt.Fprintf(w, "%d of %d pass\n", passed, len(reports))
}
