package session

// Size is about how many bytes of content the message holds in memory, its
// record included.
func (m *Message) Size() int {
	n := partSize(m.Parts)
	if m.Origin != nil {
		n += len(m.Origin.Raw)
	}
	return n
}

func partSize(parts []Part) int {
	n := 0
	for _, p := range parts {
		switch p := p.(type) {
		case Text:
			n += len(p.Text)
		case Image:
			n += len(p.URL) + len(p.Raw)
		case File:
			n += len(p.URL) + len(p.Raw)
		case Reasoning:
			n += len(p.Text) + len(p.Encrypted) + len(p.Raw)
		case ToolCall:
			n += len(p.Arguments) + len(p.Raw)
		case ToolResult:
			n += partSize(p.Parts)
		case Opaque:
			n += len(p.Raw)
		}
	}
	return n
}
