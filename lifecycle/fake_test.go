package lifecycle_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentcompact/agentcompact/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type preserver = lifecycle.Preserver[lifecycle.Call, lifecycle.Checkpoint]

// doc is a toy of a host's type, with everything that a copy can get wrong.
type doc struct {
	Text  string
	Lines []string
	Extra map[string]string
	Raw   []byte
}

var docCodec = lifecycle.Codec[doc]{
	Clone: func(d doc) doc {
		c := d
		if d.Lines != nil {
			c.Lines = append(make([]string, 0, len(d.Lines)), d.Lines...)
		}
		if d.Raw != nil {
			c.Raw = append(make([]byte, 0, len(d.Raw)), d.Raw...)
		}
		if d.Extra != nil {
			c.Extra = make(map[string]string, len(d.Extra))
			for k, v := range d.Extra {
				c.Extra[k] = v
			}
		}
		return c
	},
	Validate: func(_, after doc) error {
		if after.Text == "" {
			return errors.New("empty: secret-in-validation")
		}
		return nil
	},
}

// fake is a preserver whose callbacks are functions; nil ones do nothing.
type fake struct {
	id      string
	before  func(context.Context, *doc, lifecycle.Services) error
	opened  func(context.Context, doc, []lifecycle.Event) error
	release func(context.Context, *doc, lifecycle.ResponsePreview) error
	after   func(context.Context, doc) error
	failed  func(lifecycle.PreservationMeta) error
	aborted func(string) error
	ids     int
}

func (f *fake) ID() string { f.ids++; return f.id }

func (f *fake) BeforeRequest(ctx context.Context, d *doc, _ lifecycle.RequestPreview, _ lifecycle.PreservationMeta, s lifecycle.Services) error {
	if f.before == nil {
		return nil
	}
	return f.before(ctx, d, s)
}

func (f *fake) RequestOpened(ctx context.Context, d doc, e []lifecycle.Event, _ lifecycle.PreservationMeta, _ lifecycle.Services) error {
	if f.opened == nil {
		return nil
	}
	return f.opened(ctx, d, e)
}

func (f *fake) BeforeResponseRelease(ctx context.Context, d *doc, p lifecycle.ResponsePreview, _ lifecycle.PreservationMeta, _ lifecycle.Services) error {
	if f.release == nil {
		return nil
	}
	return f.release(ctx, d, p)
}

func (f *fake) AfterResponseRelease(ctx context.Context, d doc, _ lifecycle.PreservationMeta, _ lifecycle.Services) error {
	if f.after == nil {
		return nil
	}
	return f.after(ctx, d)
}

func (f *fake) RequestOpenFailed(_ context.Context, m lifecycle.PreservationMeta, _ lifecycle.Services) error {
	if f.failed == nil {
		return nil
	}
	return f.failed(m)
}

func (f *fake) Aborted(_ context.Context, _ lifecycle.PreservationMeta, code string, _ lifecycle.Services) error {
	if f.aborted == nil {
		return nil
	}
	return f.aborted(code)
}

type watcher func(context.Context, lifecycle.Event) error

func (w watcher) OnCompaction(ctx context.Context, e lifecycle.Event) error { return w(ctx, e) }

const secret = "sk-ant-PLANTED-0123456789"

var errSecret = errors.New("boom " + secret)

// misbehave does what callbacks must not do; gate ends the ones that hang.
func misbehave(kind string, gate <-chan struct{}) error {
	switch kind {
	case "error":
		return errSecret
	case "panic":
		panic(secret)
	case "exit":
		runtime.Goexit()
	case "hang":
		<-gate
	}
	return nil
}

func newDocs(t *testing.T, o lifecycle.Options[doc, doc]) *lifecycle.Dispatcher[doc, doc] {
	t.Helper()
	o.Call, o.Result = docCodec, docCodec
	d, err := lifecycle.New(o)
	require.NoError(t, err)
	return d
}

func begin(d *lifecycle.Dispatcher[doc, doc]) *lifecycle.Run[doc, doc] {
	return d.Begin(lifecycle.RunInfo{Meta: lifecycle.PreservationMeta{TransactionID: "tx", RuleID: "r", Evidence: lifecycle.EvidenceProtocolStrict}})
}

// textLogger logs without the time.
func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
