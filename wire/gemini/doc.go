// Package gemini reads and writes conversations of Gemini: contents of the API
// ([Contents]) and session files of Gemini CLI ([Sessions]). It builds requests
// of the API's shape from a session and checks requests.
//
// # Contents
//
// [Contents] knows a request body with contents (version v1beta), the bare
// array of contents, and the compression evaluations of Gemini CLI, where they
// are the history. Ids of calls are optional there: a call without one is
// paired with the response of its name, in order, in the next user contents,
// and takes its id, or else one made of its name. A user content that holds
// responses and text is two messages. thought parts are reasoning. The API has
// no mark for a compaction, so a checkpoint is a user content; the log beside
// the file says that it is one. A text part of a message that changed loses its
// thoughtSignature; other parts keep theirs.
//
// # Sessions
//
// [Sessions] follows Gemini CLI 0.10 to 0.40: the JSON file with messages, and
// the JSONL file in which a record replaces an earlier one of its id, $set
// changes metadata or the whole list, and $rewindTo takes messages back. A
// record of the model with its calls is a message, the results in it are the
// message behind it. Notices (info, warning, error) are not conversation and
// stay in the file. Of an opened JSONL file ([Sessions.Open]) only what links the
// records is in memory, some 50 bytes a record; a JSON file is read whole.
//
// A JSON file is written back with its list changed, as the agent does; to a
// JSONL file one $set record with the new list is appended, which is what the
// agent writes when it compresses. Compaction ids and typed sources stand in a
// field "agentcompact" of the message, which the agent passes over. Records
// that stay keep their bytes. A result that has no call in the record before it
// is written as a functionResponse of the user.
//
// Lost: the system prompt and the tools are not in these files; what the
// interface showed of a result that changed.
package gemini

// The names of the formats.
const (
	// Format is contents of the API.
	Format = "gemini-contents"
	// SessionFormat is the session files of Gemini CLI.
	SessionFormat = "gemini-session"
)
