package overflow

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
)

const (
	maxBranches = 64     // joined errors that are looked at
	maxChain    = 10_000 // wrappers that are looked through
)

// branches returns the errors that err joins, itself if it joins none. It does
// not follow a cycle forever.
func branches(err error) []error {
	var out []error
	steps := 0
	var walk func(error)
	walk = func(e error) {
		top := e
		for e != nil && len(out) < maxBranches && steps < 8*maxChain {
			steps++
			if j, ok := e.(interface{ Unwrap() []error }); ok {
				found := false
				for _, c := range j.Unwrap() {
					if c != nil {
						found = true
						walk(c)
					}
				}
				if found {
					return
				}
				break
			}
			u, ok := e.(interface{ Unwrap() error })
			if !ok {
				break
			}
			e = u.Unwrap()
		}
		if len(out) < maxBranches {
			out = append(out, top)
		}
	}
	walk(err)
	if len(out) == 0 {
		out = append(out, err)
	}
	return out
}

// inChain asks each error of a chain of wrappers. Unlike package errors it does
// not follow a circle forever.
func inChain(err error, test func(error) bool) bool {
	for n := 0; err != nil && n < maxChain; n++ {
		if test(err) {
			return true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return false
		}
		err = u.Unwrap()
	}
	return false
}

// ownIn returns the first [*Error] of a chain, nil if it has none.
func ownIn(err error) (own *Error) {
	inChain(err, func(e error) bool {
		own, _ = e.(*Error)
		return own != nil
	})
	return own
}

// canceled reports whether a chain holds the end of a context.
func canceled(err error) bool {
	return inChain(err, func(e error) bool {
		if e == context.Canceled || e == context.DeadlineExceeded {
			return true
		}
		is, ok := e.(interface{ Is(error) bool })
		return ok && (is.Is(context.Canceled) || is.Is(context.DeadlineExceeded))
	})
}

// fromError reads one chain of wrapped errors and reports whether an error with
// the look of a provider's answer was in it.
func (ev *evidence) fromError(err error) bool {
	found := false
	said := false
	for e, n := err, 0; e != nil && n < maxChain; n++ {
		if ok, text := ev.fromFields(e); ok {
			found = true
			said = said || text
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = u.Unwrap()
	}
	if !said {
		ev.empty = found
		ev.fromText(errorText(err))
	}
	return found
}

// errorText is err.Error(), or "" if that panics, as the errors of generated
// clients do when they carry no request.
func errorText(err error) (s string) {
	defer func() {
		if recover() != nil {
			s = ""
		}
	}()
	return clip(err.Error(), bodyCap)
}

// fromFields reads the exported fields and methods that the errors of client
// libraries have. ok: this is such an error; said: it carried a body or a text.
func (ev *evidence) fromFields(err error) (ok, said bool) {
	defer func() { _ = recover() }() // a method of a foreign type on a half-filled value
	v := reflect.ValueOf(err)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return false, false
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return false, false
	}
	status, hasStatus := intField(v, "HTTPStatusCode")
	if !hasStatus {
		status, hasStatus = intField(v, "StatusCode")
	}
	if !hasStatus {
		switch m := err.(type) {
		case interface{ HTTPStatusCode() int }:
			status, hasStatus = m.HTTPStatusCode(), true
		case interface{ StatusCode() int }:
			status, hasStatus = m.StatusCode(), true
		}
	}
	raw, isRaw := err.(interface{ RawJSON() string })
	if !hasStatus && !isRaw {
		return false, false
	}
	ok = true
	if ev.status == 0 {
		ev.status = status
	}
	if r, is := field(v, "Request").(*http.Request); is && r != nil && r.URL != nil {
		ev.host(r.URL.Hostname())
	}
	if r, is := field(v, "Response").(*http.Response); is && r != nil {
		if ev.status == 0 {
			ev.status = r.StatusCode
		}
		ev.headers(r.Header)
	}
	for _, name := range []string{"Code", "Type"} {
		if s := scalar(field(v, name)); s != "" {
			ev.addCode(s)
		}
	}
	if isRaw {
		if s := raw.RawJSON(); s != "" {
			ev.fromBody([]byte(clip(s, bodyCap)))
			said = true
		}
	}
	switch b := field(v, "Body").(type) {
	case []byte:
		if len(b) > 0 {
			ev.fromBody(b)
			said = true
		}
	case string:
		if b != "" {
			ev.fromBody([]byte(clip(b, bodyCap)))
			said = true
		}
	}
	if s := scalar(field(v, "Message")); s != "" {
		ev.fromText(s)
		said = true
	}
	if !said && isRaw {
		if d, is := err.(interface{ DumpResponse(bool) []byte }); is {
			if dump := d.DumpResponse(true); len(dump) > 0 {
				ev.fromDump(dump)
				said = true
			}
		}
	}
	return ok, said
}

// fromDump reads an HTTP answer as text, headers first.
func (ev *evidence) fromDump(dump []byte) {
	text := string(dump[:min(len(dump), bodyCap)])
	if _, body, ok := strings.Cut(text, "\r\n\r\n"); ok {
		text = body
	}
	ev.fromBody([]byte(text))
}

func field(v reflect.Value, name string) any {
	f := v.FieldByName(name)
	if !f.IsValid() || !f.CanInterface() {
		return nil
	}
	return f.Interface()
}

func intField(v reflect.Value, name string) (int, bool) {
	f := v.FieldByName(name)
	if !f.IsValid() || !f.CanInt() {
		return 0, false
	}
	return int(f.Int()), true
}

// scalar is the text of a string or of a number, of whatever named type.
func scalar(x any) string {
	if x == nil {
		return ""
	}
	v := reflect.ValueOf(x)
	switch {
	case v.Kind() == reflect.String:
		return v.String()
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case v.CanFloat():
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	return ""
}

// headers reads how long to wait.
func (ev *evidence) headers(h http.Header) {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		ev.wait(time.Duration(ms * float64(time.Millisecond)))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		ev.wait(time.Duration(s * float64(time.Second)))
	}
}

// wait keeps the first plausible waiting time.
func (ev *evidence) wait(d time.Duration) {
	if ev.retryAfter == 0 && d > 0 && d <= 31*24*time.Hour {
		ev.retryAfter = d
	}
}
