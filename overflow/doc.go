// Package overflow answers one question about a failed model call: did the
// request not fit the model's context window, and which limit did the provider
// name?
//
//	if res := overflow.Classify(err); res.Overflow {
//		// make the history smaller (res.Limit and res.Actual say by how much), retry
//	}
//
// The answer comes from what the provider said, in this order: rate limits
// (never an overflow, whatever their text says), then structured codes, then
// text. Every pattern is a row of one table, with its source and a test; see
// table.go, which says how to add a wording.
//
// Only a [Result] with Overflow set asks for a compaction. Its look-alikes have
// a [Kind] and a [Class] of their own: a gateway that refuses the bytes of the
// body, an image that is too large, a reply limit out of range, one string that
// is too long, a rate limit, a spent quota.
//
// # Errors of client libraries
//
// No client library is imported. [Classify] walks an error's tree (Unwrap of
// one or of many, so fmt.Errorf and errors.Join at any depth) and reads an
// error that has the look of a provider's answer:
//
//   - an exported field HTTPStatusCode or StatusCode, an int, or a method of
//     that name. That is *openai.APIError and *openai.RequestError of
//     github.com/sashabaranov/go-openai, and *Error of openai-go and
//     anthropic-sdk-go;
//   - exported fields Code, Type, Message (string, or any), Body ([]byte
//     or string), Response (*http.Response; its Retry-After headers) and Request
//     (*http.Request; its host tells the provider);
//   - a method RawJSON() string: the body as openai-go and anthropic-sdk-go keep
//     it; where that is empty, DumpResponse(bool) []byte.
//
// An error without that look is judged by its text.
//
// # Bounds
//
// No input makes the package panic. It looks at a bounded part of a body (the
// head, of a stream also the tail), at a bounded depth, with regular
// expressions that run in linear time.
package overflow
