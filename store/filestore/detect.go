package filestore

import "bytes"

// Detect reports whether a file that begins with head is a session file.
func Detect(head []byte) bool { return bytes.HasPrefix(head, []byte(headerStart)) }
