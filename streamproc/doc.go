// Package streamproc compacts the history of an agent that has its own message
// type and its own loop. The host implements [Processor] over its items, says
// with an [Adapter] how an item reads as a message, and calls [Apply]:
//
//	r, err := streamproc.ApplySteps(ctx, proc, adapter, summarize.NewExtractive(nil), &streamproc.Options{Window: 128_000})
//
// Every pass takes one road: snapshot → select → fit → summarize → guard →
// compose → reduce check → commit → observe. Selection, ledger, guard and
// composing are those of the engine; calls and results are paired by id, and by
// their neighborhood only where ids are absent. Nothing is visible before the
// commit, and an error leaves the host's state as it was, with one exception
// that says so: see [ApplyHistoryThenSteps].
//
// Ready processors are [Slice] over items of any type, [Chat] over go-openai's
// messages and [Session] over a session. Package streamproctest checks a
// host's own. When to call is the host's; [ShouldCompact] decides.
package streamproc
