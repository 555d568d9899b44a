package overflow

// Kind is the limit that an answer is about. The strings are stable.
type Kind string

const (
	// KindNone: no limit of the request's size is involved.
	KindNone Kind = ""
	// KindTokens: the request has more tokens than the model or route takes. It
	// is the only kind that is an overflow.
	KindTokens Kind = "tokens"
	// KindBytes: the body has too many bytes for a gateway or for the provider's
	// HTTP layer. Attachments are the first thing to shrink.
	KindBytes Kind = "bytes"
	// KindMedia: too many or too large images, pages or other attachments.
	KindMedia Kind = "media"
	// KindReply: the reply limit (max_tokens and its like) is out of range, or
	// the reply ended at it.
	KindReply Kind = "reply"
	// KindString: one string or list of the request is too long by itself.
	KindString Kind = "string"
)

// Class sorts answers by what a caller can do. The strings are stable.
type Class string

const (
	// ClassNone: there was no error.
	ClassNone Class = ""
	// ClassOverflow: the context window was exceeded; make the history smaller.
	ClassOverflow Class = "overflow"
	// ClassRateLimited: wait and send the same again.
	ClassRateLimited Class = "rate_limited"
	// ClassPayloadTooLarge: fewer bytes, not fewer tokens.
	ClassPayloadTooLarge Class = "payload_too_large"
	// ClassInvalidRequest: the same request will fail again.
	ClassInvalidRequest Class = "invalid_request"
	// ClassAuth: key, permission or account.
	ClassAuth Class = "auth"
	// ClassQuota: money or a spent allowance; waiting a little does not help.
	ClassQuota Class = "quota"
	// ClassContentPolicy: a filter refused the content.
	ClassContentPolicy Class = "content_policy"
	// ClassServer: the provider is broken or overloaded; transient.
	ClassServer Class = "server"
	// ClassCanceled: the caller's context ended.
	ClassCanceled Class = "canceled"
	// ClassOther: none of these.
	ClassOther Class = "other"
)

// Coarse maps the class to the four words for what is not an overflow that the
// project's cases use: rate_limited, payload_too_large, invalid_request and
// other. [ClassOverflow] and [ClassNone] stay as they are; [ClassContentPolicy]
// is invalid_request; [ClassQuota] is rate_limited where the provider said 429;
// all the rest is other.
func (r Result) Coarse() Class {
	switch r.Class {
	case ClassNone, ClassOverflow, ClassRateLimited, ClassPayloadTooLarge, ClassInvalidRequest:
		return r.Class
	case ClassContentPolicy:
		return ClassInvalidRequest
	case ClassQuota:
		if r.Status == 429 {
			return ClassRateLimited
		}
	}
	return ClassOther
}
