package overflow

import (
	"regexp"
	"time"
)

// classify judges the evidence.
func (ev *evidence) classify() Result {
	if ev.retryAfter == 0 {
		ev.retryFromText()
	}
	if ev.hostname == "" && len(ev.texts) > 0 {
		ev.host(hostInText(ev.texts[0]))
	}
	if ok := ev.status >= 200 && ev.status < 300; ok && !ev.isError {
		u := ev.usage
		if u.Window = ev.window; ev.finish == "" {
			return ev.stamp(Result{}, nil)
		}
		return ev.stamp(ClassifyFinish(ev.finish, u), nil)
	}
	if (ev.status == 0 || ev.status < 400) && ev.bodyStatus != 0 {
		ev.status = ev.bodyStatus
	}
	r, decided := ev.decide()
	switch {
	case r.Overflow:
		ev.numbers(&r)
	case r.Kind == KindBytes:
		ev.byteNumbers(&r)
	}
	return ev.stamp(r, decided)
}

// stamp adds what does not depend on the verdict.
func (ev *evidence) stamp(r Result, decided *row) Result {
	r.Status = ev.status
	r.RetryAfter = ev.retryAfter
	if len(ev.texts) > 0 {
		r.Message = clip(ev.texts[0], messageCap)
		for _, t := range ev.texts {
			if len(t) > 20 { // past "Bad Request" and its like
				r.Message = clip(t, messageCap)
				break
			}
		}
	}
	switch {
	case ev.provider != "":
		r.Provider = ev.provider
	case ev.hostname != "":
		r.Provider = ev.hostname
	case decided != nil && decided.who != "":
		r.Provider = decided.who
	default:
		r.Provider = ev.shape
	}
	return r
}

// decide goes through the stages in their order, the status between them.
func (ev *evidence) decide() (Result, *row) {
	verdict := func(s stage) (Result, *row) {
		m := match(s, ev.codes, ev.plain)
		if m == nil {
			return Result{}, nil
		}
		r := Result{Kind: m.kind, Class: m.class, Rule: m.name}
		if s == stageCode || s == stageText {
			r.Overflow, r.Kind, r.Class = true, KindTokens, ClassOverflow
		}
		if r.Class == ClassNone {
			if r.Class = byStatus(ev.status); r.Class == ClassOther {
				r.Class = ClassInvalidRequest
			}
		}
		return r, m
	}
	for _, s := range []stage{stageRate, stageQuota} {
		if r, m := verdict(s); m != nil {
			return r, m
		}
	}
	// A 429 is never an overflow and a 402 never anything but money, whatever
	// else the answer says.
	switch {
	case ev.status == 429 || ev.bodyStatus == 429: // some gateways answer 500 around a 429
		return Result{Class: ClassRateLimited}, nil
	case ev.status == 402:
		return Result{Class: ClassQuota}, nil
	}
	// Cerebras refuses an overflow with a status alone; from others an empty 413
	// is about bytes (earendil-works/pi, overflow.ts).
	if ev.empty && (ev.status == 400 || ev.status == 413) && (ev.provider == "cerebras" || ev.hostname == "cerebras") {
		return Result{Overflow: true, Kind: KindTokens, Class: ClassOverflow, Rule: "status.cerebras"}, nil
	}
	for _, s := range []stage{stageContent, stageCode, stageLookalike, stageText} {
		if r, m := verdict(s); m != nil {
			return r, m
		}
	}
	if ev.status == 413 {
		return Result{Kind: KindBytes, Class: ClassPayloadTooLarge}, nil
	}
	if ev.status == 401 || ev.status == 403 {
		return Result{Class: ClassAuth}, nil
	}
	if r, m := verdict(stageRest); m != nil {
		return r, m
	}
	return Result{Class: byStatus(ev.status)}, nil
}

func byStatus(status int) Class {
	switch {
	case status == 401 || status == 403:
		return ClassAuth
	case status == 402:
		return ClassQuota
	case status == 408 || status >= 500:
		return ClassServer
	case status == 413:
		return ClassPayloadTooLarge
	case status == 429:
		return ClassRateLimited
	case status >= 400:
		return ClassInvalidRequest
	}
	return ClassOther
}

// retryText finds how long to wait in a text: "try again in 1m3.5s", "retry
// after 21 seconds".
var retryText = regexp.MustCompile(`\b(?:try again|retry|wait|available|resets?)(?: after| in| for)? ((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)\b|\b(?:try again|retry|wait)(?: after| in| for)? (\d+(?:\.\d+)?) ?(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b`)

func (ev *evidence) retryFromText() {
	for _, t := range ev.plain {
		m := retryText.FindStringSubmatch(t)
		switch {
		case m == nil:
			continue
		case m[1] != "":
			if d, err := time.ParseDuration(m[1]); err == nil {
				ev.wait(d)
			}
		default:
			unit := "s"
			switch {
			case m[3][0] == 'h':
				unit = "h"
			case m[3] == "ms" || len(m[3]) > 3 && m[3][:4] == "mill":
				unit = "ms"
			case m[3][0] == 'm':
				unit = "m"
			}
			if d, err := time.ParseDuration(m[2] + unit); err == nil {
				ev.wait(d)
			}
		}
		return
	}
}
