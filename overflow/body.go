package overflow

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

const (
	maxDepth  = 40 // of JSON
	maxNested = 6  // JSON texts inside JSON texts
)

// textKeys hold what a provider says to a reader. The text under any other key
// is not read: bodies echo the request, and a request may talk about overflows.
var textKeys = set("message", "msg", "error", "errors", "err", "detail", "details", "description",
	"errordescription", "errormessage", "errormsg", "errmsg", "title", "reason", "raw", "cause", "statusmsg",
	"original", "originalmessage", "body", "response", "exception", "info", "usertip", "fault", "faultstring",
	"upstreamerror", "providererror", "innererror", "failure")

var codeKeys = set("code", "type", "status", "errorcode", "errortype", "errcode", "reason", "category", "kind",
	"object", "errorname", "name")

var statusKeys = set("code", "status", "statuscode", "httpcode", "httpstatus", "errorcode")

// skipKeys hold the request, the model's words, or other calls' errors.
var skipKeys = set("input", "inputs", "messages", "prompt", "request", "content", "parts", "arguments", "args",
	"tools", "toolcalls", "output", "outputtext", "previouserrors", "ctx", "headers", "instructions", "logprobs")

// choiceKeys hold the model's answers: only a finish reason is read in them.
var choiceKeys = set("choices", "candidates", "outputs", "completions", "generations")

var errorKeys = set("error", "errors", "err", "exception", "errorcode", "errormessage", "errormsg", "errortype",
	"detail", "fault")

var finishKeys = set("finishreason", "stopreason", "nativefinishreason", "donereason")

var (
	inputFields = set("nprompttokens", "prompttokens", "inputtokens", "prompttokencount",
		"inputtokencount", "actualtokens", "requesttokens", "requestedtokens", "numprompttokens", "numinputtokens",
		"estimatedtokens", "currenttokens")
	limitFields = set("nctx", "contextlength", "maxcontextlength", "contextwindow", "contextsize", "contextlimit",
		"maxinputtokens", "maxprompttokens", "maxcontexttokens", "tokenlimit", "maxmodellen", "inputtokenlimit",
		"modelmaxprompttokens", "limittokens")
	outputFields = set("completiontokens", "outputtokens", "candidatestokencount", "evalcount")
)

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

func unquote(s string) (string, bool) {
	var out string
	if json.NewDecoder(strings.NewReader(s)).Decode(&out) != nil {
		return "", false
	}
	return strings.TrimSpace(out), out != ""
}

// fromJSON reads the JSON values at the head of s, as far as they are valid: a
// body that was cut still says what stood before the cut. It reports whether it
// found anything.
func (ev *evidence) fromJSON(s string) bool {
	if ev.nested >= maxNested {
		return false
	}
	ev.nested++
	dec := json.NewDecoder(strings.NewReader(clip(s, bodyCap)))
	dec.UseNumber()
	before := len(ev.texts) + len(ev.codes)
	finish := ev.finish
	whole := false
	for range 200 { // lines of a stream that is plain JSON
		if !ev.value(dec, "", 0) {
			break
		}
		whole = true
		if !dec.More() {
			break
		}
	}
	return whole || len(ev.texts)+len(ev.codes) > before || ev.finish != finish
}

// value reads one value that stands under key. It is false where the JSON ends
// or is broken.
func (ev *evidence) value(dec *json.Decoder, key string, depth int) bool {
	tok, err := dec.Token()
	if err != nil || depth > maxDepth {
		return false
	}
	switch t := tok.(type) {
	case json.Delim:
		return ev.composite(dec, t, key, depth)
	case string:
		ev.stringAt(key, t)
	case json.Number:
		ev.numberAt(key, t.String())
	case bool:
		if t && errorKeys[key] && ev.quiet == 0 {
			ev.isError = true
		}
	}
	return true
}

