package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/overflow"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
)

// failure is what a verb prints with --json in place of an answer. The exit code
// is the same as without. Fields may be added, not renamed.
type failure struct {
	Error failureInfo `json:"error"`
}

type failureInfo struct {
	// Kind is usage, nothing_to_do or failed, as the exit code says.
	Kind string `json:"kind"`
	// Code is that of package compact, the class of a failed summary, or
	// unreadable or damaged for a file; empty when there is none.
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	// Advice says what to do, if the message does not.
	Advice string `json:"advice,omitempty"`
	Exit   int    `json:"exit"`
}

// wantsJSON reports whether --json was asked for, also in a command line that
// could not be read.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	if cmd != nil {
		f := cmd.Flags().Lookup("json")
		if f == nil {
			return false
		}
		if f.Changed {
			return f.Value.String() == "true"
		}
	}
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

func (a *app) jsonFailure(cmd *cobra.Command, e *exitError) {
	info := failureInfo{Kind: "failed", Message: e.Error(), Exit: e.code}
	switch e.code {
	case exitUsage:
		info.Kind, info.Advice = "usage", fmt.Sprintf("run '%s --help'", cmd.CommandPath())
	case exitNothing:
		info.Kind = "nothing_to_do"
	}
	var ce *compact.Error
	var sf *summarize.Failure
	var we *wire.Error
	var damage *filestore.DamageError
	var ee *endpointError
	if errors.As(e, &ce) {
		info.Code, info.Advice = string(ce.Code), ce.Code.Advice()
	}
	switch {
	case errors.As(e, &sf):
		info.Code = string(sf.Class)
		if errors.As(e, &ee) {
			info.Advice = ee.do
		}
	case errors.As(e, &we):
		info.Code, info.Advice = "unreadable", "run 'agentcompact doctor' on the file: it names what is wrong and can repair much of it"
	case errors.As(e, &damage):
		info.Code, info.Advice = "damaged", "run 'agentcompact doctor --fix' on the file: it saves what is sound into a new one"
	}
	// Standard output may be what failed; the exit code says so too.
	_ = a.json(failure{info})
}

var flagFailure = regexp.MustCompile(`(?s)^invalid argument "(.*)" for "(?:-\w, )?(--[\w-]+)" flag: `)

// flagError words what is wrong with a flag.
func flagError(err error) string {
	m := flagFailure.FindStringSubmatch(err.Error())
	if m == nil {
		return err.Error()
	}
	value, name := m[1], m[2]
	var ne *strconv.NumError
	switch {
	case !errors.As(err, &ne):
		if strings.Contains(err.Error(), "duration") {
			return fmt.Sprintf("%s: %q is not a duration like 500ms", name, value)
		}
		return fmt.Sprintf("%s: %q: %s", name, value, strings.TrimPrefix(err.Error(), m[0]))
	case errors.Is(ne, strconv.ErrRange):
		return fmt.Sprintf("%s: %s is too large", name, ne.Num)
	case ne.Func == "ParseBool":
		return fmt.Sprintf("%s: %q is neither true nor false", name, value)
	case ne.Func == "ParseFloat":
		return fmt.Sprintf("%s: %q is not a number", name, ne.Num)
	}
	return fmt.Sprintf("%s: %q is not a whole number", name, ne.Num)
}

// plainDefaults takes out of the help what only says that a flag is not set.
func plainDefaults(cmd *cobra.Command) {
	for _, name := range []string{"keep", "pin", "seq", "start", "end"} {
		if f := cmd.Flags().Lookup(name); f != nil {
			f.DefValue = ""
		}
	}
	for _, c := range cmd.Commands() {
		plainDefaults(c)
	}
}

// readNames are the formats that every verb reads.
func readNames() []string {
	out := []string{ownFormat}
	for _, c := range formats.All() {
		out = append(out, c.Name())
	}
	return out
}

// wrapped sets words in lines for a terminal.
func wrapped(indent string, words []string) string {
	var b strings.Builder
	line := indent
	for i, w := range words {
		if i < len(words)-1 {
			w += ","
		}
		if len(line)+len(w) > 78 {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += w + " "
	}
	b.WriteString(strings.TrimRight(line, " "))
	return b.String()
}

// endpointError says which endpoint, model and key a failure of the summarizer is
// about; other errors stay as they are.
func (f *compactFlags) endpointError(err error) error {
	var sf *summarize.Failure
	if f.model == "" || !errors.As(err, &sf) {
		return err
	}
	at := f.baseURL
	if at == "" {
		at = "the endpoint of OpenAI"
	}
	key := "the key is that of " + f.keyEnv
	if os.Getenv(f.keyEnv) == "" {
		key = f.keyEnv + " is not set, so no key was sent"
	}
	status := overflow.Classify(err).Status
	what, do := "", ""
	switch {
	case status == 401 || status == 403:
		what, do = fmt.Sprintf("%s does not accept the key for model %q (%s)", at, f.model, key), "check the key, or name another variable with --key-env"
	case sf.Class == summarize.Auth:
		what, do = fmt.Sprintf("%s refuses model %q (%s)", at, f.model, key), "check credit and rights of the key, or name another variable with --key-env"
	case status == 404:
		what, do = fmt.Sprintf("%s has no chat completions or no model %q", at, f.model), "check --model, and --base-url, which mostly ends in /v1"
	case status == 0 && sf.Class == summarize.Transient:
		what, do = at+" cannot be reached", "check --base-url and that the server runs"
	default:
		what, do = fmt.Sprintf("model %q at %s failed", f.model, at), "check --model and --base-url"
	}
	cause := error(sf)
	if sf.Err != nil {
		cause = sf.Err
	}
	return &endpointError{what: fmt.Sprintf("%s: %v", what, cause), do: do + ", or add --fallback", err: err}
}

// endpointError is a failure of the summarizer in terms of the command's flags.
type endpointError struct {
	what, do string
	err      error
}

func (e *endpointError) Error() string { return e.what + " (" + e.do + ")" }
func (e *endpointError) Unwrap() error { return e.err }
