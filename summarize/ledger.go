package summarize

// Ledger holds the facts of a span as data. It is carried from checkpoint to
// checkpoint and never summarized.
type Ledger struct{}
