package casetest

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Expect is what must hold. Absent keys are not checked.
type Expect struct {
	Compacts *bool   `json:"compacts"`
	Trigger  *bool   `json:"trigger"`
	Error    classes `json:"error"`
	// SecondError is the class of the second compaction op.
	SecondError string `json:"second_error"`

	Valid            bool `json:"valid"`
	ValidAfterAppend bool `json:"valid_after_append"`
	UniqueIDs        bool `json:"unique_ids"`
	ContentPresent   bool `json:"wire_content_present"`
	PrefixStable     bool `json:"prefix_stable"`

	Keep             []int          `json:"keep"`
	Gone             []int          `json:"gone"`
	KeepText         []string       `json:"keep_text"`
	Contains         []string       `json:"contains"`
	NotContains      []string       `json:"not_contains"`
	Order            []string       `json:"order"`
	CountMax         map[string]int `json:"count_max"`
	SurfaceUnchanged bool           `json:"surface_unchanged"`
	SurfaceLenMax    *int           `json:"surface_len_max"`
	LastIndex        *int           `json:"last_index"`
	SummaryCount     *int           `json:"summary_count"`

	MaxTokens        *int `json:"max_tokens"`
	EstimateMin      *int `json:"estimate_min"`
	EstimateMax      *int `json:"estimate_max"`
	RequestMaxTokens *int `json:"request_max_tokens"`
	RequestMaxBytes  *int `json:"request_max_bytes"`

	LastRole         texts      `json:"last_role"`
	SummaryRole      string     `json:"summary_role"`
	SummaryFramed    bool       `json:"summary_framed"`
	SystemCount      *int       `json:"system_count"`
	SyntheticResults *[]string  `json:"synthetic_results"`
	OpenCallsAfter   *[]string  `json:"open_calls_after"`
	AllOrNone        [][]string `json:"all_or_none"`

	CallsMin           *int     `json:"summarizer_calls_min"`
	CallsMax           *int     `json:"summarizer_calls_max"`
	InputMaxTokens     *int     `json:"summarizer_input_max_tokens"`
	InputMinTokens     *int     `json:"summarizer_input_min_tokens"`
	InputContains      []string `json:"summarizer_input_contains"`
	InputNotContains   []string `json:"summarizer_input_not_contains"`
	SecondInputMax     *int     `json:"second_request_max_tokens"`
	SecondMaxLarger    bool     `json:"second_max_tokens_larger"`
	SummarizerValid    bool     `json:"summarizer_request_valid"`
	SummarizerNoTools  bool     `json:"summarizer_no_tool_roles_without_tools"`
	SummarizerLastRole string   `json:"summarizer_last_role"`
	SummarizerMaxOut   *int     `json:"summarizer_request_max_output"`
	SummarizerMaxBytes *int     `json:"summarizer_request_max_bytes"`
	SystemNotContains  []string `json:"summarizer_system_not_contains"`
	LanguageHint       bool     `json:"summarizer_language_hint"`
	FenceClosedOnce    bool     `json:"fence_closed_once"`

	ToolsExecuted    *int      `json:"tools_executed"`
	NotCommittedOver *int      `json:"not_committed_if_after_over"`
	ReturnsWithinMS  *int      `json:"returns_within_ms"`
	Events           *[]string `json:"events"`
	ReportBeforeMin  *int      `json:"report_before_min"`
	ReportBeforeMax  *int      `json:"report_before_max"`
	ReportAfterMax   *int      `json:"report_after_max"`
	FoldedCount      *int      `json:"folded_count"`
	HistoryContains  []string  `json:"history_contains"`
	HistoryMarked    bool      `json:"history_summary_only_as_compaction"`
	ReloadEqual      bool      `json:"reload_equal"`
	LogBytesMax      *int      `json:"log_bytes_added_max"`

	Overflow      *bool  `json:"overflow"`
	Limit         number `json:"limit"`
	Actual        number `json:"actual"`
	Class         string `json:"class"`
	LearnedWindow number `json:"learned_window"`

	keys map[string]json.RawMessage
}

// UnmarshalJSON reads the expectations and refuses unknown ones.
func (e *Expect) UnmarshalJSON(b []byte) error {
	type plain Expect
	if err := strict(b, (*plain)(e)); err != nil {
		return err
	}
	return json.Unmarshal(b, &e.keys)
}

// number is an integer, null, or absent.
type number struct {
	set, null bool
	n         int
}

func (n *number) UnmarshalJSON(b []byte) error {
	n.set = true
	if string(b) == "null" {
		n.null = true
		return nil
	}
	return json.Unmarshal(b, &n.n)
}

func (n number) String() string {
	if n.null {
		return "null"
	}
	return strconv.Itoa(n.n)
}

// texts is a string or a list of strings.
type texts []string

func (t *texts) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("[")) {
		return json.Unmarshal(b, (*[]string)(t))
	}
	*t = texts{""}
	return json.Unmarshal(b, &(*t)[0])
}

// classes is an error class or a list of allowed ones.
type classes = texts
