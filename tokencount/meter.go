package tokencount

import "github.com/agentcompact/agentcompact/session"

// Measurement is the size of a session's next request.
type Measurement struct {
	// Tokens is the best estimate.
	Tokens int
	// Priced is what the session's pricer says of envelope and surface.
	Priced int
	// Anchored reports that Tokens stands on what the provider reported for
	// this very surface; only what came after it is priced.
	Anchored bool
	// Factor is what prices were multiplied with to meet what the provider of
	// the route reports; 1 without enough evidence.
	Factor float64
}

// Measure returns the size of the session's next request on a route: what the
// provider reported for the last one plus the prices of what came after, as
// long as that report describes the surface and is not too little to be true,
// and otherwise the prices of envelope and surface; prices are calibrated with
// what the route reported before. It costs O(1) and allocates nothing. No log can make it fail.
func Measure(v session.View, provider, model string) Measurement {
	m := Measurement{Priced: v.EnvelopeTokens() + v.SurfaceTokens(), Factor: Calibrate(v.UsageSamples(), provider, model)}
	if u, ok := v.Usage(); ok && u.Fresh && sameRoute(u.Provider, u.Model, provider, model) &&
		plausible(sum(u.Prompt, u.Completion), m.Priced-u.Since) {
		m.Tokens, m.Anchored = sum(u.Prompt, u.Completion, scale(u.Since, m.Factor)), true
		return m
	}
	m.Tokens = scale(m.Priced, m.Factor)
	return m
}

// The bounds of calibration: fewer reports, or reports on less than that, prove
// nothing; and no route is trusted to differ more from our prices.
const (
	minSamples      = 2
	minSampleTokens = 200
	minFactor       = 0.5
	maxFactor       = 2.5
	newestWeight    = 0.5

	// A report of less than this share of what we priced is not of the whole
	// request: the part that was cached is missing, or it is of another call.
	leastShare = 0.25
)

// plausible reports whether a report can be of the messages that were priced so.
func plausible(reported, priced int) bool {
	return priced < minSampleTokens || float64(reported) >= leastShare*float64(priced)
}

// Calibrate returns the factor from our prices to what the route reports: the
// newest reports count most, and one of less than a quarter of our price is
// passed over. It is 1 without enough evidence and within 0.5 and 2.5 always.
func Calibrate(samples []session.UsageSample, provider, model string) float64 {
	factor, n := 1.0, 0
	for i := range samples {
		s := &samples[i]
		if s.Priced < minSampleTokens || !plausible(s.Reported, s.Priced) || !sameRoute(s.Provider, s.Model, provider, model) {
			continue
		}
		ratio := min(max(float64(s.Reported)/float64(s.Priced), minFactor), maxFactor)
		if n++; n == 1 {
			factor = ratio
			continue
		}
		factor += newestWeight * (ratio - factor)
	}
	if n < minSamples {
		return 1
	}
	return factor
}

// Constant returns what a route counts besides what was priced, in its tokens, as
// far as that was seen: the newest report of a session that was larger by a tenth
// at an earlier one tells it. It is 0 while none does.
func Constant(samples []session.UsageSample, provider, model string) int {
	for i := len(samples) - 1; i > 0; i-- {
		after := &samples[i]
		if !sameRoute(after.Provider, after.Model, provider, model) {
			continue
		}
		for j := i - 1; j >= 0; j-- {
			before := &samples[j]
			shrunk := before.Priced - after.Priced
			if shrunk*10 < before.Priced || shrunk == 0 || !sameRoute(before.Provider, before.Model, provider, model) {
				continue
			}
			each := min(max(float64(before.Reported-after.Reported)/float64(shrunk), 0), maxFactor)
			return min(max(after.Reported-scale(after.Priced, each), 0), mostTokens)
		}
	}
	return 0
}

// sameRoute compares routes; what one side does not tell is taken to be equal.
func sameRoute(p1, m1, p2, m2 string) bool {
	return (p1 == p2 || p1 == "" || p2 == "") && (m1 == m2 || m1 == "" || m2 == "")
}

// mostTokens is above whatever a request can have. Figures that a log may hold
// stop there, so that no sum of them turns negative.
const mostTokens = 1 << 40

func sum(tokens ...int) int {
	total := 0
	for _, n := range tokens {
		total = min(total+min(n, mostTokens), mostTokens)
	}
	return total
}

func scale(tokens int, factor float64) int {
	if factor == 1 {
		return tokens
	}
	return int(float64(tokens)*factor + 0.5)
}
