package casetest

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Case is one case as it stands in its file, placeholders not yet expanded.
type Case struct {
	ID     string   `json:"id"`
	Kind   string   `json:"kind"`
	Title  string   `json:"title"`
	Source string   `json:"source"`
	Given  Given    `json:"given"`
	When   string   `json:"when"`
	Then   []string `json:"then"`
	Expect Expect   `json:"expect"`

	ops  []op
	text string // of the file
}

// Given is what a case runs.
type Given struct {
	Messages          []json.RawMessage `json:"messages"`
	ContextWindow     int               `json:"context_window"`
	Ops               []string          `json:"ops"`
	WindowSources     *WindowSources    `json:"window_sources"`
	ModelSwitch       *ModelSwitch      `json:"model_switch"`
	Policy            Policy            `json:"policy"`
	Summarizer        *Summarizer       `json:"summarizer"`
	Usage             usageList         `json:"usage"`
	Session           string            `json:"session"`
	RunningCalls      []string          `json:"running_calls"`
	LogFoldedCalls    []string          `json:"log_folded_calls"`
	Tools             []json.RawMessage `json:"tools"`
	LiveNotes         []string          `json:"live_notes"`
	StrictAlternation bool              `json:"strict_alternation"`
	ProviderError     *ProviderError    `json:"provider_error"`
	Log               []logRecord       `json:"log"`
	Faults            []string          `json:"faults"`
	Note              string            `json:"note"`
}

// WindowSources says where the window comes from.
type WindowSources struct {
	Declared int `json:"declared"`
	Catalog  int `json:"catalog"`
}

// ModelSwitch is the windows before and after the switch.
type ModelSwitch struct {
	From int `json:"from_window"`
	To   int `json:"to_window"`
}

// Policy is the policy of a case.
type Policy struct {
	TriggerTokens       *int     `json:"trigger_tokens"`
	TriggerRatio        float64  `json:"trigger_ratio"`
	ReserveOutput       int      `json:"reserve_output"`
	KeepRecentMessages  *int     `json:"keep_recent_messages"`
	KeepRecentTokens    *int     `json:"keep_recent_tokens"`
	Pinned              []int    `json:"pinned"`
	MaxSummaryTokens    int      `json:"max_summary_tokens"`
	MaxRequestBytes     int      `json:"max_request_bytes"`
	ToolResultCapTokens int      `json:"tool_result_cap_tokens"`
	DeadlineMS          int      `json:"deadline_ms"`
	Auto                *bool    `json:"auto"`
	MaxFailures         int      `json:"max_failures"`
	AttemptsPerRun      int      `json:"attempts_per_run"`
	Redact              []string `json:"redact"`
	CarryTools          []string `json:"carry_tools"`
	CarryPaths          bool     `json:"carry_paths"`
	Offload             bool     `json:"offload"`
	ReadLimit           int      `json:"read_limit"`
}

// Summarizer is the scripted summarizer of a case.
type Summarizer struct {
	Script        []Reply `json:"script"`
	ContextWindow int     `json:"context_window"`
	MaxTokens     int     `json:"max_tokens"`
	MaxOutput     int     `json:"max_output"`
	DelayMS       int     `json:"delay_ms"`
	RealWindow    int     `json:"real_window"`
	OverflowBody  *struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	} `json:"overflow_body"`
	Wrapper string `json:"wrapper"`
}

// Reply is one reply of the script.
type Reply struct {
	Content      *string    `json:"content"`
	FinishReason *string    `json:"finish_reason"`
	ToolCalls    []chatCall `json:"tool_calls"`
	Reasoning    string     `json:"reasoning_content"`
	Usage        *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Error *ReplyError `json:"error"`
}

// UnmarshalJSON reads a reply, which has content and a finish reason, or an
// error.
func (r *Reply) UnmarshalJSON(b []byte) error {
	type plain Reply
	if err := strict(b, (*plain)(r)); err != nil {
		return err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return err
	}
	if keys["error"] == nil && (keys["content"] == nil || keys["finish_reason"] == nil) {
		return fmt.Errorf("a reply has neither an error nor content and finish_reason")
	}
	return nil
}

