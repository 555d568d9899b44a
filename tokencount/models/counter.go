package models

import "github.com/agentcompact/agentcompact/tokencount"

// NewCounter returns a counter for the models of a family whose vocabulary is
// not at hand: base counts in tokens of o200k_base, and the family's factor for
// the class of the text does the rest. Nil means [tokencount.Estimator].
// What a factor misses, [tokencount.Measure] corrects with the usage that the
// provider reports.
//
//	counter := models.NewCounter(models.FamilyOf("claude-sonnet-4"), nil)
//	opts := &session.Options{Pricer: tokencount.NewPricer(counter)}
//
// For a family with factors of 1 it is base itself, with base's prices.
func NewCounter(f Family, base tokencount.Counter) tokencount.Counter {
	if base == nil {
		base = tokencount.Estimator{}
	}
	if f >= families || factors[f] == factors[Unknown] {
		return base
	}
	return scaled{f, base}
}

type scaled struct {
	family Family
	base   tokencount.Counter
}

// factorsID names the factors of this package in the id of a price.
const factorsID = "/1"

func (s scaled) ID() string { return s.base.ID() + "*" + s.family.String() + factorsID }

// Count implements [tokencount.Counter]. A text that is not empty is at least 1.
func (s scaled) Count(text string) int {
	n := s.base.Count(text)
	if n == 0 {
		return 0
	}
	return max(1, s.family.Scale(n, ClassOf(text)))
}
