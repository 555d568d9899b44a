// Package openaichat reads and writes transcripts in the shape of OpenAI Chat
// Completions messages, builds provider-valid requests of that shape from a
// session, and checks requests.
//
//	f, err := openaichat.Codec{}.Read(ctx, data)
//	req, err := openaichat.BuildRequest(s.View(), &openaichat.RequestOptions{ModelCall: true})
//	post(req.Body())
//
// # Containers
//
// The codec knows a bare array of messages, a request body, messages or request
// bodies one per line, trajectories of mini-swe-agent (version 1.1 of its format,
// and the one before it without tools) and SWE-agent, tau-bench results, OpenHands
// LLM logs, and logs that hold a request under "request".
// The leading system and developer messages become the envelope's, in every
// container. Records whose role is not one of conversation (mini-swe-agent's
// "exit") are neither entries nor lost: they stay in the file.
//
// The messages that a transcript has, as others count them, are those of
// Envelope.System and of Entries together.
//
// Files with messages or bodies one per line can be opened where they stand
// ([Codec.Open]); the others are documents and read whole.
//
// # What is lost
//
// Nothing, when a file is written back without changes: it is the same, byte
// for byte. When the surface changed, every record that is still on it, every
// record that is no message, and everything around the messages keep their
// bytes. Messages that are new or changed are encoded anew, in the shape that
// the container's own messages have. Fields of single content parts that no
// part type has a place for (cache_control of a text part) survive in records
// that stay, not in messages that were changed.
//
// A chat array has no place for a typed source, so a checkpoint is written as a
// plain user message.
package openaichat

// Format is the name of the format in [session.Origin] and of the [Codec].
const Format = "openai-chat"
