package casetest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	casesDir   = flag.String("cases", filepath.Join("..", "..", "testdata", "cases"), "folder of cases")
	errorsFile = flag.String("errors", "", "file of provider errors; default: that beside the cases")
	only       = flag.String("only", "", "ids of the cases to run, separated by commas; default: all")
)

// known is a case that is known to fail, and why.
type known struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// knownFailures are those of the cases of this module.
func knownFailures(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "conformance", "cases.json"))
	require.NoError(t, err)
	var list []known
	require.NoError(t, strict(data, &list))
	out := map[string]string{}
	for _, k := range list {
		require.NotEmpty(t, k.ID)
		require.NotEmpty(t, k.Reason, k.ID)
		require.NotContains(t, out, k.ID)
		out[k.ID] = k.Reason
	}
	return out
}

// otherFolder reports whether the cases are not those of this module.
func otherFolder() bool { return *casesDir != flag.Lookup("cases").DefValue }

// given is a path from the command line: as it is, or from the root of the
// module, where the command was given.
func given(path string) string {
	if _, err := os.Stat(path); err != nil && !filepath.IsAbs(path) {
		if up := filepath.Join("..", "..", path); up != "" {
			if _, err := os.Stat(up); err == nil {
				return up
			}
		}
	}
	return path
}

// TestLanguage runs cases that use what the language has and few cases use: they
// test the runner more than the library.
func TestLanguage(t *testing.T) {
	if otherFolder() {
		t.Skip("another folder is run")
	}
	cases, err := Load(filepath.Join("testdata", "language"))
	require.NoError(t, err)
	for _, r := range runAll(t, cases) {
		if r.Verdict != Pass {
			t.Errorf("%s (%s) %s: %s", r.ID, r.Kind, r.Verdict, strings.Join(r.Problems, "; "))
		}
	}
}

// TestCases runs every case. A case that is listed as a known failure must
// fail; any other must pass.
func TestCases(t *testing.T) {
	cases, err := Load(given(*casesDir))
	require.NoError(t, err)
	list := map[string]string{}
	if !otherFolder() {
		list = knownFailures(t)
	}
	reports := runAll(t, cases)
	require.NotEmpty(t, reports)
	var b strings.Builder
	Table(&b, reports, testing.Verbose())
	t.Log("\n" + b.String())
	ran := map[string]bool{}
	for _, r := range reports {
		ran[r.ID] = true
		reason, listed := list[r.ID]
		switch {
		case r.Verdict == Pass && listed:
			t.Errorf("%s passes: take it off the list of known failures (%s)", r.ID, reason)
		case r.Verdict != Pass && !listed:
			t.Errorf("%s (%s) %s: %s", r.ID, r.Kind, r.Verdict, r.First())
		}
	}
	if *only == "" {
		for id := range list {
			if !ran[id] {
				t.Errorf("known failure %s is no case", id)
			}
		}
	}
}

// runAll runs the cases, some at a time, and returns the reports in order.
func runAll(t *testing.T, cases []*Case) []Report {
	t.Helper()
	if *only != "" {
		ids := strings.Split(*only, ",")
		var some []*Case
		for _, c := range cases {
			for _, id := range ids {
				if c.ID == id {
					some = append(some, c)
				}
			}
		}
		cases = some
	}
	reports := make([]Report, len(cases))
	var wg sync.WaitGroup
	free := make(chan struct{}, 4)
	for i, c := range cases {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			reports[i] = Run(t.Context(), c, nil)
		})
	}
	wg.Wait()
	return reports
}

// TestErrors judges every provider error of the file.
func TestErrors(t *testing.T) {
	file := given(*errorsFile)
	if *errorsFile == "" {
		file = filepath.Join(given(*casesDir), "overflow-errors.json")
		if _, err := os.Stat(file); err != nil && otherFolder() {
			t.Skip("the folder has no overflow-errors.json")
		}
	}
	list, err := LoadErrors(file)
	require.NoError(t, err)
	var reports []Report
	for _, e := range list {
		reports = append(reports, e.Run())
	}
	var b strings.Builder
	Table(&b, reports, testing.Verbose())
	t.Log("\n" + b.String())
	for _, r := range reports {
		if r.Verdict != Pass {
			t.Errorf("%s (%s): %s", r.ID, r.Kind, strings.Join(r.Problems, "; "))
		}
	}
}
