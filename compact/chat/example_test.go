package chat_test

import (
	"context"
	"fmt"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agentcompact/agentcompact/compact/chat"
)

func ExampleCompact() {
	messages := []openai.ChatCompletionMessage{{Role: "system", Content: "You are a careful engineer."}}
	for i := range 200 {
		messages = append(messages,
			openai.ChatCompletionMessage{Role: "user", Content: fmt.Sprintf("Task %d: check module m%d, and never edit generated files.", i, i)},
			openai.ChatCompletionMessage{Role: "assistant", Content: fmt.Sprintf("Module m%d is fine. ", i) + strings.Repeat("I have read all of it. ", 20)})
	}
	memory := new(chat.Memory) // one for the conversation: it knows the checkpoints
	out, report, err := chat.Compact(context.Background(), messages, &chat.Options{Window: 16_000, Memory: memory})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(out) < len(messages), report.After < report.Before/2, len(report.Replaced) > 300)
	fmt.Println(out[0].Content)
	fmt.Println(strings.Contains(out[report.Checkpoint].Content, "never edit generated files"))
	// Output:
	// true true true
	// You are a careful engineer.
	// true
}
