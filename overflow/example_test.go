package overflow_test

import (
	"errors"
	"fmt"

	"github.com/agentcompact/agentcompact/overflow"
)

func ExampleClassify() {
	err := fmt.Errorf("model call: %w", errors.New("400: prompt is too long: 203501 tokens > 200000 maximum"))
	r := overflow.Classify(err)
	fmt.Println(r.Overflow, r.Limit, r.Actual)
	// Output: true 200000 203501
}

func ExampleWrap() {
	err := overflow.Wrap(errors.New("prompt is too long: 203501 tokens > 200000 maximum"))
	var own *overflow.Error
	if errors.As(err, &own) {
		window, _ := own.Result.LearnedWindow(1_000_000)
		fmt.Println(window)
	}
	// Output: 200000
}

func ExampleClassifyFinish() {
	r := overflow.ClassifyFinish("model_context_window_exceeded", overflow.Usage{Window: 200_000})
	fmt.Println(r.Overflow, r.Kind)
	// Output: true tokens
}