func (ev *evidence) composite(dec *json.Decoder, open json.Delim, key string, depth int) bool {
	if errorKeys[key] && dec.More() && ev.quiet == 0 {
		ev.isError = true
	}
	if open == '[' {
		for dec.More() {
			if !ev.value(dec, key, depth+1) {
				return false
			}
		}
		_, err := dec.Token()
		return err == nil
	}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return false
		}
		name, ok := tok.(string)
		if !ok {
			return false
		}
		k := squash(name)
		switch {
		case skipKeys[k]:
			if !skip(dec) {
				return false
			}
			continue
		case ev.quiet > 0:
		case name == "__type":
			ev.shape, ev.isError = "bedrock", true
			k = "errorcode"
		case strings.HasSuffix(k, "exception") && k != "exception":
			ev.isError = true
			ev.addCode(name)
		case k == "providername" && ev.shape == "":
			ev.shape = "openrouter"
		case k == "baseresp" && ev.shape == "":
			ev.shape = "minimax"
		}
		if key == "incompletedetails" && k == "reason" {
			k = "finishreason" // OpenAI Responses
		}
		if choiceKeys[k] {
			ev.quiet++
		}
		ok = ev.value(dec, k, depth+1)
		if choiceKeys[k] {
			ev.quiet--
		}
		if !ok {
			return false
		}
	}
	_, err := dec.Token()
	return err == nil
}

// skip reads past one value.
func skip(dec *json.Decoder) bool {
	for depth := 0; ; {
		tok, err := dec.Token()
		if err != nil {
			return false
		}
		if d, ok := tok.(json.Delim); ok {
			if d == '{' || d == '[' {
				depth++
			} else {
				depth--
			}
		}
		if depth == 0 {
			return true
		}
	}
}

func (ev *evidence) stringAt(key, s string) {
	s = strings.TrimSpace(s)
	if s == "" {
		return
	}
	if ev.quiet > 0 {
		if finishKeys[key] {
			ev.finish = s
		}
		return
	}
	if errorKeys[key] || key == "statusmsg" && !strings.EqualFold(s, "success") {
		ev.isError = true
	}
	if codeKeys[key] && len(s) <= 200 {
		ev.addCode(s)
		switch key {
		case "type", "object":
			if s == "error" || strings.HasSuffix(s, "_error") || strings.HasSuffix(s, ".failed") {
				ev.isError = true
			}
			if s == "error" && key == "type" && ev.shape == "" {
				ev.shape = "anthropic"
			}
		case "status":
			if ev.shape == "" && strings.Contains(s, "_") && strings.ToUpper(s) == s {
				ev.shape = "google-gemini"
			}
		case "code":
			ev.isError = ev.isError || len(ev.texts) > 0
		}
	}
	if finishKeys[key] {
		ev.finish = s
	}
	if statusKeys[key] || inputFields[key] || limitFields[key] {
		ev.numberAt(key, s)
	}
	if strings.HasPrefix(key, "retry") {
		ev.retryAt(key, s)
	}
	if textKeys[key] {
		if key == "message" && len(ev.codes) > 0 && ev.finish == "" {
			ev.isError = true
		}
		ev.fromText(s)
	}
}

func (ev *evidence) numberAt(key, s string) {
	if strings.HasPrefix(key, "retry") {
		ev.retryAt(key, s)
		return
	}
	n, ok := parseCount(s)
	if !ok {
		return
	}
	if codeKeys[key] {
		ev.addCode(s)
	}
	if statusKeys[key] && n >= 400 && n < 600 && ev.bodyStatus == 0 {
		ev.bodyStatus = n
	}
	switch {
	case inputFields[key] && n > 0:
		if ev.input == 0 {
			ev.input = n
		}
		ev.usage.Input = max(ev.usage.Input, n)
	case limitFields[key] && n > 0:
		if ev.limit == 0 {
			ev.limit = n
		}
	case outputFields[key]:
		ev.usage.Output = max(ev.usage.Output, n)
		ev.usage.outputKnown = true
	}
}

// retryAt reads how long to wait: seconds, or a duration as text.
func (ev *evidence) retryAt(key, s string) {
	unit := time.Second
	if strings.HasSuffix(key, "ms") {
		unit = time.Millisecond
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f > 0 && f < 1e10 {
		ev.wait(time.Duration(f * float64(unit)))
		return
	}
	if d, err := time.ParseDuration(s); err == nil {
		ev.wait(d)
	}
}
