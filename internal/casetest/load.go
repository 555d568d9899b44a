package casetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
)

// ErrNoCases is returned for a folder without cases.
var ErrNoCases = errors.New("no cases")

// Load reads every case of a folder, the files B*.json, in order of their
// names. A field or an op that the language does not have is an error, and so
// are a folder without cases and two cases with one id.
func Load(dir string) ([]*Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "B*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: %w (files B*.json)", dir, ErrNoCases)
	}
	sort.Strings(files)
	var out []*Case
	seen := make(map[string]string)
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		c, err := Parse(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if other, ok := seen[c.ID]; ok {
			return nil, fmt.Errorf("%s: id %s is that of %s", f, c.ID, other)
		}
		seen[c.ID] = f
		out = append(out, c)
	}
	return out, nil
}

// Parse reads one case.
func Parse(data []byte) (*Case, error) {
	c := &Case{text: string(data)}
	if err := strict(data, c); err != nil {
		return nil, err
	}
	var err error
	if c.ops, err = parseOps(c.Given.Ops); err != nil {
		return nil, err
	}
	return c, c.check()
}

var idPattern = regexp.MustCompile(`^B[0-9]{3,}$`)

// check finds what the decoder does not.
func (c *Case) check() error {
	g, e := &c.Given, &c.Expect
	switch {
	case !idPattern.MatchString(c.ID):
		return fmt.Errorf("id %q is no id", c.ID)
	case c.Kind == "" || c.Title == "" || len(c.Then) == 0:
		return errors.New("kind, title or then is missing")
	case len(g.Messages) == 0:
		return errors.New("there are no messages")
	case g.ContextWindow < 1:
		return errors.New("context_window is missing")
	case len(e.keys) == 0:
		return errors.New("nothing is expected")
	}
	for key, raw := range e.keys {
		if string(raw) == "false" && key != "compacts" && key != "trigger" && key != "overflow" {
			return fmt.Errorf("expect.%s is false", key)
		}
	}
	index := func(where string, list ...int) error {
		for _, i := range list {
			if i < 0 || i >= len(g.Messages) {
				return fmt.Errorf("%s: there is no message %d", where, i)
			}
		}
		return nil
	}
	errs := []error{index("keep", e.Keep...), index("gone", e.Gone...), index("pinned", g.Policy.Pinned...)}
	if e.LastIndex != nil {
		errs = append(errs, index("last_index", *e.LastIndex))
	}
	for _, u := range g.Usage {
		if u.At != nil {
			errs = append(errs, index("usage", *u.At))
		}
	}
	for _, o := range c.ops {
		switch o.name {
		case "append", "queue":
			errs = append(errs, index(o.text, o.a))
		case "load":
			if !o.all {
				errs = append(errs, index(o.text, o.a, o.b))
			}
		case "load_log":
			if len(g.Log) == 0 {
				errs = append(errs, errors.New("op load_log without a log"))
			}
		case "overflow":
			if g.ProviderError == nil {
				errs = append(errs, errors.New("op overflow without provider_error"))
			}
		case "switch_model":
			if g.ModelSwitch == nil {
				errs = append(errs, errors.New("op switch_model without model_switch"))
			}
		}
	}
	for i, raw := range g.Messages {
		if err := checkMessage(raw); err != nil {
			errs = append(errs, fmt.Errorf("message %d: %w", i, err))
		}
	}
	errs = append(errs, c.checkWords(), c.checkLog())
	return errors.Join(errs...)
}

// checkWords checks the enumerations.
func (c *Case) checkWords() error {
	e := &c.Expect
	for _, s := range e.Error {
		if !classOK(s) {
			return fmt.Errorf("expect.error: unknown class %q", s)
		}
	}
	if _, ok := e.keys["second_error"]; ok && !classOK(e.SecondError) {
		return fmt.Errorf("expect.second_error: unknown class %q", e.SecondError)
	}
	oneOf := func(where, s string, words ...string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("%s: unknown word %q", where, s)
		}
		return nil
	}
	var errs []error
	if e.Class != "" {
		errs = append(errs, oneOf("expect.class", e.Class, "payload_too_large", "rate_limited", "invalid_request", "other"))
	}
	if e.Events != nil {
		for _, s := range *e.Events {
			errs = append(errs, oneOf("expect.events", s, "started:auto", "started:manual", "finished:ok", "finished:failed"))
		}
	}
	roles := []string{"system", "developer", "user", "assistant", "tool"}
	for _, s := range e.LastRole {
		errs = append(errs, oneOf("expect.last_role", s, roles...))
	}
	for where, s := range map[string]string{"expect.summary_role": e.SummaryRole, "expect.summarizer_last_role": e.SummarizerLastRole} {
		if s != "" {
			errs = append(errs, oneOf(where, s, roles...))
		}
	}
	for _, s := range c.Given.Faults {
		errs = append(errs, oneOf("faults", s, "commit_write_error", "second_write_of_commit_fails", "crash_during_rewrite", "offload_write_error"))
	}
	for _, p := range c.Given.Policy.Redact {
		_, err := regexp.Compile(p)
		errs = append(errs, err)
	}
	if s := c.Given.Summarizer; s != nil {
		if len(s.Script) == 0 {
			errs = append(errs, errors.New("summarizer.script is empty"))
		}
		for i, r := range s.Script {
			if r.FinishReason != nil {
				errs = append(errs, oneOf("finish_reason", *r.FinishReason, "stop", "length", "tool_calls"))
			}
			if f := r.Error; f != nil && f.Status == 0 && !f.Timeout && f.StreamBrokenAfter == nil {
				errs = append(errs, fmt.Errorf("summarizer.script[%d]: an error of no kind", i))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *Case) checkLog() error {
	for i, r := range c.Given.Log {
		if r.Seq != i+1 {
			return fmt.Errorf("log: record %d has seq %d", i+1, r.Seq)
		}
		if r.Torn && i+1 != len(c.Given.Log) {
			return fmt.Errorf("log: record %d is torn and not the last one", r.Seq)
		}
		for _, f := range r.Folds {
			if f < 1 || f >= r.Seq {
				return fmt.Errorf("log: record %d folds record %d", r.Seq, f)
			}
		}
		if n, ok := r.index(); !ok && r.Msg != nil {
			if err := checkMessage(r.Msg); err != nil {
				return fmt.Errorf("log: record %d: %w", r.Seq, err)
			}
		} else if ok && (n < 0 || n >= len(c.Given.Messages)) {
			return fmt.Errorf("log: record %d: there is no message %d", r.Seq, n)
		}
	}
	return nil
}

// index returns the index that a message record names; ok is false when it has
// the message itself.
func (r *logRecord) index() (n int, ok bool) {
	if r.Msg == nil {
		return 0, false
	}
	return n, json.Unmarshal(r.Msg, &n) == nil
}
