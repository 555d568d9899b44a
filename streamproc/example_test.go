package streamproc_test

import (
	"context"
	"fmt"

	"github.com/agentcompact/agentcompact/streamproc"
	"github.com/agentcompact/agentcompact/summarize"
)

// A host asks before each model call, and goes on either way.
func ExampleApplySteps() {
	policy := streamproc.Policy{Enabled: true, Mode: streamproc.StepsOnly, MinTokens: 500}
	proc := streamproc.NewSlice(turns, nil, steps(30, 40))
	const window, used, step = 8000, 7400, 30 // used is what the provider reported

	due, err := streamproc.ShouldCompact(policy, used, window, step)
	if err != nil || due == nil {
		return
	}
	r, err := streamproc.ApplySteps(context.Background(), proc, turns, summarize.NewExtractive(nil),
		&streamproc.Options{Policy: policy, Window: window})
	if err != nil {
		fmt.Println(streamproc.Label(err))
		return
	}
	left, _ := proc.AccumulatedSteps(context.Background())
	fmt.Println(due.Percent, left[0].Who, r.Items+len(left)-1, r.After < r.Before/3)
	// Output: 92 memo 60 true
}
