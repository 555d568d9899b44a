package streamproctest_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/streamproc"
	"github.com/agentcompact/agentcompact/streamproc/streamproctest"
	"github.com/agentcompact/agentcompact/target"
)

// naive is a processor with one fault.
type naive struct {
	fault string
	mu    sync.Mutex
	list  []session.Message
	rev   uint64
}

func (n *naive) AccumulatedSteps(context.Context) ([]session.Message, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list[:len(n.list):len(n.list)], nil
}

func (n *naive) ReplaceWithCompaction(ctx context.Context, t target.Target, k int, it session.Message) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ctx.Err() != nil && n.fault != "ignores the context" {
		return ctx.Err()
	}
	return n.replace(t, k, it)
}

func (n *naive) replace(t target.Target, k int, it session.Message) error {
	if t != target.Steps && n.fault != "takes every target" {
		return streamproc.ErrUnsupported
	}
	if k < 1 || k > len(n.list) {
		switch n.fault {
		case "clamps":
			k = len(n.list)
		case "says nothing of the length":
			return streamproc.ErrUnsupported
		case "changes before it checks":
			n.list = nil
			return streamproc.ErrInvalidSplit{Requested: k, Available: 4}
		default:
			return streamproc.ErrInvalidSplit{Requested: k, Available: len(n.list)}
		}
	}
	n.rev++
	if n.fault == "writes into what others read" {
		n.list = slices.Replace(n.list, 0, k, it)
		return nil
	}
	rest := n.list[k:]
	if n.fault == "drops the last" && len(rest) > 0 {
		rest = rest[:len(rest)-1]
	}
	n.list = append([]session.Message{it}, rest...)
	return nil
}

func (n *naive) Snapshot(context.Context) (streamproc.Snapshot[session.Message], error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return streamproc.Snapshot[session.Message]{Revision: n.rev, Steps: n.list[:len(n.list):len(n.list)]}, nil
}

func (n *naive) Commit(_ context.Context, c streamproc.Commit[session.Message]) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.fault == "refuses what was appended" && c.Revision != n.rev:
		return streamproc.ErrConflict{Target: c.Target, Reason: "changed"}
	case n.fault == "does not compare", c.N > len(n.list), c.Revision == n.rev:
	default:
		if d, err := messages.Digest(n.list[:c.N]); err != nil || d != c.Digest {
			return streamproc.ErrConflict{Target: c.Target, Reason: "changed"}
		}
	}
	if n.fault == "overwrites what was appended" {
		n.list = n.list[:max(c.N, 5)]
	}
	return n.replace(c.Target, c.N, c.Item)
}

var faults = []string{"ignores the context", "takes every target", "clamps", "says nothing of the length", "changes before it checks",
	"writes into what others read", "drops the last", "refuses what was appended", "does not compare", "overwrites what was appended"}

func runNaive(t *testing.T, fault string) {
	streamproctest.Run(t, streamproctest.Host[session.Message]{
		Adapter: messages,
		New: func(_ *testing.T, _, steps []session.Message) streamproc.Processor[session.Message] {
			return &naive{fault: fault, list: steps}
		},
		Append: func(p streamproc.Processor[session.Message], it session.Message) {
			n := p.(*naive)
			n.mu.Lock()
			defer n.mu.Unlock()
			n.list = append(n.list[:len(n.list):len(n.list)], it)
			n.rev++
		},
	})
}

func TestNaive(t *testing.T) { runNaive(t, os.Getenv("STREAMPROCTEST_FAULT")) }

// TestFaultsAreFound runs TestNaive in a process of its own for each fault.
func TestFaultsAreFound(t *testing.T) {
	if os.Getenv("STREAMPROCTEST_FAULT") != "" {
		t.Skip("inside")
	}
	for _, f := range faults {
		t.Run(f, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestNaive$")
			cmd.Env = append(os.Environ(), "STREAMPROCTEST_FAULT="+f)
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "the suite let it pass")
			require.True(t, strings.Contains(string(out), "--- FAIL: TestNaive/"), "it failed by something else: %s", out)
		})
	}
}
