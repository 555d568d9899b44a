package summarizetest_test

import (
	"context"
	"fmt"

	"github.com/agentcompact/agentcompact/summarize/summarizetest"
	"github.com/sashabaranov/go-openai"
)

func Example() {
	srv := summarizetest.NewServer( // in a test: summarizetest.New(t, …), which closes by itself
		summarizetest.Fail(429, "slow down").WithHeader("Retry-After", "1"),
		summarizetest.Text("Fixed the parser; the tests pass."),
	)
	defer srv.Close()

	config := openai.DefaultConfig("no key needed")
	config.BaseURL = srv.URL()
	client := openai.NewClientWithConfig(config)
	request := openai.ChatCompletionRequest{
		Model:    "any",
		Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "Summarize the session."}},
	}

	_, err := client.CreateChatCompletion(context.Background(), request)
	fmt.Println(err)
	answer, err := client.CreateChatCompletion(context.Background(), request)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Choices[0].Message.Content)

	for _, r := range srv.Requests() {
		chat, _ := r.Chat()
		fmt.Println(r.Path, chat.Messages[0].Text)
	}
	// Output:
	// error, status code: 429, status: 429 Too Many Requests, message: slow down
	// Fixed the parser; the tests pass.
	// /v1/chat/completions Summarize the session.
	// /v1/chat/completions Summarize the session.
}
