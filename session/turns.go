package session

// Turn is one turn of the visible conversation: a user prompt and what follows
// up to the next one. Positions are those of the view.
type Turn struct {
	// Start and End bound the turn: Start is its first position, End the one
	// after its last.
	Start, End int
	// Steps are the positions of the assistant messages, one per model call.
	Steps []int
}

// Turns splits the surface into turns. A turn starts at a message that a user
// wrote; several of them in a row start one. What stands before the first one
// is a turn too. It costs O(n).
func (v View) Turns() []Turn {
	var turns []Turn
	prompt := false // the newest turn consists of prompts only so far
	for i := range v.Len() {
		n := v.Node(i)
		isPrompt := n.Role() == RoleUser && n.Source().Kind == SourceUser
		if len(turns) == 0 || isPrompt && !prompt {
			turns = append(turns, Turn{Start: i})
		}
		t := &turns[len(turns)-1]
		t.End = i + 1
		if n.Role() == RoleAssistant {
			t.Steps = append(t.Steps, i)
		}
		prompt = isPrompt
	}
	return turns
}
