package detect

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/agentcompact/agentcompact/session"
)

// Places where a [Clause] looks.
const (
	// AtSystem: the leading system and developer messages.
	AtSystem = "system"
	// AtLast: the last message of the request.
	AtLast = "last"
	// AtHead: the messages before the first reply of the model.
	AtHead = "head"
	// AtAfter: the message after the one that the clause before found.
	AtAfter = "after"
)

// Clause is one condition on a message: one text part of a message in the
// named place, with the role, has all of what the clause lists. White space
// around the part is passed over; letter case counts.
type Clause struct {
	At   string       `json:"at"`
	Role session.Role `json:"role,omitempty"`
	// Prefix and Suffix are alternatives for how the part begins and ends.
	Prefix []string `json:"prefix,omitempty"`
	Suffix []string `json:"suffix,omitempty"`
	// Contains must all be in it, and one of Any.
	Contains []string `json:"contains,omitempty"`
	Any      []string `json:"any,omitempty"`
}

// Signature tells how one family of agents compacts. All clauses of a side
// must hold; a side without clauses tells nothing.
type Signature struct {
	// ID is the rule that events name. It ends in a version, which rises when
	// what it matches changes.
	ID     string `json:"id"`
	Family string `json:"family"`
	// Source says where the marks come from, Date (of the form 2006-01-02) when
	// they were last compared with it.
	Source string `json:"source"`
	Date   string `json:"date"`
	// Series marks families that make several requests for one compaction.
	Series bool `json:"series,omitempty"`
	// Request recognizes the request that has a summary written.
	Request []Clause `json:"request,omitempty"`
	// Response are marks that the summary itself has.
	Response []string `json:"response,omitempty"`
	// Next recognizes the request in which the summary is installed.
	Next []Clause `json:"next,omitempty"`
	// Rewrite says that Next alone is too weak for a history that is seen for
	// the first time.
	Rewrite bool `json:"rewrite,omitempty"`
	// Shared says that another family has the same Next, which then is taken
	// for that one's unless this one has a compaction under way.
	Shared bool `json:"shared,omitempty"`
}

//go:embed signatures.json
var signatureData []byte

var builtIn = sync.OnceValues(func() ([]Signature, error) { return ParseSignatures(signatureData) })

// Signatures returns the built-in signatures, in the order in which they are
// asked. The slice is the caller's, what is in it is shared.
func Signatures() []Signature {
	list, err := builtIn()
	if err != nil {
		panic(err) // the data are compiled in, and tested
	}
	return slices.Clone(list)
}

// ParseSignatures reads signatures from JSON, a list of [Signature]. The error
// names the first that cannot work.
func ParseSignatures(data []byte) ([]Signature, error) {
	var list []Signature
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		return nil, fmt.Errorf("read signatures: %w", err)
	}
	return list, checkSignatures(list)
}

func checkSignatures(list []Signature) error {
	seen := make(map[string]bool)
	for i := range list {
		s := &list[i]
		if err := s.check(); err != nil {
			return fmt.Errorf("signature %d (%q): %w", i, s.ID, err)
		}
		if seen[s.ID] {
			return fmt.Errorf("signature %d: second signature with id %q", i, s.ID)
		}
		seen[s.ID] = true
	}
	return nil
}

func (s *Signature) check() error {
	switch {
	case s.ID == "" || s.Family == "" || s.Source == "" || s.Date == "":
		return errors.New("id, family, source and date are required")
	case s.ID == RuleProtocol || s.ID == RuleHeuristic:
		return errors.New("the id is taken")
	case len(s.Request) == 0 && len(s.Next) == 0:
		return errors.New("it has neither a request nor a next side")
	}
	strong := func(side []Clause, places ...string) error {
		marks := 0
		for i, c := range side {
			if !slices.Contains(places, c.At) || c.At == AtAfter && i == 0 {
				return fmt.Errorf("clause %d cannot look at %q", i, c.At)
			}
			for _, m := range slices.Concat(c.Prefix, c.Suffix, c.Contains, c.Any) {
				if strings.TrimSpace(m) == "" {
					return fmt.Errorf("clause %d has an empty mark", i)
				}
			}
			marks += len(c.Prefix) + len(c.Contains)
		}
		if len(side) > 0 && marks == 0 {
			return errors.New("a side has no mark that it begins with or contains")
		}
		return nil
	}
	if err := strong(s.Request, AtSystem, AtLast); err != nil {
		return err
	}
	return strong(s.Next, AtHead, AtAfter)
}

