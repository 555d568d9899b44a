package detect

import "fmt"

// dumpState is all that a detector remembers, as text.
func dumpState(d *Detector) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := ""
	for _, b := range d.branches {
		s += fmt.Sprintf("%+v", *b)
		if b.active != nil {
			s += fmt.Sprintf("%+v", *b.active)
		}
	}
	return s
}

// DumpState is for tests outside.
var DumpState = dumpState

// Window is the text that is kept of a summary under way.
func (d *Detector) Window(branch string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.branches[branch]; b != nil && b.active != nil {
		return b.active.window
	}
	return ""
}
