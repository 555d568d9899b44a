package bpe

import "github.com/agentcompact/agentcompact/tokencount"

// Exact returns the counter of an encoding as a [tokencount.Counter], for
// whatever takes one in place of the estimator:
//
//	exact, err := bpe.Exact(bpe.O200kBase)
//	opts := &session.Options{Pricer: tokencount.NewPricer(exact)}
//
// It counts as [Counter.CountString] does, and its ID is the encoding's name.
// An unknown encoding is an error.
func Exact(e Encoding) (tokencount.Counter, error) {
	c, err := For(e)
	if err != nil {
		return nil, err
	}
	return exact{c}, nil
}

type exact struct{ c *Counter }

func (x exact) ID() string            { return string(x.c.encoding) }
func (x exact) Count(text string) int { return x.c.CountString(text) }