// ReplyError is the way in which a reply fails.
type ReplyError struct {
	Status            int               `json:"status"`
	Body              json.RawMessage   `json:"body"`
	Headers           map[string]string `json:"headers"`
	Timeout           bool              `json:"timeout"`
	StreamBrokenAfter *int              `json:"stream_broken_after"`
}

// Usage is one usage record.
type Usage struct {
	At            *int `json:"at"`
	Prompt        int  `json:"prompt_tokens"`
	Completion    int  `json:"completion_tokens"`
	Total         int  `json:"total_tokens"`
	PromptDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Input       int    `json:"input_tokens"`
	Output      int    `json:"output_tokens"`
	CacheRead   int    `json:"cache_read_input_tokens"`
	CacheCreate int    `json:"cache_creation_input_tokens"`
	Window      int    `json:"window"`
	Session     string `json:"session"`
	TurnTotal   bool   `json:"turn_total"`
	Timings     *struct {
		CacheN  int `json:"cache_n"`
		PromptN int `json:"prompt_n"`
	} `json:"timings"`
}

// usageList is one record or a list of them.
type usageList []Usage

func (l *usageList) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '[' {
		var list []Usage
		err := strict(b, &list)
		*l = list
		return err
	}
	var one Usage
	err := strict(b, &one)
	*l = usageList{one}
	return err
}

// logRecord is one record of a stored session. Records of a type that the
// language does not name have anything in them.
type logRecord struct {
	Seq     int
	Type    string
	Msg     json.RawMessage // an index or a message
	Torn    bool
	Folds   []int
	Summary string
	raw     json.RawMessage
}

func (r *logRecord) UnmarshalJSON(b []byte) error {
	r.raw = bytes.Clone(b)
	var head struct {
		Seq  int    `json:"seq"`
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return err
	}
	r.Seq, r.Type = head.Seq, head.Type
	type common struct {
		Seq  int    `json:"seq"`
		TS   int    `json:"ts"`
		Type string `json:"type"`
	}
	switch r.Type {
	case "":
		return fmt.Errorf("log record %d has no type", r.Seq)
	case "message":
		var m struct {
			common
			Msg  json.RawMessage `json:"msg"`
			Torn bool            `json:"torn"`
		}
		if err := strict(b, &m); err != nil {
			return err
		}
		if m.Msg == nil {
			return fmt.Errorf("log record %d has no msg", r.Seq)
		}
		r.Msg, r.Torn = m.Msg, m.Torn
	case "compaction", "compaction_begin":
		var m struct {
			common
			Folds   []int   `json:"folds"`
			Summary *string `json:"summary"`
			FromTS  int     `json:"from_ts"`
			ToTS    int     `json:"to_ts"`
		}
		if err := strict(b, &m); err != nil {
			return err
		}
		if len(m.Folds) == 0 || (m.Summary == nil) != (r.Type == "compaction_begin") {
			return fmt.Errorf("log record %d (%s): folds or summary is missing or too much", r.Seq, r.Type)
		}
		r.Folds = m.Folds
		if m.Summary != nil {
			r.Summary = *m.Summary
		}
	case "reset":
		return strict(b, new(common))
	}
	return nil
}

// ProviderError is the answer to the request that was refused.
type ProviderError struct {
	Status int               `json:"status"`
	Body   json.RawMessage   `json:"body"`
	Text   *string           `json:"text"`
	Stream bool              `json:"stream"`
	Raw    *string           `json:"raw"`
	Events []json.RawMessage `json:"events"`
}

// answer is what came over the wire.
func (p *ProviderError) answer() []byte {
	switch {
	case p.Text != nil:
		return []byte(*p.Text)
	case p.Raw != nil:
		return []byte(*p.Raw)
	case p.Events != nil:
		var b bytes.Buffer
		for _, e := range p.Events {
			b.WriteString("data: ")
			_ = json.Compact(&b, e)
			b.WriteString("\n\n")
		}
		return b.Bytes()
	}
	return bodyBytes(p.Body)
}

// bodyBytes is a JSON body as it came over the wire: a string is the body
// itself, null is none.
func bodyBytes(raw json.RawMessage) []byte {
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case json.Unmarshal(raw, &text) == nil:
		return []byte(text)
	}
	return raw
}

// strict decodes JSON; a field that v has not is an error.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("more than one JSON value")
	}
	return nil
}
