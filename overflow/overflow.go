package overflow

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Result says what a provider's answer means. The zero Result means: no error.
type Result struct {
	// Overflow reports that the request did not fit the model's context window:
	// a smaller history is what helps.
	Overflow bool
	// Kind is the limit that was hit, also where that is no overflow.
	Kind Kind
	// Class sorts the answer for the caller: retry, wait, give up.
	Class Class

	// Limit is the stated maximum of the input in tokens; where only the window
	// is stated, the window. 0: not stated, and always 0 without Overflow.
	Limit int
	// Actual is the stated size of the input in tokens, its parts summed; where
	// only the total with the reply is stated, the total. 0: not stated, and
	// always 0 without Overflow.
	Actual int
	// RequestedOutput is the room for the reply that the request asked for. It
	// may be stated as 0: HasRequestedOutput tells that from not stated.
	RequestedOutput    int
	HasRequestedOutput bool
	// OverBy is by how many tokens the request was too large, where the provider
	// says only that. 0: not stated.
	OverBy int

	// ByteLimit and ByteActual are the numbers of a [KindBytes] answer, 0 where
	// they are not stated.
	ByteLimit, ByteActual int

	// Provider is who answered: what [WithProvider] said, else a guess from the
	// host, the wording or the shape of the body; "" where there is none.
	Provider string
	// Status is the HTTP status, 0 where none is known.
	Status int
	// RetryAfter is how long the provider asked to wait, 0 where it did not.
	RetryAfter time.Duration
	// Message is the provider's own text, shortened; "" where it had none.
	Message string
	// Rule names the row of the pattern table that decided, "" where the status
	// or nothing did. It is for logs and bug reports.
	Rule string
}

// LearnedWindow returns the window to believe after this answer: the stated
// limit where that is smaller than the believed window, or where none is known
// (believed <= 0). An answer never makes a window larger. The second result
// tells whether anything was learned.
func (r Result) LearnedWindow(believed int) (int, bool) {
	if !r.Overflow || r.Limit <= 0 || (believed > 0 && r.Limit >= believed) {
		return believed, false
	}
	return r.Limit, true
}

// String is a short form for logs.
func (r Result) String() string {
	if !r.Overflow {
		return string(r.Class)
	}
	var b strings.Builder
	b.WriteString("context window exceeded")
	switch {
	case r.Actual > 0 && r.Limit > 0:
		fmt.Fprintf(&b, ": %d tokens, limit %d", r.Actual, r.Limit)
	case r.Limit > 0:
		fmt.Fprintf(&b, ": limit %d tokens", r.Limit)
	case r.Actual > 0:
		fmt.Fprintf(&b, ": %d tokens", r.Actual)
	case r.OverBy > 0:
		fmt.Fprintf(&b, " by %d tokens", r.OverBy)
	}
	return b.String()
}

// Option adds to a call what the answer itself cannot tell.
type Option func(*evidence)

// WithProvider names the provider that answered ("openai", "cerebras"). It
// decides answers that mean different things from different providers: a 400 or
// 413 without any body is an overflow from Cerebras and a body too large from
// others.
func WithProvider(name string) Option {
	return func(ev *evidence) { ev.provider = strings.ToLower(strings.TrimSpace(name)) }
}

// WithWindow names the model's window in tokens. It is used for answers that
// succeeded although the window was full; see [ClassifyFinish].
func WithWindow(tokens int) Option {
	return func(ev *evidence) { ev.window = tokens }
}

// Classify says what err means. The package documentation says which errors it
// can read. It looks through wrapping and joining at any depth. Of several joined
// errors an overflow wins, as it is the one that will come back whatever the
// caller waits for; without one, the first that has a class other than
// [ClassOther] wins. A nil error gives the zero Result; a cancelled or expired
// context gives [ClassCanceled].
func Classify(err error, opts ...Option) Result {
	if err == nil {
		return Result{}
	}
	best := Result{}
	for i, branch := range branches(err) {
		var r Result
		if own := ownIn(branch); own != nil {
			r = own.Result
		} else {
			ev := newEvidence(opts)
			structured := ev.fromError(branch)
			if !structured && canceled(branch) {
				r = Result{Class: ClassCanceled, Message: clip(errorText(branch), messageCap)}
			} else {
				r = ev.classify()
			}
		}
		if r.Overflow {
			return r
		}
		if i == 0 || (best.Class == ClassOther && r.Class != ClassOther) {
			best = r
		}
	}
	return best
}

// ClassifyResponse says what an HTTP answer means, from its status (0: not
// known) and its body. A successful answer (2xx) gives the zero Result unless
// its body holds an error or a finish reason that means something here.
func ClassifyResponse(status int, body []byte, opts ...Option) Result {
	ev := newEvidence(opts)
	ev.status = status
	ev.fromBody(body)
	return ev.classify()
}

// Is reports whether err is a context overflow. It is short for
// Classify(err).Overflow.
func Is(err error) bool { return Classify(err).Overflow }

// ErrOverflow is what errors.Is finds in an [*Error].
var ErrOverflow = errors.New("context window exceeded")

// Error is a context overflow with its numbers, wrapped around its cause.
type Error struct {
	Result Result
	Err    error // what the provider's client returned; may be nil
}

// Wrap returns err as an [*Error] if it is a context overflow and unchanged if
// it is not, or if it already wraps one.
func Wrap(err error, opts ...Option) error {
	var own *Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	if r := Classify(err, opts...); r.Overflow {
		return &Error{Result: r, Err: err}
	}
	return err
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Result.String()
	}
	return e.Result.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches [ErrOverflow].
func (e *Error) Is(target error) bool { return target == ErrOverflow }
