package claudecode

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/internal/wirecorpus"
	"github.com/agentcompact/agentcompact/wire/wiretest"
)

// TestCodec runs the suite that every format runs. The counts are those of the
// tables here, which tell sides apart.
func TestCodec(t *testing.T) {
	own, others, err := wirecorpus.Files(Format, 1)
	require.NoError(t, err)
	s := &wiretest.Suite{Codec: Codec{}, Own: own, Others: others, Appends: true, RouteOfMessages: true}
	s.RunWithoutCounts(t)
}
