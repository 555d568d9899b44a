package tokencount_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/tokencount"
)

// twice is a pricer that TextPricer does not know.
type twice struct{ session.BytePricer }

func (p twice) Price(m *session.Message) int { return 2 * p.BytePricer.Price(m) }

func TestTextPricer(t *testing.T) {
	for _, p := range []session.Pricer{session.BytePricer{}, tokencount.NewPricer(nil), twice{}} {
		price := tokencount.TextPricer(p)
		for _, s := range []string{"", "a", "Hello, world: 12345", "\xff", "你好，世界"} {
			m := session.UserText(s)
			require.Equal(t, p.Price(&m), price(s), "%T %q", p, s)
		}
	}
	price := tokencount.TextPricer(tokencount.NewPricer(nil))
	require.Zero(t, testing.AllocsPerRun(10, func() { price("some text") }))
}