// fits reports whether a message satisfies the clause.
func (c *Clause) fits(m *session.Message) bool {
	if c.Role != "" && m.Role != c.Role || m.Role == session.RoleTool {
		return false
	}
	for _, p := range m.Parts {
		if t, ok := p.(session.Text); ok && c.fitsText(t.Text) {
			return true
		}
	}
	return false
}

func (c *Clause) fitsText(s string) bool {
	s = strings.TrimSpace(s)
	has := func(list []string, fn func(s, mark string) bool) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(mark string) bool { return fn(s, mark) })
	}
	if s == "" || !has(c.Prefix, strings.HasPrefix) || !has(c.Suffix, strings.HasSuffix) {
		return false
	}
	for _, mark := range c.Contains {
		if !strings.Contains(s, mark) {
			return false
		}
	}
	return has(c.Any, strings.Contains)
}

// maxHead is how many messages before the first reply are looked at.
const maxHead = 64

// head returns how many messages stand before the first reply of the model or
// a tool.
func head(messages []*session.Message) int {
	for i, m := range messages {
		if i == maxHead || m.Role == session.RoleAssistant || m.Role == session.RoleTool {
			return i
		}
	}
	return min(len(messages), maxHead)
}

// asks reports whether the request has a summary written.
func (s *Signature) asks(q *Request) bool {
	if len(s.Request) == 0 || len(q.Messages) == 0 {
		return false
	}
	for i := range s.Request {
		c := &s.Request[i]
		switch c.At {
		case AtLast:
			if !c.fits(q.Messages[len(q.Messages)-1]) {
				return false
			}
		case AtSystem:
			if !slices.ContainsFunc(q.System, c.fits) && !slices.ContainsFunc(q.Messages[:lead(q.Messages)], c.fits) {
				return false
			}
		}
	}
	return true
}

// lead returns how many leading messages are system or developer messages.
func lead(messages []*session.Message) int {
	for i, m := range messages {
		if m.Role != session.RoleSystem && m.Role != session.RoleDeveloper {
			return i
		}
	}
	return len(messages)
}

// installed returns the message in which a summary is installed, -1 when there
// is none. The last one of the head counts. Hermes-like families put it into a
// message of the model, so that the first reply is looked at, too.
func (s *Signature) installed(messages []*session.Message) int {
	if len(s.Next) == 0 {
		return -1
	}
	n := head(messages)
	if n < len(messages) && s.Next[0].Role != session.RoleUser {
		n++
	}
	for i := n - 1; i >= 0; i-- {
		if messages[i].Source.Kind == session.SourcePlugin || !s.Next[0].fits(messages[i]) {
			continue
		}
		ok := true
		for k := 1; k < len(s.Next); k++ {
			ok = ok && i+k < len(messages) && s.Next[k].fits(messages[i+k])
		}
		if ok {
			return i
		}
	}
	return -1
}

// Found is a summary that somebody else installed.
type Found struct {
	// Signature is that of the family; its ID is [RuleProtocol] for an item of
	// the provider.
	Signature Signature
	// Message is the index of the message.
	Message int
}

// Installed returns the summary at the head of a history that an agent of a
// known family compacted, and false when there is none. It is for those who
// take over such a history once; a [Detector] does more for those who see
// every request. Nil signatures mean the built-in ones.
func Installed(messages []*session.Message, signatures []Signature) (Found, bool) {
	if signatures == nil {
		signatures, _ = builtIn()
	}
	if i, _ := item(messages); i >= 0 {
		return Found{Signature{ID: RuleProtocol, Family: "protocol"}, i}, true
	}
	for i := range signatures {
		s := &signatures[i]
		if s.Shared || s.Rewrite {
			continue
		}
		if at := s.installed(messages); at >= 0 {
			return Found{*s, at}, true
		}
	}
	return Found{}, false
}

// itemKinds are the provider items that hold a compacted history.
var itemKinds = map[string]bool{"compaction": true, "context_compaction": true, "compaction_summary": true}

// IsCompactionItem reports whether an item of that type of a provider holds a
// compacted history. A "compaction_trigger" is none: it only allows one.
func IsCompactionItem(kind string) bool { return itemKinds[kind] }

// item returns the newest message with a compaction item and its bytes.
func item(messages []*session.Message) (int, []byte) {
	for i := len(messages) - 1; i >= 0; i-- {
		for _, p := range messages[i].Parts {
			if o, ok := p.(session.Opaque); ok && itemKinds[o.Kind] {
				return i, o.Raw
			}
		}
	}
	return -1, nil
}
