package streamproctest_test

import (
	"context"
	"testing"

	openai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/streamproc"
	"github.com/agentcompact/agentcompact/streamproc/streamproctest"
	"github.com/agentcompact/agentcompact/target"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var messages = streamproc.Adapter[session.Message]{
	To:   func(m session.Message) (session.Message, error) { return m, nil },
	From: func(m session.Message) (session.Message, error) { return m, nil },
}

func TestSlice(t *testing.T) {
	streamproctest.Run(t, streamproctest.Host[session.Message]{
		Adapter: messages, History: true,
		New: func(_ *testing.T, history, steps []session.Message) streamproc.Processor[session.Message] {
			return streamproc.NewSlice(messages, history, steps)
		},
		Append: func(p streamproc.Processor[session.Message], it session.Message) {
			p.(*streamproc.Slice[session.Message]).Append(it)
		},
	})
}

func TestChat(t *testing.T) {
	type message = openai.ChatCompletionMessage
	streamproctest.Run(t, streamproctest.Host[message]{
		Adapter: streamproc.ChatAdapter(), History: true,
		New: func(_ *testing.T, history, steps []message) streamproc.Processor[message] {
			list := append([]message{{Role: "system", Content: "S"}}, history...)
			list = append(list, message{Role: "user", Content: "the prompt"})
			return streamproc.NewChat(append(list, steps...), nil)
		},
		Append: func(p streamproc.Processor[message], it message) { p.(*streamproc.Chat).Append(it) },
	})
}

func TestSession(t *testing.T) {
	type item = streamproc.SessionItem
	put := func(t testing.TB, s *session.Session, items ...item) {
		for _, it := range items {
			m := *it.Message
			_, err := s.Append(context.Background(), m)
			require.NoError(t, err)
		}
	}
	var s *session.Session
	streamproctest.Run(t, streamproctest.Host[item]{
		Adapter: streamproc.SessionAdapter(), History: true,
		New: func(t *testing.T, history, steps []item) streamproc.Processor[item] {
			var err error
			s, err = session.Open(context.Background(), session.NewMemoryStore(), nil)
			require.NoError(t, err)
			put(t, s, history...)
			put(t, s, item{Message: ptr(session.UserText("the prompt"))})
			put(t, s, steps...)
			return streamproc.NewSession(s, nil)
		},
		Append: func(_ streamproc.Processor[item], it item) { put(t, s, it) },
		Equal: func(a, b item) bool {
			return a.Message.Text() == b.Message.Text() && a.Message.Role == b.Message.Role
		},
	})
}

func ptr[T any](v T) *T { return &v }

// plain is the smallest host: a slice without a lock around anything but one
// field, no history, no snapshots.
type plain struct {
	*streamproc.Slice[session.Message]
}

func (p plain) History() {}
func (p plain) Commit()  {}

func (p plain) ReplaceWithCompaction(ctx context.Context, t target.Target, n int, it session.Message) error {
	if t != target.Steps {
		return streamproc.ErrUnsupported
	}
	return p.Slice.ReplaceWithCompaction(ctx, t, n, it)
}

func TestPlain(t *testing.T) {
	streamproctest.Run(t, streamproctest.Host[session.Message]{
		Adapter: messages,
		New: func(_ *testing.T, _, steps []session.Message) streamproc.Processor[session.Message] {
			return plain{streamproc.NewSlice(messages, nil, steps)}
		},
		Append: func(p streamproc.Processor[session.Message], it session.Message) { p.(plain).Append(it) },
	})
}
