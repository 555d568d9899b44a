package session

// Change says what operations that were not appends did to the surface:
// Removed nodes from position At gave way to Added ones.
type Change struct{ At, Removed, Added int }

// changes is the history of the surface, newest first.
type changes struct {
	Change
	before *changes
}

// maxChanges is how far back ChangeSince looks.
const maxChanges = 1 << 10

// ChangeSince sums up what happened to the surface since it had generation gen
// and length nodes: Removed of the old positions from At gave way to Added
// ones, the old positions behind them follow, and what was appended since comes
// last. It returns false when that was too long ago to tell, or never.
func (v View) ChangeSince(gen uint64, length int) (Change, bool) {
	st := v.state()
	if gen > st.gen || st.gen-gen > maxChanges {
		return Change{}, false
	}
	steps := make([]Change, st.gen-gen)
	c := st.changes
	for i := len(steps) - 1; i >= 0; i-- {
		steps[i], c = c.Change, c.before
	}
	// The head and the tail of the old surface that nothing touched. The tail
	// ends at position end.
	head, tail, end := length, length, length
	for _, c := range steps {
		if c.At >= end && end > 0 {
			continue // among what was appended since
		}
		behind := c.At + c.Removed
		head = min(head, c.At)
		if tail = min(tail, end-behind); tail > 0 {
			end += c.Added - c.Removed
		} else {
			tail, end = 0, c.At+c.Added
		}
	}
	if tail = min(tail, length-head); tail == 0 && head < length {
		// Everything behind the head is new, appended nodes included.
		return Change{At: head, Removed: length - head, Added: st.nodes.len() - head}, true
	}
	return Change{At: head, Removed: length - head - tail, Added: end - tail - head}, true
}
