// Package summarizetest is a scripted, OpenAI-compatible HTTP server for tests of code that calls a
// model: our summarizer, an agent loop, or anything else that speaks chat completions.
//
//	srv := summarizetest.New(t,
//		summarizetest.Fail(429, "slow down").WithHeader("Retry-After", "0"),
//		summarizetest.Text("the summary"),
//	)
//	config := openai.DefaultConfig("any key")
//	config.BaseURL = srv.URL()
//
// # Script
//
// The server answers POST …/chat/completions from a script: one [Reply] per request in order of
// arrival, and the last one again for every request after it. A [Func] stands where a reply depends on
// the request; as the only entry it is a script by itself. A request with "stream": true gets
// server-sent events, any other a JSON object. GET …/models answers a list; every other path is a 404.
//
// # Record
//
// Every request is recorded before it is answered, with its method, path, headers, raw body, time and
// the place in the script that answered it. [Server.Requests] lists them, [Server.Await] waits for the
// n-th one.
//
// # Time and faults
//
// [Reply.Gate] and [Reply.ChunkGate] hold an answer until the test lets it go, so a test controls the
// order of events without sleeping; [Reply.Delay] and [Reply.ChunkDelay] do it by the clock. Whatever
// waits stops waiting when the client goes away or the server closes. A [Fault] is a way for an answer
// to go wrong: a reset connection, a page of HTML, a stream that is cut after some characters, and
// others. [Config.RealWindow] makes the server refuse requests that are too large, as a model would.
//
// # What it leaves to you
//
// The server does not judge requests: whether roles alternate or tool messages answer a call is for the
// test to check on the recorded bodies. It knows nothing of the other packages of this module and needs
// only the standard library.
package summarizetest
