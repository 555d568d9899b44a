package responses

import "github.com/agentcompact/agentcompact/session"

// Grouped is a message and the items that it consists of.
type Grouped struct {
	Message session.Message
	// Items are the numbers under which the items were added.
	Items []int
}

// Builder groups items into messages: the items of one response become one
// assistant message. The zero Builder is ready.
type Builder struct {
	Messages []Grouped
	open     bool
}

// Add adds an item under a number of the caller's and returns the message that
// it belongs to now, and whether it began it. Sources of user, developer and
// system messages are the caller's to set; they are [session.SourceUser] until
// then.
func (b *Builder) Add(it Item, n int) (*Grouped, bool) {
	if it.Role == session.RoleAssistant {
		if b.open {
			g := &b.Messages[len(b.Messages)-1]
			g.Message.Parts = append(g.Message.Parts, it.Parts...)
			g.Items = append(g.Items, n)
			if g.Message.ID == "" && it.Type == TypeMessage {
				g.Message.ID = it.ID
			}
			return g, false
		}
		b.open = true
	} else {
		b.open = false
	}
	m := session.Message{Role: it.Role, Parts: append([]session.Part(nil), it.Parts...)}
	if it.Type == TypeMessage || it.Role != session.RoleAssistant {
		m.ID = it.ID
	}
	switch it.Role {
	case session.RoleAssistant:
		m.Source.Kind = session.SourceModel
	case session.RoleTool:
		m.Source.Kind = session.SourceTool
	default:
		m.Source.Kind = session.SourceUser
	}
	b.Messages = append(b.Messages, Grouped{Message: m, Items: []int{n}})
	return &b.Messages[len(b.Messages)-1], true
}

// End says that the response is complete: the next item begins a message.
func (b *Builder) End() { b.open = false }

// Open returns the assistant message that the next item may still belong to;
// nil when there is none.
func (b *Builder) Open() *Grouped {
	if !b.open {
		return nil
	}
	return &b.Messages[len(b.Messages)-1]
}
