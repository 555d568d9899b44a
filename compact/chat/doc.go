// Package chat makes a slice of chat messages shorter: messages in, messages
// out.
//
//	out, report, err := chat.Compact(ctx, messages, &chat.Options{Model: "gpt-4o"})
//
// While there is room it returns the slice that it was given. Else the oldest
// messages give way to one message that holds a summary and the facts that
// matter; leading system messages, the prompt that is being worked on and the
// recent messages stay, each as it was. It needs no model and no network unless
// [Options.Summarizer] is one. The road is that of package compact/engine.
//
// The caller keeps the messages that gave way if anybody should read them
// again: [Report] says which ones they are. With a [Memory] that is passed from
// call to call an earlier checkpoint is known as such, and its facts are carried
// on as data; without it, it is plain text of the user.
package chat
