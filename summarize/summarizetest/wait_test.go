package summarizetest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What ends a wait cannot be told apart from outside, where the client and the server go away together.
func TestWaitEndsForEitherSide(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	open, closed := make(chan struct{}), make(chan struct{})
	close(closed)
	never := make(chan struct{})
	for name, a := range map[string]*answer{
		"client": {ctx: gone, server: &Server{done: open}},
		"server": {ctx: context.Background(), server: &Server{done: closed}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.PanicsWithValue(t, http.ErrAbortHandler, func() { a.wait(never, 0) })
			assert.PanicsWithValue(t, http.ErrAbortHandler, func() { a.wait(nil, time.Hour) })
			a.wait(nil, 0) // nothing to wait for
		})
	}
}
