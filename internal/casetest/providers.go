package casetest

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/agentcompact/agentcompact/overflow"
)

// ProviderShape is one entry of a file of provider errors.
type ProviderShape struct {
	ID              string          `json:"id"`
	Provider        string          `json:"provider"`
	Status          *int            `json:"status"`
	Body            json.RawMessage `json:"body"`
	Overflow        *bool           `json:"overflow"`
	Limit           number          `json:"limit"`
	Actual          number          `json:"actual"`
	Source          string          `json:"source"`
	RequestedOutput *int            `json:"requested_output"`
	OverBy          *int            `json:"over_by"`
	Window          int             `json:"window"`
	Stream          bool            `json:"stream"`
	Note            string          `json:"note"`
}

// LoadErrors reads a file of provider errors. An unknown field is an error, and
// so is a file without entries.
func LoadErrors(file string) ([]*ProviderShape, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []*ProviderShape
	if err := strict(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: there are no errors in it", file)
	}
	seen := map[string]bool{}
	for i, e := range list {
		switch {
		case e == nil || e.ID == "" || e.Status == nil || e.Overflow == nil || !e.Limit.set || !e.Actual.set || e.Source == "":
			return nil, fmt.Errorf("%s: entry %d lacks a field", file, i)
		case seen[e.ID]:
			return nil, fmt.Errorf("%s: id %s occurs twice", file, e.ID)
		}
		seen[e.ID] = true
	}
	return list, nil
}

// Run judges the error and compares. An error that is no overflow must not
// change the believed window either.
func (e *ProviderShape) Run() Report {
	r := Report{ID: e.ID, Kind: e.Provider, Verdict: Pass}
	opts := []overflow.Option{overflow.WithProvider(e.Provider), overflow.WithWindow(e.Window)}
	var res overflow.Result
	if e.Stream {
		res = overflow.ClassifyStream(bodyBytes(e.Body), opts...)
	} else {
		res = overflow.ClassifyResponse(*e.Status, bodyBytes(e.Body), opts...)
	}
	bad := func(key string, want, got any) {
		r.Problems = append(r.Problems, fmt.Sprintf("%s: want %v, it is %v (rule %q)", key, want, got, res.Rule))
	}
	if res.Overflow != *e.Overflow {
		bad("overflow", *e.Overflow, res.Overflow)
	}
	for key, p := range map[string]struct {
		want number
		got  int
	}{"limit": {e.Limit, res.Limit}, "actual": {e.Actual, res.Actual}} {
		if p.want.n != p.got {
			bad(key, p.want, p.got)
		}
	}
	if e.RequestedOutput != nil && (!res.HasRequestedOutput || res.RequestedOutput != *e.RequestedOutput) {
		bad("requested_output", *e.RequestedOutput, res.RequestedOutput)
	}
	if e.OverBy != nil && res.OverBy != *e.OverBy {
		bad("over_by", *e.OverBy, res.OverBy)
	}
	if _, learned := res.LearnedWindow(1 << 40); learned && !*e.Overflow {
		bad("window", "unchanged", res.Limit)
	}
	if len(r.Problems) > 0 {
		r.Verdict = Fail
	}
	r.Trace = []string{res.String()}
	return r
}
