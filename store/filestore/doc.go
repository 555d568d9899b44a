// Package filestore is a durable [session.Store]: one JSONL file per session,
// appended and synced, readable with less.
//
//	store, err := filestore.Open("session.jsonl", nil)
//	s, err := session.Open(ctx, store, nil)
//
// # Durability
//
// An append returns after its bytes are synced. Appends that wait at the same
// time share one write and one sync. After a crash all events of an append are
// in the file or none is; what a crash left half written at the end is cut off
// by the next writer and reported through [Options.Cut]; until then readers pass
// over it, and [Store.Torn] tells of it. [Options.SyncEvery]
// trades durability for speed, with the loss window that it states.
//
// A failed write or sync fails every append that waited for it. The store
// takes the bytes back as far as the file system lets it, and takes no more
// appends: open the file again to go on.
//
// # Several processes
//
// Several processes, and several stores of one process, may have one file
// open. Appends are serialized by a lock on the file; an append that expects
// another length of the log gets [session.ErrConflict]. A scan sees only what
// its writer has synced (or, with SyncEvery, written). The file must be on a
// file system whose locks work, and only this package may write to it.
// Where the system can tell, an append to a file that was deleted or replaced
// meanwhile is refused with [ErrRemoved].
//
// # Damage
//
// Each line carries a checksum. A bad line in a part of the file that was
// synced is a [*DamageError] that names the offset; nothing is written to such
// a file any more, and [Salvage] copies its sound head into a new one. Bytes
// behind the last known sync cannot be told from a torn write and are cut off.
//
// # Compatibility
//
// The header carries a format version. Newer versions are refused with a
// [*VersionError]; every released version stays readable.
package filestore
