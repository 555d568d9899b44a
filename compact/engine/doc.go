// Package engine is the default [compact.Service]. Every compaction, automatic
// or by hand, takes one road:
//
//	decide → prune → select → fit → summarize → guard → commit
//
// Decide, select, fit, guard and compose are functions of values; only prune
// and commit write to the session, each as one atomic store write that is
// checked against the newest view.
//
//	svc, err := engine.New(summarize.NewExtractive(nil), &engine.Options{
//		Windows: engine.FixedWindow(128_000),
//	})
//	r, err := svc.CompactIfNeeded(ctx, compact.Agent{Session: s}, compact.Pressure)
//
// The lease is in the log: an attempt is open from its compact/start to its
// compact/end. A start whose process is dead is stale and does not block.
package engine
