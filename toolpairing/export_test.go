package toolpairing

// Reads returns how many positions the live index has read, and how often it
// was built anew.
func Reads(l Live) (added, rebuilt int) { return l.inc.added, l.inc.rebuilt }
