package overflow

import "strings"

// Usage is what a reply reports of itself, for [ClassifyFinish].
type Usage struct {
	// Input and Output are tokens of the request and of the reply; Input counts
	// cached tokens too.
	Input, Output int
	// Window is the model's window; 0: not known.
	Window int

	outputKnown bool
}

// ClassifyFinish says what the end of a reply means that came without an error.
//
// It is an overflow where the reason says that the window was hit
// (model_context_window_exceeded and its like in other APIs), and where the
// usage shows it although the reason does not: more input than the window has,
// or a reply that was cut when input and reply together had filled the window to
// its last hundredth.
//
// A reply cut at its own limit (length, max_tokens, max_output_tokens) is no
// overflow: KindReply, ClassNone. A reply stopped by a content filter is
// ClassContentPolicy. Every other reason gives the zero Result.
func ClassifyFinish(reason string, usage Usage) Result {
	code := squash(reason)
	if r := match(stageFinish, []string{code}, nil); r != nil {
		return finishOverflow(r.name, usage)
	}
	full := usage.Window > 0 && usage.Input > usage.Window
	cut := code == "length" || strings.HasPrefix(code, "max") && strings.Contains(code, "token")
	if cut && usage.Window > 0 && usage.Input+usage.Output >= usage.Window-usage.Window/100 {
		full = true
	}
	switch {
	case full:
		return finishOverflow("finish.usage", usage)
	case cut:
		return Result{Kind: KindReply}
	case code == "contentfilter" || code == "safety" || code == "refusal" || code == "prohibitedcontent":
		return Result{Class: ClassContentPolicy}
	}
	return Result{}
}

func finishOverflow(rule string, u Usage) Result {
	return Result{Overflow: true, Kind: KindTokens, Class: ClassOverflow, Rule: rule,
		Limit: max(0, u.Window), Actual: max(0, u.Input)}
}
