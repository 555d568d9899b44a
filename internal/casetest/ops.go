package casetest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// op is one step.
type op struct {
	name string // load, append, check, ...
	text string // as it was written
	// a and b are the numbers of the op: a range, an index, a count, a record.
	a, b int
	all  bool // load without a range
	id   string
	arg  string
}

var (
	number10  = `(0|[1-9][0-9]*)`
	plainOps  = regexp.MustCompile(`^(load|load_log|check|manual|full_replace|overflow|request|start|finish|cancel|start_background|finish_background|apply|switch_model|rewrite|crash|reload|view_steps|view_history)$`)
	rangeOps  = regexp.MustCompile(`^(load|region) ` + number10 + `\.\.` + number10 + `$`)
	indexOps  = regexp.MustCompile(`^(append|queue|rewind) ` + number10 + `$`)
	countOps  = regexp.MustCompile(`^(check) x([1-9][0-9]*)$`)
	parallel  = regexp.MustCompile(`^(parallel) ([1-9][0-9]*) check$`)
	userOps   = regexp.MustCompile(`(?s)^(append_user) (.+)$`)
	resultOps = regexp.MustCompile(`(?s)^(append_result) (\S+) (.+)$`)
)

// parseOp reads one op; a count of checks becomes that many ops.
func parseOp(s string) ([]op, error) {
	num := func(t string) int { n, _ := strconv.Atoi(t); return n }
	if plainOps.MatchString(s) {
		return []op{{name: s, text: s, all: s == "load"}}, nil
	}
	if m := rangeOps.FindStringSubmatch(s); m != nil {
		o := op{name: m[1], text: s, a: num(m[2]), b: num(m[3])}
		if o.a > o.b && o.name == "load" {
			return nil, fmt.Errorf("op %q: the range is empty", s)
		}
		return []op{o}, nil
	}
	if m := indexOps.FindStringSubmatch(s); m != nil {
		if m[1] == "rewind" && m[2] == "0" {
			return nil, fmt.Errorf("op %q: records count from 1", s)
		}
		return []op{{name: m[1], text: s, a: num(m[2])}}, nil
	}
	if m := countOps.FindStringSubmatch(s); m != nil {
		var out []op
		for range num(m[2]) {
			out = append(out, op{name: "check", text: "check"})
		}
		return out, nil
	}
	if m := parallel.FindStringSubmatch(s); m != nil {
		return []op{{name: "parallel", text: s, a: num(m[2])}}, nil
	}
	if m := userOps.FindStringSubmatch(s); m != nil {
		return []op{{name: m[1], text: s, arg: m[2]}}, nil
	}
	if m := resultOps.FindStringSubmatch(s); m != nil {
		return []op{{name: m[1], text: s, id: m[2], arg: m[3]}}, nil
	}
	return nil, fmt.Errorf("unknown op %q", s)
}

// parseOps reads the steps of a case and checks their order.
func parseOps(list []string) ([]op, error) {
	var out []op
	for _, s := range list {
		ops, err := parseOp(s)
		if err != nil {
			return nil, err
		}
		out = append(out, ops...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there are no ops")
	}
	if first := out[0].name; first != "load" && first != "load_log" && first != "append" {
		return nil, fmt.Errorf("the first op is %q: want load, load_log or append", out[0].text)
	}
	running, behind := false, false
	for i, o := range out {
		switch o.name {
		case "load", "load_log":
			if i > 0 {
				return nil, fmt.Errorf("op %q is not the first one", o.text)
			}
		case "start":
			if running {
				return nil, fmt.Errorf("op start while a run is under way")
			}
			running = true
		case "finish", "cancel":
			if !running {
				return nil, fmt.Errorf("op %s without start", o.name)
			}
			running = false
		case "start_background":
			behind = true
		case "finish_background", "apply":
			if !behind {
				return nil, fmt.Errorf("op %s without start_background", o.name)
			}
		case "crash":
			if i+1 == len(out) || out[i+1].name != "reload" {
				return nil, fmt.Errorf("op crash is not followed by reload")
			}
			running, behind = false, false
		case "reload":
			running, behind = false, false
		}
	}
	return out, nil
}

// durable reports whether an op or an expectation asks for a durable store.
func (c *Case) durable() bool {
	if len(c.Given.Log) > 0 || c.Expect.ReloadEqual || c.Expect.LogBytesMax != nil {
		return true
	}
	for _, o := range c.ops {
		switch o.name {
		case "reload", "load_log", "crash", "rewrite":
			return true
		}
	}
	return false
}

// classOK reports whether s is an error class.
func classOK(s string) bool { return strings.Contains(" "+allClasses+" ", " "+s+" ") && s != "" }

const allClasses = "none nothing_to_compact no_progress summarizer_failed cancelled storage_failed invalid_region overflow rate_limited invalid_request"
