package summarize

// For tests from outside, which may import what imports this package.
var (
	HostileShapes   = hostileShapes
	RequireFramed   = requireFramed
	RequireHarmless = requireHarmless
	Unveiled        = func(s string) string { bare, _ := unveil(s); return bare }
)
