package engine_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func hostname(t *testing.T) string {
	t.Helper()
	h, err := os.Hostname()
	require.NoError(t, err)
	return h
}
