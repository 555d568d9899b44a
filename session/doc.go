// Package session holds a conversation as an append-only log of events with a
// visible surface: the ordered list of messages that the model sees now.
//
//	s, err := session.Open(ctx, session.NewMemoryStore(), nil)
//	_, err = s.Append(ctx, session.UserText("list the failing tests"))
//	v := s.View()
//	for i := range v.Len() {
//		m, err := v.Message(i)
//		...
//	}
//
// # Log and surface
//
// An [Event] is one immutable entry of the log; its [Seq] is its index. The
// surface changes by four operations, each of them an event: append at the
// tail, replace an inclusive run by one message (optionally keeping named
// nodes of the run, which then stand right after it), restore what a
// replacement shadowed (and [Redo] it), and rewind to the surface as it was at
// an earlier event. Nothing is ever deleted from the log, so every surface
// that ever existed can be rebuilt from a prefix of it.
//
// After a replace the surface is not in seq order any more: a span is a run of
// positions, named by the seqs at its two edges.
//
// # Pins, calls and repair
//
// A pin covers a whole unit, an assistant message with all results of its
// calls, those included that come later; no operation hides what is pinned, nor
// a call that the host says is running. A result that comes after its call was
// hidden or abandoned stands on the surface as a short note, with the whole
// result in the note's Origin. [Session.Repair] closes the turn of a process
// that died.
//
// # Concurrency
//
// A [Session] is safe for concurrent use. Readers take a [View], an immutable
// snapshot that costs O(1). Writers go through [Session.Update], which runs a
// function against the newest view and appends what it returns as one atomic
// store write; several processes may have one stored session open, and a
// conflict is resolved by catching up and running the function again.
//
// # What it does not know
//
// The package knows nothing of compaction. Events of other packages
// (compact/start and so on) are opaque payloads that live in the log only.
//
// # Compatibility
//
// Stored logs carry a format version. A reader refuses newer versions and
// unknown required event types, and passes over unknown ignorable ones.
package session
